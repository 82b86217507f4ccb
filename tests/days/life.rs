//! One process of the simulation: a thread that runs only while it holds the turn. At every step, which is a read or a
//! push of the queue or a call to GitHub, others may come first, the process may end, and the weather may be bad.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wq_action::forge::{Broken, Forge, Host, Request, Response, endpoint};
use wq_action::ledger::simulated::{SimulatedLedger, Step, Trouble};
use wq_action::ports::{Clock as _, SimulatedClock, SimulatedEntropy};
use wq_action::protocol::{RepositoryName, Token};

use crate::chance::Chance;
use crate::stage::{Stage, WEB};
use crate::support::github::Port;

/// What a process tells the one who gives turns.
pub(crate) enum Event {
    /// It waits for its next turn.
    Paused,
    /// It has ended: the text says how, and a panic is a failure.
    Ended(Result<String, String>),
}

/// When a process is cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fuse {
    /// Steps that it has.
    pub(crate) steps: u32,
    /// True if its last step still has its effect.
    pub(crate) after: bool,
}

struct Inner {
    chance: Chance,
    steps: u32,
    fuse: Option<Fuse>,
    /// The last step may have changed the queue or launched something, so the next one gives the turn back.
    acted: bool,
}

enum Fate {
    Lives,
    EndsBefore,
    EndsAfter,
}

/// A process.
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) clock: SimulatedClock,
    pub(crate) entropy: SimulatedEntropy,
    pub(crate) stage: Arc<Stage>,
    /// What its clock is off, in milliseconds.
    skew: i64,
    inner: Mutex<Inner>,
    dead: AtomicBool,
    /// Run and attempt, for the rule who may send.
    run: AtomicI64,
    go: Mutex<Receiver<()>>,
    events: Sender<Event>,
}

impl Life {
    pub(crate) fn new(
        name: String,
        stage: &Arc<Stage>,
        chance: &mut Chance,
        fuse: Option<Fuse>,
        go: Receiver<()>,
        events: Sender<Event>,
    ) -> Self {
        // Most clocks are right within a second; some are off by up to ten minutes.
        let skew = if chance.hit(500) { chance.between(-1000, 1000) } else { chance.between(-600_000, 600_000) };
        Self {
            name,
            clock: SimulatedClock::new(stage.github.now() + skew),
            entropy: SimulatedEntropy::new(chance.draw()),
            stage: Arc::clone(stage),
            skew,
            inner: Mutex::new(Inner { chance: Chance::new(chance.draw()), steps: 0, fuse, acted: false }),
            dead: AtomicBool::new(false),
            run: AtomicI64::new(0),
            go: Mutex::new(go),
            events,
        }
    }

    /// Ends the process from outside: a cancelled job.
    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub(crate) fn steps(&self) -> u32 {
        self.inner.lock().unwrap().steps
    }

    /// The run that the process belongs to.
    pub(crate) fn of_run(&self, run: u64) {
        self.run.store(run as i64, Ordering::Relaxed);
    }

    /// Says how the process ended.
    pub(crate) fn end(&self, how: Result<String, String>) {
        self.settle_time();
        let _ = self.events.send(Event::Ended(how));
    }

    /// Time that the process slept or waited passed for everybody.
    fn settle_time(&self) {
        let ahead = self.clock.now().get() - self.skew - self.stage.github.now();
        if ahead > 0 {
            self.stage.github.advance(ahead);
        }
    }

    /// Waits for the turn.
    pub(crate) fn wait(&self) {
        if self.go.lock().unwrap().recv().is_err() {
            self.kill();
        }
        let behind = self.stage.github.now() + self.skew - self.clock.now().get();
        if behind > 0 {
            self.clock.advance(Duration::from_millis(behind as u64));
        }
    }

    /// Lets others come first.
    pub(crate) fn pause(&self) {
        self.settle_time();
        if self.events.send(Event::Paused).is_err() {
            self.kill();
            return;
        }
        self.wait();
    }

