//! `wq trace`, through the binary: what happened around a request or a Claim, and nothing that was not to be seen.

use serde_json::{Value, json};

use crate::support::built::{ADMINISTRATOR, DISPATCHER, Node, Queue, aw_policy, seen};
use crate::support::cli::{Ran, feed, run};
use crate::support::git::Bare;
use crate::support::ledger::{HOST, typed};
use wq_action::engine::Projection;
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::protocol::At;
use wq_action::protocol::commit::Commit;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;

/// A bare repository that holds a ledger.
fn hold(text: &str) -> Bare {
    let bare = Bare::new();
    bare.seed(text.as_bytes());
    bare
}

fn ask(bare: &Bare, arguments: &[&str]) -> Ran {
    let mut all = vec!["trace", "--remote", "queue.git", "--repo", "owner/repo"];
    all.extend(arguments);
    run(bare.around(), &all)
}

fn trace(bare: &Bare, arguments: &[&str]) -> Value {
    ask(bare, &[arguments, &["--json"]].concat()).json(0)
}

fn kinds(answer: &Value) -> Vec<String> {
    let kind = |event: &Value| match event["state"].as_str() {
        Some(state) => format!("{}/{state}", event["kind"].as_str().unwrap()),
        None => event["kind"].as_str().unwrap().to_owned(),
    };
    answer["events"].as_array().unwrap().iter().map(kind).collect()
}

/// Two Work in one dispatch, one of them behind a gate; a third elsewhere; pauses, a priority, an end for each.
fn busy() -> (Queue, Vec<crate::support::built::Grant>) {
    let mut policy = aw_policy();
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 2.into();
    let nodes = [
        Node::new("a").gate(5, "completed").with("payload", json!({"task": "SECRET-PAYLOAD"})),
        Node::new("b").with("payload", json!({"task": "SECRET-PAYLOAD"})),
        Node::new("c").graph("elsewhere").priority(5),
    ];
    let mut queue = Queue::open(&policy, &nodes);
    let priority = json!({"kind": "WorkPriority", "work_id": nodes[1].id(), "priority": 2, "expected_priority": 3,
        "reason": "sooner"});
    queue.operate(RequestKind::Control, ADMINISTRATOR, 1500, &[priority]).unwrap();
    queue.control("admission_paused", &json!(true), 1600).unwrap();
    let looked = [seen("look-1", 5, "completed", 1700, &json!({})), seen("look-2", 6, "completed", 1700, &json!({}))];
    queue.operate(RequestKind::Observe, DISPATCHER, 1701, &looked).unwrap();
    let grants = queue.grant(2000, 2, 1).unwrap();
    assert!(grants.len() == 2 && grants[0].dispatch == grants[1].dispatch);
    queue.start(&grants[0], 2001).unwrap();
    queue.bind(&grants[0], 2002).unwrap();
    for grant in &grants {
        queue.finish(grant, "completed", 2003).unwrap();
        queue.result(grant, 2004).unwrap();
    }
    queue.release(&grants[0], 2005).unwrap();
    let mut route = policy["pools"]["default"]["profiles"]["default"].clone();
    route["ref"] = "1".repeat(40).into();
    let deployment = json!({"kind": "Deployment", "pool": "default", "worker_profile": "default",
        "expected_ref": "0".repeat(40), "expected_contract": "c".repeat(64), "profile": route, "available": true,
        "reason": "worker_deployed"});
    queue.operate(RequestKind::Deployment, ADMINISTRATOR, 2900, &[deployment]).unwrap();
    queue.grant(3000, 1, 1).unwrap();
    (queue, grants)
}

