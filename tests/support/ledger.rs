//! Reading ledgers in tests, and writing small ones.

use std::path::{Path, PathBuf};

use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::{Candidate, Commit, FrozenRequest};
use wq_action::protocol::identity::{Opaque, sha256_hex};
use wq_action::protocol::json::{Scanner, parse};
use wq_action::protocol::ledger_text::{LedgerFault, LedgerText};
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::work::derive_work_id;
use wq_action::protocol::{At, Code, CommitId, Epoch, GraphId, NodeKey, RequestId, Text, Wire};

/// The host that most test ledgers use.
pub(crate) const HOST: &str = "github.com";

/// Reads a ledger file to its commits.
pub(crate) fn read(bytes: &[u8], host: &str) -> Result<Vec<Commit>, LedgerFault> {
    LedgerText::new(bytes.to_vec())?.commits(&mut Scanner::new(host))
}

/// Code and line of a ledger that is refused.
pub(crate) fn refusal(bytes: &[u8]) -> (&'static str, Option<usize>) {
    let fault = read(bytes, HOST).expect_err("the ledger is refused");
    (fault.fault.code().as_str(), fault.line)
}

/// Path of one of the project's own ledgers.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The canonical form of any JSON text.
pub(crate) fn canonical(json: &str) -> String {
    parse(json).and_then(|value| value.encode()).unwrap_or_else(|fault| panic!("{fault}: {json}"))
}

/// A typed value from any JSON text.
pub(crate) fn typed<T: Wire>(json: &str) -> T {
    let mut scanner = Scanner::new(HOST);
    let text = Text::from(json);
    let document = scanner.read(&text).unwrap_or_else(|fault| panic!("{fault}: {json}"));
    T::read(document.root(), Code::LedgerInvalid).unwrap_or_else(|fault| panic!("{fault}: {json}"))
}

/// Writes a chain of commits, one after another, through the project's own writer.
pub(crate) struct Chain {
    /// The ledger so far.
    pub(crate) text: String,
    pub(crate) epoch: String,
    tip: Option<CommitId>,
}

impl Chain {
    pub(crate) fn new(epoch: &str) -> Self {
        Self { text: String::new(), epoch: epoch.to_owned(), tip: None }
    }

    /// Appends a commit whose parameters are its operations.
    pub(crate) fn plain(&mut self, id: &str, kind: RequestKind, actor: &str, at: i64, operations: &[String]) {
        let member = if kind == RequestKind::Submit { "nodes" } else { "operations" };
        let parameters = format!("{{\"{member}\":[{}]}}", operations.join(","));
        self.commit(id, kind, actor, at, &parameters, operations);
    }

    /// Appends a commit. Its request is named after it.
    pub(crate) fn commit(
        &mut self,
        id: &str,
        kind: RequestKind,
        actor: &str,
        at: i64,
        parameters: &str,
        operations: &[String],
    ) {
        let request = RequestId::new(format!("request-{id}")).unwrap();
        let request = FrozenRequest::new(request, kind, typed::<Actor>(actor), parameters).unwrap();
        let operations: Vec<Opaque> = operations.iter().map(|operation| typed(operation)).collect();
        let id = CommitId::new(id).unwrap();
        let candidate = Candidate {
            id: &id,
            previous: self.tip.as_ref(),
            request: &request,
            policy_epoch: &Epoch::new(self.epoch.as_str()).unwrap(),
            at: At::new(at).unwrap(),
            operations: &operations,
        };
        self.text.push_str(&candidate.encode());
        self.text.push('\n');
        self.tip = Some(id);
    }
}

/// Claim and dispatch id of the first Claim that a request grants.
pub(crate) fn granted(request: &str) -> (String, String) {
    let digest = sha256_hex(&[request]);
    (format!("c_{digest}_1"), format!("d_{digest}_1"))
}

/// Id of a node.
pub(crate) fn work_id(graph: &str, node: &str) -> String {
    derive_work_id(&GraphId::new(graph).unwrap(), &NodeKey::new(node).unwrap()).as_str().to_owned()
}

/// A Work operation with the usual defaults.
pub(crate) fn work(graph: &str, node: &str, enqueued: i64, depends_on: &[&str]) -> String {
    let edges: Vec<String> =
        depends_on.iter().map(|key| format!("{{\"kind\":\"work\",\"work_id\":\"{}\"}}", work_id(graph, key))).collect();
    canonical(&format!(
        r#"{{"kind":"Work","work_id":"{}","graph_id":"{graph}","node_key":"{node}","pool":"default","priority":3,
        "fairness_key":"","worker_profile":"default","batch_trust_domain":"default","payload":{{"task":"{node}"}},
        "depends_on":[{}],"enqueued":{enqueued}}}"#,
        work_id(graph, node),
        edges.join(",")
    ))
}

/// The default Policy (engine.md 2.9), historical with one producer, or `authorization: aw` with a contract.
pub(crate) fn policy(aw: bool) -> String {
    let route =
        if aw { format!(r#""logical_contract":"{}""#, "c".repeat(64)) } else { r#""principal":"1001""#.to_owned() };
    let (mode, producers) = if aw {
        (r#""authorization":"aw","#, "{}".to_owned())
    } else {
        ("", r#"{"1001":{"pools":["default"],"priorities":[1,2,3,4,5],"fairness_keys":[""]}}"#.to_owned())
    };
    canonical(&format!(
        r#"{{{mode}"mode":"weighted-priority","class_weights":[8,4,2,1,1],"accounting_weights":{{"":1}},
        "producers":{producers},
        "pools":{{"default":{{"default_profile":"default","logical_limit":16,"native_limit":16,
          "allowed_repositories":["owner/repo"],"max_observation_age_ms":60000,
          "retry":{{"max_attempts":3,"backoff_ms":30000}},
          "reconciliation":{{"max_attempts":5,"deadline_ms":300000}},
          "profiles":{{"default":{{"workflow":".github/workflows/worker.lock.yml","ref":"{}",{route},
            "trust_domain":"default","credential_scope":"repository","effect_scope":"owner/repo",
            "max_claims":1,"share_keys":false}}}}}}}},
        "limits":{{"ledger_bytes":67108864,"recovery_bytes":16777216,"payload_bytes":16384,"graph_nodes":4096,
          "predecessors":64,"pending_nodes":4096,"operations":256,"assignment_bytes":49152,"result_bytes":4096,
          "evidence_bytes":1024,"observation_writes":4096}}}}"#,
        "0".repeat(40)
    ))
}
