//! What a job tells the Actions runner: outputs, variables, the step summary, annotations and masks. Every value is
//! bounded and written so that nothing inside it can pass for a further output or command.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::protocol::fault::ensure;
use crate::protocol::{Code, Fault};

/// Longest value of one output or variable, in bytes; GitHub takes 1 MiB of outputs for a job.
pub const MAX_OUTPUT_BYTES: usize = 1024 * 1024 - 4096;
/// Longest summary of one step, in bytes; GitHub drops a longer one whole.
pub const MAX_SUMMARY_BYTES: usize = 1024 * 1024;
/// Longest message of an annotation, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// Longest title of an annotation, in bytes.
const MAX_TITLE_BYTES: usize = 256;
/// Longest name of an output or variable, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// Where a job writes what its step gives.
pub trait Outputs {
    /// Sets step outputs, all of them or none.
    ///
    /// # Errors
    /// `resource_limit` for more than about 1 MiB, `io_failed` where the runner's file cannot be written.
    fn set_all(&mut self, values: &[(&str, &str)]) -> Result<(), Fault>;

    /// Sets one step output.
    ///
    /// # Errors
    /// As [`Outputs::set_all`].
    fn set(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        self.set_all(&[(name, value)])
    }

    /// Sets a variable for the later steps of the job.
    ///
    /// # Errors
    /// As [`Outputs::set_all`].
    fn export(&mut self, name: &str, value: &str) -> Result<(), Fault>;

    /// Appends Markdown to the step summary. A failure is never more than a warning to the caller.
    ///
    /// # Errors
    /// `resource_limit` where the summary of the step would exceed 1 MiB, `io_failed` where it cannot be written.
    fn summary(&mut self, markdown: &str) -> Result<(), Fault>;

    /// Annotates the run with an error. Long messages are cut.
    fn error(&mut self, title: &str, message: &str);

    /// Annotates the run with a warning.
    fn warning(&mut self, title: &str, message: &str);

    /// Writes one line into the step's log.
    fn note(&mut self, line: &str);

    /// Has the runner hide a secret in every later line of the log.
    fn mask(&mut self, secret: &str);
}

/// The runner's files, and the stream that it reads commands from.
pub struct RunnerOutputs<'a> {
    output: Option<PathBuf>,
    environment: Option<PathBuf>,
    summary: Option<PathBuf>,
    commands: Box<dyn Write + 'a>,
}

impl<'a> RunnerOutputs<'a> {
    /// The files that a lookup of variables names; commands go to the given stream.
    pub fn new(variable: impl Fn(&str) -> Option<PathBuf>, commands: Box<dyn Write + 'a>) -> Self {
        let file = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
        let (output, environment) = (file("GITHUB_OUTPUT"), file("GITHUB_ENV"));
        Self { output, environment, summary: file("GITHUB_STEP_SUMMARY"), commands }
    }

    /// The files that the variables of this process name.
    pub fn of_process(commands: Box<dyn Write + 'a>) -> Self {
        Self::new(|name| std::env::var_os(name).map(PathBuf::from), commands)
    }

    fn command(&mut self, line: &str) {
        // Nobody is left to tell about a log that cannot be written.
        let _ = self.commands.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.commands.flush());
    }

    fn annotate(&mut self, kind: &str, title: &str, message: &str) {
        let title = property(&cut(title, MAX_TITLE_BYTES));
        let message = data(&cut(message, MAX_MESSAGE_BYTES));
        self.command(&format!("::{kind} title={title}::{message}"));
    }
}

impl Outputs for RunnerOutputs<'_> {
    fn set_all(&mut self, values: &[(&str, &str)]) -> Result<(), Fault> {
        append(self.output.as_deref(), &entries(values)?)
    }

    fn export(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        append(self.environment.as_deref(), &entries(&[(name, value)])?)
    }

    fn summary(&mut self, markdown: &str) -> Result<(), Fault> {
        let path = self.summary.as_deref();
        let present = path.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |found| found.len());
        let most = MAX_SUMMARY_BYTES as u64;
        ensure!(
            present.saturating_add(markdown.len() as u64) < most,
            ResourceLimit,
            "the step summary would be longer than 1 MiB"
        );
        append(path, &format!("{markdown}\n"))
    }

    fn error(&mut self, title: &str, message: &str) {
        self.annotate("error", title, message);
    }

    fn warning(&mut self, title: &str, message: &str) {
        self.annotate("warning", title, message);
    }

    fn note(&mut self, line: &str) {
        // A line that begins with two colons or two hashes would be a command.
        let line = printable(&cut(line, MAX_MESSAGE_BYTES));
        self.command(&format!("- {line}"));
    }

    fn mask(&mut self, secret: &str) {
        for line in secret.lines().filter(|line| !line.trim().is_empty()) {
            self.command(&format!("::add-mask::{}", data(line)));
        }
    }
}

