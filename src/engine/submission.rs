//! From what a person or an agent writes to the complete node that a submission carries (engine.md 5.5): defaults are
//! filled here, before the request is fixed, never on replay. Pure.

use super::registry::Registry;
use super::state::{Projection, WorkState};
use crate::protocol::fault::ensure;
use crate::protocol::identity::sha256_hex;
use crate::protocol::json::Value;
use crate::protocol::policy::{Policy, WorkerProfile};
use crate::protocol::work::derive_work_id;
use crate::protocol::{At, Code, Fault, GraphId, NodeKey, WorkId};

/// Members that a node may have. `kind`, `batch_trust_domain` and `enqueued` are those of a complete node.
const MEMBERS: [&str; 17] = [
    "payload",
    "graph_id",
    "node_key",
    "work_id",
    "pool",
    "priority",
    "fairness_key",
    "worker_profile",
    "logical_contract",
    "execution_ref",
    "depends_on",
    "subject",
    "backing_issue",
    "replacement_of",
    "kind",
    "batch_trust_domain",
    "enqueued",
];

/// What defaults come from.
#[derive(Clone, Copy, Debug)]
pub struct Defaults<'a> {
    /// The queue as it stands; none before its first submission.
    pub projection: Option<&'a Projection>,
    /// The Policy in force, or the one proposed for a first submission.
    pub policy: &'a Policy,
    /// Time of ingestion, for nodes that are new.
    pub at: At,
}

/// Completes one node. Returns a Work operation, its members in any order; admission judges the values.
///
/// Absent members are filled: `graph_id` is the digest of the payload, `node_key` is `root`, `pool` is `default`,
/// `priority` is 3, `fairness_key` is empty, `worker_profile` is the pool's default, `depends_on` is empty. Work that
/// is admitted already lends its `enqueued`, route, contract and pin. In an edge, `node_key` may stand for the
/// `work_id` of a node of the same graph, and the condition of an Issue or pull request may be left out.
///
/// # Errors
/// `request_invalid` for unknown or null members and wrong types, `work_invalid` for a node without a payload object
/// or for an unknown route, `work_identity_invalid` for a `work_id` that is not the derived one, `policy_invalid` for an
/// unknown pool.
pub fn complete(node: &Value, defaults: &Defaults<'_>) -> Result<Value, Fault> {
    let Value::Object(given) = node else {
        return Err(Fault::new(Code::RequestInvalid, "a node is an object"));
    };
    for (name, value) in given {
        ensure!(MEMBERS.contains(&name.as_str()), RequestInvalid, "a node has an unknown member");
        ensure!(*value != Value::Null, RequestInvalid, "a member of a node is null");
    }
    ensure!(node.get("kind").is_none_or(|kind| kind.as_str() == Some("Work")), RequestInvalid, "a node's kind is Work");
    let (graph_id, node_key, work_id) = identity(node)?;
    let payload = payload(node)?;
    let known = defaults.projection.and_then(|projection| projection.work(work_id.as_str()));
    let route = route(node, known, defaults)?;
    let member = |name: &str, value: Value| (name.to_owned(), value);
    let own = |name: &str, default: Value| member(name, node.get(name).cloned().unwrap_or(default));
    let mut members = vec![
        member("kind", Value::String("Work".to_owned())),
        member("work_id", Value::String(work_id.to_string())),
        member("payload", payload.clone()),
        own("priority", Value::Integer(3)),
        own("fairness_key", Value::String(String::new())),
        own("batch_trust_domain", Value::String(route.trust_domain)),
        own("enqueued", Value::Integer(known.map_or(defaults.at, |known| known.work.enqueued).get())),
        member("depends_on", edges(node, &graph_id)?),
        member("graph_id", Value::String(graph_id.to_string())),
        member("node_key", Value::String(node_key.to_string())),
        member("pool", Value::String(route.pool)),
        member("worker_profile", Value::String(route.profile)),
    ];
    for name in ["subject", "backing_issue", "replacement_of"] {
        members.extend(node.get(name).map(|value| member(name, value.clone())));
    }
    members.extend(route.contract.map(|contract| member("logical_contract", contract)));
    members.extend(route.pin.map(|pin| member("execution_ref", pin)));
    Ok(Value::Object(members))
}

