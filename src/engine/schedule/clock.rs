//! The stride clock (engine.md 4.1, 4.2).
//!
//! A member of weight `w` pays `1 / w` of virtual time for each turn. To stay exact, time is counted in ticks of
//! `1 / Q`, Q being the least common multiple of **all** configured weights, so every stride `Q / w` is an integer.
//! Ticks are machine words while they fit; a clock that would overflow turns into big integers and continues with the
//! same values. Both forms run the same code below, generic over `Count`.

mod ticks;

use std::sync::Arc;

use num_bigint::BigUint;

pub use ticks::Ticks;

use crate::engine::mutation::mutated;

/// The tick scale of a family of clocks, fixed for a policy epoch: the quantum `Q` and each member's stride.
///
/// Members are dense indexes. For class clocks index 0 is priority 1; for key clocks an index is the key's place among
/// the Policy's accounting weights, which are in UTF-8 order, so that the order of indexes is the tie-break order.
#[derive(Clone, Debug)]
pub struct Scale {
    quantum: Ticks,
    strides: Strides,
}

#[derive(Clone, Debug)]
enum Strides {
    Word(Vec<u64>),
    Big(Vec<BigUint>),
}

#[derive(Clone, Copy)]
enum Stride<'a> {
    Word(u64),
    Big(&'a BigUint),
}

impl Scale {
    /// The scale of these weights, one for each member. A Policy's weights are 1 to 1,000; a zero would count as 1.
    #[must_use]
    pub fn new(weights: &[u32]) -> Self {
        let weights: Vec<u32> = weights.iter().map(|weight| (*weight).max(1)).collect();
        let quantum = least_common_multiple(&weights);
        let strides = match quantum.word() {
            Some(quantum) => Strides::Word(weights.iter().map(|weight| quantum / u64::from(*weight)).collect()),
            None => {
                let quantum = quantum.to_big();
                Strides::Big(weights.iter().map(|weight| &quantum / *weight).collect())
            }
        };
        Self { quantum, strides }
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.strides {
            Strides::Word(strides) => strides.len(),
            Strides::Big(strides) => strides.len(),
        }
    }

    /// True for a scale without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ticks in one unit of virtual time: the least common multiple of all weights.
    #[must_use]
    pub fn quantum(&self) -> &Ticks {
        &self.quantum
    }

    /// What one turn costs a member: the quantum divided by its weight.
    #[must_use]
    pub fn cost(&self, member: u16) -> Ticks {
        match self.stride(member) {
            Stride::Word(stride) => Ticks::from(stride),
            Stride::Big(stride) => Ticks::from(stride.clone()),
        }
    }

    fn stride(&self, member: u16) -> Stride<'_> {
        match &self.strides {
            Strides::Word(strides) => Stride::Word(strides[usize::from(member)]),
            Strides::Big(strides) => Stride::Big(&strides[usize::from(member)]),
        }
    }
}

fn least_common_multiple(weights: &[u32]) -> Ticks {
    let mut word = 1_u64;
    for (index, weight) in weights.iter().enumerate() {
        let factor = cofactor(word % u64::from(*weight), *weight);
        match word.checked_mul(u64::from(factor)) {
            Some(product) => word = product,
            None => return big_least_common_multiple(BigUint::from(word), &weights[index..]),
        }
    }
    Ticks::from(word)
}

fn big_least_common_multiple(start: BigUint, weights: &[u32]) -> Ticks {
    let product = weights.iter().fold(start, |product, weight| {
        let rest = (&product % *weight).iter_u64_digits().next().unwrap_or(0);
        product * cofactor(rest, *weight)
    });
    Ticks::from(product)
}

/// What a number must be multiplied by to become a multiple of `weight`, given its remainder.
fn cofactor(remainder: u64, weight: u32) -> u32 {
    let (mut a, mut b) = (u64::from(weight), remainder);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // The divisor `a` is at most `weight`, so it fits its type.
    weight / u32::try_from(a).unwrap_or(weight)
}

