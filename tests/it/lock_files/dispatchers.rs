//! A dispatcher's source and compiled file (operator-cli.md 7.2 points 3 and 4, jobs.md 5.3.1).

use std::collections::BTreeSet;

use wq_action::launch::route::{CONTROL_CONFIG, Defect, HANDLER_CONFIG, SourceFile};

use super::{lock, workflow};

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What a compiled dispatcher with these variables in step environments answers.
fn workers(variables: &[(&str, &str)]) -> Result<BTreeSet<String>, Defect> {
    let steps: Vec<_> =
        variables.iter().map(|(name, value)| format!("{{env: {{{name}: '{}'}}}}", value.replace('\'', "''"))).collect();
    lock(&format!("on: workflow_dispatch\njobs: {{j: {{steps: [{}]}}}}\n", steps.join(", ")))
        .unwrap()
        .approved_workers()
}

const SOUND: &str = r#"{"work_queue_workflows":["a","b"],"aw_context_workflows":["b","a"],"max":1.5}"#;

/// The lists of source and compiled file agree as sets, wherever the compiled ones stand.
#[test]
fn a_dispatcher_carries_the_workers_of_its_source() {
    let source = SourceFile::read(workflow("dispatcher.md").as_bytes()).unwrap().check_dispatcher().unwrap();
    assert_eq!(source, names(&["reviewer", "worker"]));
    let compiled = lock(&workflow("dispatcher.lock.yml")).unwrap();
    compiled.check_dispatcher(&source).unwrap();
    assert_eq!(compiled.check_dispatcher(&names(&["worker"])), Err(Defect::ControlsDrifted));
    assert_eq!(compiled.check_dispatcher(&names(&["reviewer", "worker", "x"])), Err(Defect::ControlsDrifted));
    assert_eq!(lock(&workflow("worker.lock.yml")).unwrap().check_dispatcher(&source), Err(Defect::AssignmentForbidden));
    let manual = workflow("dispatcher.lock.yml").replace("workflow_dispatch:", "push:");
    assert_eq!(lock(&manual).unwrap().check_dispatcher(&source), Err(Defect::DispatchMissing));

    let both = Ok(names(&["a", "b"]));
    assert_eq!(workers(&[(CONTROL_CONFIG, SOUND)]), both);
    assert_eq!(workers(&[(HANDLER_CONFIG, SOUND)]), both);
    assert_eq!(workers(&[(HANDLER_CONFIG, &format!("{{\"dispatch_workflow\":{SOUND}}}"))]), both);
    assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (CONTROL_CONFIG, SOUND), (HANDLER_CONFIG, SOUND)]), both);
    assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (HANDLER_CONFIG, "{\"add_comment\":{}}")]), both);
}

