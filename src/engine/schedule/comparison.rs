//! What the next selection of a pool was chosen from: counts, passes and strides, place and capacity. It reads what the
//! planner itself compared, so it cannot tell another story than the grant.

use super::clock::{Clock, Scale, Ticks};
use super::explain::{Capacity, SelectionView, write_position};
use super::select::{Planner, Winner};
use crate::engine::state::{Position, Projection};
use crate::protocol::json::Writer;
use crate::protocol::{At, Fault};

/// Most keys that a comparison lists; the total is counted beside.
pub const MAX_KEYS: usize = 8;

/// A class or an accounting key that was eligible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    /// Priority as a digit, or the accounting key.
    pub name: String,
    /// The pass that was compared; none where no clock is asked, for the classes of strict mode.
    pub pass: Option<Ticks>,
    /// What one turn costs it.
    pub stride: Ticks,
}

/// The next selection of a pool with what it was chosen from.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The selection.
    pub selection: SelectionView,
    /// How the winner was chosen; none without one.
    pub label: Option<&'static str>,
    /// Work of the pool that nobody owns.
    pub available: u32,
    /// How many of these could be granted now.
    pub eligible: usize,
    /// Eligible classes in order of priority; at most 5.
    pub classes: Vec<Contestant>,
    /// Eligible keys of the winner's class by pass, then by key; at most [`MAX_KEYS`].
    pub keys: Vec<Contestant>,
    /// All eligible keys of the winner's class.
    pub keys_total: usize,
    /// The winner's class and key.
    pub chosen: Option<(String, String)>,
    /// The winner's place in the order of acceptance.
    pub position: Option<Position>,
    /// Capacity in use before the grant, and after it if it opens a dispatch of its own.
    pub capacity: Option<(Capacity, Capacity)>,
}

/// The pass that a member was compared with: the winner has paid since, and its old pass is the clock's time.
fn compared(clock: &Clock, member: u16, winner: u16) -> Option<Ticks> {
    if member == winner { Some(clock.v()) } else { clock.pass(member) }
}

fn contestant(name: String, clock: Option<&Clock>, scale: &Scale, member: u16, winner: u16) -> Contestant {
    let pass = clock.and_then(|clock| compared(clock, member, winner));
    Contestant { name, pass, stride: scale.cost(member) }
}

impl Projection {
    /// The next selection of a pool with what it was chosen from, by the same function that grants. Looks at every
    /// Work of the pool once to count the eligible ones.
    ///
    /// # Errors
    /// `policy_missing` without a Policy, `policy_invalid` for a pool that is not installed.
    pub fn compare_pool(&self, pool: &str, at: At) -> Result<Comparison, Fault> {
        let mut planner = Planner::new(self, pool, at, None)?;
        let selection = planner.next();
        let ready = self.works().filter(|state| state.work.pool.as_str() == pool);
        let mut comparison = Comparison {
            selection: SelectionView::of(self, &selection),
            label: selection.winner.as_ref().map(|winner| winner.label),
            available: planner.state().available,
            eligible: ready.filter(|state| self.eligibility(state, at, None).is_ready()).count(),
            classes: Vec::new(),
            keys: Vec::new(),
            keys_total: 0,
            chosen: None,
            position: None,
            capacity: None,
        };
        if let Some(winner) = selection.winner {
            comparison.add_winner(&planner, &winner);
        }
        Ok(comparison)
    }
}

impl Comparison {
    fn add_winner(&mut self, planner: &Planner<'_>, winner: &Winner) {
        let (classes, accounts) = planner.contestants(winner.class);
        let scales = &planner.state().scales;
        let key = |account: u16| {
            let entry = planner.installed.policy.accounting.get(usize::from(account));
            entry.map_or_else(String::new, |(key, _)| key.as_str().to_owned())
        };
        self.classes = classes
            .into_iter()
            .map(|class| {
                let name = (class + 1).to_string();
                contestant(name, winner.classes.as_ref(), &scales.classes, class, winner.class as u16)
            })
            .collect();
        self.keys_total = accounts.len();
        let mut order: Vec<(Option<Ticks>, u16)> =
            accounts.iter().map(|account| (compared(&winner.keys, *account, winner.account), *account)).collect();
        order.sort_unstable();
        self.keys = order
            .into_iter()
            .take(MAX_KEYS)
            .map(|(_, account)| contestant(key(account), Some(&winner.keys), &scales.keys, account, winner.account))
            .collect();
        self.chosen = Some((winner.priority.get().to_string(), key(winner.account)));
        self.position = Some(planner.work(winner.work).position);
        let before =
            Capacity { logical: planner.open, native: planner.native, account: planner.open_of(winner.account) };
        let after = Capacity { logical: before.logical + 1, native: before.native + 1, account: before.account + 1 };
        self.capacity = Some((before, after));
    }

    /// Writes the comparison. The members of an answer without a winner are null or empty.
    pub fn write(&self, writer: &mut Writer) {
        let list = |w: &mut Writer, contestants: &[Contestant]| {
            w.array(contestants, |w, one| {
                w.object(|members| {
                    members.name("name", |w| w.string(&one.name));
                    members.name("pass", |w| match &one.pass {
                        Some(pass) => w.string(&pass.to_string()),
                        None => w.raw("null"),
                    });
                    members.name("stride", |w| w.string(&one.stride.to_string()));
                });
            });
        };
        let text = |w: &mut Writer, text: Option<&str>| match text {
            Some(text) => w.string(text),
            None => w.raw("null"),
        };
        writer.object(|members| {
            members.name("available", |w| w.integer(i64::from(self.available)));
            members.name("capacity_after", |w| match &self.capacity {
                Some((_, after)) => after.write(w),
                None => w.raw("null"),
            });
            members.name("capacity_before", |w| match &self.capacity {
                Some((before, _)) => before.write(w),
                None => w.raw("null"),
            });
            members.name("class", |w| text(w, self.chosen.as_ref().map(|(class, _)| class.as_str())));
            members.name("classes", |w| list(w, &self.classes));
            members.name("eligible", |w| w.integer(i64::try_from(self.eligible).unwrap_or(i64::MAX)));
            members.name("key", |w| text(w, self.chosen.as_ref().map(|(_, key)| key.as_str())));
            members.name("keys", |w| list(w, &self.keys));
            members.name("keys_total", |w| w.integer(i64::try_from(self.keys_total).unwrap_or(i64::MAX)));
            members.name("position", |w| match self.position {
                Some(position) => write_position(position, w),
                None => w.raw("null"),
            });
        });
    }
}
