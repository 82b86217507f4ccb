//! `wq stats`.

use super::source::{LedgerArgs, Loaded, load};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::engine::state::DispatchState;
use crate::protocol::json::Writer;
use crate::report::{Align, Table, counts, label, metrics};

/// Count Work by state, Claims, native reservations and graph nodes, and what became of them.
///
/// Runner time is not measured: the ledger records decisions and evidence, not minutes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: LedgerArgs,
}

/// Most held reservations that are listed one by one; all are counted.
const MAX_HELD: usize = 64;

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let loaded = load(global, &args.source)?;
    Ok(Reply::done(if global.json { json(&loaded) } else { text(&loaded) }))
}

/// Time of the commit that granted a dispatch.
fn granted_at(projection: &Projection, dispatch: &DispatchState) -> Option<i64> {
    projection.request(dispatch.assignment.request_id.as_str()).map(|accepted| accepted.at.get())
}

/// The run that holds a reservation: the bound one, else the one that sent the launch.
fn owner_run(dispatch: &DispatchState) -> Option<&str> {
    let bound = dispatch.run.as_ref().map(|run| run.run_id.as_str());
    bound.or_else(|| dispatch.sender.as_ref()?.run_id.as_ref().map(|run| run.as_str()))
}

fn json(loaded: &Loaded) -> String {
    let projection = &loaded.projection;
    let mut writer = Writer::new();
    writer.object(|members| {
        projection.stats().members(members);
        loaded.provenance(members);
        members.name("admission_paused", |w| w.bool(projection.admission_paused()));
        members.name("grants_paused", |w| w.bool(projection.grants_paused()));
        members.name("ledger_bytes", |w| w.integer(projection.ledger_bytes() as i64));
        if let Some(installed) = projection.installed() {
            members.name("ledger_limit", |w| w.integer(installed.policy.limits.ledger_bytes as i64));
            members.name("policy_epoch", |w| w.string(installed.epoch.as_str()));
        }
        members.name("recovery_headroom", |w| w.integer(projection.headroom() as i64));
        members.name("metrics", |w| {
            w.object(|members| {
                for (name, value) in metrics(projection) {
                    members.name(name, |w| w.integer(value as i64));
                }
                members.name("runner_time", |w| w.string("unmeasured"));
            });
        });
        members.name("held_reservations", |w| {
            w.array(held(projection).take(MAX_HELD), |w, dispatch| write_held(loaded, dispatch, w));
        });
        members.name("held_reservations_total", |w| w.integer(held(projection).count() as i64));
    });
    writer.finish()
}

fn held(projection: &Projection) -> impl Iterator<Item = &DispatchState> {
    projection.dispatches().filter(|dispatch| !dispatch.released)
}

fn write_held(loaded: &Loaded, dispatch: &DispatchState, writer: &mut Writer) {
    writer.object(|members| {
        if let Some(granted) = granted_at(&loaded.projection, dispatch) {
            members.name("age_ms", |w| w.integer((loaded.evaluated_at.get() - granted).max(0)));
            members.name("granted_at", |w| w.integer(granted));
        }
        members.name("claims", |w| w.integer(dispatch.assignment.claims.len() as i64));
        members.name("dispatch_id", |w| w.string(dispatch.assignment.dispatch_id.as_str()));
        members.name("pool", |w| w.string(dispatch.assignment.pool.as_str()));
        if let Some(run) = owner_run(dispatch) {
            members.name("run_id", |w| w.string(run));
        }
        members.name("state", |w| w.string(dispatch.phase.as_str()));
    });
}

fn text(loaded: &Loaded) -> String {
    let projection = &loaded.projection;
    let stats = projection.stats();
    let mut out = format!("{}; {} graph nodes\n", counts(&stats), stats.nodes,);
    let limit = projection.installed().map_or(0, |installed| installed.policy.limits.ledger_bytes);
    out.push_str(&format!(
        "{} commits, {} of {limit} bytes; recovery headroom {} bytes; {}\n",
        stats.transactions,
        projection.ledger_bytes(),
        projection.headroom(),
        loaded.stamp(),
    ));
    if projection.admission_paused() || projection.grants_paused() {
        let word = |paused| if paused { "paused" } else { "open" };
        let (admission, grants) = (word(projection.admission_paused()), word(projection.grants_paused()));
        out.push_str(&format!("admission {admission}, grants {grants}\n"));
    }
    let metrics = metrics(projection).map(|(name, value)| format!("{value} {}", name.replace('_', " ")));
    out.push_str(&format!("ever: {}; runner time is not measured\n", metrics.join(", ")));
    let mut table = Table::new(&[
        ("native reservation", Align::Left),
        ("pool", Align::Left),
        ("state", Align::Left),
        ("claims", Align::Right),
        ("run", Align::Left),
        ("age", Align::Right),
    ]);
    for dispatch in held(projection).take(MAX_HELD) {
        let age = granted_at(projection, dispatch)
            .map(|granted| format!("{} s", (loaded.evaluated_at.get() - granted).max(0) / 1000));
        table.row([
            label(dispatch.assignment.dispatch_id.as_str()),
            label(dispatch.assignment.pool.as_str()),
            dispatch.phase.as_str().to_owned(),
            dispatch.assignment.claims.len().to_string(),
            owner_run(dispatch).map_or_else(|| "-".to_owned(), label),
            age.unwrap_or_default(),
        ]);
    }
    if !table.is_empty() {
        out.push_str(&table.render(0));
    }
    out
}
