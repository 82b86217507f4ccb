//! Finds requirement IDs in doc comments, and what the comments stand on.

/// One ID in one doc comment.
#[derive(Clone, Debug)]
pub(super) struct Citation {
    pub(super) id: String,
    /// Path of the file.
    pub(super) path: String,
    /// Line of the comment, from 1.
    pub(super) line: usize,
    /// The item that the comment documents; none for a file's own comment.
    item: Option<String>,
    /// True if the ID is written as the start of a range.
    pub(super) range: bool,
}

impl Citation {
    /// Where a reader finds it. No line number: those move with every edit.
    pub(super) fn place(&self) -> String {
        match &self.item {
            Some(item) => format!("{}::{item}", self.path),
            None => self.path.clone(),
        }
    }
}

/// True for `S-` or `O-` and three digits.
pub(super) fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 5 && matches!(&bytes[..2], b"S-" | b"O-") && bytes[2..].iter().all(u8::is_ascii_digit)
}

/// Every citation of a file.
pub(super) fn citations(path: &str, text: &str) -> Vec<Citation> {
    let mut found = Vec::new();
    let mut waiting: Vec<Citation> = Vec::new();
    // Open brackets of an attribute that runs over several lines.
    let mut open = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let comment = |body: &str, out: &mut Vec<Citation>| {
            out.extend(ids(body).into_iter().map(|(id, range)| Citation {
                id,
                path: path.to_owned(),
                line: index + 1,
                item: None,
                range,
            }));
        };
        if open > 0 || line.starts_with("#[") {
            open += line.matches(['[', '(']).count();
            open -= line.matches([']', ')']).count().min(open);
            continue;
        }
        if let Some(body) = line.strip_prefix("//!") {
            comment(body, &mut found);
        } else if let Some(body) = line.strip_prefix("///") {
            comment(body, &mut waiting);
        } else if line.is_empty() || line.starts_with("//") {
            // A plain comment between a doc comment and its item.
        } else if let Some(item) = item(line) {
            found.extend(waiting.drain(..).map(|citation| Citation { item: Some(item.clone()), ..citation }));
        } else {
            // A member or variant: the file is what can be named.
            found.append(&mut waiting);
        }
    }
    found.append(&mut waiting);
    found
}

/// The name of the item that a line declares.
fn item(line: &str) -> Option<String> {
    let mut words =
        line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!')).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        match word {
            "pub" | "crate" | "super" | "async" | "unsafe" | "extern" | "in" => {}
            "const" => match words.next() {
                Some("fn") => return words.next().map(str::to_owned),
                name => return name.map(str::to_owned),
            },
            "fn" | "struct" | "enum" | "trait" | "type" | "static" | "mod" | "macro_rules!" => {
                return words.next().map(str::to_owned);
            }
            _ => return None,
        }
    }
    None
}

/// The IDs in one line, each with whether it begins a range.
fn ids(line: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 5 <= line.len() {
        let candidate = line.get(at..at + 5).unwrap_or("");
        let before = line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '-');
        let after = line.get(at + 5..).unwrap_or("");
        if !before && is_id(candidate) && !after.starts_with(|c: char| c.is_alphanumeric()) {
            let range = ["..=", "..", " to ", " through ", "-", "–", " - ", " – "].iter().any(|between| {
                after.strip_prefix(between).is_some_and(|rest| {
                    rest.get(..5).is_some_and(is_id)
                        || (!between.contains(' ') && rest.starts_with(|c: char| c.is_ascii_digit()))
                })
            });
            found.push((candidate.to_owned(), range));
            at += 5;
        } else {
            at += line[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

mod tests {
    use super::citations;

    fn places(text: &str) -> Vec<String> {
        citations("a.rs", text).iter().map(|found| format!("{} {}", found.id, found.place())).collect()
    }

    #[test]
    fn an_id_belongs_to_the_item_below_its_comment() {
        let text = "//! O-001: file.\n\n/// S-001, S-002: text\n/// (O-003).\n#[test]\n#[cfg(\n    unix\n)]\nfn one() {\n    // S-009 is no doc comment\n    let x = \"S-008\";\n}\n\
                    proptest! {\n    /// S-004.\n    #[test]\n    fn two(x in 0..3) {}\n}\n/// S-005.\npub(crate) const fn three() {}\n/// S-006.\npub const LIMIT: usize = 3;\n";
        assert_eq!(
            places(text),
            [
                "O-001 a.rs",
                "S-001 a.rs::one",
                "S-002 a.rs::one",
                "O-003 a.rs::one",
                "S-004 a.rs::two",
                "S-005 a.rs::three",
                "S-006 a.rs::LIMIT",
            ]
        );
    }

    #[test]
    fn members_stand_for_their_file_and_other_words_are_no_ids() {
        assert_eq!(places("struct A {\n    /// S-001.\n    field: u8,\n}\n"), ["S-001 a.rs"]);
        assert_eq!(places("/// US-001, S-0011, XS-001, S-01, S-001-002x ü S-002\nfn f() {}\n").len(), 2);
    }
}
