//! Reads of a graph with many paths between two nodes.

use std::time::{Duration, Instant};

use wq_action::protocol::At;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{ADMINISTRATOR, Node, Queue, aw_policy};

const NODES: usize = 250;
const EDGES: usize = 20;

fn key(number: usize) -> String {
    format!("n{number}")
}

/// In a graph in which each node waits for the 20 before it, a view of every node says what holds it back, and takes time
/// that grows with the edges, not with the paths: walking each predecessor's ancestors anew took a hundred times as long.
#[test]
fn a_dense_graph_is_explained_edge_by_edge() {
    let nodes: Vec<Node> = (0..NODES)
        .map(|number| {
            (number.saturating_sub(EDGES)..number)
                .fold(Node::new(&key(number)), |node, before| node.after(&key(before)))
        })
        .collect();
    // Every assignment has room for the Results of all predecessors, so many of them means small ones.
    let mut policy = aw_policy();
    policy["limits"]["result_bytes"] = 256.into();
    let mut queue = Queue::open(&policy, &nodes);
    let at = At::new(1_000_000).unwrap();
    let labels = |queue: &Queue| -> Vec<&'static str> {
        queue.state.works().map(|work| queue.state.view_work(work, at, None).label).collect()
    };
    let begun = Instant::now();
    assert!(labels(&queue)[1..].iter().all(|label| *label == "dependency_wait"));
    let last = queue.state.work(&nodes[NODES - 1].id()).unwrap();
    let view = queue.state.view_work(last, at, None);
    let path: Vec<String> = view.blocking_path.iter().map(ToString::to_string).collect();
    let expected: Vec<String> = (0..NODES - 1).rev().skip(EDGES - 1).step_by(EDGES).map(|at| nodes[at].id()).collect();
    assert_eq!(path[..expected.len()], expected);
    assert_eq!((view.unresolved.len(), view.unresolved_total), (8, EDGES));

    let cancelled = serde_json::json!({"kind": "WorkCancellation", "work_id": nodes[100].id(), "reason": "test"});
    queue.operate(RequestKind::CancelWork, ADMINISTRATOR, 2000, &[cancelled]).unwrap();
    for (number, label) in labels(&queue).into_iter().enumerate() {
        let expected = match number {
            0 => "fifo_default",
            100 => "ownership_cancelled",
            1..100 => "dependency_wait",
            _ => "dependency_failed",
        };
        assert!(label == expected || number == 0, "{number}: {label}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
