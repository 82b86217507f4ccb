//! Who may write to what, asked of whole queues: every case of `resource-scope.json`, and what the cases leave out.

use serde_json::{Value, json};
use wq_action::engine::scope::EffectQuestion;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::resource_scope::{Target, TargetOrigin};
use wq_action::protocol::{Code, Opaque, Text};

use crate::support::built::{DISPATCHER, Grant, Node, Queue, aw_policy, issue};
use crate::support::corpus::load;
use crate::support::ledger::{HOST, typed};

/// The run that the published cases mean.
const RUN: &str = "202";

/// A node with the scope and subject of a case; both may be absent.
fn node(key: &str, holder: &Value) -> Node {
    let mut payload = json!({ "task": key });
    if let Some(scope) = holder.get("scope") {
        payload["resource_scope"] = scope.clone();
    }
    let node = Node::new(key).with("payload", payload);
    match holder.get("subject") {
        Some(subject) => node.with("subject", subject.clone()),
        None => node,
    }
}

/// A queue in which each holder's worker submitted the next one, and the last one's Claim, bound to [`RUN`].
fn lineage(policy: &Value, holders: &[&Value]) -> (Queue, Grant) {
    let key = |index: usize| format!("level{index}");
    let mut queue = Queue::open(policy, &[node(&key(0), holders[0])]);
    for (index, holder) in holders.iter().enumerate().skip(1) {
        let at = 10_000 * index as i64;
        let parent = queue.grant(at, 1, 1).unwrap().remove(0);
        queue.complete(&parent, at + 1).unwrap();
        queue.submit(&parent.worker(), at + 10, &[node(&key(index), holder)]).unwrap();
        queue.result(&parent, at + 20).unwrap();
    }
    let grant = queue.grant(900_000, 1, 1).unwrap().remove(0);
    assert_eq!(grant.node, key(holders.len() - 1));
    queue.start(&grant, 900_001).unwrap();
    let run = |text: &str| text.replace(&grant.run(), RUN);
    let evidence = grant.evidence("reconciliation", "trusted_activation", 900_002, &json!({}));
    let bound = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "bound", "run": grant.binding(),
        "evidence": evidence});
    let bound = serde_json::from_str(&run(&bound.to_string())).unwrap();
    queue.operate(RequestKind::Dispatch, &run(&grant.worker()), 900_002, &[bound]).unwrap();
    (queue, grant)
}

fn ask(queue: &Queue, grant: &Grant, target: &Value, origin: TargetOrigin) -> Result<(), Code> {
    let work = queue.state.work(&grant.work).unwrap().work.payload.clone();
    let mut scanner = Scanner::new(HOST);
    let target = Target::parse(&mut scanner, &Text::from(target.to_string())).map_err(|fault| fault.code())?;
    let question =
        EffectQuestion { dispatch_id: &grant.dispatch, handle: &grant.handle, work: &work, target: &target, origin };
    queue.state.check_effect(&mut scanner, &question).map_err(|fault| fault.code())
}

/// Every published case gives the published verdict, with a queue that really holds its Work, ancestors and run.
#[test]
fn published_targets() {
    let Some(data) = load("resource-scope.json") else { return };
    let groups = ["cases", "ancestor_cases"].map(|group| data[group].as_array().unwrap());
    for case in groups.into_iter().flatten() {
        let mut holders: Vec<&Value> = case["ancestors"].as_array().into_iter().flatten().collect();
        holders.push(case);
        let (queue, grant) = lineage(&aw_policy(), &holders);
        let answer = ask(&queue, &grant, &case["target"], TargetOrigin::Described);
        let expected = if case["valid"] == true { Ok(()) } else { Err(Code::ClaimScopeInvalid) };
        assert_eq!(answer, expected, "{}", case["name"]);
    }
    let count = groups.map(Vec::len);
    crate::support::tell!("{} targets and {} lineages judged on whole queues", count[0], count[1]);
}

fn native(more: &Value) -> Value {
    let mut target = json!({"host": HOST, "repository": "owner/repo", "repository_id": "9"});
    for (name, value) in more.as_object().unwrap() {
        target[name] = value.clone();
    }
    target
}

fn scoped(selectors: &[Value]) -> Value {
    json!({"scope": {"version": 1, "resources": selectors}})
}

/// Neither a backing Issue nor a dependency lets a Work write to that Issue.
#[test]
fn backing_issues_and_gates_permit_nothing() {
    let gated = Node::new("a").gate(5, "closed").with("backing_issue", issue(6)).value();
    let subject = Node::new("b").with("subject", issue(5)).value();
    for (holder, resource, fits) in [(&gated, 5, false), (&gated, 6, false), (&subject, 5, true), (&subject, 6, false)]
    {
        let mut scanner = Scanner::new(HOST);
        let target = Target::parse(&mut scanner, &Text::from(issue(resource).to_string())).unwrap();
        let resource = holder.get("subject").map(|one| typed(&one.to_string()));
        let check = wq_action::protocol::resource_scope::check_target;
        assert_eq!(check(None, resource.as_ref(), &target, TargetOrigin::Described).is_ok(), fits);
    }
}

