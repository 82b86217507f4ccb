//! Simulated runs between two rounds, so that capacity comes back and grants keep flowing. Published through the
//! library in the roles of dispatcher, worker and reconciler.

use serde_json::{Value, json};
use wq_action::engine::Projection;
use wq_action::engine::state::{ClaimState, ClaimStatus, DispatchState};
use wq_action::ledger::commit_object::Author;
use wq_action::ledger::{Branch, GitTransport, Publisher, Retries, Setup};
use wq_action::ports::{Clock as _, SystemClock, SystemEntropy};
use wq_action::protocol::RepositoryName;
use wq_action::protocol::request::RequestKind;

use super::asks::MOST_ATTEMPTS;
use super::stage::Stage;
use crate::support::built::{DISPATCHER, Grant, RECONCILER, frozen};
use crate::support::ledger::HOST;

/// Reservations that stay open after a settlement.
const KEPT: usize = 12;
/// Dispatches that are run to their end in each settlement.
const RUN: usize = 1;

/// Publishes what the outside world would.
pub(super) struct Settler<'a> {
    publisher: Publisher<'a>,
    /// Requests published so far.
    pub(super) requests: usize,
}

impl<'a> Settler<'a> {
    pub(super) fn new(transport: &'a GitTransport) -> Self {
        let setup = Setup {
            transport,
            branch: Branch::default(),
            repository: RepositoryName::new("owner/repo").unwrap(),
            host: HOST.to_owned(),
            author: Author::Operator,
            clock: &SystemClock,
            entropy: &SystemEntropy,
            retries: Retries::default(),
            confirm_empty: None,
        };
        Self { publisher: Publisher::new(setup).unwrap(), requests: 0 }
    }

    pub(super) fn transport(stage: &Stage) -> GitTransport {
        stage.bare.transport()
    }

    /// Runs the oldest dispatches to their end, and takes back those beyond what may stay open: they never started.
    pub(super) fn settle(&mut self) {
        let projection = self.read();
        let open: Vec<&DispatchState> = projection.dispatches().filter(|dispatch| !dispatch.released).collect();
        let (run, rest) = open.split_at(RUN.min(open.len()));
        let back = &rest[..rest.len().saturating_sub(KEPT)];
        if !run.is_empty() {
            self.run(&projection, run);
        }
        if !back.is_empty() {
            self.take_back(&projection, back);
        }
    }

    fn read(&mut self) -> Projection {
        self.publisher.read_present().unwrap().projection.clone()
    }

    fn publish(&mut self, kind: RequestKind, actor: &str, parameters: &Value) {
        self.requests += 1;
        let request = frozen(&format!("settle-{}", self.requests), kind, actor, parameters);
        let publication = self.publisher.publish_request(&request, None).unwrap_or_else(|error| panic!("{error}"));
        assert!(publication.outcome.commit_id().is_some(), "{:?}", publication.outcome);
    }

    fn operate(&mut self, kind: RequestKind, actor: &str, operations: &[Value]) {
        self.publish(kind, actor, &json!({"operations": operations}));
    }

    fn run(&mut self, projection: &Projection, dispatches: &[&DispatchState]) {
        let sender: Value = serde_json::from_str(DISPATCHER).unwrap();
        let started = dispatches.iter().map(|dispatch| {
            json!({"kind": "Dispatch", "dispatch_id": dispatch.assignment.dispatch_id.as_str(), "state": "started",
                "sender": sender, "credential_principal": "1001"})
        });
        self.operate(RequestKind::Dispatch, DISPATCHER, &started.collect::<Vec<_>>());
        let mut completed: Vec<Grant> = Vec::new();
        let mut releases = Vec::new();
        for (number, dispatch) in dispatches.iter().enumerate() {
            let grants: Vec<Grant> = members(projection, dispatch).map(grant).collect();
            let evidence = grants[0].evidence("reconciliation", "trusted_activation", now(), &json!({}));
            let bound = json!({"kind": "Dispatch", "dispatch_id": grants[0].dispatch, "state": "bound",
                "run": grants[0].binding(), "evidence": evidence});
            self.operate(RequestKind::Dispatch, &grants[0].worker(), &[bound]);
            for (index, grant) in grants.iter().enumerate() {
                // The second member of the first dispatch goes back to the queue, as a worker may decide.
                let outcome = if (number, index) == (0, 1) { "cancelled" } else { "completed" };
                let parameters =
                    json!({"dispatch_id": grant.dispatch, "claim_handle": grant.handle, "outcome": outcome});
                self.publish(RequestKind::Finish, &grant.worker(), &parameters);
                completed.extend((outcome == "completed").then(|| grant.clone()));
            }
            let evidence = grants[0].evidence("terminal_run", "github_api", now(), &json!({}));
            releases.push(json!({"kind": "Release", "dispatch_id": grants[0].dispatch, "evidence": evidence}));
        }
        let after = self.read();
        let results = completed.iter().map(|grant| {
            let ClaimStatus::Completed { commit_id, .. } = &after.claim(&grant.claim).unwrap().status else {
                panic!("the Claim was completed")
            };
            let evidence = grant.evidence("delivery", "verified_receipts", now(), &json!({"receipt": "receipt"}));
            json!({"kind": "Result", "work_id": grant.work, "claim_id": grant.claim,
                "completion_id": commit_id.as_str(), "descriptor": {"done": true}, "evidence": evidence})
        });
        self.operate(RequestKind::Result, RECONCILER, &results.collect::<Vec<_>>());
        self.operate(RequestKind::Release, RECONCILER, &releases);
    }

    fn take_back(&mut self, projection: &Projection, dispatches: &[&DispatchState]) {
        let mut operations = Vec::new();
        for dispatch in dispatches {
            let grants: Vec<Grant> = members(projection, dispatch).map(grant).collect();
            let checked = now();
            for grant in &grants {
                operations.push(json!({"kind": "ClaimCancellation", "work_id": grant.work, "claim_id": grant.claim,
                    "reason": "never_started", "retry_not_before": checked + 1}));
                if projection.work(&grant.work).unwrap().attempts >= MOST_ATTEMPTS {
                    operations.push(json!({"kind": "WorkCancellation", "work_id": grant.work,
                        "reason": "attempts_exhausted"}));
                }
            }
            let evidence = grants[0].evidence("prelaunch", "trusted_publisher", checked, &json!({}));
            operations.push(json!({"kind": "Release", "dispatch_id": grants[0].dispatch, "evidence": evidence}));
        }
        self.operate(RequestKind::Release, RECONCILER, &operations);
    }
}

fn now() -> i64 {
    SystemClock.now().get()
}

fn members<'p>(projection: &'p Projection, dispatch: &'p DispatchState) -> impl Iterator<Item = &'p ClaimState> {
    dispatch.assignment.claims.iter().map(|member| projection.claim(member.claim_id.as_str()).unwrap())
}

fn grant(claim: &ClaimState) -> Grant {
    Grant {
        node: String::new(),
        work: claim.claim.work_id.as_str().to_owned(),
        claim: claim.claim.claim_id.as_str().to_owned(),
        dispatch: claim.claim.dispatch_id.as_str().to_owned(),
        handle: claim.claim.handle.as_str().to_owned(),
    }
}
