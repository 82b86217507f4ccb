//! Queue branches whose history holds checkpoints, made version by version as any writer could, and forged likewise.

use serde_json::{Value, json};
use wq_action::engine::checkpoint::{CheckpointInputs, checkpoint_request_id};
use wq_action::engine::{Decision, Projection, replay};
use wq_action::ledger::git::ObjectId;
use wq_action::ledger::head::snapshot;
use wq_action::ledger::proposal::{Worker, default_policy};
use wq_action::ledger::{PushOutcome, Snapshot, Transport as _};
use wq_action::protocol::RepositoryName;
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::commit::{Candidate, FrozenRequest};
use wq_action::protocol::compressed::inflate;
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::policy::Policy;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{At, CommitId, Digest, Epoch, Opaque, ProfileName, RequestId, Revision};

use super::git::{Bare, NOW, Writer};
use super::ledger::{HOST, canonical, typed};
use super::queue::{REPOSITORY, actor, request, submit};

/// The default Policy whose one route has a contract, so that it is deployed.
pub(crate) fn deployed_policy() -> Policy {
    let worker = Worker {
        name: ProfileName::new("worker").unwrap(),
        revision: Revision::new("f".repeat(40)).unwrap(),
        contract: Some(Digest::new("c".repeat(64)).unwrap()),
    };
    default_policy(&RepositoryName::new(REPOSITORY).unwrap(), &[worker]).unwrap()
}

/// A deployment of the revision `<digit repeated>` over another one, under one contract.
pub(crate) fn deployment(id: &str, from: char, to: char) -> FrozenRequest {
    let revision = |digit: char| digit.to_string().repeat(40);
    let operation = json!({"kind": "Deployment", "pool": "default", "worker_profile": "worker",
        "expected_ref": revision(from), "expected_contract": "c".repeat(64), "available": true,
        "reason": "worker_deployed", "profile": {"credential_scope": "repository", "effect_scope": REPOSITORY,
            "logical_contract": "c".repeat(64), "max_claims": 1, "ref": revision(to), "share_keys": false,
            "trust_domain": "default", "workflow": ".github/workflows/worker.lock.yml"}});
    let parameters = canonical(&json!({"operations": [operation]}).to_string());
    request(id, RequestKind::Deployment, Role::Administrator, &parameters)
}

