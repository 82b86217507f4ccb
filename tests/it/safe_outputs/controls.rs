//! Phase controls of a dispatcher: jobs.md 12 number 12, and the shapes of jobs.md 5.3.

use serde_json::{Value, json};
use wq_action::jobs::JobError;
use wq_action::jobs::activation;
use wq_action::jobs::safe_outputs::{Phase, run};
use wq_action::protocol::Code;

use super::{NO_WRITES, Ports, control_config, dispatch_next, operations, output, phase, submit};
use crate::support::github::{Endpoint, Faults, JOB, LAUNCH, Strike};
use crate::support::jobs::Job;
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::{Shift, Stage};

/// A dispatcher's run, activated, with its safe_outputs job.
fn dispatcher(stage: &Stage) -> (Shift, Job<'_>) {
    let shift = stage.shift();
    let mut job = Job::new(stage, shift.run, "dispatcher");
    job.perform(activation::run).unwrap();
    let mut next = job.next();
    next.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    (shift, next)
}

fn stage_lines(job: &Job<'_>, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(job.folder().join("work-queue.intents.jsonl"), text).unwrap();
}

fn controls(stage: &Stage, job: &mut Job<'_>, lines: &[Value]) -> Result<(), JobError> {
    stage_lines(job, lines);
    phase(stage, job, Phase::Controls)
}

fn receipts(job: &Job<'_>) -> Vec<Value> {
    output(job, "work_queue_requests")["receipts"].as_array().unwrap().clone()
}

