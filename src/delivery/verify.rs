//! The independent verification of one completed Claim (lifecycle.md 6.1 to 6.3), for what this process can verify without
//! having written anything: Work without writes, and queue controls, which the ledger itself shows. Whatever else a Claim
//! put out needs a writer and its verifier, and stays pending.

use crate::engine::Projection;
use crate::engine::state::ClaimStatus;
use crate::protocol::effect_contract::{EffectContract, NO_WRITE_TYPES};
use crate::protocol::evidence::Effects;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Scanner, Writer};
use crate::protocol::{Code, CommitId, Digest, Fault, Handle, Identity, Opaque, RequestId, Text, Wire as _};

use super::digest_of;
use super::gate::{self, Frame, Standing};
use super::inventory::{Control, inventory};
use super::partition::Share;

/// Largest descriptor, in canonical bytes.
const MAX_DESCRIPTOR_BYTES: usize = 4096;

/// A queue control that the worker staged for a Claim, with the request that it must have become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedControl {
    /// Output type.
    pub output: &'static str,
    /// Id that the request of this intent has under the bound run's identity.
    pub request_id: RequestId,
    /// Fingerprint of the request that the staged parameters lead to.
    pub fingerprint: Digest,
}

/// What is inspected.
#[derive(Clone, Copy, Debug)]
pub struct Inspection<'a> {
    /// The Claim, in its run.
    pub frame: Frame<'a>,
    /// What it put out.
    pub share: &'a Share,
    /// Its staged controls, in their order. An error stands for one that could not be traced to a request.
    pub controls: &'a [Result<StagedControl, Code>],
}

/// Why a Claim's delivery is not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unproven {
    /// The word of reports: `verification_unavailable` where nothing here can judge, `effect_contract_invalid` where what
    /// was put out is not what the Work declares, `verification_unresolved` otherwise.
    pub reason: &'static str,
    /// What is in the way.
    pub fault: Fault,
}

impl Unproven {
    /// A Claim whose proof failed in a way that the reason words of reports do not tell apart.
    #[must_use]
    pub fn unresolved(fault: Fault) -> Self {
        Self { reason: "verification_unresolved", fault }
    }
}

/// The proof that a Claim delivered what its Work declares. Only [`inspect`] makes one, it is for one Completion of one
/// Claim in one assignment and run, and nothing of it can be changed.
#[derive(Debug)]
pub struct Proof {
    assignment: Digest,
    handle: Handle,
    completion_id: CommitId,
    descriptor: Opaque,
    receipt: Identity,
    effects: Effects,
    controls: Digest,
}

impl Proof {
    /// What the Result says was delivered.
    #[must_use]
    pub fn descriptor(&self) -> &Opaque {
        &self.descriptor
    }

    /// The digest of the record of this verification.
    #[must_use]
    pub fn receipt(&self) -> &Identity {
        &self.receipt
    }

    /// `none` for Work without writes, `partial` for any other: something may have been written.
    #[must_use]
    pub fn effects(&self) -> Effects {
        self.effects
    }

    /// The Completion that it is for.
    #[must_use]
    pub fn completion_id(&self) -> &CommitId {
        &self.completion_id
    }

    /// Checks that the proof still holds on this state: the same Completion owns the Work with its delivery pending, and no
    /// control was committed since.
    ///
    /// # Errors
    /// `work_queue_delivery_proof_changed` for another Claim, `work_queue_claim_ownership_changed`,
    /// `work_queue_control_inventory_changed`; otherwise as [`gate::standing`].
    pub fn check(&self, projection: &Projection, frame: &Frame<'_>, scanner: &mut Scanner) -> Result<(), Fault> {
        let own = self.handle == frame.member().handle && self.assignment == assignment_digest(frame);
        ensure!(own, WorkQueueDeliveryProofChanged, Code::WorkQueueDeliveryProofChanged.meaning());
        let claim = gate::claim(projection, frame)?;
        let same = matches!(&claim.status, ClaimStatus::Completed { commit_id, .. } if *commit_id == self.completion_id)
            && gate::standing(projection, frame)? == Standing::Completed;
        ensure!(same, WorkQueueClaimOwnershipChanged, Code::WorkQueueClaimOwnershipChanged.meaning());
        let now = inventory(projection, claim, scanner)?.digest;
        ensure!(
            now == self.controls,
            WorkQueueControlInventoryChanged,
            Code::WorkQueueControlInventoryChanged.meaning()
        );
        Ok(())
    }
}

