//! `wq state`.

use super::listing::{self, Bounds};
use super::source::{LedgerArgs, Loaded, load};
use super::{Failure, Global, Reply};
use crate::engine::browse::Filter;
use crate::protocol::json::Writer;
use crate::report::{Page, counts, forest_page, quote};

/// Show graphs, their Work and its Claims as a tree, a page at a time, without payloads.
///
/// A page holds at most 256 rows and 64 KiB. Branches mean membership and attempts, not dependencies.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: LedgerArgs,
    /// Only this graph, 1 to 256 bytes.
    #[arg(long, value_name = "ID")]
    graph: Option<String>,
    /// Only this pool, 1 to 256 bytes.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Only Work in one of the 4 states.
    #[arg(long, value_name = "STATE", value_parser = ["available", "claimed", "completed", "cancelled"])]
    state: Option<String>,
    /// Only rows with this text in an id, key, pool, profile, state or handle, whatever its case; 0 to 256 bytes.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Number of the first row, from 0 to 2^53-1; graphs, Work and Claims all count.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    offset: i64,
    /// Most rows, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 80, allow_negative_numbers = true)]
    limit: i64,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let bounds = Bounds::of(args.offset, args.limit)?;
    listing::identity("--graph", args.graph.as_deref())?;
    listing::identity("--pool", args.pool.as_deref())?;
    if args.search.as_ref().is_some_and(|text| text.len() > 256) {
        return Err(listing::invalid("--search takes at most 256 bytes"));
    }
    let loaded = load(global, &args.source)?;
    let filter = Filter {
        graph: args.graph.clone(),
        pool: args.pool.clone(),
        state: args.state.clone(),
        search: args.search.clone(),
    };
    let rows = loaded.projection.forest(&filter);
    let page = forest_page(&loaded.projection, &rows, loaded.evaluated_at, bounds.offset, bounds.limit)
        .map_err(|fault| Failure::from(fault).at_request())?;
    // A ledger file stands on no branch.
    let branch = loaded.sha.as_ref().map(|_| global.branch.as_str());
    Ok(Reply::done(if global.json { json(&loaded, branch, &page) } else { text(&loaded, branch, &page) }))
}

fn json(loaded: &Loaded, branch: Option<&str>, page: &Page) -> String {
    let projection = &loaded.projection;
    let mut writer = Writer::new();
    writer.object(|members| {
        loaded.provenance(members);
        members.name("admission_paused", |w| w.bool(projection.admission_paused()));
        if let Some(branch) = branch {
            members.name("branch", |w| w.string(branch));
        }
        members.name("grants_paused", |w| w.bool(projection.grants_paused()));
        listing::page_members(page, "rows", members);
        members.name("policy_epoch", |w| w.string(loaded.epoch()));
        members.name("repository", |w| w.string(loaded.repository()));
        members.name("stats", |w| w.object(|stats| projection.stats().members(stats)));
        members.name("status", |w| w.string("committed_snapshot"));
        members.name("total_rows", |w| w.integer(page.total as i64));
    });
    writer.finish()
}

fn text(loaded: &Loaded, branch: Option<&str>, page: &Page) -> String {
    let projection = &loaded.projection;
    let word = |paused| if paused { "paused" } else { "open" };
    let branch = branch.map_or_else(|| "(a ledger file)".to_owned(), |branch| format!("branch {}", quote(branch)));
    let mut out = format!(
        "Queue {} {branch}\nTip {} at {} ms, policy {}\n{}\nadmission {}, grants {}; rows {}\n",
        quote(loaded.repository()),
        quote(projection.tip().map_or("", |tip| tip.as_str())),
        loaded.evaluated_at.get(),
        quote(loaded.epoch()),
        counts(&projection.stats()),
        word(projection.admission_paused()),
        word(projection.grants_paused()),
        page.range(),
    );
    listing::page_lines(page, &mut out);
    if page.total == 0 {
        out.push_str("nothing matches\n");
    }
    listing::continuation(page, &mut out);
    out.push_str("Branches show which graph a Work belongs to and who tried it, not what waits for what.\n");
    out.push_str("wq inspect shows the dependencies and details of one Work or Claim.\n");
    out
}
