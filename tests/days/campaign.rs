//! A campaign of days: who comes when, what the weather is like, whose turn it is, and how it all ends.

mod crowd;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use wq_action::engine::state::DispatchPhase;
use wq_action::launch::report::GroupReport;
use wq_action::protocol::actor::Role;
use wq_action::protocol::request::RequestKind;

use crate::audit::State;
use crate::chance::Chance;
use crate::checks::Watch;
use crate::jobs::{Delivery, End, Finish, Order, deliver, dispatch, reconcile, work};
use crate::life::{Event, Fuse, Life};
use crate::people::{Wish, ask, compact, control};
use crate::stage::{Stage, Tally};
use crate::support::built::Node;
use crate::support::github::{ADMIN, Faults, NewRun, OCTO_WIDGETS, Strike, WRITER};

pub(crate) const DAYS: u64 = 7;
const DAY: i64 = 86_400_000;
/// A tick is a part of a day in which several processes run side by side.
const TICKS: i64 = 8;
/// Rounds of calm after the last day within which everything knowable must come to its end.
const CALM_ROUNDS: u64 = 40;
/// Most turns of one tick; more is a process that never ends.
const MOST_TURNS: u64 = 60_000;

/// A process that has not ended.
struct Running {
    life: Arc<Life>,
    go: Sender<()>,
    events: Receiver<Event>,
    thread: JoinHandle<()>,
    run: Option<u64>,
}

/// What is planned for a run of a worker.
#[derive(Clone, Debug)]
struct Planned {
    run: u64,
    /// Tick in which its job starts; none if it never does.
    starts: Option<i64>,
    /// Tick in which its run ends, if it has not started or its job is over.
    ends: i64,
    finishes: Vec<Finish>,
    fuse: Option<Fuse>,
    conclusion: &'static str,
}

pub(crate) struct Campaign {
    stage: Arc<Stage>,
    watch: Watch,
    chance: Chance,
    running: Vec<Running>,
    planned: Vec<Planned>,
    /// Runs that were seen.
    seen: BTreeSet<u64>,
    /// Worker runs whose job has run or runs.
    started: BTreeSet<u64>,
    /// Dispatcher runs that ended badly, to be run again.
    failed: Vec<Order>,
    /// Dispatcher runs whose job is over and whose run is not, by the tick in which it ends.
    ending: Vec<(i64, u64, &'static str)>,
    orders: BTreeMap<u64, Order>,
    tick: i64,
    number: u64,
    graphs: u64,
    wishes: u64,
    calm: bool,
    /// The last word of a sweep about each dispatch.
    named: BTreeMap<String, &'static str>,
    reports: Arc<std::sync::Mutex<Vec<GroupReport>>>,
}

const CONCLUSIONS: [&str; 8] =
    ["success", "success", "failure", "cancelled", "timed_out", "neutral", "action_required", "startup_failure"];

impl Campaign {
    pub(crate) fn new(seed: u64, loud: bool) -> Self {
        let stage = Arc::new(Stage::new(loud));
        Self {
            watch: Watch::new(&stage),
            stage,
            chance: Chance::new(seed),
            running: Vec::new(),
            planned: Vec::new(),
            seen: BTreeSet::new(),
            started: BTreeSet::new(),
            failed: Vec::new(),
            ending: Vec::new(),
            orders: BTreeMap::new(),
            tick: 0,
            number: 0,
            graphs: 0,
            wishes: 0,
            calm: false,
            named: BTreeMap::new(),
            reports: Arc::default(),
        }
    }

    /// Runs the days, then the calm in which everything comes to its end.
    pub(crate) fn run(mut self) -> Result<Tally, String> {
        let outcome = self.days();
        // Whoever still waits for a turn ends without one.
        for Running { go, events, thread, .. } in std::mem::take(&mut self.running) {
            drop((go, events));
            let _ = thread.join();
        }
        let complaints = self.stage.github.take_violations();
        outcome?;
        if !complaints.is_empty() {
            return Err(format!("messages against the published schemas: {}", complaints.join("; ")));
        }
        let (calls, struck) = (self.stage.github.all_calls(), self.stage.github.struck());
        self.stage.tally(|tally| {
            tally.calls = calls;
            tally.faults += struck;
        });
        Ok(self.stage.counted())
    }

    fn days(&mut self) -> Result<(), String> {
        for day in 0..DAYS {
            for tick in 0..TICKS {
                self.open_tick(day as i64 * TICKS + tick)?;
                self.people();
                self.dispatchers();
                self.workers();
                self.turns()?;
            }
            self.stage.tally(|tally| tally.days += 1);
        }
        self.calm()
    }

