//! Artifacts that do not arrive.

use super::{Scene, Setting, completes, node, plans};
use crate::support::actions::{Moment, Plan, Turn};

/// Takes artifacts away before a job's first step.
fn lose(job: &'static str, names: &'static [&'static str]) -> impl Fn(&Moment<'_>) -> Turn + Sync {
    move |moment| {
        if moment.job == job {
            for name in names {
                let _ = std::fs::remove_dir_all(moment.store.join(name));
            }
        }
        Turn::On
    }
}

/// Each artifact lost before each job that wants it: nothing is made up, and later runs bring the Work to its Result.
#[test]
fn lost_artifacts() {
    let Some(scene) = Scene::new(&Setting { budget: 16, ..Setting::default() }) else { return };
    let cases: [(&str, &[&str], usize, usize); 6] = [
        // Job, artifacts, Completions and cancelled Claims that this run leaves.
        ("agent", &["activation"], 0, 0),
        ("safe_outputs", &["activation"], 0, 0),
        ("safe_outputs", &["agent"], 1, 0),
        ("safe_outputs", &["agent-output-fallback"], 1, 0),
        ("safe_outputs", &["agent", "agent-output-fallback"], 0, 1),
        ("conclusion", &["activation"], 1, 0),
    ];
    let runs = scene.workers(&["a", "b", "c", "d", "e", "f"]);
    scene.agent("worker", completes());
    for ((job, names, completed, cancelled), run) in cases.into_iter().zip(runs) {
        let count = || (scene.operations("Completion").len(), scene.operations("ClaimCancellation").len());
        let before = count();
        let hook = lose(job, names);
        let ran = scene.execute_as(run, &Plan { hook: Some(&hook), ..Plan::default() });
        let after = count();
        assert_eq!((after.0 - before.0, after.1 - before.1), (completed, cancelled), "{job} {names:?} {ran:#?}");
        scene.sound();
    }
    assert_eq!(scene.settle(), 6);
}

/// A dispatcher without its agent's output asks for nothing; without its snapshot it does nothing.
#[test]
fn a_dispatcher_without_artifacts() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    scene.agent("dispatcher", plans(&[node("one")], 1, 1));
    let all: &[&str] = &["agent", "agent-output-fallback"];
    for (names, conclusion) in [(all, "success"), (&["activation"], "failure")] {
        let hook = lose("safe_outputs", names);
        let ran = scene.execute_as(scene.start(), &Plan { hook: Some(&hook), ..Plan::default() });
        assert_eq!((ran.conclusion.as_str(), scene.commits(), scene.waiting().len()), (conclusion, 0, 0), "{names:?}");
    }
    scene.dispatcher().succeeded();
    assert_eq!(scene.waiting().len(), 1);
}
