//! One fault at each network step of a day's work, and the recovery by fresh processes. Every cell is one step, one
//! fault, once or from there on, and must end without a second POST, a slot freed without evidence or a double charge.
//! `WQ_CELL=part-of-a-name` runs the cells of that name alone.

mod audit;
mod real;
mod scene;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use wq_action::ledger::simulated::Trouble;

use crate::support::github::Strike;
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::tell;
use scene::{Recovery, SCENES, Scene};

/// One row and column of the table.
struct Cell {
    scene: &'static Scene,
    /// Number of the step among the scene's.
    at: usize,
    step: &'static str,
    fault: Fault,
    lasting: bool,
    recovery: Recovery,
}

impl Cell {
    fn name(&self) -> String {
        let (scene, at, step) = (self.scene.name, self.at, self.step.replace(' ', "-"));
        let fault = format!("{:?}", self.fault).replace(['(', ' '], "-").replace(')', "");
        let lasting = if self.lasting { "lasting" } else { "once" };
        format!("{scene}/{at:02}-{step}/{fault}/{lasting}/{:?}", self.recovery)
    }
}

/// What may happen to an API call: every class of status, and every way in which an answer can fail to arrive.
fn strikes() -> Vec<Strike> {
    let mut strikes: Vec<Strike> =
        [204, 400, 401, 403, 404, 408, 409, 410, 422, 429, 500, 502, 503].map(Strike::Status).into();
    strikes.extend([403, 404, 422].map(Strike::StatusWithoutId));
    strikes.extend([
        Strike::SecondaryLimit(1),
        Strike::PrimaryLimit(60),
        Strike::StatusAfter(502),
        Strike::TimeoutBefore,
        Strike::TimeoutAfter,
        Strike::ResetBefore,
        Strike::ResetAfter,
        Strike::HalfBody,
        Strike::Garbage,
        Strike::WrongShape,
        Strike::Html,
        Strike::Stale(1),
        Strike::Delay(20_000),
        Strike::Duplicate,
    ]);
    strikes
}

fn faults(kind: &Kind) -> Vec<Fault> {
    let mut faults: Vec<Fault> = match kind {
        Kind::Api(_) => strikes().into_iter().map(Fault::Api).collect(),
        Kind::Read => [Trouble::Unavailable, Trouble::Denied].map(Fault::Ledger).into(),
        Kind::Push => {
            [Trouble::Unavailable, Trouble::Denied, Trouble::LostAnswer, Trouble::LostPush, Trouble::FalseConflict]
                .map(Fault::Ledger)
                .into()
        }
    };
    faults.extend([Fault::CrashBefore, Fault::CrashAfter]);
    faults
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for scene in SCENES {
        let probe = Probe::default();
        let day = scene.day();
        (scene.struck)(&day, &probe);
        let steps = probe.steps();
        for (at, step) in scene::labels(scene, &steps).into_iter().enumerate() {
            // Up to its POST a launch that will be refused is a launch like any other.
            if scene.name == "reject" && step != "reject, release" {
                continue;
            }
            // Beside its reads of the gate, a grant that looks at one is a grant like any other.
            if scene.name == "observe" && step != "observe" {
                continue;
            }
            for fault in faults(&steps[at].1) {
                let crash = matches!(fault, Fault::CrashBefore | Fault::CrashAfter);
                for lasting in [false, true] {
                    if crash && lasting {
                        continue;
                    }
                    let recovery = if cells.len() % 2 == 0 { Recovery::SameRun } else { Recovery::NextRun };
                    cells.push(Cell { scene, at, step, fault: fault.clone(), lasting, recovery });
                }
            }
        }
    }
    cells
}

/// What one cell showed.
struct Shown {
    /// What the struck process said about each group, or why it said nothing.
    said: Vec<String>,
    /// What became of each Work in the end.
    end: Vec<String>,
}

fn run(cell: &Cell) -> Shown {
    let day = cell.scene.day();
    let probe = Probe::striking(cell.at, cell.fault.clone(), cell.lasting);
    let told = (cell.scene.struck)(&day, &probe);
    assert!(probe.steps().len() > cell.at, "the step was not reached");
    let said = told.groups(&day, probe.has_died());
    audit::between(&day);
    if !probe.has_died() {
        told.check(&day);
    }
    scene::recover(&day, &told, cell.recovery);
    audit::after(&day);
    told.found_again(&day);
    Shown { said, end: audit::end(&day) }
}

/// S-261, S-264, S-266, S-298, O-024, O-260, O-263: see the module. The table is
/// printed with what the struck process told an operator, and with what became of the Work in the end.
#[test]
fn a_fault_at_every_step_is_survived() {
    let wanted = std::env::var("WQ_CELL").ok();
    let cells: Vec<Cell> =
        cells().into_iter().filter(|cell| wanted.as_ref().is_none_or(|part| cell.name().contains(part))).collect();
    let (next, failed, table) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Table::default()));
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(8);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match catch_unwind(AssertUnwindSafe(|| run(cell))) {
                        Ok(shown) => table.lock().unwrap().add(cell, shown),
                        Err(panic) => {
                            let text = panic.downcast_ref::<String>().cloned();
                            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                            failed.lock().unwrap().push(format!("{}: {}", cell.name(), text.unwrap_or_default()));
                        }
                    }
                }
            });
        }
    });
    table.into_inner().unwrap().print(cells.len(), begun.elapsed().as_secs());
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {} cells failed; rerun one with WQ_CELL=<name>:\n{}",
        failed.len(),
        cells.len(),
        failed.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
    assert!(wanted.is_some() || cells.len() > 500, "the table has {} cells", cells.len());
}

/// Words, and how often each was said.
type Words = BTreeMap<String, usize>;

/// Counts for people.
#[derive(Default)]
struct Table {
    rows: BTreeMap<(usize, &'static str), (usize, Words)>,
    ends: Words,
}

impl Table {
    fn add(&mut self, cell: &Cell, shown: Shown) {
        let place = SCENES.iter().position(|scene| scene.name == cell.scene.name).unwrap();
        let (count, said) = self.rows.entry((place, cell.step)).or_default();
        *count += 1;
        shown.said.into_iter().for_each(|word| *said.entry(word).or_default() += 1);
        shown.end.into_iter().for_each(|word| *self.ends.entry(word).or_default() += 1);
    }

    fn print(&self, cells: usize, seconds: u64) {
        tell!("fault table: {cells} cells in {seconds} s; what each struck process told about its groups:");
        let words =
            |words: &Words| words.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ");
        for ((place, step), (count, said)) in &self.rows {
            tell!("  {:10} {step:18} {count:5} cells: {}", SCENES[*place].name, words(said));
        }
        tell!("  in the end, of every Work: {}", words(&self.ends));
        let (messages, shapes) = crate::support::github::checked_messages();
        tell!(
            "  {messages} requests and replies of this process are valid by GitHub's published schemas, in {shapes} shapes"
        );
    }
}
