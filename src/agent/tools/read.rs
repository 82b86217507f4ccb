//! `work_queue_read` (jobs.md 4.5).

use std::cmp::Ordering;

use super::{Toolbox, named, text};
use crate::engine::Projection;
use crate::engine::schedule::comparison::Comparison;
use crate::engine::schedule::explain::reason_label;
use crate::engine::state::{Installed, WorkState};
use crate::protocol::json::{Members, Value, Writer};
use crate::protocol::{Fault, PoolName, Wire, WorkId};

/// Pool of a read that names none.
const DEFAULT_POOL: &str = "default";
/// Work of a page unless it is said.
const DEFAULT_LIMIT: usize = 32;

/// What is compared for display.
#[derive(Clone, Copy)]
enum Key {
    Id,
    Enqueued,
    IdLength,
}

/// A read as it was asked.
struct Ask {
    pool: PoolName,
    work: Option<WorkId>,
    limit: usize,
    offset: usize,
    sort: Vec<(Key, bool)>,
}

impl Ask {
    fn of(arguments: &Value) -> Result<Self, Fault> {
        let number = |name: &str, default: usize| {
            arguments.get(name).and_then(Value::as_integer).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        let term = |term: &Value| {
            let key = match text(term, "key") {
                Some("enqueued") => Key::Enqueued,
                Some("id_length") => Key::IdLength,
                _ => Key::Id,
            };
            (key, text(term, "direction") == Some("desc"))
        };
        let sort = match arguments.get("sort") {
            Some(Value::Array(terms)) => terms.iter().map(term).collect(),
            _ => Vec::new(),
        };
        Ok(Self {
            pool: named(arguments, "pool", PoolName::new)?.map_or_else(|| PoolName::new(DEFAULT_POOL), Ok)?,
            work: named(arguments, "work", WorkId::new)?,
            limit: number("limit", DEFAULT_LIMIT),
            offset: number("offset", 0),
            sort,
        })
    }

    fn order(&self, a: &WorkState, b: &WorkState) -> Ordering {
        let mut order = Ordering::Equal;
        for (key, descending) in &self.sort {
            let (left, right) = (a.work.work_id.as_str(), b.work.work_id.as_str());
            let by = match key {
                Key::Id => left.cmp(right),
                Key::Enqueued => a.work.enqueued.cmp(&b.work.enqueued),
                Key::IdLength => left.chars().count().cmp(&right.chars().count()),
            };
            order = order.then(if *descending { by.reverse() } else { by });
        }
        order.then(a.position.cmp(&b.position))
    }
}

/// Names and how often each was met.
type Counts = std::collections::BTreeMap<&'static str, i64>;

fn write_counts(counts: &Counts, writer: &mut Writer) {
    writer.object(|members| counts.iter().for_each(|(name, count)| members.name(name, |w| w.integer(*count))));
}

fn write_optional<T: Wire>(value: Option<&T>, writer: &mut Writer) {
    match value {
        Some(value) => value.write(writer),
        None => writer.raw("null"),
    }
}

fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Toolbox<'_> {
    /// One page of Work, counts and the next selection, all from the snapshot.
    pub(super) fn read(&self, arguments: &Value) -> Result<String, Fault> {
        let ask = Ask::of(arguments)?;
        tracing::debug!(target: "work-queue:mcp", "snapshot.read.start");
        let Some(projection) = &self.view.projection else { return Ok(self.read_nothing(&ask)) };
        let installed = projection.rules()?;
        // An unknown pool is refused before anything is counted.
        let comparison = projection.compare_pool(ask.pool.as_str(), self.view.snapshot.captured_at)?;
        let mut found: Vec<&WorkState> = projection.works().filter(|state| self.is_candidate(&ask, state)).collect();
        let counts = self.count(projection, &ask, &found);
        found.sort_by(|a, b| ask.order(a, b));
        let total = found.len();
        let page: Vec<&WorkState> = found.into_iter().skip(ask.offset).take(ask.limit).collect();
        let mut writer = Writer::new();
        writer.object(|members| {
            self.provenance(members);
            members.name("fairness_units", |w| w.string("durable_claims"));
            counts.write(members);
            members.name("policy", |w| write_policy(installed, &ask.pool, w));
            members.name("policy_mode", |w| installed.policy.mode.write(w));
            members.name("prediction", |w| self.write_prediction(comparison, w));
            members.name("queue_state", |w| w.string("initialized"));
            page_members(&ask, total, page.len(), members);
            if let Some(id) = &ask.work {
                let state = projection.work(id.as_str()).filter(|state| self.is_candidate(&ask, state));
                write_asked(id, state.map_or("absent", WorkState::state), members);
            }
            members.name("works", |w| w.array(page, |w, state| self.write_item(projection, state, w)));
        });
        tracing::debug!(
            target: "work-queue:mcp", total, offset = ask.offset, limit = ask.limit, reservations = counts.outstanding,
            "snapshot.read.complete"
        );
        Ok(writer.finish())
    }