    fn open_tick(&mut self, tick: i64) -> Result<(), String> {
        self.tick = tick;
        let start = crate::support::git::NOW + tick * (DAY / TICKS);
        let behind = start - self.stage.github.now();
        if behind > 0 {
            self.stage.github.advance(behind);
        }
        self.weather();
        let due = |ends: i64| ends <= tick;
        for (_, run, conclusion) in self.ending.extract_if(.., |(ends, ..)| due(*ends)).collect::<Vec<_>>() {
            self.conclude(run, conclusion);
        }
        self.end_workers();
        self.watch.look()
    }

    /// Ends a run if its newest attempt has not ended.
    fn conclude(&self, run: u64, conclusion: &str) {
        if self.stage.github.run(run).is_some_and(|run| !run.completed()) {
            self.stage.log("world", &format!("run {run} ends: {conclusion}"));
            self.stage.github.complete_run(run, conclusion);
        }
    }

    fn weather(&mut self) {
        self.stage.github.no_faults();
        let (api, git): (u64, u64) = match self.chance.below(100) {
            0..55 => (0, 0),
            55..75 => (40, 30),
            75..85 => (150, 100),
            85..90 => (900, 0),
            90..95 => (0, 900),
            95..97 => (1000, 1000),
            _ => (300, 300),
        };
        if api > 0 {
            let strikes = [
                Strike::DropBefore,
                Strike::DropAfter,
                Strike::DropAfter,
                Strike::ResetBefore,
                Strike::ResetAfter,
                Strike::TimeoutBefore,
                Strike::TimeoutAfter,
                Strike::Delay(700),
                Strike::Duplicate,
                Strike::Stale(1),
                Strike::Stale(9),
                Strike::Status(500),
                Strike::Status(503),
                Strike::StatusWithoutId(502),
                Strike::StatusAfter(502),
                Strike::Status(401),
                Strike::Status(403),
                Strike::Status(404),
                Strike::Status(409),
                Strike::Status(422),
                Strike::Status(429),
                Strike::SecondaryLimit(30),
                Strike::PrimaryLimit(60),
                Strike::HalfBody,
                Strike::Garbage,
                Strike::WrongShape,
                Strike::Html,
            ];
            self.stage.github.faults(Faults::seeded(self.chance.draw(), api, &strikes));
        } else if self.chance.hit(200) {
            // Only the list of runs is behind.
            self.stage.github.faults(Faults::seeded(self.chance.draw(), 300, &[Strike::Stale(3), Strike::Stale(20)]));
        }
        self.stage.set_git_per_mille(git);
        self.stage.github.title_lag(if self.chance.hit(300) { self.chance.below(7) as u32 } else { 0 });
        if api + git > 0 {
            self.stage.log("world", &format!("weather: {api} and {git} of 1,000 calls fail"));
        }
    }

    fn fuse(&mut self, per_mille: u64, most: u64) -> Option<Fuse> {
        let hit = !self.calm && self.chance.hit(per_mille);
        hit.then(|| Fuse { steps: 1 + self.chance.below(most) as u32, after: self.chance.hit(500) })
    }

