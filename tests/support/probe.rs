//! Counting the network steps of a process and striking any of them: calls to GitHub, reads and pushes of the branch.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wq_action::forge::{Broken, Forge, Host, Request, Response};
use wq_action::ledger::simulated::Trouble;
use wq_action::ports::SimulatedClock;
use wq_action::protocol::Token;

use super::github::{Faults, Github, Port, Strike};
use super::processes::Stage;

/// What happens to one network step of a process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// An API call is struck.
    Api(Strike),
    /// A read or push of the queue branch is struck.
    Ledger(Trouble),
    /// The process ends just before the step.
    CrashBefore,
    /// The process ends just after the step, whose answer it never sees.
    CrashAfter,
}

/// What kind of step it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The API call of this name.
    Api(&'static str),
    /// A read of the queue branch.
    Read,
    /// A push to it.
    Push,
}

/// Counts the network steps of a process and strikes one of them, or every one from it on.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    phase: &'static str,
    steps: Vec<(&'static str, Kind)>,
    plan: Option<(usize, Fault, bool)>,
    each: Option<(Vec<usize>, Fault, u64, Arc<SimulatedClock>)>,
    pause: Option<(usize, Sender<()>, Receiver<()>)>,
    dead: bool,
}

impl Probe {
    /// Strikes step `at` (from 0), and all later steps of its kind if it lasts.
    pub(crate) fn striking(at: usize, fault: Fault, lasting: bool) -> Self {
        let probe = Self::default();
        probe.0.lock().unwrap().plan = Some((at, fault, lasting));
        probe
    }

    /// Strikes each of these steps; so many milliseconds pass at each.
    pub(crate) fn striking_each(at: &[usize], fault: Fault, ms: u64, stage: &Stage) -> Self {
        let probe = Self::default();
        let clock = Arc::clone(&stage.clock);
        probe.0.lock().unwrap().each = Some((at.to_vec(), fault, ms, clock));
        probe
    }

    /// Names the steps from here on.
    pub(crate) fn phase(&self, name: &'static str) {
        self.0.lock().unwrap().phase = name;
    }

    /// The steps so far, with their phase.
    pub(crate) fn steps(&self) -> Vec<(&'static str, Kind)> {
        self.0.lock().unwrap().steps.clone()
    }

    /// True once a fault ended the process.
    pub(crate) fn has_died(&self) -> bool {
        self.0.lock().unwrap().dead
    }

    /// Lets something happen just before step `at` of what `body` does with this probe.
    pub(crate) fn meanwhile<T: Send>(&self, at: usize, rival: impl FnOnce(), body: impl FnOnce() -> T + Send) -> T {
        /// Ends the wait for a step that never comes.
        struct Over<'p>(&'p Probe);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.0.lock().unwrap().pause = None;
            }
        }
        let ((reached, wait), (resume, resumed)) = (channel(), channel());
        self.0.lock().unwrap().pause = Some((at, reached, resumed));
        std::thread::scope(|scope| {
            let body = scope.spawn(|| {
                let _over = Over(self);
                body()
            });
            if wait.recv().is_ok() {
                rival();
                resume.send(()).unwrap();
            }
            body.join().unwrap()
        })
    }

    pub(crate) fn step(&self, kind: Kind) -> Result<Option<Fault>, ()> {
        let mut inner = self.0.lock().unwrap();
        let number = inner.steps.len();
        if let Some((_, reached, resumed)) = inner.pause.take_if(|(at, ..)| *at == number) {
            drop(inner);
            reached.send(()).unwrap();
            resumed.recv().unwrap();
            inner = self.0.lock().unwrap();
        }
        if inner.dead {
            return Err(());
        }
        let number = inner.steps.len();
        let (phase, api) = (inner.phase, matches!(kind, Kind::Api(_)));
        inner.steps.push((phase, kind));
        let fault = inner.plan.as_ref().and_then(|(at, fault, lasting)| {
            let due = number == *at || *lasting && number > *at;
            let fits = match fault {
                Fault::Api(_) => api,
                Fault::Ledger(_) => !api,
                Fault::CrashBefore | Fault::CrashAfter => true,
            };
            (due && fits).then(|| fault.clone())
        });
        let fault = fault.or_else(|| {
            let (at, fault, ms, clock) = inner.each.as_ref()?;
            at.contains(&number).then(|| {
                clock.advance(Duration::from_millis(*ms));
                fault.clone()
            })
        });
        inner.dead = matches!(fault, Some(Fault::CrashBefore | Fault::CrashAfter));
        Ok(fault)
    }
}

/// A port whose every call is a step.
pub(crate) struct Wire<'a> {
    pub(crate) port: Port<'a>,
    pub(crate) github: Github,
    pub(crate) probe: Probe,
}

impl Forge for Wire<'_> {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        match self.probe.step(Kind::Api(request.endpoint().name)) {
            Err(()) => Err(Broken::Unreachable),
            Ok(None | Some(Fault::Ledger(_))) => self.port.send(request),
            Ok(Some(Fault::Api(strike))) => {
                self.github.faults(Faults::default().outage(1, 1, strike));
                self.port.send(request)
            }
            Ok(Some(Fault::CrashBefore)) => Err(Broken::Interrupted),
            Ok(Some(Fault::CrashAfter)) => {
                let _ = self.port.send(request);
                Err(Broken::Interrupted)
            }
        }
    }

    fn host(&self) -> &Host {
        self.port.host()
    }

    fn holds(&self, token: &Token) -> Option<bool> {
        self.port.holds(token)
    }
}