/// Names and values in the runner's multi-line form. The delimiter is random, so no value can end its own entry.
fn entries(values: &[(&str, &str)]) -> Result<String, Fault> {
    let mut text = String::new();
    for (name, value) in values {
        ensure!(is_name(name), Internal, "a name of an output is malformed");
        ensure!(value.len() <= MAX_OUTPUT_BYTES, ResourceLimit, "an output is longer than 1 MiB");
        let delimiter = delimiter()?;
        ensure!(!value.contains(&delimiter), Internal, "a random delimiter occurs in a value");
        text.push_str(&format!("{name}<<{delimiter}\n{value}\n{delimiter}\n"));
    }
    ensure!(text.len() <= MAX_OUTPUT_BYTES + 4096, ResourceLimit, "the outputs are longer than 1 MiB");
    Ok(text)
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed)
}

fn delimiter() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Fault::new(Code::IoFailed, "the system gave no random bytes"))?;
    Ok(bytes.iter().fold(String::from("wq_"), |text, byte| format!("{text}{byte:02x}")))
}

/// Appends in one write, so that a failure leaves no half of an entry where the system allows it.
fn append(path: Option<&Path>, text: &str) -> Result<(), Fault> {
    let path = path.ok_or_else(|| Fault::new(Code::IoFailed, "the runner names no file for what this step gives"))?;
    let file = std::fs::OpenOptions::new().append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|_| Fault::new(Code::IoFailed, "the runner's file could not be written"))
}

/// The longest prefix of at most so many bytes.
fn cut(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The text without control characters, line breaks included.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Escapes what follows the second pair of colons of a command.
fn data(text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    printable(&text)
}

/// Escapes a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Outputs that are kept in memory, for tests. Nothing of it is used by the binary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutputs {
    /// Step outputs, in order.
    pub outputs: Vec<(String, String)>,
    /// Exported variables, in order.
    pub exports: Vec<(String, String)>,
    /// Pieces of the summary.
    pub summaries: Vec<String>,
    /// Errors: title and message.
    pub errors: Vec<(String, String)>,
    /// Warnings: title and message.
    pub warnings: Vec<(String, String)>,
    /// Lines of the log.
    pub notes: Vec<String>,
    /// Masked secrets.
    pub masked: Vec<String>,
    /// Refuse outputs and variables from now on.
    pub unwritable: bool,
    /// Refuse summaries from now on.
    pub no_summary: bool,
}

impl CapturedOutputs {
    /// The last value of an output.
    #[must_use]
    pub fn output(&self, name: &str) -> Option<&str> {
        self.outputs.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn refused(when: bool) -> Result<(), Fault> {
        ensure!(!when, IoFailed, "the runner's file could not be written");
        Ok(())
    }
}

impl Outputs for CapturedOutputs {
    fn set_all(&mut self, values: &[(&str, &str)]) -> Result<(), Fault> {
        Self::refused(self.unwritable)?;
        entries(values)?;
        self.outputs.extend(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Ok(())
    }

    fn export(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        Self::refused(self.unwritable)?;
        self.exports.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    fn summary(&mut self, markdown: &str) -> Result<(), Fault> {
        Self::refused(self.no_summary)?;
        self.summaries.push(markdown.to_owned());
        Ok(())
    }

    fn error(&mut self, title: &str, message: &str) {
        self.errors.push((title.to_owned(), message.to_owned()));
    }

    fn warning(&mut self, title: &str, message: &str) {
        self.warnings.push((title.to_owned(), message.to_owned()));
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.to_owned());
    }

    fn mask(&mut self, secret: &str) {
        self.masked.push(secret.to_owned());
    }
}
