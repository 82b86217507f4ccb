//! Dispatches of a checkpoint (engine.md 3.12.5 step 12), in order of their grants.

use std::sync::Arc;

use hashbrown::HashMap;

use super::claims::Openings;
use super::receipts::History;
use super::{Parts, damaged, entries, intact, intact_option, small};
use crate::engine::mutation::mutated;
use crate::engine::state::{DispatchIx, DispatchPhase, DispatchState, Projection};
use crate::protocol::actor::Actor;
use crate::protocol::assignment::Assignment;
use crate::protocol::evidence::RunBinding;
use crate::protocol::fault::ensure;
use crate::protocol::json::Node;
use crate::protocol::operation::DispatchStep;
use crate::protocol::policy::WorkerProfile;
use crate::protocol::wire::closed;
use crate::protocol::{Code, Decimal, DispatchId, Fault, Reason};

const NAMES: &[(&str, bool); 16] = &[
    ("version", true),
    ("dispatch_id", true),
    ("request_id", true),
    ("commit_id", true),
    ("policy_epoch", true),
    ("pool", true),
    ("worker_profile", true),
    ("claims", true),
    ("profile", true),
    ("state", true),
    ("released", true),
    ("lifecycle_writes", true),
    ("sender", false),
    ("credential_principal", false),
    ("run", false),
    ("reason", false),
];

/// A `started` event that names a launching principal.
struct Start<'a> {
    principal: Decimal,
    actor: &'a Actor,
}

/// The launches that receipts tell of; none where two tell of the same dispatch.
type Starts<'a> = HashMap<DispatchId, Option<Start<'a>>>;

impl Projection {
    pub(super) fn restore_dispatches(
        &mut self,
        parts: &Parts<'_>,
        history: &History<'_>,
        openings: &Openings,
    ) -> Result<(), Fault> {
        let mut stored = entries(parts.dispatches)?;
        let starts = read_starts(history)?;
        let grants: HashMap<&str, &str> = history
            .receipts
            .iter()
            .map(|receipt| (receipt.accepted.request_id.as_str(), receipt.accepted.commit_id.as_str()))
            .collect();
        for id in openings {
            let node = stored.remove(id.text()).ok_or_else(|| damaged("a Claim's dispatch is missing"))?;
            let dispatch = self.read_dispatch(node)?;
            let assignment = &dispatch.assignment;
            ensure!(assignment.dispatch_id == *id, CheckpointInvalid, "a dispatch has another id than its key");
            let granted = grants.get(assignment.request_id.as_str()) == Some(&assignment.commit_id.as_str());
            ensure!(granted, CheckpointInvalid, "a dispatch was granted by no request");
            self.check_route(&dispatch)?;
            check_launch(&dispatch, starts.get(id))?;
            let ix = DispatchIx(self.dispatches.len() as u32);
            if let Some(run) = dispatch.run.as_ref().filter(|_| !mutated!(CompactionForgetsRuns)) {
                let fresh = self.runs.insert(run.run_id.clone(), ix);
                ensure!(fresh, CheckpointInvalid, "a run is bound to two dispatches");
            }
            self.open_dispatch(dispatch);
        }
        ensure!(stored.is_empty(), CheckpointInvalid, "a dispatch has no Claim");
        self.count_open_claims()
    }

    fn read_dispatch(&self, node: Node<'_>) -> Result<DispatchState, Fault> {
        let slots = closed(node, NAMES, Code::CheckpointInvalid)?;
        let slot = |index: usize| slots[index].ok_or_else(|| damaged("a dispatch lacks a member"));
        ensure!(slot(0)?.integer() == Some(3), CheckpointInvalid, "an assignment is of another version");
        let assignment = Assignment {
            dispatch_id: intact(slot(1)?)?,
            request_id: intact(slot(2)?)?,
            commit_id: intact(slot(3)?)?,
            policy_epoch: intact(slot(4)?)?,
            pool: intact(slot(5)?)?,
            worker_profile: intact(slot(6)?)?,
            claims: Assignment::read_members(slot(7)?).map_err(|_| damaged("an assignment's members are malformed"))?,
        };
        let profile = slot(8)?;
        // Only AW Policies leave the principal to the launch.
        let aw = profile.object().is_some_and(|profile| profile.get("principal").is_none());
        let profile = WorkerProfile::read(profile, aw).map_err(|_| damaged("a frozen profile is malformed"))?;
        let phase = match slot(9)?.plain() {
            Some("reserved") => DispatchPhase::Reserved,
            _ => DispatchPhase::Moved(intact::<DispatchStep>(slot(9)?)?),
        };
        let released: bool = intact(slot(10)?)?;
        let pool = self.pools.binary_search_by(|state| state.name.cmp(&assignment.pool));
        ensure!(released || pool.is_ok(), CheckpointInvalid, "the pool of a reservation is not installed");
        let members = assignment.claims.iter().map(|member| {
            let claim = self.claim_ids.get(&member.claim_id).copied();
            let claim = claim.filter(|ix| {
                let claim = &self.claim_at(*ix).claim;
                claim.dispatch_id == assignment.dispatch_id
                    && claim.handle == member.handle
                    && claim.work_id == member.work_id
            });
            claim.ok_or_else(|| damaged("an assignment's member is no Claim of its dispatch"))
        });
        Ok(DispatchState {
            members: members.collect::<Result<_, _>>()?,
            profile: self.shared_profile(&assignment, profile),
            phase,
            released: released || mutated!(CompactionFreesReservations),
            lifecycle_writes: small(slot(11)?)?,
            sender: intact_option::<Actor>(slots[12])?,
            credential_principal: intact_option::<Decimal>(slots[13])?,
            run: intact_option::<RunBinding>(slots[14])?,
            reason: intact_option::<Reason>(slots[15])?,
            pool: pool.map_or(u16::MAX, |at| at as u16),
            assignment,
        })
    }

