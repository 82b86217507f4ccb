//! Completion.

use crate::engine::state::{ClaimStatus, Context, Delivery, Ownership, Projection, Round};
use crate::protocol::fault::ensure;
use crate::protocol::operation::Completion;
use crate::protocol::{Code, Fault};

impl Projection {
    pub(super) fn apply_completion(&mut self, completion: &Completion, context: &Context<'_>) -> Result<(), Fault> {
        let ix =
            self.claim_ids.get(&completion.claim_id).copied().ok_or_else(|| Fault::from(Code::ClaimIneffective))?;
        self.claim_authority(ix, context.actor, false)?;
        let claim = self.claim_at(ix);
        let run = self.dispatch_of(claim).run.as_ref();
        let same = claim.claim.work_id == completion.work_id
            && claim.claim.dispatch_id == completion.dispatch_id
            && claim.claim.handle == completion.claim_handle
            && run.is_some_and(|run| run.run_id == completion.run_id);
        ensure!(same, ClaimScopeInvalid, "the Completion names another Work, dispatch, handle or run");
        let work = claim.work;
        let keep_open = completion.keeps_open();
        let round = keep_open.then(Box::<Round>::default);
        self.close_claim(ix, ClaimStatus::Completed { commit_id: context.commit_id.clone(), round });
        self.change_work(work, |state| {
            state.ownership = Ownership::Completed {
                claim: ix,
                completion_id: context.commit_id.clone(),
                completion_at: context.at,
                delivery: Delivery::Pending,
                keep_open,
            };
        });
        Ok(())
    }
}
