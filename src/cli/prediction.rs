//! What the planner would grant at some moment. Never a grant: nothing is applied or written.

use super::Failure;
use crate::engine::Projection;
use crate::engine::generate::candidate_id;
use crate::engine::schedule::explain::SelectionView;
use crate::engine::schedule::{Plan, PlanInputs, plan, select};
use crate::protocol::identity::sha256_hex;
use crate::protocol::json::Writer;
use crate::protocol::request::DispatchParameters;
use crate::protocol::{At, CommitId, Fault, Identity, PoolName, RequestId, Wire as _};

/// Request id of a prediction that names none. The plan depends on its length alone, which is that of a random one.
const ANONYMOUS: &str = "00000000000000000000000000000000";

/// The question, as it was asked on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) pool: String,
    pub(crate) at: i64,
    pub(crate) max_claims: i64,
    pub(crate) max_dispatches: i64,
    /// The Policy's own bound when absent.
    pub(crate) max_bytes: Option<i64>,
    pub(crate) worker_profiles: Option<Vec<String>>,
    pub(crate) preceding_operations: usize,
    pub(crate) request_id: Option<String>,
    pub(crate) commit_id: Option<String>,
}

/// The planner's answer, kept with what it was asked.
#[derive(Debug)]
pub(crate) struct Prediction {
    /// True if the Claims and assignments are digested too.
    digests: bool,
    at: At,
    parameters: DispatchParameters,
    request_id: RequestId,
    commit_id: CommitId,
    preceding_operations: usize,
    /// The plan, or why there is none.
    pub(crate) plan: Result<Plan, Fault>,
    /// The plain next selection, or why there is none.
    pub(crate) select: Result<SelectionView, Fault>,
}

impl Question {
    /// Asks the planner.
    pub(crate) fn ask(&self, projection: &Projection) -> Result<Prediction, Failure> {
        let own = projection.installed().map_or(1, |installed| installed.policy.limits.assignment_bytes as i64);
        let flag = |fault: Fault, name| Failure::flag(&fault, name);
        let worker_profiles = self.worker_profiles.as_ref().map(|names| {
            let mut names = names.clone();
            names.sort_unstable();
            names.dedup();
            names.into_iter().map(|name| Identity::new(name).map_err(|fault| flag(fault, "--worker-profile"))).collect()
        });
        let parameters = DispatchParameters {
            pool: PoolName::new(self.pool.clone()).map_err(|fault| flag(fault, "--pool"))?,
            max_claims: bound(self.max_claims, "--max-claims")?,
            max_dispatches: bound(self.max_dispatches, "--max-dispatches")?,
            max_bytes: bound(self.max_bytes.unwrap_or(own), "--max-bytes")?,
            worker_profiles: worker_profiles.transpose()?,
        };
        let request_id = RequestId::new(self.request_id.as_deref().unwrap_or(ANONYMOUS).to_owned())
            .map_err(|fault| flag(fault, "--request-id"))?;
        let commit_id = match &self.commit_id {
            Some(id) => CommitId::new(id.clone()).map_err(|fault| flag(fault, "--commit-id"))?,
            None => candidate_id(projection.tip(), &request_id),
        };
        let at: At = bound(self.at, "--at")?;
        let inputs = PlanInputs {
            parameters: &parameters,
            request_id: &request_id,
            commit_id: &commit_id,
            at,
            preceding_operations: self.preceding_operations,
        };
        let plan = plan(projection, &inputs);
        let select = select(projection, &self.pool, at).map(|selection| SelectionView::of(projection, &selection));
        Ok(Prediction {
            digests: self.request_id.is_some(),
            at,
            preceding_operations: self.preceding_operations,
            plan,
            select,
            parameters,
            request_id,
            commit_id,
        })
    }
}

/// An integer flag within its wire bounds.
pub(crate) fn bound<const MIN: i64, const MAX: i64>(
    value: i64,
    flag: &'static str,
) -> Result<crate::protocol::identity::Within<MIN, MAX>, Failure> {
    crate::protocol::identity::Within::new(value).map_err(|fault| Failure::flag(&fault, flag))
}

impl Prediction {
    /// Writes `{result, select}` as the ledger corpus has it.
    pub(crate) fn write(&self, projection: &Projection, writer: &mut Writer) {
        writer.object(|members| {
            members.name("result", |w| match &self.plan {
                Ok(plan) => self.write_plan(projection, plan, w),
                Err(fault) => refusal(fault, w),
            });
            members.name("select", |w| match &self.select {
                Ok(view) => view.write(w),
                Err(fault) => refusal(fault, w),
            });
        });
    }

    fn write_plan(&self, projection: &Projection, plan: &Plan, writer: &mut Writer) {
        let digests = self.digests.then(|| self.digest(projection, plan));
        writer.object(|members| {
            write_plan_members(plan, members);
            if let Some((operations, assignments)) = digests {
                members.name("operations_sha256", |w| w.string(&operations));
                if let Some(assignments) = assignments {
                    members.name("assignments_sha256", |w| w.string(&assignments));
                }
            }
        });
    }

    /// Digests of the Claims and of the assignments.
    fn digest(&self, projection: &Projection, plan: &Plan) -> (String, Option<String>) {
        let mut operations = Writer::new();
        operations.array(&plan.claims, |w, planned| planned.claim.write(w));
        let inputs = PlanInputs {
            parameters: &self.parameters,
            request_id: &self.request_id,
            commit_id: &self.commit_id,
            at: self.at,
            preceding_operations: self.preceding_operations,
        };
        let assignments = projection.planned_assignments(plan, &inputs).ok().map(|assignments| {
            let mut writer = Writer::new();
            writer.array(&assignments, |w, assignment| w.raw(&assignment.canonical()));
            sha256_hex(&[&writer.finish()])
        });
        (sha256_hex(&[&operations.finish()]), assignments)
    }
}

/// Writes a plan's winners, groups, end and next selection.
pub(crate) fn write_plan_members(plan: &Plan, members: &mut crate::protocol::json::Members<'_>) {
    members.name("groups", |w| {
        w.array(&plan.groups, |w, group| w.array(&group.claims, |w, index| w.integer(*index as i64)));
    });
    members.name("next", |w| plan.next.write(w));
    if plan.claims.iter().any(|planned| !planned.claim.observations.0.is_empty()) {
        members.name("observations", |w| {
            w.array(&plan.claims, |w, planned| planned.claim.observations.write(w));
        });
    }
    members.name("reason", |w| w.string(plan.reason));
    members.name("work_ids", |w| w.array(&plan.claims, |w, planned| planned.work_id().write(w)));
}

fn refusal(fault: &Fault, writer: &mut Writer) {
    writer.object(|members| members.name("error", |w| w.string(fault.code().as_str())));
}