/// S-508, S-509, S-516, S-518, S-544, S-545, S-559, S-560, S-561, S-562, S-575, S-576, O-021, O-217, O-218, O-219: a plan and a grant in one
/// batch: the first submission makes the queue, the grant is the scheduler's, and each receipt keeps apart what was asked,
/// granted, launched and finished, with the tip, the head and the time at which it was seen.
#[test]
fn a_plan_and_a_grant_have_full_receipts() {
    let stage = Stage::new();
    let (shift, mut job) = dispatcher(&stage);
    controls(&stage, &mut job, &[submit("i1", None, "a"), submit("i2", None, "b"), dispatch_next("i3", 3)]).unwrap();
    let document = output(&job, "work_queue_requests");
    assert_eq!((&document["status"], &document["success"]), (&json!("ok"), &json!(true)));
    assert_eq!(job.outputs.output("work_queue_controls_status"), Some("ok"));
    assert_eq!(document["remaining_dispatches"], 2);
    let summary =
        json!({"blocked_intents": 0, "durable_requests": 3, "rejected_launches": 0, "unresolved_launches": 0});
    assert_eq!(document["summary"], summary);
    let receipts = receipts(&job);
    assert_eq!(receipts[0]["status"], "durable");
    assert!(receipts[0]["request_id"].as_str().unwrap().starts_with("request:") && receipts[0]["control"].is_null());
    let grant = &receipts[2];
    assert_eq!(
        (&grant["status"], &grant["reason"], &grant["dispatches"]),
        (&json!("durable"), &json!("partial_batch"), &json!(2))
    );
    let launch = &grant["launches"][0];
    assert_eq!(
        (&launch["state"], &launch["dispatched"], &launch["released"]),
        (&json!("bound"), &json!(true), &json!(false))
    );
    let full = &grant["receipt"];
    let queue = stage.queue();
    assert_eq!(full["observed_tip"], queue.projection.tip().unwrap().as_str());
    assert_eq!(full["source_commit"], queue.commit.to_string());
    assert_eq!(full["commit_id"], grant["commit_id"]);
    assert_eq!((&full["requested_claims"], &full["granted_claims"]), (&json!(3), &json!(2)));
    assert_eq!((&full["requested_dispatches"], &full["reserved_dispatches"]), (&json!(3), &json!(2)));
    assert_eq!((&full["grant_status"], &full["status"]), (&json!("partial_batch"), &json!("partial_batch")));
    assert_eq!(full["limiting_reason"], "no_work");
    let counts = json!({"bound_dispatches": 2, "completed_claims": 0, "granted_claims": 2, "released_dispatches": 0, "requested_claims": 3});
    assert_eq!(full["counts"], counts);
    assert!(full["evaluated_at"].is_i64() && full["policy_epoch"].is_string());
    let claim = &full["claims"][0];
    assert_eq!((&claim["finish"], &claim["effects"]), (&json!("open"), &json!("none")));
    assert_eq!(claim["commit_ref"], grant["commit_id"]);
    assert_eq!(full["dispatches"][0]["run_id"], launch["run_id"]);
    // The same document is a file.
    let file = std::fs::read_to_string(job.folder().join("work-queue.receipts.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&file).unwrap(), document);
    // Repeated, it is the same requests, no charge, and no second launch.
    let text = stage.text();
    let mut again = job.next();
    again.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    phase(&stage, &mut again, Phase::Controls).unwrap();
    assert_eq!(stage.text(), text);
    let repeated = self::receipts(&again);
    assert_eq!(repeated[2]["request_id"], grant["request_id"]);
    assert_eq!((&repeated[2]["recovered"], &repeated[2]["reason"]), (&json!(true), &json!("request_replayed")));
    assert!(stage.github.posts().iter().all(|(_, posts)| *posts == 1));
    let _ = shift;
}

/// O-029, decisions 20 and 43: the first submission of a staged plan installs, beside its Work and in one commit, the
/// scheduling of `aw.json` and the approved worker routes of the default branch.
#[test]
fn a_staged_plan_makes_the_queue_from_the_repository() {
    let stage = Stage::new();
    let settings = r#"{"work_queue":{"concurrency":7,"retry":{"max_attempts":2}}}"#;
    stage.github.commit("octo/widgets", "main", &[(".github/workflows/aw.json", Some(settings))]);
    let head = stage.github.head("octo/widgets", "main").unwrap();
    let (_, mut job) = dispatcher_at_head(&stage);
    controls(&stage, &mut job, &[submit("i1", None, "a")]).unwrap();
    let queue = stage.queue();
    assert_eq!(queue.projection.requests().len(), 1);
    let first: Value = serde_json::from_str(stage.text().lines().next().unwrap()).unwrap();
    let kinds: Vec<_> =
        first["operations"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Policy", "Work"]);
    let pool = &first["operations"][0]["policy"]["pools"]["default"];
    assert_eq!((&pool["logical_limit"], &pool["retry"]["max_attempts"]), (&json!(7), &json!(2)));
    let profile = &pool["profiles"]["worker"];
    assert_eq!((&profile["ref"], &profile["workflow"]), (&json!(head), &json!(".github/workflows/worker.lock.yml")));
}

fn dispatcher_at_head(stage: &Stage) -> (Shift, Job<'_>) {
    dispatcher(stage)
}

/// jobs.md 12.12. S-508: an id with two meanings is processed in neither, an exact repetition is one intent, a submission
/// that fails stops no later grant, and a line's error names its line.
#[test]
fn jobs_12_poisoned_ids_duplicates_and_failing_siblings() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    let bad_pool = json!({"version": 3, "intent_id": "bad", "kind": "submit",
        "parameters": {"nodes": [{"payload": {"a": 1}, "pool": "nowhere"}]}});
    let lines = [
        submit("poison", None, "a"),
        submit("poison", None, "b"),
        submit("twice", None, "c"),
        submit("twice", None, "c"),
        bad_pool,
        json!({"version": 2, "intent_id": "old", "kind": "submit", "parameters": {}}),
        json!({"version": 3, "intent_id": "fin", "kind": "finish", "parameters": {"outcome": "completed"}}),
        submit("handled", Some("h1"), "d"),
        dispatch_next("grant", 1),
    ];
    let error = controls(&stage, &mut job, &lines).unwrap_err();
    assert_eq!(error.code(), Code::WorkQueueIntentConflict);
    let receipts = receipts(&job);
    let told: Vec<(Option<i64>, String, String, String)> = receipts
        .iter()
        .map(|receipt| {
            let text = |name: &str| receipt[name].as_str().unwrap_or_default().to_owned();
            (receipt["line"].as_i64(), text("intent_id"), text("status"), text("code"))
        })
        .collect();
    let row = |line: Option<i64>, id: &str, status: &str, code: &str| {
        (line, id.to_owned(), status.to_owned(), code.to_owned())
    };
    assert_eq!(
        told,
        [
            row(Some(1), "poison", "blocked", "work_queue_intent_conflict"),
            row(Some(2), "poison", "blocked", "work_queue_intent_conflict"),
            row(Some(6), "old", "blocked", "work_queue_intent_invalid"),
            row(None, "twice", "durable", ""),
            row(None, "bad", "blocked", "policy_invalid"),
            row(None, "fin", "blocked", "work_queue_control_intent_invalid"),
            row(None, "handled", "blocked", "work_queue_claim_scope_invalid"),
            row(None, "grant", "durable", ""),
        ]
    );
    assert_eq!(job.outputs.output("work_queue_controls_status"), Some("recovery_required"));
    assert_eq!(operations(&stage, "Claim").len(), 1);
    let admitted = operations(&stage, "Work");
    assert_eq!(admitted.iter().filter(|work| work["node_key"] == "c").count(), 1);
}

/// jobs.md 12.12. S-131, S-515, O-218: a request above what the run has left is refused and not cut down; what the ledger says
/// was granted to this run counts, also after a crash, and under whatever request.
#[test]
fn jobs_12_the_run_budget_is_counted_from_the_ledger() {
    let stage = Stage::with_works(4);
    let (_, mut job) = dispatcher(&stage);
    job.set("GH_AW_WORK_QUEUE_DISPATCH_BUDGET", "2");
    controls(&stage, &mut job, &[dispatch_next("g1", 3), dispatch_next("g2", 1)]).unwrap_err();
    let told = receipts(&job);
    assert_eq!(told[0]["reason"], "dispatch_budget_exceeded");
    assert_eq!(told[1]["status"], "durable");
    // Another process of the same run: one is left.
    let mut job = job.next();
    controls(&stage, &mut job, &[dispatch_next("g3", 2), dispatch_next("g4", 1), dispatch_next("g5", 1)]).unwrap_err();
    let states: Vec<_> = receipts(&job).iter().map(|receipt| receipt["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(states, ["blocked", "durable", "blocked"]);
    assert_eq!(operations(&stage, "Claim").len(), 2);
}

/// jobs.md 12.12. O-204, O-208, O-209, O-210: a launch that fails behind a grant takes no identity
/// away: the receipt keeps request, commit and each reservation with its blocked status, and says category, explanation and
/// action as summary and annotation do. No error text of the host is in any of them.
#[test]
fn jobs_12_a_failure_behind_a_grant_keeps_its_identities() {
    let stage = Stage::with_works(2);
    let (_, mut job) = dispatcher(&stage);
    // The App that the configuration names is not the token's account.
    let config = control_config().replace("queue-launcher", "other-app");
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &config);
    let error = controls(&stage, &mut job, &[dispatch_next("g1", 2)]).unwrap_err();
    let told = &receipts(&job)[0];
    assert_eq!((&told["status"], &told["reason"]), (&json!("blocked"), &json!("credential_invalid")));
    let accepted = stage.queue();
    let accepted = accepted.projection.request(told["request_id"].as_str().unwrap()).unwrap();
    assert_eq!(told["commit_id"], accepted.commit_id.as_str());
    assert_eq!(told["launches"].as_array().unwrap().len(), 2);
    for launch in told["launches"].as_array().unwrap() {
        assert_eq!(
            (&launch["state"], &launch["released"], &launch["dispatched"]),
            (&json!("launch_blocked"), &json!(false), &json!(false))
        );
        assert_eq!(launch["reason"], "credential_invalid");
    }
    let category = error.category();
    assert_eq!((&told["explanation"], &told["action"]), (&json!(category.explanation), &json!(category.action)));
    let summary = job.outputs.summaries.concat();
    assert!(summary.contains(category.explanation) && summary.contains(category.action));
    assert!(stage.github.posts().is_empty());
    // The configuration is corrected, and the same request goes on where it stood.
    let mut job = job.next();
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    phase(&stage, &mut job, Phase::Controls).unwrap();
    assert_eq!(receipts(&job)[0]["commit_id"], told["commit_id"]);
    assert!(receipts(&job)[0]["launches"].as_array().unwrap().iter().all(|launch| launch["state"] == "bound"));
}

/// O-093, O-210, S-557, S-562: a launch that the host refused fails the job, is never counted as execution, and one whose
/// outcome is not known stays unknown: `launch_uncertain` stands before `partial_batch`.
#[test]
fn refused_and_unknown_launches_fail_the_job() {
    for (strike, state, status, code) in [
        (Strike::Status(422), "released", "launch_rejected", Code::LaunchRejected),
        (Strike::DropAfter, "launch_unresolved", "launch_uncertain", Code::LaunchUnresolved),
    ] {
        let stage = Stage::with_works(1);
        let (_, mut job) = dispatcher(&stage);
        stage.github.faults(Faults::default().and(Endpoint::Dispatch, 1, 1, strike));
        let error = controls(&stage, &mut job, &[dispatch_next("g1", 2)]).unwrap_err();
        assert_eq!(error.code(), code);
        let told = &receipts(&job)[0];
        assert_eq!((&told["success"], &told["launches"][0]["state"]), (&json!(false), &json!(state)));
        assert_eq!(
            (&told["receipt"]["status"], &told["receipt"]["grant_status"]),
            (&json!(status), &json!("partial_batch"))
        );
        assert_eq!(job.outputs.output("work_queue_controls_status"), Some("recovery_required"));
        let summary = job.outputs.summaries.concat();
        assert_eq!(summary.contains("nothing was executed"), state == "released");
        assert_eq!(told["launches"][0]["run_id"], Value::Null);
    }
}

/// jobs.md 12.12, S-290, S-509, S-523: a preview and a batch that only submits never take the launch credential up, not even a
/// defective one; a preview checks, and writes nothing.
#[test]
fn jobs_12_previews_and_plans_touch_no_launch_credential() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    let defective = control_config().replace("github_app", "nonsense");
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &defective);
    stage_lines(&job, &[submit("i1", None, "a")]);
    let ports = Ports::new(&stage, &job.probe);
    job.perform(|world| run(world, &ports, &[Phase::Controls])).unwrap();
    assert!(ports.taken.borrow().is_empty());
    let text = stage.text();
    let mut job = job.next();
    job.staged();
    stage_lines(&job, &[submit("i2", None, "b"), dispatch_next("g1", 1), dispatch_next("g2", 99)]);
    let ports = Ports::new(&stage, &job.probe);
    job.perform(|world| run(world, &ports, &[Phase::Controls])).unwrap_err();
    assert!(ports.taken.borrow().is_empty());
    assert_eq!(stage.text(), text);
    let states: Vec<_> = receipts(&job).iter().map(|receipt| receipt["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(states, ["staged_preview", "staged_preview", "blocked"]);
    // A real grant with it is refused before anything is committed.
    let mut job = job.next();
    job.unset("GH_AW_SAFE_OUTPUTS_STAGED");
    let error = controls(&stage, &mut job, &[dispatch_next("g1", 1)]).unwrap_err();
    assert_eq!(error.code(), Code::WorkQueueDispatchCredentialKindInvalid);
    assert_eq!(stage.text(), text);
}

/// S-137, S-557, S-558, S-450: what cannot be granted has its own reason and is a success; a queue that is not there is
/// an error and no empty result.
#[test]
fn no_grant_is_told_by_its_reason() {
    let stage = Stage::new();
    let (_, mut job) = dispatcher(&stage);
    assert_eq!(controls(&stage, &mut job, &[dispatch_next("g1", 1)]).unwrap_err().code(), Code::QueueMissing);
    assert_eq!(receipts(&job)[0]["reason"], "policy_missing");
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    controls(&stage, &mut job, &[dispatch_next("g1", 1), dispatch_next("g2", 1)]).unwrap();
    let told = &receipts(&job)[1];
    assert_eq!(
        (&told["status"], &told["reason"], &told["success"]),
        (&json!("no_grant"), &json!("no_work"), &json!(true))
    );
    assert_eq!((&told["dispatches"], &told["launches"]), (&json!(0), &json!([])));
    let full = &told["receipt"];
    assert_eq!((&full["grant_status"], &full["commit_id"]), (&json!("no_work"), &Value::Null));
    assert_eq!(full["observed_tip"], stage.queue().projection.tip().unwrap().as_str());
}

/// S-450: a gate that cannot be read holds its own Work back alone; the receipt of what cannot be granted says so.
#[test]
fn an_unreadable_gate_is_no_empty_queue() {
    let stage = Stage::new();
    let shift = stage.shift();
    let submission = stage.gated_submission("gated");
    stage.process(&shift).submit(&submission).unwrap();
    let (_, mut job) = dispatcher(&stage);
    stage.github.faults(Faults::default().and(Endpoint::Issue, 1, 99, Strike::Status(503)));
    controls(&stage, &mut job, &[dispatch_next("g1", 1), dispatch_next("g2", 1)]).unwrap();
    let told = receipts(&job);
    assert_eq!(told[0]["status"], "durable");
    assert_eq!((&told[1]["status"], &told[1]["reason"]), (&json!("no_grant"), &json!("external_unavailable")));
}

/// S-546, S-577: an attempt that lost its race is kept apart from the accepted decision, with its number and the head that it
/// saw.
#[test]
fn lost_races_are_told_apart() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    stage_lines(&job, &[dispatch_next("g1", 1)]);
    let twin = Stage::with_works(1);
    let (_, mut other) = dispatcher(&twin);
    other.probe = Probe::default();
    stage_lines(&other, &[dispatch_next("g1", 1)]);
    phase(&twin, &mut other, Phase::Controls).unwrap();
    let push = other.probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    let conflict = wq_action::ledger::simulated::Trouble::FalseConflict;
    job.probe = Probe::striking(push, Fault::Ledger(conflict), false);
    phase(&stage, &mut job, Phase::Controls).unwrap();
    let attempts = &receipts(&job)[0]["receipt"]["attempts"];
    assert_eq!((&attempts[0]["attempt"], &attempts[0]["result"]), (&json!(1), &json!("publish_conflict")));
    assert!(attempts[0]["observed_sha"].as_str().unwrap().len() == 40);
}

/// S-316: with the queue unreachable nothing is granted and nothing launched; the receipt says so.
#[test]
fn nothing_is_granted_without_the_queue() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    stage_lines(&job, &[dispatch_next("g1", 1), submit("i1", None, "a")]);
    job.probe = Probe::striking(0, Fault::Ledger(wq_action::ledger::simulated::Trouble::Unavailable), true);
    let text = stage.text();
    phase(&stage, &mut job, Phase::Controls).unwrap_err();
    assert!(receipts(&job).iter().all(|receipt| receipt["status"] == "blocked"));
    assert_eq!(stage.text(), text);
    assert!(stage.github.posts().is_empty());
}

/// S-249, jobs.md 6.3: a later attempt that repeats this job alone publishes under the origin of the attempt that staged, and
/// finds what that one published; an origin of another run is refused, and so is a later attempt without one.
#[test]
fn a_later_attempt_keeps_the_origin_of_its_intents() {
    let stage = Stage::with_works(1);
    let (shift, mut job) = dispatcher(&stage);
    let origin = {
        use wq_action::protocol::Wire as _;
        shift.actor.canonical()
    };
    job.set("GH_AW_WORK_QUEUE_INTENT_ORIGIN", &origin);
    controls(&stage, &mut job, &[submit("i1", None, "a")]).unwrap();
    let first = receipts(&job)[0].clone();
    stage.again(&shift);
    let mut job = job.next();
    job.set("GITHUB_RUN_ATTEMPT", "2");
    phase(&stage, &mut job, Phase::Controls).unwrap();
    assert_eq!(receipts(&job)[0]["request_id"], first["request_id"]);
    assert_eq!(receipts(&job)[0]["commit_id"], first["commit_id"]);
    job.unset("GH_AW_WORK_QUEUE_INTENT_ORIGIN");
    assert_eq!(phase(&stage, &mut job, Phase::Controls).unwrap_err().code(), Code::WorkQueueIntentOriginRequired);
    job.set("GH_AW_WORK_QUEUE_INTENT_ORIGIN", &origin.replace(&shift.run.to_string(), "7"));
    assert_eq!(phase(&stage, &mut job, Phase::Controls).unwrap_err().code(), Code::WorkQueueIntentOriginMismatch);
}

/// S-516, jobs.md 5.3.5: a plan for a worker that the caller does not approve is refused; nothing is admitted.
#[test]
fn only_approved_workers_are_planned_for() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config().replace("[\"worker\"]", "[\"other\"]"));
    let text = stage.text();
    let error = controls(&stage, &mut job, &[submit("i1", None, "a"), dispatch_next("g1", 1)]).unwrap_err();
    assert_eq!(error.code(), Code::WorkQueueWorkerNotCompilerApproved);
    assert_eq!(stage.text(), text);
    // A configuration that is missing approves nothing either.
    job.unset("GH_AW_WORK_QUEUE_CONTROL_CONFIG");
    assert_eq!(phase(&stage, &mut job, Phase::Controls).unwrap_err().code(), Code::SettingsInvalid);
}

