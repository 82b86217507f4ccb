//! `wq submit-graph`.

use std::path::PathBuf;

use super::publish::{Published, submit};
use super::submit_work::submitted;
use super::{Failure, Global, Reply, input};
use crate::engine::state::WorkState;
use crate::ledger::Outcome;
use crate::protocol::json::{Value, Writer, parse};
use crate::protocol::{Code, Fault, Wire as _};
use crate::report::label;

/// Admit a graph of tasks, all or nothing.
///
/// The file is a JSON array of nodes. A node needs a `payload` object; `graph_id`, `node_key`, `pool`, `priority`,
/// `fairness_key`, `worker_profile`, `depends_on` and the other members of a Work have the defaults of submit-work.
/// An edge is {"kind":"work","work_id":…}, or {"kind":"work","node_key":…} for a node of the same graph.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// JSON array of 1 to 256 nodes, at most 4 MiB, or `-` for standard input. At most 64 edges a node.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Policy of a first submission to a local repository, a JSON file of at most 4 MiB, or `-` [default: one pool, one
    /// worker]. On GitHub it comes from the workflows and settings of the default branch.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let graph = parse(&input::text(&args.file)?).map_err(|fault| Failure::input(&fault, "the graph"))?;
    let Value::Array(nodes) = graph else {
        return Err(Failure::input(&Fault::new(Code::GraphInvalid, "a graph is a JSON array of nodes"), "the graph"));
    };
    let published = submit(global, &nodes, args.policy.as_deref())?;
    let projection = &published.publication.current.projection;
    let works: Option<Vec<&WorkState>> = nodes.iter().map(|node| submitted(projection, node)).collect();
    let works = works.ok_or_else(|| Failure::from(Fault::from(Code::Internal)))?;
    Ok(Reply::done(if global.json { json(&published, &works) } else { text(&published, &works) }))
}

/// False if every node had been admitted by other requests before.
fn created(published: &Published) -> bool {
    !matches!(published.publication.outcome, Outcome::Done { .. })
}

fn json(published: &Published, works: &[&WorkState]) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        published.members(members);
        members.name("created", |w| w.bool(created(published)));
        members.name("nodes", |w| w.integer(works.len() as i64));
        members.name("status", |w| w.string(if created(published) { "admitted" } else { "already_admitted" }));
        members.name("work_ids", |w| w.array(works, |w, state| state.work.work_id.write(w)));
    });
    writer.finish()
}

fn text(published: &Published, works: &[&WorkState]) -> String {
    let word = if created(published) { "admitted" } else { "already admitted" };
    let mut out = format!("{word}: {} nodes\n", works.len());
    for state in works {
        let (id, key) = (label(state.work.work_id.as_str()), label(state.work.node_key.as_str()));
        out.push_str(&format!("  {id} node={key} edges={}\n", state.work.depends_on.len()));
    }
    out.push_str(&published.line());
    out
}