/// What a node is called: its graph, its key there, and the Work id that follows from both. Absent, the graph is the
/// digest of the payload and the key is `root`.
///
/// # Errors
/// `request_invalid` for wrong types, `work_invalid` for a node without a payload object and for malformed names,
/// `work_identity_invalid` for a `work_id` that is not the derived one.
pub fn identity(node: &Value) -> Result<(GraphId, NodeKey, WorkId), Fault> {
    let payload = payload(node)?;
    let graph_id = GraphId::new(match node.get("graph_id") {
        Some(value) => text(value)?.to_owned(),
        None => sha256_hex(&[&payload.encode()?]),
    });
    let graph_id =
        graph_id.map_err(|_| Fault::new(Code::WorkInvalid, "graph_id is 1 to 256 bytes without controls"))?;
    let node_key = NodeKey::new(optional(node, "node_key")?.unwrap_or("root").to_owned())
        .map_err(|_| Fault::new(Code::WorkInvalid, "node_key is 1 to 256 bytes without controls"))?;
    let work_id = derive_work_id(&graph_id, &node_key);
    ensure!(
        optional(node, "work_id")?.is_none_or(|given| given == work_id.as_str()),
        WorkIdentityInvalid,
        "the node's work_id is not the one derived from its graph and key"
    );
    Ok((graph_id, node_key, work_id))
}

/// The canonical parameters of a `submit` request.
///
/// # Errors
/// As [`complete`]; `graph_invalid` unless there are 1 to 256 nodes.
pub fn parameters(nodes: &[Value], defaults: &Defaults<'_>) -> Result<String, Fault> {
    let most = 256.min(defaults.policy.limits.graph_nodes as usize);
    ensure!((1..=most).contains(&nodes.len()), GraphInvalid, "a submission has 1 to 256 nodes");
    let nodes: Vec<Value> = nodes.iter().map(|node| complete(node, defaults)).collect::<Result<_, _>>()?;
    Value::Object(vec![("nodes".to_owned(), Value::Array(nodes))]).encode()
}

fn text(value: &Value) -> Result<&str, Fault> {
    value.as_str().ok_or_else(|| Fault::new(Code::RequestInvalid, "a member of a node is not a string"))
}

fn optional<'a>(node: &'a Value, name: &str) -> Result<Option<&'a str>, Fault> {
    node.get(name).map(text).transpose()
}

fn payload(node: &Value) -> Result<&Value, Fault> {
    match node.get("payload") {
        Some(payload @ Value::Object(_)) => Ok(payload),
        _ => Err(Fault::new(Code::WorkInvalid, "a node has a payload, which is an object")),
    }
}

/// Where a node runs.
struct Resolved {
    pool: String,
    profile: String,
    trust_domain: String,
    contract: Option<Value>,
    pin: Option<Value>,
}

fn route(node: &Value, known: Option<&WorkState>, defaults: &Defaults<'_>) -> Result<Resolved, Fault> {
    let pool_name = optional(node, "pool")?.unwrap_or("default");
    let pool = defaults.policy.pools.get(pool_name);
    let pool = pool.ok_or_else(|| Fault::new(Code::PolicyInvalid, "the pool is not installed"))?;
    let stored = known.map(|known| &known.work).filter(|work| work.pool.as_str() == pool_name);
    let profile_name = match (optional(node, "worker_profile")?, stored) {
        (Some(given), _) => given,
        (None, Some(stored)) => stored.worker_profile.as_str(),
        (None, None) => pool.default_profile.as_str(),
    };
    let installed = pool.profiles.get(profile_name);
    let installed = installed.ok_or_else(|| Fault::new(Code::WorkInvalid, "the pool has no such worker_profile"))?;
    let pin = match (node.get("execution_ref"), stored) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(stored)) => stored.execution_ref.as_ref().map(|pin| Value::String(pin.as_str().to_owned())),
        (None, None) => None,
    };
    let contract = match (node.get("logical_contract"), stored) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(stored)) => stored.logical_contract.as_ref().map(|pin| Value::String(pin.as_str().to_owned())),
        (None, None) => {
            let selected = selected(defaults, pool_name, profile_name, pin.as_ref().and_then(Value::as_str));
            let profile = selected.as_deref().unwrap_or(installed);
            profile.logical_contract.as_ref().map(|contract| Value::String(contract.as_str().to_owned()))
        }
    };
    Ok(Resolved {
        pool: pool_name.to_owned(),
        profile: profile_name.to_owned(),
        trust_domain: installed.trust_domain.as_str().to_owned(),
        contract,
        pin,
    })
}