/// Targets that the compiled broker registered need not be named to the last coordinate; everything else still holds.
#[test]
fn the_brokers_targets_are_exempt_from_naming_alone() {
    let (queue, grant) = lineage(&aw_policy(), &[&scoped(&[native(&json!({}))])]);
    for more in [json!({"run_id": RUN}), json!({"ref": "refs/heads/topic"}), json!({"path": "a/b"})] {
        let target = native(&more);
        assert_eq!(ask(&queue, &grant, &target, TargetOrigin::Broker), Ok(()), "{more}");
        assert_eq!(ask(&queue, &grant, &target, TargetOrigin::Described), Err(Code::ClaimScopeInvalid), "{more}");
    }
    for target in [
        native(&json!({"run_id": "203"})),
        native(&json!({"repository_id": "1", "path": "a/b"})),
        json!({"repository": "owner/repo", "path": "a/b"}),
    ] {
        assert_eq!(ask(&queue, &grant, &target, TargetOrigin::Broker), Err(Code::ClaimScopeInvalid), "{target}");
    }
    // A selector that names another path is not exempt either.
    let (queue, grant) = lineage(&aw_policy(), &[&scoped(&[native(&json!({"path": "a/c"}))])]);
    let target = native(&json!({"path": "a/b"}));
    assert_eq!(ask(&queue, &grant, &target, TargetOrigin::Broker), Err(Code::ClaimScopeInvalid));
    // A subject without a scope permits no path at all.
    let (queue, grant) = lineage(&aw_policy(), &[&json!({"subject": issue(5)})]);
    assert_eq!(ask(&queue, &grant, &issue(5), TargetOrigin::Broker), Ok(()));
    let mut target = issue(5);
    target["path"] = "a/b".into();
    assert_eq!(ask(&queue, &grant, &target, TargetOrigin::Broker), Err(Code::ClaimScopeInvalid));
}

/// The repository is the route's; a scope that names another one widens nothing, and neither does a foreign member,
/// handle, dispatch, payload or unbound run.
#[test]
fn the_question_must_be_the_members_own() {
    let repository = |name: &str| json!({"host": HOST, "repository": name, "repository_id": "9"});
    let both = scoped(&[repository("owner/repo"), repository("owner/other")]);
    let (queue, grant) = lineage(&aw_policy(), &[&both]);
    let described = |name: &str| ask(&queue, &grant, &repository(name), TargetOrigin::Described);
    assert_eq!(described("owner/repo"), Ok(()));
    assert_eq!(described("owner/other"), Err(Code::ClaimScopeInvalid));
    let mut scanner = Scanner::new(HOST);
    let target = Target::parse(&mut scanner, &Text::from(repository("owner/repo").to_string())).unwrap();
    let work = queue.state.work(&grant.work).unwrap().work.payload.clone();
    let other: Opaque = typed(r#"{"task":"other"}"#);
    let origin = TargetOrigin::Described;
    let mine =
        EffectQuestion { dispatch_id: &grant.dispatch, handle: &grant.handle, work: &work, target: &target, origin };
    assert!(queue.state.check_effect(&mut scanner, &mine).is_ok());
    for question in [
        EffectQuestion { handle: "h2", ..mine },
        EffectQuestion { dispatch_id: "d_other", ..mine },
        EffectQuestion { work: &other, ..mine },
    ] {
        let fault = queue.state.check_effect(&mut scanner, &question).unwrap_err();
        assert_eq!(fault.code(), Code::ClaimScopeInvalid);
    }
    // Before any run is bound, no run is the Claim's.
    let mut unbound = Queue::open(&aw_policy(), &[node("a", &scoped(&[native(&json!({"run_id": RUN}))]))]);
    let grant = unbound.grant(2000, 1, 1).unwrap().remove(0);
    let target = native(&json!({"run_id": RUN}));
    assert_eq!(ask(&unbound, &grant, &target, TargetOrigin::Described), Err(Code::ClaimScopeInvalid));
}

/// Work that a dispatcher submitted has no parent: the walk ends there, however it was granted.
#[test]
fn only_workers_are_parents() {
    let wide = scoped(&[native(&json!({}))]);
    let mut queue = Queue::open(&aw_policy(), &[node("first", &json!({}))]);
    queue.submit(DISPATCHER, 1500, &[node("second", &wide)]).unwrap();
    let granted = queue.grant(2000, 2, 2).unwrap();
    assert_eq!(ask(&queue, &granted[1], &native(&json!({})), TargetOrigin::Described), Ok(()));
    assert_eq!(ask(&queue, &granted[0], &native(&json!({})), TargetOrigin::Described), Err(Code::ClaimScopeInvalid));
}