/// S-258, S-259, S-260, S-563, S-564: each commit that this job made has one bounded view in the summary, whatever was
/// submitted is text in it, repetitions add none, and a summary that cannot be written changes nothing.
#[test]
fn summaries_show_commits_and_change_nothing() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    let hostile = json!({"version": 3, "intent_id": "i|1<img>", "kind": "submit", "parameters": {"nodes": [
        {"graph_id": "<script>|`x`", "node_key": "[a](http://x)", "payload": {"a": "s3cret"}}]}});
    controls(&stage, &mut job, std::slice::from_ref(&hostile)).unwrap();
    let summary = job.outputs.summaries.concat();
    for raw in ["<script>", "<img>", "](http", "s3cret"] {
        assert!(!summary.contains(raw), "{raw} in {summary}");
    }
    assert!(job.outputs.summaries.len() >= 2, "a view of the commit, and the phase's own");
    let views = job.outputs.summaries.len();
    let mut again = job.next();
    again.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    phase(&stage, &mut again, Phase::Controls).unwrap();
    assert_eq!(again.outputs.summaries.len(), views - 1, "a repetition has no view");
    let mut job = job.next();
    job.outputs.no_summary = true;
    controls(&stage, &mut job, &[submit("i2", None, "z")]).unwrap();
    assert_eq!(receipts(&job)[0]["status"], "durable");
    assert!(!job.outputs.warnings.is_empty());
}