/// The revision that a deployed route would run.
fn selected(
    defaults: &Defaults<'_>,
    pool: &str,
    profile: &str,
    pin: Option<&str>,
) -> Option<std::sync::Arc<WorkerProfile>> {
    let initial;
    let registry = match defaults.projection {
        Some(projection) => &projection.registry,
        None => {
            initial = Registry::initial(defaults.policy);
            &initial
        }
    };
    let entry = registry.entry(pool, profile)?;
    let revision = entry.revisions.get(pin.unwrap_or(entry.current_ref.as_str()))?;
    Some(std::sync::Arc::clone(&revision.profile))
}

/// Edges with their ids and conditions filled in.
fn edges(node: &Value, graph_id: &GraphId) -> Result<Value, Fault> {
    let edges = match node.get("depends_on") {
        None => return Ok(Value::Array(Vec::new())),
        Some(Value::Array(edges)) => edges,
        Some(_) => return Err(Fault::new(Code::RequestInvalid, "depends_on is an array")),
    };
    edges.iter().map(|edge| fill_edge(edge, graph_id)).collect::<Result<_, _>>().map(Value::Array)
}

fn fill_edge(edge: &Value, graph_id: &GraphId) -> Result<Value, Fault> {
    let Value::Object(members) = edge else {
        return Err(Fault::new(Code::DependencyInvalid, "an edge is an object"));
    };
    let mut members = members.clone();
    match edge.get("kind").and_then(Value::as_str) {
        Some("work") if edge.get("work_id").is_none() => {
            if let Some(at) = members.iter().position(|(name, _)| name == "node_key") {
                let (_, key) = members.remove(at);
                let key = NodeKey::new(text(&key)?.to_owned())
                    .map_err(|_| Fault::new(Code::DependencyInvalid, "an edge names no valid node_key"))?;
                let target = derive_work_id(graph_id, &key);
                members.push(("work_id".to_owned(), Value::String(target.to_string())));
            }
        }
        Some(kind @ ("issue" | "pull_request")) if edge.get("condition").is_none() => {
            let condition = if kind == "issue" { "completed" } else { "merged" };
            members.push(("condition".to_owned(), Value::String(condition.to_owned())));
        }
        _ => {}
    }
    Ok(Value::Object(members))
}

impl Projection {
    /// The state after the first `lines` commits of the active chain, at most all of them.
    ///
    /// # Errors
    /// None that this chain could give: its commits were accepted in this order.
    pub fn prefix(&self, scanner: &mut crate::protocol::json::Scanner, lines: usize) -> Result<Self, Fault> {
        let mut projection = Self::empty();
        for line in self.active().take(lines) {
            let commit = crate::protocol::commit::Commit::read(scanner, line.text())?;
            projection = projection.follow(commit, scanner)?;
        }
        Ok(projection)
    }
}

#[cfg(test)]
mod tests {
    use super::{Defaults, parameters};
    use crate::protocol::json::{Scanner, parse};
    use crate::protocol::policy::Policy;
    use crate::protocol::{At, Code, Text, Wire as _};

