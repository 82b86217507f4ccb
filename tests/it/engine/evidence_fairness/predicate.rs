//! What fair means, in counts of grants alone: nothing here knows a clock, a pass or the selector.
//!
//! # The bound for a fixed set
//!
//! Claim: let the members of a set, `m >= 2`, of weights `w_i` with sum `W`, be eligible at every pick of a window of `N`
//! picks. If member `i` wins `n_i` of them, then
//!
//! > `|n_i - N w_i / W| < 1 + (m - 2) w_i / W`
//!
//! for **every** window, wherever it begins; with one member `n_i = N`.
//!
//! Why, for this initialization (an entrant's pass becomes `max(old, v + 1/w)`), this charge (`1/w` a turn) and this tie
//! rule (a fixed order of members):
//!
//! 1. At every moment each active member has `v <= p_i <= v + 1/w_i`. The winner is the least pass, so nobody's pass is
//!    below the new `v`; a pass is only ever set to `v + 1/w_i` with the `v` of that moment (an old pass of a returning
//!    member was set so too, and `v` never falls), and then `v` grows.
//! 2. In the window a member's pass grows by `1/w_i` a win and by nothing else, so `n_i / w_i = p_i(end) - p_i(start)`.
//!    With `D = v(end) - v(start)` and (1), `n_i = w_i D + e_i` where `|e_i| <= 1`.
//! 3. Summing, `W D = N - sum e_j`, hence `n_i - N w_i / W = e_i (1 - w_i/W) - (w_i/W) sum_{j != i} e_j`, which is at most
//!    `1 - w_i/W + (m - 1) w_i/W`, the bound with `<=`.
//! 4. It is never reached: equality needs `e_i = 1` and all other `e_j = -1` or the reverse. The first says that at the
//!    start `i` waits with pass `v` while the others are past it, so one of them won a tie against `i`; and at the end
//!    `i` won a tie against all of them. A fixed order of members cannot say both. The reverse likewise.
//!
//! # The bound for two levels
//!
//! If a class stays within `B_c` of its share `C/C*` of the pool's grants in every window, and a key within `B_k` of its
//! share `w/W` of the class's grants, the key stays within `B_k + (w/W) B_c` of the product share of the pool's grants:
//! `|n - M w/W| < B_k` and `|M - N C/C*| < B_c`, the second times `w/W`.
//!
//! # The bound on waiting, for any churn
//!
//! Claim: a member that stays eligible is picked after at most `sum_{j != i} (floor(w_j / w_i) + 1)` other picks of its
//! clock, over all configured members `j`, whoever comes and goes meanwhile.
//!
//! Why: it waits with a pass `p <= v + 1/w_i`. Until it is picked every winner has a pass in `[v, p]`; a member's passes at
//! its successive wins lie at least `1/w_j` apart, also across leaving and returning, since an entrant's pass is never
//! below its old one. So `j` wins at most `floor((1/w_i) / (1/w_j)) + 1` times.

/// The most by which some window of a fixed set strayed from its share, for each member, exactly: in units of `1/W` grants.
///
/// With `f(t) = W n(t) - t w` over prefixes, a window `(a, b]` strays by `f(b) - f(a)`, so the greatest stray over all
/// windows is the greatest `f` less the least.
pub(super) fn strays(weights: &[u32], winners: &[usize]) -> Vec<i64> {
    let sum: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    let mut prefix = vec![0_i64; weights.len()];
    let (mut least, mut most) = (prefix.clone(), prefix.clone());
    for winner in winners {
        for (member, weight) in weights.iter().enumerate() {
            prefix[member] += if member == *winner { sum } else { 0 } - i64::from(*weight);
            least[member] = least[member].min(prefix[member]);
            most[member] = most[member].max(prefix[member]);
        }
    }
    most.iter().zip(&least).map(|(most, least)| most - least).collect()
}

/// The same by trying every pair of prefixes, to check the short cut.
pub(super) fn strays_by_every_window(weights: &[u32], winners: &[usize]) -> Vec<i64> {
    let sum: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    let mut worst = vec![0_i64; weights.len()];
    for start in 0..winners.len() {
        let mut counts = vec![0_i64; weights.len()];
        for (length, winner) in (1_i64..).zip(&winners[start..]) {
            counts[*winner] += 1;
            for (member, weight) in weights.iter().enumerate() {
                let stray = counts[member] * sum - length * i64::from(*weight);
                worst[member] = worst[member].max(stray.abs());
            }
        }
    }
    worst
}

/// The bound of the module's head in units of `1/W` grants: strays stay below it; with one member there are none.
pub(super) fn bound(weights: &[u32], member: usize) -> i64 {
    let sum: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    match weights.len() {
        0 | 1 => 1,
        members => sum + (members as i64 - 2) * i64::from(weights[member]),
    }
}

/// Most picks that others get while a member waits.
pub(super) fn longest_wait(weights: &[u32], member: usize) -> u64 {
    let others = weights.iter().enumerate().filter(|(other, _)| *other != member);
    others.map(|(_, weight)| u64::from(weight / weights[member]) + 1).sum()
}

/// Wins of each member.
pub(super) fn counts(members: usize, winners: &[usize]) -> Vec<u64> {
    let mut counts = vec![0; members];
    winners.iter().for_each(|winner| counts[*winner] += 1);
    counts
}

/// A fraction as a decimal with three places, for people.
pub(super) fn decimal(value: i64, of: i64) -> String {
    let thousandths = (value * 1000 + of / 2) / of;
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}
