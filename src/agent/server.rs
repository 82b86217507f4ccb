//! The MCP server over two streams (jobs.md 4.3, 4.4; decisions 66 to 69): one message after another, one line each. It
//! answers requests with and without `initialize` before them, and is silent about whatever is no request.

use std::io::{self, BufRead, Write};

use serde_json::value::RawValue;

use super::catalog::Tool;
use super::rpc::{Lines, Message, Refusal, Request, answer, string};
use super::tools::Toolbox;
use crate::protocol::json::{Value, Writer, parse};

/// Versions of the protocol that are answered with themselves.
const SPOKEN: [&str; 3] = ["2024-11-05", "2025-06-18", "2025-11-25"];
/// The version with batches, which are not done here, and the one it is answered with.
const BATCHED: (&str, &str) = ("2025-03-26", "2025-06-18");
/// Answer to a version that is not known.
const NEWEST: &str = "2025-11-25";
/// Answer to a client that names none.
const OLDEST: &str = "2024-11-05";

/// Serves until the input ends.
///
/// # Errors
/// The stream's own, when the input cannot be read or the output not be written.
pub fn serve(toolbox: &mut Toolbox<'_>, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    tracing::debug!(target: "work-queue:mcp", tools = Tool::of(toolbox.role()).len(), "server.tools.registered");
    let mut lines = Lines::new(input);
    while let Some(line) = lines.next()? {
        let told = match Message::read(line) {
            Message::Silence => continue,
            Message::Unanswerable => {
                let refusal = Refusal::new(Refusal::INVALID_REQUEST, "the id of a request is a string or a number");
                answer("null", &Err(refusal))
            }
            Message::Request(request) => match handle(toolbox, &request) {
                Some(outcome) => answer(request.id, &outcome),
                None => continue,
            },
        };
        output.write_all(told.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// The outcome of a request; none for what is a notification by its name.
fn handle(toolbox: &mut Toolbox<'_>, request: &Request<'_>) -> Option<Result<String, Refusal>> {
    let Some(method) = &request.method else {
        return Some(Err(Refusal::new(Refusal::INVALID_REQUEST, "a request names its method")));
    };
    Some(match method.as_str() {
        "initialize" => Ok(initialize(request.params)),
        "ping" => Ok("{}".to_owned()),
        "tools/list" => Ok(list(toolbox)),
        "tools/call" => call(toolbox, request.params),
        method if method.starts_with("notifications/") => return None,
        _ => Err(Refusal::new(Refusal::NOT_FOUND, "there is no such method")),
    })
}

#[derive(serde::Deserialize)]
struct Initialize<'a> {
    #[serde(borrow, default, rename = "protocolVersion")]
    version: Option<&'a RawValue>,
}

fn initialize(params: Option<&str>) -> String {
    let asked = params.and_then(|params| serde_json::from_str::<Initialize<'_>>(params).ok());
    let asked = asked.and_then(|asked| asked.version).and_then(string);
    let version = match asked.as_deref() {
        None => OLDEST,
        Some(asked) if asked == BATCHED.0 => BATCHED.1,
        Some(asked) => SPOKEN.into_iter().find(|spoken| *spoken == asked).unwrap_or(NEWEST),
    };
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("capabilities", |w| w.raw(r#"{"tools":{}}"#));
        members.name("protocolVersion", |w| w.string(version));
        members.name("serverInfo", |w| w.raw(r#"{"name":"work-queue","version":"3.0.0"}"#));
    });
    writer.finish()
}

fn list(toolbox: &Toolbox<'_>) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("tools", |w| w.array(Tool::of(toolbox.role()), |w, tool| tool.write(w)));
    });
    writer.finish()
}

#[derive(serde::Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

fn call(toolbox: &mut Toolbox<'_>, params: Option<&str>) -> Result<String, Refusal> {
    let wrong = |sentence: &str| Refusal::new(Refusal::INVALID_PARAMS, sentence);
    let call = params.filter(|params| params.starts_with('{'));
    let call = call.and_then(|call| serde_json::from_str::<Call<'_>>(call).ok());
    let name = call.as_ref().and_then(|call| call.name).and_then(string).filter(|name| !name.is_empty());
    let (Some(call), Some(name)) = (call, name) else {
        return Err(wrong("params.name is the name of a tool"));
    };
    let tool = Tool::find(&name, toolbox.role()).map_err(|sentence| Refusal::new(Refusal::NOT_FOUND, sentence))?;
    let arguments = match call.arguments.map(RawValue::get) {
        None | Some("null") => Value::Object(Vec::new()),
        Some(text) => read_arguments(text)?,
    };
    let text = toolbox.call(tool, &arguments)?;
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("content", |w| {
            w.array([text], |w, text| {
                w.object(|content| {
                    content.name("text", |w| w.string(&text));
                    content.name("type", |w| w.string("text"));
                });
            });
        });
        members.name("isError", |w| w.bool(false));
    });
    Ok(writer.finish())
}

/// Reads a tool's arguments strictly (decision 68).
///
/// # Errors
/// `-32602` for text outside the wire profile; the message begins with the codec's code.
pub fn read_arguments(text: &str) -> Result<Value, Refusal> {
    parse(text).map_err(|fault| Refusal::new(Refusal::INVALID_PARAMS, fault.to_string()))
}