/// S-518: the whole file can be wrong, and an observer has no controls at all.
#[test]
fn a_file_that_is_no_intents_is_one_receipt() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    std::fs::write(job.folder().join("work-queue.intents.jsonl"), vec![b'{'; 5 * 1024 * 1024]).unwrap();
    let error = phase(&stage, &mut job, Phase::Controls).unwrap_err();
    assert_eq!(error.code(), Code::WorkQueueIntentLimit);
    let document = output(&job, "work_queue_requests");
    assert_eq!(document["receipts"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&document["receipts"][0]["reason"], &document["remaining_dispatches"]),
        (&json!("staged_queue_intents_invalid"), &json!(0))
    );
    let mut observer = Job::new(&stage, stage.shift().run, "observer");
    observer.perform(activation::run).unwrap();
    let error = controls(&stage, &mut observer, &[submit("i1", None, "a")]).unwrap_err();
    assert_eq!(error.code(), Code::WorkQueueObserverReadOnly);
    // No file at all is no batch.
    let (_, mut job) = dispatcher(&stage);
    phase(&stage, &mut job, Phase::Controls).unwrap();
    assert_eq!(job.outputs.output("work_queue_controls_status"), Some("ok"));
}

/// O-206, O-208: the host's own refusal decides, and says which permissions of which job to check.
#[test]
fn a_denied_launch_names_the_jobs_permissions() {
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    // The publisher's token may not dispatch.
    let config = control_config()
        .replace(LAUNCH, JOB)
        .replace(r#""app_slug":"queue-launcher","kind":"github_app""#, r#""kind":"github_token""#);
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &config);
    controls(&stage, &mut job, &[dispatch_next("g1", 1)]).unwrap_err();
    let told = &receipts(&job)[0];
    let launch = &told["launches"][0];
    assert!(launch["rejected"] == true || launch["reason"] == "github_permission_denied", "{told}");
    let _ = NO_WRITES;
}

