//! From a proof to a Result (lifecycle.md 6.4, jobs.md 5.5): each Claim for itself. Without a proof nothing is published:
//! the delivery stays pending, with the reason. A DeliveryFailure is never published from here, because the run that asks
//! is the Claim's own and has not ended (decision 44).

use std::cell::RefCell;
use std::time::Duration;

use crate::engine::Projection;
use crate::engine::state::DispatchState;
use crate::ledger::{Class, Ledger, LedgerError};
use crate::ports::Clock;
use crate::protocol::evidence::Evidence;
use crate::protocol::identity::FirstAttempt;
use crate::protocol::json::Scanner;
use crate::protocol::operation::{Descriptor, Operation, ResultOperation};
use crate::protocol::{At, Code, Fault, Handle, Measured};

use super::gate::{self, Frame, Standing};
use super::verify::{Inspection, Proof, Unproven, inspect};

/// Most tries of one verification.
const ATTEMPTS: u32 = 5;
/// How long they may take together, in milliseconds.
const PATIENCE_MS: i64 = 15_000;

/// The lifecycle's own rules, as the trusted job brings them: this room neither authenticates nor launches.
pub trait Lifecycle {
    /// Evidence `delivery` of `verified_receipts` about a dispatch, without run and receipt.
    ///
    /// # Errors
    /// `run_principal_mismatch` for a dispatch without a launch principal.
    fn evidence(&self, dispatch: &DispatchState, projection: &Projection, checked_at: At) -> Result<Evidence, Fault>;

    /// Publishes a `result` request in the role reconciler, under the stable id of these purpose parts. The operations
    /// are built anew on every state that is tried.
    ///
    /// # Errors
    /// What `build` refuses; otherwise as a publication.
    fn publish(
        &self,
        ledger: &mut dyn Ledger,
        parts: &[&str],
        build: &dyn Fn(&Projection) -> Result<Vec<Operation>, Fault>,
    ) -> Result<(), LedgerError>;

    /// Reads attempt 1 of the bound run again and validates it (step 8).
    ///
    /// # Errors
    /// Whatever the run is not, or the host does not answer.
    fn revalidate(&self, frame: &Frame<'_>) -> Result<(), Fault>;
}

/// What became of one Claim's delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The Claim.
    pub handle: Handle,
    /// `result`, `delivery_failed`, `cancelled`, `pending` or `staged_preview`.
    pub state: &'static str,
    /// Why it is pending, as reports name it.
    pub reason: Option<&'static str>,
    /// What is in the way.
    pub fault: Option<Fault>,
    /// True if this call published the Result.
    pub published: bool,
}

impl Delivered {
    /// A Claim in this state, without more to say.
    #[must_use]
    pub fn new(handle: &Handle, state: &'static str) -> Self {
        Self { handle: handle.clone(), state, reason: None, fault: None, published: false }
    }

    /// A delivery that is not settled, and why.
    #[must_use]
    pub fn pending(handle: &Handle, reason: &'static str, fault: Fault) -> Self {
        Self { reason: Some(reason), fault: Some(fault), ..Self::new(handle, "pending") }
    }

    /// True if nothing is left to do for the Claim.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.state, "result" | "cancelled")
    }
}

/// Verifies one Claim and publishes its Result. `share` and controls are what `inspection` holds.
///
/// What fails for a while is repeated, at most 5 times and for 15 seconds in all. A proof that is refused is not repeated:
/// nothing would change it.
pub fn finalise(
    ledger: &mut dyn Ledger,
    lifecycle: &dyn Lifecycle,
    clock: &dyn Clock,
    scanner: &mut Scanner,
    inspection: &Inspection<'_>,
) -> Delivered {
    let handle = &inspection.frame.member().handle;
    let until = clock.now().get().saturating_add(PATIENCE_MS);
    for attempt in 1.. {
        let failed = match once(ledger, lifecycle, clock, scanner, inspection) {
            Ok(delivered) => return delivered,
            Err(failed) => failed,
        };
        let again = failed.transient && attempt < ATTEMPTS && clock.now().get() < until;
        tracing::debug!(target: "work-queue:claims", attempt, again, "delivery.verifier.failed");
        if !again {
            return Delivered::pending(handle, "verification_unresolved", failed.fault);
        }
        clock.sleep(Duration::from_millis((50_u64 << attempt).min(1000)));
    }
    Delivered::pending(handle, "verification_unresolved", Code::Internal.into())
}

