//! What the runner is told: files and commands in its own forms, whatever the values hold.

use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;

use wq_action::jobs::JobError;
use wq_action::protocol::Code;
use wq_action::runner::output::{
    CapturedOutputs, MAX_MESSAGE_BYTES, MAX_OUTPUT_BYTES, MAX_SUMMARY_BYTES, Outputs, RunnerOutputs,
};

/// A stream that a test can look at.
#[derive(Clone, Default)]
struct Stream(Rc<RefCell<Vec<u8>>>);

impl Stream {
    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.borrow().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The runner of one step.
struct Runner {
    folder: tempfile::TempDir,
    stream: Stream,
}

impl Runner {
    fn new() -> Self {
        let runner = Self { folder: tempfile::tempdir().unwrap(), stream: Stream::default() };
        for name in ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY"] {
            std::fs::write(runner.file(name), "").unwrap();
        }
        runner
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn outputs(&self) -> RunnerOutputs<'_> {
        RunnerOutputs::new(|name| Some(self.file(name)), Box::new(self.stream.clone()))
    }

    /// A file of names and values, read as the runner does: `name=value`, or `name<<delimiter` up to a line that is it.
    fn values(&self, name: &str) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.file(name)).unwrap();
        let (mut found, mut lines) = (Vec::new(), text.split('\n'));
        while let Some(line) = lines.next() {
            match (line.find('='), line.find("<<")) {
                (equals, Some(at)) if equals.is_none_or(|equals| at < equals) => {
                    let (name, delimiter) = (&line[..at], &line[at + 2..]);
                    let value: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
                    found.push((name.to_owned(), value.join("\n")));
                }
                (Some(at), _) => found.push((line[..at].to_owned(), line[at + 1..].to_owned())),
                _ => assert!(line.is_empty(), "{line}"),
            }
        }
        found
    }
}

/// Values that would be more than one if they were written plainly.
const HOSTILE: [&str; 7] = [
    "",
    "a\nother=1",
    "x\nEOF\nother=1\n",
    "x\nwq_00000000000000000000000000000000\nother<<EOF\n1\nEOF",
    "name<<EOF\nvalue\nEOF\r\nother=1\r",
    "::set-output name=other::1\n::add-mask::x",
    "%0Aother=1\u{2028}other=2",
];

/// A value comes out as it went in, and as one value, for outputs and variables alike.
#[test]
fn no_value_becomes_a_second_one() {
    let runner = Runner::new();
    let mut outputs = runner.outputs();
    for value in HOSTILE {
        outputs.set("work_queue_origin", value).unwrap();
        outputs.export("GH_AW_WORK_QUEUE_INTENT_ORIGIN", value).unwrap();
    }
    for (file, name) in [("GITHUB_OUTPUT", "work_queue_origin"), ("GITHUB_ENV", "GH_AW_WORK_QUEUE_INTENT_ORIGIN")] {
        let expected: Vec<_> = HOSTILE.iter().map(|value| (name.to_owned(), (*value).to_owned())).collect();
        assert_eq!(runner.values(file), expected);
    }
    // Delimiters differ from one value to the next, so none can be known beforehand.
    let text = std::fs::read_to_string(runner.file("GITHUB_OUTPUT")).unwrap();
    let delimiters: std::collections::BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("work_queue_origin<<")).collect();
    assert_eq!(delimiters.len(), HOSTILE.len());
    for name in ["", "a b", "a=b", "a\nb", "a<<b"] {
        assert_eq!(outputs.set(name, "x").unwrap_err().code(), Code::Internal, "{name:?}");
    }
    assert!(runner.stream.lines().is_empty());
}

