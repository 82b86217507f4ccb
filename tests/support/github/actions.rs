//! Workflows and runs: registration, dispatch, listing, attempts, cancel and rerun.

use std::sync::Arc;

use serde_json::{Value, json};

use super::render::put;
use super::repository::Workflow;
use super::rest::{Reply, Request, invalid};
use super::run::{Attempt, Run};
use super::world::{Edition, Entry, World};
use super::{Endpoint, workflow_file};

/// GitHub's bound on the text of all inputs together.
const INPUT_CHARACTERS: usize = 65_535;

impl World {
    pub(super) fn actions(&mut self, request: &Request, id: u64, account: Option<u64>) -> Result<Reply, Reply> {
        match request.endpoint {
            Endpoint::Workflow => {
                let workflow = self.find_workflow(id, request.parameter(2))?;
                Ok(Reply::ok(self.workflow(&self.repositories[&id], workflow)))
            }
            Endpoint::WorkflowRuns => self.list_runs(request, id),
            Endpoint::Dispatch => {
                let account = account.ok_or_else(|| Reply::error(401, "Requires authentication"))?;
                self.dispatch(request, id, account)
            }
            Endpoint::Run | Endpoint::Attempt => {
                let run = self.find_run(request, id)?;
                let attempt = match request.parameters.get(3) {
                    Some(text) => text.parse().map_err(|_| Reply::not_found())?,
                    None => run.attempts.len(),
                };
                if attempt == 0 || attempt > run.attempts.len() {
                    return Err(Reply::not_found());
                }
                Ok(Reply::ok(self.show(&run, attempt)))
            }
            Endpoint::Artifacts => {
                let run = self.find_run(request, id)?;
                Ok(self.list_artifacts(request, id, run.id))
            }
            Endpoint::ArtifactZip => self.artifact_address(request, id),
            Endpoint::Cancel => {
                let run = self.find_run(request, id)?;
                if run.completed() {
                    return Err(Reply::error(409, "Cannot cancel a workflow run that is completed."));
                }
                self.change_run(run.id, |run, _| run.cancel_requested = true);
                Ok(Reply { status: 202, body: Some(json!({})), headers: Vec::new() })
            }
            Endpoint::Rerun => {
                let account = account.ok_or_else(|| Reply::error(401, "Requires authentication"))?;
                let run = self.find_run(request, id)?;
                if !run.completed() {
                    return Err(Reply::error(403, "This workflow is already running"));
                }
                self.rerun(run.id, account);
                Ok(Reply { status: 201, body: Some(json!({})), headers: Vec::new() })
            }
            _ => Err(Reply::not_found()),
        }
    }

    fn find_workflow(&self, repository: u64, text: &str) -> Result<&Workflow, Reply> {
        let number: Option<u64> = text.parse().ok();
        let fits = |workflow: &&Workflow| match number {
            Some(id) => workflow.id == id,
            None => workflow.path.rsplit('/').next() == Some(text),
        };
        self.repositories[&repository].workflows.iter().find(fits).ok_or_else(Reply::not_found)
    }

    fn find_run(&self, request: &Request, repository: u64) -> Result<Arc<Run>, Reply> {
        let id: u64 = request.parameter(2).parse().map_err(|_| Reply::not_found())?;
        // Cancelling and rerunning act on what is, whatever a stale replica shows.
        let stale = if matches!(request.endpoint, Endpoint::Run | Endpoint::Attempt) { request.stale } else { 0 };
        self.run(id, stale).filter(|run| run.repository == repository).ok_or_else(Reply::not_found)
    }

    /// A run's JSON; a read counts towards the moment when the title is populated.
    fn show(&mut self, run: &Run, attempt: usize) -> Value {
        let record = self.runs.get_mut(&run.id).expect("it was found");
        let title = if record.untitled > 0 { run.name.clone() } else { run.title.clone() };
        record.untitled = record.untitled.saturating_sub(1);
        self.render_run(run, attempt, &title)
    }

    fn list_runs(&mut self, request: &Request, id: u64) -> Result<Reply, Reply> {
        let workflow = self.find_workflow(id, request.parameter(2))?.id;
        let number = |name: &str, default: usize| match request.query(name) {
            Some(text) => text.parse().unwrap_or(default),
            None => default,
        };
        let (per_page, page) = (number("per_page", 30).clamp(1, 100), number("page", 1).max(1));
        let fits = |run: &Run| {
            run.repository == id
                && run.workflow == workflow
                && request.query("event").is_none_or(|event| event == run.event)
                && request.query("head_sha").is_none_or(|sha| sha == run.head_sha)
                && request.query("branch").is_none_or(|branch| run.head_branch.as_deref() == Some(branch))
                && request.query("status").is_none_or(|status| {
                    status == run.latest().status || run.latest().conclusion.as_deref() == Some(status)
                })
        };
        // Newest first.
        let runs: Vec<_> =
            self.runs.keys().rev().filter_map(|id| self.run(*id, request.stale)).filter(|run| fits(run)).collect();
        let shown: Vec<_> = runs
            .iter()
            .skip((page - 1) * per_page)
            .take(per_page)
            .map(|run| self.show(run, run.attempts.len()))
            .collect();
        let listing = put(json!({"total_count": runs.len()}), [("workflow_runs", Value::Array(shown))]);
        let mut reply = Reply::ok(listing);
        if runs.len() > page * per_page {
            let next = format!("{}/repositories/{id}/actions/workflows/{workflow}/runs?page={}", self.api, page + 1);
            reply = reply.header("link", format!("<{next}>; rel=\"next\""));
        }
        Ok(reply)
    }

