//! The lifecycle's rules for the delivery of a run's own Claims.

use crate::delivery::finalise::Lifecycle;
use crate::delivery::gate::Frame;
use crate::engine::Projection;
use crate::engine::state::DispatchState;
use crate::launch::native::evidence;
use crate::launch::step::{in_role, publish_step};
use crate::ledger::{Ledger, LedgerError};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::evidence::{Evidence, EvidenceKind, EvidenceSource};
use crate::protocol::operation::Operation;
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, Fault};

use crate::jobs::own_run::OwnRun;

/// The run and who publishes for it.
pub(super) struct Rules<'r, 'o> {
    pub(super) own: &'r OwnRun<'o>,
    pub(super) actor: &'r Actor,
}

impl Lifecycle for Rules<'_, '_> {
    fn evidence(&self, dispatch: &DispatchState, projection: &Projection, checked_at: At) -> Result<Evidence, Fault> {
        let spelling = projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let (kind, source) = (EvidenceKind::Delivery, EvidenceSource::VerifiedReceipts);
        evidence(dispatch, spelling, kind, source, None, checked_at)
    }

    fn publish(
        &self,
        ledger: &mut dyn Ledger,
        parts: &[&str],
        build: &dyn Fn(&Projection) -> Result<Vec<Operation>, Fault>,
    ) -> Result<(), LedgerError> {
        let actor = in_role(self.actor, Role::Reconciler);
        publish_step(ledger, &actor, RequestKind::Result, parts, build).map(drop).map_err(LedgerError::from)
    }

    fn revalidate(&self, frame: &Frame<'_>) -> Result<(), Fault> {
        let plain = |error: crate::launch::error::LaunchError| Fault::new(error.code(), error.message().into_owned());
        self.own.revalidate(frame.run()).map_err(plain)
    }
}
