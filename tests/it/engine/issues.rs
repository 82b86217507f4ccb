//! What projectors may record: Issues and comments of Work, each bound once.

use serde_json::{Value, json};
use wq_action::protocol::request::RequestKind;

use crate::support::built::{ADMINISTRATOR, Grant, Node, Outcome, PRODUCER, Queue, aw_policy, issue, nodes};
use crate::support::ledger::policy;

const INTAKE: &str = ".github/workflows/intake.lock.yml";

/// A role of the run that submits in these tests.
fn intake(role: &str) -> String {
    json!({"role": role, "principal": "1001", "repository": "owner/repo", "workflow": INTAKE, "run_id": "55",
        "run_attempt": 1})
    .to_string()
}

/// The projector in the run of a Claim.
fn projector(grant: &Grant) -> Value {
    let mut actor: Value = serde_json::from_str(&grant.worker()).unwrap();
    actor["role"] = "projector".into();
    actor
}

fn link(key: &str, resource: u64) -> Value {
    json!({"kind": "IssueLink", "work_id": Node::new(key).id(), "resource": issue(resource),
        "projector_ref": "0".repeat(40)})
}

fn comment(key: &str, id: &str) -> Value {
    json!({"kind": "IssueComment", "work_id": Node::new(key).id(), "comment_id": id, "projector_ref": "0".repeat(40)})
}

fn project(queue: &mut Queue, actor: &str, at: i64, operation: &Value) -> Outcome<()> {
    queue.operate(RequestKind::IssueLink, actor, at, std::slice::from_ref(operation))
}

fn code(outcome: Outcome<()>) -> String {
    outcome.err().unwrap_or_else(|| "accepted".to_owned())
}

/// A queue whose Work `a`, `b` and `c` the intake run admitted.
fn queue(policy: &Value) -> Queue {
    let mut queue = Queue::open(policy, &[Node::new("first")]);
    queue.submit(&intake("producer"), 1500, &["a", "b", "c"].map(Node::new)).unwrap();
    queue
}

/// A rule for the intake run, with these exact Issues.
fn rule(issues: &[u64]) -> Value {
    let mut rule = json!({"principal": "1001", "workflow": INTAKE, "ref": "0".repeat(40), "pools": ["default"],
        "repositories": ["owner/repo"]});
    if !issues.is_empty() {
        rule["backing_issues"] = issues.iter().map(|number| issue(*number)).collect();
    }
    rule
}

/// O-135: one Issue never belongs to two Works, whichever way and in whichever order they ask for it.
#[test]
fn an_issue_belongs_to_one_work() {
    let mut policy = aw_policy();
    policy["projectors"] = json!([rule(&[5, 6, 7])]);
    let mut queue = queue(&policy);
    let actor = intake("projector");
    let backed = |key: &str, resource: u64| Node::new(key).with("backing_issue", issue(resource));
    project(&mut queue, &actor, 2000, &link("a", 5)).unwrap();
    assert_eq!(queue.work("a")["issue_link"], issue(5));
    assert_eq!(project(&mut queue, &actor, 2001, &link("b", 5)).unwrap_err(), "issue_binding_conflict");
    assert_eq!(queue.submit(PRODUCER, 2002, &[backed("d", 5)]).unwrap_err(), "issue_binding_conflict");
    queue.submit(&intake("producer"), 2003, &[backed("e", 6)]).unwrap();
    assert_eq!(project(&mut queue, &actor, 2004, &link("b", 6)).unwrap_err(), "issue_binding_conflict");
    assert_eq!(queue.submit(PRODUCER, 2005, &[backed("f", 6)]).unwrap_err(), "issue_binding_conflict");
    let twins = [backed("g", 7), backed("h", 7)];
    assert_eq!(queue.submit(PRODUCER, 2006, &twins).unwrap_err(), "issue_binding_conflict");
    // Coordinates for display do not make another Issue.
    let mut renamed = link("b", 5);
    renamed["resource"]["number"] = "77".into();
    assert_eq!(project(&mut queue, &actor, 2007, &renamed).unwrap_err(), "issue_binding_conflict");
    // Two writers in one commit are two writers.
    let both = [link("b", 8), link("c", 8)];
    let refused = queue.operate(RequestKind::IssueLink, &actor, 2008, &both);
    assert_eq!(refused.unwrap_err(), "issue_binding_conflict");
    assert_eq!(queue.work("b").get("issue_link"), None);
    // A node's own Issue is linked without effect, and to no other.
    project(&mut queue, &actor, 2009, &link("e", 6)).unwrap();
    assert_eq!(queue.work("e").get("issue_link"), None);
    assert_eq!(project(&mut queue, &actor, 2010, &link("e", 9)).unwrap_err(), "issue_binding_conflict");
}

