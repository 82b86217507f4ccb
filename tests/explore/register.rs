//! The simulated compare-and-swap register: a ledger that the shipped engine extends, checked at every write.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::engine::{Decision, Generated, Projection, replay};
use wq_action::ledger::judge::{committed, judge};
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{At, Opaque, Revision};

use crate::audit::{
    AUTHORITY, BUDGET, CHARGE, COMPACTION, DEBT, Model, PLAN, READABLE, REPLAY, REQUEST, Verdict, Violation, rule,
};
use crate::naive::{Ask, Naive};
use crate::support::built::{ADMINISTRATOR, Node, PRODUCER, frozen};
use crate::support::ledger::{HOST, typed};

/// Every version of a search, by key: equal ones are made once.
#[derive(Default)]
pub(crate) struct Shelf(RefCell<HashMap<u128, Rc<Register>>>);

impl Shelf {
    /// Drops all versions, which hold the shelf and each other. Returns how many there were.
    pub(crate) fn clear(&self) -> usize {
        let versions = self.0.take();
        for version in versions.values() {
            version.answers.take();
        }
        versions.len()
    }

    fn keep(&self, register: Register) -> Rc<Register> {
        Rc::clone(self.0.borrow_mut().entry(register.key).or_insert_with(|| Rc::new(register)))
    }
}

/// One version of the register. Two versions with equal keys differ in nothing but the names of commits and the order
/// of commits that do not touch each other.
pub(crate) struct Register {
    pub(crate) projection: Projection,
    lines: Vec<Arc<str>>,
    /// The serialised projection.
    serialised: String,
    pub(crate) model: Model,
    /// Every commit ever, in words that do not depend on the names of commits; replaced ones too.
    history: Vec<Arc<str>>,
    /// A digest of the projection in such words, without what a compaction changes.
    essence: u128,
    /// The same ledger, never compacted; none for one that is not.
    plain: Option<Rc<Register>>,
    pub(crate) key: u128,
    shelf: Rc<Shelf>,
    /// What was asked of this version before, by request id, fingerprint and time.
    answers: RefCell<HashMap<(String, String, i64), Answer>>,
}

/// What a request comes to on a version.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A commit, which makes this version of it.
    Lands(Rc<Register>),
    /// The request is committed already.
    Committed,
    /// Nothing is to be written, for this reason.
    Nothing(&'static str),
    /// The engine refuses, with this code.
    Refused(&'static str),
}

impl Answer {
    fn words(&self) -> &'static str {
        match self {
            Self::Lands(_) => "a commit",
            Self::Committed => "committed",
            Self::Nothing(reason) => reason,
            Self::Refused(code) => code,
        }
    }
}

impl Register {
    /// The version that a producer's first submission makes.
    pub(crate) fn open(shelf: &Rc<Shelf>, policy: &Value, nodes: &[Node]) -> Result<Rc<Self>, Violation> {
        let nodes: Vec<Value> = nodes.iter().map(Node::value).collect();
        let request = frozen("genesis", RequestKind::Submit, PRODUCER, &serde_json::json!({ "nodes": nodes }));
        let policy: Opaque = typed(&policy.to_string());
        let decision = Projection::bootstrap(&mut Scanner::new(HOST), &request, &policy, At::new(1000).unwrap());
        match decision.unwrap() {
            Decision::Publish(generated) => Ok(shelf.keep(Self::after(shelf, None, *generated)?)),
            other => panic!("{other:?}"),
        }
    }

    /// Asks this version and, if it is compacted, the one that is not: both must give the same answer.
    pub(crate) fn ask(&self, make: &dyn Fn(&Self) -> FrozenRequest, at: i64) -> Result<Answer, Violation> {
        let answer = self.decide(&make(self), at)?;
        let Some(plain) = &self.plain else { return Ok(answer) };
        let expected = plain.decide(&make(plain), at)?;
        let (got, wanted) = (answer.words(), expected.words());
        rule!(got == wanted, COMPACTION, "a compacted ledger answers {got}, one that is not {wanted}");
        if let (Answer::Lands(next), Answer::Lands(plain)) = (&answer, &expected) {
            let same = next.essence == plain.essence;
            rule!(same, COMPACTION, "a commit makes another state of a compacted ledger");
            return Ok(Answer::Lands(Rc::clone(next).beside(Rc::clone(plain))));
        }
        Ok(answer)
    }

