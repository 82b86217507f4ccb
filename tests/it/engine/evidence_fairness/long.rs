//! Long runs, through the scheduler's clocks.

use std::fmt::Write as _;

use wq_action::engine::schedule::clock::{Clock, Scale};

use super::predicate::{bound, counts, decimal, longest_wait, strays, strays_by_every_window};

/// Numbers that look random and are the same everywhere.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn everyone(members: usize) -> Vec<u16> {
    (0..members as u16).collect()
}

/// The winners while everybody stays eligible.
pub(super) fn fixed(weights: &[u32], turns: usize) -> Vec<usize> {
    let (scale, mut clock, all) = (Scale::new(weights), Clock::new(weights.len()), everyone(weights.len()));
    (0..turns).map(|_| usize::from(clock.pick(&scale, &all).unwrap())).collect()
}

fn list(numbers: impl IntoIterator<Item = impl ToString>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(" : ")
}

/// S-132: exactly the shares of the weights. S-608, S-609: in every window no further from them than the bound that
/// [`super::predicate`] states and derives for this initialization and tie rule.
#[test]
fn fixed_sets_keep_their_shares() {
    table();
}

pub(super) fn table() -> String {
    let skewed = [1000, 1, 1, 1];
    let many: Vec<u32> = (1..=64).collect();
    let sets: [(&[u32], usize); 9] = [
        (&[5, 3, 2], 10_000),
        (&[8, 4, 2, 1, 1], 16_000),
        (&[1; 2], 10_000),
        (&[1; 10], 10_000),
        (&[1000, 1], 3_003),
        (&skewed, 10_030),
        (&[997, 991, 983, 977], 39_480),
        (&[1000, 999, 7, 3, 2, 1], 20_120),
        (&many, 20_800),
    ];
    let mut text = String::from(
        "| weights | grants | each member's grants | greatest stray from its share in any window | bound |\n| --- | --- | --- | --- | --- |\n",
    );
    for (weights, turns) in sets {
        let winners = fixed(weights, turns);
        let won = counts(weights.len(), &winners);
        let sum: u32 = weights.iter().sum();
        assert!(turns.is_multiple_of(sum as usize), "whole rounds");
        let rounds = turns as u64 / u64::from(sum);
        assert!(won.iter().zip(weights).all(|(won, weight)| *won == rounds * u64::from(*weight)), "{weights:?}");
        let strayed = strays(weights, &winners);
        assert!((0..weights.len()).all(|member| strayed[member] < bound(weights, member)), "{weights:?}");
        let short = &winners[..winners.len().min(500)];
        let every = strays_by_every_window(weights, short);
        assert!(every.iter().zip(strays(weights, short)).all(|(every, quick)| *every == quick), "{weights:?}");
        // The member that came closest to its bound.
        let close = (0..weights.len()).max_by_key(|member| strayed[*member] * 1000 / bound(weights, *member)).unwrap();
        let shown = |numbers: Vec<u64>| match numbers.len() {
            0..=6 => list(numbers),
            length => format!("{} … {} ({length} members)", list(&numbers[..2]), numbers[length - 1]),
        };
        writeln!(
            text,
            "| {} | {turns} | {} | {} (weight {}) | < {} |",
            shown(weights.iter().map(|weight| u64::from(*weight)).collect()),
            shown(won),
            decimal(strayed[close], i64::from(sum)),
            weights[close],
            decimal(bound(weights, close), i64::from(sum)),
        )
        .unwrap();
    }
    text
}

/// The bound holds for any weights; a predicate that could not fail would show nothing, so a selector that forgets the
/// clamp, one that charges everybody alike and one that serves in blocks must each be caught by it.
#[test]
fn the_bound_holds_for_any_weights_and_catches_unfair_selectors() {
    let mut dice = Dice(7);
    for _ in 0..300 {
        let weights: Vec<u32> = (0..2 + dice.roll(11)).map(|_| 1 + dice.roll(1000) as u32).collect();
        let winners = fixed(&weights, 2000);
        let strayed = strays(&weights, &winners);
        assert!((0..weights.len()).all(|member| strayed[member] < bound(&weights, member)), "{weights:?}");
    }
    let weights = [5, 3, 2];
    let caught = |winners: &[usize]| {
        let strayed = strays(&weights, winners);
        (0..weights.len()).any(|member| strayed[member] >= bound(&weights, member))
    };
    let round_robin: Vec<usize> = (0..1000).map(|turn| turn % 3).collect();
    let blocks: Vec<usize> = (0..1000).map(|turn| [0, 0, 0, 0, 0, 1, 1, 1, 2, 2][turn % 10]).collect();
    let mut burst = vec![2; 3];
    burst.extend(fixed(&weights, 1000));
    assert!(caught(&round_robin) && caught(&blocks) && caught(&burst));
    assert!(!caught(&fixed(&weights, 1000)));
}

/// S-133: classes 8:4:2:1:1 and, in class 3, keys 5:3:2: exact shares of 16,000, and the composed bound in every window.
#[test]
fn two_levels_compose() {
    two_levels();
}

