//! `wq replay`.

use std::path::PathBuf;

use super::access::Access;
use super::captured;
use super::prediction::{Prediction, Question};
use super::source::{LedgerArgs, Loaded, frame, load, scanner};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::engine::replay::replay_prefix;
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::json::Writer;
use crate::protocol::resource::Edge;
use crate::report::{Align, Table, label};

/// Replay the ledger and show the state that it gives: Work, Claims, native reservations, dependencies.
///
/// With --json the whole projection, payloads included; this is the only command that shows them. With --pool also
/// what the scheduler would grant, which changes nothing.
///
/// With --run-id or --file, replay the snapshot that a workflow run captured instead, with metadata and counts alone. That
/// reads and changes nothing else: no gate is refreshed, no reservation reconciled, no credential checked, no tag made,
/// nothing launched and no effect repeated. That a snapshot replays proves neither that a credential would be accepted now
/// nor that a worker completed anything; such a fix needs a test of its own.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: LedgerArgs,
    /// Replay the activation snapshot that the current attempt of this workflow run has left as an artifact: a decimal id of 1
    /// to 256 digits. At most 2000 artifacts are looked through; all downloads together, and all snapshots together, have
    /// at most 162 MiB.
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "ledger", "remote", "prefix", "at", "max_bytes", "worker_profile", "preceding_operations", "commit_id"])]
    run_id: Option<String>,
    /// Replay this activation snapshot, or standard input for `-`, of at most 162 MiB. Nothing is asked of any network.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["ledger", "remote", "prefix", "at", "max_bytes", "worker_profile", "preceding_operations", "commit_id"])]
    file: Option<PathBuf>,
    /// Stop after this many commits of the chain; a number beyond its length means all of it. 1 to 1000000.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    prefix: Option<u64>,
    /// Predict the next grants of this pool, 1 to 256 bytes.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Moment of the prediction in Unix milliseconds, 0 to 2^53-1 [default: now].
    #[arg(long, value_name = "MS", requires = "pool", value_parser = clap::value_parser!(i64).range(0..=9_007_199_254_740_991))]
    at: Option<i64>,
    /// Most Claims of the prediction, 1 to 256.
    #[arg(long, value_name = "N", requires = "pool", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=256))]
    max_claims: i64,
    /// Most dispatches of the prediction, 1 to 256.
    #[arg(long, value_name = "N", requires = "pool", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=256))]
    max_dispatches: i64,
    /// Most canonical bytes of one assignment, 1 to 49152 [default: the Policy's limit].
    #[arg(long, value_name = "N", requires = "pool", value_parser = clap::value_parser!(i64).range(1..=49_152))]
    max_bytes: Option<i64>,
    /// Approve only this worker profile, 1 to 256 bytes; repeat for more, at most 256.
    #[arg(long, value_name = "PROFILE", requires = "pool")]
    worker_profile: Vec<String>,
    /// Operations that would stand before the Claims, 0 to 256.
    #[arg(long, value_name = "N", requires = "pool", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=256))]
    preceding_operations: u16,
    /// Id of the granting commit, 1 to 256 bytes [default: the one that would be derived].
    #[arg(long, value_name = "ID", requires = "pool")]
    commit_id: Option<String>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    if args.run_id.is_some() || args.file.is_some() {
        return run_captured(global, args);
    }
    let loaded = load_prefix(global, args)?;
    let prediction = match &args.pool {
        Some(pool) => Some(question(global, args, pool, &loaded).ask(&loaded.projection)?),
        None => None,
    };
    if !global.json {
        return Ok(Reply::done(text(&loaded.projection, prediction.as_ref())));
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        // In key order, so that the projection is written once and never moved.
        if loaded.sha.is_some() {
            members.name("evaluated_at", |w| w.integer(loaded.evaluated_at.get()));
        }
        if let Some(prediction) = &prediction {
            members.name("prediction", |w| prediction.write(&loaded.projection, w));
        }
        members.name("projection", |w| loaded.projection.write(w));
        if let Some(sha) = &loaded.sha {
            members.name("sha", |w| w.string(sha));
            members.name("tip", |w| w.string(loaded.projection.tip().map_or("", |tip| tip.as_str())));
        }
    });
    Ok(Reply::done(writer.finish()))
}

/// Replays a snapshot in place of the ledger.
fn run_captured(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let found = match (&args.run_id, &args.file) {
        (Some(run_id), _) => captured::of_run(global, run_id)?,
        (None, Some(path)) => captured::of_file(path)?,
        (None, None) => return Err(Failure::usage("no snapshot is named", "Name one with --run-id or --file.")),
    };
    let asked = args.pool.as_ref().map(|pool| {
        let (at, max_claims, max_dispatches) = (found.captured_at(), args.max_claims, args.max_dispatches);
        Question {
            pool: pool.clone(),
            at,
            max_claims,
            max_dispatches,
            max_bytes: None,
            worker_profiles: None,
            preceding_operations: 0,
            request_id: None,
            commit_id: None,
        }
    });
    captured::reply(&found, asked.as_ref(), global.json)
}

fn load_prefix(global: &Global, args: &Args) -> Result<Loaded, Failure> {
    let Some(prefix) = args.prefix else { return load(global, &args.source) };
    let prefix = usize::try_from(prefix).unwrap_or(usize::MAX);
    match &args.source.ledger {
        Some(path) => {
            let text = frame(path)?.map_err(|fault| Failure::ledger(&fault))?;
            let projection = replay_prefix(&text, &mut scanner()?, prefix).map_err(|fault| Failure::ledger(&fault))?;
            Ok(Loaded { projection, sha: None, evaluated_at: SystemClock.now() })
        }
        None => {
            let current = Access::open(global)?.publisher()?.read_present()?;
            let projection = current.projection.prefix(&mut scanner()?, prefix)?;
            Ok(Loaded { projection, sha: Some(current.commit.to_string()), evaluated_at: SystemClock.now() })
        }
    }
}

