//! Time and chance, as arguments (design.md 4): two small traits, each with a real and a simulated implementation.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::protocol::limits::MAX_INTEGER;
use crate::protocol::{At, Code, Fault};

/// The time of day, and waiting.
pub trait Clock {
    /// Now, in Unix milliseconds.
    fn now(&self) -> At;
    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// Random bytes.
pub trait Entropy {
    /// Fills a buffer with random bytes.
    ///
    /// # Errors
    /// `io_failed` when the system has none to give.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), Fault>;

    /// A 128-bit nonce as 32 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// As [`Entropy::fill`].
    fn nonce(&self) -> Result<String, Fault> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A number from 0 up to but not including `bound`, for jitter. A bound of 0 gives 0.
    ///
    /// # Errors
    /// As [`Entropy::fill`].
    fn below(&self, bound: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes).checked_rem(bound).unwrap_or(0))
    }
}

/// An instant within the wire's range; a clock outside it is held at the nearest end.
fn at(millis: i64) -> At {
    At::new(millis.clamp(0, MAX_INTEGER)).expect("clamped to the range of At")
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> At {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        at(i64::try_from(since.as_millis()).unwrap_or(MAX_INTEGER))
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// The system's source of randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), Fault> {
        getrandom::fill(buffer).map_err(|_| {
            Fault::new(Code::IoFailed, "the system gave no random bytes; check the host's random number source")
        })
    }
}

/// A clock that stands still until somebody sleeps on it or moves it.
#[derive(Debug)]
pub struct SimulatedClock {
    now: AtomicI64,
    slept: AtomicU64,
}

impl SimulatedClock {
    /// A clock that shows this many Unix milliseconds.
    #[must_use]
    pub fn new(millis: i64) -> Self {
        Self { now: AtomicI64::new(millis), slept: AtomicU64::new(0) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: Duration) {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(MAX_INTEGER);
        self.now.fetch_add(millis, Ordering::Relaxed);
    }

    /// Milliseconds slept so far.
    #[must_use]
    pub fn slept(&self) -> u64 {
        self.slept.load(Ordering::Relaxed)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> At {
        at(self.now.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) {
        self.slept.fetch_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.advance(duration);
    }
}

/// A reproducible sequence of bytes from a seed (SplitMix64).
#[derive(Debug)]
pub struct SimulatedEntropy {
    state: AtomicU64,
}

impl SimulatedEntropy {
    /// The sequence that starts at this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SimulatedEntropy {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), Fault> {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