/// Missing, malformed, duplicated and ambiguous lists are told apart, and one bad place spoils the file.
#[test]
fn bad_lists_are_told_apart() {
    let lists = |queue: &str, context: &str| {
        workers(&[(
            CONTROL_CONFIG,
            &format!("{{\"work_queue_workflows\":{queue},\"aw_context_workflows\":{context}}}"),
        )])
    };
    assert_eq!(workers(&[]), Err(Defect::ControlsMissing));
    assert_eq!(workers(&[(CONTROL_CONFIG, "{}")]), Err(Defect::ControlsMissing));
    assert_eq!(workers(&[(CONTROL_CONFIG, r#"{"work_queue_workflows":["a"]}"#)]), Err(Defect::ControlsMissing));
    assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (CONTROL_CONFIG, "{}")]), Err(Defect::ControlsMissing));
    let half = r#"{"dispatch_workflow":{"aw_context_workflows":["a","b"]}}"#;
    assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (HANDLER_CONFIG, half)]), Err(Defect::ControlsMissing));

    for bad in [
        "null",
        "\"a\"",
        "{}",
        "[1]",
        "[null]",
        "[\"\"]",
        "[\"../a\"]",
        "[\"a/b\"]",
        "[\".a\"]",
        "[\"a b\"]",
        "[\"${{ x }}\"]",
    ] {
        assert_eq!(lists(bad, r#"["a"]"#), Err(Defect::ControlsMalformed), "{bad}");
        assert_eq!(lists(r#"["a"]"#, bad), Err(Defect::ControlsMalformed), "{bad}");
    }
    for bad in ["", "{", "[]", "null", "${{ vars.CONFIG }}", "{\"a\":1}{"] {
        assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (CONTROL_CONFIG, bad)]), Err(Defect::ControlsMalformed), "{bad}");
        assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (HANDLER_CONFIG, bad)]), Err(Defect::ControlsMalformed), "{bad}");
    }
    assert_eq!(workers(&[(HANDLER_CONFIG, "{\"dispatch_workflow\":[]}")]), Err(Defect::ControlsMalformed));

    assert_eq!(lists(r#"["a","a"]"#, r#"["a"]"#), Err(Defect::ControlsDuplicated));
    let twice = r#"{"work_queue_workflows":["a"],"aw_context_workflows":["a"],"work_queue_workflows":["a"]}"#;
    assert_eq!(workers(&[(CONTROL_CONFIG, twice)]), Err(Defect::ControlsDuplicated));
    let sections = format!("{{\"dispatch_workflow\":{SOUND},\"dispatch_workflow\":{SOUND}}}");
    assert_eq!(workers(&[(HANDLER_CONFIG, &sections)]), Err(Defect::ControlsDuplicated));

    assert_eq!(lists(r#"["a"]"#, r#"["b"]"#), Err(Defect::ControlsAmbiguous));
    let other = SOUND.replace("\"b\"", "\"c\"");
    assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (CONTROL_CONFIG, &other)]), Err(Defect::ControlsAmbiguous));
    assert_eq!(workers(&[(CONTROL_CONFIG, SOUND), (HANDLER_CONFIG, &other)]), Err(Defect::ControlsAmbiguous));
    let split = format!("{{\"dispatch_workflow\":{other},{}", &SOUND[1..]);
    assert_eq!(workers(&[(HANDLER_CONFIG, &split)]), Err(Defect::ControlsAmbiguous));
}

/// A source is a dispatcher if it uses the queue, is no worker and names different workers.
#[test]
fn a_source_is_a_dispatcher_or_says_why_not() {
    let check = |front: &str| SourceFile::read(format!("---\n{front}\n---\n").as_bytes()).unwrap().check_dispatcher();
    let list = |list: &str| {
        check(&format!("tools: {{work-queue: true}}\nsafe-outputs: {{dispatch-workflow: {{workflows: {list}}}}}"))
    };
    assert_eq!(list("[b, a]"), Ok(names(&["a", "b"])));
    for bad in ["[]", "a", "[a, a]", "[1]", "[null]", "[a/b]", "['../a']", "{a: b}", "null", "['${{ x }}']"] {
        assert_eq!(list(bad), Err(Defect::WorkersMissing), "{bad}");
    }
    assert_eq!(check("tools: {work-queue: true}"), Err(Defect::WorkersMissing));
    let with = |queue: &str| check(&format!("tools: {queue}\nsafe-outputs: {{dispatch-workflow: {{workflows: [a]}}}}"));
    assert_eq!(with("{work-queue: {}}"), Ok(names(&["a"])));
    assert_eq!(with("{work-queue: }"), Ok(names(&["a"])));
    assert_eq!(with("{}"), Err(Defect::NoQueue));
    assert_eq!(with("{work-queue: false}"), Err(Defect::NoQueue));
    assert_eq!(with("{work-queue: {worker: true}}"), Err(Defect::IsWorker));
    assert_eq!(with("{work-queue: {require-assignment: true}}"), Err(Defect::IsWorker));
}