/// A try that ended without an answer.
struct Failed {
    fault: Fault,
    transient: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, transient: false }
    }
}

impl From<LedgerError> for Failed {
    fn from(error: LedgerError) -> Self {
        let transient = matches!(error.class(), Class::Unavailable | Class::Conflict | Class::Unknown);
        Self { fault: Fault::new(error.code(), error.message().to_owned()), transient }
    }
}

fn once(
    ledger: &mut dyn Ledger,
    lifecycle: &dyn Lifecycle,
    clock: &dyn Clock,
    scanner: &mut Scanner,
    inspection: &Inspection<'_>,
) -> Result<Delivered, Failed> {
    let frame = &inspection.frame;
    let handle = &frame.member().handle;
    let current = ledger.read_present()?;
    let standing = gate::standing(&current.projection, frame)?;
    match standing {
        Standing::Settled => return Ok(Delivered::new(handle, "result")),
        Standing::Cancelled => return Ok(Delivered::new(handle, "cancelled")),
        Standing::Failed => return Ok(Delivered::new(handle, "delivery_failed")),
        Standing::Open => {
            let fault = Fault::new(Code::ClaimNotAuthorized, "the Claim has no Completion");
            return Ok(Delivered::pending(handle, "verification_unresolved", fault));
        }
        Standing::Completed => {}
    }
    let proof = match inspect(&current.projection, inspection, scanner) {
        Ok(proof) => proof,
        Err(Unproven { reason, fault }) => {
            tracing::debug!(target: "work-queue:claims", trusted = true, verified = false, "delivery.verifier.checked");
            return Ok(Delivered::pending(handle, reason, fault));
        }
    };
    tracing::debug!(target: "work-queue:claims", trusted = true, verified = true, "delivery.verifier.checked");
    drop(current);
    lifecycle.revalidate(frame)?;
    let published = publish(ledger, lifecycle, clock.now(), scanner, frame, &proof);
    // What the queue shows counts, whatever the publication said.
    let current = ledger.read_present()?;
    match (gate::standing(&current.projection, frame)?, published) {
        (Standing::Settled, published) => {
            tracing::debug!(target: "work-queue:claims", "result.persisted");
            Ok(Delivered { published: published.is_ok(), ..Delivered::new(handle, "result") })
        }
        (Standing::Failed, _) => Ok(Delivered::new(handle, "delivery_failed")),
        (_, Err(error)) => Err(error.into()),
        (_, Ok(())) => Err(Fault::from(Code::WorkQueueResultNotDurable).into()),
    }
}

/// Publishes the Result of a proof, which is checked again on every state that is tried.
fn publish(
    ledger: &mut dyn Ledger,
    lifecycle: &dyn Lifecycle,
    checked_at: At,
    scanner: &mut Scanner,
    frame: &Frame<'_>,
    proof: &Proof,
) -> Result<(), LedgerError> {
    let member = frame.member();
    let dispatch_id = frame.assignment().dispatch_id.as_str();
    let parts = ["result", dispatch_id, member.handle.as_str(), proof.completion_id().as_str()];
    let scanner = RefCell::new(scanner);
    lifecycle.publish(ledger, &parts, &|projection| {
        proof.check(projection, frame, &mut scanner.borrow_mut())?;
        let dispatch = projection.dispatch(dispatch_id).ok_or_else(|| Fault::from(Code::DispatchMissing))?;
        let evidence = Evidence {
            run_id: Some(frame.run().run_id.clone()),
            run_attempt: Some(FirstAttempt),
            receipt: Some(proof.receipt().clone()),
            effects: Some(proof.effects()),
            ..lifecycle.evidence(dispatch, projection, checked_at)?
        };
        Ok(vec![Operation::Result(Box::new(ResultOperation {
            work_id: member.work_id.clone(),
            claim_id: member.claim_id.clone(),
            completion_id: proof.completion_id().clone(),
            evidence: Measured::new(evidence),
            descriptor: Descriptor(proof.descriptor().clone()),
        }))])
    })
}
