#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigUint;
use proptest::prelude::*;

use super::{Clock, Form, Scale, Ticks};

/// Weights of the five classes in a Policy that names none.
const CLASSES: [u32; 5] = [8, 4, 2, 1, 1];

/// A fraction in lowest terms. The model counts time in these and knows nothing of ticks or common multiples.
#[derive(Clone, Debug)]
struct Fraction {
    above: BigUint,
    below: BigUint,
}

impl Fraction {
    fn zero() -> Self {
        Self { above: BigUint::ZERO, below: BigUint::from(1_u32) }
    }

    /// This and `1 / weight`.
    fn plus_one_over(&self, weight: u32) -> Self {
        let (above, below) = (&self.above * weight + &self.below, &self.below * weight);
        let (mut a, mut b) = (above.clone(), below.clone());
        while b != BigUint::ZERO {
            (a, b) = (b.clone(), a % b);
        }
        Self { above: above / &a, below: below / a }
    }

    fn is_less_than(&self, other: &Self) -> bool {
        &self.above * &other.below < &other.above * &self.below
    }

    fn is(&self, ticks: &Ticks, quantum: &Ticks) -> bool {
        ticks.to_big() * &self.below == quantum.to_big() * &self.above
    }
}

/// A stride clock written from the rules alone: maps, fractions, and a copy for every question.
struct Model {
    weights: Vec<u32>,
    v: Fraction,
    pass: BTreeMap<u16, Fraction>,
    active: BTreeSet<u16>,
}

impl Model {
    fn new(weights: &[u32]) -> Self {
        Self { weights: weights.to_vec(), v: Fraction::zero(), pass: BTreeMap::new(), active: BTreeSet::new() }
    }

    fn weight(&self, member: u16) -> u32 {
        self.weights[usize::from(member)]
    }

    fn pick(&mut self, eligible: &[u16]) -> Option<u16> {
        for member in eligible {
            if !self.active.contains(member) {
                let baseline = self.v.plus_one_over(self.weight(*member));
                let earlier = self.pass.get(member).cloned().unwrap_or_else(Fraction::zero);
                let entry = if earlier.is_less_than(&baseline) { baseline } else { earlier };
                self.pass.insert(*member, entry);
            }
        }
        self.active = eligible.iter().copied().collect();
        let mut winner = None;
        for member in &self.active {
            if winner.is_none_or(|best| self.pass[member].is_less_than(&self.pass[&best])) {
                winner = Some(*member);
            }
        }
        let winner = winner?;
        self.v = self.pass[&winner].clone();
        self.pass.insert(winner, self.v.plus_one_over(self.weight(winner)));
        Some(winner)
    }

    fn assert_equals(&self, clock: &Clock, scale: &Scale) {
        assert!(self.v.is(&clock.v(), scale.quantum()));
        assert_eq!(self.active.iter().copied().collect::<Vec<_>>(), clock.active().collect::<Vec<_>>());
        let passes: Vec<_> = clock.passes().collect();
        assert_eq!(passes.len(), self.pass.len());
        for ((member, ticks), (expected, pass)) in passes.iter().zip(&self.pass) {
            assert_eq!(member, expected);
            assert!(pass.is(ticks, scale.quantum()));
        }
    }
}

/// A small generator with a fixed seed, so that a failure repeats (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn subset(&mut self, members: usize) -> Vec<u16> {
        let odds = self.below(4) + 1;
        (0..members as u16).filter(|_| self.below(4) < odds).collect()
    }

    /// The next eligible set: often the same, else one member joins or leaves, else any subset, even none.
    fn next_eligible(&mut self, eligible: &mut Vec<u16>, members: usize) {
        match self.below(8) {
            0..4 => {}
            4..6 => {
                let member = self.below(members as u64) as u16;
                match eligible.binary_search(&member) {
                    Ok(place) => drop(eligible.remove(place)),
                    Err(place) => eligible.insert(place, member),
                }
            }
            6 => *eligible = self.subset(members),
            _ if self.below(4) == 0 => eligible.clear(),
            _ => *eligible = (0..members as u16).collect(),
        }
    }
}

/// The same clock, made to count in big integers from now on.
fn forced_big(mut clock: Clock) -> Clock {
    clock.promote();
    clock
}

fn is_big(clock: &Clock) -> bool {
    matches!(clock.form, Form::Big(_))
}

