//! Control and WorkPriority.

use crate::engine::mutation::mutated;
use crate::engine::state::{Ownership, Projection};
use crate::protocol::fault::ensure;
use crate::protocol::operation::{Control, Switch, WorkPriority};
use crate::protocol::{Code, Fault, Wire as _};

impl Projection {
    pub(super) fn apply_control(&mut self, control: Control) -> Result<(), Fault> {
        let installed = self.rules()?;
        let size = control.canonical().len() as u64;
        if let Switch::CredentialGeneration(generation) = &control.switch {
            ensure!(
                *generation == self.generation || !self.seen_generations.contains(generation),
                CredentialGenerationReused,
                "the credential generation was replaced before"
            );
        }
        ensure!(size <= installed.policy.limits.evidence_bytes, ResourceLimit, "the control exceeds its limit");
        match control.switch {
            Switch::AdmissionPaused(paused) => self.admission_paused = paused,
            Switch::GrantsPaused(paused) => {
                self.grants_paused = paused;
                if mutated!(PauseResetsDebt) {
                    self.pools.iter_mut().for_each(|pool| pool.clocks = None);
                }
            }
            Switch::CredentialGeneration(generation) => {
                self.seen_generations.insert(generation.clone());
                self.generation = generation;
            }
        }
        Ok(())
    }

    pub(super) fn apply_priority(&mut self, change: &WorkPriority) -> Result<(), Fault> {
        let ix = self.work_ids.get(&change.work_id).copied().ok_or_else(|| Fault::from(Code::WorkMissing))?;
        let state = self.work_at(ix);
        ensure!(
            matches!(state.ownership, Ownership::Available) || mutated!(PriorityOfClaimedWork),
            OwnershipTerminal,
            format!("only available Work can be reprioritized, and {} is {}", change.work_id, state.state())
        );
        ensure!(
            state.scheduling_priority() == change.expected_priority || mutated!(PriorityUnseen),
            PriorityConflict,
            format!("the expected priority of {} is not the current one", change.work_id)
        );
        if mutated!(PriorityResetsDebt) {
            self.pools.iter_mut().for_each(|pool| pool.clocks = None);
        }
        self.change_work(ix, |state| state.effective_priority = Some(change.priority));
        Ok(())
    }
}
