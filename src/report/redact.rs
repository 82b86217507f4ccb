//! Masks what looks like a credential. Ledgers should hold none; a label that does must not spread it.

use std::borrow::Cow;

/// Prefixes of tokens, and how many characters of the token's alphabet must follow before it counts as one.
const PREFIXES: [(&str, usize); 9] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("AKIA", 16),
    ("xoxb-", 10),
    ("sk-", 20),
];

/// The text with every token-like run replaced by `***`.
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut clean = 0;
    let mut at = 0;
    while at < text.len() {
        match token_end(&text[at..]) {
            Some(length) => {
                out.push_str(&text[clean..at]);
                out.push_str("***");
                at += length;
                clean = at;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    if clean == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[clean..]);
    Cow::Owned(out)
}

/// Length of the token that the text begins with.
fn token_end(text: &str) -> Option<usize> {
    PREFIXES.iter().find_map(|(prefix, least)| {
        let rest = text.strip_prefix(prefix)?;
        let body = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')).count();
        (body >= *least).then_some(prefix.len() + body)
    })
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn tokens_are_masked_and_words_are_kept() {
        let token = format!("ghp_{}", "a".repeat(36));
        assert_eq!(redact(&format!("key {token} end")), "key *** end");
        assert_eq!(redact(&token), "***");
        assert_eq!(redact("ghp_short and sk-ip"), "ghp_short and sk-ip");
        assert_eq!(redact("é"), "é");
    }
}
