//! Text of a ledger inside Markdown: it can neither format, link, mention nor end a cell.

use super::redact::redact;

/// A value of a table's cell: secrets masked, at most `most` characters, every punctuation mark that Markdown or HTML
/// could read written as an entity, and control and bidirectional characters as spaces.
#[must_use]
pub fn cell(text: &str, most: usize) -> String {
    let text = redact(text);
    let mut shown: Vec<char> = text.chars().take(most.saturating_add(1)).collect();
    let long = shown.len() > most;
    if long {
        shown.truncate(most.saturating_sub(1));
    }
    let mut out = String::new();
    for character in shown {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | '.' | '-' => out.push(character),
            _ if is_unseen(character) => out.push(' '),
            other if other.is_ascii() => out.push_str(&format!("&#{};", u32::from(other))),
            other => out.push(other),
        }
    }
    if long {
        out.push('…');
    }
    if out.trim().is_empty() { "(blank)".to_owned() } else { out }
}

/// Characters that are not seen themselves and change how others are.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// A table of Markdown. Cells are trusted text or [`cell`].
#[must_use]
pub fn rows<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut out = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(N));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn a_cell_holds_text_alone() {
        assert_eq!(cell("check-01", 48), "check-01");
        assert_eq!(cell("a|b`c`[d](e)", 48), "a&#124;b&#96;c&#96;&#91;d&#93;&#40;e&#41;");
        assert_eq!(cell("<script>\n@octo\u{202e}x", 48), "&#60;script&#62; &#64;octo x");
        assert_eq!(cell("0123456789", 4), "012…");
        assert_eq!(cell(&format!("ghp_{}", "a".repeat(36)), 48), "&#42;&#42;&#42;");
        assert_eq!(cell("\n", 4), "(blank)");
    }
}