/// A count of ticks that a clock can keep: a word, or a big integer.
trait Count: Clone + Ord {
    /// This count and one stride; `None` when the type cannot hold it.
    fn advanced(&self, stride: Stride<'_>) -> Option<Self>;
    fn to_ticks(&self) -> Ticks;
}

impl Count for u64 {
    fn advanced(&self, stride: Stride<'_>) -> Option<Self> {
        match stride {
            Stride::Word(stride) => self.checked_add(stride),
            Stride::Big(_) => None,
        }
    }

    fn to_ticks(&self) -> Ticks {
        Ticks::from(*self)
    }
}

/// Shared, so that copying a clock of a thousand members does not copy a thousand numbers.
type Big = Arc<BigUint>;

impl Count for Big {
    fn advanced(&self, stride: Stride<'_>) -> Option<Self> {
        Some(Arc::new(match stride {
            Stride::Word(stride) => &**self + stride,
            Stride::Big(stride) => &**self + stride,
        }))
    }

    fn to_ticks(&self) -> Ticks {
        Ticks::from(BigUint::clone(self))
    }
}

/// Virtual time and the pass of every member; zero where none is stored.
#[derive(Clone, Debug)]
struct Tally<T> {
    v: T,
    passes: Vec<T>,
}

impl<T: Count> Tally<T> {
    /// The pass of a member that enters: its own, or one stride from now if that is later. `None` on overflow.
    fn entry(&self, scale: &Scale, member: u16) -> Option<T> {
        let baseline = self.v.advanced(scale.stride(member))?;
        if mutated!(IdleCredit) {
            return Some(self.passes[usize::from(member)].clone());
        }
        Some(baseline.max(self.passes[usize::from(member)].clone()))
    }

    /// The eligible member with the least (pass, index), all of them being active.
    fn least(&self, eligible: &[u16]) -> Option<u16> {
        // Everyone is eligible: no indirection.
        if eligible.len() == self.passes.len() {
            let mut passes = self.passes.iter().zip(eligible);
            let (mut best, mut winner) = passes.next()?;
            for (pass, member) in passes {
                if pass < best || (pass == best && mutated!(ReverseTies)) {
                    (best, winner) = (pass, member);
                }
            }
            return Some(*winner);
        }
        let (first, rest) = eligible.split_first()?;
        let (mut best, mut winner) = (&self.passes[usize::from(*first)], *first);
        for member in rest {
            let pass = &self.passes[usize::from(*member)];
            if pass < best || (pass == best && mutated!(ReverseTies)) {
                (best, winner) = (pass, *member);
            }
        }
        Some(winner)
    }

    /// Gives the winner its turn. False, with nothing changed, on overflow.
    fn advance(&mut self, scale: &Scale, winner: u16) -> bool {
        let pass = &mut self.passes[usize::from(winner)];
        let Some(mut next) = pass.advanced(scale.stride(winner)) else { return false };
        if mutated!(ChargeTwice) {
            next = next.advanced(scale.stride(winner)).unwrap_or(next);
        }
        self.v = std::mem::replace(pass, next);
        true
    }

    /// The winner and its pass if the members of `joining` entered now, without changing anything.
    fn preview(&self, scale: &Scale, eligible: &[u16], active: &[u16]) -> Option<Option<(u16, T)>> {
        let mut best: Option<(u16, T)> = None;
        let mut staying = Cursor::new(active);
        for member in eligible {
            if staying.reaches(*member) {
                let pass = &self.passes[usize::from(*member)];
                if best.as_ref().is_none_or(|(_, best)| pass < best) {
                    best = Some((*member, pass.clone()));
                }
            } else {
                let pass = self.entry(scale, *member)?;
                if best.as_ref().is_none_or(|(_, best)| pass < *best) {
                    best = Some((*member, pass));
                }
            }
        }
        Some(best)
    }
}

impl Tally<u64> {
    fn promoted(&self) -> Tally<Big> {
        let big = |word: &u64| Arc::new(BigUint::from(*word));
        Tally { v: big(&self.v), passes: self.passes.iter().map(big).collect() }
    }
}

#[derive(Clone, Debug)]
enum Form {
    Word(Tally<u64>),
    Big(Tally<Big>),
}

/// Runs the same expression on either form of a tally.
macro_rules! either {
    ($form:expr, $tally:ident => $body:expr) => {
        match $form {
            Form::Word($tally) => $body,
            Form::Big($tally) => $body,
        }
    };
}

/// Walks an ascending list of members beside another ascending walk.
struct Cursor<'a>(&'a [u16]);

