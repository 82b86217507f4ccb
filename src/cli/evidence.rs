//! `wq evidence`.

use super::access::Access;
use super::reconcile::write_evidence;
use super::source::provenance;
use super::{Failure, Global, Reply};
use crate::launch::reconcile::run_evidence;
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::evidence::Evidence;
use crate::protocol::json::Writer;
use crate::protocol::{Code, DispatchId, Fault, Measured};
use crate::report::label;

/// Show what GitHub says of the run that a dispatch is bound to. Reads alone.
///
/// The run is read at its first attempt and compared with the dispatch's frozen route; one that is another's is an
/// error. Without a bound run there is no evidence, and the reservation is kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The dispatch, 1 to 256 bytes.
    #[arg(long, value_name = "ID")]
    dispatch_id: String,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let dispatch_id =
        DispatchId::new(args.dispatch_id.clone()).map_err(|fault| Failure::flag(&fault, "--dispatch-id"))?;
    let access = Access::open(global)?;
    let hub = access.github()?;
    let mut publisher = access.publisher()?;
    let current = publisher.read_present()?;
    let dispatch = current
        .projection
        .dispatch(dispatch_id.as_str())
        .ok_or_else(|| Failure::from(Fault::from(Code::DispatchMissing)))?;
    let state = dispatch.phase.as_str();
    let released = dispatch.released;
    let evidence = run_evidence(&mut publisher, hub.client(), &SystemClock, access.name(), &dispatch_id)?;
    let reason = evidence.as_ref().map_or("launch_unresolved", |evidence| evidence.kind.as_str());
    if !global.json {
        return Ok(Reply::done(text(&dispatch_id, state, released, reason, evidence.as_ref())));
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("dispatch_id", |w| w.string(dispatch_id.as_str()));
        if let Some(evidence) = &evidence {
            members.name("evidence", |w| write_evidence(evidence, w));
        }
        members.name("reason", |w| w.string(reason));
        members.name("released", |w| w.bool(released));
        members.name("state", |w| w.string(state));
        provenance(&current.projection, Some(&current.commit.to_string()), SystemClock.now(), members);
    });
    Ok(Reply::done(writer.finish()))
}

fn text(
    dispatch_id: &DispatchId,
    state: &str,
    released: bool,
    reason: &str,
    evidence: Option<&Measured<Evidence>>,
) -> String {
    let kept = if released { "released" } else { "reservation kept" };
    let mut out = format!("{reason}; dispatch {} ({state}, {kept})\n", label(dispatch_id.as_str()));
    if let Some(run_id) = evidence.and_then(|evidence| evidence.run_id.as_ref()) {
        let ended = evidence.and_then(|evidence| evidence.conclusion.as_ref());
        let ended = ended.map_or_else(|| "not ended".to_owned(), |conclusion| label(conclusion.as_str()));
        out.push_str(&format!("run {} attempt 1: {ended}\n", run_id.as_str()));
    }
    out
}
