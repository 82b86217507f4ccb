//! The conclusion: the queue now beside the queue at activation, and no authority.

use wq_action::jobs::{activation, conclusion};
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::Code;

use super::launched;
use crate::support::jobs::Job;
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::Stage;

/// The conclusion job: the snapshot was downloaded into a folder of its own.
fn concluding<'s>(activated: &Job<'s>) -> Job<'s> {
    let job = activated.next();
    let target = job.paths().concluded_snapshot;
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::copy(activated.paths().snapshot, &target).unwrap();
    // Whatever the agent left at the other place is not read.
    std::fs::remove_file(job.paths().snapshot).unwrap();
    std::fs::write(job.paths().snapshot, "forged").unwrap();
    job
}

/// S-522, S-584: the summary compares the snapshot with the ledger as it is now, whoever changed it since, and shows the
/// state of the run's own Claims, why they were selected, the epoch, grants, launches and reservations. It shows no
/// submitted identifier.
#[test]
fn the_present_queue_is_read_anew() {
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    stage.finish(run, "completed", &Probe::default());
    stage.publish(&stage.submission("more", 3)).unwrap();
    let mut job = concluding(&job);
    let before = stage.text();
    let done = job.perform(conclusion::run).unwrap();
    assert_eq!((done.work, done.commits), (Some(4), 2));
    assert_eq!(done.own, [("h1".to_owned(), "completed", "pending")]);
    assert_eq!(
        done.json(),
        r#"{"claims":[{"claim_handle":"h1","delivery":"pending","state":"completed"}],"commits":2,"work":4}"#
    );
    assert_eq!(job.outputs.summaries.len(), 1);
    let text = &job.outputs.summaries[0];
    for line in [
        "### Work queue activity",
        "4 Work in the queue; 2 new commits since activation.",
        "The queue is shared",
        "This run's group: bound, bound to its run, reservation held.",
        "| h1 | completed | pending | fifo_default |",
        "| Work available | 0 | 3 |",
        "| Work completed | 0 | 1 |",
        "| Claims open | 1 | 0 |",
        "| Delivery pending | 0 | 1 |",
        "| Reservations outstanding | 1 | 1 |",
        "| Work | 3 |",
        "| Completion | 1 |",
        "| Dispatch | 0 |",
        "Policy epoch epoch",
        "1 grants, 1 launches, 1 bound runs, 1 completions",
        "Trace data of this run: not available. Runner time is not measured.",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let work = stage.queue().projection.works().next().unwrap().work.clone();
    for hidden in [work.work_id.as_str(), work.graph_id.as_str(), "\"task\"", "octo", "refs/"] {
        assert!(!text.contains(hidden), "{hidden}\n{text}");
    }
    // It publishes nothing, whatever it finds.
    assert_eq!(stage.text(), before);
    assert_eq!(job.probe.steps().iter().map(|(_, kind)| kind.clone()).collect::<Vec<_>>(), [Kind::Read]);
}

/// S-326: how the run's jobs ended is shown beside its Claims and apart from them, whichever way the two differ; names and
/// results that are no such thing are left out, and text that is none leaves no table.
#[test]
fn results_of_jobs_are_shown_apart_from_claims() {
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    stage.finish(run, "completed", &Probe::default());
    let job = concluding(&job);
    for (needs, shown) in [
        (r#"{"agent":{"result":"failure","outputs":{"x":"secret"}},"safe_outputs":{"result":"success"}}"#, true),
        (r#"{"a|b":{"result":"success"},"agent":{"result":"failure"},"other":{"result":"on fire"}}"#, true),
        (r#"{"agent":"failure"}"#, false),
        ("[1]", false),
        ("{", false),
    ] {
        let mut job = job.next();
        job.set("GH_AW_WORK_QUEUE_JOB_RESULTS", needs);
        job.perform(conclusion::run).unwrap();
        let text = &job.outputs.summaries[0];
        assert!(text.contains("| h1 | completed | pending | fifo_default |"), "{text}");
        assert_eq!(text.contains("which says nothing of its Claims"), shown, "{text}");
        assert_eq!(text.contains("| agent | failure |"), shown, "{text}");
        for hidden in ["secret", "a|b", "on fire", "other"] {
            assert!(!text.contains(hidden) || hidden == "other", "{text}");
        }
    }
}

/// A queue that came into being during the run, and one that is still absent.
#[test]
fn a_queue_that_was_absent_is_shown_as_such() {
    let stage = Stage::new();
    let shift = stage.shift();
    let mut job = Job::new(&stage, shift.run, "dispatcher");
    job.perform(activation::run).unwrap();
    let mut still = concluding(&job);
    assert_eq!(still.perform(conclusion::run).unwrap().work, None);
    assert!(still.outputs.summaries[0].contains("| Work available | uninitialized | uninitialized |"));
    stage.process(&shift).submit(&stage.submission("first", 2)).unwrap();
    let mut job = still.next();
    let done = job.perform(conclusion::run).unwrap();
    assert_eq!((done.work, done.commits), (Some(2), 1));
    assert!(job.outputs.summaries[0].contains("| Work available | uninitialized | 2 |"), "{:?}", job.outputs.summaries);
}

/// A compaction during the run is told, and counts stay those of commits.
#[test]
fn a_compaction_meanwhile_is_told() {
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    stage.publish(&stage.submission("more", 1)).unwrap();
    stage.compact();
    let mut job = concluding(&job);
    job.perform(conclusion::run).unwrap();
    assert!(job.outputs.summaries[0].contains("compacted meanwhile"), "{:?}", job.outputs.summaries);
}

/// Jobs.md 7.2: whatever fails leaves a warning and an "unavailable" summary, and the job's error; a summary that cannot
/// be written is a warning. S-317: neither the agent's file nor an old snapshot stands in for the queue.
#[test]
fn what_cannot_be_read_is_unavailable() {
    let (stage, shift, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    let unavailable = |mut job: Job<'_>, code: Code| {
        assert_eq!(job.perform(conclusion::run).unwrap_err().code(), code);
        assert_eq!(job.outputs.warnings.len(), 1);
        assert!(job.outputs.summaries[0].contains("Unavailable"), "{:?}", job.outputs.summaries);
    };
    let ready = concluding(&job);
    let mut broken = ready.next();
    broken.probe = Probe::striking(0, Fault::Ledger(Trouble::Unavailable), true);
    unavailable(broken, Code::RepositoryUnavailable);
    let mut foreign = Job::new(&stage, shift.run, "worker").next();
    let target = foreign.paths().concluded_snapshot;
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::copy(ready.paths().concluded_snapshot, &target).unwrap();
    foreign.set("GH_AW_WORK_QUEUE_ROLE", "worker");
    unavailable(foreign, Code::WorkQueueSnapshotInvalid);
    let mut observer = ready.next();
    observer.set("GH_AW_WORK_QUEUE_ROLE", "observer");
    unavailable(observer, Code::WorkQueueRuntimeRoleConflict);
    let full = ready.next();
    stage.branch.replace(Stage::with_works(2).queue().projection.clone());
    unavailable(full, Code::LedgerNonextending);
    let missing = ready.next();
    std::fs::remove_file(missing.paths().concluded_snapshot).unwrap();
    unavailable(missing, Code::WorkQueueSnapshotInvalid);

    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    let mut quiet = concluding(&job);
    quiet.outputs.no_summary = true;
    quiet.perform(conclusion::run).unwrap();
    assert_eq!(quiet.outputs.warnings.len(), 1);
}