impl<'a> Cursor<'a> {
    fn new(members: &'a [u16]) -> Self {
        Self(members)
    }

    /// True if the list holds `member`; every call must ask for a greater one.
    fn reaches(&mut self, member: u16) -> bool {
        while let Some((first, rest)) = self.0.split_first() {
            if *first >= member {
                return *first == member;
            }
            self.0 = rest;
        }
        false
    }
}

/// One stride clock over the members of a [`Scale`] (engine.md 4.1): virtual time `v`, a pass for every member that
/// ever entered, and the members that were eligible at the last pick.
///
/// Two clocks are equal when these three are, whatever their inner form. A copy costs a few plain vector copies.
#[derive(Clone, Debug)]
pub struct Clock {
    form: Form,
    /// Which members have a stored pass: bit `m % 64` of word `m / 64`.
    stored: Vec<u64>,
    /// Ascending. Kept exactly as the last pick saw it, even if that was long ago: it decides who is clamped next.
    active: Vec<u16>,
}

impl Clock {
    /// A clock at 0 without passes and with nobody active.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self {
            form: Form::Word(Tally { v: 0, passes: vec![0; members] }),
            stored: vec![0; members.div_ceil(64)],
            active: Vec::new(),
        }
    }

    /// Rebuilds a clock from its parts, as a checkpoint stores them.
    ///
    /// The parts are taken as they are (engine.md 3.12.5 checks no clock values): an active member without a pass counts
    /// as pass 0 until it is picked. Of several passes for one member the last one stays; members outside
    /// `0..members` are left out.
    #[must_use]
    pub fn from_parts(
        members: usize,
        v: Ticks,
        passes: impl IntoIterator<Item = (u16, Ticks)>,
        active: impl IntoIterator<Item = u16>,
    ) -> Self {
        let mut clock = Self::new(members);
        let known = |member: u16| usize::from(member) < members;
        let passes: Vec<(u16, Ticks)> = passes.into_iter().filter(|(member, _)| known(*member)).collect();
        if passes.iter().map(|(_, pass)| pass).chain([&v]).any(|ticks| ticks.word().is_none()) {
            clock.promote();
        }
        match &mut clock.form {
            Form::Word(tally) => {
                tally.v = v.word().unwrap_or(0);
                for (member, pass) in &passes {
                    tally.passes[usize::from(*member)] = pass.word().unwrap_or(0);
                }
            }
            Form::Big(tally) => {
                tally.v = Arc::new(v.to_big());
                for (member, pass) in &passes {
                    tally.passes[usize::from(*member)] = Arc::new(pass.to_big());
                }
            }
        }
        for (member, _) in passes {
            clock.store(member);
        }
        clock.active = active.into_iter().filter(|member| known(*member)).collect();
        clock.active.sort_unstable();
        clock.active.dedup();
        clock
    }

    /// Picks among `eligible` and advances the clock (engine.md 4.2).
    ///
    /// `eligible` is strictly ascending. Members that were not active enter: their pass becomes at least `v` and one
    /// stride, so idle time is no credit. Then `eligible` is exactly the active set, the least (pass, index) wins, `v`
    /// becomes its pass, and that pass grows by its stride. With nobody eligible only the active set changes.
    ///
    /// # Panics
    /// When a member is outside the scale or the clock, which are made for the same Policy.
    pub fn pick(&mut self, scale: &Scale, eligible: &[u16]) -> Option<u16> {
        debug_assert!(eligible.is_sorted_by(|a, b| a < b), "eligible members are strictly ascending");
        if self.active != eligible {
            self.enter(scale, eligible);
        }
        let winner = either!(&self.form, tally => tally.least(eligible))?;
        if !either!(&mut self.form, tally => tally.advance(scale, winner)) {
            self.promote();
            either!(&mut self.form, tally => tally.advance(scale, winner));
        }
        self.store(winner);
        Some(winner)
    }

    /// The member that [`Clock::pick`] would choose and the `v` it would leave, without changing the clock.
    ///
    /// # Panics
    /// As [`Clock::pick`].
    #[must_use]
    pub fn peek(&self, scale: &Scale, eligible: &[u16]) -> Option<(u16, Ticks)> {
        debug_assert!(eligible.is_sorted_by(|a, b| a < b), "eligible members are strictly ascending");
        if self.active == eligible {
            let winner = either!(&self.form, tally => tally.least(eligible))?;
            return Some((winner, self.count(winner)));
        }
        let preview = either!(&self.form, tally => tally
            .preview(scale, eligible, &self.active)
            .map(|best| best.map(|(member, pass)| (member, pass.to_ticks()))));
        preview.unwrap_or_else(|| {
            // A word overflows: decide on a promoted copy.
            let mut copy = self.clone();
            let winner = copy.pick(scale, eligible)?;
            Some((winner, copy.v()))
        })
    }

    /// Virtual time: the pass of the last winner, 0 at first.
    #[must_use]
    pub fn v(&self) -> Ticks {
        either!(&self.form, tally => tally.v.to_ticks())
    }

    /// The stored pass of a member; `None` if it never entered.
    #[must_use]
    pub fn pass(&self, member: u16) -> Option<Ticks> {
        self.is_stored(member).then(|| self.count(member))
    }

    /// True if the member was eligible at the last pick.
    #[must_use]
    pub fn is_active(&self, member: u16) -> bool {
        self.active.binary_search(&member).is_ok()
    }

    /// The members that were eligible at the last pick, ascending.
    pub fn active(&self) -> impl Iterator<Item = u16> {
        self.active.iter().copied()
    }

    /// The members that have a stored pass, ascending, each with it. Members that left keep theirs.
    pub fn passes(&self) -> impl Iterator<Item = (u16, Ticks)> {
        (0..=u16::MAX)
            .take(either!(&self.form, tally => tally.passes.len()))
            .filter_map(|member| Some((member, self.pass(member)?)))
    }

    /// True while the clock is at 0 and stores no pass; checkpoints leave such clocks out (engine.md 3.12.1).
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        either!(&self.form, tally => tally.v.to_ticks()) == Ticks::ZERO && self.stored.iter().all(|word| *word == 0)
    }

    /// Clamps the members that were not active and makes `eligible` the active set.
    fn enter(&mut self, scale: &Scale, eligible: &[u16]) {
        let active = std::mem::take(&mut self.active);
        let mut staying = Cursor::new(&active);
        for member in eligible {
            if staying.reaches(*member) {
                continue;
            }
            if !self.clamp(scale, *member) {
                self.promote();
                self.clamp(scale, *member);
            }
            self.store(*member);
        }
        self.active = active;
        self.active.clear();
        self.active.extend_from_slice(eligible);
    }

    /// False, with nothing changed, on overflow.
    fn clamp(&mut self, scale: &Scale, member: u16) -> bool {
        either!(&mut self.form, tally => match tally.entry(scale, member) {
            Some(pass) => {
                tally.passes[usize::from(member)] = pass;
                true
            }
            None => false,
        })
    }

    /// Turns words into big integers of the same values.
    fn promote(&mut self) {
        if let Form::Word(tally) = &self.form {
            self.form = Form::Big(tally.promoted());
        }
    }

    fn count(&self, member: u16) -> Ticks {
        either!(&self.form, tally => tally.passes[usize::from(member)].to_ticks())
    }

    fn is_stored(&self, member: u16) -> bool {
        self.stored.get(usize::from(member / 64)).is_some_and(|word| word >> (member % 64) & 1 == 1)
    }

    fn store(&mut self, member: u16) {
        self.stored[usize::from(member / 64)] |= 1 << (member % 64);
    }
}

impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        self.active == other.active && self.v() == other.v() && self.passes().eq(other.passes())
    }
}

impl Eq for Clock {}

#[cfg(test)]
mod tests;
