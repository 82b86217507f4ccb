//! Who may do what: an observer, and a queue that is not there.

use serde_json::json;

use super::{Scene, Setting, completes, plans};

/// A workflow that may only look, without the steps that an observer does not have.
pub(crate) const OBSERVER: &str = "\
name: observer
on: workflow_dispatch
permissions: {}
env:
  GH_AW_WORK_QUEUE_ENABLED: \"true\"
  GH_AW_WORK_QUEUE_ROLE: observer
jobs:
  activation:
    runs-on: ubuntu-latest
    permissions:
      actions: read
      contents: read
    steps:
      - id: work_queue_snapshot
        uses: octo/wq-action@0000000000000000000000000000000000000000
        with:
          mode: activation
      - uses: actions/upload-artifact@0000000000000000000000000000000000000000
        with:
          name: activation
          path: /tmp/gh-aw/work-queue.snapshot.json
          if-no-files-found: error
  agent:
    needs: activation
    runs-on: ubuntu-latest
    permissions:
      contents: read
    steps:
      - uses: actions/download-artifact@0000000000000000000000000000000000000000
        with:
          name: activation
          path: /tmp/gh-aw
      - uses: actions/checkout@0000000000000000000000000000000000000000
      - uses: octo/wq-action@0000000000000000000000000000000000000000
        with:
          mode: install
      - id: agentic_execution
        run: bash .github/work-queue/observer.sh
      - id: origin
        continue-on-error: true
        uses: octo/wq-action@0000000000000000000000000000000000000000
        with:
          mode: origin
";

/// An observer sees the queue, present or not, through two tools, and changes nothing.
#[test]
fn an_observer_only_looks() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    let look = |expect| {
        json!([
            {"list": ["work_queue_read", "work_queue_explain"]},
            {"call": "work_queue_read", "expect": expect},
            {"call": "work_queue_submit", "with": {"nodes": []}, "refused": ""},
        ])
    };
    let observe = || {
        let run = scene.host.start("observer.lock.yml", "workflow_dispatch", "rea");
        let ran = scene.execute(run);
        ran.succeeded();
        assert_eq!(ran.job("agent").step("origin").outcome, "failure", "an observer has no origin");
    };
    scene.agent("observer", look(json!({})));
    observe();
    assert_eq!(scene.commits(), 0);
    scene.workers(&["one"]);
    let before = scene.commits();
    observe();
    assert_eq!(scene.commits(), before);
}

/// A grant makes no queue: the dispatcher's step fails with one annotation and the branch stays absent.
#[test]
fn a_grant_does_not_make_a_queue() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    scene.agent("dispatcher", plans(&[], 1, 1)).agent("worker", completes());
    let ran = scene.dispatcher();
    let outputs = ran.job("safe_outputs");
    assert_eq!(outputs.step("work_queue_controls").outcome, "failure", "{ran:#?}");
    assert_eq!(outputs.step("work_queue_controls").outputs["work_queue_controls_status"], "recovery_required");
    assert_eq!(outputs.annotations.iter().filter(|line| line.starts_with("::error")).count(), 1, "{outputs:#?}");
    assert_eq!((scene.commits(), scene.waiting().len()), (0, 0));
}
