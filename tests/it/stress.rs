//! Many processes of the real binary against one bare repository, some of them killed, some of them lied to.

mod asks;
mod audit;
mod lies;
mod settle;
mod stage;

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use asks::{Ask, Asked, Dice, ask};
use audit::{Audit, Counts};
use settle::Settler;
use stage::{Kill, Stage, Try, attempt};

const PROCESSES: usize = 16;

/// Twenty, or fewer for time (`WQ_ROUNDS`).
fn rounds() -> usize {
    std::env::var("WQ_ROUNDS").map_or(20, |rounds| rounds.parse().expect("WQ_ROUNDS is a number"))
}

/// Most repeats of one request. Each is six attempts of its own.
const MOST_TRIES: usize = 40;

/// One crowd at a time: two would share the machine, and neither would show what it is for.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The seed of this run, printed so that a failure's choices can be made again.
fn seed() -> u64 {
    let given = std::env::var("WQ_SEED").ok().map(|seed| seed.parse().expect("WQ_SEED is a number"));
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_nanos()).unwrap_or(1)
    });
    crate::support::tell!("WQ_SEED={seed}");
    seed
}

/// One request and how its commands ended.
struct Call {
    round: usize,
    /// End of the request id that this process would have of its own.
    process: String,
    ask: Ask,
    tries: Vec<Try>,
}

/// Makes a request and repeats the same command until it is answered.
fn insist(stage: &Stage, ask: &Ask, kills: &[Kill]) -> Vec<Try> {
    let mut tries: Vec<Try> = Vec::new();
    let mut kills = kills.iter().copied();
    loop {
        let one = attempt(ask.command(stage), kills.next());
        let ended = (one.exit, one.code().to_owned());
        let error = one.error.clone();
        tries.push(one);
        match (ended.0, ended.1.as_str()) {
            (Some(0), _) => return tries,
            (None, _) | (Some(5), "publication_unresolved") => {}
            _ => panic!("{} ended with {ended:?}: {error:?}", ask.id),
        }
        assert!(tries.len() < MOST_TRIES, "{} is never answered", ask.id);
    }
}