fn all(members: usize) -> Vec<u16> {
    (0..members as u16).collect()
}

fn picks(clock: &mut Clock, scale: &Scale, eligible: &[u16], count: usize) -> Vec<u16> {
    (0..count).map(|_| clock.pick(scale, eligible).unwrap()).collect()
}

fn rebuilt(members: usize, clock: &Clock) -> Clock {
    Clock::from_parts(members, clock.v(), clock.passes(), clock.active())
}

/// S-108: the quantum is the least common multiple of all weights, and every stride divides exactly.
#[test]
fn quantum_is_the_least_common_multiple() {
    for (weights, quantum) in
        [(&[1][..], 1), (&CLASSES, 8), (&[5, 3, 2], 30), (&[6, 4, 1], 12), (&[1000, 999, 7], 6_993_000), (&[], 1)]
    {
        let scale = Scale::new(weights);
        assert_eq!(scale.quantum(), &Ticks::from(quantum));
        assert_eq!(scale.len(), weights.len());
        assert_eq!(scale.is_empty(), weights.is_empty());
    }
}

/// S-104, S-105: the clocks after the first grant of the three-commit ledger.
#[test]
fn first_grant_of_the_published_ledger() {
    let classes = Scale::new(&CLASSES);
    let mut class = Clock::new(5);
    assert!(class.is_untouched());
    assert_eq!(class.pick(&classes, &[2]), Some(2));
    assert_eq!(class.v().to_string(), "4");
    assert_eq!(class.passes().collect::<Vec<_>>(), [(2, Ticks::from(8))]);
    assert_eq!(class.active().collect::<Vec<_>>(), [2]);
    assert!(!class.is_untouched());

    let keys = Scale::new(&[1]);
    let mut key = Clock::new(1);
    assert_eq!(key.pick(&keys, &[0]), Some(0));
    assert_eq!((key.v(), key.pass(0)), (Ticks::from(1), Some(Ticks::from(2))));
}

/// S-077, S-078, S-105: classes of the default weights in the published order.
#[test]
fn sixteen_turns_of_the_default_classes() {
    let (scale, mut clock) = (Scale::new(&CLASSES), Clock::new(5));
    let order: Vec<u16> = picks(&mut clock, &scale, &all(5), 16).iter().map(|member| member + 1).collect();
    assert_eq!(order, [1, 1, 2, 1, 1, 2, 3, 1, 1, 2, 1, 1, 2, 3, 4, 5]);
}

/// S-077, S-079: key `a` of weight 2 and `b` of weight 1 beside an unused default key; `b` takes the turns that `a`,
/// out of Work after four, can no longer use.
#[test]
fn two_to_one_until_a_runs_out() {
    let (scale, mut clock) = (Scale::new(&[1, 2, 1]), Clock::new(3));
    assert_eq!(picks(&mut clock, &scale, &[1, 2], 5), [1, 1, 2, 1, 1]);
    assert_eq!(picks(&mut clock, &scale, &[2], 1), [2]);
}

/// S-104: a key that joins after five foreign grants enters at the present time and alternates from there.
#[test]
fn a_joining_key_alternates() {
    let (scale, mut clock) = (Scale::new(&[1, 1]), Clock::new(2));
    picks(&mut clock, &scale, &[0], 5);
    assert_eq!(clock.pick(&scale, &[0, 1]), Some(0));
    assert_eq!((clock.v(), clock.pass(1)), (Ticks::from(6), Some(Ticks::from(6))));
    assert_eq!(picks(&mut clock, &scale, &[0, 1], 5), [1, 0, 1, 0, 1]);
}

/// S-112: a key that returns after a thousand foreign grants gets its share and no burst.
#[test]
fn a_returning_key_gets_no_burst() {
    let (scale, mut clock) = (Scale::new(&[1, 1]), Clock::new(2));
    picks(&mut clock, &scale, &[0, 1], 4);
    picks(&mut clock, &scale, &[0], 1_000);
    assert_eq!(picks(&mut clock, &scale, &[0, 1], 8), [0, 1, 0, 1, 0, 1, 0, 1]);
}

