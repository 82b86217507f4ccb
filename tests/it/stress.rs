//! Many processes of the real binary against one bare repository, some of them killed, some of them lied to.

mod asks;
mod audit;
mod settle;
mod stage;

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use asks::{Ask, Asked, Dice, ask};
use audit::{Audit, Counts};
use settle::Settler;
use stage::{Kill, Stage, Try, attempt};

const ROUNDS: usize = 20;
const PROCESSES: usize = 16;
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
    println!("WQ_SEED={seed}");
    seed
}

/// One request and how its commands ended.
struct Call {
    round: usize,
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

/// One round: every process starts at once.
fn compete(stage: &Stage, seed: u64, round: usize, killing: bool) -> Vec<Call> {
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
                    let kills = if killing { dice.kills() } else { Vec::new() };
                    start.wait();
                    let tries = insist(stage, &ask, &kills);
                    Call { round, ask, tries }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A whole run: rounds with settlements between them, then the audit. Returns the table.
fn run(killing: bool) -> Table {
    let (seed, begun) = (seed(), Instant::now());
    let stage = Stage::new();
    let transport = Settler::transport(&stage);
    let mut settler = Settler::new(&transport);
    let mut table = Table::new(if killing { "with kill -9" } else { "undisturbed" });
    let mut calls = Vec::new();
    for round in 0..ROUNDS {
        let crowd = Instant::now();
        calls.extend(compete(&stage, seed, round, killing));
        table.crowded += crowd.elapsed();
        let stores = stage.stores();
        table.most_stores = table.most_stores.max(stores);
        assert!(stores <= 2 * PROCESSES, "{stores} stores are left after round {round}");
        settler.settle();
    }
    let audit = Audit::read(&stage);
    audit.history(&stage);
    let present = calls.iter().filter(|call| audit.told(&call.ask, &call.tries)).count();
    published_once(&calls);
    nothing_else(&audit, &calls, settler.requests);
    table.counts = Some(audit.replayed(&stage));
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
    took: Duration,
    repeats: usize,
    kills: usize,
}

impl Table {
    fn new(name: &'static str) -> Self {
        let (rows, counts) = (Vec::new(), None);
        let (crowded, took) = (Duration::ZERO, Duration::ZERO);
        Self { name, rows, counts, most_stores: 0, crowded, took, repeats: 0, kills: 0 }
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
        (self.repeats, self.kills) = (exits(Some(5)), exits(None));
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
        let nothing = tries.iter().filter_map(|one| one.answer.as_ref()).filter(|one| one["status"] == "no_grant");
        self.row("no grant", nothing.count());
        let lost = |one: &&Try| one.answer.as_ref().and_then(|answer| answer["lost_attempts"].as_u64());
        let mut races: Vec<u64> = tries.iter().filter(|one| one.exit == Some(0)).filter_map(lost).collect();
        races.sort_unstable();
        let (middle, most) = (races[races.len() / 2], races[races.len() - 1]);
        self.row("lost races of answered commands", races.iter().sum::<u64>());
        self.row("attempts: median, most", format!("{}, {}", middle + 1, most + 1));
        let mut times: Vec<Duration> = tries.iter().filter(|one| one.exit.is_some()).map(|one| one.took).collect();
        times.sort_unstable();
        let (middle, most) = (times[times.len() / 2], times[times.len() - 1]);
        self.row("command: median, longest", format!("{:.2} s, {:.2} s", middle.as_secs_f64(), most.as_secs_f64()));
        self.row("calls in the ledger, settlements", format!("{present}, {settled}"));
        if let Some(counts) = &self.counts {
            let Counts { commits, works, claims, grants } = *counts;
            self.row("commits / Work / Claims / grants", format!("{commits} / {works} / {claims} / {grants}"));
        }
        self.row("most stores left after a round", self.most_stores);
    }

    fn print(&self) {
        println!(
            "{}: {:.1} s, {:.1} s of them in crowds",
            self.name,
            self.took.as_secs_f64(),
            self.crowded.as_secs_f64()
        );
        for (name, value) in &self.rows {
            println!("  {name:<36} {value}");
        }
    }
}

#[test]
fn sixteen_processes_share_one_chain() {
    let _alone = alone();
    let table = run(false);
    table.print();
    assert_eq!(table.kills, 0);
}

#[test]
fn killed_processes_lose_and_double_nothing() {
    let _alone = alone();
    let table = run(true);
    table.print();
    assert!(table.kills > ROUNDS, "{} kills are too few to show anything", table.kills);
}