    const POLICY: &str = concat!(
        r#"{"accounting_weights":{"":1},"authorization":"aw","class_weights":[8,4,2,1,1],"#,
        r#""limits":{"assignment_bytes":49152,"evidence_bytes":1024,"graph_nodes":4096,"ledger_bytes":67108864,"#,
        r#""observation_writes":4096,"operations":256,"payload_bytes":16384,"pending_nodes":4096,"predecessors":64,"#,
        r#""recovery_bytes":16777216,"result_bytes":4096},"mode":"weighted-priority","pools":{"default":{"#,
        r#""allowed_repositories":["owner/repo"],"default_profile":"worker","logical_limit":16,"#,
        r#""max_observation_age_ms":60000,"native_limit":16,"profiles":{"worker":{"credential_scope":"repository","#,
        r#""effect_scope":"owner/repo","max_claims":1,"ref":"ffffffffffffffffffffffffffffffffffffffff","#,
        r#""share_keys":false,"trust_domain":"default","workflow":".github/workflows/worker.lock.yml"}},"#,
        r#""reconciliation":{"deadline_ms":300000,"max_attempts":5},"retry":{"backoff_ms":30000,"max_attempts":3}}},"#,
        r#""producers":{}}"#
    );

    fn submission(nodes: &str) -> Result<String, Code> {
        let text = Text::from(POLICY);
        let mut scanner = Scanner::new("");
        let document = scanner.read(&text).unwrap();
        let policy = Policy::read(document.root(), Code::PolicyInvalid).unwrap();
        let defaults = Defaults { projection: None, policy: &policy, at: At::new(7).unwrap() };
        let nodes: Vec<_> = nodes.split('|').map(|node| parse(node).unwrap()).collect();
        parameters(&nodes, &defaults).map_err(|fault| fault.code())
    }

    /// S-007: everything that a stored node must have is filled in before the request is fixed.
    #[test]
    fn defaults_are_those_of_the_front_end() {
        let expected = concat!(
            r#"{"nodes":[{"batch_trust_domain":"default","depends_on":[],"enqueued":7,"fairness_key":"","#,
            r#""graph_id":"43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777","kind":"Work","#,
            r#""node_key":"root","payload":{"a":1,"b":2},"pool":"default","priority":3,"#,
            r#""work_id":"e41927adc7ede48a4d9ebae45074bbfd55f7714af750a3fe5b3734bc6c1ed62e","#,
            r#""worker_profile":"worker"}]}"#
        );
        assert_eq!(submission(r#"{"payload":{"b":2,"a":1}}"#).unwrap(), expected);
    }

    /// Conditions and keys of edges are filled in; everything else of an edge stays for admission to judge.
    #[test]
    fn edges_are_completed() {
        let nodes = r#"{"payload":{},"graph_id":"graph","node_key":"c","depends_on":[{"kind":"work","node_key":"a"},{"kind":"issue","resource":{}},{"kind":"pull_request","resource":{}},{"kind":"issue","resource":{},"condition":"closed"}]}"#;
        let edges = concat!(
            r#""depends_on":[{"kind":"work","work_id":"c26bb3b003984e39a4945d5b9e06e9d67fe7fa15e78b222ab43495857e882f2d"},"#,
            r#"{"condition":"completed","kind":"issue","resource":{}},"#,
            r#"{"condition":"merged","kind":"pull_request","resource":{}},"#,
            r#"{"condition":"closed","kind":"issue","resource":{}}]"#
        );
        assert!(submission(nodes).unwrap().contains(edges));
    }

    #[test]
    fn malformed_nodes_are_refused() {
        for (node, code) in [
            ("1", Code::RequestInvalid),
            (r#"{"payload":{},"kind":"Claim"}"#, Code::RequestInvalid),
            (r#"{"payload":{},"node_key":1}"#, Code::RequestInvalid),
            (r#"{"payload":{},"depends_on":{}}"#, Code::RequestInvalid),
            (r#"{"payload":{},"depends_on":[1]}"#, Code::DependencyInvalid),
            (r#"{"payload":{},"graph_id":""}"#, Code::WorkInvalid),
            (r#"{"node_key":"a"}"#, Code::WorkInvalid),
            (r#"{"payload":{},"worker_profile":"other"}"#, Code::WorkInvalid),
        ] {
            assert_eq!(submission(node).unwrap_err(), code, "{node}");
        }
    }
}