/// S-493, O-210: where the proof of a refusal cannot be written, the receipt says what stands in the way, and the reservation
/// is told as it is.
#[test]
fn evidence_that_cannot_be_written_is_told() {
    let refused =
        |stage: &Stage| stage.github.faults(Faults::default().and(Endpoint::Dispatch, 1, 1, Strike::Status(422)));
    let twin = Stage::with_works(1);
    let (_, mut other) = dispatcher(&twin);
    refused(&twin);
    controls(&twin, &mut other, &[dispatch_next("g1", 1)]).unwrap_err();
    let steps = other.probe.steps();
    let post = steps.iter().position(|(_, kind)| *kind == Kind::Api("dispatch")).unwrap();
    let push = post + steps[post..].iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    let stage = Stage::with_works(1);
    let (_, mut job) = dispatcher(&stage);
    refused(&stage);
    job.probe = Probe::striking(push, Fault::Ledger(wq_action::ledger::simulated::Trouble::Denied), true);
    controls(&stage, &mut job, &[dispatch_next("g1", 1)]).unwrap_err();
    let launch = &receipts(&job)[0]["launches"][0];
    assert_eq!((&launch["state"], &launch["released"]), (&json!("launch_unresolved"), &json!(false)));
    assert_eq!(launch["blocked"], "repository_unavailable");
    assert_eq!(job.outputs.output("work_queue_controls_status"), Some("recovery_required"));
}