/// S-107, S-113: the clamp depends on the active set of the last pick, however old, and never touches members that stay.
#[test]
fn only_entering_members_are_clamped() {
    let (scale, mut clock) = (Scale::new(&[1, 1, 1]), Clock::new(3));
    picks(&mut clock, &scale, &[0, 1], 1);
    assert_eq!(clock.pass(1), Some(Ticks::from(1)));
    // Member 1 stays and keeps its pass; member 2 enters one stride after the present.
    assert_eq!(clock.pick(&scale, &[1, 2]), Some(1));
    assert_eq!(clock.pass(2), Some(Ticks::from(2)));
    // Member 0 left with a pass of 2, which equals the baseline at its return.
    assert_eq!(clock.pass(0), Some(Ticks::from(2)));
    assert_eq!(clock.pick(&scale, &[0, 1, 2]), Some(0));
    assert_eq!(clock.pass(1), Some(Ticks::from(2)));
    // A member that left with a pass beyond the baseline keeps it.
    let mut clock = Clock::from_parts(3, Ticks::from(2), [(0, Ticks::from(9)), (1, Ticks::from(2))], [1]);
    assert_eq!(clock.pick(&scale, &[0, 1]), Some(1));
    assert_eq!(clock.pass(0), Some(Ticks::from(9)));
}

/// S-106: with nobody eligible nothing is returned and only the active set changes.
#[test]
fn nobody_eligible() {
    let (scale, mut clock) = (Scale::new(&[5, 3, 2]), Clock::new(3));
    assert_eq!(clock.pick(&scale, &[]), None);
    assert!(clock.is_untouched());
    picks(&mut clock, &scale, &all(3), 7);
    let before = clock.clone();
    assert_eq!(clock.peek(&scale, &[]), None);
    assert_eq!(clock, before);
    assert_eq!(clock.pick(&scale, &[]), None);
    assert_eq!((clock.v(), clock.active().count()), (before.v(), 0));
    assert!(clock.passes().eq(before.passes()));
    assert!((0..3).all(|member| !clock.is_active(member)));
}

/// S-104, S-105, S-106, S-107, S-110: twelve thousand weighted selections, with members that join, leave and return,
/// equal a model that counts in fractions; machine words, big integers and previews always agree.
#[test]
fn weighted_selections_equal_the_model() {
    let mut dice = Dice(0x5EED_0001);
    let (mut words, mut bigs) = (0, 0);
    for round in 0..300 {
        let members = if round % 2 == 0 { dice.below(6) + 1 } else { dice.below(40) + 1 } as usize;
        let weights: Vec<u32> = (0..members).map(|_| dice.below(1000) as u32 + 1).collect();
        let scale = Scale::new(&weights);
        let (mut model, mut clock) = (Model::new(&weights), Clock::new(members));
        let mut big = forced_big(clock.clone());
        let mut eligible = dice.subset(members);
        for _ in 0..40 {
            dice.next_eligible(&mut eligible, members);
            let (preview, before) = (clock.peek(&scale, &eligible), clock.clone());
            assert_eq!(preview, big.peek(&scale, &eligible));
            assert_eq!(clock, before);
            let winner = clock.pick(&scale, &eligible);
            assert_eq!(winner, model.pick(&eligible));
            assert_eq!(winner, big.pick(&scale, &eligible));
            assert_eq!(preview, winner.map(|member| (member, clock.v())));
            assert_eq!(clock, big);
            *if is_big(&clock) { &mut bigs } else { &mut words } += 1;
        }
        model.assert_equals(&clock, &scale);
    }
    assert!(words > 4_000 && bigs > 4_000, "{words} selections in words, {bigs} in big integers");
}

/// S-108, S-110: a thousand keys of every weight need a quantum of 1,438 bits, and the clock is exact there too.
#[test]
fn every_weight_at_once() {
    let weights: Vec<u32> = (0..1_024).map(|index| index % 1_000 + 1).collect();
    let scale = Scale::new(&weights);
    assert_eq!(scale.quantum().bits(), 1_438);
    let mut dice = Dice(0x5EED_0002);
    let (mut model, mut clock) = (Model::new(&weights), Clock::new(1_024));
    let mut eligible = all(1_024);
    for turn in 0..300 {
        if turn >= 100 {
            dice.next_eligible(&mut eligible, 1_024);
        }
        let preview = clock.peek(&scale, &eligible);
        let winner = clock.pick(&scale, &eligible);
        assert_eq!(winner, model.pick(&eligible));
        assert_eq!(preview, winner.map(|member| (member, clock.v())));
    }
    assert!(is_big(&clock));
    model.assert_equals(&clock, &scale);
    assert_eq!(rebuilt(1_024, &clock), clock);
}

