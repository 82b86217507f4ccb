//! Phase `deliver` of the safe outputs (jobs.md 5.4, 5.5; lifecycle.md 5 and 6): every message is attributed to one Claim,
//! counted, and held against the gate; what can be proven without a writer becomes a Result. Where a Claim's outputs need a
//! writer, which is not here yet, its delivery stays pending and nothing is executed.

mod lifecycle;
mod report;

pub use report::{Delivery, MemberReport};

use crate::agent::file::read_bounded;
use crate::agent::intent::{Batch, Intent, IntentKind, parse_batch};
use crate::delivery::count::Counts;
use crate::delivery::effect_free;
use crate::delivery::export::Export;
use crate::delivery::finalise::{Delivered, finalise};
use crate::delivery::gate::{Ask, Frame, Standing, authorize};
use crate::delivery::inventory::{DISPATCH_NEXT, SUBMIT, worker_of};
use crate::delivery::message::{CONTROL_TYPES, MAX_OUTPUT_BYTES, Message, Unread, read_messages};
use crate::delivery::partition::{Partition, Rejected, Share, partition};
use crate::delivery::verify::{Inspection, StagedControl};
use crate::launch::route::HANDLER_CONFIG;
use crate::ledger::Ledger;
use crate::protocol::assignment::{Assignment, Member};
use crate::protocol::json::Scanner;
use crate::protocol::selector::select;
use crate::protocol::{Code, Fault, Handle, RuntimeRole, Text};

use super::controls::expected;
use super::error::JobError;
use super::given::{Given, is_enabled, is_staged, staged_file};
use super::own_run::OwnRun;
use super::world::World;
use lifecycle::Rules;

/// The outputs where nothing could be begun.
const FAILED: [(&str, &str); 3] = [
    ("work_queue_outcome", "blocked"),
    ("claim_results", r#"{"claims":{},"outcome":"blocked","version":3}"#),
    ("claim_scope_errors", "[]"),
];
/// The variable that names the file of messages.
const AGENT_OUTPUT: &str = "GH_AW_AGENT_OUTPUT";

/// Attributes and counts every message, and settles what can be settled.
///
/// # Errors
/// At the end: a message that was refused, or a Claim whose delivery is not settled. Before anything: whatever holds for the
/// run as a whole. A staged run fails for neither.
pub fn run(world: &mut World<'_>) -> Result<Delivery, JobError> {
    if !is_enabled(world) {
        return Ok(Delivery::default());
    }
    tracing::debug!(target: "work-queue:claims", "results.finalize.start");
    let delivery = match attempt(world) {
        Ok(delivery) => delivery,
        Err(error) => {
            world.outputs.set_all(&FAILED)?;
            return Err(error);
        }
    };
    tracing::debug!(target: "work-queue:claims", claims = delivery.members.len(), "results.finalize.complete");
    delivery.publish(world.outputs)?;
    match delivery.failure() {
        Some(error) if !is_staged(world) => Err(error),
        _ => Ok(delivery),
    }
}

fn attempt(world: &mut World<'_>) -> Result<Delivery, JobError> {
    let given = Given::read(world)?;
    let mut scanner = world.scanner();
    let messages = messages(world, &mut scanner)?;
    let Some(assignment) = given.assignment else {
        return Ok(Delivery::unassigned(unassigned(given.role, messages.unwrap_or_default())));
    };
    let counts = world.variables.get(HANDLER_CONFIG).map(Counts::read).transpose()?.unwrap_or_default();
    let lost = messages.is_none();
    let mut shares = partition(messages.unwrap_or_default(), &assignment, &counts, &mut scanner);
    let controls = Controls::read(world, &assignment, &mut shares, &mut scanner);
    let staged = is_staged(world);
    let base = world.paths.base.clone();
    let own = OwnRun { client: world.client, context: world.context, clock: world.clock, assignment: &assignment };
    let ledger = &mut *world.ledger;
    // What is wrong with the run or its assignment is wrong for every Claim of it.
    let first = assignment.claims.first().ok_or_else(|| Fault::from(Code::ClaimScopeInvalid))?;
    let current = ledger.read_present()?;
    own.verify_on(&current, &first.handle, !staged)?;
    drop(current);
    let mut members = Vec::new();
    for member in &assignment.claims {
        let mut turn =
            Turn { own: &own, ledger: &mut *ledger, scanner: &mut scanner, clock: world.clock, staged, lost };
        members.push(turn.take(&assignment, member, &mut shares, &controls));
    }
    let delivery = Delivery { members, rejected: shares.rejected, assigned: true };
    delivery.export(&base, &assignment);
    Ok(delivery)
}

/// The messages of the run. None where the file that was named is not there: what it held is lost, and nothing is made up
/// for it. A workflow without ordinary outputs names no file.
fn messages(world: &World<'_>, scanner: &mut Scanner) -> Result<Option<Vec<Result<Message, Unread>>>, JobError> {
    let Some(path) = world.variables.get(AGENT_OUTPUT) else { return Ok(Some(Vec::new())) };
    let refused = |_| Fault::new(Code::WorkQueueOutputInvalid, "the agent's output is no plain file of at most 16 MiB");
    let bytes = read_bounded(path.as_ref(), MAX_OUTPUT_BYTES).map_err(refused)?;
    Ok(bytes.map(|bytes| read_messages(&bytes, scanner)).transpose()?)
}

/// What a run without assignment may not put out: a dispatcher nothing at all, an observer no queue control.
fn unassigned(role: RuntimeRole, messages: Vec<Result<Message, Unread>>) -> Vec<Rejected> {
    let refuse = |index: usize, output: Option<String>, message: &'static str| {
        let fault = Fault::new(Code::ClaimScopeInvalid, message);
        Some(Rejected { index: Some(index), output, handle: None, fault })
    };
    let judge = |message: Result<Message, Unread>| match message {
        Ok(message) if role == RuntimeRole::Observer => {
            let control = CONTROL_TYPES.contains(&message.output.as_str());
            let sentence = "an observer controls no queue";
            if control { refuse(message.index, Some(message.output), sentence) } else { None }
        }
        // An observer's ordinary messages are the ordinary handler's, readable or not.
        Err(_) if role == RuntimeRole::Observer => None,
        Ok(message) => refuse(message.index, Some(message.output), NO_CLAIM),
        Err(unread) => refuse(unread.index, unread.output, NO_CLAIM),
    };
    messages.into_iter().filter_map(judge).collect()
}