/// S-260 and the runner's own limits: what is too long or cannot be written is refused whole.
#[test]
fn bounds_and_unwritable_files_are_refused() {
    let runner = Runner::new();
    let mut outputs = runner.outputs();
    let long = "x".repeat(MAX_OUTPUT_BYTES + 1);
    assert_eq!(outputs.set_all(&[("a", "1"), ("b", &long)]).unwrap_err().code(), Code::ResourceLimit);
    let half = "x".repeat(MAX_OUTPUT_BYTES / 2 + 4096);
    assert_eq!(outputs.set_all(&[("a", &half), ("b", &half)]).unwrap_err().code(), Code::ResourceLimit);
    assert!(runner.values("GITHUB_OUTPUT").is_empty());
    let most = "s".repeat(MAX_SUMMARY_BYTES - 1);
    outputs.summary(&most).unwrap();
    assert_eq!(outputs.summary("x").unwrap_err().code(), Code::ResourceLimit);
    assert_eq!(std::fs::metadata(runner.file("GITHUB_STEP_SUMMARY")).unwrap().len(), MAX_SUMMARY_BYTES as u64);
    for name in ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY"] {
        std::fs::remove_file(runner.file(name)).unwrap();
        std::fs::create_dir(runner.file(name)).unwrap();
    }
    assert_eq!(outputs.set("a", "1").unwrap_err().code(), Code::IoFailed);
    assert_eq!(outputs.export("a", "1").unwrap_err().code(), Code::IoFailed);
    assert_eq!(outputs.summary("x").unwrap_err().code(), Code::IoFailed);
    let mut nothing = RunnerOutputs::new(|_| None, Box::new(runner.stream.clone()));
    assert_eq!(nothing.set("a", "1").unwrap_err().code(), Code::IoFailed);
    let mut empty = RunnerOutputs::new(|_| Some(PathBuf::new()), Box::new(runner.stream.clone()));
    assert_eq!(empty.set("a", "1").unwrap_err().code(), Code::IoFailed);
}

/// An annotation, a note and a mask are one command or line each; nothing in them begins another.
#[test]
fn no_text_becomes_a_second_command() {
    let runner = Runner::new();
    let mut outputs = runner.outputs();
    let text = "a\n::set-env name=x::1\r\n::error::b%0A::warning::c\u{1b}[2J\u{7}";
    outputs.error(&format!("{text},file=x:y"), text);
    outputs.warning("title", text);
    outputs.note("::error::x\n##[error]y");
    outputs.note("##[group]z");
    outputs.mask("one\n\ntwo\n");
    let lines = runner.stream.lines();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    let escaped = "a%0A::set-env name=x::1%0D%0A::error::b%250A::warning::c [2J ";
    assert_eq!(lines[1], format!("::warning title=title::{escaped}"));
    let title = escaped.replace(':', "%3A");
    assert_eq!(lines[0], format!("::error title={title}%2Cfile=x%3Ay::{escaped}"));
    assert_eq!(lines[2], "- ::error::x ##[error]y");
    assert_eq!(lines[3], "- ##[group]z");
    assert_eq!(lines[4..], ["::add-mask::one", "::add-mask::two"]);
    let long = "é".repeat(MAX_MESSAGE_BYTES);
    outputs.error("t", &long);
    let last = runner.stream.lines().pop().unwrap();
    assert_eq!(last.len(), "::error title=t::".len() + MAX_MESSAGE_BYTES);
    assert_eq!(runner.values("GITHUB_OUTPUT"), []);
}

/// O-204, O-208: a failed job annotates its step once, with category, code, explanation and action, and without its
/// sentence, which may be about what a host or a file said.
#[test]
fn a_failure_is_annotated_with_static_text() {
    let mut outputs = CapturedOutputs::default();
    let error = JobError::new(Code::ApiForbidden, "octo/widgets said no to ghs_secret");
    error.annotate(&mut outputs);
    assert_eq!(outputs.errors.len(), 1);
    let (title, message) = &outputs.errors[0];
    assert_eq!(title, "Work queue: github_permission_denied");
    assert!(message.starts_with("github_permission_denied (api_forbidden): GitHub refused the trusted job's request."));
    assert!(message.contains("Check that job's permissions"));
    assert!(!message.contains("octo") && !message.contains("ghs_"));
}
