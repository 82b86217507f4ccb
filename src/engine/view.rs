//! Looking things up in a projection.

use std::sync::Arc;

use super::state::{
    Accepted, ClaimIx, ClaimState, DispatchIx, DispatchState, GraphState, Installed, Projection, Stats, WorkIx,
    WorkState,
};
use crate::protocol::{CommitId, Fault, Generation, Opaque, Repository};

impl Projection {
    /// Repository of the queue; none before the first commit.
    #[must_use]
    pub fn repository(&self) -> Option<&Repository> {
        self.repository.as_ref()
    }

    /// Id of the last commit.
    #[must_use]
    pub fn tip(&self) -> Option<&CommitId> {
        self.tip.as_ref()
    }

    /// The installed Policy and its epoch.
    #[must_use]
    pub fn installed(&self) -> Option<&Installed> {
        self.installed.as_deref()
    }

    /// The installed Policy, for code that runs after one is known to be installed.
    pub(crate) fn policy(&self) -> Result<Arc<Installed>, Fault> {
        self.installed.clone().ok_or_else(|| Fault::from(crate::protocol::Code::PolicyMissing))
    }

    /// As [`Projection::policy`], borrowed.
    pub(crate) fn rules(&self) -> Result<&Installed, Fault> {
        self.installed.as_deref().ok_or_else(|| Fault::from(crate::protocol::Code::PolicyMissing))
    }

    /// Every Work in FIFO order.
    pub fn works(&self) -> impl ExactSizeIterator<Item = &WorkState> {
        self.works.iter()
    }

    /// One Work.
    #[must_use]
    pub fn work(&self, id: &str) -> Option<&WorkState> {
        self.work_ids.get(id).map(|ix| self.work_at(*ix))
    }

    /// Every Claim in order of grants.
    pub fn claims(&self) -> impl ExactSizeIterator<Item = &ClaimState> {
        self.claims.iter()
    }

    /// One Claim.
    #[must_use]
    pub fn claim(&self, id: &str) -> Option<&ClaimState> {
        self.claim_ids.get(id).map(|ix| self.claim_at(*ix))
    }

    /// Every dispatch in order of grants.
    pub fn dispatches(&self) -> impl ExactSizeIterator<Item = &DispatchState> {
        self.dispatches.iter()
    }

    /// One dispatch.
    #[must_use]
    pub fn dispatch(&self, id: &str) -> Option<&DispatchState> {
        self.dispatch_ids.get(id).map(|ix| self.dispatch_at(*ix))
    }

    /// Every accepted commit in causal order.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = &Accepted> {
        self.requests.iter()
    }

    /// The canonical commits of the active chain, in causal order: what the ledger holds.
    pub fn active(&self) -> impl Iterator<Item = &Opaque> {
        self.requests[self.replaced as usize..].iter().filter_map(|accepted| accepted.source.commit())
    }

    /// Number of commits that the checkpoint at the root of the chain replaced; 0 without one.
    #[must_use]
    pub fn replaced(&self) -> usize {
        self.replaced as usize
    }

    /// Canonical text of the deployment registry.
    #[must_use]
    pub fn deployments(&self) -> String {
        let mut writer = crate::protocol::json::Writer::new();
        self.registry.write(&mut writer);
        writer.finish()
    }

    /// The accepted commit of a request id.
    #[must_use]
    pub fn request(&self, id: &str) -> Option<&Accepted> {
        self.request_ids.get(id).map(|ordinal| &self.requests[*ordinal as usize])
    }

    /// True if the chain holds a commit of this id.
    #[must_use]
    pub fn knows_commit(&self, id: &CommitId) -> bool {
        self.commit_ids.contains_key(id)
    }

    /// The Claims that an accepted commit granted, in order.
    #[must_use]
    pub fn granted(&self, accepted: &Accepted) -> &[ClaimState] {
        &self.claims[accepted.claims.0 as usize..accepted.claims.1 as usize]
    }

    /// The Work of a Claim.
    #[must_use]
    pub fn work_of(&self, claim: &ClaimState) -> &WorkState {
        self.work_at(claim.work)
    }

    /// The dispatch of a Claim.
    #[must_use]
    pub fn dispatch_of(&self, claim: &ClaimState) -> &DispatchState {
        self.dispatch_at(claim.dispatch)
    }

    /// The current or last owner of a Work.
    #[must_use]
    pub fn owner_of(&self, work: &WorkState) -> Option<&ClaimState> {
        work.owner().map(|ix| self.claim_at(ix))
    }

    /// True while new Work is refused.
    #[must_use]
    pub fn admission_paused(&self) -> bool {
        self.admission_paused
    }

    /// True while nothing is granted.
    #[must_use]
    pub fn grants_paused(&self) -> bool {
        self.grants_paused
    }

    /// Current credential generation.
    #[must_use]
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Canonical bytes of the ledger.
    #[must_use]
    pub fn ledger_bytes(&self) -> u64 {
        self.ledger_bytes
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            work: self.works.len() as u64,
            counts: self.counts,
            claims: self.claims.len() as u64,
            dispatches: u64::from(self.unreleased),
            transactions: self.requests.len() as u64,
            nodes: self.graphs.values().map(GraphState::vertices).sum(),
        }
    }

    pub(crate) fn work_at(&self, ix: WorkIx) -> &WorkState {
        &self.works[ix.0 as usize]
    }

    pub(crate) fn claim_at(&self, ix: ClaimIx) -> &ClaimState {
        &self.claims[ix.0 as usize]
    }

    pub(crate) fn dispatch_at(&self, ix: DispatchIx) -> &DispatchState {
        &self.dispatches[ix.0 as usize]
    }
}
