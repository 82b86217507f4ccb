//! Text from a ledger, made safe for a terminal (operator-cli.md 5.1). A node key may hold escape sequences or
//! bidirectional controls; what is printed is ASCII.

use super::redact::redact;

/// Double-quoted ASCII: `\a \b \f \n \r \t \v \\ \"`, other control bytes as `\xHH`, other non-ASCII characters as
/// `\uHHHH` or `\UHHHHHHHH`.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escape(text, &mut out);
    out.push('"');
    out
}

/// A sentence with the escapes of [`quote`], but without quotes, and with its own quotes and backslashes as they are.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for part in text.split_inclusive(['"', '\\']) {
        match part.strip_suffix(['"', '\\']) {
            Some(body) => {
                escape(body, &mut out);
                out.push_str(&part[body.len()..]);
            }
            None => escape(part, &mut out),
        }
    }
    out
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            ' '..='~' => out.push(character),
            other => {
                let code = u32::from(other);
                out.push_str(&match code {
                    0..0x80 => format!("\\x{code:02x}"),
                    0x80..0x1_0000 => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
}

/// A label for a table or a sentence: secrets masked, and quoted unless it is plain visible ASCII.
#[must_use]
pub fn label(text: &str) -> String {
    let text = redact(text);
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'`' | b'\'');
    if !text.is_empty() && text.bytes().all(plain) { text.into_owned() } else { quote(&text) }
}

/// A label cut to `most` characters for a table that people scan. Never used where a program reads.
#[must_use]
pub fn short(text: &str, most: usize) -> String {
    let safe = label(text);
    // A label is ASCII, so bytes are characters.
    if safe.len() <= most { safe } else { format!("{}..", &safe[..most.saturating_sub(2)]) }
}

#[cfg(test)]
mod tests {
    use super::{label, plain, quote, short};

    #[test]
    fn a_label_is_visible_ascii_whatever_the_ledger_holds() {
        assert_eq!(quote("a\u{1b}[31m\"\\\n\u{7f}"), r#""a\x1b[31m\"\\\n\x7f""#);
        assert_eq!(quote("\u{202e}é\u{1f600}"), r#""\u202e\u00e9\U0001f600""#);
        assert_eq!(plain("say \"a\u{1b}\u{e9}\" \\ end"), r#"say "a\x1b\u00e9" \ end"#);
        assert_eq!(label("check-01"), "check-01");
        assert_eq!(label(""), "\"\"");
        assert_eq!(label("two words"), "\"two words\"");
        assert_eq!(short("0123456789", 6), "0123..");
        assert_eq!(short("0123", 6), "0123");
    }
}
