//! Who does what in a tick: workers, dispatchers, people; and the calm at the end in which everything knowable ends.

use super::*;

impl Campaign {
    /// Somebody starts the worker by hand with the assignment of another run.
    pub(super) fn duplicate(&mut self, run: u64) {
        let Some(shown) = self.stage.github.run(run) else { return };
        let (Some(assignment), Some(dispatch)) = (&shown.assignment, &shown.dispatch_id) else { return };
        self.by_hand(&shown.path, assignment.clone(), dispatch.clone());
    }

    /// Somebody starts a worker by hand for a launch that seems to be lost.
    pub(super) fn help(&mut self) {
        let Some(current) = self.stage.branch.current() else { return };
        let lost = current.projection.dispatches().find(|dispatch| {
            let id = dispatch.assignment.dispatch_id.as_str();
            let begun = dispatch.phase != DispatchPhase::Reserved && dispatch.run.is_none() && !dispatch.released;
            begun && self.stage.github.runs_of_dispatch(id).is_empty()
        });
        let Some(dispatch) = lost else { return };
        let reference = format!("refs/tags/gh-aw/work-queue/{}", self.stage.revision);
        if self.stage.github.head(OCTO_WIDGETS, &reference).is_none() {
            return;
        }
        let path = format!("{}@{reference}", dispatch.profile.workflow.as_str());
        let assignment = &dispatch.assignment;
        self.by_hand(&path, assignment.canonical(), assignment.dispatch_id.as_str().to_owned());
    }

