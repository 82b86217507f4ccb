//! What is struck, and how fresh processes go on after it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use wq_action::launch::error::LaunchError;
use wq_action::launch::grant::Granted;
use wq_action::launch::report::{GroupReport, GroupState};
use wq_action::ledger::{LedgerError, Publication};
use wq_action::protocol::commit::FrozenRequest;

use crate::support::github::{Endpoint, Faults, Strike};
use crate::support::probe::{Kind, Probe};
use crate::support::processes::{Shift, Stage};

/// A day with two Works: its world, the first dispatcher's run, and the producer's submission.
pub(super) struct Day {
    pub(super) stage: Stage,
    pub(super) first: Shift,
    pub(super) submission: FrozenRequest,
    /// Rounds of dispatchers so far, for fresh request ids.
    rounds: RefCell<usize>,
}

/// Something that a process does while it is struck.
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// Everything before it, without a fault.
    before: fn(&Day),
    /// The struck process.
    pub(super) struck: fn(&Day, &Probe) -> Told,
}

/// What the struck process was told.
#[derive(Default)]
pub(super) struct Told {
    submitted: Option<Result<Publication, LedgerError>>,
    granted: Option<Result<Granted, LaunchError>>,
    reports: Vec<Result<GroupReport, LaunchError>>,
    worker: Vec<Result<(), &'static str>>,
}

/// Who goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The next attempt of the same run repeats the same requests.
    SameRun,
    /// The run has failed; a later run sweeps, and asks for itself.
    NextRun,
}

pub(super) const SCENES: &[Scene] = &[
    Scene { name: "dispatch", before: |_| {}, struck: dispatch },
    Scene { name: "observe", before: |_| {}, struck: dispatch },
    Scene { name: "reject", before: refused_posts, struck: launch },
    Scene { name: "activate", before: lost_answers, struck: work },
    Scene { name: "discover", before: lost_answers, struck: sweep },
    Scene { name: "release", before: ended_runs, struck: sweep },
    Scene { name: "prelaunch", before: abandoned, struck: sweep },
];

impl Scene {
    /// A fresh day, up to what is struck.
    pub(super) fn day(&self) -> Day {
        let stage = Stage::new();
        let gated = self.name == "observe";
        let submission = if gated { stage.gated_submission("day") } else { stage.submission("day", 2) };
        let first = stage.shift();
        let day = Day { stage, first, submission, rounds: RefCell::new(0) };
        (self.before)(&day);
        day
    }
}

fn submitted(day: &Day) {
    day.stage.process(&day.first).submit(&day.submission).unwrap();
}

fn granted(day: &Day) {
    submitted(day);
    day.stage.publish(&day.stage.dispatch_next(&day.first, "grant-1", 2)).unwrap();
}

/// Granted; the host will refuse both launches.
fn refused_posts(day: &Day) {
    granted(day);
    day.stage.github.faults(Faults::default().and(Endpoint::Dispatch, 1, 2, Strike::Status(422)));
}

/// Both POSTs were sent and reached the host, and their answers were lost.
fn lost_answers(day: &Day) {
    submitted(day);
    day.stage.github.faults(Faults::default().and(Endpoint::Dispatch, 1, 2, Strike::DropAfter));
    let granted = day.stage.process(&day.first).dispatch("grant-1", &day.first.actor, 2).unwrap();
    assert!(granted.launches.iter().all(|report| report.state == GroupState::LaunchUnresolved));
}

/// Both runs have ended, one with its Claim completed.
fn ended_runs(day: &Day) {
    submitted(day);
    let stage = &day.stage;
    stage.process(&day.first).dispatch("grant-1", &day.first.actor, 2).unwrap();
    let runs: Vec<u64> =
        stage.assignments("grant-1").iter().map(|one| runs_of(stage, one.dispatch_id.as_str())[0]).collect();
    stage.finish(runs[0], "completed", &Probe::default()).into_iter().for_each(|one| drop(one.unwrap()));
    runs.iter().for_each(|run| stage.github.complete_run(*run, "success"));
}

/// The granting run ended before it launched anything.
fn abandoned(day: &Day) {
    granted(day);
    day.stage.github.complete_run(day.first.run, "cancelled");
}

pub(super) fn runs_of(stage: &Stage, dispatch: &str) -> Vec<u64> {
    stage.github.runs_of_dispatch(dispatch)
}

