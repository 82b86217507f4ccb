//! The serialised projection (engine.md 3.2).

use super::schedule::clock::Clock;
use super::schedule::explain::write_position;
use super::schedule::pool::PoolClocks;
use super::state::{ClaimState, ClaimStatus, Delivery, DispatchState, Ownership, Projection, Source, Stats, WorkState};
use crate::protocol::json::{Members, Writer};
use crate::protocol::{FairnessKey, Text, Wire as _};

impl Projection {
    /// The canonical text of the serialised projection. Its size is of the order of the ledger's.
    #[must_use]
    pub fn serialise(&self) -> String {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }

    /// Writes the serialised projection.
    pub fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("admission_paused", |w| w.bool(self.admission_paused));
            members.name("claims", |w| self.write_claims(w));
            members.name("clocks", |w| self.write_clocks(w, |_| true));
            members.name("credential_generation", |w| self.generation.write(w));
            if !self.registry.0.is_empty() {
                members.name("deployments", |w| self.registry.write(w));
            }
            members.name("dispatches", |w| self.write_dispatches(w));
            members.name("grants_paused", |w| w.bool(self.grants_paused));
            members.name("ledger_bytes", |w| w.integer(self.ledger_bytes as i64));
            members.name("observation_writes", |w| self.write_observation_writes(w));
            members.name("observations", |w| self.write_observations(w));
            members.name("policy", |w| self.write_policy(w));
            members.name("policy_epoch", |w| w.string(self.epoch_text()));
            members.name("repository", |w| w.string(self.repository.as_ref().map_or("", |name| name.as_str())));
            members.name("requests", |w| {
                w.object(|members| {
                    for (ordinal, accepted) in self.requests.iter().enumerate() {
                        members.text(accepted.request_id.text(), |w| match &accepted.source {
                            Source::Commit(text) => text.write(w),
                            Source::Receipt(text) => self.write_replaced(ordinal as u32, text, w),
                        });
                    }
                });
            });
            members.name("stats", |w| w.object(|members| self.stats().members(members)));
            members.name("tip", |w| w.string(self.tip.as_ref().map_or("", |tip| tip.as_str())));
            members.name("works", |w| self.write_works(w));
        });
    }

    pub(super) fn epoch_text(&self) -> &str {
        self.installed.as_ref().map_or("", |installed| installed.epoch.as_str())
    }

    pub(super) fn write_policy(&self, writer: &mut Writer) {
        match &self.installed {
            Some(installed) => installed.policy.write(writer),
            None => writer.raw("null"),
        }
    }

    pub(super) fn write_claims(&self, writer: &mut Writer) {
        writer.object(|members| {
            for claim in &self.claims {
                members.text(claim.claim.claim_id.text(), |w| write_claim(claim, w));
            }
        });
    }

    pub(super) fn write_dispatches(&self, writer: &mut Writer) {
        writer.object(|members| {
            for dispatch in &self.dispatches {
                members.text(dispatch.assignment.dispatch_id.text(), |w| write_dispatch(dispatch, w));
            }
        });
    }

    pub(super) fn write_observations(&self, writer: &mut Writer) {
        writer.object(|members| {
            for (gate, observation) in &self.observations {
                members.text(gate.text(), |w| observation.write(w));
            }
        });
    }

    pub(super) fn write_observation_writes(&self, writer: &mut Writer) {
        writer.object(|members| {
            for (gate, writes) in &self.observation_writes {
                members.text(gate.text(), |w| w.integer(*writes as i64));
            }
        });
    }

    pub(super) fn write_works(&self, writer: &mut Writer) {
        writer.object(|members| {
            for state in &self.works {
                members.text(state.work.work_id.text(), |w| self.write_work(state, w));
            }
        });
    }

    /// Writes one Work state.
    pub fn write_work(&self, state: &WorkState, writer: &mut Writer) {
        writer.object(|members| {
            state.work.members(members);
            if let Some(contract) = &state.admission_contract {
                members.name("admission_contract", |w| contract.write(w));
            }
            members.name("attempts", |w| w.integer(i64::from(state.attempts)));
            members.name("barrier", |w| w.string(state.barrier().as_str()));
            if let Some(priority) = state.effective_priority {
                members.name("effective_priority", |w| priority.write(w));
            }
            if let Some(link) = &state.issue_link {
                members.name("issue_link", |w| link.write(w));
            }
            if let Some(comment) = &state.issue_summary {
                members.name("issue_summary", |w| comment.write(w));
            }
            members.name("position", |w| write_position(state.position, w));
            members.name("retry_not_before", |w| state.retry_not_before.write(w));
            members.name("state", |w| w.string(state.state()));
            if let Some(owner) = state.owner() {
                members.name("claim_id", |w| self.claim_at(owner).claim.claim_id.write(w));
            }
            match &state.ownership {
                Ownership::Available | Ownership::Claimed(_) => {}
                Ownership::Completed { completion_id, delivery, keep_open, .. } => {
                    members.name("completion_id", |w| completion_id.write(w));
                    if *keep_open {
                        members.name("keep_open", |w| w.bool(true));
                    }
                    match delivery {
                        Delivery::Pending => {}
                        Delivery::Verified { operation, commit_id } => {
                            members.name("result", |w| operation.descriptor.write(w));
                            members.name("result_commit_id", |w| commit_id.write(w));
                        }
                        Delivery::Failed(operation) => {
                            members.name("disposition", |w| operation.disposition.write(w));
                        }
                    }
                }
                Ownership::Cancelled { operation, commit_id, .. } => {
                    members.name("cancellation_commit_id", |w| commit_id.write(w));
                    members.name("cancellation_reason", |w| operation.reason.write(w));
                    if let Some(claim) = &operation.claim_id {
                        members.name("cancellation_claim_id", |w| claim.write(w));
                    }
                }
            }
        });
    }

    pub(super) fn write_clocks(&self, writer: &mut Writer, keep: impl Fn(&PoolClocks) -> bool) {
        let Some(installed) = &self.installed else { return writer.raw("{}") };
        let accounting = &installed.policy.accounting;
        writer.object(|members| {
            for pool in &self.pools {
                let Some(clocks) = pool.clocks.as_ref().filter(|clocks| keep(clocks)) else { continue };
                members.text(pool.name.text(), |w| {
                    w.object(|members| {
                        members.name("classes", |w| write_clock(&clocks.classes, w, class_name));
                        members.name("keys", |w| {
                            w.object(|members| {
                                for (class, clock) in clocks.keys.iter().enumerate() {
                                    if let Some(clock) = clock {
                                        members.text(&class_name(class as u16), |w| {
                                            write_clock(clock, w, |account| account_name(accounting, account));
                                        });
                                    }
                                }
                            });
                        });
                    });
                });
            }
        });
    }
}

