//! The simulated compare-and-swap register: a ledger that the shipped engine extends, checked at every write.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use wq_action::engine::{Decision, Generated, Projection, replay};
use wq_action::ledger::judge::{committed, judge};
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{At, Opaque};

use crate::audit::{AUTHORITY, BUDGET, CHARGE, DEBT, Model, PLAN, READABLE, REPLAY, REQUEST, Verdict, Violation, rule};
use crate::naive::{Ask, Naive};
use crate::support::built::{Node, PRODUCER, frozen};
use crate::support::ledger::{HOST, typed};

/// One version of the register. Two versions with equal keys differ in nothing but the names of commits and the order
/// of commits that do not touch each other.
pub(crate) struct Register {
    pub(crate) projection: Projection,
    lines: Vec<Arc<str>>,
    /// The serialised projection.
    serialised: String,
    pub(crate) model: Model,
    pub(crate) key: u128,
}

/// What a request comes to on a version.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A commit, which makes this version of it.
    Lands(Arc<Register>),
    /// The request is committed already.
    Committed,
    /// Nothing is to be written, for this reason.
    Nothing(&'static str),
    /// The engine refuses, with this code.
    Refused(&'static str),
}

impl Register {
    /// The version that a producer's first submission makes.
    pub(crate) fn open(policy: &Value, nodes: &[Node]) -> Result<Self, Violation> {
        let nodes: Vec<Value> = nodes.iter().map(Node::value).collect();
        let request = frozen("genesis", RequestKind::Submit, PRODUCER, &serde_json::json!({ "nodes": nodes }));
        let policy: Opaque = typed(&policy.to_string());
        let decision = Projection::bootstrap(&mut Scanner::new(HOST), &request, &policy, At::new(1000).unwrap());
        match decision.unwrap() {
            Decision::Publish(generated) => Self::after(None, *generated),
            other => panic!("{other:?}"),
        }
    }

    /// Decides a request as the publisher does: look for it, decide it, judge the decision. Then check what comes out.
    pub(crate) fn ask(&self, request: &FrozenRequest, at: i64) -> Result<Answer, Violation> {
        let known = self.model.requests.get(request.id.as_str());
        match committed(&self.projection, request) {
            Err(error) => return Ok(Answer::Refused(error.code().as_str())),
            Ok(Some(commit)) => {
                let accepted = self.projection.request(request.id.as_str());
                let same = accepted.is_some_and(|accepted| accepted.fingerprint == request.fingerprint);
                let found = known.is_some_and(|known| known == commit.as_str());
                rule!(found && same, REQUEST, "a request is answered with the commit of another");
                return Ok(Answer::Committed);
            }
            Ok(None) => rule!(known.is_none(), REQUEST, "a committed request is not found again"),
        }
        let decision = self.projection.decide(&mut Scanner::new(HOST), request, At::new(at).unwrap(), &[]);
        let base = Some(&self.projection);
        let judged = decision
            .map_err(|fault| fault.code())
            .and_then(|decision| judge(decision, request, base).map_err(|error| error.code()));
        match judged {
            Err(code) => Ok(Answer::Refused(code.as_str())),
            Ok(Decision::Done { reason, .. }) => Ok(Answer::Nothing(reason)),
            Ok(Decision::Nothing { reason, .. }) => {
                self.check_plan(request, at, reason, None)?;
                Ok(Answer::Nothing(reason))
            }
            Ok(Decision::Publish(generated)) => {
                let reason = generated.stopped.as_ref().map(|stopped| stopped.0);
                let next = Self::after(Some(self), *generated)?;
                if let Some(reason) = reason {
                    self.check_plan(request, at, reason, Some(&next))?;
                }
                Ok(Answer::Lands(Arc::new(next)))
            }
        }
    }

    /// The version after a commit, if no rule is broken.
    fn after(base: Option<&Self>, generated: Generated) -> Result<Self, Violation> {
        let Generated { commit, next, .. } = generated;
        let mut model = base.map(|base| base.model.clone()).unwrap_or_default();
        let parsed: Value = serde_json::from_str(commit.source.as_str()).unwrap();
        model.step(&parsed)?;
        let serialised = next.serialise();
        let document: Value = serde_json::from_str(&serialised).unwrap();
        model.agrees(&document)?;
        let mut lines = base.map(|base| base.lines.clone()).unwrap_or_default();
        lines.push(Arc::from(commit.source.as_str()));
        if let Some(base) = base {
            let claims = commit_has(&parsed, "Claim");
            let before: Value = serde_json::from_str(&base.serialised).unwrap();
            rule!(claims || before["clocks"] == document["clocks"], DEBT, "a commit without a Claim changes a clock");
        }
        check_budget(&lines, &parsed, &document, &next)?;
        check_replay(&lines, &serialised)?;
        let key = canonical(&document, &lines);
        let next = Self { projection: next, lines, serialised, model, key };
        next.check_authority()?;
        Ok(next)
    }

    /// A grant, and a refusal to grant, is what the second planner computes from the serialised projection.
    fn check_plan(&self, request: &FrozenRequest, at: i64, reason: &str, next: Option<&Self>) -> Verdict {
        let document: Value = serde_json::from_str(&self.serialised).unwrap();
        let asked: Value = serde_json::from_str(request.parameters.as_str()).unwrap();
        let number = |name: &str| asked[name].as_u64().unwrap() as usize;
        let profiles = |value: &Value| {
            value.as_array().map(|list| list.iter().map(|one| one.as_str().unwrap().to_owned()).collect())
        };
        let ask = Ask {
            pool: asked["pool"].as_str().unwrap().to_owned(),
            max_claims: number("max_claims"),
            max_dispatches: number("max_dispatches"),
            max_bytes: number("max_bytes"),
            worker_profiles: profiles(&asked["worker_profiles"]),
            preceding: 0,
            at,
        };
        let commit = next.map_or("none".to_owned(), |next| next.projection.tip().unwrap().to_string());
        let (plan, clocks) = Naive::new(&document).charge(&ask, request.id.as_str(), &commit);
        let Some(next) = next else {
            let none = plan["work_ids"].as_array().is_some_and(Vec::is_empty) && plan["reason"] == reason;
            rule!(none, PLAN, "nothing is granted ({reason}) where the second planner says {}", plan["reason"]);
            return Ok(());
        };
        let line: Value = serde_json::from_str(next.lines.last().unwrap()).unwrap();
        let digest = sha256_hex(&[&line["operations"].to_string()]);
        let same = plan["operations_sha256"] == digest.as_str() && plan["reason"] == reason;
        rule!(same, PLAN, "the grant is not the second planner's ({reason}, {})", plan["reason"]);
        let after: Value = serde_json::from_str(&next.serialised).unwrap();
        rule!(after["clocks"][&ask.pool] == clocks, CHARGE, "the clocks are not charged as the second planner says");
        Ok(())
    }

    /// The engine lets a worker act and have effects exactly where the recount does. Asked for the bound run and for
    /// another one of every Claim.
    fn check_authority(&self) -> Verdict {
        for claim in self.model.claims.values() {
            let dispatch = &self.model.dispatches[&claim.dispatch];
            let Some(run) = dispatch.run.as_ref() else { continue };
            for foreign in [false, true] {
                let mut actor = serde_json::json!({"role": "worker", "principal": run["principal"],
                    "repository": run["repository"], "workflow": run["workflow"], "run_id": run["run_id"],
                    "run_attempt": 1, "dispatch_id": claim.dispatch, "claim_handle": claim.handle});
                if foreign {
                    actor["run_id"] = "424242".into();
                }
                let typed: Actor = typed(&actor.to_string());
                let acts = self.projection.probe_authority(&claim.dispatch, &claim.handle, &typed).is_ok();
                let may = self.model.may_act(&actor);
                rule!(acts == may.is_ok(), AUTHORITY, "a worker may act: {acts}; the rules say {may:?}");
                let effects = self.projection.probe_effects(&typed).is_ok();
                let may = self.model.effects(&actor);
                rule!(effects == may.is_ok(), AUTHORITY, "a worker may have effects: {effects}; the rules say {may:?}");
            }
        }
        Ok(())
    }

    /// The commit of a request.
    pub(crate) fn commit_of(&self, request: &str) -> Option<&str> {
        self.model.requests.get(request).map(String::as_str)
    }
}

fn commit_has(commit: &Value, kind: &str) -> bool {
    commit["operations"].as_array().is_some_and(|list| list.iter().any(|operation| operation["kind"] == kind))
}

/// The byte budget, from the lines and from the second planner's reserve.
fn check_budget(lines: &[Arc<str>], commit: &Value, document: &Value, next: &Projection) -> Verdict {
    let total: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
    rule!(document["ledger_bytes"] == total, BUDGET, "the ledger's bytes are miscounted");
    let reserve = Naive::new(document).headroom();
    rule!(next.headroom() == reserve, BUDGET, "the reserve is {} where {reserve} is needed", next.headroom());
    let limit = |name: &str| document["policy"]["limits"][name].as_u64().unwrap();
    let (ordinary, recovery) = (limit("ledger_bytes"), limit("recovery_bytes"));
    rule!(total + reserve <= ordinary + recovery, BUDGET, "what is open could no longer be settled");
    let admission = commit_has(commit, "Work") || commit_has(commit, "Claim");
    let room = !admission || (total <= ordinary && reserve <= recovery);
    rule!(room, BUDGET, "Work is admitted or granted without the reserve to settle it");
    Ok(())
}

/// Cold replay of the bytes gives the same projection.
fn check_replay(lines: &[Arc<str>], serialised: &str) -> Verdict {
    let mut text = String::new();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let text = LedgerText::new(text.into_bytes()).unwrap();
    match replay(&text, &mut Scanner::new(HOST)) {
        Ok(cold) => {
            rule!(cold.serialise() == serialised, REPLAY, "cold replay gives another projection");
            Ok(())
        }
        Err(fault) => {
            // The explorer's mutation table does not count this rule: a fault must be seen, not only fall over itself.
            Err(Violation { rule: READABLE, detail: format!("the ledger cannot be replayed: {fault}") })
        }
    }
}

/// A digest of a version under which names of commits and the order of independent commits do not count: every commit
/// id becomes its request's id, and commits stand in the order of their requests.
fn canonical(document: &Value, lines: &[Arc<str>]) -> u128 {
    let commits: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: HashMap<&str, &str> = commits
        .iter()
        .map(|commit| (commit["id"].as_str().unwrap(), commit["request"]["id"].as_str().unwrap()))
        .collect();
    let mut state = document.clone();
    for member in ["requests", "tip", "policy"] {
        state.as_object_mut().unwrap().remove(member);
    }
    let mut parts: Vec<String> = commits
        .iter()
        .map(|commit| {
            let mut commit = commit.clone();
            for member in ["id", "previous"] {
                commit.as_object_mut().unwrap().remove(member);
            }
            commit["request"].as_object_mut().unwrap().remove("fingerprint");
            renamed(&commit.to_string(), &names)
        })
        .collect();
    parts.sort_unstable();
    parts.push(renamed(&state.to_string(), &names));
    digest(&parts)
}

/// 128 bits of the SHA-256 of some texts.
pub(crate) fn digest(parts: &[String]) -> u128 {
    let joined = parts.join("\n");
    u128::from_str_radix(&sha256_hex(&[&joined])[..32], 16).unwrap()
}

/// Puts the request's id in the place of every commit id.
fn renamed(text: &str, names: &HashMap<&str, &str>) -> String {
    const ID: usize = 66;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\"q_") {
        out.push_str(&rest[..=at]);
        let id = &rest[at + 1..at + 1 + ID];
        out.push_str(names.get(id).copied().unwrap_or(id));
        rest = &rest[at + 1 + ID..];
    }
    out.push_str(rest);
    out
}
