//! `planDispatch`: the largest fair prefix of winners, packed into dispatches (engine.md 4.5).

use std::sync::Arc;

use super::clock::Ticks;
use super::explain::{Capacity, SelectionView};
use super::select::{Planner, Selection, Winner};
use crate::engine::mutation::mutated;
use crate::engine::state::{Projection, WorkIx, WorkState};
use crate::protocol::assignment::{Assignment, Member, ResultRef, size};
use crate::protocol::fault::ensure;
use crate::protocol::identity::sha256_hex;
use crate::protocol::operation::{Claim, Observations};
use crate::protocol::policy::WorkerProfile;
use crate::protocol::request::DispatchParameters;
use crate::protocol::{
    At, ClaimId, Code, CommitId, DispatchId, Fault, Handle, ObservationId, Priority, ProfileName, RequestId,
};

/// Everything that a plan depends on beside the projection.
#[derive(Clone, Copy, Debug)]
pub struct PlanInputs<'a> {
    /// Parameters of the request.
    pub parameters: &'a DispatchParameters,
    /// Request id; Claim and dispatch ids derive from it.
    pub request_id: &'a RequestId,
    /// Id of the granting commit.
    pub commit_id: &'a CommitId,
    /// Time of the decision.
    pub at: At,
    /// Operations that stand before the Claims, 0 to `limits.operations`.
    pub preceding_operations: usize,
}

/// What ended a plan: engine.md 4.5.
pub type StopReason = &'static str;

/// The planner's answer.
#[derive(Debug)]
pub struct Plan {
    /// Claims in winning order.
    pub claims: Vec<PlannedClaim>,
    /// Dispatches in opening order.
    pub groups: Vec<PlannedGroup>,
    /// Why the prefix ends.
    pub reason: StopReason,
    /// The selection after the prefix; names the blocked winner if there is one.
    pub next: SelectionView,
    pub(crate) pool: u16,
    pub(crate) clocks: super::pool::PoolClocks,
}

/// One planned Claim.
#[derive(Debug)]
pub struct PlannedClaim {
    pub(crate) work: WorkIx,
    /// The operation.
    pub claim: Claim,
    /// Index of its dispatch in [`Plan::groups`].
    pub group: usize,
    pub(crate) account: u16,
    pub(crate) priority: Priority,
    pub(crate) label: &'static str,
    pub(crate) class_pass: Ticks,
    pub(crate) key_pass: Ticks,
    pub(crate) class_pass_prior: Ticks,
    pub(crate) key_pass_prior: Ticks,
    pub(crate) before: Capacity,
    pub(crate) after: Capacity,
}

/// One planned dispatch.
#[derive(Debug)]
pub struct PlannedGroup {
    /// Its id.
    pub dispatch_id: DispatchId,
    /// Route of all its members.
    pub worker_profile: ProfileName,
    /// The frozen route.
    pub profile: Arc<WorkerProfile>,
    /// Indexes into [`Plan::claims`].
    pub claims: Vec<usize>,
    first: WorkIx,
    bytes: u64,
}

/// Plans the fair prefix of one request. Pure; grants, replay, predictions and explanations call it alike.
///
/// # Errors
/// `policy_missing`, `policy_invalid` for a pool that is not installed, `ledger_invalid` for
/// `preceding_operations` out of bounds.
pub fn plan(projection: &Projection, inputs: &PlanInputs<'_>) -> Result<Plan, Fault> {
    let parameters = inputs.parameters;
    let allow = parameters.worker_profiles.as_deref();
    let planner = Planner::new(projection, parameters.pool.as_str(), inputs.at, allow)?;
    let operations = planner.installed.policy.limits.operations as usize;
    ensure!(inputs.preceding_operations <= operations, LedgerInvalid, "more operations precede than a commit may hold");
    let most = parameters.max_claims.get() as usize;
    let limit = most.min(operations - inputs.preceding_operations);
    let packer = Packer {
        planner,
        inputs,
        seed: sha256_hex(&[inputs.request_id.as_str()]),
        claims: Vec::new(),
        groups: Vec::new(),
    };
    packer.run(limit, most)
}

struct Packer<'p, 'i> {
    planner: Planner<'p>,
    inputs: &'i PlanInputs<'i>,
    seed: String,
    claims: Vec<PlannedClaim>,
    groups: Vec<PlannedGroup>,
}