fn assignment_digest(frame: &Frame<'_>) -> Digest {
    Digest::of(&[&frame.assignment().canonical()])
}

/// Inspects one Claim on this state, in the order of lifecycle.md 6.1.
///
/// # Errors
/// [`Unproven`], with the first step that failed. Nothing was changed.
pub fn inspect(projection: &Projection, inspection: &Inspection<'_>, scanner: &mut Scanner) -> Result<Proof, Unproven> {
    let Inspection { frame, share, controls } = inspection;
    let standing = gate::standing(projection, frame).map_err(Unproven::unresolved)?;
    if let Some(code) = standing.refusal() {
        return Err(Unproven::unresolved(code.into()));
    }
    ensure_own(share, frame)?;
    let claim = gate::claim(projection, frame).map_err(Unproven::unresolved)?;
    let ClaimStatus::Completed { commit_id: completion_id, .. } = &claim.status else {
        return Err(Unproven::unresolved(Code::ClaimNotAuthorized.into()));
    };
    let held = inventory(projection, claim, scanner).map_err(Unproven::unresolved)?;
    let contract = contract(frame, scanner)?;
    check_outputs(&contract, share, controls)?;
    let committed = match_controls(controls, &held.controls)?;
    let descriptor = descriptor(share, &committed, frame);
    let most = projection.installed().map_or(0, |installed| installed.policy.limits.result_bytes as usize);
    if descriptor.len() > MAX_DESCRIPTOR_BYTES.min(most) {
        let message = "what was delivered does not fit a Result's descriptor";
        return Err(Unproven::unresolved(Fault::new(Code::ResourceLimit, message)));
    }
    let effects = if contract.forbids_writes() { Effects::None } else { Effects::Partial };
    let receipt = receipt(frame, &contract_text(frame, scanner), &descriptor, effects, &held.digest);
    Ok(Proof {
        assignment: assignment_digest(frame),
        handle: frame.member().handle.clone(),
        completion_id: completion_id.clone(),
        descriptor,
        receipt: Identity::new(receipt.as_str()).map_err(Unproven::unresolved)?,
        effects,
        controls: held.digest,
    })
}

fn ensure_own(share: &Share, frame: &Frame<'_>) -> Result<(), Unproven> {
    if share.handle != frame.member().handle {
        return Err(Unproven::unresolved(Code::ClaimScopeInvalid.into()));
    }
    if share.disputed {
        let message = "a message of this Claim was refused or is missing, so its delivery is not proven by this run";
        return Err(Unproven::unresolved(Fault::new(Code::ClaimScopeInvalid, message)));
    }
    Ok(())
}

fn contract(frame: &Frame<'_>, scanner: &mut Scanner) -> Result<EffectContract, Unproven> {
    let invalid = |fault| Unproven { reason: "effect_contract_invalid", fault };
    let found = EffectContract::of_payload(scanner, &frame.member().work).map_err(invalid)?;
    found.ok_or_else(|| invalid(Code::DeliveryContractRequired.into()))
}

/// The contract as the payload spells it.
fn contract_text(frame: &Frame<'_>, scanner: &mut Scanner) -> String {
    let document = scanner.read(frame.member().work.text());
    let text = document.ok().and_then(|document| {
        let contract = document.root().object().and_then(|members| members.get("effect_contract"));
        contract.map(|contract| contract.raw().to_owned())
    });
    text.unwrap_or_default()
}

