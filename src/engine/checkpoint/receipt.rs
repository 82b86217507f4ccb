//! Receipts: what a checkpoint keeps of each accepted commit (engine.md 3.12.2).

use crate::engine::state::{Accepted, Projection, Source};
use crate::protocol::json::{Members, Node, Scanner, Writer};
use crate::protocol::{Code, Digest, Fault, Text, Wire as _};

/// Members of an operation that its event keeps; a Deployment keeps all of its own.
const KEPT: [&str; 22] = [
    "claim_handle",
    "claim_id",
    "completion_id",
    "control",
    "credential_principal",
    "dispatch_id",
    "disposition",
    "evidence",
    "execution_ref",
    "keep_open",
    "kind",
    "logical_contract",
    "observation_id",
    "observations",
    "reason",
    "run",
    "run_attempt",
    "run_id",
    "state",
    "trace",
    "value",
    "work_id",
];

/// The value under a member that a checked record has.
fn member<'a>(node: Node<'a>, name: &'static str) -> Result<Node<'a>, Fault> {
    let found = node.object().and_then(|object| object.get(name));
    found.ok_or_else(|| Fault::from(Code::Internal))
}

/// Writes the event of one operation: its kind, ids, states and evidence without receipt, never content.
pub(crate) fn write_event(operation: Node<'_>, writer: &mut Writer) -> Result<(), Fault> {
    let object = operation.object().ok_or_else(|| Fault::from(Code::Internal))?;
    if object.get("kind").and_then(Node::plain) == Some("Deployment") {
        writer.raw(operation.raw());
        return Ok(());
    }
    writer.object(|members| {
        for name in KEPT {
            let Some(value) = object.get(name) else { continue };
            match name {
                // A Checkpoint's state is an object.
                "state" if value.string().is_none() => {}
                "observations" if value.array_len() == 0 => {}
                "evidence" => members.name(name, |w| write_without_receipt(value, w)),
                _ => members.name(name, |w| w.raw(value.raw())),
            }
        }
    });
    Ok(())
}

fn write_without_receipt(evidence: Node<'_>, writer: &mut Writer) {
    let Some(object) = evidence.object() else { return writer.raw(evidence.raw()) };
    writer.object(|members| {
        for (key, value) in object.members().filter(|(key, _)| key.plain() != Some("receipt")) {
            // Members of evidence have plain names.
            members.text(&key.string().unwrap_or_else(|| Text::from("")), |w| w.raw(value.raw()));
        }
    });
}

impl Projection {
    /// Writes the receipts of all accepted commits, in order.
    pub(super) fn write_receipts(&self, scanner: &mut Scanner, writer: &mut Writer) -> Result<(), Fault> {
        let mut outcome = Ok(());
        writer.array(&self.requests, |w, accepted| {
            if outcome.is_ok() {
                outcome = self.write_receipt(accepted, scanner, w);
            }
        });
        outcome
    }

    fn write_receipt(&self, accepted: &Accepted, scanner: &mut Scanner, writer: &mut Writer) -> Result<(), Fault> {
        match &accepted.source {
            Source::Commit(text) => {
                let document = scanner.read(text.text())?;
                self.write_new_receipt(accepted, document.root(), writer)
            }
            Source::Receipt(text) => {
                let document = scanner.read(text.text())?;
                let object = document.root().object().ok_or_else(|| Fault::from(Code::Internal))?;
                writer.object(|members| {
                    for (key, value) in object.members() {
                        let Some(key) = key.string() else { continue };
                        // Explanations name the tip of the chain that holds them.
                        if key.as_str() == "claim_explanations" {
                            members.text(&key, |w| self.write_explanations(accepted, w));
                        } else {
                            members.text(&key, |w| w.raw(value.raw()));
                        }
                    }
                });
                Ok(())
            }
        }
    }

    fn write_explanations(&self, accepted: &Accepted, writer: &mut Writer) {
        writer.array(self.granted(accepted), |w, claim| self.write_claim_explanation(claim, w));
    }