/// O-304, S-565, S-575, S-580: the events of a Claim or a request in causal order, in pages, the launch and binding of
/// the group beside what became of each Claim; whether trace data was there is said; receipts, payloads and
/// descriptors are not in it; and nothing is written.
#[test]
fn a_trace_is_what_happened_around_its_subject() {
    let (queue, grants) = busy();
    let bare = hold(&queue.text);
    let before = bare.contents();
    let claim = |name: &str| grants.iter().find(|grant| grant.node == name).unwrap();
    let of = |name: &str| trace(&bare, &["--claim-id", &claim(name).claim]);
    let around = |more: &[&'static str]| {
        let group = ["Claim", "Dispatch/started", "Dispatch/bound", "Completion", "Result", "Release"];
        [&["Policy", "Work"][..], more, &group, &["Deployment"]].concat()
    };
    assert_eq!(kinds(&of("b")), around(&["WorkPriority", "Control"]));
    assert_eq!(kinds(&of("a")), around(&["Control", "Observation/ready"]));
    let answer = of("a");
    assert_eq!(
        (answer["status"].as_str(), answer["trace_availability"].as_str()),
        (Some("operator_live_read"), Some("ledger_only"))
    );
    assert_eq!((answer["total_events"].as_u64(), answer["limit"].as_u64()), (Some(11), Some(100)));
    assert_eq!(
        (&answer["at"], answer["claim_id"].as_str()),
        (&answer["evaluated_at"], Some(claim("a").claim.as_str()))
    );
    assert!(answer["request_id"].is_null() && answer["next_offset"].is_null());
    let settled = &answer["events"].as_array().unwrap()[8];
    for (member, value) in [
        ("claim_handle", json!(claim("a").handle)),
        ("dispatch_id", json!(claim("a").dispatch)),
        ("work_id", json!(claim("a").work)),
        ("completion_id", json!(queue.completion(claim("a")))),
        ("request_kind", json!("result")),
        ("at", json!(2004)),
    ] {
        assert_eq!(settled[member], value, "{member}: {settled}");
    }
    assert_eq!(settled["evidence"]["source"], "verified_receipts");
    assert!(settled["evidence"]["receipt"].is_null() && settled["descriptor"].is_null());
    assert_eq!(settled["actor"]["role"], "reconciler");
    let commits: Vec<Value> = queue.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in answer["events"].as_array().unwrap() {
        let place = &event["position"];
        let commit = &commits[place["commit"].as_u64().unwrap() as usize];
        assert_eq!((&event["commit_id"], &event["previous"]), (&commit["id"], &commit["previous"]));
        assert_eq!(event["request_id"], commit["request"]["id"]);
        assert_eq!(event["kind"], commit["operations"][place["operation"].as_u64().unwrap() as usize]["kind"]);
    }

    // A request: its own events, and everything around the Work that they name.
    let grant = commits.iter().find(|commit| commit["at"] == 2000).unwrap()["request"]["id"].as_str().unwrap();
    let request = trace(&bare, &["--request-id", grant]);
    assert_eq!(request["request_id"], grant);
    assert_eq!(
        kinds(&request),
        [
            "Policy",
            "Work",
            "Work",
            "WorkPriority",
            "Control",
            "Observation/ready",
            "Claim",
            "Claim",
            "Dispatch/started",
            "Dispatch/bound",
            "Completion",
            "Result",
            "Completion",
            "Result",
            "Release",
            "Deployment"
        ]
    );
    // Both observations of one request are its own, though no Claim rests on the second.
    let look = commits.iter().find(|commit| commit["at"] == 1701).unwrap()["request"]["id"].as_str().unwrap();
    assert_eq!(kinds(&trace(&bare, &["--request-id", look])), ["Policy", "Observation/ready", "Observation/ready"]);

    let mut joined = Vec::new();
    for offset in (0..16).step_by(4) {
        let page = trace(&bare, &["--request-id", grant, "--offset", &offset.to_string(), "--limit", "4"]);
        assert_eq!(page["next_offset"].as_u64(), (offset + 4 < 16).then_some(offset + 4));
        joined.extend(page["events"].as_array().unwrap().iter().cloned());
    }
    assert_eq!(json!(joined), request["events"]);
    let people = ask(&bare, &["--request-id", grant, "--limit", "4"]);
    assert!(people.out.contains("events 1..4/16") && people.out.contains("trace data: none"), "{people:?}");
    assert!(people.out.is_ascii() && people.out.ends_with("--offset 4\n") && people.out.lines().count() == 8);
    assert_eq!(bare.contents(), before, "reading writes nothing");
}

