//! The logical snapshot of a projection (engine.md 3.12.1).

use crate::engine::state::{ClaimStatus, Delivery, Ownership, Projection};
use crate::protocol::compressed::deflate;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Members, Scanner, Writer};
use crate::protocol::limits::{MAX_ARRAY, MAX_RECEIPT_BYTES};
use crate::protocol::{CommitId, Digest, Fault, Wire as _};

/// Key of the receipts in the logical snapshot.
const REQUESTS: &str = "\"requests\":";

/// The canonical text of a logical snapshot, split around its receipts. At most of the order of the ledger's size.
#[derive(Clone, Debug)]
pub struct Snapshot {
    before: String,
    requests: String,
    after: String,
}

impl Snapshot {
    /// `state_sha256`: the digest of the logical snapshot.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&[&self.before, REQUESTS, &self.requests, &self.after])
    }

    /// The logical snapshot's canonical text.
    #[must_use]
    pub fn text(&self) -> String {
        [&self.before, REQUESTS, &self.requests, &self.after].concat()
    }

    /// The `state` member of a Checkpoint: the snapshot with its receipts compressed (engine.md 3.12.3).
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.raw(&self.before);
        writer.raw("\"requests_compressed\":\"");
        writer.raw(&deflate(&self.requests));
        writer.raw("\"");
        writer.raw(&self.after);
    }
}

impl Projection {
    /// The logical snapshot of this state. Reads every line of the active chain once more for its receipt.
    ///
    /// # Errors
    /// `resource_limit` for more receipts than an array of the wire holds (16,384) or than 64 MiB of them, which no
    /// reader of the checkpoint would take.
    pub fn snapshot(&self, scanner: &mut Scanner) -> Result<Snapshot, Fault> {
        ensure!(self.requests.len() <= MAX_ARRAY, ResourceLimit, "a checkpoint keeps at most 16384 requests");
        let mut writer = Writer::new();
        self.write_receipts(scanner, &mut writer)?;
        let requests = writer.finish();
        ensure!(requests.len() <= MAX_RECEIPT_BYTES, ResourceLimit, "the receipts of a checkpoint exceed 64 MiB");
        let mut writer = Writer::new();
        // Members are written in key order, so nothing moves afterwards and the place of the receipts stays known.
        let mut place = 0;
        writer.object(|members| {
            self.members_to_requests(members);
            members.name("requests", |w| place = w.len());
            self.members_from_requests(members);
        });
        let text = writer.finish();
        let before = text[..place - REQUESTS.len()].to_owned();
        Ok(Snapshot { before, requests, after: text[place..].to_owned() })
    }

    fn members_to_requests(&self, members: &mut Members<'_>) {
        members.name("admission_paused", |w| w.bool(self.admission_paused));
        members.name("cancellations", |w| self.write_cancellations(w));
        members.name("claims", |w| self.write_claims(w));
        members.name("clocks", |w| {
            self.write_clocks(w, |clocks| {
                !(clocks.classes.is_untouched() && clocks.keys.iter().flatten().all(|clock| clock.is_untouched()))
            });
        });
        members.name("completion_times", |w| {
            w.object(|members| {
                for state in &self.works {
                    if let Ownership::Completed { completion_at, .. } = &state.ownership {
                        members.text(state.work.work_id.text(), |w| completion_at.write(w));
                    }
                }
            });
        });
        members.name("credential_generation", |w| self.generation.write(w));
        if !self.registry.0.is_empty() {
            members.name("deployments", |w| self.registry.write(w));
        }
        members.name("dispatches", |w| self.write_dispatches(w));
        members.name("grants_paused", |w| w.bool(self.grants_paused));
        members.name("last_at", |w| w.integer(self.requests.last().map_or(0, |last| last.at.get())));
        members.name("ledger_bytes", |w| w.integer(self.ledger_bytes as i64));
        members.name("observation_ids", |w| {
            w.object(|members| {
                for (id, observation) in &self.observation_ids {
                    members.text(id.text(), |w| observation.write(w));
                }
            });
        });
        members.name("observation_writes", |w| self.write_observation_writes(w));
        members.name("observations", |w| self.write_observations(w));
        members.name("policy", |w| self.write_policy(w));
        members.name("policy_epoch", |w| w.string(self.epoch_text()));
        members.name("repository", |w| w.string(self.repository.as_ref().map_or("", |name| name.as_str())));
    }

    fn members_from_requests(&self, members: &mut Members<'_>) {
        members.name("seen_epochs", |w| {
            w.object(|members| self.seen_epochs.iter().for_each(|epoch| members.text(epoch.text(), |w| w.bool(true))));
        });
        members.name("seen_generations", |w| {
            w.object(|members| {
                self.seen_generations.iter().for_each(|seen| members.text(seen.text(), |w| w.bool(true)));
            });
        });
        members.name("stats", |w| w.object(|members| self.stats().members(members)));
        members.name("terminal_barriers", |w| self.write_barriers(w));
        members.name("tip", |w| w.string(self.tip.as_ref().map_or("", CommitId::as_str)));
        members.name("works", |w| self.write_works(w));
    }

    /// Cancellations of Claims by Claim id and of Work by Work id, in one map.
    fn write_cancellations(&self, writer: &mut Writer) {
        writer.object(|members| {
            for claim in &self.claims {
                if let ClaimStatus::Cancelled { operation, .. } = &claim.status {
                    members.text(claim.claim.claim_id.text(), |w| operation.write(w));
                }
            }
            for state in &self.works {
                if let Ownership::Cancelled { operation, .. } = &state.ownership {
                    members.text(state.work.work_id.text(), |w| operation.write(w));
                }
            }
        });
    }

    /// The Result or DeliveryFailure that settled each Work, and the Results of rounds by their Claims.
    fn write_barriers(&self, writer: &mut Writer) {
        writer.object(|members| {
            for claim in &self.claims {
                if let Some((operation, _)) = claim.status.round().and_then(|round| round.settled.as_ref()) {
                    members.text(claim.claim.claim_id.text(), |w| operation.write(w));
                }
            }
            for state in &self.works {
                let Ownership::Completed { delivery, .. } = &state.ownership else { continue };
                match delivery {
                    Delivery::Pending => {}
                    Delivery::Verified { operation, .. } => {
                        members.text(state.work.work_id.text(), |w| operation.write(w));
                    }
                    Delivery::Failed(operation) => {
                        members.text(state.work.work_id.text(), |w| operation.write(w));
                    }
                }
            }
        });
    }
}
