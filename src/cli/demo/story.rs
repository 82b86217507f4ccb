//! What the demo tells: lines as they happen for people, one object at the end for programs.

use std::io::Write as _;

use super::super::Failure;
use super::stage::Stage;
use super::turns::Turn;
use crate::protocol::json::{Value, Writer, parse};
use crate::protocol::{Code, Fault};
use crate::report::{Align, Table, short};

/// The demo's narrator.
pub(super) struct Story {
    json: bool,
    events: Vec<String>,
    turns: Vec<Turn>,
}

impl Story {
    pub(super) fn new(json: bool) -> Self {
        Self { json, events: Vec::new(), turns: Vec::new() }
    }

    /// Tells a line, at once to people.
    pub(super) fn tell(&mut self, line: impl Into<String>) {
        let line = line.into();
        if !self.json {
            // A reader that went away does not stop the demo: its end is still verified.
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
        self.events.push(line);
    }

    /// Tells who got a turn and why.
    pub(super) fn turn(&mut self, turn: Turn) {
        for line in turn.lines() {
            self.tell(line);
        }
        self.turns.push(turn);
    }

    /// Verifies the ledger with a process of its own and sums up.
    pub(super) fn end(mut self, stage: &Stage) -> Result<String, Failure> {
        let path = stage.ledger_file()?;
        let path = path.to_string_lossy();
        let verified = stage.wq(&["verify", "--ledger", &path], false);
        let stats = stage.wq(&["stats"], true);
        let outputs = stage.together(vec![verified, stats])?;
        let read = |index: usize| -> Result<Value, Failure> {
            let text = outputs.get(index).map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            parse(text.unwrap_or_default().trim_end()).map_err(|_| lost("the verification said nothing"))
        };
        let (verified, stats) = (read(0)?, read(1)?);
        if verified.get("ok") != Some(&Value::Bool(true)) {
            return Err(lost("the demo's ledger does not verify"));
        }
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_integer).unwrap_or(0);
        self.tell("");
        self.tell("WHO GOT EACH CLAIM");
        let table = self.table();
        self.tell(table.trim_end().to_owned());
        self.tell("");
        let (commits, work) = (number(&verified, "transactions"), number(&verified, "work"));
        let (completed, claims) = (number(&verified, "completed"), number(&verified, "claims"));
        self.tell(format!(
            "Ledger verified: ok, {commits} commits, {completed} of {work} Work completed with Results, {claims} Claims, \
             {} native reservations held.",
            number(&verified, "dispatches")
        ));
        if self.json { Ok(self.object(&verified, &stats)) } else { Ok("Native runs were simulated.\n".to_owned()) }
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            ("claim", Align::Right),
            ("process", Align::Left),
            ("account", Align::Left),
            ("task", Align::Left),
            ("why", Align::Left),
        ]);
        let mut number = 0;
        for turn in &self.turns {
            for claim in &turn.claims {
                number += 1;
                table.row([
                    number.to_string(),
                    turn.process.clone(),
                    short(&claim.account, 16),
                    short(&claim.task, 20),
                    claim.why.clone(),
                ]);
            }
        }
        table.render(2)
    }

    fn object(&self, verified: &Value, stats: &Value) -> String {
        let encode = |value: &Value| value.encode().unwrap_or_else(|_| "null".to_owned());
        let (verified, stats) = (encode(verified), encode(stats));
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("events", |w| w.array(&self.events, |w, line| w.string(line)));
            members.name("ledger", |w| w.raw(&verified));
            members.name("native_runs", |w| w.string("simulated"));
            members.name("ok", |w| w.bool(true));
            members.name("stats", |w| w.raw(&stats));
            members.name("turns", |w| w.array(&self.turns, |w, turn| turn.write(w)));
        });
        writer.finish()
    }
}

/// The demo went another way than its script.
pub(super) fn lost(message: &'static str) -> Failure {
    Failure::from(Fault::new(Code::Internal, message))
}
