//! Just enough of Rust's grammar to list the paths that a file's code names.

/// One path, flattened out of its use-tree. A macro's last segment ends in `!`.
pub(super) struct Found {
    /// Line, from 1.
    pub(super) line: usize,
    /// Segments, never empty.
    pub(super) path: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// `::`
    Colons,
    Other(u8),
}

/// Every path in the file's code outside comments, strings and test modules.
pub(super) fn paths(text: &str) -> Vec<Found> {
    let tokens = without_tests(tokens(text));
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let qualified = at > 0 && matches!(tokens[at - 1].0, Token::Colons | Token::Other(b'.'));
        if matches!(tokens[at].0, Token::Word(_)) && !qualified {
            at = path(&tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path or use-tree at `at`, below `prefix`; returns the position after it.
fn path(tokens: &[(Token, usize)], mut at: usize, prefix: &[String], found: &mut Vec<Found>) -> usize {
    let mut segments = prefix.to_vec();
    let line = tokens[at].1;
    while let Some((Token::Word(word), _)) = tokens.get(at) {
        segments.push(word.clone());
        at += 1;
        if tokens.get(at).is_none_or(|token| token.0 != Token::Colons) {
            break;
        }
        at += 1;
        if tokens.get(at).is_some_and(|token| token.0 == Token::Other(b'{')) {
            return group(tokens, at + 1, &segments, found);
        }
    }
    let is_macro = tokens.get(at).is_some_and(|token| token.0 == Token::Other(b'!'))
        && tokens.get(at + 1).is_some_and(|token| matches!(token.0, Token::Other(b'(' | b'[' | b'{')));
    if let (true, Some(last)) = (is_macro, segments.last_mut()) {
        last.push('!');
    }
    found.push(Found { line, path: segments });
    at
}

/// Reads the members of a use-group after its `{`; returns the position after its `}`.
fn group(tokens: &[(Token, usize)], mut at: usize, prefix: &[String], found: &mut Vec<Found>) -> usize {
    while let Some((token, _)) = tokens.get(at) {
        match token {
            Token::Other(b'}') => return at + 1,
            // `Name as Other`: the alias is no path.
            Token::Word(word) if word == "as" => at += 2,
            Token::Word(_) => at = path(tokens, at, prefix, found),
            _ => at += 1,
        }
    }
    at
}

/// Drops `#[cfg(test)] mod name { … }`.
fn without_tests(tokens: Vec<(Token, usize)>) -> Vec<(Token, usize)> {
    let mut kept: Vec<(Token, usize)> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if let Some(body) = test_module(&tokens[at..]) {
            at += body;
            let mut open = 1;
            while open > 0 && at < tokens.len() {
                open += match tokens[at].0 {
                    Token::Other(b'{') => 1,
                    Token::Other(b'}') => -1,
                    _ => 0,
                };
                at += 1;
            }
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The position after `#[cfg(test)] … mod name {`, attributes in between allowed.
fn test_module(tokens: &[(Token, usize)]) -> Option<usize> {
    let word = |text: &str| Token::Word(text.to_owned());
    let start = [Token::Other(b'#'), Token::Other(b'['), word("cfg"), Token::Other(b'('), word("test")];
    let begins = tokens.len() > start.len() && start.iter().zip(tokens).all(|(wanted, token)| *wanted == token.0);
    if !begins {
        return None;
    }
    let module = tokens.iter().take(40).position(|token| token.0 == word("mod"))?;
    let early = tokens[..module].iter().any(|token| matches!(token.0, Token::Other(b'{' | b';')));
    (!early && tokens.get(module + 2)?.0 == Token::Other(b'{')).then_some(module + 3)
}

fn tokens(text: &str) -> Vec<(Token, usize)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = text[at..].find('\n').map_or(bytes.len(), |end| at + end),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = block_comment(bytes, at),
            b'"' => at = string(bytes, at + 1),
            b'r' | b'b' if raw_string(bytes, at).is_some() => at = raw_string(bytes, at).unwrap_or(at + 1),
            b'\'' => at = quote(text, at),
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                while bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
                    at += 1;
                }
                if !byte.is_ascii_digit() {
                    out.push((Token::Word(text[start..at].to_owned()), line));
                }
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                out.push((Token::Colons, line));
                at += 2;
            }
            byte => {
                if !byte.is_ascii_whitespace() {
                    out.push((Token::Other(byte), line));
                }
                at += 1;
            }
        }
        line += bytes[start..at.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count();
    }
    out
}

fn block_comment(bytes: &[u8], mut at: usize) -> usize {
    let mut open = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            open += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            open -= 1;
            at += 2;
            if open == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The position after a string whose inside begins at `at`.
fn string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The position after `r"…"`, `r#"…"#`, `br"…"`, `b"…"` or `b'…'`, if one begins here.
fn raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut open = at + usize::from(bytes[at] == b'b');
    if bytes[at] == b'b' && bytes.get(open) == Some(&b'"') {
        return Some(string(bytes, open + 1));
    }
    if bytes.get(open) != Some(&b'r') {
        return None;
    }
    open += 1;
    let hashes = bytes[open..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(open + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = open + hashes + 1;
    while end < bytes.len() {
        let closes = bytes[end] == b'"' && bytes[end + 1..].iter().take_while(|byte| **byte == b'#').count() >= hashes;
        end += 1;
        if closes {
            return Some(end + hashes);
        }
    }
    Some(end)
}

/// The position after a character literal, or after the tick of a lifetime.
fn quote(text: &str, at: usize) -> usize {
    let mut rest = text[at + 1..].char_indices();
    match rest.next() {
        Some((_, '\\')) => {
            // The escaped character may itself be a tick.
            let body = at + 3;
            text.get(body..).and_then(|tail| tail.find('\'')).map_or(text.len(), |end| body + end + 1)
        }
        Some((_, _)) => match rest.next() {
            Some((end, '\'')) => at + 1 + end + 1,
            _ => at + 1,
        },
        None => at + 1,
    }
}