    /// The installed or deployed profile where it is the same, so that equal routes stay one object.
    fn shared_profile(&self, assignment: &Assignment, profile: WorkerProfile) -> Arc<WorkerProfile> {
        let (pool, name) = (assignment.pool.as_str(), assignment.worker_profile.as_str());
        let deployed = self.registry.entry(pool, name).and_then(|entry| entry.revisions.get(&profile.revision));
        let installed =
            self.installed.as_ref().and_then(|installed| installed.policy.pools.get(pool)?.profiles.get(name));
        let known = deployed.map(|revision| &revision.profile).or(installed);
        match known.filter(|known| ***known == profile) {
            Some(known) => Arc::clone(known),
            None => Arc::new(profile),
        }
    }

    /// A frozen route with a contract is a registered revision while it holds capacity, and its members were admitted
    /// under its contract.
    fn check_route(&self, dispatch: &DispatchState) -> Result<(), Fault> {
        let Some(contract) = &dispatch.profile.logical_contract else { return Ok(()) };
        let assignment = &dispatch.assignment;
        if !dispatch.released {
            let entry = self.registry.entry(assignment.pool.as_str(), assignment.worker_profile.as_str());
            let known = entry.and_then(|entry| entry.revisions.get(&dispatch.profile.revision));
            let same = known.is_some_and(|known| known.profile == dispatch.profile);
            ensure!(same, CheckpointInvalid, "a reservation's route is not a deployed revision");
        }
        let same = dispatch
            .members
            .iter()
            .all(|claim| self.work_of(self.claim_at(*claim)).admission_contract.as_ref() == Some(contract));
        ensure!(same, CheckpointInvalid, "a member was admitted under another contract than its route's");
        Ok(())
    }

    fn count_open_claims(&mut self) -> Result<(), Fault> {
        for index in 0..self.claims.len() {
            let claim = &self.claims[index];
            ensure!((claim.dispatch.0 as usize) < self.dispatches.len(), CheckpointInvalid, "a dispatch is missing");
            let member = self.dispatch_of(claim).members.iter().any(|member| member.0 as usize == index);
            ensure!(member, CheckpointInvalid, "a Claim is no member of its dispatch");
            if claim.status.is_open() {
                let work = self.work_of(claim);
                let owns = work.owner().is_some_and(|owner| owner.0 as usize == index);
                ensure!(owns, CheckpointInvalid, "an open Claim does not own its Work");
                let (pool, account) = (work.pool, work.account);
                self.count_open(pool, account);
            }
        }
        Ok(())
    }
}

/// Where the principal comes from the launch, sender, principal, run and the started event agree.
fn check_launch(dispatch: &DispatchState, start: Option<&Option<Start<'_>>>) -> Result<(), Fault> {
    let launched = &dispatch.credential_principal;
    if dispatch.profile.principal.is_some() && launched.is_none() {
        return Ok(());
    }
    let agreed = dispatch.profile.principal.is_none()
        || launched.is_none()
        || dispatch.profile.principal.as_ref() == launched.as_ref();
    ensure!(agreed, CheckpointInvalid, "a launch has another principal than its route");
    let principal = dispatch.principal();
    let bound = dispatch.run.as_ref().is_none_or(|run| Some(&run.principal) == principal);
    ensure!(bound, CheckpointInvalid, "a run has another principal than its launch");
    if dispatch.phase == DispatchPhase::Reserved {
        let untouched = dispatch.sender.is_none() && dispatch.run.is_none() && launched.is_none();
        ensure!(untouched, CheckpointInvalid, "a launch that never started has a sender, run or principal");
        return Ok(());
    }
    let Some(Some(start)) = start else {
        return Err(damaged("a launch has no start, or two"));
    };
    let same = launched.as_ref() == Some(&start.principal) && dispatch.sender.as_ref() == Some(start.actor);
    ensure!(same, CheckpointInvalid, "a launch and its start differ");
    Ok(())
}

fn read_starts<'a>(history: &'a History<'_>) -> Result<Starts<'a>, Fault> {
    let mut starts = Starts::new();
    for receipt in &history.receipts {
        for event in &receipt.starts {
            let object = event.object().ok_or_else(|| damaged("an event is not an object"))?;
            let principal = object.get("credential_principal");
            let principal = principal.ok_or_else(|| damaged("a launch names no principal"))?;
            let id = object.get("dispatch_id").ok_or_else(|| damaged("a Dispatch names no dispatch"))?;
            let start = Start { principal: intact(principal)?, actor: &receipt.accepted.actor };
            starts.entry(intact(id)?).and_modify(|known| *known = None).or_insert(Some(start));
        }
    }
    Ok(starts)
}
