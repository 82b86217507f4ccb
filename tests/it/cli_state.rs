//! `wq state`, through the binary: which rows there are, in which order, and how much of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::built::{ADMINISTRATOR, Grant, Node, PRODUCER, Queue, aw_policy};
use crate::support::cli::{Ran, run};
use crate::support::git::Bare;
use crate::support::tell;
use wq_action::protocol::request::RequestKind;

/// A bare repository that holds a queue.
fn hold(queue: &Queue) -> Bare {
    let bare = Bare::new();
    bare.seed(queue.text.as_bytes());
    bare
}

fn ask(bare: &Bare, arguments: &[&str]) -> Ran {
    let mut all = vec!["state", "--remote", "queue.git", "--repo", "owner/repo"];
    all.extend(arguments);
    run(bare.around(), &all)
}

fn rows(answer: &Value) -> Vec<String> {
    answer["rows"].as_array().unwrap().iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

fn id_rows(answer: &Value) -> Vec<String> {
    let short = |row: &Value| format!("{} {}", row["kind"].as_str().unwrap(), row["id"].as_str().unwrap());
    answer["rows"].as_array().unwrap().iter().map(short).collect()
}

/// Two graphs: in the first a Work with two attempts, one that waits for it, and a cancelled one.
fn mixed() -> (Queue, [Node; 4]) {
    let nodes = [
        Node::new("tried"),
        Node::new("waits").after("tried").priority(1),
        Node::new("gone"),
        Node::new("Other").graph("a graph").profile("default"),
    ];
    let mut queue = Queue::open(&aw_policy(), &nodes[..3]);
    queue.submit(PRODUCER, 1001, &nodes[3..]).unwrap();
    let first = queue.grant(2000, 1, 1).unwrap().remove(0);
    assert_eq!(first.node, "tried");
    queue.cancel_work(ADMINISTRATOR, &nodes[2].id(), 2001).unwrap();
    try_again(&mut queue, &first, 2002);
    (queue, nodes)
}

/// Takes a Claim back, and grants its Work again together with another one.
fn try_again(queue: &mut Queue, grant: &Grant, at: i64) {
    queue.start(grant, at).unwrap();
    queue.bind(grant, at + 1).unwrap();
    let retry = at + 100_000;
    queue.cancel_claim(grant, at + 2, retry).unwrap();
    queue.release(grant, at + 3).unwrap();
    let grants = queue.grant(retry + 1, 2, 2).unwrap();
    assert!(grants.len() == 2 && grants.iter().any(|again| again.work == grant.work));
}

/// O-296: graphs, Work and Claims are an ASCII tree of metadata, in the order of graph, place of admission and attempt,
/// filtered by graph, pool, state and text.
#[test]
fn the_tree_holds_what_the_filters_admit() {
    let (queue, [tried, waits, gone, other]) = mixed();
    let bare = hold(&queue);
    let answer = ask(&bare, &["--json"]).json(0);
    let state = queue.document();
    let claims = |id: &str| -> Vec<String> {
        let mut claims: Vec<(bool, String)> = state["claims"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, claim)| claim["work_id"] == id)
            .map(|(id, claim)| (claim["state"] != "open", id.clone()))
            .collect();
        claims.sort();
        claims.into_iter().map(|(_, id)| format!("claim {id}")).collect()
    };
    let (attempts, others) = (claims(&tried.id()), claims(&other.id()));
    assert_eq!((attempts.len(), others.len()), (2, 1));
    let all = [
        vec!["graph a graph".to_owned(), format!("work {}", other.id()), others[0].clone()],
        vec!["graph graph".to_owned(), format!("work {}", tried.id()), attempts[0].clone(), attempts[1].clone()],
        vec![format!("work {}", waits.id()), format!("work {}", gone.id())],
    ]
    .concat();
    assert_eq!(id_rows(&answer), all);
    assert_eq!(answer["total_rows"].as_u64(), Some(9));
    assert!(answer["next_offset"].is_null());
    let texts = rows(&answer);
    let shape = |text: &str| text.split('"').step_by(2).map(str::to_owned).collect::<Vec<_>>().join("_");
    assert_eq!(
        texts.iter().map(|text| shape(text)).collect::<Vec<_>>(),
        [
            "Graph _",
            r"\-- [-] W _ _ [claimed P3 delivery=none]",
            r"    \-- C _ [open current] handle=_ dispatch=_",
            "Graph _",
            r"+-- [-] W _ _ [claimed P3 delivery=none]",
            r"|   +-- C _ [open current] handle=_ dispatch=_",
            r"|   \-- C _ [cancelled history] handle=_ dispatch=_",
            r"+-- [-] W _ _ [available P1 delivery=none] dependency_wait",
            r"\-- [-] W _ _ [cancelled P3 delivery=none]",
        ]
    );
    let work = &answer["rows"][7];
    assert_eq!((work["ready"].as_bool(), work["label"].as_str()), (Some(false), Some("dependency_wait")));
    assert_eq!(work["reason"], "dependency_result_unavailable");
    assert_eq!(work["blocking_path"], json!([tried.id()]));
    assert_eq!(work["unresolved"], json!([{"kind": "work", "id": tried.id(), "reason": "dependency_wait"}]));
    assert_eq!((work["unresolved_total"].as_u64(), work["priority"].as_u64()), (Some(1), Some(1)));
    let people = ask(&bare, &[]);
    assert!(people.code == 0 && texts.iter().all(|text| people.out.contains(text)), "{people:?}");
    assert!(people.out.is_ascii() && people.out.contains("rows 1..9/9"));

    let found = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.push("--json");
        let answer = ask(&bare, &all).json(0);
        assert_eq!(answer["total_rows"].as_u64(), Some(answer["rows"].as_array().unwrap().len() as u64));
        id_rows(&answer)
    };
    assert_eq!(found(&["--graph", "a graph"]), all[..3]);
    assert_eq!(found(&["--graph", "a grap"]), [""; 0]);
    assert_eq!(found(&["--pool", "default"]), all);
    assert_eq!(found(&["--pool", "none"]), [""; 0]);
    assert_eq!(found(&["--state", "cancelled"]), ["graph graph".to_owned(), all[8].clone()]);
    assert_eq!(found(&["--state", "claimed", "--graph", "graph"]), all[3..7]);
    // A Work that matches comes with all its Claims, whatever the case; a Claim that matches comes with its Work alone.
    assert_eq!(found(&["--search", "TRIED"]), all[3..7]);
    let lost = attempts[1].strip_prefix("claim ").unwrap();
    assert_eq!(found(&["--search", lost]), [&all[3], &all[4], &all[6]].map(Clone::clone));
    assert_eq!(found(&["--search", "no such text"]), [""; 0]);
    assert_eq!(found(&["--search", ""]), all);
    assert!(ask(&bare, &["--search", "no such text"]).out.contains("rows none/0\nnothing matches\n"));
}

