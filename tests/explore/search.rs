//! Breadth-first search over everything that the actors can do, in any order, with crashes and lost acknowledgements.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use serde_json::Value;

use crate::audit::{LAUNCH, Violation, rule};
use crate::kinds::{Fixed, Kind, Local, Natives, Slot, TICK};
use crate::register::{Answer, Register, Shelf, digest};
use crate::slots::{Seen, granted, resolved, symbolic};
use crate::support::built::Node;

/// A scope: a queue, the actors, and how much time may pass.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) name: &'static str,
    /// What it is about, for the report.
    pub(crate) about: &'static str,
    pub(crate) policy: Value,
    pub(crate) nodes: Vec<Node>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) ticks: u8,
    /// What must be reached, by slot name and outcome.
    pub(crate) reaches: &'static [(&'static str, &'static str)],
}

/// One step, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Writes,
    WritesUnheard,
    PushLost,
    Conflict,
    Crash,
    Recovers,
    Retries,
    IsRefused,
    IsIdle,
    Posts,
    PostsUnheard,
    PostFails,
    RunEnds,
    Tick,
}

impl Verb {
    fn words(self) -> &'static str {
        match self {
            Self::Read => "reads and decides",
            Self::Writes => "writes",
            Self::WritesUnheard => "writes, acknowledgement lost",
            Self::PushLost => "pushes in vain, nothing heard",
            Self::Conflict => "loses the race, reads again",
            Self::Crash => "crashes",
            Self::Recovers => "finds its request committed",
            Self::Retries => "finds nothing, reads again",
            Self::IsRefused => "is refused",
            Self::IsIdle => "has nothing to do",
            Self::Posts => "posts, a run appears",
            Self::PostsUnheard => "posts, a run appears, response lost",
            Self::PostFails => "posts in vain",
            Self::RunEnds => "its run ends",
            Self::Tick => "time passes",
        }
    }
}

type Label = (usize, Verb);

#[derive(Clone)]
struct World {
    register: Rc<Register>,
    locals: Vec<Local>,
    natives: Natives,
    ticks: u8,
}

impl World {
    fn at(&self) -> i64 {
        2000 + i64::from(self.ticks) * TICK
    }

    fn key(&self) -> u128 {
        digest(&[format!("{:x}", self.register.key), format!("{:?}{:?}{}", self.locals, self.natives, self.ticks)])
    }

    fn seen<'w>(&'w self, slots: &'w [Slot]) -> Seen<'w> {
        Seen { slots, register: &self.register, locals: &self.locals, natives: &self.natives, at: self.at() }
    }
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    pub(crate) versions: usize,
    pub(crate) depth: usize,
    pub(crate) exhausted: bool,
    /// Slot name and outcome, and how often.
    pub(crate) witnesses: BTreeMap<(&'static str, &'static str), usize>,
    pub(crate) violation: Option<(Violation, Vec<String>)>,
}

struct Search<'s> {
    scope: &'s Scope,
    shelf: Rc<Shelf>,
    answers: HashMap<(u128, usize, u8, String), Answer>,
    seen: HashSet<u128>,
    /// Parent and label of every state, in order of discovery.
    trail: Vec<(u32, Label)>,
    outcome: Outcome,
}

/// Explores a scope to the end, to the first broken rule, or until so many states are known.
pub(crate) fn explore(scope: &Scope, most: usize) -> Outcome {
    let outcome = Outcome {
        states: 0,
        transitions: 0,
        versions: 0,
        depth: 0,
        exhausted: false,
        witnesses: BTreeMap::new(),
        violation: None,
    };
    let mut search = Search {
        scope,
        shelf: Rc::new(Shelf::default()),
        answers: HashMap::new(),
        seen: HashSet::new(),
        trail: Vec::new(),
        outcome,
    };
    search.run(most);
    search.outcome.states = search.seen.len();
    search.outcome.versions = search.shelf.clear();
    search.outcome
}

