//! Whose message is whose (lifecycle.md 5.1, 5.5): every message is attributed to one Claim of the original assignment, or
//! to none and refused. One Claim's excess or defect changes nothing for another.

use std::collections::BTreeMap;

use super::count::Counts;
use super::message::{CONTROL_TYPES, DELEGATING_TYPES, Message, Unread};
use super::temporary::Owners;
use crate::protocol::assignment::Assignment;
use crate::protocol::json::{Scanner, parse};
use crate::protocol::selector::select;
use crate::protocol::{Code, Fault, Handle, Opaque, Text};

/// A message that was refused. No handler sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place in the file, from 0; none for a message that is missing.
    pub index: Option<usize>,
    /// Its output type, if that could be told.
    pub output: Option<String>,
    /// Its Claim, if it has one.
    pub handle: Option<Handle>,
    /// Why.
    pub fault: Fault,
}

/// What one Claim produced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The Claim.
    pub handle: Handle,
    /// Its accepted messages, in their order; each carries its `claim_handle`.
    pub messages: Vec<Message>,
    /// True if a message of this Claim was refused, or one is missing: then nothing proves its delivery.
    pub disputed: bool,
}

/// All messages of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// One for each member of the original assignment, in its order, silent ones too.
    pub shares: Vec<Share>,
    /// What was refused, in the order of the file, missing messages last.
    pub rejected: Vec<Rejected>,
}

impl Partition {
    /// The share of a Claim.
    #[must_use]
    pub fn share(&self, handle: &Handle) -> Option<&Share> {
        self.shares.iter().find(|share| share.handle == *handle)
    }

    /// Refuses a message of a Claim after all.
    pub fn reject(&mut self, handle: &Handle, index: usize, fault: Fault) {
        let Some(share) = self.shares.iter_mut().find(|share| share.handle == *handle) else { return };
        let output = share.messages.iter().find(|message| message.index == index).map(|one| one.output.clone());
        share.messages.retain(|message| message.index != index);
        share.disputed = true;
        self.rejected.push(Rejected { index: Some(index), output, handle: Some(handle.clone()), fault });
    }

    /// Refuses a staged control that names no Claim, or none that could be told. Where there is one Claim it can be nobody
    /// else's, and a Result would close that Claim's controls for good, so its proof cannot be complete; of several, none is
    /// held to account for it.
    pub fn refuse_control(&mut self, fault: Fault) {
        if let [share] = self.shares.as_mut_slice() {
            share.disputed = true;
        }
        self.rejected.push(Rejected { index: None, output: None, handle: None, fault });
    }

    /// Marks a Claim whose proof cannot be complete for another reason than a message.
    pub fn dispute(&mut self, handle: &Handle) {
        if let Some(share) = self.shares.iter_mut().find(|share| share.handle == *handle) {
            share.disputed = true;
        }
    }
}

/// Attributes messages to the Claims of the original assignment and counts them.
///
/// Refused are, each with its Claim where that is known: what could not be read; a missing or wrong selector
/// (`claim_scope_required`, `claim_scope_invalid`); control types, which only staged intents carry
/// (`claim_control_delivery_invalid`); types that start other workflows (`claim_scope_invalid`); what is beyond a configured
/// maximum and what is missing below a minimum (`claim_output_count`); and a reference to a temporary id that only other
/// Claims declared (`claim_scope_invalid`).
#[must_use]
pub fn partition(
    messages: Vec<Result<Message, Unread>>,
    original: &Assignment,
    counts: &Counts,
    scanner: &mut Scanner,
) -> Partition {
    let shares = original.claims.iter().map(|member| Share {
        handle: member.handle.clone(),
        messages: Vec::new(),
        disputed: false,
    });
    let mut found = Partition { shares: shares.collect(), rejected: Vec::new() };
    let mut taken: BTreeMap<(Handle, String), u64> = BTreeMap::new();
    let mut owners = Owners::default();
    for message in messages {
        let message = match message {
            Ok(message) => message,
            Err(Unread { index, output, fault }) => {
                found.refuse(Some(index), output, None, fault);
                continue;
            }
        };
        let handle = match attribute(&message, original, scanner) {
            Ok(handle) => handle,
            Err(fault) => {
                found.refuse(Some(message.index), Some(message.output), None, fault);
                continue;
            }
        };
        let count = taken.entry((handle.clone(), message.output.clone())).or_default();
        let most = counts.of(&message.output).and_then(|bounds| bounds.max);
        match permitted(&message.output)
            .and_then(|()| below(*count, most))
            .and_then(|()| with_handle(&message, &handle))
        {
            Ok(message) => {
                *count += 1;
                if let Ok(document) = scanner.read(message.text.text()) {
                    owners.declare(document.root(), &handle);
                }
                found.accept(&handle, message);
            }
            Err(fault) => found.refuse(Some(message.index), Some(message.output), Some(handle), fault),
        }
    }
    found.refuse_borrowers(&owners, scanner);
    found.refuse_silence(counts);
    found
}

