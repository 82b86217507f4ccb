//! `wq dispatch-next`.

use super::access::Access;
use super::gates::Readers;
use super::prediction::bound;
use super::publish::{Published, freeze};
use super::source::{request_id, scanner};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::engine::schedule::explain::{SelectionView, reason_label};
use crate::engine::schedule::{PlanInputs, plan};
use crate::engine::state::{Accepted, ClaimState};
use crate::launch::observe::held_back;
use crate::ledger::Outcome;
use crate::ledger::publisher::Decide;
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::actor::Role;
use crate::protocol::commit::Commit;
use crate::protocol::json::Writer;
use crate::protocol::operation::Operation;
use crate::protocol::request::{DispatchParameters, Parameters, RequestKind};
use crate::protocol::{Code, Fault, PoolName, Wire as _};
use crate::report::label;

/// Grant the scheduler's next assignments and reserve their dispatches. No flag can name the Work.
///
/// On GitHub no job launches what an operator grants here, and its reservation is freed by no sweep: there, start a
/// dispatcher with `wq dispatch` instead. Nothing is launched: a reservation is no run. Nothing to grant is a success with a reason (exit 0).
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Pool, 1 to 256 bytes.
    #[arg(long, value_name = "POOL", default_value = "default")]
    pool: String,
    /// Most Claims, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=256))]
    max_claims: i64,
    /// Most dispatches, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=256))]
    max_dispatches: i64,
    /// Most canonical bytes of one assignment, 1 to 49152; the Policy's own limit holds beside it.
    #[arg(long, value_name = "N", default_value_t = 49_152, value_parser = clap::value_parser!(i64).range(1..=49_152))]
    max_bytes: i64,
}

/// A grant or the lack of one, told the same way whether it was just made or found again.
struct Told<'p> {
    projection: &'p Projection,
    claims: &'p [ClaimState],
    /// What ended the fair prefix.
    reason: &'static str,
    next: SelectionView,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let access = Access::open(global)?;
    let parameters = DispatchParameters {
        pool: PoolName::new(args.pool.clone()).map_err(|fault| Failure::flag(&fault, "--pool"))?,
        max_claims: bound(args.max_claims, "--max-claims")?,
        max_dispatches: bound(args.max_dispatches, "--max-dispatches")?,
        max_bytes: bound(args.max_bytes, "--max-bytes")?,
        worker_profiles: None,
    };
    let actor = access.actor(Role::Administrator)?;
    let request = freeze(&request_id(global)?, RequestKind::DispatchNext, &actor, &parameters.canonical())?;
    let readers = Readers::of(&access)?;
    let mut held = None;
    let decide: &mut Decide<'_> = &mut |projection, scanner, at| match &readers {
        Some(readers) => {
            let observations = readers.refresh(projection, &parameters, actor.role)?;
            held = held_back(&observations);
            // What was seen just now must not be newer than the decision that rests on it.
            Ok(projection.decide(scanner, &request, SystemClock.now(), &observations)?)
        }
        None => Ok(projection.decide(scanner, &request, at, &[])?),
    };
    let publication = access.publisher()?.publish(&request, None, decide).map_err(|error| {
        // Replay names a line; without one it is the request that asks for what is not installed.
        let asked = error.code() == Code::PolicyInvalid && error.line().is_none();
        let failure = Failure::from(error);
        if asked { failure.at_request() } else { failure }
    })?;
    let published = Published::new(request.id.clone(), publication);
    let mut told = told(&published)?;
    // A queue whose gates hold it back is not an empty one.
    told.reason = held.filter(|_| told.reason == "no_eligible_work").unwrap_or(told.reason);
    Ok(Reply::done(if global.json { json(&published, &told) } else { text(&published, &told) }))
}

fn told(published: &Published) -> Result<Told<'_>, Failure> {
    let publication = &published.publication;
    let projection = &publication.current.projection;
    let claims: &[ClaimState] =
        projection.request(published.id.as_str()).map_or(&[], |accepted| projection.granted(accepted));
    let (reason, next) = match &publication.outcome {
        Outcome::PublishedNow { stopped: Some((reason, next)), .. } => (*reason, next.clone()),
        Outcome::Nothing { reason, next } => (*reason, next.clone()),
        _ => {
            let missing = || Failure::from(Fault::from(Code::Internal));
            let accepted = projection.request(published.id.as_str()).ok_or_else(missing)?;
            decided(projection, accepted)?
        }
    };
    Ok(Told { projection, claims, reason, next })
}

