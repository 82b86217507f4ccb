//! Phase `settle` of the safe outputs (jobs.md 5.2, lifecycle.md 4): each Claim of a worker ends as its worker asked, or is
//! cancelled if the worker said nothing. Completions and cancellations are committed one by one, before any control or
//! effect of this run.

use crate::agent::intent::{FinishError, Finishes, parse_finishes};
use crate::delivery::finish::{MemberState, Settled, Wish, settle, status};
use crate::launch::identity::request_id;
use crate::ledger::Current;
use crate::protocol::actor::Actor;
use crate::protocol::assignment::{Assignment, Member};
use crate::protocol::evidence::RunBinding;
use crate::protocol::fault::ensure;
use crate::protocol::json::Writer;
use crate::protocol::{Code, Digest, Fault, Wire as _};

use super::error::JobError;
use super::given::{Given, is_enabled, is_staged, staged_file};
use super::own_run::OwnRun;
use super::world::World;

/// The output of this phase.
const OUTPUT: &str = "claim_authorizations";
/// The output where the phase fails.
const FAILED: &str = r#"{"claims":{},"status":"failed","version":3}"#;

/// How the Claims of a run stand after their settlement.
#[derive(Clone, Debug, Default)]
pub struct Settlement {
    /// `completed`, `completed_with_cancellations`, `cancelled`, `pending`, `unassigned`, `missing` or `staged_preview`;
    /// empty where the queue is off.
    pub status: &'static str,
    /// The Claims, in the order of the assignment.
    pub members: Vec<Settled>,
    /// Finish lines that do not count.
    pub errors: Vec<FinishError>,
}

/// Settles the Claims of this run and reports them in `claim_authorizations`. A Claim that cannot be settled is
/// `blocked`, and none of its siblings is.
///
/// # Errors
/// Whatever holds for the run as a whole: a malformed snapshot or finish file, a run that is not the assignment's, a later
/// attempt, a queue that cannot be read. The output then says `failed`, and no Claim was touched.
pub fn run(world: &mut World<'_>) -> Result<Settlement, JobError> {
    if !is_enabled(world) {
        return Ok(Settlement::default());
    }
    tracing::debug!(target: "work-queue:claims", "claims.reconcile.start");
    let settled = attempt(world);
    match &settled {
        Ok((settlement, context)) => {
            world.outputs.set(OUTPUT, &document(settlement, context.as_ref()))?;
            let summary = summary(settlement);
            if world.outputs.summary(&summary).is_err() {
                world
                    .outputs
                    .warning("Work queue", "The step summary could not be written. The queue is not affected.");
            }
            tell(world, settlement);
        }
        Err(error) => {
            tracing::debug!(target: "work-queue:claims", failed = true, http_status = error.status(), "claims.reconcile.failed");
            world.outputs.set(OUTPUT, FAILED)?;
        }
    }
    settled.map(|(settlement, _)| settlement)
}

/// What the report says of the run itself.
struct Run {
    assignment: Assignment,
    run: Option<RunBinding>,
}

fn attempt(world: &mut World<'_>) -> Result<(Settlement, Option<Run>), JobError> {
    let given = Given::read(world)?;
    let Some(assignment) = given.assignment else {
        return Ok((Settlement { status: "unassigned", ..Settlement::default() }, None));
    };
    let bytes = staged_file(&world.paths.finish)?;
    let finishes = parse_finishes(&bytes, &assignment, &mut world.scanner())?;
    tracing::debug!(
        target: "work-queue:claims",
        claims = assignment.claims.len(),
        intents = finishes.by_handle.len(),
        errors = finishes.errors.len(),
        "claims.reconcile.intents"
    );
    let own = OwnRun { client: world.client, context: world.context, clock: world.clock, assignment: &assignment };
    let errors = finishes.errors.clone();
    if is_staged(world) {
        let current = world.ledger.read_present()?;
        check_stored(&current, &assignment)?;
        own.authenticate(None)?;
        let members: Vec<_> =
            assignment.claims.iter().map(|member| Settled::new(member, MemberState::StagedPreview)).collect();
        let settlement = Settlement { status: status(&members), members, errors };
        return Ok((settlement, Some(Run { assignment, run: None })));
    }
    let bound = own.bind(&mut *world.ledger)?;
    let members: Vec<_> = assignment
        .claims
        .iter()
        .map(|member| {
            let (wish, intent_id) = wish(&finishes, &assignment, member);
            let actor = Actor { claim_handle: Some(member.handle.clone()), ..bound.actor.clone() };
            let request_id = request_id(&actor, &intent_id);
            settle(&mut *world.ledger, &actor, &assignment, member, &wish, &request_id)
        })
        .collect();
    let settlement = Settlement { status: status(&members), members, errors };
    Ok((settlement, Some(Run { assignment, run: Some(bound.run) })))
}

