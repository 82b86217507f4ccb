//! Workflows and their runs: registration, the one launch POST, runs and their attempts (lifecycle.md 1.5, 2.2, 3.3).

use serde::Deserialize;

use super::client::{Client, segment};
use super::endpoint::{CANCEL_RUN, DISPATCH, RUN, RUN_ATTEMPT, WORKFLOW, WORKFLOW_RUNS};
use super::error::ForgeError;
use super::host::Host;
use super::port::{Request, Response};
use super::records::{Run, RunPage, Workflow};
use crate::protocol::{Decimal, RepositoryName, Revision};

/// Runs of one page of a listing.
pub(super) const RUNS_PER_PAGE: usize = 50;
/// Statuses that, beside a request id, prove that a POST launched nothing (lifecycle.md 1.7).
const REJECTIONS: [u16; 6] = [400, 401, 403, 404, 422, 429];

/// Which runs a listing asks for: those of `workflow_dispatch` at one revision.
#[derive(Clone, Copy, Debug)]
pub struct RunFilter<'a> {
    /// The revision.
    pub head_sha: &'a Revision,
    /// Page, from 1.
    pub page: usize,
}

/// How the one launch POST ended (lifecycle.md 1.5, 1.7). There is no second one, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Status 200 with the run's identity: the run id, and its page.
    Accepted {
        /// The run, not yet verified.
        run_id: Decimal,
        /// Its page.
        html_url: String,
    },
    /// Definitively refused: nothing was launched.
    Rejected {
        /// HTTP status.
        status: u16,
        /// The host's id of the request, the proof of its answer.
        request_id: String,
    },
    /// Anything else: a run may exist.
    Unknown {
        /// HTTP status, if there was an answer.
        status: Option<u16>,
    },
}

#[derive(Deserialize)]
struct Details {
    workflow_run_id: u64,
    run_url: String,
    html_url: String,
}

impl Client<'_> {
    /// The registration of a workflow, by the base name of its file; none where there is none.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn workflow(&self, repository: &RepositoryName, file: &str) -> Result<Option<Workflow>, ForgeError> {
        self.find(&WORKFLOW, format!("/repos/{repository}/actions/workflows/{}", segment(file)))
    }

    /// The newest attempt of a run.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn run(&self, repository: &RepositoryName, run_id: &Decimal) -> Result<Run, ForgeError> {
        self.read(&RUN, format!("/repos/{repository}/actions/runs/{}", run_id.as_str()))
    }

    /// One attempt of a run.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn run_attempt(&self, repository: &RepositoryName, run_id: &Decimal, attempt: i64) -> Result<Run, ForgeError> {
        let target = format!("/repos/{repository}/actions/runs/{}/attempts/{attempt}", run_id.as_str());
        self.read(&RUN_ATTEMPT, target)
    }

    /// One page of a workflow's runs, at most 50.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn runs(&self, repository: &RepositoryName, file: &str, filter: RunFilter<'_>) -> Result<Vec<Run>, ForgeError> {
        let target = format!(
            "/repos/{repository}/actions/workflows/{}/runs?event=workflow_dispatch&head_sha={}&per_page={RUNS_PER_PAGE}&page={}",
            segment(file),
            filter.head_sha.as_str(),
            filter.page
        );
        self.read::<RunPage>(&WORKFLOW_RUNS, target).map(|page| page.workflow_runs)
    }

    /// Sends the one dispatch POST of a launch: `reference` is a full tag name, `inputs` are strings. Never repeated,
    /// never in another form.
    #[must_use]
    pub fn dispatch(
        &self,
        repository: &RepositoryName,
        file: &str,
        reference: &str,
        inputs: &[(&str, &str)],
    ) -> Posted {
        let inputs: serde_json::Map<String, serde_json::Value> =
            inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let body = serde_json::json!({"ref": reference, "inputs": inputs}).to_string();
        let target = format!("/repos/{repository}/actions/workflows/{}/dispatches", segment(file));
        match self.send(&Request::new(&DISPATCH, target).with_body(body)) {
            Ok(response) => posted(&response, self.host(), repository),
            Err(_) => Posted::Unknown { status: None },
        }
    }

    /// Asks the host to cancel a run. It proves nothing (lifecycle.md 3.1).
    ///
    /// # Errors
    /// A [`ForgeError`]; `api_conflict` when the run has ended.
    pub fn cancel_run(&self, repository: &RepositoryName, run_id: &Decimal) -> Result<(), ForgeError> {
        let target = format!("/repos/{repository}/actions/runs/{}/cancel", run_id.as_str());
        let response = self.send(&Request::new(&CANCEL_RUN, target))?;
        if response.status == 202 { Ok(()) } else { Err(ForgeError::answered(&CANCEL_RUN, &response)) }
    }
}

/// What an answer to the POST proves.
fn posted(response: &Response, host: &Host, repository: &RepositoryName) -> Posted {
    let unknown = Posted::Unknown { status: Some(response.status) };
    match (response.status, &response.headers.request_id) {
        (200, _) => {
            let Ok(details) = serde_json::from_slice::<Details>(&response.body.0) else { return unknown };
            let Ok(run_id) = Decimal::new(details.workflow_run_id.to_string()) else { return unknown };
            let (api, page) = (
                host.run_url(repository.as_str(), run_id.as_str()),
                host.html_url(repository.as_str(), run_id.as_str()),
            );
            let named = details.run_url.eq_ignore_ascii_case(&api) && details.html_url.eq_ignore_ascii_case(&page);
            if named { Posted::Accepted { run_id, html_url: details.html_url } } else { unknown }
        }
        (status, Some(request_id)) if REJECTIONS.contains(&status) => {
            Posted::Rejected { status, request_id: request_id.clone() }
        }
        _ => unknown,
    }
}
