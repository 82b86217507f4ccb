//! `wq trace`.

use super::listing::{self, Bounds};
use super::source::{LedgerArgs, Loaded, load, scanner};
use super::{Failure, Global, Reply};
use crate::engine::trace::{Subject, Trace};
use crate::protocol::json::Writer;
use crate::report::{Page, quote, trace_page};

/// List what happened around one request or one Claim, in causal order, a page at a time.
///
/// Name exactly one of --request-id and --claim-id. A page holds at most 256 events and 64 KiB. Payloads, Result
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

fn json(loaded: &Loaded, subject: Subject<'_>, trace: &Trace, page: &Page, limit: usize) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        loaded.provenance(members);
        members.name("at", |w| w.integer(loaded.evaluated_at.get()));
        match subject {
            Subject::Claim(id) => members.name("claim_id", |w| w.string(id)),
            Subject::Request(id) => members.name("request_id", |w| w.string(id)),
        }
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
    listing::continuation(page, &mut out);
    out
}