/// S-110: a clock that reaches the end of the machine word goes on in big integers, at the turn of a member and at the
/// entry of one.
#[test]
fn words_overflow_into_big_integers() {
    let scale = Scale::new(&[5, 3, 2]);
    let near = |distance: u64| Ticks::from(u64::MAX - distance);
    for (v, passes, active) in [
        (near(60), [near(54), near(50), near(45)], vec![0, 1, 2]),
        (near(9), [near(8), near(7), near(200)], vec![0, 1]),
        (near(0), [near(0), near(3), near(4)], vec![]),
    ] {
        let passes = passes.into_iter().enumerate().map(|(member, pass)| (member as u16, pass));
        let mut clock = Clock::from_parts(3, v, passes, active);
        assert!(!is_big(&clock));
        let mut big = forced_big(clock.clone());
        let mut dice = Dice(0x5EED_0003);
        let mut eligible = all(3);
        for _ in 0..60 {
            assert_eq!(clock.peek(&scale, &eligible), big.peek(&scale, &eligible));
            assert_eq!(clock.pick(&scale, &eligible), big.pick(&scale, &eligible));
            assert_eq!(clock, big);
            dice.next_eligible(&mut eligible, 3);
        }
        assert!(is_big(&clock));
        assert!(clock.v() > Ticks::from(u64::MAX));
        assert!(clock.v().to_string().parse::<Ticks>().unwrap() == clock.v());
    }
}

/// Checks exact shares of a fixed set: at every turn each member had `n` turns with `n <= weight * v <= n + 1` in units
/// of virtual time, and after every full round (as many turns as the weights add up to) exactly its weight a round.
fn assert_shares(weights: &[u32], turns: u32) -> Vec<u32> {
    let scale = Scale::new(weights);
    let (mut clock, eligible) = (Clock::new(weights.len()), all(weights.len()));
    let (round, quantum) = (weights.iter().sum::<u32>(), scale.quantum().word().unwrap());
    let mut counts = vec![0; weights.len()];
    for turn in 1..=turns {
        counts[usize::from(clock.pick(&scale, &eligible).unwrap())] += 1;
        let v = clock.v().word().unwrap();
        for (count, weight) in counts.iter().zip(weights) {
            let had = u64::from(*count) * quantum;
            assert!(had <= u64::from(*weight) * v && u64::from(*weight) * v <= had + quantum);
            assert!(turn % round != 0 || *count == turn / round * weight);
        }
    }
    counts
}

/// S-077, S-078, S-110: fixed sets get exactly the shares of their weights, and are never further from them than the one
/// turn that is open.
#[test]
fn shares_are_exact() {
    assert_eq!(assert_shares(&[5, 3, 2], 10_000), [5_000, 3_000, 2_000]);
    assert_eq!(assert_shares(&CLASSES, 16_000), [8_000, 4_000, 2_000, 1_000, 1_000]);
    assert_eq!(assert_shares(&[1_000, 1], 1_001 * 3), [3_000, 3]);
    assert_eq!(assert_shares(&[1; 7], 700), [100; 7]);
}

/// S-076, S-077: class 3 of the default classes holds keys of weights 5:3:2; its 2,000 of 16,000 turns split 1,000, 600
/// and 400.
#[test]
fn a_class_splits_its_share_among_its_keys() {
    let (classes, keys) = (Scale::new(&CLASSES), Scale::new(&[5, 3, 2]));
    let (mut class, mut key) = (Clock::new(5), Clock::new(3));
    let mut counts = [0; 3];
    for _ in 0..16_000 {
        if class.pick(&classes, &all(5)) == Some(2) {
            counts[usize::from(key.pick(&keys, &all(3)).unwrap())] += 1;
        }
    }
    assert_eq!(counts, [1_000, 600, 400]);
}