/// O-131: `backing_issue`, `subject` and a gate each say one thing, in the same Issue or in others: a Work with a backing
/// Issue waits for nothing and has no subject (what it may then write is the test of scopes'), and one with subject and
/// gate belongs to no Issue, so another may.
#[test]
fn a_backing_issue_implies_nothing_and_nothing_implies_it() {
    let mut policy = aw_policy();
    policy["projectors"] = json!([rule(&[5])]);
    let gated = Node::new("gated").gate(5, "closed").with("subject", issue(5));
    let mut queue = Queue::open(&policy, &[gated]);
    assert!(queue.state.work(&Node::new("gated").id()).unwrap().bound_issue().is_none());
    queue.submit(&intake("producer"), 1500, &[Node::new("backed").with("backing_issue", issue(5))]).unwrap();
    let backed = queue.state.work(&Node::new("backed").id()).unwrap();
    assert!(backed.bound_issue().is_some() && backed.work.subject.is_none() && backed.work.depends_on.is_empty());
    let granted = queue.grant(1600, 2, 2).unwrap();
    assert_eq!(granted.len(), 1, "the gate holds its own Work alone");
    assert_eq!(granted[0].work, Node::new("backed").id());
}

/// O-136: an Issue, a summary and a Claim's comment are recorded once; the same again changes nothing, another one is
/// refused, also for the Claim of an earlier attempt.
#[test]
fn bindings_never_change() {
    let mut queue = queue(&aw_policy());
    let actor = intake("projector");
    assert_eq!(project(&mut queue, &actor, 2000, &comment("a", "c1")).unwrap_err(), "issue_binding_invalid");
    project(&mut queue, &actor, 2000, &link("a", 5)).unwrap();
    project(&mut queue, &actor, 2001, &comment("a", "c1")).unwrap();
    queue.cancel_work(ADMINISTRATOR, &Node::new("first").id(), 2002).unwrap();
    let first = queue.grant(2003, 1, 1).unwrap().remove(0);
    queue.start(&first, 2100).unwrap();
    queue.bind(&first, 2101).unwrap();
    let claimed = |grant: &Grant, id: &str| {
        let mut operation = comment(&grant.node, id);
        operation["claim_id"] = grant.claim.as_str().into();
        operation
    };
    let worker = projector(&first).to_string();
    project(&mut queue, &worker, 2200, &claimed(&first, "c2")).unwrap();
    queue.finish(&first, "cancelled", 2201).unwrap();
    let before = queue.document();
    for (actor, operation, outcome) in [
        (&actor, link("a", 5), "accepted"),
        (&actor, comment("a", "c1"), "accepted"),
        (&worker, claimed(&first, "c2"), "accepted"),
        (&actor, link("a", 6), "issue_binding_conflict"),
        (&actor, comment("a", "c3"), "issue_binding_conflict"),
        (&worker, claimed(&first, "c3"), "issue_binding_conflict"),
        // A comment shows one thing.
        (&worker, claimed(&first, "c1"), "issue_binding_conflict"),
        (&actor, comment("a", "c2"), "issue_binding_conflict"),
    ] {
        assert_eq!(code(project(&mut queue, actor, 2300, &operation)), outcome, "{operation}");
    }
    for member in ["works", "claims"] {
        assert_eq!(queue.document()[member], before[member]);
    }
    project(&mut queue, &actor, 2400, &link("b", 6)).unwrap();
    assert_eq!(project(&mut queue, &actor, 2401, &comment("b", "c1")).unwrap_err(), "issue_binding_conflict");
    // A Claim lends its authority to the summary too, but to no other Claim's comment.
    let mut lent = comment("a", "c1");
    lent["authority_claim_id"] = first.claim.as_str().into();
    project(&mut queue, &worker, 2402, &lent).unwrap();
    lent["claim_id"] = "c_other_1".into();
    lent["comment_id"] = "c9".into();
    assert_eq!(project(&mut queue, &worker, 2403, &lent).unwrap_err(), "projection_unauthorized");
}