const NO_CLAIM: &str = "a dispatcher without an assignment has no Claim that a safe output could be for";

/// The staged controls of each Claim.
#[derive(Default)]
struct Controls(Vec<(Handle, Intent)>);

impl Controls {
    /// Reads the collected intents. A malformed one is refused; a file that cannot be read at all leaves no Claim's delivery
    /// provable, since nobody can tell what was staged.
    fn read(world: &World<'_>, assignment: &Assignment, shares: &mut Partition, scanner: &mut Scanner) -> Self {
        let reject = |handle: Option<Handle>, fault: Fault| Rejected { index: None, output: None, handle, fault };
        let read = staged_file(&world.paths.intents).and_then(|bytes| parse_batch(&bytes, scanner));
        let Batch { intents, errors } = match read {
            Ok(batch) => batch,
            Err(fault) => {
                assignment.claims.iter().for_each(|member| shares.dispute(&member.handle));
                shares.rejected.push(reject(None, fault));
                return Self::default();
            }
        };
        for _ in &errors {
            shares.refuse_control(Code::ClaimControlDeliveryInvalid.into());
        }
        let mut found = Vec::new();
        for intent in intents {
            let text = Text::from(intent.canonical());
            let selected = scanner
                .read(&text)
                .and_then(|document| select(document.root(), assignment).map(|member| member.handle.clone()));
            match selected {
                Ok(handle) if intent.kind != IntentKind::Finish => found.push((handle, intent)),
                Ok(handle) => {
                    shares.dispute(&handle);
                    shares.rejected.push(reject(Some(handle), Code::ClaimControlDeliveryInvalid.into()));
                }
                Err(fault) => shares.refuse_control(fault),
            }
        }
        Self(found)
    }

    fn of<'c>(&'c self, handle: &'c Handle) -> impl Iterator<Item = &'c Intent> {
        self.0.iter().filter(move |(owner, _)| owner == handle).map(|(_, intent)| intent)
    }
}

/// One Claim's turn. It sees its own messages and controls, and nothing of its siblings.
struct Turn<'t, 'o> {
    own: &'t OwnRun<'o>,
    ledger: &'t mut dyn Ledger,
    scanner: &'t mut Scanner,
    clock: &'t dyn crate::ports::Clock,
    staged: bool,
    lost: bool,
}

