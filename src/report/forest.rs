//! The tree of graphs, Work and Claims (operator-cli.md 4.3), one line a row. Its branches mean membership and attempts,
//! never dependencies.

use super::page::{Line, Page};
use super::quote;
use crate::engine::Projection;
use crate::engine::browse::Row;
use crate::engine::state::{ClaimState, WorkState};
use crate::protocol::json::Writer;
use crate::protocol::{At, Fault, GraphId, Wire as _};

/// A page of rows as they stand at a time.
///
/// # Errors
/// `resource_limit` if one row alone is longer than a page.
pub fn forest_page(
    projection: &Projection,
    rows: &[Row<'_>],
    at: At,
    offset: usize,
    limit: usize,
) -> Result<Page, Fault> {
    Page::fill(rows.len(), offset, limit, |number| match rows[number] {
        Row::Graph(graph) => graph_line(graph),
        Row::Work { state, last } => work_line(projection, state, last, at),
        Row::Claim { state, work, current, last, work_last } => claim_line(state, work, current, last, work_last),
    })
}

fn graph_line(graph: &GraphId) -> Line {
    let text = format!("Graph {}", quote(graph.as_str()));
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("graph_id", |w| graph.write(w));
        members.name("id", |w| graph.write(w));
        members.name("kind", |w| w.string("graph"));
        members.name("text", |w| w.string(&text));
    });
    Line { text, json: writer.finish() }
}

fn branch(last: bool) -> &'static str {
    if last { "\\--" } else { "+--" }
}

fn work_line(projection: &Projection, state: &WorkState, last: bool, at: At) -> Line {
    let work = &state.work;
    let view = projection.view_work(state, at, None);
    let (priority, barrier) = (state.scheduling_priority().get(), state.barrier().as_str());
    let mut text = format!(
        "{} [-] W {} {} [{} P{priority} delivery={barrier}]",
        branch(last),
        quote(work.work_id.as_str()),
        quote(work.node_key.as_str()),
        state.state(),
    );
    if state.state() == "available" {
        // Decision 38: what waiting Work waits for; of other Work the state says it.
        text.push(' ');
        text.push_str(view.label);
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        view.members(state, members);
        members.name("delivery", |w| w.string(barrier));
        members.name("graph_id", |w| work.graph_id.write(w));
        members.name("id", |w| work.work_id.write(w));
        members.name("kind", |w| w.string("work"));
        members.name("node_key", |w| work.node_key.write(w));
        members.name("state", |w| w.string(state.state()));
        members.name("text", |w| w.string(&text));
        members.name("work_id", |w| work.work_id.write(w));
    });
    Line { text, json: writer.finish() }
}

fn claim_line(state: &ClaimState, work: &WorkState, current: bool, last: bool, work_last: bool) -> Line {
    let claim = &state.claim;
    let text = format!(
        "{}{} C {} [{} {}] handle={} dispatch={}",
        if work_last { "    " } else { "|   " },
        branch(last),
        quote(claim.claim_id.as_str()),
        state.status.as_str(),
        if current { "current" } else { "history" },
        quote(claim.handle.as_str()),
        quote(claim.dispatch_id.as_str()),
    );
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("claim_handle", |w| claim.handle.write(w));
        if current {
            members.name("current", |w| w.bool(true));
        }
        members.name("dispatch_id", |w| claim.dispatch_id.write(w));
        members.name("graph_id", |w| work.work.graph_id.write(w));
        members.name("id", |w| claim.claim_id.write(w));
        members.name("kind", |w| w.string("claim"));
        members.name("state", |w| w.string(state.status.as_str()));
        members.name("text", |w| w.string(&text));
        members.name("work_id", |w| claim.work_id.write(w));
    });
    Line { text, json: writer.finish() }
}
