//! `wq cancel-claim`.

use super::administer::{Intent, Repeated, administer};
use super::cancellation::{cancellation, told};
use super::targets::{absent, distinct, reason};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::engine::state::ClaimStatus;
use crate::protocol::fault::ensure;
use crate::protocol::operation::{Operation, WorkCancellation};
use crate::protocol::request::RequestKind;
use crate::protocol::{ClaimId, Code, Fault, Reason};
use crate::report::label;

/// Revoke open Claims, all of them or none, and cancel their Work for good.
///
/// Only a Claim that still owns its Work is revoked: not a completed one, and never a newer attempt in its place. No
/// Work is retried and no run is stopped; native reservations are kept until evidence releases them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Claims to revoke, 1 to 256 different ids, repeated or separated by commas; each of another Work.
    #[arg(long, value_name = "ID", required = true, value_delimiter = ',')]
    claim_id: Vec<String>,
    /// Why, a code of 1 to 128 of [A-Za-z0-9_.:-], such as operator_cancelled.
    #[arg(long, value_name = "CODE")]
    reason: String,
}

struct CancelClaim {
    claims: Vec<ClaimId>,
    reason: Reason,
}

impl Intent for CancelClaim {
    const KIND: RequestKind = RequestKind::CancelWork;

    fn resolve(&self, projection: &Projection) -> Result<Vec<Operation>, Failure> {
        let mut cancellations = Vec::with_capacity(self.claims.len());
        for claim_id in &self.claims {
            let missing = || absent(Code::ClaimMissing, "Claim", claim_id.as_str());
            let claim = projection.claim(claim_id.as_str()).ok_or_else(missing)?;
            cancellations.push(WorkCancellation {
                work_id: claim.claim.work_id.clone(),
                claim_id: Some(claim_id.clone()),
                reason: self.reason.clone(),
            });
        }
        cancellations.sort_unstable_by(|one, other| one.work_id.cmp(&other.work_id));
        if cancellations.windows(2).any(|pair| pair[0].work_id == pair[1].work_id) {
            let next = "Name the Claim that owns the Work now; inspect shows it.";
            return Err(Failure::usage("two of the Claims are of one Work", next));
        }
        Ok(cancellations.into_iter().map(Operation::WorkCancellation).collect())
    }

    fn asked_for(&self, operations: &[Operation]) -> bool {
        let mut claims: Vec<&ClaimId> = Vec::with_capacity(operations.len());
        for operation in operations {
            match cancellation(operation) {
                Some(WorkCancellation { claim_id: Some(claim_id), reason, .. }) if *reason == self.reason => {
                    claims.push(claim_id);
                }
                _ => return false,
            }
        }
        claims.sort_unstable();
        claims.iter().copied().eq(&self.claims)
    }

    /// A Claim that was cancelled before is no current one, also where replay would take it for a repetition.
    fn check(&self, projection: &Projection, operations: &[Operation]) -> Result<Option<Repeated>, Fault> {
        for claim_id in operations.iter().filter_map(cancellation).filter_map(|one| one.claim_id.as_ref()) {
            let status = projection.claim(claim_id.as_str()).map(|claim| &claim.status);
            ensure!(
                matches!(status, Some(ClaimStatus::Open | ClaimStatus::Completed { .. })),
                ClaimScopeInvalid,
                format!("the Claim {} was cancelled before", label(claim_id.as_str()))
            );
        }
        Ok(None)
    }
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let claims = distinct("--claim-id", &args.claim_id, ClaimId::new)?;
    let intent = CancelClaim { claims, reason: reason(&args.reason)? };
    let administered = administer(global, &intent)?;
    Ok(told(global, &administered, &intent.reason))
}
