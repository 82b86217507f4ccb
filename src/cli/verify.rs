//! `wq verify`.

use std::path::PathBuf;

use super::failure::sentence;
use super::source::{frame, scanner};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::ledger::cold::replay;
use crate::protocol::json::Writer;
use crate::protocol::ledger_text::LedgerFault;
use crate::report::plain;

/// Check a ledger file from its first line to its last: bytes, records, chain and every decision.
///
/// Prints `ok` and the counts, or the first failing line with its byte offset, code and sentence (exit 3). What a
/// checkpoint replaced is in the branch's history, not in the file; commands with --remote check it there.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The ledger file, or `-` for standard input. At most 80 MiB, 8 MiB a line, 1,000,000 lines.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let mut scanner = scanner()?;
    let checked = frame(&args.ledger)?.and_then(|text| replay(&text, &mut scanner));
    Ok(match checked {
        Ok(projection) => Reply::done(if global.json { sound_json(&projection) } else { sound(&projection) }),
        Err(fault) => Reply { body: if global.json { broken_json(&fault) } else { broken(&fault) }, exit: 3 },
    })
}

fn sound(projection: &Projection) -> String {
    let stats = projection.stats();
    let unproven = match projection.replaced() {
        0 => String::new(),
        replaced => {
            format!("; {replaced} of the commits are receipts of a checkpoint, which the branch's history alone proves")
        }
    };
    format!(
        "ok: {} commits, {} Work ({} available, {} claimed, {} completed, {} cancelled), {} Claims, \
         {} native reservations, {} graph nodes, {} bytes{unproven}",
        stats.transactions,
        stats.work,
        stats.counts.available,
        stats.counts.claimed,
        stats.counts.completed,
        stats.counts.cancelled,
        stats.claims,
        stats.dispatches,
        stats.nodes,
        projection.ledger_bytes(),
    )
}

fn sound_json(projection: &Projection) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        projection.stats().members(members);
        members.name("ledger_bytes", |w| w.integer(projection.ledger_bytes() as i64));
        members.name("ok", |w| w.bool(true));
        // Commits that stand as receipts of a checkpoint, which the branch's history alone proves.
        members.name("replaced", |w| w.integer(projection.replaced() as i64));
        members.name("tip", |w| w.string(projection.tip().map_or("", |tip| tip.as_str())));
    });
    writer.finish()
}

fn broken(fault: &LedgerFault) -> String {
    let place = match (fault.line, fault.offset) {
        (Some(line), Some(offset)) => format!("line {line}, byte {offset}"),
        (Some(line), None) => format!("line {line}"),
        _ => "the whole file".to_owned(),
    };
    // The message of a cycle names node keys, which are whatever somebody wrote.
    format!("not ok: {place}: {}: {}", fault.fault.code(), plain(&sentence(fault.fault.code(), fault.fault.message())))
}

fn broken_json(fault: &LedgerFault) -> String {
    let mut writer = Writer::new();
    let number = |value: Option<usize>| {
        move |w: &mut Writer| match value {
            Some(value) => w.integer(value as i64),
            None => w.raw("null"),
        }
    };
    writer.object(|members| {
        members.name("code", |w| w.string(fault.fault.code().as_str()));
        members.name("line", number(fault.line));
        members.name("message", |w| w.string(&sentence(fault.fault.code(), fault.fault.message())));
        members.name("offset", number(fault.offset));
        members.name("ok", |w| w.bool(false));
    });
    writer.finish()
}
