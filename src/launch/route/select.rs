//! Which routes an admission has to verify (publication.md 4.4, the table).

use crate::engine::Projection;
use crate::engine::state::WorkState;
use crate::protocol::policy::{Policy, WorkerProfile};
use crate::protocol::work::WorkDraft;
use crate::protocol::{Code, Digest, Fault, Identity, Revision};

/// A worker route: one compiled workflow at one revision, with the contract that it must carry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Path of the compiled workflow.
    pub workflow: Identity,
    /// The approved revision, never all zeros.
    pub revision: Revision,
    /// The approved contract, if the profile has one.
    pub contract: Option<Digest>,
}

impl Route {
    /// The route of a profile.
    ///
    /// # Errors
    /// `policy_invalid` for the all-zero revision.
    pub fn of(profile: &WorkerProfile) -> Result<Self, Fault> {
        if super::default_revision::is_null(&profile.revision) {
            return Err(Fault::new(Code::PolicyInvalid, "a worker route has the all-zero revision"));
        }
        Ok(Self {
            workflow: profile.workflow.clone(),
            revision: profile.revision.clone(),
            contract: profile.logical_contract.clone(),
        })
    }
}

/// What is about to be written.
#[derive(Clone, Copy, Debug)]
pub enum Admission<'a> {
    /// The first Policy of a queue, together with this Work.
    Bootstrap(&'a [WorkDraft]),
    /// Another Policy on an existing queue.
    PolicyUpdate,
    /// Work or a dispatch on an existing queue.
    Ordinary,
    /// A request that was accepted before.
    Recovery,
}

/// The distinct routes to verify before the write, sorted. An AW Policy is asked about the routes of the submitted Work
/// alone, so a broken worker that nobody submits to blocks nobody; a historical Policy is asked about all of them.
///
/// Work whose pool or profile is not installed selects no route: admission refuses it with its own code.
///
/// # Errors
/// `policy_invalid` for a selected route with the all-zero revision.
pub fn routes_to_verify(admission: Admission<'_>, policy: &Policy) -> Result<Vec<Route>, Fault> {
    let mut routes = match admission {
        Admission::Bootstrap(work) if policy.aw => {
            work.iter().filter_map(|draft| profile_of(draft, policy)).map(Route::of).collect::<Result<Vec<_>, _>>()?
        }
        Admission::Bootstrap(_) | Admission::PolicyUpdate if !policy.aw => {
            let profiles = policy.pools.values().flat_map(|pool| pool.profiles.values());
            profiles.map(|profile| Route::of(profile)).collect::<Result<Vec<_>, _>>()?
        }
        _ => Vec::new(),
    };
    routes.sort();
    routes.dedup();
    Ok(routes)
}

/// As [`routes_to_verify`] for a first submission, from the state that it makes: Policy and Work, and nothing else.
///
/// # Errors
/// `policy_missing` without a Policy; otherwise as [`routes_to_verify`].
pub fn routes_of_genesis(next: &Projection) -> Result<Vec<Route>, Fault> {
    let installed = next.installed().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
    let policy = &installed.policy;
    if !policy.aw {
        return routes_to_verify(Admission::Bootstrap(&[]), policy);
    }
    let profile = |state: &WorkState| {
        let pool = policy.pools.get(&state.work.pool)?;
        pool.profiles.get(&state.work.worker_profile).map(|profile| Route::of(profile))
    };
    let mut routes = next.works().filter_map(profile).collect::<Result<Vec<_>, _>>()?;
    routes.sort();
    routes.dedup();
    Ok(routes)
}

fn profile_of<'a>(draft: &WorkDraft, policy: &'a Policy) -> Option<&'a WorkerProfile> {
    let pool = policy.pools.get(draft.pool.as_ref().ok()?)?;
    pool.profiles.get(draft.worker_profile.as_ref().ok()?).map(AsRef::as_ref)
}