pub(super) fn two_levels() -> String {
    let (classes, keys) = ([8, 4, 2, 1, 1], [5, 3, 2]);
    let (class_scale, key_scale) = (Scale::new(&classes), Scale::new(&keys));
    let (mut class_clock, mut key_clock) = (Clock::new(5), Clock::new(3));
    // Members 0 to 3 are the other classes, 4 to 6 the keys of class 3.
    let winners: Vec<usize> = (0..16_000)
        .map(|_| match class_clock.pick(&class_scale, &everyone(5)).unwrap() {
            2 => 4 + usize::from(key_clock.pick(&key_scale, &everyone(3)).unwrap()),
            class => usize::from(class) - usize::from(class > 2),
        })
        .collect();
    assert_eq!(counts(7, &winners), [8000, 4000, 1000, 1000, 1000, 600, 400]);
    let mut text = String::from(
        "| key's weight in class 3 | grants of 16,000 | share of the pool | greatest stray in any window | bound |\n| --- | --- | --- | --- | --- |\n",
    );
    for (key, weight) in keys.iter().enumerate() {
        // Shares in units of 1/160: class 3 has 2/16, the key weight/10 of it.
        let own: Vec<usize> = winners.iter().map(|winner| usize::from(*winner != 4 + key)).collect();
        let share = 2 * weight;
        let strayed = strays(&[share, 160 - share], &own)[0];
        // B_k + (w/W) B_c, with B in the units of its own level: 1/10 and 1/16.
        let composed = 16 * bound(&keys, key) + i64::from(*weight) * bound(&classes, 2);
        assert!(strayed < composed);
        writeln!(
            text,
            "| {weight} | {} | {share}/160 | {} | < {} |",
            counts(7, &winners)[4 + key],
            decimal(strayed, 160),
            decimal(composed, 160)
        )
        .unwrap();
    }
    text
}

/// S-134: after 1,000 foreign grants at equal weight a new key, and one that returns from idling, alternates over the
/// next eight. S-135: exact sequences for equal weights, for 5:3:2 and for a very skewed set.
#[test]
fn sequences_are_exact() {
    for joined_before in [false, true] {
        let (scale, mut clock) = (Scale::new(&[1, 1]), Clock::new(2));
        if joined_before {
            (0..6).for_each(|_| assert!(clock.pick(&scale, &[0, 1]).is_some()));
        }
        (0..1000).for_each(|_| assert_eq!(clock.pick(&scale, &[0]), Some(0)));
        let next: Vec<u16> = (0..8).map(|_| clock.pick(&scale, &[0, 1]).unwrap()).collect();
        assert_eq!(next, [0, 1, 0, 1, 0, 1, 0, 1]);
    }
    assert_eq!(fixed(&[1, 1, 1], 7), [0, 1, 2, 0, 1, 2, 0]);
    // By hand in sixths of ten units: passes 6, 10, 15; each win adds the same again; ties go to the first.
    assert_eq!(fixed(&[5, 3, 2], 11), [0, 1, 0, 2, 0, 1, 0, 0, 1, 2, 0]);
    let skewed = fixed(&[1000, 1], 2002);
    let second: Vec<usize> = (0..2002).filter(|turn| skewed[*turn] == 1).collect();
    assert_eq!(second, [1000, 2001]);
}

/// S-610: however others come and go, a key that stays eligible is served within the bound on waiting that
/// [`super::predicate`] derives, as long as grants are asked for and published. The assumptions are in the document.
#[test]
fn service_is_eventual_under_churn() {
    churn();
}

pub(super) fn churn() -> String {
    let mut text = String::from(
        "| weights | picks | changes of the eligible set | longest wait of a key that stayed eligible | bound |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut dice = Dice(11);
    let many: Vec<u32> = (0..32).map(|_| 1 + dice.roll(20) as u32).collect();
    for weights in [&[1, 1, 1, 1][..], &[5, 3, 2], &[1, 1000], &[1, 7, 50, 1000], &many] {
        let (scale, mut clock) = (Scale::new(weights), Clock::new(weights.len()));
        let mut eligible: Vec<bool> = vec![false; weights.len()];
        let mut waited: Vec<u64> = vec![0; weights.len()];
        let (mut picks, mut changes, mut worst) = (0_u64, 0_u64, (0_u64, 0));
        while picks < 50_000 {
            // Somebody comes or goes, sometimes in every pick, sometimes in one of a hundred.
            if dice.roll(if picks % 20_000 < 10_000 { 2 } else { 100 }) == 0 {
                let member = dice.roll(weights.len() as u64) as usize;
                eligible[member] = !eligible[member];
                waited[member] = 0;
                changes += 1;
            }
            let set: Vec<u16> = everyone(weights.len()).into_iter().filter(|one| eligible[usize::from(*one)]).collect();
            let Some(winner) = clock.pick(&scale, &set).map(usize::from) else { continue };
            picks += 1;
            for member in set.into_iter().map(usize::from) {
                waited[member] = if member == winner { 0 } else { waited[member] + 1 };
                let most = longest_wait(weights, member);
                assert!(waited[member] <= most, "{weights:?}: {member} waited {}", waited[member]);
                if waited[member] * 1000 / most.max(1) > worst.0 * 1000 / longest_wait(weights, worst.1).max(1) {
                    worst = (waited[member], member);
                }
            }
        }
        let shown = if weights.len() > 6 { format!("{} keys of 1 to 20", weights.len()) } else { list(weights) };
        writeln!(
            text,
            "| {shown} | {picks} | {changes} | {} (weight {}) | {} |",
            worst.0,
            weights[worst.1],
            longest_wait(weights, worst.1)
        )
        .unwrap();
    }
    text
}

/// A rival that leaves and returns at the worst moments gains no turn: entering costs what staying costs, or more.
#[test]
fn coming_and_going_gains_nothing() {
    let (scale, mut stayed) = (Scale::new(&[1, 1]), 0);
    for period in 1..20_u64 {
        let (mut clock, mut went) = (Clock::new(2), 0);
        for turn in 0..10_000_u64 {
            let set: &[u16] = if turn % (period + 1) < period { &[0, 1] } else { &[0] };
            match clock.pick(&scale, set) {
                Some(1) => went += 1,
                _ => stayed += 1,
            }
        }
        assert!(went <= 5_000, "{period}: {went}");
    }
    assert!(stayed >= 19 * 5_000);
}