/// In a preview the stored assignment is still held against the supplied one.
fn check_stored(current: &Current, assignment: &Assignment) -> Result<(), Fault> {
    let stored = current.projection.dispatch(assignment.dispatch_id.as_str());
    let same = stored.is_some_and(|stored| stored.assignment.canonical() == assignment.canonical());
    ensure!(same, WorkQueueAssignmentMismatch, Code::WorkQueueAssignmentMismatch.meaning());
    Ok(())
}

/// What is asked for one Claim, and under which intent id: the staged one, or one that follows from the Claim.
fn wish(finishes: &Finishes, assignment: &Assignment, member: &Member) -> (Wish, String) {
    if finishes.blocked.contains(&member.handle) {
        return (Wish::Blocked, String::new());
    }
    if let Some(finish) = finishes.by_handle.get(&member.handle) {
        let wish = Wish::Stated { outcome: finish.outcome, keep_open: finish.keep_open };
        return (wish, finish.intent_id.as_str().to_owned());
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("dispatch_id", |w| assignment.dispatch_id.write(w));
        members.name("handle", |w| member.handle.write(w));
    });
    (Wish::Silent, format!("wrapup:{}", Digest::of(&[&writer.finish()])))
}

/// The output as canonical JSON.
fn document(settlement: &Settlement, run: Option<&Run>) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("claims", |w| {
            w.object(|members| {
                for settled in &settlement.members {
                    members.text(settled.member.handle.text(), |w| w.object(|members| settled.members(members)));
                }
            });
        });
        if let Some(run) = run {
            members.name("dispatch_id", |w| run.assignment.dispatch_id.write(w));
        }
        members.name("errors", |w| {
            w.array(&settlement.errors, |w, error| {
                w.object(|members| {
                    members.name("claim_handle", |w| match &error.claim_handle {
                        Some(handle) => handle.write(w),
                        None => w.raw("null"),
                    });
                    members.name("code", |w| w.string(error.code.as_str()));
                    members.name("line", |w| w.integer(error.line as i64));
                });
            });
        });
        if let Some(binding) = run.and_then(|run| run.run.as_ref()) {
            members.name("run_attempt", |w| w.integer(1));
            members.name("run_id", |w| binding.run_id.write(w));
        }
        members.name("status", |w| w.string(settlement.status));
        members.name("version", |w| w.integer(3));
    });
    writer.finish()
}

/// Counts alone, and what a Completion is not.
fn summary(settlement: &Settlement) -> String {
    let authorized = settlement.members.iter().filter(|member| member.is_authorized()).count();
    let others = settlement.members.len() - authorized;
    format!(
        "### Work queue reconciliation\n\n<details><summary>{}</summary>\n\n- Claims with authorized outputs: {authorized}\n- \
         Claims without: {others}\n- Finish lines that do not count: {}\n\nA Completion is not a Result: it ends the \
         Claim, and says nothing about delivery.\n\n</details>\n",
        settlement.status,
        settlement.errors.len()
    )
}

/// Counts for the log, and a warning for what is left open.
fn tell(world: &mut World<'_>, settlement: &Settlement) {
    let count =
        |states: &[MemberState]| settlement.members.iter().filter(|member| states.contains(&member.state)).count();
    let completed = count(&[MemberState::Completed, MemberState::Result, MemberState::DeliveryFailed]);
    let (cancelled, pending) = (count(&[MemberState::Cancelled]), count(&[MemberState::Blocked]));
    tracing::debug!(target: "work-queue:claims", completed, cancelled, pending, "claims.reconcile.complete");
    if let Some(code) = settlement.members.iter().find_map(|member| member.blocked) {
        tracing::debug!(target: "work-queue:claims", blocked = pending, "claim.finish.blocked");
        let category = crate::report::category::Category::of(code);
        let message = format!("{}: {} {}", category.name, category.explanation, category.action);
        world.outputs.warning("Work queue: a Claim was left as it is", &message);
    }
}
