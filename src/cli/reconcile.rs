//! `wq reconcile` (operator-cli.md 8.5, lifecycle.md 3, decisions 23 and 44).

use std::sync::Arc;

use super::access::Access;
use super::source::provenance;
use super::{Failure, Global, Reply};
use crate::engine::state::{Barrier, DispatchPhase};
use crate::launch::reconcile::Reconciler;
use crate::launch::report::{GroupReport, GroupState};
use crate::ledger::Current;
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::actor::Role;
use crate::protocol::evidence::{Evidence, EvidenceKind};
use crate::protocol::json::Writer;
use crate::protocol::{Code, DispatchId, Fault, Wire as _, WorkId};
use crate::report::label;

/// Settle a dispatch or a delivery by evidence. What is uncertain keeps its reservation.
///
/// With --dispatch-id: a lost run is looked for and bound if it proves itself; a run that has ended frees its
/// reservation; a reservation that was never started is freed only if the attempt that granted it has ended and nothing
/// was begun. Nothing is launched and nothing is cancelled on GitHub.
///
/// With --work-id: a delivery is judged by a verifier of its outputs, and there is none on the command line, so it is
/// reported as pending and nothing is changed.
///
/// Exit 6 where something durable stays unresolved.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("subject").required(true).args(["dispatch_id", "work_id"])))]
pub(crate) struct Args {
    /// The dispatch, 1 to 256 bytes.
    #[arg(long, value_name = "ID")]
    dispatch_id: Option<String>,
    /// The Work whose delivery is pending: 64 hexadecimal digits.
    #[arg(long, value_name = "ID")]
    work_id: Option<String>,
    /// Cancel a reservation that was never started, or say why that is not proven.
    #[arg(long, conflicts_with = "work_id")]
    cancel_reserved: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    if global.request_id.is_some() {
        return Err(Failure::usage(
            "a reconciliation names its requests itself",
            "Leave out --request-id; the command can be repeated safely.",
        ));
    }
    match (&args.dispatch_id, &args.work_id) {
        (Some(id), _) => {
            let id = DispatchId::new(id.clone()).map_err(|fault| Failure::flag(&fault, "--dispatch-id"))?;
            dispatch(global, &id, args.cancel_reserved)
        }
        (None, Some(id)) => {
            let id = WorkId::new(id.clone()).map_err(|fault| Failure::flag(&fault, "--work-id"))?;
            delivery(global, &id)
        }
        (None, None) => Err(Failure::usage("nothing was named", "Give --dispatch-id or --work-id.")),
    }
}

/// How a dispatch was before, and what became of it.
struct Settled {
    state: &'static str,
    reason: &'static str,
    report: GroupReport,
}

fn dispatch(global: &Global, id: &DispatchId, cancel_reserved: bool) -> Result<Reply, Failure> {
    let access = Access::open(global)?;
    let hub = access.github()?;
    let actor = hub.actor(Role::Reconciler)?;
    let mut publisher = access.publisher()?;
    let current = publisher.read_present()?;
    let before =
        current.projection.dispatch(id.as_str()).ok_or_else(|| Failure::from(Fault::from(Code::DispatchMissing)))?;
    let (phase, released) = (before.phase, before.released);
    let tip = current.projection.tip().cloned();
    drop(current);
    let report = if released {
        GroupReport::new(id, GroupState::Released)
    } else {
        let mut reconciler = Reconciler {
            ledger: &mut publisher,
            client: hub.client(),
            clock: &SystemClock,
            repository: access.name(),
            host: access.host().name(),
            actor: &actor,
            request_cancellation: false,
        };
        match cancel_reserved {
            true => cancel(&mut reconciler, id, phase)?,
            false => reconciler.group(id, None)?,
        }
    };
    let settled = Settled { state: phase.as_str(), reason: reason(released, &report)?, report };
    let after = publisher.read_present()?;
    let changed = after.projection.tip() != tip.as_ref();
    let exit = if settled.report.state == GroupState::LaunchUnresolved { Code::LaunchUnresolved.exit() } else { 0 };
    let body = if global.json { json(&settled, changed, &after) } else { text(&settled) };
    Ok(Reply { body, exit })
}

/// Cancels a reservation before its launch. A start marker wins, whenever it came.
fn cancel(reconciler: &mut Reconciler<'_, '_>, id: &DispatchId, phase: DispatchPhase) -> Result<GroupReport, Failure> {
    match reconciler.cancel_reserved(id) {
        Ok(proof) => Ok(GroupReport { evidence: Some(proof), ..GroupReport::new(id, GroupState::Released) }),
        Err(error) if error.code() == Code::WorkQueueLaunchMayHaveStarted => {
            Ok(GroupReport::new(id, GroupState::LaunchUnresolved).blocked(error.code()))
        }
        Err(error) if error.code() == Code::NonlaunchEvidenceRequired && phase == DispatchPhase::Reserved => {
            Ok(GroupReport::new(id, GroupState::Reserved).blocked(error.code()))
        }
        Err(error) => Err(error.into()),
    }
}