fn question(global: &Global, args: &Args, pool: &str, loaded: &Loaded) -> Question {
    Question {
        pool: pool.to_owned(),
        at: args.at.unwrap_or(loaded.evaluated_at.get()),
        max_claims: args.max_claims,
        max_dispatches: args.max_dispatches,
        max_bytes: args.max_bytes,
        worker_profiles: (!args.worker_profile.is_empty()).then(|| args.worker_profile.clone()),
        preceding_operations: usize::from(args.preceding_operations),
        request_id: global.request_id.clone(),
        commit_id: args.commit_id.clone(),
    }
}

fn text(projection: &Projection, prediction: Option<&Prediction>) -> String {
    let stats = projection.stats();
    let epoch = projection.installed().map_or("", |installed| installed.epoch.as_str());
    let mut out = format!(
        "{} commits, tip {}, policy epoch {}\n",
        stats.transactions,
        projection.tip().map_or_else(|| "-".to_owned(), |tip| label(tip.as_str())),
        label(epoch),
    );
    out.push_str(&works(projection));
    out.push_str(&claims(projection));
    out.push_str(&reservations(projection));
    out.push_str(&dependencies(projection));
    if let Some(prediction) = prediction {
        out.push_str(&predicted(prediction));
    }
    out
}

/// One line for each Work in the order of its id, then a table of what they are.
fn works(projection: &Projection) -> String {
    let mut works: Vec<_> = projection.works().collect();
    works.sort_by(|a, b| a.work.work_id.cmp(&b.work.work_id));
    let mut out = String::from("\nWORK\n");
    if works.is_empty() {
        out.push_str("none\n");
    }
    for state in works {
        out.push_str(&format!(
            "{}  {}  delivery={}  pool={} priority={} key={} node={} attempts={}\n",
            label(state.work.work_id.as_str()),
            state.state(),
            state.barrier().as_str(),
            label(state.work.pool.as_str()),
            state.scheduling_priority().get(),
            label(state.work.fairness_key.as_str()),
            label(state.work.node_key.as_str()),
            state.attempts,
        ));
    }
    out
}

fn claims(projection: &Projection) -> String {
    let mut table = Table::new(&[
        ("claim", Align::Left),
        ("state", Align::Left),
        ("handle", Align::Left),
        ("work", Align::Left),
        ("dispatch", Align::Left),
    ]);
    for claim in projection.claims() {
        table.row([
            label(claim.claim.claim_id.as_str()),
            claim.status.as_str().to_owned(),
            label(claim.claim.handle.as_str()),
            label(claim.claim.work_id.as_str()),
            label(claim.claim.dispatch_id.as_str()),
        ]);
    }
    section("CLAIMS", &table)
}

fn reservations(projection: &Projection) -> String {
    let mut table = Table::new(&[
        ("dispatch", Align::Left),
        ("state", Align::Left),
        ("profile", Align::Left),
        ("claims", Align::Right),
        ("run", Align::Left),
    ]);
    for dispatch in projection.dispatches().filter(|dispatch| !dispatch.released) {
        let run = dispatch.run.as_ref().map_or_else(|| "-".to_owned(), |run| label(run.run_id.as_str()));
        table.row([
            label(dispatch.assignment.dispatch_id.as_str()),
            dispatch.phase.as_str().to_owned(),
            label(dispatch.assignment.worker_profile.as_str()),
            dispatch.assignment.claims.len().to_string(),
            run,
        ]);
    }
    section("NATIVE RESERVATIONS", &table)
}

/// Every edge, grouped by the type of what it waits for.
fn dependencies(projection: &Projection) -> String {
    let mut table = Table::new(&[("type", Align::Left), ("of work", Align::Left), ("needs", Align::Left)]);
    for kind in ["work", "issue", "pull_request"] {
        for state in projection.works() {
            for edge in &state.work.depends_on {
                let (found, needs) = match edge {
                    Edge::Work(id) => ("work", format!("{} verified", label(id.as_str()))),
                    Edge::Gate(gate) => {
                        let (repository, number) = (gate.resource.repository.as_str(), gate.resource.number.as_str());
                        let condition = gate.condition.as_str();
                        (gate.resource.kind.as_str(), format!("{} #{number} {condition}", label(repository)))
                    }
                };
                if found == kind {
                    table.row([kind.to_owned(), label(state.work.work_id.as_str()), needs]);
                }
            }
        }
    }
    section("DEPENDENCIES", &table)
}

fn section(name: &str, table: &Table) -> String {
    let body = if table.is_empty() { "none\n".to_owned() } else { table.render(0) };
    format!("\n{name}\n{body}")
}

fn predicted(prediction: &Prediction) -> String {
    let mut out = String::from("\nPREDICTION (not a grant)\n");
    match &prediction.plan {
        Ok(plan) => {
            out.push_str(&format!(
                "{} Claims in {} dispatches; {}\n",
                plan.claims.len(),
                plan.groups.len(),
                plan.reason
            ));
            for planned in &plan.claims {
                out.push_str(&format!("  {} in dispatch {}\n", label(planned.work_id().as_str()), planned.group + 1));
            }
            if let Some(work) = &plan.next.work_id {
                out.push_str(&format!("next: {}\n", label(work.as_str())));
            }
        }
        Err(fault) => out.push_str(&format!("{}: {}\n", fault.code(), fault.message())),
    }
    out
}
