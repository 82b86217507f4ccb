//! `wq cancel-work`.

use super::administer::{Intent, Repeated, administer};
use super::cancellation::{cancellation, told};
use super::targets::{absent, distinct, reason};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::protocol::operation::{Operation, WorkCancellation};
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, Fault, Reason, WorkId};

/// Cancel Work for good, all of it or none. Completed Work stays.
///
/// A run that works on it goes on: its native reservation is kept until evidence releases it, and charged turns stay
/// charged.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Work to cancel, 1 to 256 different ids, repeated or separated by commas.
    #[arg(long, value_name = "ID", required = true, value_delimiter = ',')]
    work_id: Vec<String>,
    /// Why, a code of 1 to 128 of [A-Za-z0-9_.:-], such as operator_cancelled.
    #[arg(long, value_name = "CODE")]
    reason: String,
}

struct CancelWork {
    works: Vec<WorkId>,
    reason: Reason,
}

impl CancelWork {
    fn operations(&self) -> impl Iterator<Item = Operation> {
        self.works.iter().map(|work_id| {
            let (work_id, reason) = (work_id.clone(), self.reason.clone());
            Operation::WorkCancellation(WorkCancellation { work_id, claim_id: None, reason })
        })
    }
}

impl Intent for CancelWork {
    const KIND: RequestKind = RequestKind::CancelWork;

    fn resolve(&self, projection: &Projection) -> Result<Vec<Operation>, Failure> {
        for work_id in &self.works {
            if projection.work(work_id.as_str()).is_none() {
                return Err(absent(Code::WorkMissing, "Work", work_id.as_str()));
            }
        }
        Ok(self.operations().collect())
    }

    fn asked_for(&self, operations: &[Operation]) -> bool {
        self.operations().eq(operations.iter().cloned())
    }

    /// All of it cancelled before, in these words: nothing is left to write.
    fn check(&self, projection: &Projection, operations: &[Operation]) -> Result<Option<Repeated>, Fault> {
        let mut last = None;
        for cancellation in operations.iter().filter_map(cancellation) {
            match projection.cancelled_by(cancellation) {
                Some(commit_id) => last = Some(commit_id.clone()),
                None => return Ok(None),
            }
        }
        Ok(last.map(|commit_id| Repeated { reason: "already_cancelled", commit_id }))
    }
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let intent =
        CancelWork { works: distinct("--work-id", &args.work_id, WorkId::new)?, reason: reason(&args.reason)? };
    let administered = administer(global, &intent)?;
    Ok(told(global, &administered, &intent.reason))
}