/// Submit, grant and launch, by one process.
fn dispatch(day: &Day, probe: &Probe) -> Told {
    let mut process = day.stage.process_with(&day.first, probe);
    probe.phase("submit");
    let submitted = Some(process.submit(&day.submission));
    probe.phase("grant");
    // A process that was told of no queue would stop here; going on shows that it does no harm either.
    let granted = Some(process.dispatch("grant-1", &day.first.actor, 2));
    Told { submitted, granted, ..Told::default() }
}

/// Launches what was granted.
fn launch(day: &Day, probe: &Probe) -> Told {
    let mut process = day.stage.process_with(&day.first, probe);
    probe.phase("launch");
    let groups = day.stage.assignments("grant-1");
    Told { reports: groups.iter().map(|group| process.launch(group)).collect(), ..Told::default() }
}

/// The runs bind themselves and complete their Claims.
fn work(day: &Day, probe: &Probe) -> Told {
    let mut told = Told::default();
    for assignment in day.stage.assignments("grant-1") {
        let run = runs_of(&day.stage, assignment.dispatch_id.as_str())[0];
        probe.phase("activate");
        let activated = day.stage.activate(run, probe);
        let active = activated.is_ok();
        told.worker.push(activated.map_err(|error| error.code().as_str()));
        if active {
            probe.phase("finish");
            let finished = day.stage.finish(run, "completed", probe);
            told.worker.extend(finished.into_iter().map(|one| one.map(drop).map_err(|error| error.code().as_str())));
        }
    }
    told
}

/// The next dispatcher's run sweeps the pool.
fn sweep(day: &Day, probe: &Probe) -> Told {
    let shift = day.stage.shift();
    probe.phase("sweep");
    let reports = match day.stage.process_with(&shift, probe).sweep() {
        Ok(reports) => reports.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    };
    day.stage.github.complete_run(shift.run, "success");
    Told { reports, ..Told::default() }
}

