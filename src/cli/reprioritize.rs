//! `wq reprioritize`.

use super::administer::{Administered, Intent, administer};
use super::recall::expected_priorities;
use super::targets::{absent, distinct, reason};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::engine::state::Accepted;
use crate::launch::step::listed;
use crate::protocol::actor::Actor;
use crate::protocol::json::Writer;
use crate::protocol::operation::{Operation, WorkPriority};
use crate::protocol::request::{RequestKind, fingerprint};
use crate::protocol::{Code, Priority, Reason, Wire as _, WorkId};
use crate::report::label;

/// Set the priority of available Work for future grants, all of it or none.
///
/// The priority that each Work has now is read first and compared when the change is committed; a grant or another
/// change in between refuses the whole request. The admitted definition, the position in the queue, the retry
/// boundary and earlier charges stay.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Work to reprioritize, 1 to 256 different ids, repeated or separated by commas.
    #[arg(long, value_name = "ID", required = true, value_delimiter = ',')]
    work_id: Vec<String>,
    /// Priority class, 1 (first) to 5.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=5))]
    priority: i64,
    /// Why, a code of 1 to 128 of [A-Za-z0-9_.:-], such as operator_reprioritized.
    #[arg(long, value_name = "CODE")]
    reason: String,
}

struct Reprioritize {
    works: Vec<WorkId>,
    priority: Priority,
    reason: Reason,
}

impl Reprioritize {
    /// The changes, for expected priorities in the order of the targets.
    fn operations(&self, expected: &[Priority]) -> Vec<Operation> {
        let change = |(work_id, expected): (&WorkId, &Priority)| {
            Operation::WorkPriority(WorkPriority {
                work_id: work_id.clone(),
                reason: self.reason.clone(),
                priority: self.priority,
                expected_priority: *expected,
            })
        };
        self.works.iter().zip(expected).map(change).collect()
    }
}

impl Intent for Reprioritize {
    const KIND: RequestKind = RequestKind::Control;

    fn resolve(&self, projection: &Projection) -> Result<Vec<Operation>, Failure> {
        let priority = |work_id: &WorkId| {
            let missing = || absent(Code::WorkMissing, "Work", work_id.as_str());
            Ok(projection.work(work_id.as_str()).ok_or_else(missing)?.scheduling_priority())
        };
        let expected = self.works.iter().map(priority).collect::<Result<Vec<_>, Failure>>()?;
        Ok(self.operations(&expected))
    }

    fn recall(
        &self,
        projection: &Projection,
        accepted: &Accepted,
        actor: &Actor,
    ) -> Result<Option<Vec<Operation>>, Failure> {
        let actor = actor.canonical();
        let expected = expected_priorities(projection, accepted, &self.works, |expected| {
            fingerprint(&actor, Self::KIND, &listed(&self.operations(expected))) == accepted.fingerprint
        })?;
        Ok(expected.map(|expected| self.operations(&expected)))
    }

    /// The expected priority is what an earlier read found, so it is not compared.
    fn asked_for(&self, operations: &[Operation]) -> bool {
        operations.len() == self.works.len()
            && operations.iter().zip(&self.works).all(|(operation, work_id)| {
                matches!(operation, Operation::WorkPriority(change)
                    if change.work_id == *work_id && change.priority == self.priority && change.reason == self.reason)
            })
    }
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let intent = Reprioritize {
        works: distinct("--work-id", &args.work_id, WorkId::new)?,
        priority: Priority::new(args.priority).map_err(|fault| Failure::flag(&fault, "--priority"))?,
        reason: reason(&args.reason)?,
    };
    let administered = administer(global, &intent)?;
    let body = if global.json { json(&administered, &intent) } else { text(&administered, &intent) };
    Ok(Reply::done(body))
}

fn change(operation: &Operation) -> Option<&WorkPriority> {
    match operation {
        Operation::WorkPriority(change) => Some(change),
        _ => None,
    }
}

fn changes(administered: &Administered) -> Vec<&WorkPriority> {
    administered.operations.iter().filter_map(change).collect()
}

fn json(administered: &Administered, intent: &Reprioritize) -> String {
    let projection = &administered.published.publication.current.projection;
    let changes = changes(administered);
    let mut writer = Writer::new();
    writer.object(|members| {
        administered.published.members(members);
        members.name("count", |w| w.integer(changes.len() as i64));
        members.name("priority", |w| intent.priority.write(w));
        members.name("reason", |w| intent.reason.write(w));
        members.name("reprioritized", |w| w.array(&changes, |w, change| write(projection, change, w)));
        members.name("status", |w| w.string("reprioritized"));
    });
    writer.finish()
}

fn write(projection: &Projection, change: &WorkPriority, writer: &mut Writer) {
    writer.object(|members| {
        if let Some(state) = projection.work(change.work_id.as_str()) {
            members.name("admitted_priority", |w| state.work.priority.write(w));
            // As it stands now, which a repeated request may find changed again.
            members.name("effective_priority", |w| state.scheduling_priority().write(w));
            members.name("graph_id", |w| state.work.graph_id.write(w));
            members.name("node_key", |w| state.work.node_key.write(w));
            members.name("state", |w| w.string(state.state()));
        }
        members.name("expected_priority", |w| change.expected_priority.write(w));
        members.name("priority", |w| change.priority.write(w));
        members.name("work_id", |w| change.work_id.write(w));
    });
}

fn text(administered: &Administered, intent: &Reprioritize) -> String {
    let projection = &administered.published.publication.current.projection;
    let changes = changes(administered);
    let mut out = format!("priority {} for {} Work\n", intent.priority.get(), changes.len());
    for change in changes {
        let key = projection.work(change.work_id.as_str()).map_or("", |state| state.work.node_key.as_str());
        let (work_id, before) = (label(change.work_id.as_str()), change.expected_priority.get());
        out.push_str(&format!("  {work_id} node={} before={before}\n", label(key)));
    }
    out.push_str("for future grants; positions, retry boundaries and the debt of earlier charges stay\n");
    out.push_str(&administered.published.line());
    out
}
