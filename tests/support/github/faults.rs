//! What goes wrong, and when.

use super::endpoint::Endpoint;

/// What happens to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strike {
    /// The connection ends before the world looks at the request.
    DropBefore,
    /// The world acts; the answer is lost.
    DropAfter,
    /// The connection breaks in the middle of the status line; the world has not acted.
    ResetBefore,
    /// The same after it acted.
    ResetAfter,
    /// No answer ever; the world has not acted.
    TimeoutBefore,
    /// No answer ever; the world has acted.
    TimeoutAfter,
    /// The answer comes so many milliseconds late.
    Delay(u64),
    /// The world acts twice and gives the first answer.
    Duplicate,
    /// Runs and listings are shown as they were so many changes of runs ago.
    Stale(u64),
    /// An error status instead of acting.
    Status(u16),
    /// An error status without `x-github-request-id`, as a proxy in between sends it.
    StatusWithoutId(u16),
    /// An error status without acting, whose text repeats the caller's token, as a careless server in between might.
    Echo(u16),
    /// An error status although the world acted.
    StatusAfter(u16),
    /// 403 with `retry-after`, without acting: the secondary rate limit.
    SecondaryLimit(u64),
    /// 403 with `x-ratelimit-remaining: 0` and a reset so many seconds ahead, without acting.
    PrimaryLimit(u64),
    /// The world acts; half of the answer's body arrives.
    HalfBody,
    /// The world acts; the body is no JSON.
    Garbage,
    /// The world acts; the body is JSON of another shape.
    WrongShape,
    /// A 502 with an HTML page, without acting.
    Html,
}

impl Strike {
    /// Every kind once, with ordinary numbers: for tables of faults.
    pub(crate) fn every() -> Vec<Strike> {
        let mut all = vec![
            Strike::DropBefore,
            Strike::DropAfter,
            Strike::ResetBefore,
            Strike::ResetAfter,
            Strike::TimeoutBefore,
            Strike::TimeoutAfter,
            Strike::Delay(1),
            Strike::Duplicate,
            Strike::Stale(1),
            Strike::SecondaryLimit(1),
            Strike::PrimaryLimit(1),
            Strike::HalfBody,
            Strike::Garbage,
            Strike::WrongShape,
            Strike::Html,
        ];
        for status in [400, 401, 403, 404, 408, 409, 410, 422, 429, 500, 502, 503, 504] {
            all.extend([Strike::Status(status), Strike::StatusWithoutId(status)]);
        }
        all.extend([500, 502, 503].map(Strike::StatusAfter));
        all
    }

    /// Whether the world acts on a call that is struck like this.
    pub(crate) fn acts(&self) -> bool {
        !matches!(
            self,
            Strike::DropBefore
                | Strike::ResetBefore
                | Strike::TimeoutBefore
                | Strike::Status(_)
                | Strike::StatusWithoutId(_)
                | Strike::Echo(_)
                | Strike::SecondaryLimit(_)
                | Strike::PrimaryLimit(_)
                | Strike::Html
        )
    }
}

/// One planned fault.
#[derive(Clone, Debug)]
struct Planned {
    at: Option<Endpoint>,
    /// How many matching calls pass first.
    skip: u64,
    /// How many are struck then.
    count: u64,
    strike: Strike,
}

/// Faults by chance.
#[derive(Clone, Debug)]
struct Chance {
    seed: u64,
    state: u64,
    /// Of 1,000 calls.
    per_mille: u64,
    strikes: Vec<Strike>,
}

/// The plan: rules first, then chance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Planned>,
    chance: Option<Chance>,
}

impl Faults {
    /// Strikes the next call of an endpoint.
    pub(crate) fn next(at: Endpoint, strike: Strike) -> Self {
        Self::default().and(at, 1, 1, strike)
    }

    /// Adds: strikes `count` calls of an endpoint from the `nth` on, counted from 1 and from now.
    pub(crate) fn and(mut self, at: Endpoint, nth: u64, count: u64, strike: Strike) -> Self {
        self.rules.push(Planned { at: Some(at), skip: nth.saturating_sub(1), count, strike });
        self
    }

    /// Adds: strikes every call of every endpoint, `count` times from the `nth` on: an outage.
    pub(crate) fn outage(mut self, nth: u64, count: u64, strike: Strike) -> Self {
        self.rules.push(Planned { at: None, skip: nth.saturating_sub(1), count, strike });
        self
    }

    /// Faults by chance: `per_mille` of 1,000 calls are struck by one of the strikes. The seed is printed when a test
    /// fails while the plan is in use.
    pub(crate) fn seeded(seed: u64, per_mille: u64, strikes: &[Strike]) -> Self {
        let chance = Chance { seed, state: seed, per_mille, strikes: strikes.to_vec() };
        Self { rules: Vec::new(), chance: Some(chance) }
    }

    /// The seed, if the plan has one.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.chance.as_ref().map(|chance| chance.seed)
    }

    pub(super) fn extend(&mut self, other: Faults) {
        self.rules.extend(other.rules);
        if other.chance.is_some() {
            self.chance = other.chance;
        }
    }

    /// Decides about one call.
    pub(super) fn strike(&mut self, endpoint: Endpoint) -> Option<Strike> {
        let mut found = None;
        for rule in &mut self.rules {
            if rule.count == 0 || rule.at.is_some_and(|at| at != endpoint) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if found.is_none() {
                rule.count -= 1;
                found = Some(rule.strike.clone());
            }
        }
        self.rules.retain(|rule| rule.count > 0);
        found.or_else(|| self.chance.as_mut()?.strike())
    }
}

impl Chance {
    fn strike(&mut self) -> Option<Strike> {
        if self.strikes.is_empty() || self.draw() % 1000 >= self.per_mille {
            return None;
        }
        let index = self.draw() % self.strikes.len() as u64;
        Some(self.strikes[index as usize].clone())
    }

    /// SplitMix64: good enough to choose faults, and the same everywhere.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.state;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
}
