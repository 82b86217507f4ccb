//! The messages that an agent's run left as outputs (jobs.md 5.4, lifecycle.md 5.5). Their file is an agent's: each
//! message is read strictly and for itself, so a defective one takes nothing from the others.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocol::fault::ensure;
use crate::protocol::json::{Node, Scanner};
use crate::protocol::{Code, Fault, Opaque, Text};

/// Longest file of messages, in bytes.
pub const MAX_OUTPUT_BYTES: u64 = 16 * 1024 * 1024;
/// Most messages of a file.
pub const MAX_MESSAGES: usize = 4096;
/// Longest name of an output type, in bytes.
const MAX_TYPE_BYTES: usize = 128;

/// The types by which an agent controls the queue. They are proven by staged intents and never by a message.
pub const CONTROL_TYPES: [&str; 3] = ["work_queue_claim_finish", "work_queue_dispatch_next", "work_queue_submit"];
/// The types that start other workflows: from a Claim only a staged `work_queue_dispatch_next` may (lifecycle.md 5.6).
pub const DELEGATING_TYPES: [&str; 3] = ["call_workflow", "dispatch_repository", "dispatch_workflow"];
/// What a collector leaves on a message that it could not attribute.
const COLLECTED_ERROR: [&str; 2] = ["_claimScopeError", "_claimScopeErrorCode"];

/// One message, read strictly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the file, from 0.
    pub index: usize,
    /// Its output type, with underscores.
    pub output: String,
    /// The message as canonical text, an object.
    pub text: Opaque,
}

/// A message that no handler may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its place in the file, from 0.
    pub index: usize,
    /// Its output type, if that could be told.
    pub output: Option<String>,
    /// Why.
    pub fault: Fault,
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

/// Reads a file `{"items": [...]}`; its other members are nobody's concern here.
///
/// # Errors
/// `work_queue_output_invalid` for a file that is no such object, or has more than 16 MiB or 4,096 messages.
pub fn read_messages(bytes: &[u8], scanner: &mut Scanner) -> Result<Vec<Result<Message, Unread>>, Fault> {
    let invalid = |message| Fault::new(Code::WorkQueueOutputInvalid, message);
    ensure!(bytes.len() as u64 <= MAX_OUTPUT_BYTES, WorkQueueOutputInvalid, "the agent's output has more than 16 MiB");
    let text = str::from_utf8(bytes).map_err(|_| invalid("the agent's output is not UTF-8 text"))?;
    // A list would be read as the members of an object in their order.
    ensure!(text.trim_ascii_start().starts_with('{'), WorkQueueOutputInvalid, "the agent's output is no object");
    let file: File<'_> =
        serde_json::from_str(text).map_err(|_| invalid("the agent's output is not JSON with items"))?;
    ensure!(file.items.len() <= MAX_MESSAGES, WorkQueueOutputInvalid, "the agent's output has more than 4096 messages");
    Ok(file.items.iter().enumerate().map(|(index, item)| read_one(index, item.get(), scanner)).collect())
}

fn read_one(index: usize, text: &str, scanner: &mut Scanner) -> Result<Message, Unread> {
    let scope = |message| Fault::new(Code::ClaimScopeInvalid, message);
    let unread = |output: Option<String>, fault| Unread { index, output, fault };
    let document = scanner
        .read(&Text::from(text))
        .map_err(|_| unread(None, scope("a message is not JSON of the wire profile, or repeats a key")))?;
    let root = document.root();
    let object = root.object().ok_or_else(|| unread(None, scope("a message is an object")))?;
    let output = object.get("type").and_then(Node::plain).filter(|name| is_type(name));
    let output = output.ok_or_else(|| unread(None, scope("a message names no output type")))?.replace('-', "_");
    if COLLECTED_ERROR.iter().any(|name| object.get(name).is_some()) {
        let code = object.get(COLLECTED_ERROR[1]).and_then(Node::plain);
        let code =
            if code == Some("claim_scope_required") { Code::ClaimScopeRequired } else { Code::ClaimScopeInvalid };
        return Err(unread(
            Some(output),
            Fault::new(code, "the message could not be attributed when it was collected"),
        ));
    }
    Ok(Message { index, output, text: Opaque::checked(root.text()) })
}

/// True for a name such as `create_issue`; older files have hyphens.
fn is_type(name: &str) -> bool {
    let characters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    (1..=MAX_TYPE_BYTES).contains(&name.len()) && name.bytes().all(characters)
}

#[cfg(test)]
mod tests {
    use super::read_messages;
    use crate::protocol::Code;
    use crate::protocol::json::Scanner;

    fn read(text: &str) -> Result<Vec<Result<String, Code>>, Code> {
        let read = read_messages(text.as_bytes(), &mut Scanner::new("github.com")).map_err(|fault| fault.code())?;
        Ok(read.into_iter().map(|one| one.map(|one| one.output).map_err(|one| one.fault.code())).collect())
    }

    /// S-397: a message that cannot be read is an error of its own, and its neighbours stand.
    #[test]
    fn each_message_stands_for_itself() {
        const SCOPE: Result<&str, Code> = Err(Code::ClaimScopeInvalid);
        for (item, expected) in [
            (r#"{"type":"noop"}"#, Ok("noop")),
            (r#" {"type" : "create-issue","title":"\u00e9"}"#, Ok("create_issue")),
            (r#"{"type":"noop","type":"create_issue"}"#, SCOPE),
            (r#"{"type":"noop","n":1.5}"#, SCOPE),
            (r#"{"type":"noop","t":"\ud800"}"#, SCOPE),
            (r#"{"type":1}"#, SCOPE),
            (r#"{"type":""}"#, SCOPE),
            (r#"{"type":"../x"}"#, SCOPE),
            ("{}", SCOPE),
            ("[]", SCOPE),
            ("null", SCOPE),
            (r#"{"type":"invalid","_claimScopeErrorCode":"claim_scope_required"}"#, Err(Code::ClaimScopeRequired)),
            (r#"{"type":"noop","_claimScopeError":"x"}"#, SCOPE),
        ] {
            let file = format!(r#"{{"items":[{{"type":"noop"}},{item}],"errors":["x",1.5]}}"#);
            let found = read(&file).unwrap();
            assert_eq!(found, [Ok("noop".to_owned()), expected.map(str::to_owned)], "{item}");
        }
        let deep = format!(
            r#"{{"items":[{{"type":"noop","x":{}1{}}},{{"type":"noop"}}]}}"#,
            "[".repeat(9999),
            "]".repeat(9999)
        );
        assert_eq!(read(&deep).unwrap().iter().filter(|one| one.is_ok()).count(), 1);
    }

    #[test]
    fn a_file_is_an_object_with_items() {
        assert_eq!(read("{}"), Ok(Vec::new()));
        assert_eq!(read(r#"{"items":[]}"#), Ok(Vec::new()));
        let many = format!(r#"{{"items":[{}]}}"#, vec!["{}"; 4097].join(","));
        for text in
            ["", "[]", "[[]]", "{", "null", r#"{"items":{}}"#, r#"{"items":null}"#, r#"{"items":[],"items":[]}"#, &many]
        {
            assert_eq!(read(text), Err(Code::WorkQueueOutputInvalid), "{:.40}", text);
        }
        assert!(read_messages(b"{\"items\":[\xff]}", &mut Scanner::new("")).is_err());
    }
}
