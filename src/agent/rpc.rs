//! JSON-RPC 2.0 over lines (jobs.md 4.4): lines within a bound, requests out of them, and answers.

use std::io::{self, BufRead};

use serde_json::value::RawValue;

use crate::protocol::json::Writer;

/// Longest message, in bytes: more than any tool takes. A longer line is passed over without being kept.
pub const MAX_MESSAGE_BYTES: usize = 10 * 1024 * 1024;

/// A refusal, with its JSON-RPC code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: i64,
    /// The sentence. It quotes nothing that was sent.
    pub message: String,
}

impl Refusal {
    /// The message is no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method or tool.
    pub const NOT_FOUND: i64 = -32601;
    /// The parameters are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The tool refuses; the message begins with a stable code.
    pub const HANDLER: i64 = -32603;

    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Gives one line after another, each within the bound.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, buffer: Vec::new() }
    }

    /// The next whole line without its line feed, and without a carriage return before it; none at the end of the input,
    /// where an unfinished line is dropped. A line beyond the bound is skipped: no more than the bound is ever held.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        // What a long message took is given back before the next is waited for.
        if self.buffer.capacity() > 64 * 1024 {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        let mut skipping = false;
        loop {
            let found = match self.input.fill_buf() {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if found.is_empty() {
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', found);
            let part = &found[..end.unwrap_or(found.len())];
            skipping |= self.buffer.len() + part.len() > MAX_MESSAGE_BYTES;
            if skipping {
                self.buffer = Vec::new();
            } else {
                self.buffer.extend_from_slice(part);
            }
            let taken = end.map_or(found.len(), |end| end + 1);
            self.input.consume(taken);
            if end.is_none() {
                continue;
            }
            if !skipping {
                if self.buffer.last() == Some(&b'\r') {
                    self.buffer.pop();
                }
                return Ok(Some(&self.buffer));
            }
            skipping = false;
        }
    }
}

/// The envelope. What is not looked into stays text, so that it can be judged strictly, or not at all.
#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// A message that wants an answer.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The id as it was written: a string or a number.
    pub(crate) id: &'a str,
    /// The method, if the message has one.
    pub(crate) method: Option<String>,
    /// Its parameters as text.
    pub(crate) params: Option<&'a str>,
}

/// What a line is.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// Nothing that is answered: a blank line, noise, an array, another version, a notification.
    Silence,
    /// A request whose id is neither string nor number.
    Unanswerable,
    /// A request.
    Request(Request<'a>),
}

impl<'a> Message<'a> {
    pub(crate) fn read(line: &'a [u8]) -> Self {
        // A reader of structs would take an array for one.
        let Some(text) = str::from_utf8(line).ok().filter(|text| text.trim_start().starts_with('{')) else {
            return Self::Silence;
        };
        let Ok(envelope) = serde_json::from_str::<Envelope<'a>>(text) else { return Self::Silence };
        if envelope.jsonrpc.and_then(string).as_deref() != Some("2.0") {
            return Self::Silence;
        }
        let Some(id) = envelope.id.map(RawValue::get).filter(|id| *id != "null") else { return Self::Silence };
        if !id.starts_with(['"', '-']) && !id.starts_with(|first: char| first.is_ascii_digit()) {
            return Self::Unanswerable;
        }
        let params = envelope.params.map(RawValue::get).filter(|params| *params != "null");
        Self::Request(Request { id, method: envelope.method.and_then(string), params })
    }
}

/// A value that is a string.
pub(crate) fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// One line that answers a request; the id is the text that was sent.
pub(crate) fn answer(id: &str, outcome: &Result<String, Refusal>) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        match outcome {
            Ok(result) => members.name("result", |w| w.raw(result)),
            Err(refusal) => members.name("error", |w| {
                w.object(|error| {
                    error.name("code", |w| w.integer(refusal.code));
                    error.name("message", |w| w.string(&refusal.message));
                });
            }),
        }
        members.name("id", |w| w.raw(id));
        members.name("jsonrpc", |w| w.string("2.0"));
    });
    let mut line = writer.finish();
    line.push('\n');
    line
}