impl Packer<'_, '_> {
    fn run(mut self, limit: usize, most: usize) -> Result<Plan, Fault> {
        let mut next = self.planner.next();
        let mut last = None;
        let mut reason = next.reason;
        while self.claims.len() < limit {
            let Some(winner) = next.winner.clone() else { break };
            if let Some(blocked) = self.place(winner)? {
                reason = blocked;
                break;
            }
            let following = self.planner.next();
            reason = following.reason;
            last = Some(std::mem::replace(&mut next, following));
        }
        if self.claims.len() == limit {
            reason = match limit {
                0 => "operation_budget_blocked",
                _ if limit == most => "claim_budget_reached",
                _ => "operation_budget_reached",
            };
            next = last.unwrap_or(next);
        } else if !self.claims.is_empty() && reason == "no_work" {
            reason = "prefix_complete";
        }
        Ok(self.finish(reason, &next))
    }

    fn finish(self, reason: StopReason, next: &Selection) -> Plan {
        Plan {
            next: SelectionView::of(self.planner.projection, next),
            claims: self.claims,
            groups: self.groups,
            reason,
            pool: self.planner.pool_ix,
            clocks: self.planner.clocks,
        }
    }

    /// Puts a winner into the first group that takes it, or opens one. Returns what blocks it, if anything does.
    fn place(&mut self, winner: Winner) -> Result<Option<StopReason>, Fault> {
        let work = self.planner.work(winner.work);
        let policy = &self.planner.installed.policy;
        let profile = self
            .planner
            .projection
            .registry
            .execution_profile(policy, &work.work, work.admission_contract.as_ref())
            .map_err(|_| Fault::new(Code::Internal, "a selected Work has no ready route"))?;
        let most = policy.limits.assignment_bytes.min(self.inputs.parameters.max_bytes.get() as u64);
        let claim_id = ClaimId::new(format!("c_{}_{}", self.seed, self.claims.len() + 1))?;
        let references = self.planner.projection.reference_bytes(work);
        let member_bytes = |handle: &str| {
            size::member(handle, claim_id.as_str(), work.work.work_id.as_str(), work.work.payload.len(), references)
        };
        let chosen = self.groups.iter().position(|group| {
            let handle = format!("h{}", group.claims.len() + 1);
            self.takes(group, work, &profile) && group.bytes + 1 + member_bytes(&handle) <= most
        });
        let native = self.planner.native;
        let group = match chosen {
            Some(group) => {
                let handle = format!("h{}", self.groups[group].claims.len() + 1);
                self.groups[group].bytes += 1 + member_bytes(&handle);
                group
            }
            None => match self.open(work, winner.work, profile, member_bytes("h1"), most)? {
                Ok(group) => group,
                Err(blocked) => return Ok(Some(blocked)),
            },
        };
        self.record(winner, claim_id, group, native)?;
        Ok(None)
    }

    fn takes(&self, group: &PlannedGroup, work: &WorkState, profile: &Arc<WorkerProfile>) -> bool {
        let first = self.planner.work(group.first);
        (group.worker_profile == work.work.worker_profile || mutated!(MixProfiles))
            && profile.trust_domain.as_str() == work.work.batch_trust_domain.as_str()
            && (Arc::ptr_eq(&group.profile, profile) || group.profile == *profile || mutated!(MixProfiles))
            && first.work.batch_trust_domain == work.work.batch_trust_domain
            && (profile.share_keys || mutated!(MixAccounts) || first.work.fairness_key == work.work.fairness_key)
            && ((group.claims.len() as i64) < profile.max_claims.get() || mutated!(OverfillBatch))
    }

    fn open(
        &mut self,
        work: &WorkState,
        first: WorkIx,
        profile: Arc<WorkerProfile>,
        member: u64,
        most: u64,
    ) -> Result<Result<usize, StopReason>, Fault> {
        if self.groups.len() as i64 >= self.inputs.parameters.max_dispatches.get() && !mutated!(IgnoreDispatchBudget) {
            return Ok(Err("dispatch_budget_blocked"));
        }
        if i64::from(self.planner.native) >= self.planner.pool()?.native_limit.get() && !mutated!(IgnoreNativeLimit) {
            return Ok(Err("native_capacity_blocked"));
        }
        let dispatch_id = DispatchId::new(format!("d_{}_{}", self.seed, self.groups.len() + 1))?;
        let bytes = member
            + size::envelope(&size::Header {
                dispatch_id: dispatch_id.as_str(),
                request_id: self.inputs.request_id.as_str(),
                commit_id: self.inputs.commit_id.as_str(),
                policy_epoch: self.planner.installed.epoch.as_str(),
                pool: work.work.pool.as_str(),
                worker_profile: work.work.worker_profile.as_str(),
            });
        if bytes > most {
            return Ok(Err("assignment_bytes_blocked"));
        }
        self.planner.native += 1;
        let worker_profile = work.work.worker_profile.clone();
        self.groups.push(PlannedGroup { dispatch_id, worker_profile, profile, claims: Vec::new(), first, bytes });
        Ok(Ok(self.groups.len() - 1))
    }

