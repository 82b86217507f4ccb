//! `wq inspect`.

use super::source::{LedgerArgs, Loaded, load};
use super::work_view::{work_members, write_claim, write_dispatch};
use super::{Failure, Global, Reply, listing};
use crate::engine::state::{ClaimState, DispatchState, WorkState};
use crate::protocol::json::Writer;
use crate::protocol::resource::Edge;
use crate::protocol::{Code, Wire as _};
use crate::report::{Details, MAX_ATTEMPTS};

/// Show everything about one Work or one Claim but its payload.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "selector", required = true, multiple = false, args = ["work_id", "claim_id"])]
pub(crate) struct Args {
    #[command(flatten)]
    source: LedgerArgs,
    /// The Work, 1 to 256 bytes.
    #[arg(long, value_name = "ID")]
    work_id: Option<String>,
    /// The Claim, 1 to 256 bytes.
    #[arg(long, value_name = "ID")]
    claim_id: Option<String>,
}

/// What was selected, with everything around it.
struct Selected<'a> {
    work: &'a WorkState,
    /// The selected Claim, or the Work's current or last one.
    claim: Option<&'a ClaimState>,
    dispatch: Option<&'a DispatchState>,
    by_claim: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    listing::identity("--work-id", args.work_id.as_deref())?;
    listing::identity("--claim-id", args.claim_id.as_deref())?;
    let loaded = load(global, &args.source)?;
    let projection = &loaded.projection;
    let missing = |code, what: &str| {
        let next = "Compare the id with what replay shows.";
        Failure::new(code, format!("the queue has no {what} of this id"), next)
    };
    let selected = match (&args.work_id, &args.claim_id) {
        (Some(id), _) => {
            let work = projection.work(id).ok_or_else(|| missing(Code::WorkMissing, "Work"))?;
            let claim = projection.owner_of(work);
            Selected { work, claim, dispatch: claim.map(|claim| projection.dispatch_of(claim)), by_claim: false }
        }
        (None, Some(id)) => {
            let claim = projection.claim(id).ok_or_else(|| missing(Code::ClaimMissing, "Claim"))?;
            let (work, dispatch) = (projection.work_of(claim), projection.dispatch_of(claim));
            Selected { work, claim: Some(claim), dispatch: Some(dispatch), by_claim: true }
        }
        (None, None) => return Err(Failure::usage("nothing is selected", "Name --work-id or --claim-id.")),
    };
    let at = loaded.evaluated_at;
    let details = Details { projection, at, work: selected.work, claim: selected.claim }.text();
    Ok(Reply::done(if global.json { json(&loaded, &selected, &details) } else { details }))
}

fn json(loaded: &Loaded, selected: &Selected<'_>, details: &str) -> String {
    let projection = &loaded.projection;
    let mut writer = Writer::new();
    writer.object(|members| {
        loaded.provenance(members);
        if let Some(claim) = selected.claim {
            members.name("claim", |w| write_claim(projection, claim, w));
        }
        let attempts = projection.attempts_of(selected.work);
        members.name("claims", |w| {
            w.array(attempts.iter().take(MAX_ATTEMPTS), |w, claim| write_claim(projection, claim, w));
        });
        members.name("claims_total", |w| w.integer(attempts.len() as i64));
        members.name("dependencies", |w| {
            w.array(&selected.work.work.depends_on, |w, edge| write_edge(loaded, selected.work, edge, w));
        });
        members.name("details", |w| w.string(details));
        if let Some(dispatch) = selected.dispatch {
            members.name("dispatch", |w| write_dispatch(projection, dispatch, w));
        }
        members.name("selection", |w| {
            w.object(|selection| {
                selection.name("graph_id", |w| selected.work.work.graph_id.write(w));
                selection.name("work_id", |w| selected.work.work.work_id.write(w));
                match selected.claim.filter(|_| selected.by_claim) {
                    Some(claim) => {
                        selection.name("current", |w| w.bool(projection.is_current(claim)));
                        selection.name("id", |w| claim.claim.claim_id.write(w));
                        selection.name("kind", |w| w.string("claim"));
                    }
                    None => {
                        selection.name("id", |w| selected.work.work.work_id.write(w));
                        selection.name("kind", |w| w.string("work"));
                    }
                }
            });
        });
        members.name("status", |w| w.string("committed_snapshot"));
        members.name("work", |w| {
            w.object(|work| work_members(projection, selected.work, loaded.evaluated_at, work));
        });
    });
    writer.finish()
}

fn write_edge(loaded: &Loaded, of: &WorkState, edge: &Edge, writer: &mut Writer) {
    writer.object(|members| match edge {
        Edge::Work(id) => {
            members.name("kind", |w| w.string("work"));
            members.name("work_id", |w| id.write(w));
            if let Some(work) = loaded.projection.work(id.as_str()) {
                members.name("barrier", |w| w.string(work.barrier().as_str()));
                members.name("node_key", |w| work.work.node_key.write(w));
                members.name("state", |w| w.string(work.state()));
            }
        }
        Edge::Gate(gate) => loaded.projection.gate_view(of, gate, loaded.evaluated_at).members(members),
    });
}
