//! A setting that is wrong, named by its property (publication.md 6.3).

use std::borrow::Cow;
use std::fmt;

use crate::protocol::{Code, Fault};

/// The file that settings come from.
pub const SETTINGS_FILE: &str = ".github/workflows/aw.json";

/// Longest part of a property path that is shown, in characters. Legal names are shorter.
const MAX_SHOWN: usize = 256;

/// A refused setting: the path of the property and what is expected there. One defect, the first in the order of
/// publication.md 6.3; its code is `settings_invalid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    property: String,
    message: Cow<'static, str>,
}

impl SettingsError {
    /// A refusal of the property at this path.
    pub(super) fn new(property: &str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { property: property.to_owned(), message: message.into() }
    }

    /// A refusal of the whole file.
    pub(super) fn outer(reason: &str) -> Self {
        Self::new("work_queue", format!("cannot read scheduling configuration: {reason}"))
    }

    /// The path of the property, as in `work_queue.pools.build.retry.max_attempts`. Characters of a name that could
    /// steer a terminal are escaped, and names longer than any legal one are cut.
    #[must_use]
    pub fn property(&self) -> &str {
        &self.property
    }

    /// What is expected there, without the property and the file.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The stable code, `settings_invalid`.
    #[must_use]
    pub fn code(&self) -> Code {
        Code::SettingsInvalid
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; update {SETTINGS_FILE}", self.property, self.message)
    }
}

impl std::error::Error for SettingsError {}

impl From<SettingsError> for Fault {
    fn from(error: SettingsError) -> Self {
        Fault::new(error.code(), error.to_string())
    }
}

/// The path of a member below `parent`.
pub(super) fn child(parent: &str, name: &str) -> String {
    let mut path = format!("{parent}.");
    for (index, character) in name.chars().enumerate() {
        if index == MAX_SHOWN {
            path.push('…');
            break;
        }
        if steers(character) {
            path.extend(character.escape_unicode());
        } else {
            path.push(character);
        }
    }
    path
}

/// True for control characters, and for those that reorder or hide text.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