    fn spawn(
        &mut self,
        name: String,
        run: Option<u64>,
        fuse: Option<Fuse>,
        job: impl FnOnce(&Arc<Life>) -> End + Send + 'static,
    ) {
        let (go, gone) = channel();
        let (told, events) = channel();
        let life = Arc::new(Life::new(name, &self.stage, &mut self.chance, fuse, gone, told));
        let own = Arc::clone(&life);
        let thread = std::thread::spawn(move || {
            own.wait();
            let job = std::panic::AssertUnwindSafe(|| if own.is_dead() { Ok(String::new()) } else { job(&own) });
            let end = std::panic::catch_unwind(job).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Err(format!("a process panics: {}", text.unwrap_or_default()))
            });
            own.end(end);
        });
        self.stage.tally(|tally| tally.processes += 1);
        self.running.push(Running { life, go, events, thread, run });
    }

    /// Gives turns until everybody has ended.
    fn turns(&mut self) -> Result<(), String> {
        let mut turns = 0;
        while !self.running.is_empty() {
            turns += 1;
            if turns > MOST_TURNS {
                return Err("a process never ends".to_owned());
            }
            let step = self.chance.between(20, 1500);
            self.stage.github.advance(step);
            let at = self.chance.below(self.running.len() as u64) as usize;
            let running = &self.running[at];
            if running.go.send(()).is_err() {
                return Err(format!("{} is gone", running.life.name));
            }
            match running.events.recv() {
                Ok(Event::Paused) => {}
                Ok(Event::Ended(end)) => {
                    let Running { life, thread, run, .. } = self.running.swap_remove(at);
                    let _ = thread.join();
                    self.ended(&life, run, end)?;
                }
                Err(_) => return Err(format!("{} is gone", running.life.name)),
            }
            self.watch.look().map_err(|what| format!("tick {}: {what}", self.tick))?;
            self.meanwhile();
        }
        self.stage.tally(|tally| tally.slices += turns);
        Ok(())
    }

    fn ended(&mut self, life: &Life, run: Option<u64>, end: End) -> Result<(), String> {
        let steps = u64::from(life.steps());
        self.stage.tally(|tally| tally.steps += steps);
        let end = end.map_err(|what| format!("{}: {what}", life.name))?;
        let how = if life.is_dead() { "cancelled" } else { end.as_str() };
        self.stage.log(&life.name, &format!("has ended: {how}"));
        let kind = life.name.split(' ').next().unwrap_or("").to_owned();
        self.stage.tally(|tally| *tally.ends.entry(format!("{kind} {how}")).or_default() += 1);
        let reports = std::mem::take(&mut *self.reports.lock().unwrap());
        for report in reports {
            self.named.insert(report.dispatch_id.as_str().to_owned(), report.state.as_str());
        }
        let Some(run) = run else { return Ok(()) };
        if let Some(order) = self.orders.get(&run).cloned() {
            let conclusion = if life.is_dead() { "cancelled" } else { "success" };
            if self.calm || self.chance.hit(800) {
                self.conclude(run, conclusion);
            } else {
                self.ending.push((self.tick + self.chance.between(1, 4), run, conclusion));
            }
            if order.attempt < 3 && (life.is_dead() || self.chance.hit(150)) {
                self.failed.push(order);
            }
        } else if self.calm || self.chance.hit(600) {
            let planned = self.planned.iter().find(|planned| planned.run == run);
            let conclusion = planned.map_or("success", |planned| planned.conclusion);
            self.conclude(run, conclusion);
        }
        Ok(())
    }

    /// What happens between two turns.
    fn meanwhile(&mut self) {
        self.find_runs();
        if self.calm {
            return;
        }
        if self.chance.hit(4) {
            let launch = self.chance.hit(500);
            self.stage.rotate(launch);
        }
        if self.chance.hit(6) && !self.running.is_empty() {
            // A job is cancelled from outside; its run ends sooner or later.
            let at = self.chance.below(self.running.len() as u64) as usize;
            self.running[at].life.kill();
            self.stage.tally(|tally| tally.faults += 1);
        }
        if self.chance.hit(3) && !self.running.is_empty() {
            // The host loses sight of a runner: the run ends while its job goes on.
            let at = self.chance.below(self.running.len() as u64) as usize;
            if let Some(run) = self.running[at].run {
                self.conclude(run, "failure");
                self.stage.tally(|tally| tally.faults += 1);
            }
        }
    }

    /// Plans every run that a launch has started since the last look.
    fn find_runs(&mut self) {
        let posts = self.stage.counted().posts;
        if posts == self.number {
            return;
        }
        self.number = posts;
        for run in self.stage.github.runs() {
            if !self.seen.insert(run) || self.orders.contains_key(&run) {
                continue;
            }
            let Some(shown) = self.stage.github.run(run) else { continue };
            if shown.dispatch_id.is_none() {
                continue;
            }
            self.plan(run);
            if !self.calm && self.chance.hit(40) {
                self.duplicate(run);
            }
        }
    }

    fn plan(&mut self, run: u64) {
        let late = if self.calm || self.chance.hit(500) { 0 } else { self.chance.between(0, 6) };
        let starts = (self.calm || self.chance.hit(900)).then_some(self.tick + late);
        let ends = self.tick + late + self.chance.between(0, 8);
        let calm = self.calm;
        let finishes = (0..4)
            .map(|_| match self.chance.below(10) {
                _ if calm => Finish::Completed,
                0..7 => Finish::Completed,
                7 => Finish::Cancelled,
                _ => Finish::Nothing,
            })
            .collect();
        let fuse = self.fuse(150, 30);
        let conclusion = if starts.is_some() { *self.chance.pick(&CONCLUSIONS) } else { "cancelled" };
        let planned = Planned { run, starts, ends, finishes, fuse, conclusion };
        if planned.starts == Some(self.tick) && (calm || self.chance.hit(500)) {
            self.start(&planned);
        }
        self.planned.push(planned);
    }

    fn start(&mut self, planned: &Planned) {
        let run = planned.run;
        if self.stage.github.run(run).is_none_or(|run| run.completed()) || !self.started.insert(run) {
            return;
        }
        self.stage.github.start_run(run);
        let finishes = planned.finishes.clone();
        let name = if self.stage.is_handmade(run) { "impostor" } else { "worker" };
        self.spawn(format!("{name} {run}"), Some(run), planned.fuse, move |life| work(life, run, 1, &finishes));
    }
}