    fn dispatch(&mut self, request: &Request, id: u64, account: u64) -> Result<Reply, Reply> {
        let body = request.body.as_ref().unwrap_or(&Value::Null);
        let Some(wanted) = body["ref"].as_str() else {
            return Err(invalid("Invalid request.\n\n\"ref\" wasn't supplied."));
        };
        let workflow = self.find_workflow(id, request.parameter(2))?.clone();
        if workflow.state != "active" || !self.repositories[&id].actions_enabled {
            return Err(invalid("Cannot trigger a 'workflow_dispatch' on a disabled workflow"));
        }
        let repository = self.repositories.get_mut(&id).expect("it was admitted");
        let Some((name, sha)) = repository.find_ref(wanted) else {
            return Err(invalid("No ref found"));
        };
        let files = repository.files(&sha).ok_or_else(Reply::not_found)?;
        let Some(Entry::File(text)) = files.get(&workflow.path) else {
            return Err(invalid("Workflow file does not exist in this revision"));
        };
        let Some(declared) = workflow_file::inputs(&String::from_utf8_lossy(text)) else {
            return Err(invalid("Workflow does not have 'workflow_dispatch' trigger"));
        };
        let empty = serde_json::Map::new();
        let inputs = body["inputs"].as_object().unwrap_or(&empty);
        let unexpected = |name: &&String| !declared.iter().any(|input| input.name == **name);
        if inputs.keys().find(unexpected).is_some() {
            return Err(invalid("Unexpected inputs provided"));
        }
        if declared.iter().any(|input| input.required && !input.has_default && !inputs.contains_key(&input.name)) {
            return Err(invalid("Required input not provided"));
        }
        if inputs.values().any(|value| !value.is_string()) {
            return Err(invalid("Provided value is not a string"));
        }
        let length: usize = inputs.values().filter_map(Value::as_str).map(|text| text.chars().count()).sum();
        if length > INPUT_CHARACTERS {
            return Err(invalid("inputs are too large."));
        }
        let run = self.start(id, &workflow, &name, &sha, account, inputs);
        let details = body["return_run_details"] == json!(true) || request.version.as_str() >= "2026-03-10";
        if self.edition == Edition::Enterprise || !details {
            return Ok(Reply { status: 204, body: None, headers: Vec::new() });
        }
        let full_name = self.full_name(&self.repositories[&id]);
        Ok(Reply::ok(json!({
            "workflow_run_id": run,
            "run_url": format!("{}/repos/{full_name}/actions/runs/{run}", self.api),
            "html_url": format!("{}/{full_name}/actions/runs/{run}", self.web),
        })))
    }

    /// The run that a dispatch makes.
    fn start(
        &mut self,
        repository: u64,
        workflow: &Workflow,
        reference: &str,
        sha: &str,
        account: u64,
        inputs: &serde_json::Map<String, Value>,
    ) -> u64 {
        let assignment = inputs.get("work_queue_assignment").and_then(Value::as_str).map(str::to_owned);
        let dispatch_id = assignment.as_deref().and_then(dispatch_id);
        let title = match &dispatch_id {
            Some(dispatch) => format!("gh-aw work-queue {dispatch}"),
            None => workflow.name.clone(),
        };
        let run = Run {
            id: 0,
            repository,
            workflow: workflow.id,
            number: 0,
            event: "workflow_dispatch".to_owned(),
            head_sha: sha.to_owned(),
            head_branch: Some(short(reference).to_owned()),
            path: format!("{}@{reference}", workflow.path),
            actor: account,
            title,
            name: workflow.name.clone(),
            created_at: self.now(),
            attempts: Vec::new(),
            cancel_requested: false,
            assignment,
            dispatch_id,
        };
        self.enqueue(run)
    }

    /// Numbers a run, gives it its first attempt and adds it.
    pub(super) fn enqueue(&mut self, mut run: Run) -> u64 {
        let now = self.now();
        run.id = self.fresh(9_000_000_000);
        let repository = self.repositories.get_mut(&run.repository).expect("runs belong to repositories");
        let workflow = repository.workflows.iter_mut().find(|workflow| workflow.id == run.workflow);
        let workflow = workflow.expect("runs belong to workflows");
        workflow.runs += 1;
        run.number = workflow.runs;
        run.attempts.push(Attempt {
            triggering_actor: run.actor,
            status: "queued".to_owned(),
            conclusion: None,
            started_at: now,
            updated_at: now,
        });
        let id = run.id;
        self.insert_run(run);
        id
    }

    pub(super) fn rerun(&mut self, id: u64, by: u64) {
        self.change_run(id, |run, now| {
            run.cancel_requested = false;
            run.attempts.push(Attempt {
                triggering_actor: by,
                status: "queued".to_owned(),
                conclusion: None,
                started_at: now,
                updated_at: now,
            });
        });
    }
}

/// The dispatch id that an assignment names.
pub(super) fn dispatch_id(assignment: &str) -> Option<String> {
    let assignment: Value = serde_json::from_str(assignment).ok()?;
    assignment["dispatch_id"].as_str().map(str::to_owned)
}

/// A ref without `refs/heads/` or `refs/tags/`.
fn short(reference: &str) -> &str {
    reference.strip_prefix("refs/heads/").or_else(|| reference.strip_prefix("refs/tags/")).unwrap_or(reference)
}