/// Sixty-four characters of four bytes: the longest identity and the longest text for one.
fn wide(number: u32) -> String {
    let mut key: String = std::iter::repeat_n('\u{1f600}', 60).collect();
    key.extend(format!("{number:04}").chars().map(|digit| char::from_u32(0x1_f600 + digit as u32).unwrap()));
    assert_eq!(key.len(), 256);
    key
}

/// All pages from the first on, each within its bounds in both forms.
fn pages(bare: &Bare, limit: &str) -> Vec<Value> {
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        let place = offset.to_string();
        let arguments = ["--offset", &place, "--limit", limit];
        let ran = ask(bare, &[&arguments[..], &["--json"]].concat());
        let people = ask(bare, &arguments);
        assert!(people.code == 0 && people.out.is_ascii());
        assert!(ran.out.len() <= 65_536 && people.out.len() <= 65_536, "{} {}", ran.out.len(), people.out.len());
        let answer = ran.json(0);
        let shown = answer["rows"].as_array().unwrap();
        assert!(!shown.is_empty() && shown.len() <= 256);
        assert!(shown.iter().all(|row| people.out.contains(row["text"].as_str().unwrap())), "both forms hold a page");
        for member in ["tip", "sha", "evaluated_at", "repository", "branch", "policy_epoch", "stats", "status"] {
            assert!(!answer[member].is_null(), "{member}");
        }
        assert_eq!(answer["offset"].as_u64(), Some(offset));
        found.extend(shown.iter().cloned());
        match answer["next_offset"].as_u64() {
            Some(next) => {
                assert_eq!(next, offset + shown.len() as u64);
                assert!(people.out.contains(&format!("--offset {next}\n")));
                offset = next;
            }
            None => {
                assert_eq!(answer["total_rows"].as_u64(), Some(found.len() as u64));
                return found;
            }
        }
    }
}

