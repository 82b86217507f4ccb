//! How often and after which pauses a publication is attempted (publication.md 2.6).

use std::time::Duration;

use super::error::{Class, LedgerError};
use crate::ports::{Clock, Entropy};
use crate::protocol::Code;

/// Attempts of one publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries(u32);

/// Most retries that a caller may ask for.
const MAX_RETRIES: u32 = 10;
/// Upper end of the jitter, in milliseconds, exclusive.
const JITTER_MS: u64 = 50;

impl Retries {
    /// Allows up to this many retries after the first attempt, 0 to 10.
    ///
    /// # Errors
    /// `usage_invalid` above 10.
    pub fn new(retries: u32) -> Result<Self, LedgerError> {
        if retries > MAX_RETRIES {
            return Err(LedgerError::new(
                Code::UsageInvalid,
                Class::Invalid,
                "a publication retries at most 10 times",
                "Ask for 0 to 10 retries.",
            ));
        }
        Ok(Self(retries))
    }

    /// Attempts in all.
    #[must_use]
    pub fn attempts(self) -> u32 {
        self.0 + 1
    }

    /// Waits before the attempt after this one (counted from 0): 50 ms doubled each time, at most a second, and up to
    /// 49 ms more. Returns false, without waiting, when no attempt is left.
    ///
    /// # Errors
    /// `io_failed` when the system gives no random bytes.
    pub fn pause(self, attempt: u32, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<bool, LedgerError> {
        if attempt >= self.0 {
            return Ok(false);
        }
        let delay = (50_u64 << attempt.min(10)).min(1000) + entropy.below(JITTER_MS)?;
        tracing::debug!(target: "work-queue:store", delay_ms = delay, "request.publish.backoff");
        clock.sleep(Duration::from_millis(delay));
        Ok(true)
    }
}

impl Default for Retries {
    /// Five retries: six attempts.
    fn default() -> Self {
        Self(5)
    }
}

#[cfg(test)]
mod tests {
    use super::Retries;
    use crate::ports::{SimulatedClock, SimulatedEntropy};

    /// S-251: six attempts, with pauses of 50 to 800 ms and less than 50 ms more each.
    #[test]
    fn attempts_and_pauses_are_bounded() {
        let (clock, entropy, retries) = (SimulatedClock::new(0), SimulatedEntropy::new(1), Retries::default());
        let mut before = 0;
        for (attempt, base) in [50, 100, 200, 400, 800].into_iter().enumerate() {
            assert_eq!(retries.pause(u32::try_from(attempt).unwrap(), &clock, &entropy), Ok(true));
            let slept = clock.slept() - before;
            before = clock.slept();
            assert!((base..base + 50).contains(&slept), "{slept}");
        }
        assert_eq!(retries.pause(5, &clock, &entropy), Ok(false));
        assert_eq!(clock.slept(), before);
        assert_eq!(retries.attempts(), 6);
        let most = Retries::new(10).unwrap();
        assert_eq!(most.pause(9, &clock, &entropy), Ok(true));
        assert!((1000..1050).contains(&(clock.slept() - before)));
        assert!(Retries::new(11).is_err());
        assert_eq!(Retries::new(0).unwrap().pause(0, &clock, &entropy), Ok(false));
    }
}