    /// The version in which a checkpoint stands for the whole chain.
    pub(crate) fn compact(self: &Rc<Self>, at: i64) -> Result<Answer, Violation> {
        let bytes: String = self.lines.concat();
        let prior = Revision::new(&sha256_hex(&[&bytes])[..40]).unwrap();
        let actor: Actor = typed(ADMINISTRATOR);
        let inputs = CheckpointInputs { prior_git_sha: &prior, actor: &actor, at: At::new(at).unwrap() };
        let built = match self.projection.checkpoint(&inputs, &mut Scanner::new(HOST)) {
            Ok(built) => built,
            Err(fault) => {
                rule!(false, COMPACTION, "a valid ledger cannot be compacted: {fault}");
                return Ok(Answer::Refused(fault.code().as_str()));
            }
        };
        let tip = built.projection.tip().unwrap().to_string();
        let mut model = self.model.clone();
        model.requests.insert(built.request.id.as_str().to_owned(), tip);
        let lines = vec![Arc::from(built.commit.as_str())];
        let mut history: Vec<Arc<str>> =
            self.history.iter().map(|line| Arc::from(format!("replaced {line}"))).collect();
        history.push(Arc::from(format!("checkpoint at {at}")));
        let next = Self::finish(&self.shelf, built.projection, lines, model, history)?;
        rule!(next.essence == self.essence, COMPACTION, "compaction changes the projection");
        let plain = self.plain.clone().unwrap_or_else(|| Rc::clone(self));
        Ok(Answer::Lands(self.shelf.keep(next).beside(plain)))
    }

    /// The same version with the one that was never compacted beside it.
    fn beside(self: Rc<Self>, plain: Rc<Self>) -> Rc<Self> {
        let known = self.shelf.0.borrow().get(&self.key).map(Rc::clone);
        if let Some(known) = known.filter(|known| known.plain.is_some()) {
            return known;
        }
        let with = Self {
            projection: self.projection.clone(),
            lines: self.lines.clone(),
            serialised: self.serialised.clone(),
            model: self.model.clone(),
            history: self.history.clone(),
            plain: Some(plain),
            shelf: Rc::clone(&self.shelf),
            answers: RefCell::default(),
            ..*self
        };
        let with = Rc::new(with);
        self.shelf.0.borrow_mut().insert(self.key, Rc::clone(&with));
        with
    }

    fn decide(&self, request: &FrozenRequest, at: i64) -> Result<Answer, Violation> {
        let key = (request.id.as_str().to_owned(), request.fingerprint.to_string(), at);
        if let Some(answer) = self.answers.borrow().get(&key) {
            return Ok(answer.clone());
        }
        let answer = self.decide_anew(request, at)?;
        self.answers.borrow_mut().insert(key, answer.clone());
        Ok(answer)
    }