/// O-297, S-568, S-569: a page holds at most 256 rows and 64 KiB, in text as in JSON, whatever the names are; the
/// pages together are every row once; each says the tip and the time.
#[test]
fn pages_are_bounded_in_rows_and_bytes() {
    let mut policy = aw_policy();
    let account: String = wide(0).chars().skip(32).collect();
    policy["accounting_weights"][account.as_str()] = 1.into();
    let graph = wide(1);
    let nodes: Vec<Node> = (0..200)
        .map(|number| {
            let node = Node::new(&wide(number + 2)).graph(&graph).account(&account);
            // All wait for one, so that a row says so too.
            if number < 5 { node } else { node.after(&wide(2)) }
        })
        .collect();
    let mut queue = Queue::open(&policy, &nodes);
    queue.grant(2000, 5, 5).unwrap();
    let bare = hold(&queue);
    let found = pages(&bare, "256");
    assert_eq!(found.len(), 1 + 200 + 5);
    let bytes: usize = found.iter().map(|row| row.to_string().len()).sum();
    assert!(bytes / found.len() > 2_000, "the rows are long: {}", bytes / found.len());
    let ids: std::collections::BTreeSet<&str> = found.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), found.len());
    assert_eq!(pages(&bare, "7"), found);

    let short: Vec<Node> = (0..255).map(|number| Node::new(&format!("n{number:03}"))).collect();
    let mut queue = Queue::open(&aw_policy(), &short);
    queue.grant(2000, 9, 9).unwrap();
    assert_eq!(pages(&hold(&queue), "256").len(), 1 + 255 + 9);
}

/// Selectors and pages out of bounds are refused before anything is read; an offset beyond the end is an empty page; an
/// absent queue is no empty one.
#[test]
fn bad_pages_are_refused_and_empty_ones_shown() {
    let bare = Bare::new();
    let long = "x".repeat(257);
    for arguments in [
        &["--limit", "0"][..],
        &["--limit", "257"],
        &["--limit", "-1"],
        &["--offset", "-1"],
        &["--offset", "9007199254740992"],
        &["--graph", ""],
        &["--pool", ""],
        &["--graph", &long],
        &["--search", &long],
    ] {
        let mut all = arguments.to_vec();
        all.push("--json");
        assert_eq!(ask(&bare, &all).error(2), "inspection_invalid", "{arguments:?}");
    }
    for arguments in [&["--state", "open"][..], &["--limit", "many"], &["--request-id"], &["extra"]] {
        let mut all = arguments.to_vec();
        all.push("--json");
        assert_eq!(ask(&bare, &all).error(2), "usage_invalid", "{arguments:?}");
    }
    assert_eq!(ask(&bare, &["--json"]).error(4), "queue_missing");
    let bare = hold(&mixed().0);
    for offset in ["9", "10", "9007199254740991"] {
        let answer = ask(&bare, &["--offset", offset, "--json"]).json(0);
        assert_eq!((answer["rows"].clone(), answer["total_rows"].as_u64()), (json!([]), Some(9)));
        assert!(answer["next_offset"].is_null() && answer["tip"].is_string());
        assert!(ask(&bare, &["--offset", offset]).out.contains("rows none/9"));
    }
}

/// Two thousand Work, a thousand of them in one chain of dependencies (more cannot be open at once): a page, a search,
/// an explanation and a trace come at once.
#[test]
fn a_long_queue_is_shown_at_once() {
    let node = |number: usize| Node::new(&format!("n{number:04}"));
    let mut policy = aw_policy();
    // As little reserve for each Work as there can be, so that as many as possible fit.
    policy["pools"]["default"]["retry"]["max_attempts"] = 1.into();
    policy["limits"]["result_bytes"] = 16.into();
    policy["limits"]["evidence_bytes"] = 16.into();
    let mut queue = Queue::open(&policy, &[node(0)]);
    for start in (0..1000).step_by(250) {
        let gone: Vec<Node> = (start..start + 250).map(|n| Node::new(&format!("gone{n}")).graph("gone")).collect();
        queue.submit(PRODUCER, 1001, &gone).unwrap();
        let end = |node: &Node| json!({"kind": "WorkCancellation", "work_id": node.id(), "reason": "unwanted"});
        let ends: Vec<Value> = gone.iter().map(end).collect();
        queue.operate(RequestKind::CancelWork, ADMINISTRATOR, 1002, &ends).unwrap();
    }
    for start in (1..1001).step_by(250) {
        let nodes: Vec<Node> = (start..start + 250).map(|n| node(n).after(&format!("n{:04}", n - 1))).collect();
        queue.submit(PRODUCER, 1003, &nodes).unwrap();
    }
    assert_eq!(queue.state.works().len(), 2001);
    let bare = hold(&queue);
    let last = node(1000).id();
    for arguments in [
        &["state", "--limit", "256", "--offset", "1700"][..],
        &["state", "--limit", "256"],
        &["state", "--search", "n1000"],
        &["inspect", "--work-id", &last],
        &["explain", "--work-id", &last],
        &["trace", "--request-id", "r0"],
    ] {
        let begun = Instant::now();
        let mut all = arguments.to_vec();
        all.extend(["--remote", "queue.git", "--repo", "owner/repo", "--json"]);
        let ran = run(bare.around(), &all);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{arguments:?}: {:?}", begun.elapsed());
        assert!(arguments[0] != "state" || ran.out.len() <= 65_536);
        tell!("{arguments:?}: {} bytes in {:?}", ran.out.len(), begun.elapsed());
    }
}