/// Who may write into an AW-managed queue's own Issues: the run that admitted the Work, or the bound run of its Claim, and
/// nobody on another's word. Unknown Work, Claims and pull requests are refused, and nothing of this moves the schedule.
#[test]
fn projectors_show_their_own_work() {
    let mut queue = queue(&aw_policy());
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.start(&grant, 2100).unwrap();
    queue.bind(&grant, 2101).unwrap();
    let next = |queue: &Queue| queue.clone().grant(5000, 9, 9).map(|grants| nodes(&grants).join(" "));
    let order = next(&queue);
    let as_intake = |member: &str, value: Value| {
        let mut actor: Value = serde_json::from_str(&intake("projector")).unwrap();
        actor[member] = value;
        project(&mut queue.clone(), &actor.to_string(), 2200, &link("a", 5))
    };
    assert_eq!(code(as_intake("principal", json!("1001"))), "accepted");
    for (member, value) in [
        ("principal", json!("7")),
        ("run_id", json!("56")),
        ("run_attempt", json!(2)),
        ("workflow", json!(".github/workflows/other.lock.yml")),
        ("workflow", json!(".github/workflows/intake.yml")),
    ] {
        assert_eq!(code(as_intake(member, value.clone())), "projection_unauthorized", "{member} {value}");
    }
    let bare = r#"{"role":"projector","principal":"1001","repository":"owner/repo"}"#;
    assert_eq!(code(project(&mut queue.clone(), bare, 2200, &link("a", 5))), "projection_unauthorized");
    // Work that a run without an identity admitted is shown by no run but its Claim's.
    let mut own = link("first", 5);
    assert_eq!(code(project(&mut queue.clone(), &intake("projector"), 2200, &own)), "projection_unauthorized");
    own["claim_id"] = grant.claim.as_str().into();
    let as_worker = |member: &str, value: Value| {
        let mut actor = projector(&grant);
        actor[member] = value;
        project(&mut queue.clone(), &actor.to_string(), 2200, &own)
    };
    assert_eq!(code(as_worker("run_attempt", json!(1))), "accepted");
    for (member, value) in
        [("run_id", json!("8")), ("dispatch_id", json!("d")), ("principal", json!("7")), ("run_attempt", json!(2))]
    {
        assert_eq!(code(as_worker(member, value)), "projection_unauthorized", "{member}");
    }
    let altered = |member: &str, value: Value| {
        let mut operation = own.clone();
        operation[member] = value;
        code(project(&mut queue.clone(), &projector(&grant).to_string(), 2200, &operation))
    };
    assert_eq!(altered("projector_ref", json!("1".repeat(40))), "projection_unauthorized");
    assert_eq!(altered("work_id", json!(Node::new("a").id())), "projection_unauthorized");
    assert_eq!(altered("claim_id", json!("c_none_1")), "projection_unauthorized");
    assert_eq!(altered("work_id", json!("0".repeat(64))), "issue_binding_invalid");
    let mut pull = issue(5);
    pull["kind"] = "pull_request".into();
    assert_eq!(altered("resource", pull), "issue_binding_invalid");
    let mut far = issue(5);
    far["repository"] = "far/away".into();
    assert_eq!(altered("resource", far), "resource_unauthorized");
    let mut unknown = comment("none", "c1");
    assert_eq!(code(project(&mut queue.clone(), &intake("projector"), 2200, &unknown)), "issue_binding_invalid");
    unknown["work_id"] = Node::new("a").id().into();
    project(&mut queue, &intake("projector"), 2201, &link("a", 5)).unwrap();
    project(&mut queue, &intake("projector"), 2202, &unknown).unwrap();
    assert_eq!(next(&queue), order);
}

/// O-122: under a historical Policy a rule must name exactly this principal, workflow, revision, repository and pool.
#[test]
fn historical_policies_need_a_rule() {
    let mut historical: Value = serde_json::from_str(&policy(false)).unwrap();
    historical["pools"]["other"] = historical["pools"]["default"].clone();
    historical["pools"]["default"]["allowed_repositories"] = json!(["owner/repo", "owner/shown"]);
    let outcome = |rule: Option<Value>| {
        let mut policy = historical.clone();
        if let Some(rule) = rule {
            policy["projectors"] = json!([rule]);
        }
        code(project(&mut queue(&policy), &intake("projector"), 2000, &link("a", 5)))
    };
    assert_eq!(outcome(Some(rule(&[]))), "accepted");
    assert_eq!(outcome(None), "projection_unauthorized");
    for (member, value) in [
        ("principal", json!("7")),
        ("workflow", json!(".github/workflows/other.lock.yml")),
        ("ref", json!("1".repeat(40))),
        ("repositories", json!(["owner/shown"])),
        ("pools", json!(["other"])),
    ] {
        let mut changed = rule(&[]);
        changed[member] = value;
        assert_eq!(outcome(Some(changed)), "projection_unauthorized", "{member}");
    }
}

/// O-123, O-129: a node names an existing Issue in the six members of an external dependency, identifiers as decimal
/// strings, and only where an installed rule lists exactly that Issue; AW-managed queues are no exception.
#[test]
fn existing_issues_are_granted_one_by_one() {
    let mut granting = aw_policy();
    granting["projectors"] = json!([rule(&[5])]);
    let admit = |policy: &Value, issue: &Value| {
        let node = Node::new("backed").with("backing_issue", issue.clone());
        code(queue(policy).submit(&intake("producer"), 2000, &[node]))
    };
    assert_eq!(admit(&granting, &issue(5)), "accepted");
    assert_eq!(admit(&granting, &issue(6)), "resource_unauthorized");
    assert_eq!(admit(&aw_policy(), &issue(5)), "resource_unauthorized");
    for (member, value, outcome) in [
        ("number", json!(5), "resource_invalid"),
        ("resource_id", json!("05"), "resource_invalid"),
        ("kind", json!("pull_request"), "resource_unauthorized"),
        ("host", json!("elsewhere.example"), "resource_unauthorized"),
        ("title", json!("x"), "ledger_invalid"),
    ] {
        let mut changed = issue(5);
        changed[member] = value;
        assert_eq!(admit(&granting, &changed), outcome, "{member}");
    }
    let mut short = issue(5);
    short.as_object_mut().unwrap().remove("repository_id");
    assert_eq!(admit(&granting, &short), "ledger_invalid");
}
