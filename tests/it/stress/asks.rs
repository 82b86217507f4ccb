//! What the competing processes ask for, chosen from a seed.

use std::time::Duration;

use serde_json::{Value, json};
use wq_action::ports::Entropy as _;
use wq_action::ports::SimulatedEntropy;

use super::stage::{Kill, Stage};
use crate::support::built::aw_policy;
use crate::support::ledger::work_id;

/// Claims that one Work may have.
pub(super) const MOST_ATTEMPTS: u32 = 3;

/// Numbers that follow from a seed.
pub(super) struct Dice(SimulatedEntropy);

impl Dice {
    /// A sequence of its own for every process of every round.
    pub(super) fn new(seed: u64, round: usize, process: usize) -> Self {
        let place = (round * 1000 + process) as u64;
        Self(SimulatedEntropy::new(seed ^ place.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.0.below(bound).unwrap()
    }

    fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// When the tries of one request are killed: not at all, once, or twice, at a moment before `latest`.
    pub(super) fn kills(&self, latest: Duration) -> Vec<Kill> {
        let times = match self.below(100) {
            0..55 => 0,
            55..90 => 1,
            _ => 2,
        };
        let kill = |_| Kill { after: latest * self.below(1000) as u32 / 1000, with_git: self.chance(50) };
        (0..times).map(kill).collect()
    }
}

/// What a request is about.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// New Work, by id.
    Submit(Vec<String>),
    /// Work that was admitted in an earlier round, submitted again under a new id.
    Again(String),
    /// The next grants.
    Dispatch,
}

/// One request: its id, and the arguments of the command that makes it.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) id: String,
    pub(super) asked: Asked,
    arguments: Vec<String>,
}

impl Ask {
    pub(super) fn new(id: &str, asked: Asked, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().chain(&["--request-id", id]).map(|one| (*one).to_owned()).collect();
        Self { id: id.to_owned(), asked, arguments }
    }

    /// The command; it is the same whenever it is repeated.
    pub(super) fn command(&self, stage: &Stage) -> std::process::Command {
        stage.on_queue(&self.arguments)
    }
}

/// A Policy with room for every grant of a run. Odd variants differ in what they propose for a first submission.
pub(super) fn policy(variant: usize) -> Value {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "a": 3, "b": 2});
    if variant % 2 == 1 {
        policy["class_weights"] = json!([5, 4, 3, 2, 1]);
    }
    let pool = &mut policy["pools"]["default"];
    pool["logical_limit"] = 96.into();
    pool["native_limit"] = 64.into();
    pool["per_account_limit"] = 64.into();
    // Every attempt that is left reserves ledger bytes; with fewer of them the run's Work fits into the reserve.
    pool["retry"] = json!({"max_attempts": MOST_ATTEMPTS, "backoff_ms": 1});
    pool["reconciliation"]["max_attempts"] = 1.into();
    pool["profiles"]["default"]["max_claims"] = 2.into();
    policy["limits"]["evidence_bytes"] = 512.into();
    policy["limits"]["result_bytes"] = 512.into();
    policy
}

/// The request of one process in one round. Some share an id with their left neighbour: one request, asked twice at
/// once. The first round is for submissions, because there is no queue yet.
pub(super) fn ask(stage: &Stage, seed: u64, round: usize, process: usize) -> Ask {
    let dice = Dice::new(seed, round, process);
    if process % 4 == 3 && dice.chance(20) {
        return ask(stage, seed, round, process - 1);
    }
    let id = format!("r{round:02}-p{process:02}");
    let (asked, mut arguments) = match dice.below(100) {
        _ if process == 0 => {
            let (graph, arguments) = task(stage, round);
            (Asked::Submit(vec![work_id(&graph, "root")]), arguments)
        }
        0..8 if round > 0 => {
            let (graph, arguments) = task(stage, dice.below(round as u64) as usize);
            (Asked::Again(work_id(&graph, "root")), arguments)
        }
        8..55 if round > 0 => (Asked::Dispatch, grant(&dice)),
        _ if dice.chance(50) => one(stage, &dice, &id),
        _ => graph(stage, &dice, &id),
    };
    if round == 0 {
        stage.file(&format!("policy-{}.json", process % 2), &policy(process).to_string());
        arguments.extend(["--policy".to_owned(), format!("policy-{}.json", process % 2)]);
    }
    arguments.extend(["--request-id".to_owned(), id.clone()]);
    Ask { id, asked, arguments }
}

fn grant(dice: &Dice) -> Vec<String> {
    let (claims, dispatches) = (dice.below(4) + 1, dice.below(3) + 1);
    let arguments = ["dispatch-next", "--max-claims", &claims.to_string(), "--max-dispatches", &dispatches.to_string()];
    arguments.map(str::to_owned).to_vec()
}

fn submit_work(stage: &Stage, graph: &str, priority: u64, account: &str) -> Vec<String> {
    let name = format!("{graph}.json");
    stage.file(&name, &json!({"task": graph}).to_string());
    let priority = priority.to_string();
    let arguments =
        ["submit-work", "--file", &name, "--graph-id", graph, "--priority", &priority, "--fairness-key", account];
    arguments.map(str::to_owned).to_vec()
}

/// The one task of a round that later rounds may submit again: its graph and its command.
fn task(stage: &Stage, round: usize) -> (String, Vec<String>) {
    let graph = format!("task-{round:02}");
    let arguments = submit_work(stage, &graph, 3, "a");
    (graph, arguments)
}

fn one(stage: &Stage, dice: &Dice, id: &str) -> (Asked, Vec<String>) {
    let graph = format!("one-{id}");
    let arguments = submit_work(stage, &graph, dice.below(5) + 1, dice.one_of(&["", "a", "b"]));
    (Asked::Submit(vec![work_id(&graph, "root")]), arguments)
}

/// Two or three nodes; some wait for the one before.
fn graph(stage: &Stage, dice: &Dice, id: &str) -> (Asked, Vec<String>) {
    let (graph, account) = (format!("graph-{id}"), dice.one_of(&["", "a", "b"]));
    let count = dice.below(2) + 2;
    let nodes: Vec<Value> = (0..count)
        .map(|index| {
            let edges = match index {
                1.. if dice.chance(40) => json!([{"kind": "work", "node_key": format!("n{}", index - 1)}]),
                _ => json!([]),
            };
            json!({"graph_id": graph, "node_key": format!("n{index}"), "priority": dice.below(5) + 1,
                "fairness_key": account, "payload": {"task": index}, "depends_on": edges})
        })
        .collect();
    let name = format!("{graph}.json");
    stage.file(&name, &Value::from(nodes).to_string());
    let works = (0..count).map(|index| work_id(&graph, &format!("n{index}"))).collect();
    (Asked::Submit(works), ["submit-graph", "--file", &name].map(str::to_owned).to_vec())
}