    fn write_new_receipt(&self, accepted: &Accepted, commit: Node<'_>, writer: &mut Writer) -> Result<(), Fault> {
        let request = member(commit, "request")?;
        let parameters = member(request, "parameters")?;
        let operations = member(commit, "operations")?;
        let mut events = Writer::new();
        let mut outcome = Ok(());
        events.array(operations.array().into_iter().flatten(), |w, operation| {
            if outcome.is_ok() {
                outcome = write_event(operation, w);
            }
        });
        outcome?;
        let events = events.finish();
        let kind = accepted.kind.as_str();
        let raw = |members: &mut Members<'_>, name: &'static str, value: Node<'_>| {
            members.name(name, |w| w.raw(value.raw()));
        };
        let previous = member(commit, "previous")?;
        let actor = member(commit, "actor")?;
        let prior_tip = (kind == "checkpoint").then(|| member(parameters, "prior_tip")).transpose()?;
        writer.object(|members| {
            raw(members, "actor", actor);
            members.name("at", |w| accepted.at.write(w));
            members.name("claim_explanations", |w| self.write_explanations(accepted, w));
            if kind == "dispatch_next" {
                raw(members, "dispatch_parameters", parameters);
            }
            members.name("events", |w| w.raw(&events));
            members.name("fingerprint", |w| accepted.fingerprint.write(w));
            members.name("id", |w| accepted.commit_id.write(w));
            members.name("kind", |w| accepted.kind.write(w));
            members.name("parameters_digest", |w| Digest::of(&[parameters.raw()]).write(w));
            members.name("policy_epoch", |w| accepted.policy_epoch.write(w));
            raw(members, "previous", previous);
            if let Some(tip) = prior_tip {
                raw(members, "prior_tip", tip);
            }
            members.name("request_id", |w| accepted.request_id.write(w));
        });
        Ok(())
    }

    /// Writes what the serialised projection shows in place of a commit that a checkpoint replaced.
    pub(crate) fn write_replaced(&self, ordinal: u32, receipt: &crate::protocol::Opaque, writer: &mut Writer) {
        let mut scanner = Scanner::new("");
        // The receipt was read when it was restored.
        let Ok(document) = scanner.read(receipt.text()) else { return writer.raw("null") };
        let receipt = document.root();
        let copy = |members: &mut Members<'_>, name: &'static str, from: &'static str| {
            if let Ok(value) = member(receipt, from) {
                members.name(name, |w| w.raw(value.raw()));
            }
        };
        writer.object(|members| {
            copy(members, "actor", "actor");
            copy(members, "at", "at");
            copy(members, "checkpoint_events", "events");
            copy(members, "checkpoint_prior_tip", "prior_tip");
            copy(members, "compacted_parameters_digest", "parameters_digest");
            copy(members, "id", "id");
            copy(members, "operations", "events");
            copy(members, "policy_epoch", "policy_epoch");
            copy(members, "previous", "previous");
            members.name("request", |w| {
                w.object(|members| {
                    copy(members, "fingerprint", "fingerprint");
                    copy(members, "id", "request_id");
                    copy(members, "kind", "kind");
                    members.name("parameters", |w| {
                        let object = receipt.object();
                        let kind = object.and_then(|object| object.get("kind")).and_then(Node::plain);
                        match object.and_then(|object| object.get("dispatch_parameters")) {
                            Some(parameters) => w.raw(parameters.raw()),
                            None if kind == Some("submit") => self.write_submitted(ordinal, w),
                            None => w.raw("null"),
                        }
                    });
                });
            });
            members.name("version", |w| w.integer(3));
        });
    }

    /// The parameters of a submission, rebuilt from the Work that it admitted.
    fn write_submitted(&self, ordinal: u32, writer: &mut Writer) {
        let first = self.works.partition_point(|state| state.position.commit < ordinal);
        let nodes = self.works[first..].iter().take_while(|state| state.position.commit == ordinal);
        writer.object(|members| {
            members.name("nodes", |w| w.array(nodes, |w, state| state.work.source.write(w)));
        });
    }
}