    pub(super) fn by_hand(&mut self, path: &str, assignment: String, dispatch: String) {
        let file = path.split('@').next().and_then(|path| path.rsplit('/').next()).unwrap_or("").to_owned();
        let reference = path.split('@').nth(1).unwrap_or("main").to_owned();
        let title = format!("gh-aw work-queue {dispatch}");
        let twin = self.stage.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: &file,
            event: "workflow_dispatch",
            reference: &reference,
            actor: self.stage.github.account_id("wim"),
            title: Some(&title),
        });
        self.stage.by_hand(twin);
        self.seen.insert(twin);
        self.stage.log("world", &format!("run {twin} is started by hand for {dispatch}"));
        self.stage.github.change_run(twin, |run| {
            run.assignment = Some(assignment);
            run.dispatch_id = Some(dispatch);
        });
        self.stage.tally(|tally| tally.duplicates += 1);
        self.plan(twin);
    }

    pub(super) fn workers(&mut self) {
        let due: Vec<Planned> = self.planned.iter().filter(|one| one.starts == Some(self.tick)).cloned().collect();
        for planned in due {
            self.start(&planned);
        }
        // Somebody presses "re-run": the second attempt runs the same job, and must get nowhere.
        let all: Vec<u64> = self.started.iter().copied().collect();
        let holds = |run: &u64| {
            let dispatch = self.stage.github.run(*run).and_then(|run| run.dispatch_id.clone()).unwrap_or_default();
            self.watch.model.dispatches.get(&dispatch).is_some_and(|dispatch| !dispatch.released)
        };
        let held: Vec<u64> = all.iter().copied().filter(holds).collect();
        // Most often while the reservation is still held, which is when it would matter.
        let ended = if held.is_empty() { all } else { held };
        if !ended.is_empty() && self.chance.hit(150) {
            let run = *self.chance.pick(&ended);
            let busy = self.running.iter().any(|running| running.run == Some(run));
            if !busy && self.stage.github.run(run).is_some_and(|run| run.completed()) {
                self.stage.github.rerun(run, self.stage.launcher);
                self.stage.github.start_run(run);
                let attempt = self.stage.github.run(run).map_or(2, |run| run.attempts.len() as i64);
                self.stage.tally(|tally| tally.reruns += 1);
                let name = format!("again {run}/{attempt}");
                self.spawn(name, Some(run), None, move |life| work(life, run, attempt, &[Finish::Completed]));
            }
        }
    }

    /// Ends the runs of workers that are due, unless their job still runs.
    pub(super) fn end_workers(&mut self) {
        let tick = self.tick;
        let busy: BTreeSet<u64> = self.running.iter().filter_map(|running| running.run).collect();
        for planned in self.planned.clone() {
            let cancelled = self.stage.github.run(planned.run).is_some_and(|run| run.cancel_requested);
            if (planned.ends <= tick || (cancelled && self.chance.hit(500))) && !busy.contains(&planned.run) {
                self.conclude(planned.run, planned.conclusion);
                self.planned.retain(|one| one.run != planned.run);
            }
        }
    }

    pub(super) fn dispatchers(&mut self) {
        let due = match self.chance.below(10) {
            0..3 => 0,
            3..8 => 1,
            _ => 2,
        };
        for _ in 0..due {
            self.cron(None);
        }
        if !self.failed.is_empty() && self.chance.hit(600) {
            let mut order = self.failed.remove(0);
            if self.stage.github.run(order.run).is_some_and(|run| run.completed()) {
                self.stage.github.rerun(order.run, order.actor);
                order.attempt += 1;
                self.stage.tally(|tally| tally.reruns += 1);
                self.dispatcher(order);
            }
        }
    }

    pub(super) fn cron(&mut self, pool: Option<&str>) {
        let event = if self.chance.hit(800) { "schedule" } else { "workflow_dispatch" };
        let actor = self.stage.github.account_id("ada");
        let run = self.stage.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: "dispatcher.lock.yml",
            event,
            reference: "main",
            actor,
            title: None,
        });
        let slow = pool.map_or_else(|| self.chance.hit(250), |pool| pool == "slow");
        let dispatches = if slow { self.chance.between(1, 2) } else { self.chance.between(1, 4) };
        let all = vec!["batch".to_owned(), "default".to_owned()];
        let order = Order {
            run,
            attempt: 1,
            number: self.stage.github.run(run).map_or(1, |run| run.number),
            event,
            actor,
            pool: if slow { "slow" } else { "default" }.to_owned(),
            claims: if slow { self.chance.between(1, 3) } else { self.chance.between(1, 6) },
            dispatches,
            profiles: if self.calm || self.chance.hit(900) { all } else { vec!["default".to_owned()] },
            budget: self.chance.between(dispatches, dispatches + 3) as u32,
            intents: 1 + u64::from(self.chance.hit(250)),
            cancels: !self.calm && self.chance.hit(80),
            refreshes: self.chance.hit(500),
        };
        self.dispatcher(order);
    }

    pub(super) fn dispatcher(&mut self, order: Order) {
        let run = order.run;
        self.orders.insert(run, order.clone());
        self.stage.github.start_run(run);
        let fuse = self.fuse(200, 90);
        let name = format!("dispatcher {run}/{}", order.attempt);
        if !self.calm && self.chance.hit(100) {
            // A step that is repeated inside its job: the same run and attempt, a second process.
            let (again, second) = (order.clone(), self.fuse(200, 90));
            let name = format!("repeated {run}/{}", order.attempt);
            self.stage.tally(|tally| tally.reruns += 1);
            self.spawn(name, Some(run), second, move |life| dispatch(life, &again));
        }
        self.spawn(name, Some(run), fuse, move |life| dispatch(life, &order));
    }

    pub(super) fn people(&mut self) {
        if self.tick == 0 || self.chance.hit(350) {
            self.submit();
        }
        if self.chance.hit(500) {
            let deliveries = self.deliveries();
            if !deliveries.is_empty() {
                let fuse = self.fuse(50, 20);
                self.spawn("verifier".to_owned(), None, fuse, move |life| deliver(life, WRITER, &deliveries));
            }
        }
        if self.chance.hit(120) {
            self.operator();
        }
        if self.chance.hit(100) {
            let held: Vec<String> = self.held();
            let only = (!held.is_empty() && self.chance.hit(700)).then(|| self.chance.pick(&held).clone());
            let cancel = self.chance.hit(300);
            let fuse = self.fuse(50, 40);
            self.reconcile(only, cancel, fuse);
        }
        if self.chance.hit(60) {
            self.help();
        }
        if self.chance.hit(40) {
            self.spawn("compactor".to_owned(), None, None, |life| compact(life, ADMIN));
        }
    }

    pub(super) fn reconcile(&mut self, only: Option<String>, cancel: bool, fuse: Option<Fuse>) {
        let reports = Arc::clone(&self.reports);
        self.spawn("reconciler".to_owned(), None, fuse, move |life| {
            let (end, found) = reconcile(life, WRITER, only.as_deref(), cancel);
            reports.lock().unwrap().extend(found);
            end
        });
    }

    /// Dispatches that hold a reservation.
    pub(super) fn held(&self) -> Vec<String> {
        let held = self.watch.model.dispatches.iter().filter(|(_, dispatch)| !dispatch.released);
        held.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        let model = &self.watch.model;
        let pending =
            model.works.iter().filter(|(_, work)| work.state == State::Completed && work.barrier == "pending");
        let told = pending.filter_map(|(id, work)| {
            let claim = work.owner.clone()?;
            let known = &model.claims[&claim];
            Some(Delivery {
                work: id.clone(),
                claim,
                dispatch: known.dispatch.clone(),
                handle: known.handle.clone(),
                completion: work.completion.clone()?,
            })
        });
        told.take(6).collect()
    }

    pub(super) fn submit(&mut self) {
        self.graphs += 1;
        let graph = format!("graph-{}", self.graphs);
        let account = *self.chance.pick(&["", "a", "b"]);
        let pool = if self.chance.hit(250) { "slow" } else { "default" };
        let mut nodes: Vec<Value> = Vec::new();
        for index in 0..self.chance.between(1, 6) {
            let mut node = Node::new(&format!("n{index}"))
                .graph(&graph)
                .priority(self.chance.between(1, 5))
                .account(account)
                .profile(if self.chance.hit(400) { "batch" } else { "default" })
                .with("pool", pool);
            for before in 0..index {
                if self.chance.hit(200) {
                    node = node.after(&format!("n{before}"));
                }
            }
            nodes.push(node.value());
        }
        let times = 1 + self.chance.below(3) as u32;
        let wish = Wish { role: Role::Producer, kind: RequestKind::Submit, operations: nodes, name: graph, times };
        let fuse = self.fuse(80, 8);
        self.spawn("producer".to_owned(), None, fuse, move |life| ask(life, WRITER, &wish));
    }

    pub(super) fn operator(&mut self) {
        let model = &self.watch.model;
        let works: Vec<(String, i64, State)> = model
            .works
            .iter()
            .map(|(id, work)| (id.clone(), work.definition["priority"].as_i64().unwrap_or(3), work.state))
            .collect();
        let open: Vec<(String, String)> = model
            .claims
            .iter()
            .filter(|(_, claim)| claim.state == "open")
            .map(|(id, claim)| (id.clone(), claim.work.clone()))
            .collect();
        let some = |chance: &mut Chance, wanted: &[State]| {
            let fitting: Vec<_> = works.iter().filter(|work| wanted.contains(&work.2)).collect();
            (!fitting.is_empty()).then(|| (*chance.pick(&fitting)).clone())
        };
        self.wishes += 1;
        let chance = &mut self.chance;
        let (kind, operation) = match chance.below(8) {
            0 => (RequestKind::Control, control("grants_paused", true)),
            1 | 2 => (RequestKind::Control, control("grants_paused", false)),
            3 => (RequestKind::Control, control("credential_generation", format!("g{}", self.wishes))),
            4 | 5 => {
                let Some((id, priority, _)) = some(chance, &[State::Available]) else { return };
                let priority = if chance.hit(800) { priority } else { 3 };
                let change = json!({"kind": "WorkPriority", "work_id": id, "reason": "simulated",
                    "priority": chance.between(1, 5), "expected_priority": priority});
                (RequestKind::Control, change)
            }
            6 => {
                let Some((id, ..)) = some(chance, &[State::Available, State::Claimed]) else { return };
                (RequestKind::CancelWork, json!({"kind": "WorkCancellation", "work_id": id, "reason": "simulated"}))
            }
            _ => {
                if open.is_empty() {
                    return;
                }
                let (claim, work) = chance.pick(&open).clone();
                let cancel = json!({"kind": "ClaimCancellation", "work_id": work, "claim_id": claim,
                    "reason": "simulated", "retry_not_before": 0});
                (RequestKind::CancelWork, cancel)
            }
        };
        let name = format!("wish-{}", self.wishes);
        let times = 1 + self.chance.below(3) as u32;
        let wish = Wish { role: Role::Administrator, kind, operations: vec![operation], name, times };
        let fuse = self.fuse(80, 8);
        self.spawn("operator".to_owned(), None, fuse, move |life| ask(life, ADMIN, &wish));
    }

    /// The faults stop and every run ends; what can be known is known after some rounds.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.calm = true;
        self.stage.log("world", "calm");
        let resume = Wish {
            role: Role::Administrator,
            kind: RequestKind::Control,
            operations: vec![control("grants_paused", false)],
            name: "resume".to_owned(),
            times: 1,
        };
        self.spawn("operator".to_owned(), None, None, move |life| ask(life, ADMIN, &resume));
        let mut quiet = 0;
        for round in 0..CALM_ROUNDS {
            let tip = self.stage.branch.current().map(|current| current.commit);
            self.tick += 1;
            self.stage.github.no_faults();
            self.stage.set_git_per_mille(0);
            self.stage.github.title_lag(0);
            self.stage.github.advance(2 * 3_600_000);
            for (_, run, conclusion) in std::mem::take(&mut self.ending) {
                self.conclude(run, conclusion);
            }
            for planned in std::mem::take(&mut self.planned) {
                self.stage.github.populate_title(planned.run);
                if self.started.contains(&planned.run) {
                    self.conclude(planned.run, planned.conclusion);
                } else if planned.starts.is_some() {
                    self.start(&Planned { fuse: None, ..planned.clone() });
                } else {
                    self.conclude(planned.run, "cancelled");
                }
            }
            for run in self.orders.keys() {
                self.conclude(*run, "cancelled");
            }
            self.turns()?;
            for run in self.started.clone() {
                self.conclude(run, "success");
            }
            self.reconcile(None, false, None);
            self.turns()?;
            for pool in ["default", "slow"] {
                self.cron(Some(pool));
                self.turns()?;
            }
            let deliveries = self.deliveries();
            if !deliveries.is_empty() {
                self.spawn("verifier".to_owned(), None, None, move |life| deliver(life, WRITER, &deliveries));
                self.turns()?;
            }
            // Every retry boundary has passed by the second round without a change.
            quiet = if tip == self.stage.branch.current().map(|current| current.commit) { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
            if round + 1 == CALM_ROUNDS {
                return Err("the queue does not come to rest".to_owned());
            }
        }
        self.named.clear();
        self.reconcile(None, false, None);
        self.turns()?;
        self.watch.check_whole(true)?;
        let unresolved = self.watch.check_progress(&self.named)?;
        self.stage.tally(|tally| tally.unresolved += unresolved);
        Ok(())
    }
}