    /// Decides a request as the publisher does: look for it, decide it, judge the decision. Then check what comes out.
    fn decide_anew(&self, request: &FrozenRequest, at: i64) -> Result<Answer, Violation> {
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
                let next = Self::after(&self.shelf, Some(self), *generated)?;
                if let Some(reason) = reason {
                    self.check_plan(request, at, reason, Some(&next))?;
                }
                Ok(Answer::Lands(self.shelf.keep(next)))
            }
        }
    }

    /// The version after a commit, if no rule is broken.
    fn after(shelf: &Rc<Shelf>, base: Option<&Self>, generated: Generated) -> Result<Self, Violation> {
        let Generated { commit, next, .. } = generated;
        let mut model = base.map(|base| base.model.clone()).unwrap_or_default();
        let parsed: Value = serde_json::from_str(commit.source.as_str()).unwrap();
        model.step(&parsed)?;
        let mut history = base.map(|base| base.history.clone()).unwrap_or_default();
        history.push(Arc::from(anonymous(&parsed, &model)));
        let mut lines = base.map(|base| base.lines.clone()).unwrap_or_default();
        lines.push(Arc::from(commit.source.as_str()));
        let quiet = !["Claim", "Policy"].iter().any(|kind| commit_has(&parsed, kind));
        let admission = ["Claim", "Work"].iter().any(|kind| commit_has(&parsed, kind));
        let next = Self::finish(shelf, next, lines, model, history)?;
        let document: Value = serde_json::from_str(&next.serialised).unwrap();
        if let Some(base) = base.filter(|_| quiet) {
            let before: Value = serde_json::from_str(&base.serialised).unwrap();
            rule!(before["clocks"] == document["clocks"], DEBT, "a commit without a Claim changes a clock");
        }
        check_room(admission, &document, &next.lines)?;
        Ok(next)
    }

    /// A version of these parts, if they fit each other.
    fn finish(
        shelf: &Rc<Shelf>,
        projection: Projection,
        lines: Vec<Arc<str>>,
        model: Model,
        history: Vec<Arc<str>>,
    ) -> Result<Self, Violation> {
        let serialised = projection.serialise();
        let document: Value = serde_json::from_str(&serialised).unwrap();
        model.agrees(&document)?;
        check_budget(&lines, &document, &projection)?;
        check_replay(&lines, &serialised)?;
        for (request, commit) in &model.requests {
            let found = projection.request(request).is_some_and(|accepted| accepted.commit_id.as_str() == commit);
            rule!(found, REQUEST, "a committed request is forgotten");
        }
        let (essence, key) = canonical(&document, &history, &model);
        let next = Self {
            projection,
            lines,
            serialised,
            model,
            history,
            essence,
            plain: None,
            key,
            shelf: Rc::clone(shelf),
            answers: RefCell::default(),
        };
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
fn check_budget(lines: &[Arc<str>], document: &Value, next: &Projection) -> Verdict {
    let total = bytes(lines);
    rule!(document["ledger_bytes"] == total, BUDGET, "the ledger's bytes are miscounted");
    let reserve = Naive::new(document).headroom();
    rule!(next.headroom() == reserve, BUDGET, "the reserve is {} where {reserve} is needed", next.headroom());
    let (ordinary, recovery) = limits(document);
    rule!(total + reserve <= ordinary + recovery, BUDGET, "what is open could no longer be settled");
    Ok(())
}

/// What is admitted or granted leaves the recovery reserve alone.
fn check_room(admission: bool, document: &Value, lines: &[Arc<str>]) -> Verdict {
    let (ordinary, recovery) = limits(document);
    let room = bytes(lines) <= ordinary && Naive::new(document).headroom() <= recovery;
    rule!(!admission || room, BUDGET, "Work is admitted or granted without the reserve to settle it");
    Ok(())
}

fn bytes(lines: &[Arc<str>]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

fn limits(document: &Value) -> (u64, u64) {
    let limit = |name: &str| document["policy"]["limits"][name].as_u64().unwrap();
    (limit("ledger_bytes"), limit("recovery_bytes"))
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

/// Digests of a version under which names of commits and the order of independent commits do not count: every commit
/// id becomes its request's id, and commits stand in the order of their requests. The first leaves out what a
/// compaction changes, which is nothing that a decision looks at; the second names the whole version.
fn canonical(document: &Value, history: &[Arc<str>], model: &Model) -> (u128, u128) {
    let names = names(model);
    let mut state = document.clone();
    for member in ["requests", "tip", "policy"] {
        state.as_object_mut().unwrap().remove(member);
    }
    let mut parts: Vec<String> = history.iter().map(|line| line.to_string()).collect();
    parts.sort_unstable();
    let replaced = history.iter().any(|line| line.starts_with("replaced"));
    if replaced {
        // A checkpoint's length depends on the names that it compresses.
        state.as_object_mut().unwrap().remove("ledger_bytes");
    }
    parts.push(renamed(&state.to_string(), &names));
    let key = digest(&parts);
    state.as_object_mut().unwrap().remove("ledger_bytes");
    state["stats"].as_object_mut().unwrap().remove("transactions");
    for work in state["works"].as_object_mut().unwrap().values_mut() {
        // Ordinals count the checkpoint; the second planner judges the order that they make.
        work.as_object_mut().unwrap().remove("position");
    }
    (digest(&[renamed(&state.to_string(), &names)]), key)
}

/// A commit without its id, its predecessor and its fingerprint, naming others by their requests.
fn anonymous(commit: &Value, model: &Model) -> String {
    let mut commit = commit.clone();
    for member in ["id", "previous"] {
        commit.as_object_mut().unwrap().remove(member);
    }
    commit["request"].as_object_mut().unwrap().remove("fingerprint");
    renamed(&commit.to_string(), &names(model))
}

/// Request ids by commit id.
fn names(model: &Model) -> HashMap<&str, &str> {
    model.requests.iter().map(|(request, commit)| (commit.as_str(), request.as_str())).collect()
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
