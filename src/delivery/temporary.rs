//! Temporary ids: names that an agent gives to resources which are yet to be made. Each belongs to the Claims whose
//! messages declare it, and no other Claim may refer to it (lifecycle.md 5.5, 5.6).

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::Handle;
use crate::protocol::json::{Kind, Node};

/// The member that declares an id.
const DECLARED: &str = "temporary_id";

/// Who declared which id. Ids are compared without regard to ASCII case, and without a leading `#`.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<String, BTreeSet<Handle>>);

fn name(text: &str) -> String {
    text.trim().trim_start_matches('#').to_ascii_lowercase()
}

impl Owners {
    /// Notes what a message of a Claim declares.
    pub(super) fn declare(&mut self, message: Node<'_>, handle: &Handle) {
        let declared = message.object().and_then(|object| object.get(DECLARED)).and_then(Node::string);
        let Some(declared) = declared.map(|text| name(text.as_str())).filter(|declared| !declared.is_empty()) else {
            return;
        };
        self.0.entry(declared).or_default().insert(handle.clone());
    }

    /// True if the message refers to an id that other Claims declared and this one did not.
    pub(super) fn borrows(&self, message: Node<'_>, handle: &Handle) -> bool {
        let foreign: Vec<&str> =
            self.0.iter().filter(|(_, owners)| !owners.contains(handle)).map(|(name, _)| name.as_str()).collect();
        !foreign.is_empty() && refers(message, &foreign)
    }
}

/// Looks through every string of a value: one that is the id, or that mentions `#id` as a word. Keys count too, since a
/// map from ids is a reference.
fn refers(node: Node<'_>, foreign: &[&str]) -> bool {
    match node.kind() {
        Kind::String => node.string().is_some_and(|text| mentions(text.as_str(), foreign)),
        Kind::Array => node.array().is_some_and(|mut items| items.any(|item| refers(item, foreign))),
        Kind::Object => node
            .object()
            .is_some_and(|object| object.members().any(|(key, value)| refers(key, foreign) || refers(value, foreign))),
        _ => false,
    }
}

fn mentions(text: &str, foreign: &[&str]) -> bool {
    let whole = name(text);
    if foreign.contains(&whole.as_str()) {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    lower.match_indices('#').any(|(at, _)| {
        let rest = &lower[at + 1..];
        foreign.iter().any(|id| rest.starts_with(id) && !rest.as_bytes().get(id.len()).copied().is_some_and(word))
    })
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn an_id_is_mentioned_as_a_word() {
        for (text, found) in [
            ("aw_1", true),
            ("#AW_1", true),
            (" aw_1 ", true),
            ("see #aw_1.", true),
            ("see #aw_12", false),
            ("see aw_1 there", false),
            ("#aw_", false),
            ("", false),
        ] {
            assert_eq!(mentions(text, &["aw_1"]), found, "{text}");
        }
    }
}