/// The Claim of a message, by the one normalizer.
fn attribute(message: &Message, original: &Assignment, scanner: &mut Scanner) -> Result<Handle, Fault> {
    let document = scanner.read(message.text.text())?;
    select(document.root(), original).map(|member| member.handle.clone())
}

fn permitted(output: &str) -> Result<(), Fault> {
    if CONTROL_TYPES.contains(&output) {
        return Err(Code::ClaimControlDeliveryInvalid.into());
    }
    if DELEGATING_TYPES.contains(&output) {
        let message = "a Claim starts no workflow by an output; only a staged work_queue_dispatch_next may";
        return Err(Fault::new(Code::ClaimScopeInvalid, message));
    }
    Ok(())
}

fn below(count: u64, most: Option<u64>) -> Result<(), Fault> {
    match most {
        Some(most) if count >= most => {
            let message = format!("too many items of this type for one Claim; at most {most} are allowed");
            Err(Fault::new(Code::ClaimOutputCount, message))
        }
        _ => Ok(()),
    }
}

/// The same message with its Claim written into it.
fn with_handle(message: &Message, handle: &Handle) -> Result<Message, Fault> {
    use crate::protocol::json::Value;
    let mut value = parse(message.text.as_str())?;
    if let Value::Object(members) = &mut value
        && !members.iter().any(|(name, _)| name == "claim_handle")
    {
        members.push(("claim_handle".to_owned(), Value::String(handle.as_str().to_owned())));
    }
    let text = Opaque::checked(Text::from(value.encode()?));
    Ok(Message { text, ..message.clone() })
}

impl Partition {
    fn accept(&mut self, handle: &Handle, message: Message) {
        if let Some(share) = self.shares.iter_mut().find(|share| share.handle == *handle) {
            share.messages.push(message);
        }
    }

    fn refuse(&mut self, index: Option<usize>, output: Option<String>, handle: Option<Handle>, fault: Fault) {
        if let Some(share) = self.shares.iter_mut().find(|share| Some(&share.handle) == handle.as_ref()) {
            share.disputed = true;
        }
        self.rejected.push(Rejected { index, output, handle, fault });
    }

    fn refuse_borrowers(&mut self, owners: &Owners, scanner: &mut Scanner) {
        let mut borrowed = Vec::new();
        for share in &self.shares {
            for message in &share.messages {
                let borrows = scanner
                    .read(message.text.text())
                    .is_ok_and(|document| owners.borrows(document.root(), &share.handle));
                if borrows {
                    borrowed.push((share.handle.clone(), message.index));
                }
            }
        }
        for (handle, index) in borrowed {
            let message = "a message refers to a temporary id of another Claim";
            self.reject(&handle, index, Fault::new(Code::ClaimScopeInvalid, message));
        }
    }

    /// Every original member is looked at, one without any output too.
    fn refuse_silence(&mut self, counts: &Counts) {
        let mut missing = Vec::new();
        for share in &self.shares {
            for (output, least) in counts.required() {
                let found = share.messages.iter().filter(|message| message.output == output).count() as u64;
                if found < least {
                    let message = format!(
                        "too few items of this type for one Claim; at least {least} are required, {found} were found"
                    );
                    missing.push((
                        output.to_owned(),
                        share.handle.clone(),
                        Fault::new(Code::ClaimOutputCount, message),
                    ));
                }
            }
        }
        for (output, handle, fault) in missing {
            self.refuse(None, Some(output), Some(handle), fault);
        }
    }
}
