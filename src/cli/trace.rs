//! `wq trace`.

use super::explain::gate_line;
use super::listing::{self, Bounds};
use super::source::{LedgerArgs, Loaded, load, scanner};
use super::{Failure, Global, Reply};
use crate::engine::gates::GateView;
use crate::engine::state::WorkState;
use crate::engine::trace::{Subject, Trace};
use crate::protocol::Wire as _;
use crate::protocol::json::Writer;
use crate::report::{Line, Page, quote, trace_page};

/// Most gates that a trace shows beside its events; all are counted.
const MAX_GATES: usize = 16;

/// List what happened around one request or one Claim, in causal order, a page at a time.
///
/// Name exactly one of --request-id and --claim-id. A page holds at most 256 events and 64 KiB. Beside them stand the
/// gates of the Work that the events name, as they are now, at most 16 and as far as the page has room. Payloads, Result
/// descriptors and receipts are left out.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: LedgerArgs,
    /// The Claim, 1 to 256 bytes.
    #[arg(long, value_name = "ID")]
    claim_id: Option<String>,
    /// Number of the first event, from 0 to 2^53-1.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    offset: i64,
    /// Most events, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true)]
    limit: i64,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let subject = match (&global.request_id, &args.claim_id) {
        (Some(id), None) => Subject::Request(id),
        (None, Some(id)) => Subject::Claim(id),
        _ => return Err(listing::invalid("a trace is about exactly one of --request-id and --claim-id")),
    };
    let bounds = Bounds::of(args.offset, args.limit)?;
    listing::identity("--request-id", global.request_id.as_deref())?;
    listing::identity("--claim-id", args.claim_id.as_deref())?;
    let loaded = load(global, &args.source)?;
    let refused = |fault| Failure::from(fault).at_request();
    let trace = loaded.projection.trace(subject, &mut scanner()?).map_err(refused)?;
    if bounds.offset >= trace.events.len() {
        return Err(listing::invalid("--offset is beyond the last event"));
    }
    let page = trace_page(&trace, bounds.offset, bounds.limit).map_err(refused)?;
    Ok(Reply::done(match global.json {
        true => json(&loaded, subject, &trace, &page, bounds.limit),
        false => text(&loaded, subject, &trace, &page),
    }))
}

/// The gates of every Work that the events of all pages name, in order of first mention: how many there are, and those
/// that the page has room for.
fn gates(loaded: &Loaded, trace: &Trace, page: &Page) -> (usize, Vec<Line>) {
    let mut seen = std::collections::HashSet::new();
    let works = trace.events.iter().filter_map(|event| event.names()[0]).filter(|id| seen.insert(id.to_string()));
    let states = works.filter_map(|id| loaded.projection.work(id));
    let gates: Vec<(&WorkState, GateView<'_>)> = states
        .flat_map(|state| loaded.projection.gates_of(state, loaded.evaluated_at).map(move |gate| (state, gate)))
        .collect();
    let lines = gates.iter().map(|(state, gate)| {
        let id = &state.work.work_id;
        let mut writer = Writer::new();
        writer.object(|members| {
            gate.members(members);
            members.name("work_id", |w| id.write(w));
        });
        Line { text: format!("{} of Work {}", gate_line(gate).trim_end(), quote(id.as_str())), json: writer.finish() }
    });
    (gates.len(), page.beside(MAX_GATES, lines))
}

fn json(loaded: &Loaded, subject: Subject<'_>, trace: &Trace, page: &Page, limit: usize) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        loaded.provenance(members);
        members.name("at", |w| w.integer(loaded.evaluated_at.get()));
        match subject {
            Subject::Claim(id) => members.name("claim_id", |w| w.string(id)),
            Subject::Request(id) => members.name("request_id", |w| w.string(id)),
        }
        let (total, gates) = gates(loaded, trace, page);
        members.name("gates", |w| w.array(&gates, |w, gate| w.raw(&gate.json)));
        members.name("gates_total", |w| w.integer(total as i64));
        members.name("limit", |w| w.integer(limit as i64));
        listing::page_members(page, "events", members);
        members.name("status", |w| w.string("operator_live_read"));
        members.name("total_events", |w| w.integer(page.total as i64));
        members.name("trace_availability", |w| w.string(trace.availability()));
    });
    writer.finish()
}

fn text(loaded: &Loaded, subject: Subject<'_>, trace: &Trace, page: &Page) -> String {
    let (what, id) = match subject {
        Subject::Claim(id) => ("Claim", id),
        Subject::Request(id) => ("request", id),
    };
    let mut out = format!(
        "Trace of {what} {}: events {}; tip {} at {} ms; trace data: {}\n",
        quote(id),
        page.range(),
        quote(loaded.projection.tip().map_or("", |tip| tip.as_str())),
        loaded.evaluated_at.get(),
        if trace.correlated { "correlated" } else { "none, the ledger alone" },
    );
    listing::page_lines(page, &mut out);
    let (total, gates) = gates(loaded, trace, page);
    if total > 0 {
        out.push_str(&format!("gates now ({total}):\n"));
    }
    for gate in &gates {
        out.push_str(&gate.text);
        out.push('\n');
    }
    listing::continuation(page, &mut out);
    out
}