/// S-570, S-580: correlation data changes no explanation, and where it is there, the trace says so and shows it.
#[test]
fn a_trace_says_whether_there_is_trace_data() {
    let (queue, grants) = busy();
    let member = r#","trace":{"publisher_attempt":2,"span_id":"s-1","trace_id":"t-1"},"version":3}"#;
    let bare = hold(&queue.text);
    let lines: Vec<String> = queue.text.lines().map(str::to_owned).collect();
    let carried = |test: fn(&str) -> bool| -> String {
        let line = |line: &String| match test(line) {
            true => line.replace(r#","version":3}"#, member) + "\n",
            false => line.clone() + "\n",
        };
        lines.iter().map(line).collect()
    };
    let all = hold(&carried(|_| true));
    let some = hold(&carried(|line| line.contains(r#""kind":"Release""#)));
    let claim = ["--claim-id", &grants[0].claim];
    let events = |answer: &Value| answer["events"].as_array().unwrap().len();
    let (without, with, last) = (trace(&bare, &claim), trace(&all, &claim), trace(&some, &claim));
    assert_eq!(with["trace_availability"], "correlated");
    assert_eq!((events(&without), without["trace_availability"].as_str()), (events(&with), Some("ledger_only")));
    let shown = json!({"publisher_attempt": 2, "span_id": "s-1", "trace_id": "t-1"});
    assert!(with["events"].as_array().unwrap().iter().all(|event| event["trace"] == shown));
    assert!(ask(&all, &claim).out.contains("trace data: correlated"));
    assert_eq!(last["trace_availability"], "correlated");
    let first = trace(&some, &["--claim-id", &grants[0].claim, "--limit", "1"]);
    assert_eq!(first["trace_availability"], "correlated", "though the event that carries it is on another page");
    let explain = |bare: &Bare| {
        let arguments =
            ["explain", "--claim-id", &grants[1].claim, "--remote", "queue.git", "--repo", "owner/repo", "--json"];
        let mut answer = run(bare.around(), &arguments).json(0);
        for member in ["sha", "evaluated_at"] {
            answer.as_object_mut().unwrap().remove(member);
        }
        answer
    };
    assert_eq!(explain(&bare), explain(&all));
}

/// The ledger after its history was replaced by its state.
fn compacted(queue: &Queue) -> Projection {
    let inputs = CheckpointInputs {
        prior_git_sha: &typed(&format!("\"{}\"", "a".repeat(40))),
        actor: &typed(ADMINISTRATOR),
        at: At::new(4000).unwrap(),
    };
    let mut scanner = Scanner::new(HOST);
    let built = queue.state.checkpoint(&inputs, &mut scanner).unwrap();
    let commit = Commit::read(&mut scanner, built.commit.text()).unwrap();
    Projection::empty().follow(commit, &mut scanner).unwrap()
}

/// O-018, O-303: compaction changes no trace and no explanation. A Claim is one attempt: what ended it cannot be
/// changed, and its handle names it in every event, after its settlement, its release, and where the history is gone.
#[test]
fn traces_and_explanations_survive_compaction() {
    let (mut queue, grants) = busy();
    for outcome in ["cancelled", "completed"] {
        assert!(queue.finish(&grants[0], outcome, 3500).is_err(), "its one attempt is over");
    }
    let text: String = compacted(&queue).active().map(|line| format!("{}\n", line.as_str())).collect();
    assert_eq!(text.lines().count(), 1);
    let (whole, short) = (hold(&queue.text), tempfile::tempdir().unwrap());
    let grant = queue.state.request(queue.state.claim(&grants[0].claim).unwrap().request_id.as_str()).unwrap();
    let request = grant.request_id.as_str();
    for selector in [["--claim-id", &grants[0].claim], ["--claim-id", &grants[1].claim], ["--request-id", request]] {
        let before = trace(&whole, &selector);
        let after = feed(short.path(), &[&["trace", "--ledger", "-", "--json"], &selector[..]].concat(), &text).json(0);
        assert_eq!(before["events"], after["events"]);
        assert_ne!(before["tip"], after["tip"]);
        for event in after["events"].as_array().unwrap().iter().filter(|event| event["claim_id"] == grants[0].claim) {
            assert_eq!(
                (&event["claim_handle"], &event["dispatch_id"]),
                (&json!(grants[0].handle), &json!(grants[0].dispatch))
            );
        }
        let place = ["--remote", "queue.git", "--repo", "owner/repo", "--json"];
        let told = run(whole.around(), &[&["explain"], &selector[..], &place].concat()).json(0);
        let kept =
            feed(short.path(), &[&["explain", "--ledger", "-", "--json"], &selector[..]].concat(), &text).json(0);
        let lasting = |answer: &Value| {
            let mut answer = answer.clone();
            let members = answer.as_object_mut().unwrap();
            // What names the moment, and the word that only a grant replayed here has.
            for member in ["tip", "sha", "evaluated_at", "label"] {
                members.remove(member);
            }
            for claim in answer["claims"].as_array_mut().into_iter().flatten() {
                claim.as_object_mut().unwrap().remove("tip");
            }
            answer
        };
        assert_eq!(lasting(&told), lasting(&kept));
    }
    // The checkpoint is an event of its own request, after everything that it replaced; what follows comes after it.
    let checkpoint: Value = serde_json::from_str(text.trim_end()).unwrap();
    let own = checkpoint["request"]["id"].as_str().unwrap();
    let arguments = ["trace", "--ledger", "-", "--json", "--request-id", own];
    let answer = feed(short.path(), &arguments, &text).json(0);
    let last = answer["events"].as_array().unwrap().last().unwrap();
    let commits = queue.text.lines().count();
    assert_eq!((last["kind"].as_str(), &last["position"]["commit"]), (Some("Checkpoint"), &json!(commits)));
    assert!(last["state"].is_null());
    let inspect = ["inspect", "--ledger", "-", "--claim-id", &grants[0].claim];
    assert!(feed(short.path(), &inspect, &text).out.contains(&format!("Handle: \"{}\"", grants[0].handle)));
}

/// Exactly one selector, a page within its bounds, known ids: anything else is refused by its code, the form of the
/// command line before anything is read.
#[test]
fn a_trace_is_about_one_thing() {
    let nothing = Bare::new();
    let long = "x".repeat(257);
    for arguments in [
        &[][..],
        &["--claim-id", "c", "--request-id", "r"],
        &["--claim-id", ""],
        &["--request-id", ""],
        &["--claim-id", &long],
        &["--claim-id", "c", "--limit", "0"],
        &["--claim-id", "c", "--limit", "257"],
        &["--claim-id", "c", "--offset", "-1"],
    ] {
        assert_eq!(ask(&nothing, &[arguments, &["--json"]].concat()).error(2), "inspection_invalid", "{arguments:?}");
    }
    assert_eq!(ask(&nothing, &["--claim-id", "c", "--json"]).error(4), "queue_missing");
    let (queue, grants) = busy();
    let bare = hold(&queue.text);
    let refused = |arguments: &[&str]| ask(&bare, &[arguments, &["--json"]].concat()).error(2);
    assert_eq!(refused(&["--claim-id", "none"]), "claim_missing");
    assert_eq!(refused(&["--request-id", "none"]), "request_missing");
    for offset in ["11", "12", "9007199254740991"] {
        assert_eq!(refused(&["--claim-id", &grants[0].claim, "--offset", offset]), "inspection_invalid");
    }
    assert_eq!(
        trace(&bare, &["--claim-id", &grants[0].claim, "--offset", "10"])["events"].as_array().unwrap().len(),
        1
    );
}

/// O-304: a page of events holds at most 64 KiB too, whatever their Claims rest on.
#[test]
fn pages_of_long_events_are_bounded_in_bytes() {
    let wide = |number: u32| -> String {
        let mut id: String = std::iter::repeat_n('\u{1f600}', 61).collect();
        id.extend(format!("{number:03}").chars().map(|digit| char::from_u32(0x1_f600 + digit as u32).unwrap()));
        id
    };
    let nodes: Vec<Node> = (0..12)
        .map(|number| (0..64).fold(Node::new(&format!("n{number}")), |node, gate| node.gate(gate + 1, "closed")))
        .collect();
    let mut queue = Queue::open(&aw_policy(), &nodes);
    let looked: Vec<Value> =
        (0..64).map(|gate| seen(&wide(gate), u64::from(gate) + 1, "closed", 1500, &json!({}))).collect();
    queue.operate(RequestKind::Observe, DISPATCHER, 1501, &looked).unwrap();
    queue.grant(2000, 12, 12).unwrap();
    let bare = hold(&queue.text);
    let grant = queue.state.requests().last().unwrap().request_id.as_str().to_owned();
    let (mut offset, mut found, mut asked) = (0, 0, 0);
    loop {
        let place = offset.to_string();
        let arguments = ["--request-id", &grant, "--offset", &place, "--limit", "256"];
        let ran = ask(&bare, &[&arguments[..], &["--json"]].concat());
        let people = ask(&bare, &arguments);
        assert!(ran.out.len() <= 65_536 && people.out.len() <= 65_536 && people.out.is_ascii());
        let answer = ran.json(0);
        found += answer["events"].as_array().unwrap().len() as u64;
        asked += 1;
        match answer["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break assert_eq!(answer["total_events"].as_u64(), Some(found)),
        }
    }
    assert!(asked > 3 && found == 1 + 12 + 64 + 12, "{asked} {found}");
}

/// S-569: no view shows a payload, a descriptor, a receipt or a line of the log, whichever way it is asked.
#[test]
fn views_are_made_of_metadata() {
    let (queue, grants) = busy();
    let text = queue.text.replace(r#""receipt":"receipt""#, r#""receipt":"SECRET-RECEIPT""#);
    let bare = hold(&queue.text);
    assert!(text.contains("SECRET-RECEIPT") && text.contains("SECRET-PAYLOAD"));
    let (claim, work) = (grants[0].claim.as_str(), grants[0].work.as_str());
    let grant = queue.state.requests().nth(4).unwrap().request_id.as_str().to_owned();
    let before = bare.contents();
    for arguments in [
        &["state"][..],
        &["state", "--search", "SECRET"],
        &["stats"],
        &["inspect", "--work-id", work],
        &["inspect", "--claim-id", claim],
        &["explain"],
        &["explain", "--work-id", work],
        &["explain", "--claim-id", claim],
        &["explain", "--request-id", &grant],
        &["trace", "--claim-id", claim],
        &["trace", "--request-id", &grant],
        &["trace", "--request-id", "r0"],
        &["replay"],
    ] {
        for form in [&[][..], &["--json"]] {
            if arguments == ["replay"] && !form.is_empty() {
                continue;
            }
            let all = [arguments, &["--remote", "queue.git", "--repo", "owner/repo"], form].concat();
            let ran = run(bare.around(), &all);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{all:?}");
            for hidden in
                ["SECRET", r#""done""#, "\"receipt\"", "fingerprint", "max_bytes", "\"payload\"", "descriptor\":"]
            {
                assert!(!ran.out.contains(hidden), "{all:?} shows {hidden}: {}", ran.out);
            }
        }
    }
    assert_eq!(bare.contents(), before, "no read writes to the repository");
}
