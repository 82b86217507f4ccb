//! The two streams. Results go to stdout, failures to stderr, one object or one text, never both. A reader that went
//! away is no failure: the command's own status stands.

use std::io::{ErrorKind, Write};

use clap::CommandFactory;
use clap::error::ErrorKind as Usage;

use super::Failure;
use crate::protocol::Code;

/// What a command prints, in the form that was asked for, and its exit status.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: String,
    pub(crate) exit: u8,
}

impl Reply {
    /// A successful answer.
    pub(crate) fn done(body: String) -> Self {
        Self { body, exit: 0 }
    }
}

/// Prints a reply and returns the exit status.
pub(crate) fn reply(reply: &Reply, json: bool) -> u8 {
    // A mode that spoke on its own, or had nothing to say.
    if reply.body.is_empty() {
        return reply.exit;
    }
    match print(&mut std::io::stdout().lock(), &reply.body) {
        Ok(()) => reply.exit,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => reply.exit,
        Err(_) => failure(
            &Failure::new(
                Code::IoFailed,
                "the output could not be written",
                "Make room for the output and run the command again, a publication with the same --request-id.",
            ),
            json,
        ),
    }
}

/// Prints one line to stderr. Nobody is left to tell about a stderr that cannot be written.
pub(crate) fn note(line: &str) {
    let _ = print(&mut std::io::stderr().lock(), line);
}

/// Prints a failure to stderr and returns its exit status.
pub(crate) fn failure(failure: &Failure, json: bool) -> u8 {
    let body = if json { failure.json() } else { failure.text() };
    // Nobody is left to tell about a stderr that cannot be written.
    let _ = print(&mut std::io::stderr().lock(), &body);
    failure.exit
}

fn print(stream: &mut impl Write, body: &str) -> std::io::Result<()> {
    stream.write_all(body.as_bytes())?;
    if !body.ends_with('\n') {
        stream.write_all(b"\n")?;
    }
    stream.flush()
}

/// Prints what clap has to say: help and version to stdout, everything else as a usage failure.
pub(crate) fn usage(error: &clap::Error, json: bool) -> u8 {
    if matches!(error.kind(), Usage::DisplayHelp | Usage::DisplayVersion) {
        return reply(&Reply::done(error.to_string()), json);
    }
    let text = error.to_string();
    if !json {
        let _ = print(&mut std::io::stderr().lock(), &text);
        return Code::UsageInvalid.exit();
    }
    let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let message = lines.join(" ").trim_start_matches("error: ").to_owned();
    failure(&Failure::usage(message, "Run the command with --help to see its flags and their bounds."), json)
}

/// Prints the help of the whole command line.
pub(crate) fn help<C: CommandFactory>() -> u8 {
    reply(&Reply::done(C::command().render_help().to_string()), false)
}
