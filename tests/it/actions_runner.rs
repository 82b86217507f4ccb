//! The runner that the end-to-end tests execute workflows with does what the runner of Actions does.

use crate::support::actions::{Host, Moment, Plan, Turn};
use crate::support::github::{Area, Github, Level, OCTO_WIDGETS};

const WORKFLOW: &str = r###"
name: Widgets
on: workflow_dispatch
permissions: {}
env:
  LAYER: workflow
  KEPT: ${{ github.run_id }}
jobs:
  first:
    runs-on: ubuntu-latest
    permissions:
      contents: write
      actions: read
    outputs:
      said: ${{ steps.speak.outputs.said }}
      lines: ${{ steps.speak.outputs.lines }}
    env:
      LAYER: job of ${{ github.workflow }}
    steps:
      - uses: actions/checkout@0000000000000000000000000000000000000000
      - name: Speak
        id: speak
        run: |
          test -f README.md
          echo "said=$LAYER $OWN" >>"$GITHUB_OUTPUT"
          printf 'lines<<END\none\ntwo=2\nEND\n' >>"$GITHUB_OUTPUT"
          echo "EXPORTED=yes" >>"$GITHUB_ENV"
          mkdir -p "$RUNNER_TEMP/bin" /tmp/gh-aw/below
          printf '#!/bin/sh\necho tool\n' >"$RUNNER_TEMP/bin/some-tool"; chmod +x "$RUNNER_TEMP/bin/some-tool"
          echo "$RUNNER_TEMP/bin" >>"$GITHUB_PATH"
          echo "## Summary" >>"$GITHUB_STEP_SUMMARY"
          echo "::error title=Oops::told"
          echo kept >/tmp/gh-aw/below/file
          echo other >/tmp/gh-aw/other
          test "$KEPT" = "${{ github.run_id }}"
          ! env | grep -q WQ_SURROUNDING
        env:
          OWN: ${{ format('step {0}', 1) }}
      - name: Sees what was exported
        run: test "$EXPORTED" = yes && test "$(some-tool)" = tool && test -z "${OWN:-}"
      - name: Forgiven
        id: forgiven
        continue-on-error: true
        run: exit 3
      - name: Goes on
        if: steps.forgiven.outcome == 'failure' && steps.forgiven.conclusion == 'success'
        run: echo on
      - uses: actions/upload-artifact@0000000000000000000000000000000000000000
        with:
          name: files
          path: |
            /tmp/gh-aw/below/file
            /tmp/gh-aw/other
  broken:
    needs: first
    runs-on: ubuntu-latest
    steps:
      - name: Fails
        run: |
          false
          echo not reached
      - name: Not executed
        run: echo no
      - name: Executed all the same
        if: always()
        run: test ! -e /tmp/gh-aw/other
      - name: Only then
        if: failure()
        run: echo yes
  after:
    needs: [first, broken]
    if: (!cancelled()) && needs.broken.result == 'failure'
    runs-on: ubuntu-latest
    steps:
      - uses: actions/download-artifact@0000000000000000000000000000000000000000
        with:
          name: files
          path: /tmp/gh-aw
      - run: test "$(cat /tmp/gh-aw/below/file)" = kept && test "$SAID" = "job of Widgets step 1" && test "$NEEDS" -eq 2
        env:
          SAID: ${{ needs.first.outputs.said }}
          NEEDS: ${{ contains(toJSON(needs), 'two=2') && 2 || 0 }}
  skipped:
    needs: broken
    runs-on: ubuntu-latest
    steps:
      - run: echo never
  last:
    needs: skipped
    if: always()
    runs-on: ubuntu-latest
    steps:
      - uses: actions/download-artifact@0000000000000000000000000000000000000000
        continue-on-error: true
        with:
          name: absent
      - run: echo end
"###;

