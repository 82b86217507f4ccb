//! `wq submit-work`.

use std::path::PathBuf;

use super::publish::{Published, submit};
use super::{Failure, Global, Reply, input};
use crate::engine::Projection;
use crate::engine::state::WorkState;
use crate::ledger::Outcome;
use crate::protocol::json::{Value, Writer, parse};
use crate::protocol::work::derive_work_id;
use crate::protocol::{Code, Fault, GraphId, NodeKey, Wire as _};
use crate::report::label;

/// Admit one task. The first submission makes the queue: Policy and Work in one commit.
///
/// Submitting the same task again writes nothing: its age, priority and metadata never change.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, a JSON object, or `-` for standard input. The file is at most 4 MiB, the canonical object at most
    /// the Policy's payload limit (16384 bytes by default) and 54 levels deep.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Graph of the Work, 1 to 256 bytes [default: SHA-256 of the canonical task].
    #[arg(long, value_name = "ID")]
    graph_id: Option<String>,
    /// Key of the Work inside its graph, 1 to 256 bytes [default: root].
    #[arg(long, value_name = "KEY")]
    node_key: Option<String>,
    /// Pool, 1 to 256 bytes.
    #[arg(long, value_name = "POOL", default_value = "default")]
    pool: String,
    /// Priority class, 1 (first) to 5.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i64).range(1..=5))]
    priority: i64,
    /// Accounting key registered in the Policy, 0 to 128 bytes.
    #[arg(long, value_name = "KEY", default_value = "")]
    fairness_key: String,
    /// Worker profile of the pool, 1 to 256 bytes [default: the pool's default profile].
    #[arg(long, value_name = "PROFILE")]
    worker_profile: Option<String>,
    /// Pin the worker revision: 40 or 64 lower-case hexadecimal digits [default: follow deployments].
    #[arg(long, value_name = "SHA")]
    execution_ref: Option<String>,
    /// Policy of a first submission to a local repository, a JSON file of at most 4 MiB, or `-` [default: one pool, one
    /// worker]. On GitHub it comes from the workflows and settings of the default branch.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    for (flag, value) in [("--graph-id", &args.graph_id), ("--node-key", &args.node_key)] {
        if value.as_ref().is_some_and(String::is_empty) {
            let message = format!("{flag} is empty");
            return Err(Failure::new(Code::WorkInvalid, message, "Give it a value, or leave the flag out."));
        }
    }
    let payload = parse(&input::text(&args.file)?).map_err(|fault| Failure::input(&fault, "the task"))?;
    if !matches!(payload, Value::Object(_)) {
        let fault = Fault::new(Code::WorkInvalid, "a task is a JSON object");
        return Err(Failure::input(&fault, "the task"));
    }
    let node = node(args, payload);
    let published = submit(global, std::slice::from_ref(&node), args.policy.as_deref())?;
    let projection = &published.publication.current.projection;
    let state = submitted(projection, &node).ok_or_else(|| Failure::from(Fault::from(Code::Internal)))?;
    Ok(Reply::done(if global.json { json(&published, state) } else { text(&published, state) }))
}

/// The node as it was asked for; what the flags leave out is filled in later.
fn node(args: &Args, payload: Value) -> Value {
    let text = |text: &str| Value::String(text.to_owned());
    let mut members = vec![
        ("payload".to_owned(), payload),
        ("pool".to_owned(), text(&args.pool)),
        ("priority".to_owned(), Value::Integer(args.priority)),
        ("fairness_key".to_owned(), text(&args.fairness_key)),
    ];
    for (name, value) in [
        ("graph_id", &args.graph_id),
        ("node_key", &args.node_key),
        ("worker_profile", &args.worker_profile),
        ("execution_ref", &args.execution_ref),
    ] {
        members.extend(value.as_deref().map(|value| (name.to_owned(), text(value))));
    }
    Value::Object(members)
}

/// The Work that a node became.
pub(crate) fn submitted<'p>(projection: &'p Projection, node: &Value) -> Option<&'p WorkState> {
    let graph = match node.get("graph_id").and_then(Value::as_str) {
        Some(graph) => graph.to_owned(),
        None => crate::protocol::identity::sha256_hex(&[&node.get("payload")?.encode().ok()?]),
    };
    let key = node.get("node_key").and_then(Value::as_str).unwrap_or("root");
    let id = derive_work_id(&GraphId::new(graph).ok()?, &NodeKey::new(key.to_owned()).ok()?);
    projection.work(id.as_str())
}

/// False if the Work had been admitted by another request before.
fn created(published: &Published) -> bool {
    !matches!(published.publication.outcome, Outcome::Done { .. })
}

fn json(published: &Published, state: &WorkState) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        published.members(members);
        members.name("created", |w| w.bool(created(published)));
        members.name("graph_id", |w| state.work.graph_id.write(w));
        members.name("node_key", |w| state.work.node_key.write(w));
        members.name("status", |w| w.string(if created(published) { "admitted" } else { "already_admitted" }));
        members.name("work_id", |w| state.work.work_id.write(w));
    });
    writer.finish()
}

fn text(published: &Published, state: &WorkState) -> String {
    let word = if created(published) { "admitted" } else { "already admitted" };
    format!("{word}: {}\n{}", label(state.work.work_id.as_str()), published.line())
}
