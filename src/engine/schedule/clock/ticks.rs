//! Exact counts of ticks.

use std::fmt;
use std::str::FromStr;

use num_bigint::BigUint;

use crate::protocol::{Code, Fault};

/// Most digits of a count that is read. The least common multiple of all weights up to 1,000 has 433, and no number of
/// turns adds as many again. Converting a decimal takes time that grows with the square of its length.
const MAX_DIGITS: usize = 1024;

/// A non-negative number of ticks, exact at any size (engine.md 4.1).
///
/// Equality and order are by value. Displayed and parsed as a canonical decimal: `0`, or digits without a leading zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticks(Size);

/// The derived order is the order of the values, because `Size::Big` never holds what fits a word.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Size {
    Word(u64),
    Big(BigUint),
}

impl Ticks {
    /// No ticks.
    pub const ZERO: Self = Self(Size::Word(0));

    /// The count as a machine word, if it fits one.
    #[must_use]
    pub fn word(&self) -> Option<u64> {
        match self.0 {
            Size::Word(word) => Some(word),
            Size::Big(_) => None,
        }
    }

    /// The count as a big integer.
    #[must_use]
    pub fn to_big(&self) -> BigUint {
        match &self.0 {
            Size::Word(word) => BigUint::from(*word),
            Size::Big(big) => big.clone(),
        }
    }

    /// Number of significant bits; 0 for no ticks.
    #[must_use]
    pub fn bits(&self) -> u64 {
        match &self.0 {
            Size::Word(word) => u64::from(u64::BITS - word.leading_zeros()),
            Size::Big(big) => big.bits(),
        }
    }
}

impl From<u64> for Ticks {
    fn from(word: u64) -> Self {
        Self(Size::Word(word))
    }
}

impl From<BigUint> for Ticks {
    fn from(big: BigUint) -> Self {
        match u64::try_from(&big) {
            Ok(word) => Self(Size::Word(word)),
            Err(_) => Self(Size::Big(big)),
        }
    }
}

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Size::Word(word) => word.fmt(f),
            Size::Big(big) => big.fmt(f),
        }
    }
}

impl FromStr for Ticks {
    type Err = Fault;

    /// Reads a canonical decimal of at most 1,024 digits, more than any clock can come to.
    ///
    /// # Errors
    /// `checkpoint_invalid` for anything else: an empty text, a sign, a leading zero, any other character, more digits.
    fn from_str(text: &str) -> Result<Self, Fault> {
        let refused = || Fault::new(Code::CheckpointInvalid, "a tick count is not a canonical decimal");
        let canonical =
            text == "0" || (!text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
        if !canonical || text.len() > MAX_DIGITS {
            return Err(refused());
        }
        match text.parse::<u64>() {
            Ok(word) => Ok(Self::from(word)),
            Err(_) => text.parse::<BigUint>().map(Self::from).map_err(|_| refused()),
        }
    }
}