fn host() -> Option<(Host, u64)> {
    let (github, bare) = Github::standard_with_git();
    github.commit(OCTO_WIDGETS, "main", &[(".github/workflows/widgets.yml", Some(WORKFLOW))]);
    github.workflow(OCTO_WIDGETS, ".github/workflows/widgets.yml", "Widgets");
    let host = Host::new(github, bare)?;
    let run = host.start("widgets.yml", "workflow_dispatch", "wim");
    Some((host, run))
}

/// Needs, conditions, environment files, outputs, artifacts, forgiveness and tokens, in one run.
#[test]
fn a_run_goes_as_on_a_runner() {
    let Some((host, run)) = host() else { return };
    let ran = host.execute(run);
    let results = [
        ("after", "success"),
        ("broken", "failure"),
        ("first", "success"),
        ("last", "success"),
        ("skipped", "skipped"),
    ];
    assert_eq!(ran.results(), results, "{ran:#?}");
    assert_eq!(ran.conclusion, "failure");
    let first = ran.job("first");
    assert_eq!(first.outputs["said"], "job of Widgets step 1");
    assert_eq!(first.outputs["lines"], "one\ntwo=2");
    assert_eq!(first.summary, "## Summary\n");
    assert_eq!(first.annotations, ["::error title=Oops::told"]);
    assert_eq!(first.step("forgiven").outcome, "failure");
    let outcomes: Vec<_> = ran.job("broken").steps.iter().map(|step| step.outcome.as_str()).collect();
    assert_eq!(outcomes, ["failure", "skipped", "success", "success"]);
    let token = |job: &str| format!("job-token-of-{run}-1-{job}");
    assert_eq!(host.github.level(&token("first"), OCTO_WIDGETS, Area::Contents), Level::Write);
    assert_eq!(host.github.level(&token("first"), OCTO_WIDGETS, Area::Actions), Level::Read);
    // The repository is public, so what is not granted can still be read.
    assert_eq!(host.github.level(&token("after"), OCTO_WIDGETS, Area::Contents), Level::Read);
    assert_eq!(host.github.run(run).unwrap().latest().conclusion.as_deref(), Some("failure"));
}

/// A cancelled run, a lost machine, and an attempt that executes the failed jobs alone.
#[test]
fn runs_are_cancelled_lost_and_repeated() {
    let Some((host, run)) = host() else { return };
    let cancel = |moment: &Moment<'_>| if moment.step == "Sees what was exported" { Turn::Cancel } else { Turn::On };
    let ran = host.execute_as(run, &Plan { hook: Some(&cancel), ..Plan::default() });
    assert_eq!(ran.conclusion, "cancelled");
    // Only what waits for `always()` is executed after a cancellation.
    let executed: Vec<_> = ran.results().into_iter().filter(|(_, result)| *result == "success").collect();
    assert_eq!(executed, [("last", "success")], "{ran:#?}");
    assert_eq!(ran.job("after").result, "cancelled");

    host.github.rerun(run, host.github.account_id("wim"));
    let vanish = |moment: &Moment<'_>| if moment.step == "speak" { Turn::Vanish } else { Turn::On };
    let vanished = host.execute_as(run, &Plan { hook: Some(&vanish), ..Plan::default() });
    let first = vanished.job("first");
    assert_eq!((first.result.as_str(), first.steps.len(), first.outputs.len()), ("failure", 2, 0), "{first:#?}");

    host.github.rerun(run, host.github.account_id("wim"));
    let lose = |moment: &Moment<'_>| if moment.job == "after" { Turn::Lose } else { Turn::On };
    let second = host.execute_as(run, &Plan { hook: Some(&lose), ..Plan::default() });
    assert_eq!((second.job("first").result.as_str(), second.job("after").result.as_str()), ("success", "failure"));
    assert!(second.job("after").steps.is_empty());

    host.github.rerun(run, host.github.account_id("wim"));
    let third = host.execute_as(run, &Plan { only: Some(&["after"]), before: Some(&second), ..Plan::default() });
    assert_eq!(third.job("after").result, "success", "{third:#?}");
    assert_eq!(third.job("first").steps.len(), second.job("first").steps.len());
    assert_eq!(host.github.run(run).unwrap().attempts.len(), 4);
}