/// What ended the fair prefix of a committed grant: the same plan, made again on the state before it. A grant that a
/// checkpoint replaced can only be told to be one.
fn decided(projection: &Projection, accepted: &Accepted) -> Result<(&'static str, SelectionView), Failure> {
    let Some(source) = accepted.source.commit() else {
        return Ok(("request_replayed", SelectionView::refused("request_replayed")));
    };
    let mut scanner = scanner()?;
    let before = projection.active().take_while(|earlier| *earlier != source).count();
    let state = projection.prefix(&mut scanner, before)?;
    let commit = Commit::read(&mut scanner, source.text())?;
    let Parameters::Dispatch(parameters) = &commit.request.parameters else {
        return Err(Fault::from(Code::Internal).into());
    };
    let preceding = commit.operations.iter().filter(|operation| matches!(operation, Operation::Observation(_))).count();
    let inputs = PlanInputs {
        parameters,
        request_id: &commit.request.id,
        commit_id: &commit.id,
        at: commit.at,
        preceding_operations: preceding,
    };
    let plan = plan(&state, &inputs)?;
    Ok((plan.reason, plan.next))
}

impl Told<'_> {
    /// The Work that stands first and did not fit, where the prefix ended at one.
    fn blocked(&self) -> Option<&str> {
        let blocks = self.reason.ends_with("_blocked") && self.reason != "operation_budget_blocked";
        self.next.work_id.as_ref().filter(|_| blocks).map(|id| id.as_str())
    }

    fn dispatches(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = Vec::new();
        for claim in self.claims {
            if !ids.contains(&claim.claim.dispatch_id.as_str()) {
                ids.push(claim.claim.dispatch_id.as_str());
            }
        }
        ids
    }
}

fn json(published: &Published, told: &Told<'_>) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        published.members(members);
        members.name("assignments", |w| {
            w.array(told.dispatches(), |w, id| write_assignment(told.projection, id, w));
        });
        members.name("blocked_work_id", |w| match told.blocked() {
            Some(id) => w.string(id),
            None => w.raw("null"),
        });
        members.name("claims", |w| w.array(told.claims, |w, claim| write_claim(told.projection, claim, w)));
        members.name("label", |w| w.string(reason_label(told.reason)));
        members.name("next", |w| told.next.write(w));
        members.name("reason", |w| w.string(told.reason));
        members.name("status", |w| w.string(if told.claims.is_empty() { "no_grant" } else { "granted" }));
    });
    writer.finish()
}

fn write_assignment(projection: &Projection, id: &str, writer: &mut Writer) {
    writer.object(|members| {
        members.name("dispatch_id", |w| w.string(id));
        if let Some(dispatch) = projection.dispatch(id) {
            let assignment = &dispatch.assignment;
            members.name("claims", |w| super::work_view::write_members(assignment, w));
            members.name("pool", |w| assignment.pool.write(w));
            members.name("policy_epoch", |w| assignment.policy_epoch.write(w));
            members.name("ref", |w| dispatch.profile.revision.write(w));
            members.name("worker_profile", |w| assignment.worker_profile.write(w));
            members.name("workflow", |w| dispatch.profile.workflow.write(w));
        }
    });
}

fn write_claim(projection: &Projection, claim: &ClaimState, writer: &mut Writer) {
    let (work, explanation) = (projection.work_of(claim), &claim.explanation);
    writer.object(|members| {
        members.name("claim_id", |w| claim.claim.claim_id.write(w));
        members.name("class_pass", |w| w.string(&explanation.class_pass.to_string()));
        members.name("dispatch_id", |w| claim.claim.dispatch_id.write(w));
        members.name("fairness_key", |w| work.work.fairness_key.write(w));
        members.name("graph_id", |w| work.work.graph_id.write(w));
        members.name("handle", |w| claim.claim.handle.write(w));
        members.name("key_pass", |w| w.string(&explanation.key_pass.to_string()));
        if let Some(label) = explanation.label {
            members.name("label", |w| w.string(label));
        }
        members.name("node_key", |w| work.work.node_key.write(w));
        members.name("pool", |w| work.work.pool.write(w));
        members.name("priority", |w| explanation.priority.write(w));
        members.name("work_id", |w| claim.claim.work_id.write(w));
    });
}

fn text(published: &Published, told: &Told<'_>) -> String {
    let (claims, dispatches) = (told.claims.len(), told.dispatches().len());
    let mut out = format!("Fair prefix: {claims} Claims, {dispatches} reserved assignments; {}\n", told.reason);
    for claim in told.claims {
        let work = told.projection.work_of(claim);
        out.push_str(&format!(
            "  {} node={} key={} priority={} claim={} dispatch={}\n",
            label(claim.claim.work_id.as_str()),
            label(work.work.node_key.as_str()),
            label(work.work.fairness_key.as_str()),
            claim.explanation.priority.get(),
            label(claim.claim.claim_id.as_str()),
            label(claim.claim.dispatch_id.as_str()),
        ));
    }
    if let Some(blocked) = told.blocked() {
        out.push_str(&format!("first in line and held back: {}\n", label(blocked)));
    }
    out.push_str(&published.line());
    out
}
