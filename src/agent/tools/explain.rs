//! `work_queue_explain` (jobs.md 4.6). The explanation is the operator's own, by the same functions as the scheduler.

use super::{Toolbox, named};
use crate::engine::Projection;
use crate::engine::state::WorkState;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Value, Writer};
use crate::protocol::{Code, Fault, PoolName, Wire as _, WorkId};

impl Toolbox<'_> {
    /// Why one Work is or is not next, at the time of the snapshot.
    pub(super) fn explain(&self, arguments: &Value) -> Result<String, Fault> {
        tracing::debug!(target: "work-queue:mcp", "snapshot.explain.start");
        let id = named(arguments, "work", WorkId::new)?.ok_or_else(|| Fault::from(Code::RequestInvalid))?;
        let pool = named(arguments, "pool", PoolName::new)?;
        ensure!(self.shows(id.as_str()), WorkQueueReadScopeDenied, "this Work is outside what reads may show");
        let found =
            self.view.projection.as_ref().and_then(|projection| Some((projection, projection.work(id.as_str())?)));
        let explanation = match found {
            Some((projection, state)) => {
                let same = pool.is_none_or(|pool| pool == state.work.pool);
                ensure!(same, WorkQueueReadScopeDenied, "this Work is in another pool");
                self.explain_present(projection, state)?
            }
            None => {
                let absent = self.view.projection.is_none();
                let mut writer = Writer::new();
                writer.object(|members| {
                    members.name("authoritative", |w| w.bool(false));
                    members.name("ready", |w| w.bool(false));
                    members.name("reason", |w| w.string(if absent { "queue_uninitialized" } else { "work_absent" }));
                    members.name("state", |w| w.string("absent"));
                    members.name("work_id", |w| id.write(w));
                });
                writer.finish()
            }
        };
        let mut writer = Writer::new();
        writer.object(|members| {
            self.provenance(members);
            members.name("explanation", |w| w.raw(&explanation));
        });
        tracing::debug!(target: "work-queue:mcp", present = found.is_some(), "snapshot.explain.complete");
        Ok(writer.finish())
    }

    fn explain_present(&self, projection: &Projection, state: &WorkState) -> Result<String, Fault> {
        let at = self.view.snapshot.captured_at;
        let mut explanation = projection.explain_work(state, at)?;
        if explanation.next.work_id.as_ref().is_some_and(|id| !self.shows(id.as_str())) {
            explanation.next.work_id = None;
            explanation.next.observations.clear();
        }
        for eligibility in [&mut explanation.readiness, &mut explanation.scheduling] {
            eligibility.predecessor.take_if(|id| !self.shows(id.as_str()));
        }
        let mut view = projection.view_work(state, at, None);
        self.redact(&mut view);
        let mut writer = Writer::new();
        writer.object(|members| {
            projection.work_explanation_members(&explanation, members);
            view.members(state, members);
            members.name("authoritative", |w| w.bool(false));
        });
        Ok(writer.finish())
    }
}