/// A plain control, the smallest request there is.
pub(crate) fn control(id: &str) -> FrozenRequest {
    let operation = r#"{"control":"grants_paused","kind":"Control","reason":"test","value":false}"#;
    request(id, RequestKind::Control, Role::Administrator, &format!(r#"{{"operations":[{operation}]}}"#))
}

/// A ledger under construction, without Git.
#[derive(Clone)]
pub(crate) struct Story {
    pub(crate) state: Projection,
    at: i64,
}

impl Story {
    /// A queue that the request `first` opened.
    pub(crate) fn open(policy: &Policy) -> Self {
        let at = At::new(NOW).unwrap();
        let decision = Projection::bootstrap(&mut Scanner::new(HOST), &submit("first"), &policy.source, at).unwrap();
        let Decision::Publish(generated) = decision else { panic!("{decision:?}") };
        Self { state: generated.next, at: NOW }
    }

    pub(crate) fn publish(&mut self, request: &FrozenRequest) {
        self.at += 1000;
        let at = At::new(self.at).unwrap();
        let decision = self.state.decide(&mut Scanner::new(HOST), request, at, &[]).unwrap();
        let Decision::Publish(generated) = decision else { panic!("{decision:?}") };
        self.state = generated.next;
    }

    /// Replaces everything by a checkpoint of the Git commit that is said to hold it.
    pub(crate) fn compact(&mut self, sha: &str) {
        self.compact_by(sha, &actor(Role::Administrator));
    }

    pub(crate) fn compact_by(&mut self, sha: &str, actor: &Actor) {
        self.at += 1000;
        let inputs =
            CheckpointInputs { prior_git_sha: &Revision::new(sha).unwrap(), actor, at: At::new(self.at).unwrap() };
        self.state = self.state.checkpoint(&inputs, &mut Scanner::new(HOST)).unwrap().projection;
    }

    pub(crate) fn ledger(&self) -> String {
        self.state.active().map(|line| [line.as_str(), "\n"].concat()).collect()
    }
}

/// Replays a ledger on its own, without Git.
pub(crate) fn replayed(ledger: &str) -> Result<Projection, &'static str> {
    let text = LedgerText::new(ledger.as_bytes().to_vec()).unwrap();
    replay(&text, &mut Scanner::new(HOST)).map_err(|fault| fault.fault.code().as_str())
}

/// Versions of a branch, one on top of another, in a store of its own until they are sent.
pub(crate) struct History {
    writer: Writer,
    head: Option<Snapshot>,
    sent: Option<ObjectId>,
}

impl History {
    pub(crate) fn new(bare: &Bare) -> Self {
        Self { writer: Writer::new(bare.transport()), head: None, sent: None }
    }

    /// Puts a version on top of the last one and returns its commit.
    pub(crate) fn version(&mut self, ledger: &str) -> String {
        let commit = self.writer.candidate(self.head.as_ref(), ledger.as_bytes()).commit;
        self.head = Some(snapshot(&self.writer.store, commit).unwrap());
        commit.to_string()
    }

    /// Makes the remote branch what was written.
    pub(crate) fn send(&mut self) {
        let commit = self.head.as_ref().unwrap().commit;
        let path = self.writer.store.path();
        let outcome = self.writer.transport.push(path, commit, &self.writer.branch.reference(), self.sent);
        assert_eq!(outcome, Ok(PushOutcome::Acknowledged));
        self.sent = Some(commit);
    }
}

/// A version with any parents, put on the branch.
pub(crate) fn version(bare: &Bare, ledger: &str, parents: &[&str]) -> String {
    let blob = bare.blob(ledger.as_bytes());
    let tree = bare.tree(&[("100644", "work-queue.jsonl", &blob)]);
    bare.commit("work-queue", &tree, parents)
}

/// The canonical line of a changed record.
pub(crate) fn changed(line: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    change(&mut value);
    canonical(&value.to_string())
}

/// A checkpoint that was changed and signed anew: its digest, its parameters, its ids and its fingerprint fit what it
/// says, and only the history behind it can tell.
pub(crate) fn forged(line: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    let operation = &mut value["operations"][0];
    change(operation);
    let mut logical = operation["state"].clone();
    let members = logical.as_object_mut().unwrap();
    let packed = members.remove("requests_compressed").unwrap();
    let requests = inflate(packed.as_str().unwrap(), 1 << 26).unwrap();
    members.insert("requests".to_owned(), serde_json::from_str(&requests).unwrap());
    operation["state_sha256"] = sha256_hex(&[&canonical(&logical.to_string())]).into();
    let mut parameters = operation.clone();
    let scalars = parameters.as_object_mut().unwrap();
    scalars.remove("kind");
    scalars.remove("state");
    let word = |name: &str| operation[name].as_str().unwrap().to_owned();
    let tip = CommitId::new(word("prior_tip")).unwrap();
    let id = checkpoint_request_id(&tip, &Revision::new(word("prior_git_sha")).unwrap());
    let commit_id = CommitId::new(format!("q_{}", sha256_hex(&[id.as_str()]))).unwrap();
    let operation: Opaque = typed(&operation.to_string());
    let actor = typed::<Actor>(&value["actor"].to_string());
    let request = RequestId::new(id.as_str()).unwrap();
    let request =
        FrozenRequest::new(request, RequestKind::Checkpoint, actor, &canonical(&parameters.to_string())).unwrap();
    let candidate = Candidate {
        id: &commit_id,
        previous: None,
        request: &request,
        policy_epoch: &Epoch::new(value["policy_epoch"].as_str().unwrap()).unwrap(),
        at: At::new(value["at"].as_i64().unwrap()).unwrap(),
        operations: &[operation],
    };
    candidate.encode()
}