/// The word for what happened.
fn reason(released_before: bool, report: &GroupReport) -> Result<&'static str, Failure> {
    let kind = report.evidence.as_ref().map(|evidence| evidence.kind);
    Ok(match (report.state, kind) {
        (GroupState::Released, _) if released_before => "already_released",
        (GroupState::Released, Some(EvidenceKind::Prelaunch)) => "prelaunch_cancelled",
        (GroupState::Released, Some(EvidenceKind::TerminalRun)) => "native_released_delivery_independent",
        (GroupState::Released, Some(_)) => "launch_rejected",
        (GroupState::Released, None) => "already_released",
        (GroupState::Reserved, _) => "reserved_not_started",
        (GroupState::Bound | GroupState::CancellationRequested, Some(_)) if report.blocked.is_none() => {
            "native_run_nonterminal"
        }
        (GroupState::LaunchUnresolved | GroupState::StagedPreview, _) => "launch_unresolved",
        (GroupState::Bound | GroupState::CancellationRequested | GroupState::RunBindingConflict, _) => {
            let code = report.blocked.unwrap_or(Code::RunBindingConflict);
            let next = report.next_action().unwrap_or(
                "Read the run with wq evidence, and repeat the command when it can be read; the reservation is kept.",
            );
            return Err(Failure::new(code, code.meaning(), next));
        }
    })
}

fn json(settled: &Settled, changed: bool, after: &Arc<Current>) -> String {
    let Settled { state, reason, report } = settled;
    let mut writer = Writer::new();
    writer.object(|members| {
        if let Some(attempts) = report.attempts {
            members.name("attempts", |w| w.integer(i64::from(attempts)));
        }
        if let Some(code) = report.blocked {
            members.name("blocked", |w| w.string(code.as_str()));
        }
        members.name("changed", |w| w.bool(changed));
        members.name("dispatch_id", |w| report.dispatch_id.write(w));
        if let Some(evidence) = &report.evidence {
            members.name("evidence", |w| write_evidence(evidence, w));
        }
        if let Some(next) = report.next_action() {
            members.name("next_action", |w| w.string(next));
        }
        members.name("reason", |w| w.string(reason));
        members.name("released", |w| w.bool(report.released));
        if let Some(run_id) = &report.run_id {
            members.name("run_id", |w| run_id.write(w));
        }
        members.name("state", |w| w.string(state));
        provenance(&after.projection, Some(&after.commit.to_string()), SystemClock.now(), members);
    });
    writer.finish()
}

/// Evidence without its receipt, which is never shown (operator-cli.md 5.2).
pub(super) fn write_evidence(evidence: &Evidence, writer: &mut Writer) {
    Evidence { receipt: None, ..evidence.clone() }.write(writer);
}

fn text(settled: &Settled) -> String {
    let Settled { state, reason, report } = settled;
    let kept = if report.released { "the reservation is free" } else { "the reservation is kept" };
    let id = label(report.dispatch_id.as_str());
    let mut out = format!("{reason}; dispatch {id} was {state}, {kept}\n");
    if let Some(code) = report.blocked {
        out.push_str(&format!("in the way: {code}: {}\n", code.meaning()));
    }
    if let Some(next) = report.next_action() {
        out.push_str(&format!("next: {next}\n"));
    }
    out
}

/// The delivery of a Work: what is known, and that nobody here can judge the rest.
fn delivery(global: &Global, id: &WorkId) -> Result<Reply, Failure> {
    let access = Access::open(global)?;
    access.github()?.actor(Role::Reconciler)?;
    let current = access.publisher()?.read_present()?;
    let work = current.projection.work(id.as_str()).ok_or_else(|| Failure::from(Fault::from(Code::WorkMissing)))?;
    let owner = current.projection.owner_of(work);
    let bound = owner.is_some_and(|claim| current.projection.dispatch_of(claim).run.is_some());
    let reason = match work.barrier() {
        Barrier::Verified => "already_verified",
        Barrier::Failed => "already_failed",
        Barrier::None => {
            let fault = Fault::new(Code::ResultInvalid, "the Work is not completed, so there is no delivery to settle");
            return Err(Failure::from(fault).at_request());
        }
        Barrier::Pending if !bound => "launch_unresolved",
        Barrier::Pending => "delivery_unresolved",
    };
    let pending = work.barrier() == Barrier::Pending;
    let exit = if pending { Code::DeliveryVerifierRequired.exit() } else { 0 };
    if !global.json {
        let told = if pending {
            "pending: a verifier of the declared outputs has to judge it, and the command line has none; nothing was changed"
        } else {
            "nothing was changed"
        };
        return Ok(Reply { body: format!("{reason}; work {}\n{told}\n", label(id.as_str())), exit });
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("attempts", |w| w.integer(0));
        if pending {
            members.name("blocked", |w| w.string(Code::DeliveryVerifierRequired.as_str()));
        }
        members.name("changed", |w| w.bool(false));
        members.name("reason", |w| w.string(reason));
        members.name("work_id", |w| id.write(w));
        provenance(&current.projection, Some(&current.commit.to_string()), SystemClock.now(), members);
    });
    Ok(Reply { body: writer.finish(), exit })
}