/// Counts against the contract, and then asks whether every output is one that can be judged here.
fn check_outputs(
    contract: &EffectContract,
    share: &Share,
    controls: &[Result<StagedControl, Code>],
) -> Result<(), Unproven> {
    let mut produced: Vec<(&str, u64)> = share.messages.iter().map(|message| (message.output.as_str(), 1)).collect();
    for control in controls {
        match control {
            Ok(control) => produced.push((control.output, 1)),
            Err(code) => return Err(Unproven::unresolved((*code).into())),
        }
    }
    contract.check_counts(&produced).map_err(|fault| Unproven { reason: "effect_contract_invalid", fault })?;
    let written = share.messages.iter().any(|message| !NO_WRITE_TYPES.contains(&message.output.as_str()));
    let declared = match contract {
        EffectContract::NoWrites => false,
        EffectContract::Outputs(outputs) => outputs.iter().any(|output| output.verification.is_some()),
    };
    if written || declared {
        let message = "the Claim's outputs need a writer and its verifier, which are not here; nothing was executed";
        let fault = Fault::new(Code::DeliveryVerifierRequired, message);
        return Err(Unproven { reason: "verification_unavailable", fault });
    }
    Ok(())
}

/// Pairs every staged control with its committed one. No committed control may be left over: one whose intent was lost
/// cannot be checked against what the worker asked for.
fn match_controls<'c>(
    staged: &[Result<StagedControl, Code>],
    committed: &'c [Control],
) -> Result<Vec<&'c Control>, Unproven> {
    let unresolved = |code: Code| Unproven::unresolved(code.into());
    let mut left: Vec<&Control> = committed.iter().collect();
    for wanted in staged.iter().flatten() {
        let found = left.iter().position(|control| control.request_id == wanted.request_id);
        let control = found.map(|at| left.remove(at)).ok_or_else(|| unresolved(Code::QueueControlNotCommitted))?;
        if control.output != wanted.output || control.fingerprint != wanted.fingerprint {
            return Err(unresolved(Code::QueueControlRequestMismatch));
        }
    }
    if left.is_empty() { Ok(committed.iter().collect()) } else { Err(unresolved(Code::QueueControlRequestMismatch)) }
}

/// The outputs in message order, controls last.
fn descriptor(share: &Share, controls: &[&Control], frame: &Frame<'_>) -> Opaque {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("outputs", |w| {
            let messages = share.messages.iter().map(Output::Nothing);
            let outputs = messages.chain(controls.iter().map(|control| Output::Control(control)));
            w.array(outputs, |w, output| output.write(frame, w));
        });
        members.name("version", |w| w.integer(1));
    });
    Opaque::checked(Text::from(writer.finish()))
}

enum Output<'a> {
    Nothing(&'a super::message::Message),
    Control(&'a Control),
}

impl Output<'_> {
    fn write(&self, frame: &Frame<'_>, writer: &mut Writer) {
        writer.object(|members| match self {
            Self::Nothing(message) => {
                members.name("effect", |w| w.string("none"));
                members.name("type", |w| w.string(&message.output));
            }
            Self::Control(control) => {
                members.name("evidence", |w| control.receipt.write(w));
                members.name("resource", |w| {
                    w.object(|members| {
                        members.name("id", |w| control.commit_id.write(w));
                        members.name("kind", |w| w.string("queue_commit"));
                        members.name("repository", |w| frame.run().repository.write(w));
                    });
                });
                members.name("type", |w| w.string(control.output));
            }
        });
    }
}

/// The digest of the record that binds everything that was verified.
fn receipt(frame: &Frame<'_>, contract: &str, descriptor: &Opaque, effects: Effects, controls: &Digest) -> Digest {
    let member = frame.member();
    digest_of(|members| {
        members.name("assignment_digest", |w| assignment_digest(frame).write(w));
        members.name("claim_handle", |w| member.handle.write(w));
        members.name("claim_id", |w| member.claim_id.write(w));
        members.name("contract_digest", |w| Digest::of(&[contract]).write(w));
        members.name("controls_digest", |w| controls.write(w));
        members.name("descriptor", |w| descriptor.write(w));
        members.name("dispatch_id", |w| frame.assignment().dispatch_id.write(w));
        members.name("effects", |w| effects.write(w));
        // No effect was recorded: nothing here writes.
        members.name("effects_digest", |w| Digest::of(&["[]"]).write(w));
        members.name("run", |w| frame.run().write(w));
        members.name("run_attempt", |w| w.integer(1));
        members.name("run_id", |w| frame.run().run_id.write(w));
        members.name("version", |w| w.integer(1));
        members.name("work_id", |w| member.work_id.write(w));
    })
}