    fn step(&self, what: &str, acts: bool) -> Fate {
        if self.is_dead() {
            return Fate::EndsBefore;
        }
        let pauses = {
            let mut inner = self.inner.lock().unwrap();
            inner.steps += 1;
            let acted = std::mem::replace(&mut inner.acted, acts);
            acted || acts || inner.chance.hit(300)
        };
        if pauses {
            self.pause();
        }
        if self.is_dead() {
            self.stage.log(&self.name, &format!("is cancelled before {what}"));
            return Fate::EndsBefore;
        }
        let inner = self.inner.lock().unwrap();
        match inner.fuse.filter(|fuse| inner.steps >= fuse.steps) {
            Some(fuse) => {
                self.kill();
                self.stage.tally(|tally| tally.faults += 1);
                let when = if fuse.after { "after" } else { "before" };
                self.stage.log(&self.name, &format!("ends {when} {what}"));
                if fuse.after { Fate::EndsAfter } else { Fate::EndsBefore }
            }
            None => {
                self.stage.log(&self.name, what);
                Fate::Lives
            }
        }
    }

    /// What happens to an operation on the queue.
    fn trouble(&self, step: Step) -> Option<Trouble> {
        match self.step(if step == Step::Read { "read" } else { "push" }, step == Step::Push) {
            Fate::EndsBefore => return Some(Trouble::CrashBefore),
            Fate::EndsAfter => return Some(Trouble::CrashAfter),
            Fate::Lives => {}
        }
        let weather = self.stage.git_per_mille();
        let mut inner = self.inner.lock().unwrap();
        if !inner.chance.hit(weather) {
            return None;
        }
        let trouble = match step {
            Step::Read => *inner.chance.pick(&[Trouble::Unavailable, Trouble::Unavailable, Trouble::Denied]),
            Step::Push => *inner.chance.pick(&[
                Trouble::Unavailable,
                Trouble::Denied,
                Trouble::LostAnswer,
                Trouble::LostAnswer,
                Trouble::LostPush,
                Trouble::FalseConflict,
            ]),
        };
        self.stage.tally(|tally| tally.faults += 1);
        self.stage.log(&self.name, &format!("meets {trouble:?}"));
        Some(trouble)
    }

    /// This process at the queue.
    pub(crate) fn ledger<'l>(self: &'l Arc<Self>, repository: &RepositoryName) -> SimulatedLedger<'l> {
        let life = Arc::clone(self);
        SimulatedLedger::new(&self.stage.branch, repository, WEB, &self.clock, &self.entropy)
            .with_plan(Box::new(move |step| life.trouble(step)))
    }

    /// This process at GitHub, with one credential.
    pub(crate) fn port(&self, token: &str) -> Mortal<'_> {
        Mortal { port: Port::new(&self.stage.github, token, &self.clock), life: self }
    }
}

/// A way to GitHub that ends with its process.
pub(crate) struct Mortal<'l> {
    port: Port<'l>,
    life: &'l Life,
}

impl Mortal<'_> {
    /// Takes the token that is current now.
    pub(crate) fn rotate(&self, token: &str) {
        self.port.rotate(token);
    }
}

impl Forge for Mortal<'_> {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        let launches = request.endpoint().path == endpoint::DISPATCH.path;
        let fate = self.life.step(request.endpoint().name, launches);
        if matches!(fate, Fate::EndsBefore) {
            return Err(Broken::Interrupted);
        }
        if launches {
            self.life.stage.posting(request, self.life.run.load(Ordering::Relaxed));
        }
        let answer = self.port.send(request);
        let status = answer.as_ref().map(|response| response.status);
        if status != Ok(200) {
            self.life.stage.log(&self.life.name, &format!("{} gets {status:?}", request.endpoint().name));
        }
        if matches!(fate, Fate::EndsAfter) { Err(Broken::Interrupted) } else { answer }
    }

    fn host(&self) -> &Host {
        self.port.host()
    }

    fn holds(&self, token: &Token) -> Option<bool> {
        self.port.holds(token)
    }
}
