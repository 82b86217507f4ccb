//! What the delivery of a run is told as: outputs, summary, and what the step fails with.

use crate::delivery::finalise::Delivered;
use crate::delivery::partition::Rejected;
use crate::protocol::assignment::Member;
use crate::protocol::json::Writer;
use crate::protocol::{Code, Fault, Wire as _};
use crate::report::category::Category;
use crate::runner::output::Outputs;

use crate::jobs::error::JobError;

/// Most refused messages that the output lists.
const MAX_ERRORS: usize = 256;

/// One Claim.
#[derive(Clone, Debug)]
pub struct MemberReport {
    /// The Claim.
    pub member: Member,
    /// How its delivery stands.
    pub delivered: Delivered,
    /// True if its turn ended as it should.
    pub passed: bool,
    /// Messages that were attributed to it.
    pub accepted: usize,
    /// Messages of it that were not carried out because of how it stands.
    pub suppressed: usize,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// The Claims, in the order of the assignment.
    pub members: Vec<MemberReport>,
    /// Messages that were refused.
    pub rejected: Vec<Rejected>,
    /// True if the run has an assignment.
    pub assigned: bool,
}

impl Delivery {
    /// A run without an assignment.
    pub(super) fn unassigned(rejected: Vec<Rejected>) -> Self {
        Self { members: Vec::new(), rejected, assigned: false }
    }

    /// The word of `work_queue_outcome`.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        let state = |member: &MemberReport| member.delivered.state;
        let any = |word: &str| self.members.iter().any(|member| state(member) == word);
        let open = |member: &MemberReport| {
            member.delivered.fault.as_ref().is_some_and(|fault| fault.code() == Code::ClaimNotAuthorized)
        };
        if !self.assigned {
            "unassigned"
        } else if any("staged_preview") {
            "staged_preview"
        } else if self.members.iter().any(open) {
            "blocked"
        } else if any("pending") {
            "delivery_pending"
        } else if any("delivery_failed") {
            "delivery_failed"
        } else if !any("cancelled") {
            "completed"
        } else if any("result") {
            "completed_with_cancellations"
        } else {
            "cancelled"
        }
    }

    /// What the step fails with, if it does.
    pub(super) fn failure(&self) -> Option<JobError> {
        if let Some(rejected) = self.rejected.first() {
            let count = self.rejected.len();
            let message = format!("{count} messages were refused; valid siblings were settled");
            return Some(JobError::new(rejected.fault.code(), message));
        }
        let failed = self.members.iter().find(|member| !member.passed)?;
        let code = failed.delivered.fault.as_ref().map_or(Code::DeliveryVerifierRequired, Fault::code);
        Some(JobError::new(code, "a Claim's delivery is not settled; valid siblings were settled"))
    }

    /// Outputs and summary.
    ///
    /// # Errors
    /// As [`Outputs::set_all`].
    pub(super) fn publish(&self, outputs: &mut dyn Outputs) -> Result<(), JobError> {
        let (results, errors) = (self.results(), self.errors());
        outputs.set_all(&[
            ("work_queue_outcome", self.outcome()),
            ("claim_results", &results),
            ("claim_scope_errors", &errors),
        ])?;
        if outputs.summary(&self.markdown()).is_err() {
            outputs.warning("Work queue", "The step summary could not be written. The queue is not affected.");
        }
        Ok(())
    }

    fn results(&self) -> String {
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("claims", |w| {
                w.object(|members| {
                    for report in &self.members {
                        members.text(report.member.handle.text(), |w| report.write(w));
                    }
                });
            });
            members.name("outcome", |w| w.string(self.outcome()));
            members.name("version", |w| w.integer(3));
        });
        writer.finish()
    }

    /// The refused messages: place, type, Claim and code, never their content.
    fn errors(&self) -> String {
        let mut writer = Writer::new();
        writer.array(self.rejected.iter().take(MAX_ERRORS), |w, rejected| {
            w.object(|members| {
                members.name("claim_handle", |w| match &rejected.handle {
                    Some(handle) => handle.write(w),
                    None => w.raw("null"),
                });
                members.name("code", |w| w.string(rejected.fault.code().as_str()));
                members.name("index", |w| match rejected.index {
                    Some(index) => w.integer(index as i64),
                    None => w.raw("null"),
                });
                members.name("message", |w| w.string(rejected.fault.message()));
                members.name("type", |w| match &rejected.output {
                    Some(output) => w.string(output),
                    None => w.raw("null"),
                });
            });
        });
        writer.finish()
    }

    fn markdown(&self) -> String {
        let count = |word: &str| self.members.iter().filter(|member| member.delivered.state == word).count();
        let suppressed: usize = self.members.iter().map(|member| member.suppressed).sum();
        let mut text = format!(
            "### Work queue delivery\n\n**Outcome:** {}\n\n- Results: {}\n- Cancelled Claims: {}\n- Pending deliveries: \
             {}\n- Failed deliveries: {}\n- Suppressed messages: {suppressed}\n- Refused messages: {}\n",
            self.outcome(),
            count("result"),
            count("cancelled"),
            count("pending"),
            count("delivery_failed"),
            self.rejected.len()
        );
        let mut told: Vec<(&str, &str)> = Vec::new();
        for delivered in self.members.iter().map(|member| &member.delivered) {
            if let (Some(reason), Some(fault)) = (delivered.reason, &delivered.fault)
                && !told.contains(&(reason, fault.code().as_str()))
            {
                told.push((reason, fault.code().as_str()));
                let category = Category::of(fault.code());
                text.push_str(&format!(
                    "\n**{reason}** ({}) {} {}\n",
                    fault.code(),
                    category.explanation,
                    category.action
                ));
            }
        }
        text
    }
}

impl MemberReport {
    fn write(&self, writer: &mut Writer) {
        let Delivered { state, reason, fault, .. } = &self.delivered;
        writer.object(|members| {
            members.name("accepted", |w| w.integer(self.accepted as i64));
            members.name("claim_handle", |w| self.member.handle.write(w));
            members.name("claim_id", |w| self.member.claim_id.write(w));
            if let Some(fault) = fault {
                members.name("code", |w| w.string(fault.code().as_str()));
                members.name("explanation", |w| w.string(fault.message()));
            }
            if let Some(reason) = reason {
                members.name("reason", |w| w.string(reason));
            }
            members.name("state", |w| w.string(state));
            members.name("success", |w| w.bool(self.passed));
            members.name("suppressed", |w| w.integer(self.suppressed as i64));
            members.name("work_id", |w| self.member.work_id.write(w));
        });
    }
}