/// Parts outside the clock are left out, lists are put in order, and an active member without a pass counts as 0.
#[test]
fn parts_are_taken_as_they_are() {
    let pass = |ticks: u64| Ticks::from(ticks);
    let clock = Clock::from_parts(3, pass(4), [(2, pass(8)), (7, pass(1)), (0, pass(0)), (2, pass(9))], [2, 9, 1, 2]);
    assert_eq!(clock.passes().collect::<Vec<_>>(), [(0, pass(0)), (2, pass(9))]);
    assert_eq!(clock.active().collect::<Vec<_>>(), [1, 2]);
    assert_eq!((clock.pass(1), clock.pass(9), clock.is_active(9)), (None, None, false));
    let mut picked = clock.clone();
    assert_eq!(picked.pick(&Scale::new(&[1, 1, 1]), &[1, 2]), Some(1));
    assert_eq!((picked.v(), picked.pass(1)), (pass(0), Some(pass(1))));
    assert!(!Clock::from_parts(1, pass(0), [(0, pass(0))], []).is_untouched());
    assert!(!Clock::from_parts(1, pass(1), [], []).is_untouched());
    assert!(Clock::from_parts(1, pass(0), [], [0]).is_untouched());
}

/// S-110: tick counts are canonical decimals of any length that a clock comes to. Longer ones would take time that grows
/// with the square of their length, and are refused.
#[test]
fn ticks_are_canonical_decimals() {
    assert!("9".repeat(1024).parse::<Ticks>().is_ok());
    for digits in [1025, 1 << 26] {
        assert_eq!("9".repeat(digits).parse::<Ticks>().unwrap_err().code().as_str(), "checkpoint_invalid");
    }
    let long = format!("1{}", "0".repeat(440));
    for text in ["0", "7", "18446744073709551615", "18446744073709551616", &long] {
        assert_eq!(text.parse::<Ticks>().unwrap().to_string(), text);
    }
    for text in ["", "00", "01", "+1", "-1", "1 ", " 1", "1_0", "0x1", "1.0", "1e3", "\u{661}"] {
        assert_eq!(text.parse::<Ticks>().unwrap_err().code().as_str(), "checkpoint_invalid", "{text:?}");
    }
    let (word, big) = (Ticks::from(u64::MAX), Ticks::from(BigUint::from(u64::MAX) + 1_u32));
    assert!(word < big && Ticks::ZERO < word);
    assert_eq!(Ticks::from(BigUint::from(5_u32)), Ticks::from(5));
    assert_eq!((word.bits(), big.bits(), Ticks::ZERO.bits()), (64, 65, 0));
    assert_eq!((word.word(), big.word()), (Some(u64::MAX), None));
}

proptest! {
    /// S-105, S-107: time never runs back, passes never shrink, the active set is the last eligible set, only the winner
    /// of those that stay moves, and a clock rebuilt from its parts goes on like the original.
    #[test]
    fn strict_properties(
        weights in prop::collection::vec(1_u32..=1000, 1..24),
        sets in prop::collection::vec((any::<u32>(), 1_usize..4), 1..24),
    ) {
        let scale = Scale::new(&weights);
        let mut clock = Clock::new(weights.len());
        for (bits, times) in sets {
            let eligible: Vec<u16> = all(weights.len()).into_iter().filter(|member| bits >> member & 1 == 1).collect();
            for _ in 0..times {
                let before = clock.clone();
                let mut copy = rebuilt(weights.len(), &clock);
                prop_assert_eq!(&copy, &clock);
                let winner = clock.pick(&scale, &eligible);
                prop_assert_eq!(copy.pick(&scale, &eligible), winner);
                prop_assert_eq!(&copy, &clock);
                prop_assert_eq!(winner.is_none(), eligible.is_empty());
                prop_assert!(clock.v() >= before.v());
                for member in all(weights.len()) {
                    prop_assert_eq!(clock.is_active(member), eligible.contains(&member));
                    prop_assert!(clock.pass(member) >= before.pass(member));
                    if before.is_active(member) && winner != Some(member) {
                        prop_assert_eq!(clock.pass(member), before.pass(member));
                    }
                }
            }
        }
    }

    /// Tick counts keep their value through text, whatever their size, and compare by it.
    #[test]
    fn ticks_keep_their_value(a in prop::collection::vec(any::<u32>(), 0..6), b in any::<u64>()) {
        let big = BigUint::new(a);
        let ticks = Ticks::from(big.clone());
        prop_assert_eq!(ticks.to_big(), big.clone());
        prop_assert_eq!(ticks.to_string().parse::<Ticks>().unwrap(), ticks.clone());
        prop_assert_eq!(ticks.cmp(&Ticks::from(b)), big.cmp(&BigUint::from(b)));
    }
}