impl Turn<'_, '_> {
    fn take(
        &mut self,
        assignment: &Assignment,
        member: &Member,
        shares: &mut Partition,
        controls: &Controls,
    ) -> MemberReport {
        let handle = &member.handle;
        let accepted = shares.share(handle).map_or(0, |share| share.messages.len());
        let report = |delivered: Delivered, passed: bool, suppressed: usize| MemberReport {
            member: member.clone(),
            delivered,
            passed,
            accepted,
            suppressed,
        };
        let pending = |fault: Fault| Delivered::pending(handle, "verification_unresolved", fault);
        let standing = match self.pass(assignment, handle) {
            Ok(standing) => standing,
            Err(fault) => return report(pending(fault), false, 0),
        };
        if self.staged {
            return report(Delivered::new(handle, "staged_preview"), true, accepted);
        }
        match standing {
            Standing::Cancelled => return report(Delivered::new(handle, "cancelled"), true, accepted),
            Standing::Settled => return report(Delivered::new(handle, "result"), true, accepted),
            Standing::Failed => return report(Delivered::new(handle, "delivery_failed"), false, accepted),
            Standing::Open => return report(pending(Code::ClaimNotAuthorized.into()), false, accepted),
            Standing::Completed => {}
        }
        self.check_messages(assignment, handle, shares);
        let Some(share) = shares.share(handle) else { return report(pending(Code::Internal.into()), false, 0) };
        if self.lost {
            let message = "the agent's output is missing, so what this Claim put out is not known";
            let fault = Fault::new(Code::DeliveryVerifierRequired, message);
            return report(Delivered::pending(handle, "verification_unavailable", fault), false, 0);
        }
        let delivered = self.deliver(assignment, member, share, controls).unwrap_or_else(pending);
        let passed = delivered.is_settled();
        report(delivered, passed, 0)
    }

    /// How the Claim stands on a fresh read, in its authenticated run.
    fn pass(&mut self, assignment: &Assignment, handle: &Handle) -> Result<Standing, Fault> {
        let plain = |error: crate::launch::error::LaunchError| Fault::new(error.code(), error.message().into_owned());
        let current = self.ledger.read_present().map_err(|error| plain(error.into()))?;
        let bound = self.own.verify_on(&current, handle, !self.staged).map_err(plain)?;
        if self.staged {
            return Ok(Standing::Open);
        }
        let frame = Frame::enter(assignment, handle.as_str(), &bound.run)?;
        crate::delivery::gate::standing(&current.projection, &frame)
    }

    /// Each message that would need a writer is held against the gate on a read of its own. What the gate refuses is
    /// refused for this Claim; nothing is executed either way.
    fn check_messages(&mut self, assignment: &Assignment, handle: &Handle, shares: &mut Partition) {
        let share = shares.share(handle).map(|share| share.messages.clone()).unwrap_or_default();
        for message in share.iter().filter(|message| !effect_free(&message.output)) {
            if let Err(fault) = self.gate(assignment, handle, message) {
                shares.reject(handle, message.index, fault);
            }
        }
    }

    fn gate(&mut self, assignment: &Assignment, handle: &Handle, message: &Message) -> Result<(), Fault> {
        let plain = |error: crate::launch::error::LaunchError| Fault::new(error.code(), error.message().into_owned());
        let current = self.ledger.read_present().map_err(|error| plain(error.into()))?;
        let bound = self.own.verify_on(&current, handle, true).map_err(plain)?;
        let frame = Frame::enter(assignment, handle.as_str(), &bound.run)?;
        let ask = Ask { message: Some(&message.text), ..Ask::default() };
        authorize(&current.projection, &frame, &ask, self.scanner).map(drop)
    }

    fn deliver(
        &mut self,
        assignment: &Assignment,
        member: &Member,
        share: &Share,
        controls: &Controls,
    ) -> Result<Delivered, Fault> {
        let plain = |error: crate::launch::error::LaunchError| Fault::new(error.code(), error.message().into_owned());
        let current = self.ledger.read_present().map_err(|error| plain(error.into()))?;
        let bound = self.own.verify_on(&current, &member.handle, true).map_err(plain)?;
        let frame = Frame::enter(assignment, member.handle.as_str(), &bound.run)?;
        let worker = worker_of(assignment, member, &bound.run)?;
        let staged: Vec<Result<StagedControl, Code>> = controls
            .of(&member.handle)
            .map(|intent| {
                let output = if intent.kind == IntentKind::Submit { SUBMIT } else { DISPATCH_NEXT };
                expected(intent, &worker, assignment, &current.projection, self.scanner)
                    .map(|(request_id, fingerprint)| StagedControl { output, request_id, fingerprint })
                    .map_err(|fault| fault.code())
            })
            .collect();
        drop(current);
        let inspection = Inspection { frame, share, controls: &staged };
        let rules = Rules { own: self.own, actor: &bound.actor };
        Ok(finalise(self.ledger, &rules, self.clock, self.scanner, &inspection))
    }
}

impl Delivery {
    /// Leaves the refused messages of each Claim in its own folder. What cannot be left there changes nothing.
    fn export(&self, base: &std::path::Path, assignment: &Assignment) {
        let redact = |text: &str| Ok(crate::report::redact(text).into_owned());
        for member in &assignment.claims {
            let own: Vec<&Rejected> =
                self.rejected.iter().filter(|rejected| rejected.handle.as_ref() == Some(&member.handle)).collect();
            if own.is_empty() {
                continue;
            }
            let written = Export::open(base, assignment, member)
                .and_then(|export| export.errors(assignment, member, &own, &redact));
            tracing::debug!(target: "work-queue:effects", written = written.is_ok(), "export.complete");
        }
    }
}
