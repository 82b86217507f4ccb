//! IssueLink and IssueComment: what a projector showed of a Work in Issues (engine.md 3.6). They never affect
//! scheduling.

use crate::engine::state::{ClaimIx, CommentOwner, Context, Projection, WorkIx};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::fault::ensure;
use crate::protocol::operation::{IssueComment, IssueLink};
use crate::protocol::policy::is_lock_path;
use crate::protocol::resource::{Resource, ResourceKind};
use crate::protocol::{ClaimId, Code, Fault, Revision};

impl Projection {
    pub(super) fn apply_issue_link(&mut self, link: IssueLink, context: &Context<'_>) -> Result<(), Fault> {
        let missing = || Fault::new(Code::IssueBindingInvalid, "the linked Work does not exist");
        let ix = self.work_ids.get(&link.work_id).copied().ok_or_else(missing)?;
        self.check_projection(ix, &link.resource, &link.projector_ref, link.claim_id.as_ref(), context.actor)?;
        let bound = self.work_at(ix).bound_issue();
        let identity = link.resource.issue_identity();
        let free = bound.is_none_or(|bound| *bound == link.resource)
            && self.bound_issues.get(&identity).is_none_or(|owner| *owner == ix);
        ensure!(free, IssueBindingConflict, "the Work or the Issue is bound otherwise");
        if bound.is_none() {
            self.bound_issues.insert(identity, ix);
            self.works[ix.0 as usize].issue_link = Some(Box::new(link.resource));
        }
        Ok(())
    }

    pub(super) fn apply_issue_comment(&mut self, comment: IssueComment, context: &Context<'_>) -> Result<(), Fault> {
        let invalid = |message: &'static str| Fault::new(Code::IssueBindingInvalid, message);
        let missing = || invalid("the commented Work does not exist");
        let ix = self.work_ids.get(&comment.work_id).copied().ok_or_else(missing)?;
        let bound = self.work_at(ix).bound_issue().ok_or_else(|| invalid("the Work is bound to no Issue"))?;
        let authority = comment.authority_claim_id.as_ref().or(comment.claim_id.as_ref());
        self.check_projection(ix, bound, &comment.projector_ref, authority, context.actor)?;
        let unauthorized = || Fault::new(Code::ProjectionUnauthorized, "a Claim's comment rests on that Claim");
        let free = |owner| self.comments.get(&comment.comment_id).is_none_or(|known| Some(*known) == owner);
        let claim = comment.claim_id.as_ref().map(|id| self.claim_ids.get(id).copied());
        let owner = match claim {
            None => Some(CommentOwner::Summary(ix)),
            Some(claim) => claim.map(CommentOwner::Claim),
        };
        ensure!(free(owner), IssueBindingConflict, "the comment belongs to another Work or Claim");
        let owner = owner.ok_or_else(unauthorized)?;
        let known = match owner {
            CommentOwner::Summary(_) => self.work_at(ix).issue_summary.as_ref(),
            CommentOwner::Claim(claim) => {
                let same = comment.authority_claim_id.is_none() || comment.authority_claim_id == comment.claim_id;
                if !same {
                    return Err(unauthorized());
                }
                let claim = self.claim_at(claim);
                ensure!(claim.work == ix, IssueBindingInvalid, "the commented Claim is another Work's");
                claim.issue_comment.as_ref()
            }
        };
        let same = known.is_none_or(|known| *known == comment.comment_id);
        ensure!(same, IssueBindingConflict, "another comment is recorded already");
        self.comments.insert(comment.comment_id.clone(), owner);
        match owner {
            CommentOwner::Summary(_) => self.works[ix.0 as usize].issue_summary = Some(comment.comment_id),
            CommentOwner::Claim(claim) => self.claims[claim.0 as usize].issue_comment = Some(comment.comment_id),
        }
        Ok(())
    }

    /// Steps 2 to 4: the resource is an Issue that the pool allows, and the projector may write into it.
    fn check_projection(
        &self,
        work: WorkIx,
        resource: &Resource,
        revision: &Revision,
        authority: Option<&ClaimId>,
        actor: &Actor,
    ) -> Result<(), Fault> {
        ensure!(resource.kind == ResourceKind::Issue, IssueBindingInvalid, "only an Issue can be bound");
        let policy = &self.rules()?.policy;
        let state = self.work_at(work);
        let pool = policy.pools.get(&state.work.pool);
        let allowed = pool.is_some_and(|pool| pool.allows(resource.repository.as_str()));
        ensure!(allowed, ResourceUnauthorized, "the Work's pool does not allow the Issue's repository");
        let identified = actor.role == Role::Projector && actor.workflow.is_some() && actor.run_id.is_some();
        ensure!(identified, ProjectionUnauthorized, "a projector names its workflow and run");
        let repository = self.repository.as_ref().map_or("", |repository| repository.as_str());
        let owned = policy.aw
            && state.work.backing_issue.is_none()
            && resource.repository.as_str() == repository
            && actor.repository.as_str() == repository;
        let permitted = if owned {
            actor.workflow.as_ref().is_some_and(|workflow| is_lock_path(workflow.as_str()))
        } else {
            policy.projectors.iter().any(|rule| {
                rule.principal == actor.principal
                    && Some(&rule.workflow) == actor.workflow.as_ref()
                    && rule.revision == *revision
                    && rule.pools.contains(&state.work.pool)
                    && rule.repositories.contains(&resource.repository)
                    && state.work.backing_issue.as_ref().is_none_or(|issue| rule.backing_issues.contains(issue))
            })
        };
        ensure!(permitted, ProjectionUnauthorized, "no rule lets this projector write into the Issue's repository");
        match authority {
            Some(claim) => {
                let claim = self.claim_ids.get(claim).copied();
                let holds = claim.is_some_and(|claim| self.projects(claim, work, revision, actor));
                ensure!(holds, ProjectionUnauthorized, "the projector is not the run of the Claim that it names");
            }
            None => {
                let creator = &state.creator;
                let same = creator.principal == actor.principal
                    && creator.repository.as_str() == actor.repository.as_str()
                    && creator.workflow == actor.workflow
                    && creator.run_id == actor.run_id
                    && creator.run_attempt == actor.run_attempt
                    && (!owned || matches!(creator.role, Role::Producer | Role::Dispatcher | Role::Worker));
                ensure!(same, ProjectionUnauthorized, "the projector is not the run that admitted the Work");
            }
        }
        Ok(())
    }

    /// True if the projector is the run that a Claim of this Work is bound to.
    fn projects(&self, claim: ClaimIx, work: WorkIx, revision: &Revision, actor: &Actor) -> bool {
        let state = self.claim_at(claim);
        let dispatch = self.dispatch_of(state);
        let Some(run) = &dispatch.run else { return false };
        state.work == work
            && actor.dispatch_id.as_ref() == Some(&dispatch.assignment.dispatch_id)
            && actor.repository.as_str() == run.repository.as_str()
            && actor.workflow.as_ref() == Some(&run.workflow)
            && actor.principal == run.principal
            && actor.run_id.as_ref() == Some(&run.run_id)
            && actor.run_attempt.is_some_and(|attempt| attempt.get() == 1)
            && run.revision == *revision
            && dispatch.members.contains(&claim)
    }
}