/// One round: every process starts at once. Those to be killed live no longer than the longest command of the round
/// before.
fn compete(stage: &Stage, seed: u64, round: usize, killing: Option<Duration>) -> Vec<Call> {
    let asks: Vec<Ask> = (0..PROCESSES).map(|process| ask(stage, seed, round, process)).collect();
    let start = Barrier::new(PROCESSES);
    std::thread::scope(|scope| {
        let threads: Vec<_> = asks
            .into_iter()
            .enumerate()
            .map(|(process, ask)| {
                let start = &start;
                scope.spawn(move || {
                    let dice = Dice::new(!seed, round, process);
                    let kills = killing.map_or_else(Vec::new, |latest| dice.kills(latest));
                    start.wait();
                    let tries = insist(stage, &ask, &kills);
                    Call { round, process: format!("p{process:02}"), ask, tries }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A run of so many rounds.
#[derive(Clone, Copy)]
struct Play {
    name: &'static str,
    rounds: usize,
    /// Some processes are killed.
    killing: bool,
    /// The server lies, see [`lies::HOOKS`].
    lying: bool,
}

/// A whole run: rounds with settlements between them, then the audit. Returns the table.
fn run(play: Play) -> Table {
    let Play { rounds, killing, lying, .. } = play;
    let (seed, begun) = (seed(), Instant::now());
    let stage = Stage::new();
    if lying {
        lies::HOOKS.iter().for_each(|(name, script)| stage.bare.hook(name, script));
    }
    let transport = Settler::transport(&stage);
    let mut settler = Settler::new(&transport);
    let mut table = Table::new(play.name);
    let mut calls: Vec<Call> = Vec::new();
    let mut latest = Duration::from_secs(2);
    for round in 0..rounds {
        let crowd = Instant::now();
        calls.extend(compete(&stage, seed, round, killing.then_some(latest)));
        table.crowded += crowd.elapsed();
        let crowd = calls.iter().rev().take(PROCESSES).flat_map(|call| &call.tries);
        latest = crowd.filter(|one| one.exit.is_some()).map(|one| one.took).max().unwrap();
        let stores = stage.stores();
        table.most_stores = table.most_stores.max(stores);
        assert!(stores <= 2 * PROCESSES, "{stores} stores are left after round {round}");
        settler.settle();
        // What a host does now and then. Each fetch would otherwise compress the whole history anew.
        stage.bare.git(&["repack", "-a", "-d", "-q"]);
    }
    let audited = Instant::now();
    let audit = Audit::read(&stage);
    audit.history(&stage);
    let present = calls.iter().filter(|call| audit.told(&call.ask, &call.tries)).count();
    published_once(&calls);
    nothing_else(&audit, &calls, settler.requests);
    table.counts = Some(audit.replayed(&stage));
    table.audited = audited.elapsed();
    swept(&stage);
    table.add(&calls, present, settler.requests);
    table.took = begun.elapsed();
    table
}

/// Among all answers to one request id, one at most may launch: none of a request that wrote nothing.
fn published_once(calls: &[Call]) {
    let mut published: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in calls.iter().flat_map(|call| &call.tries).filter_map(|one| one.answer.as_ref()) {
        let id = answer["request_id"].as_str().unwrap();
        *published.entry(id).or_default() += usize::from(answer["published_now"] == true);
    }
    assert!(published.values().all(|times| *times <= 1), "{published:?}");
}

/// The ledger holds what was asked for and nothing else.
fn nothing_else(audit: &Audit, calls: &[Call], settled: usize) {
    let strangers = audit.request_ids().into_iter().filter(|id| calls.iter().all(|call| call.ask.id != **id));
    let expected: std::collections::BTreeSet<String> = (1..=settled).map(|number| format!("settle-{number}")).collect();
    assert_eq!(strangers.map(str::to_owned).collect::<std::collections::BTreeSet<_>>(), expected);
}

/// The next command removes what killed processes left, as soon as their last git has ended.
fn swept(stage: &Stage) {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        stage.answer(stage.on_queue(&["stats"]));
        let left = stage.temporaries();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < patience, "{left:?} stay, {} bytes", stage.temporary_bytes());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What a run came to.
struct Table {
    name: &'static str,
    rows: Vec<(&'static str, String)>,
    counts: Option<Counts>,
    most_stores: usize,
    crowded: Duration,
    audited: Duration,
    took: Duration,
    kills: usize,
    recovered: usize,
}

impl Table {
    fn new(name: &'static str) -> Self {
        let (rows, counts) = (Vec::new(), None);
        let (crowded, audited, took) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self { name, rows, counts, most_stores: 0, crowded, audited, took, kills: 0, recovered: 0 }
    }

    fn row(&mut self, name: &'static str, value: impl ToString) {
        self.rows.push((name, value.to_string()));
    }

    fn add(&mut self, calls: &[Call], present: usize, settled: usize) {
        let tries: Vec<&Try> = calls.iter().flat_map(|call| &call.tries).collect();
        let exits = |exit: Option<i32>| tries.iter().filter(|one| one.exit == exit).count();
        let is = |one: &Try, member: &str| one.answer.as_ref().is_some_and(|answer| answer[member] == true);
        let told = |member: &str| tries.iter().filter(|one| one.exit == Some(0) && is(one, member)).count();
        let asked = |test: fn(&Asked) -> bool| calls.iter().filter(|call| test(&call.ask.asked)).count();
        (self.kills, self.recovered) = (exits(None), told("recovered"));
        self.row("rounds x processes", format!("{} x {PROCESSES}", calls.last().map_or(0, |call| call.round + 1)));
        self.row(
            "requests: submit / again / dispatch",
            format!(
                "{} / {} / {}",
                asked(|asked| matches!(asked, Asked::Submit(_))),
                asked(|asked| matches!(asked, Asked::Again(_))),
                asked(|asked| matches!(asked, Asked::Dispatch))
            ),
        );
        let twins = calls.iter().filter(|call| !call.ask.id.ends_with(&call.process));
        self.row("ids that two processes used at once", twins.count());
        self.row("commands run", tries.len());
        self.row("exit 0 / 5 / SIGKILL", format!("{} / {} / {}", exits(Some(0)), exits(Some(5)), exits(None)));
        let needed = calls.iter().filter(|call| call.tries.iter().any(|one| one.exit == Some(5))).count();
        self.row("requests repeated after exit 5", format!("{needed} of {}", calls.len()));
        let fives = |call: &Call| call.tries.iter().filter(|one| one.exit == Some(5)).count();
        self.row("most repeats of one request", calls.iter().map(fives).max().unwrap_or(0));
        self.row(
            "published / recovered / replayed",
            format!("{} / {} / {}", told("published_now"), told("recovered"), told("replayed")),
        );
        self.losses(calls);
        self.costs(&tries);
        self.row("calls in the ledger, settlements", format!("{present}, {settled}"));
        if let Some(counts) = &self.counts {
            let Counts { commits, works, claims, grants } = *counts;
            self.row("commits / Work / Claims / grants", format!("{commits} / {works} / {claims} / {grants}"));
        }
        self.row("most stores left after a round", self.most_stores);
    }

    /// What became of killed requests, and of questions without a grant.
    fn losses(&mut self, calls: &[Call]) {
        let is = |one: &Try, member: &str| one.answer.as_ref().is_some_and(|answer| answer[member] == true);
        let killed = || calls.iter().filter(|call| call.tries.iter().any(|one| one.exit.is_none()));
        let landed = |call: &&Call| call.tries.last().is_some_and(|last| is(last, "replayed") || is(last, "recovered"));
        self.row(
            "requests killed: in all / landed anyway",
            format!("{} / {}", killed().count(), killed().filter(landed).count()),
        );
        let nothing = calls
            .iter()
            .flat_map(|call| &call.tries)
            .filter_map(|one| one.answer.as_ref())
            .filter(|one| one["status"] == "no_grant");
        self.row("no grant", nothing.count());
    }

    /// Pushes and time.
    fn costs(&mut self, tries: &[&Try]) {
        let answers = || tries.iter().filter(|one| one.exit == Some(0)).filter_map(|one| one.answer.as_ref());
        let lost = |answer: &Value| answer["lost_attempts"].as_u64().unwrap();
        let mut pushes: Vec<u64> =
            answers().map(|answer| lost(answer) + u64::from(answer["published_now"] == true)).collect();
        pushes.sort_unstable();
        self.row("pushes lost by answered commands", answers().map(lost).sum::<u64>());
        let (middle, most) = (pushes[pushes.len() / 2], pushes[pushes.len() - 1]);
        self.row("pushes of a command: median, most", format!("{middle}, {most}"));
        assert!(most <= 6, "a command makes six attempts at most");
        let mut times: Vec<Duration> = tries.iter().filter(|one| one.exit.is_some()).map(|one| one.took).collect();
        times.sort_unstable();
        let (middle, most) = (times[times.len() / 2], times[times.len() - 1]);
        self.row("command: median, longest", format!("{:.2} s, {:.2} s", middle.as_secs_f64(), most.as_secs_f64()));
    }

    fn print(&self) {
        let seconds = [self.took, self.crowded, self.audited].map(|time| time.as_secs_f64());
        crate::support::tell!(
            "{}: {:.1} s, crowds {:.1} s, audit {:.1} s",
            self.name,
            seconds[0],
            seconds[1],
            seconds[2]
        );
        for (name, value) in &self.rows {
            crate::support::tell!("  {name:<36} {value}");
        }
    }
}

/// S-055, S-187, S-195, S-241, S-250, S-624, O-012, O-014, O-066, O-324: sixteen processes at once, twenty times. The
/// first round makes the queue under one of two proposals. In the end there is one chain, every request is in it once,
/// every grant is the choice of a second planner on its prefix, and each Claim was charged once.
#[test]
fn sixteen_processes_share_one_chain() {
    let _alone = alone();
    let table = run(Play { name: "undisturbed", rounds: rounds(), killing: false, lying: false });
    table.print();
    assert_eq!(table.kills, 0);
}

/// S-237, S-243, S-244, S-250, S-252, O-004, O-324: the same with SIGKILL at random moments, half of them for the
/// process's git as well. The repeated request returns what the killed process had published, or publishes it; nothing
/// is lost or doubled, and what the dead leave in the temporary directory is swept away.
#[test]
fn killed_processes_lose_and_double_nothing() {
    let _alone = alone();
    let table = run(Play { name: "with kill -9", rounds: rounds(), killing: true, lying: false });
    table.print();
    assert!(table.kills > rounds(), "{} kills are too few to show anything", table.kills);
}

/// S-242, S-252, O-014: a crowd before a server that often accepts a push and then reports failure.
#[test]
fn a_crowd_sees_through_a_lying_server() {
    let _alone = alone();
    let table = run(Play { name: "lying server", rounds: 3, killing: false, lying: true });
    table.print();
    assert!(table.recovered > 0, "the server told no lie");
}