impl Search<'_> {
    fn run(&mut self, most: usize) {
        let register = match Register::open(&self.shelf, &self.scope.policy, &self.scope.nodes) {
            Ok(register) => register,
            Err(violation) => {
                self.outcome.violation = Some((violation, Vec::new()));
                return;
            }
        };
        let locals = vec![Local::Idle; self.scope.slots.len()];
        let first = World { register, locals, natives: Natives::new(), ticks: 0 };
        self.seen.insert(first.key());
        self.trail.push((u32::MAX, (usize::MAX, Verb::Tick)));
        let mut level = vec![(0_u32, first)];
        while !level.is_empty() {
            let mut following = Vec::new();
            for (parent, world) in level {
                if self.seen.len() > most {
                    return;
                }
                let steps = match self.steps(&world) {
                    Ok(steps) => steps,
                    Err((label, violation)) => {
                        let mut trace = self.trace(parent);
                        trace.push(self.say(label));
                        self.outcome.violation = Some((violation, trace));
                        return;
                    }
                };
                for (label, next) in steps {
                    self.outcome.transitions += 1;
                    if self.seen.insert(next.key()) {
                        self.trail.push((parent, label));
                        following.push((self.trail.len() as u32 - 1, next));
                    }
                }
            }
            if !following.is_empty() {
                self.outcome.depth += 1;
            }
            level = following;
        }
        self.outcome.exhausted = true;
    }

    fn trace(&self, state: u32) -> Vec<String> {
        let (mut at, mut labels) = (state, Vec::new());
        while at != 0 {
            let (parent, label) = self.trail[at as usize];
            labels.push(self.say(label));
            at = parent;
        }
        labels.reverse();
        labels
    }

    fn say(&self, (slot, verb): Label) -> String {
        match self.scope.slots.get(slot) {
            Some(slot) => format!("{} {}", slot.name, verb.words()),
            None => verb.words().to_owned(),
        }
    }

    /// Everything that can happen next.
    fn steps(&mut self, world: &World) -> Result<Vec<(Label, World)>, (Label, Violation)> {
        let mut steps = Vec::new();
        for index in 0..self.scope.slots.len() {
            self.steps_of(index, world, &mut steps).map_err(|(verb, violation)| ((index, verb), violation))?;
        }
        if world.ticks < self.scope.ticks {
            steps.push(((usize::MAX, Verb::Tick), World { ticks: world.ticks + 1, ..world.clone() }));
        }
        for (dispatch, native) in &world.natives {
            if native.running && !native.ended {
                let mut next = world.clone();
                if let Some(native) = next.natives.get_mut(dispatch) {
                    native.ended = true;
                }
                let slot = self.scope.slots.iter().position(|slot| {
                    matches!(slot.kind, Kind::Start { of, .. }
                        if granted(&self.scope.slots, &world.register, of).is_some_and(|one| one.dispatch == *dispatch))
                });
                steps.push(((slot.unwrap_or(usize::MAX), Verb::RunEnds), next));
            }
        }
        Ok(steps)
    }

    fn steps_of(
        &mut self,
        index: usize,
        world: &World,
        steps: &mut Vec<(Label, World)>,
    ) -> Result<(), (Verb, Violation)> {
        let slot = &self.scope.slots[index];
        let become_local = |local: Local| {
            let mut next = world.clone();
            next.locals[index] = local;
            next
        };
        match &world.locals[index] {
            Local::Idle => {
                let Some(words) = world.seen(&self.scope.slots).request(index) else { return Ok(()) };
                let request = symbolic(&words, &world.register);
                if slot.split {
                    let request = Fixed::new(&request);
                    steps.push(((index, Verb::Read), become_local(Local::Held { request, fresh: true })));
                } else {
                    self.push(index, &request, world, steps)?;
                }
            }
            Local::Held { request, fresh } => {
                let crashed = self.crashed(index, world);
                steps.push(((index, Verb::Crash), crashed));
                if *fresh {
                    self.push(index, &request.text, world, steps)?;
                } else {
                    // The compare-and-swap fails: the version that was read is not the register's.
                    let again = Local::Held { request: request.clone(), fresh: true };
                    self.look(index, &request.text, world, Verb::Conflict, again, steps)?;
                }
            }
            Local::Doubt { request } => {
                let crashed = self.crashed(index, world);
                steps.push(((index, Verb::Crash), crashed));
                let again = Local::Held { request: request.clone(), fresh: true };
                self.look(index, &request.text, world, Verb::Retries, again, steps)?;
            }
            Local::Permit => {
                if let Kind::Start { of, .. } = slot.kind {
                    steps.push(((index, Verb::Crash), self.crashed(index, world)));
                    self.post(index, of, world, steps)?;
                } else if slot.split {
                    steps.push(((index, Verb::Crash), self.crashed(index, world)));
                }
            }
            Local::Posted(_) | Local::Over => {}
        }
        Ok(())
    }

    /// The actor's memory is gone. A job that is run again repeats its request under the same id.
    fn crashed(&self, index: usize, world: &World) -> World {
        let mut next = world.clone();
        next.locals[index] = Local::Idle;
        if let Kind::Start { of, permit: true } = self.scope.slots[index].kind {
            // The same process held the grant's permit; the start cannot be repeated without it.
            next.locals[of.0] = Local::Idle;
        }
        next
    }

    /// Looks for the request after a failed or doubtful write.
    fn look(
        &mut self,
        index: usize,
        request: &str,
        world: &World,
        verb: Verb,
        again: Local,
        steps: &mut Vec<(Label, World)>,
    ) -> Result<(), (Verb, Violation)> {
        let answer = self.answer(index, request, world).map_err(|violation| (verb, violation))?;
        let mut next = world.clone();
        if matches!(answer, Answer::Committed) {
            self.witness(index, "recovered");
            next.locals[index] = Local::Over;
            steps.push(((index, Verb::Recovers), next));
            return Ok(());
        }
        if verb == Verb::Conflict {
            self.witness(index, "conflict");
        }
        next.locals[index] = again;
        steps.push(((index, verb), next));
        Ok(())
    }

    /// One attempt on the version that the register holds.
    fn push(
        &mut self,
        index: usize,
        request: &str,
        world: &World,
        steps: &mut Vec<(Label, World)>,
    ) -> Result<(), (Verb, Violation)> {
        let slot = &self.scope.slots[index];
        let answer = self.answer(index, request, world).map_err(|violation| (Verb::Writes, violation))?;
        let held = matches!(world.locals[index], Local::Held { .. });
        match answer {
            Answer::Lands(register) => {
                self.witness(index, "written");
                let mut next = world.clone();
                next.register = register;
                for local in &mut next.locals {
                    if let Local::Held { fresh, .. } = local {
                        *fresh = false;
                    }
                }
                let permit = matches!(slot.kind, Kind::Grant { .. } | Kind::Start { .. });
                let mut heard = next.clone();
                heard.locals[index] = if permit { Local::Permit } else { Local::Over };
                steps.push(((index, Verb::Writes), heard));
                if slot.lossy {
                    let doubt = Local::Doubt { request: Fixed::new(request) };
                    next.locals[index] = doubt.clone();
                    steps.push(((index, Verb::WritesUnheard), next));
                    let mut lost = world.clone();
                    lost.locals[index] = doubt;
                    steps.push(((index, Verb::PushLost), lost));
                }
            }
            Answer::Committed => {
                self.witness(index, "recovered");
                let mut next = world.clone();
                next.locals[index] = Local::Over;
                steps.push(((index, Verb::Recovers), next));
            }
            Answer::Nothing(reason) => {
                self.witness(index, reason);
                if held {
                    let mut next = world.clone();
                    next.locals[index] = Local::Idle;
                    steps.push(((index, Verb::IsIdle), next));
                }
            }
            Answer::Refused(code) => {
                self.witness(index, code);
                if held {
                    let mut next = world.clone();
                    next.locals[index] = Local::Over;
                    steps.push(((index, Verb::IsRefused), next));
                }
            }
        }
        Ok(())
    }

    /// The one POST that an acknowledged start marker permits.
    fn post(
        &mut self,
        index: usize,
        of: (usize, usize),
        world: &World,
        steps: &mut Vec<(Label, World)>,
    ) -> Result<(), (Verb, Violation)> {
        let Some(grant) = granted(&self.scope.slots, &world.register, of) else { return Ok(()) };
        for (verb, running, learned) in
            [(Verb::Posts, true, Some(true)), (Verb::PostsUnheard, true, None), (Verb::PostFails, false, Some(false))]
        {
            if verb != Verb::Posts && !self.scope.slots[index].lossy {
                continue;
            }
            let mut next = world.clone();
            let native = next.natives.entry(grant.dispatch.clone()).or_default();
            native.posts += 1;
            native.running |= running;
            let posts = native.posts;
            let once = || {
                rule!(posts == 1, LAUNCH, "a dispatch is posted {posts} times");
                Ok(())
            };
            once().map_err(|violation| (verb, violation))?;
            next.locals[index] = Local::Posted(learned);
            self.witness(index, "posted");
            steps.push(((index, verb), next));
        }
        Ok(())
    }

    /// What a request comes to on the register's version; computed once for each version.
    fn answer(&mut self, index: usize, request: &str, world: &World) -> Result<Answer, Violation> {
        let key = (world.register.key, index, world.ticks, request.to_owned());
        if let Some(answer) = self.answers.get(&key) {
            return Ok(answer.clone());
        }
        let slots = &self.scope.slots;
        let answer = if matches!(slots[index].kind, Kind::Compact) {
            world.register.compact(world.at())?
        } else {
            world.register.ask(&|register| resolved(slots, index, request, register), world.at())?
        };
        self.answers.insert(key, answer.clone());
        Ok(answer)
    }

    fn witness(&mut self, index: usize, outcome: &'static str) {
        *self.outcome.witnesses.entry((self.scope.slots[index].name, outcome)).or_default() += 1;
    }
}