fn class_name(class: u16) -> Text {
    Text::from((class + 1).to_string())
}

fn account_name<W>(accounting: &[(FairnessKey, W)], account: u16) -> Text {
    accounting[usize::from(account)].0.text().clone()
}

fn write_clock(clock: &Clock, writer: &mut Writer, name: impl Fn(u16) -> Text) {
    writer.object(|members| {
        members.name("active", |w| {
            w.object(|members| {
                for member in clock.active() {
                    members.text(&name(member), |w| w.bool(true));
                }
            });
        });
        members.name("pass", |w| {
            w.object(|members| {
                for (member, pass) in clock.passes() {
                    members.text(&name(member), |w| w.string(&pass.to_string()));
                }
            });
        });
        members.name("v", |w| w.string(&clock.v().to_string()));
    });
}

/// Writes one Claim state.
pub(crate) fn write_claim(state: &ClaimState, writer: &mut Writer) {
    writer.object(|members| {
        state.claim.members(members);
        members.name("commit_id", |w| state.commit_id.write(w));
        if let Some(comment) = &state.issue_comment {
            members.name("issue_comment", |w| comment.write(w));
        }
        members.name("request_id", |w| state.request_id.write(w));
        members.name("state", |w| w.string(state.status.as_str()));
        match &state.status {
            ClaimStatus::Open => {}
            ClaimStatus::Completed { commit_id, round } => {
                members.name("terminal_commit_id", |w| commit_id.write(w));
                if let Some(round) = round {
                    members.name("keep_open", |w| w.bool(true));
                    if let Some((_, commit_id)) = &round.settled {
                        members.name("result_commit_id", |w| commit_id.write(w));
                    }
                }
            }
            ClaimStatus::Cancelled { operation, commit_id } => {
                members.name("terminal_commit_id", |w| commit_id.write(w));
                members.name("cancellation_reason", |w| operation.reason.write(w));
                members.name("retry_not_before", |w| operation.retry_not_before.write(w));
            }
            ClaimStatus::WorkCancelled { reason, commit_id } => {
                members.name("terminal_commit_id", |w| commit_id.write(w));
                members.name("cancellation_reason", |w| reason.write(w));
            }
        }
    });
}

/// Writes one dispatch state.
pub(crate) fn write_dispatch(state: &DispatchState, writer: &mut Writer) {
    writer.object(|members| {
        state.assignment.members(members);
        members.name("lifecycle_writes", |w| w.integer(i64::from(state.lifecycle_writes)));
        members.name("profile", |w| state.profile.write(w));
        members.name("released", |w| w.bool(state.released));
        members.name("state", |w| w.string(state.phase.as_str()));
        if let Some(sender) = &state.sender {
            members.name("sender", |w| sender.write(w));
        }
        if let Some(principal) = &state.credential_principal {
            members.name("credential_principal", |w| principal.write(w));
        }
        if let Some(run) = &state.run {
            members.name("run", |w| run.write(w));
        }
        if let Some(reason) = &state.reason {
            members.name("reason", |w| reason.write(w));
        }
    });
}

impl Stats {
    /// Adds every count.
    pub fn members(&self, members: &mut Members<'_>) {
        for (name, value) in [
            ("available", self.counts.available),
            ("cancelled", self.counts.cancelled),
            ("claimed", self.counts.claimed),
            ("claims", self.claims),
            ("completed", self.counts.completed),
            ("dispatches", self.dispatches),
            ("nodes", self.nodes),
            ("transactions", self.transactions),
            ("work", self.work),
        ] {
            members.name(name, |w| w.integer(value as i64));
        }
    }
}

impl super::registry::Registry {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            for (pool, entries) in &self.0 {
                members.text(pool.text(), |w| {
                    w.object(|members| {
                        for (profile, entry) in entries {
                            members.text(profile.text(), |w| {
                                w.object(|members| {
                                    members.name("current_contract", |w| entry.current_contract.write(w));
                                    members.name("current_ref", |w| entry.current_ref.write(w));
                                    members.name("revisions", |w| {
                                        w.object(|members| {
                                            for (revision, known) in &entry.revisions {
                                                members.text(revision.text(), |w| {
                                                    w.object(|members| {
                                                        members.name("available", |w| w.bool(known.available));
                                                        members.name("profile", |w| known.profile.write(w));
                                                    });
                                                });
                                            }
                                        });
                                    });
                                });
                            });
                        }
                    });
                });
            }
        });
    }
}