    /// Records the Claim and moves the scratch view on. `native` is the reservation count before this Claim.
    fn record(&mut self, winner: Winner, claim_id: ClaimId, group: usize, native: u32) -> Result<(), Fault> {
        let handle = Handle::new(format!("h{}", self.groups[group].claims.len() + 1))?;
        let prior = |pass: Option<Ticks>| pass.unwrap_or(Ticks::ZERO);
        let clocks = &self.planner.clocks;
        let class_pass_prior = prior(clocks.classes.pass(winner.class as u16));
        let key_pass_prior = prior(clocks.keys[winner.class].as_ref().and_then(|keys| keys.pass(winner.account)));
        let before = Capacity { logical: self.planner.open, native, account: self.planner.open_of(winner.account) };
        let (work, account, priority, label) = (winner.work, winner.account, winner.priority, winner.label);
        let (class_pass, key_pass) = (winner.class_pass.clone(), winner.key_pass.clone());
        let observations: Vec<ObservationId> = winner.observations.clone();
        self.planner.take(winner);
        let after = Capacity {
            logical: self.planner.open,
            native: self.planner.native,
            account: self.planner.open_of(account),
        };
        self.groups[group].claims.push(self.claims.len());
        self.claims.push(PlannedClaim {
            work,
            claim: Claim {
                work_id: self.planner.work(work).work.work_id.clone(),
                claim_id,
                dispatch_id: self.groups[group].dispatch_id.clone(),
                handle,
                observations: Observations(observations),
            },
            group,
            account,
            priority,
            label,
            class_pass,
            key_pass,
            class_pass_prior,
            key_pass_prior,
            before,
            after,
        });
        Ok(())
    }
}

impl Projection {
    /// Bytes of the `result_refs` of a Work whose predecessors are verified.
    fn reference_bytes(&self, work: &WorkState) -> u64 {
        let references = work.predecessors.iter().filter_map(|ix| {
            let predecessor = self.work_at(*ix);
            let (operation, commit_id) = predecessor.verified()?;
            Some((predecessor.work.work_id.as_str(), commit_id.as_str(), operation.descriptor.0.len()))
        });
        size::references(references)
    }

    /// The `result_refs` of a Work whose predecessors are verified (engine.md 4.6).
    pub(crate) fn result_refs(&self, work: &WorkState) -> Result<Vec<ResultRef>, Fault> {
        if mutated!(SuccessorBeforeResult) {
            return Ok(Vec::new());
        }
        let references = work.predecessors.iter().map(|ix| {
            let predecessor = self.work_at(*ix);
            let (operation, commit_id) =
                predecessor.verified().ok_or_else(|| Fault::from(Code::DependencyResultUnavailable))?;
            Ok(ResultRef {
                work_id: predecessor.work.work_id.clone(),
                result_commit_id: commit_id.clone(),
                descriptor: operation.descriptor.0.clone(),
            })
        });
        references.collect()
    }

    /// The assignments that a plan would create.
    ///
    /// # Errors
    /// `dependency_result_unavailable`, which eligibility excludes; `internal` without a Policy.
    pub fn planned_assignments(&self, plan: &Plan, inputs: &PlanInputs<'_>) -> Result<Vec<Assignment>, Fault> {
        let installed = self.rules()?;
        let assignments = plan.groups.iter().map(|group| {
            let members = group.claims.iter().map(|index| {
                let planned = &plan.claims[*index];
                self.member(&planned.claim, planned.work)
            });
            Ok(Assignment {
                dispatch_id: group.dispatch_id.clone(),
                request_id: inputs.request_id.clone(),
                commit_id: inputs.commit_id.clone(),
                policy_epoch: installed.epoch.clone(),
                pool: inputs.parameters.pool.clone(),
                worker_profile: group.worker_profile.clone(),
                claims: members.collect::<Result<_, Fault>>()?,
            })
        });
        assignments.collect()
    }

    pub(crate) fn member(&self, claim: &Claim, work: WorkIx) -> Result<Member, Fault> {
        let work = self.work_at(work);
        Ok(Member {
            handle: claim.handle.clone(),
            claim_id: claim.claim_id.clone(),
            work_id: claim.work_id.clone(),
            work: work.work.payload.clone(),
            result_refs: self.result_refs(work)?,
        })
    }
}

impl PlannedClaim {
    /// The Work that wins.
    #[must_use]
    pub fn work_id(&self) -> &crate::protocol::WorkId {
        &self.claim.work_id
    }
}