/// What the network steps of a scene are for.
pub(super) fn labels(scene: &Scene, steps: &[(&'static str, Kind)]) -> Vec<&'static str> {
    let mut last = "";
    let mut created = false;
    let mut posted = false;
    let label = |(phase, kind): &(&'static str, Kind)| {
        if let Kind::Api(name) = kind {
            let before = std::mem::replace(&mut last, name);
            created |= *name == "create-ref";
            posted |= *name == "dispatch";
            return match *name {
                "account" => "credential",
                "versions" => "versions",
                "ref" if before == "create-ref" => "tag read-back",
                "ref" => "tag read",
                "create-ref" => "tag create",
                "dispatch" => "POST",
                "workflow-runs" => "listing",
                "run-attempt" => "attempts/1",
                "issue" => "observe",
                "repository" if *phase == "grant" && !posted => "observe",
                "run" if *phase == "activate" => "own run",
                "run" => "run after POST",
                "repository" if *phase == "activate" || *phase == "sweep" => "repository",
                "repository" => "run after POST",
                other => other,
            };
        }
        match (scene.name, *phase, last, kind) {
            (_, "submit", ..) => "submit",
            (_, "activate", ..) => "bind own run",
            (_, "finish", ..) => "finish",
            ("discover", _, _, Kind::Push) => "bind found run",
            ("release" | "prelaunch", _, _, Kind::Push) => "release",
            (_, "sweep", ..) => "sweep",
            (_, _, "ref" | "create-ref", _) => "start",
            ("reject", _, "dispatch", _) => "reject, release",
            (_, _, "dispatch", _) => "after POST",
            (_, _, "run", _) => "bind",
            (_, "launch", ..) => "launch",
            _ => "grant",
        }
    };
    steps.iter().map(label).collect()
}

impl Told {
    fn all(&self) -> Vec<Result<&GroupReport, &LaunchError>> {
        let launches = self.granted.iter().flatten().flat_map(|granted| granted.launches.iter().chain(&granted.swept));
        launches.map(Ok).chain(self.reports.iter().map(Result::as_ref)).collect()
    }

    /// What it says about each group, in one or two words.
    pub(super) fn groups(&self, day: &Day, died: bool) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        for error in [
            self.submitted.as_ref().and_then(|result| result.as_ref().err()).map(|error| error.code()),
            self.granted.as_ref().and_then(|result| result.as_ref().err()).map(LaunchError::code),
        ] {
            said.extend(error.map(|code| code.as_str().to_owned()));
        }
        for report in self.all() {
            said.push(match report {
                Ok(report) => match report.blocked {
                    Some(code) if code.as_str() != report.state.as_str() => format!("{}/{code}", report.state.as_str()),
                    _ => report.state.as_str().to_owned(),
                },
                Err(error) => error.code().as_str().to_owned(),
            });
        }
        for result in &self.worker {
            said.push(result.map_or_else(str::to_owned, |()| "done".to_owned()));
        }
        if died {
            // The process told nothing: the queue itself is what an operator sees.
            let seen = day.stage.branch.current().map(|queue| {
                let ids: Vec<_> = queue.projection.dispatches().map(|one| one.assignment.dispatch_id.clone()).collect();
                ids.iter().map(|id| format!("queue:{}", day.stage.phase(id))).collect::<Vec<_>>()
            });
            return seen.filter(|seen| !seen.is_empty()).unwrap_or_else(|| vec!["queue:nothing granted".to_owned()]);
        }
        said
    }

    /// What was told is so.
    pub(super) fn check(&self, day: &Day) {
        let stage = &day.stage;
        for report in self.all().into_iter().flatten() {
            let queue = stage.queue();
            let dispatch = queue.projection.dispatch(report.dispatch_id.as_str()).unwrap();
            let posts = stage.github.posts_of_dispatch(report.dispatch_id.as_str());
            assert!(!report.released || dispatch.released, "told released: {report:?}");
            assert_eq!(report.released, report.state == GroupState::Released);
            match report.state {
                GroupState::Bound => assert!(dispatch.run.is_some(), "told bound: {report:?}"),
                GroupState::Reserved => assert_eq!(posts, 0, "told reserved: {report:?}"),
                GroupState::StagedPreview => panic!("nothing is staged"),
                GroupState::LaunchUnresolved | GroupState::RunBindingConflict => {
                    assert!(report.next_action().is_some() && !report.is_settled());
                }
                _ => {}
            }
            assert!(!report.dispatched || posts == 1, "told dispatched: {report:?}");
        }
    }

    /// The outcomes of the struck process's requests are found again under their ids.
    pub(super) fn found_again(&self, day: &Day) {
        let again = day.stage.publish(&day.submission).unwrap();
        let commit = again.outcome.commit_id().unwrap();
        if let Some(Ok(first)) = &self.submitted {
            assert_eq!(first.outcome.commit_id(), Some(commit));
        }
        let queue = day.stage.queue();
        let accepted = queue.projection.request("grant-1");
        if let Some(Ok(Granted { commit_id: Some(commit_id), .. })) = &self.granted {
            assert_eq!(accepted.map(|accepted| &accepted.commit_id), Some(commit_id));
        }
    }
}

/// Fresh processes go on until nothing moves any more.
pub(super) fn recover(day: &Day, _told: &Told, recovery: Recovery) {
    let stage = &day.stage;
    stage.github.no_faults();
    match recovery {
        Recovery::SameRun => {
            let shift = stage.again(&day.first);
            stage.process(&shift).submit(&day.submission).unwrap();
            stage.process(&shift).dispatch("grant-1", &day.first.actor, 2).unwrap();
            super::audit::between(day);
            stage.github.complete_run(shift.run, "success");
        }
        Recovery::NextRun => {
            workers(day);
            if !stage.github.run(day.first.run).unwrap().completed() {
                stage.github.complete_run(day.first.run, "failure");
            }
            stage.process(&stage.shift()).submit(&day.submission).unwrap();
        }
    }
    for _ in 0..5 {
        workers(day);
        super::audit::between(day);
        stage.wait(61_000);
        let shift = stage.shift();
        let number = day.rounds.replace_with(|number| *number + 1);
        stage.process(&shift).dispatch(&format!("grant-again-{number}"), &shift.actor, 2).unwrap();
        stage.github.complete_run(shift.run, "success");
        super::audit::between(day);
    }
    workers(day);
    stage.wait(61_000);
    stage.process(&stage.shift()).sweep().unwrap();
}

/// Every run of the worker goes its way: it binds itself, completes its Claims, and ends; or it ends at once.
fn workers(day: &Day) {
    let stage = &day.stage;
    let mut ended = BTreeMap::new();
    for id in stage.github.runs() {
        let run = stage.github.run(id).unwrap();
        if run.dispatch_id.is_none() || run.completed() {
            continue;
        }
        stage.github.start_run(id);
        let conclusion = match stage.activate(id, &Probe::default()) {
            Ok(()) => {
                stage.finish(id, "completed", &Probe::default()).into_iter().for_each(|one| drop(one.unwrap()));
                "success"
            }
            Err(_) => "failure",
        };
        stage.github.complete_run(id, conclusion);
        ended.insert(id, conclusion);
    }
}
