//! `wq inspect`.

use super::source::{LedgerArgs, Loaded, load};
use super::work_view::{is_current, terminal, work_members, write_claim, write_dispatch};
use super::{Failure, Global, Reply};
use crate::engine::state::{ClaimState, Delivery, DispatchState, Ownership, WorkState};
use crate::protocol::json::Writer;
use crate::protocol::resource::Edge;
use crate::protocol::{Code, Wire as _};
use crate::report::quote;

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

/// Longest text for people, in bytes; what goes beyond is cut at a line and said to be missing.
const MAX_DETAILS: usize = 65_280;

/// What was selected, with everything around it.
struct Selected<'a> {
    work: &'a WorkState,
    /// The selected Claim, or the Work's current or last one.
    claim: Option<&'a ClaimState>,
    dispatch: Option<&'a DispatchState>,
    by_claim: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
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
    let details = details(&loaded, &selected);
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
        members.name("dependencies", |w| {
            w.array(&selected.work.work.depends_on, |w, edge| write_edge(loaded, edge, w));
        });
        members.name("details", |w| w.string(details));
        if let Some(dispatch) = selected.dispatch {
            members.name("dispatch", |w| write_dispatch(dispatch, w));
        }
        members.name("selection", |w| {
            w.object(|selection| {
                selection.name("graph_id", |w| selected.work.work.graph_id.write(w));
                selection.name("work_id", |w| selected.work.work.work_id.write(w));
                match selected.claim.filter(|_| selected.by_claim) {
                    Some(claim) => {
                        selection.name("current", |w| w.bool(is_current(projection, claim)));
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

fn write_edge(loaded: &Loaded, edge: &Edge, writer: &mut Writer) {
    writer.object(|members| match edge {
        Edge::Work(id) => {
            members.name("kind", |w| w.string("work"));
            members.name("work_id", |w| id.write(w));
            if let Some(work) = loaded.projection.work(id.as_str()) {
                members.name("barrier", |w| w.string(work.barrier().as_str()));
                members.name("state", |w| w.string(work.state()));
            }
        }
        Edge::Gate(gate) => {
            members.name("condition", |w| gate.condition.write(w));
            members.name("kind", |w| gate.resource.kind.write(w));
            members.name("number", |w| gate.resource.number.write(w));
            members.name("repository", |w| gate.resource.repository.write(w));
            members.name("resource_id", |w| gate.resource.resource_id.write(w));
        }
    });
}

/// The text for people: blocks in a fixed order, one blank line between.
fn details(loaded: &Loaded, selected: &Selected<'_>) -> String {
    let tip = loaded.projection.tip().map_or("", |tip| tip.as_str());
    let epoch = loaded.projection.installed().map_or("", |installed| installed.epoch.as_str());
    let mut blocks = vec![
        format!("Tip: {}\nPolicy: {}\nEvaluated at: {}", quote(tip), quote(epoch), loaded.evaluated_at.get()),
        work_block(loaded, selected.work),
    ];
    blocks.extend(selected.claim.map(|claim| claim_block(loaded, claim)));
    blocks.extend(selected.dispatch.map(|dispatch| dispatch_block(loaded, dispatch)));
    blocks.push(dependency_block(loaded, selected.work));
    blocks.push(
        "Cancellation is final. A reservation is freed by evidence alone. Payloads are not shown here.".to_owned(),
    );
    let mut text = blocks.join("\n\n");
    if text.len() > MAX_DETAILS {
        // Everything above is ASCII, so any byte is a boundary.
        let cut = text[..MAX_DETAILS].rfind('\n').unwrap_or(MAX_DETAILS);
        text.truncate(cut);
        text.push_str("\n(the rest is left out)");
    }
    text
}

fn work_block(loaded: &Loaded, state: &WorkState) -> String {
    let (projection, work) = (&loaded.projection, &state.work);
    let view = projection.view_work(state, loaded.evaluated_at, None);
    let mut lines = vec![
        format!("WORK {}", quote(work.node_key.as_str())),
        format!("ID: {}", quote(work.work_id.as_str())),
        format!("Graph: {}", quote(work.graph_id.as_str())),
        format!("Pool: {}", quote(work.pool.as_str())),
        format!(
            "Priority: {} (admitted {}; policy-weighted class)",
            state.scheduling_priority().get(),
            work.priority.get()
        ),
        format!("Fairness key: {}", quote(work.fairness_key.as_str())),
        format!("Worker profile: {}", quote(work.worker_profile.as_str())),
        format!("State: {} | scheduling: {} (snapshot)", state.state(), view.reason),
        format!("Label: {}", view.label),
        format!("Position: {}/{} | attempts: {}", state.position.commit, state.position.operation, state.attempts),
        format!("Retry not before: {}", state.retry_not_before.get()),
    ];
    if let Some(pin) = &work.execution_ref {
        lines.push(format!("Execution pin: {}", quote(pin.as_str())));
    }
    if let Some(contract) = &state.admission_contract {
        lines.push(format!("Admission contract: {}", quote(contract.as_str())));
    }
    if let Some(owner) = projection.owner_of(state) {
        lines.push(format!("Current/last Claim: {}", quote(owner.claim.claim_id.as_str())));
    }
    let barrier = state.barrier().as_str();
    match &state.ownership {
        Ownership::Completed { completion_id, delivery, .. } => {
            lines.push(match delivery {
                Delivery::Failed(failure) => format!("Delivery: {barrier} | disposition: {}", failure.disposition),
                _ => format!("Delivery: {barrier}"),
            });
            lines.push(format!("Completion: {}", quote(completion_id.as_str())));
            if let Delivery::Verified { commit_id, .. } = delivery {
                lines.push(format!("Result commit: {}", quote(commit_id.as_str())));
            }
        }
        Ownership::Cancelled { operation, commit_id, .. } => {
            lines.push(format!("Delivery: {barrier}"));
            lines.push(format!("Cancellation: {} in {}", quote(operation.reason.as_str()), quote(commit_id.as_str())));
        }
        Ownership::Available | Ownership::Claimed(_) => lines.push(format!("Delivery: {barrier}")),
    }
    if !view.blocking_path.is_empty() {
        let path: Vec<String> = view.blocking_path.iter().map(|id| quote(id.as_str())).collect();
        lines.push(format!("Blocked by: {}", path.join(" <- ")));
    }
    lines.join("\n")
}

fn claim_block(loaded: &Loaded, claim: &ClaimState) -> String {
    let mut lines = vec![
        format!("CLAIM {}", quote(claim.claim.claim_id.as_str())),
        format!("State: {} | current: {}", claim.status.as_str(), is_current(&loaded.projection, claim)),
        format!("Handle: {}", quote(claim.claim.handle.as_str())),
        format!("Grant commit: {}", quote(claim.commit_id.as_str())),
        format!("Request: {}", quote(claim.request_id.as_str())),
    ];
    let (commit, reason, retry) = terminal(&claim.status);
    lines.extend(commit.map(|commit| format!("Terminal commit: {}", quote(commit))));
    lines.extend(reason.map(|reason| format!("Reason: {}", quote(reason))));
    lines.extend(retry.map(|retry| format!("Retry not before: {}", retry.get())));
    lines.join("\n")
}

fn dispatch_block(loaded: &Loaded, dispatch: &DispatchState) -> String {
    let assignment = &dispatch.assignment;
    let mut lines = vec![
        format!("DISPATCH {}", quote(assignment.dispatch_id.as_str())),
        format!("State: {} | native reservation retained: {}", dispatch.phase.as_str(), !dispatch.released),
        format!("Original assignment: {} Claims (immutable)", assignment.claims.len()),
        format!("Profile: {}", quote(assignment.worker_profile.as_str())),
    ];
    if let Some(run) = &dispatch.run {
        lines.push(format!("Run: {} attempt 1", quote(run.run_id.as_str())));
        lines.push(format!("Workflow: {}", quote(run.workflow.as_str())));
        lines.push(format!("Revision: {}", quote(run.revision.as_str())));
        lines.push(format!("Principal: {}", quote(run.principal.as_str())));
    }
    for member in &assignment.claims {
        let key = loaded.projection.work(member.work_id.as_str()).map_or("", |work| work.work.node_key.as_str());
        lines.push(format!(
            "  member: {} -> Work {} handle={}",
            quote(member.claim_id.as_str()),
            quote(key),
            quote(member.handle.as_str())
        ));
    }
    lines.join("\n")
}

fn dependency_block(loaded: &Loaded, state: &WorkState) -> String {
    let edges = &state.work.depends_on;
    let mut lines = vec![format!("DEPENDENCIES ({})", edges.len())];
    if edges.is_empty() {
        lines.push("None".to_owned());
    }
    for edge in edges {
        lines.push(match edge {
            Edge::Work(id) => match loaded.projection.work(id.as_str()) {
                Some(work) => format!(
                    "  Work {} {}: {} delivery={}",
                    quote(id.as_str()),
                    quote(work.work.node_key.as_str()),
                    work.state(),
                    work.barrier().as_str()
                ),
                None => format!("  Work {}: not admitted", quote(id.as_str())),
            },
            Edge::Gate(gate) => format!(
                "  {} {} #{}: requires {}",
                gate.resource.kind,
                quote(gate.resource.repository.as_str()),
                quote(gate.resource.number.as_str()),
                gate.condition
            ),
        });
    }
    lines.join("\n")
}