    /// The answer about a queue that does not exist yet.
    fn read_nothing(&self, ask: &Ask) -> String {
        let mut writer = Writer::new();
        writer.object(|members| {
            self.provenance(members);
            members.name("fairness_units", |w| w.string("durable_claims"));
            Tally::default().write(members);
            members.name("policy", |w| w.raw("null"));
            members.name("policy_mode", |w| w.raw("null"));
            members.name("prediction", |w| {
                w.raw(r#"{"authoritative":false,"reason":"queue_uninitialized","work_id":null}"#);
            });
            members.name("queue_state", |w| w.string("uninitialized"));
            page_members(ask, 0, 0, members);
            if let Some(id) = &ask.work {
                write_asked(id, "absent", members);
            }
            members.name("works", |w| w.raw("[]"));
        });
        writer.finish()
    }

    fn is_candidate(&self, ask: &Ask, state: &WorkState) -> bool {
        state.work.pool == ask.pool
            && ask.work.as_ref().is_none_or(|work| *work == state.work.work_id)
            && self.shows(state.work.work_id.as_str())
    }

    /// Counts over all candidates, whatever the page.
    fn count(&self, projection: &Projection, ask: &Ask, found: &[&WorkState]) -> Tally {
        let mut tally = Tally::default();
        for state in found {
            *tally.states.entry(state.state()).or_default() += 1;
            *tally.barriers.entry(state.barrier().as_str()).or_default() += 1;
        }
        for claim in projection.claims().filter(|claim| self.is_candidate(ask, projection.work_of(claim))) {
            *tally.claims.entry(claim.status.as_str()).or_default() += 1;
        }
        for dispatch in projection.dispatches().filter(|dispatch| !dispatch.released) {
            let work = |id: &WorkId| projection.work(id.as_str()).is_some_and(|state| self.is_candidate(ask, state));
            if dispatch.assignment.claims.iter().any(|member| work(&member.work_id)) {
                tally.outstanding += 1;
                tally.unbound += i64::from(dispatch.run.is_none());
            }
        }
        tally
    }

    /// The next selection. Work that may not be shown is not named, and neither are the keys of others then.
    fn write_prediction(&self, mut comparison: Comparison, writer: &mut Writer) {
        let label = comparison.label.unwrap_or(reason_label(comparison.selection.reason));
        let selected = comparison.selection.work_id.take();
        let shown = selected.filter(|id| self.shows(id.as_str()));
        if self.visible.is_some() {
            comparison.keys.clear();
            if shown.is_none() {
                (comparison.chosen, comparison.position) = (None, None);
            }
        }
        writer.object(|members| {
            members.name("authoritative", |w| w.bool(false));
            members.name("comparison", |w| comparison.write(w));
            members.name("label", |w| w.string(label));
            members.name("reason", |w| w.string(comparison.selection.reason));
            members.name("work_id", |w| write_optional(shown.as_ref(), w));
        });
    }

    fn write_item(&self, projection: &Projection, state: &WorkState, writer: &mut Writer) {
        let work = &state.work;
        let mut view = projection.view_work(state, self.view.snapshot.captured_at, None);
        self.redact(&mut view);
        let entry = projection.registry.entry(work.pool.as_str(), work.worker_profile.as_str());
        let owner = projection.owner_of(state).map(|claim| &claim.claim.claim_id);
        writer.object(|members| {
            view.members(state, members);
            if let Some(contract) = &state.admission_contract {
                members.name("admission_contract", |w| contract.write(w));
            }
            members.name("attempts", |w| w.integer(i64::from(state.attempts)));
            members.name("barrier", |w| w.string(state.barrier().as_str()));
            members.name("claim_id", |w| write_optional(owner, w));
            if let Some(entry) = entry {
                let available = entry.revisions.get(&entry.current_ref).is_some_and(|revision| revision.available);
                members.name("deployment", |w| {
                    w.object(|members| {
                        members.name("available", |w| w.bool(available));
                        members.name("current_contract", |w| entry.current_contract.write(w));
                        members.name("current_ref", |w| entry.current_ref.write(w));
                    });
                });
            }
            members.name("enqueued", |w| work.enqueued.write(w));
            if let Some(pin) = &work.execution_ref {
                members.name("execution_ref", |w| pin.write(w));
            }
            members.name("id", |w| work.work_id.write(w));
            if let Some(contract) = &work.logical_contract {
                members.name("logical_contract", |w| contract.write(w));
            }
            members.name("pool", |w| work.pool.write(w));
            members.name("retry_not_before", |w| state.retry_not_before.write(w));
            members.name("state", |w| w.string(state.state()));
            members.name("worker_profile", |w| work.worker_profile.write(w));
        });
    }
}

/// How many of what are among the candidates.
#[derive(Default)]
struct Tally {
    states: Counts,
    claims: Counts,
    barriers: Counts,
    outstanding: i64,
    unbound: i64,
}

impl Tally {
    fn write(&self, members: &mut Members<'_>) {
        members.name("barrier_counts", |w| write_counts(&self.barriers, w));
        members.name("claim_counts", |w| write_counts(&self.claims, w));
        members.name("counts", |w| write_counts(&self.states, w));
        members.name("native_reservations", |w| {
            w.object(|members| {
                members.name("outstanding", |w| w.integer(self.outstanding));
                members.name("unbound", |w| w.integer(self.unbound));
            });
        });
    }
}

fn page_members(ask: &Ask, total: usize, shown: usize, members: &mut Members<'_>) {
    let next = ask.offset.saturating_add(ask.limit);
    members.name("next_offset", |w| if shown > 0 && next < total { w.integer(count(next)) } else { w.raw("null") });
    members.name("offset", |w| w.integer(count(ask.offset)));
    members.name("total", |w| w.integer(count(total)));
}

fn write_asked(id: &WorkId, state: &str, members: &mut Members<'_>) {
    members.name("work", |w| {
        w.object(|members| {
            members.name("id", |w| id.write(w));
            members.name("state", |w| w.string(state));
        });
    });
}

/// The bounds and weights that selections of the pool follow. It names no accounting key: an item shows its own.
fn write_policy(installed: &Installed, pool: &PoolName, writer: &mut Writer) {
    let policy = &installed.policy;
    writer.object(|members| {
        members.name("accounting_keys", |w| w.integer(count(policy.accounting.len())));
        members.name("class_weights", |w| w.array(&policy.class_weights, |w, weight| weight.write(w)));
        members.name("epoch", |w| installed.epoch.write(w));
        members.name("mode", |w| policy.mode.write(w));
        if let Some(pool) = policy.pools.get(pool) {
            members.name("logical_limit", |w| pool.logical_limit.write(w));
            members.name("native_limit", |w| pool.native_limit.write(w));
            members.name("per_account_limit", |w| write_optional(pool.per_account_limit.as_ref(), w));
            members.name("worker_profiles", |w| w.array(pool.profiles.keys(), |w, name| name.write(w)));
        }
    });
}
