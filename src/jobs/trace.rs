//! Spans of the queue's phases (jobs.md 10): one JSON line each, for an exporter that the workflow may have. They are
//! written if the job carries a trace and never otherwise; a span that cannot be written changes nothing, and nothing
//! reads one back.

use std::io::Write as _;
use std::path::Path;

use super::environment::Variables;
use super::world::World;
use crate::ports::{Clock, Entropy};
use crate::protocol::At;
use crate::protocol::assignment::Assignment;
use crate::protocol::json::Writer;

/// The job's trace, and the span that ours belong to.
const TRACE: &str = "GITHUB_AW_OTEL_TRACE_ID";
const PARENT: &str = "GITHUB_AW_OTEL_PARENT_SPAN_ID";
/// Names of the phases. There are no others.
pub const PHASES: [&str; 4] =
    ["work-queue.schedule.run", "work-queue.publish.run", "work-queue.launch.run", "work-queue.reconcile.run"];
/// Largest file that spans are added to, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;
/// Most references of one kind in a span.
const MAX_REFERENCES: usize = 64;

/// True if the variables carry a whole trace context.
#[must_use]
pub fn is_available(variables: &Variables) -> bool {
    context(variables).is_some()
}

fn context(variables: &Variables) -> Option<(&str, &str)> {
    let hex = |name, length| {
        let value = variables.get(name)?;
        let digits = value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (value.len() == length && digits && value.bytes().any(|byte| byte != b'0')).then_some(value)
    };
    Some((hex(TRACE, 32)?, hex(PARENT, 16)?))
}

/// Where spans go, and to which trace they belong.
#[derive(Clone, Copy)]
pub struct Tracer<'a> {
    /// The compiled workflow's variables.
    pub variables: &'a Variables,
    /// The file of spans.
    pub file: &'a Path,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Chance, for span ids. They name nothing else: no ownership and no request follows from one.
    pub entropy: &'a dyn Entropy,
}

/// What one span says: opaque references and the four labels that metrics may have. Work, Claim and request are never
/// labels, and payloads are in no span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// References: name and value, such as the request's id.
    pub references: Vec<(&'static str, String)>,
    /// `pool`.
    pub pool: Option<String>,
    /// `priority`.
    pub priority: Option<i64>,
    /// `mode`.
    pub mode: Option<&'static str>,
    /// `result`: a stable word.
    pub result: &'static str,
    /// Attempts that did not publish: number, version that each was decided on, and result.
    pub attempts: Vec<(u32, Option<String>, &'static str)>,
}

impl Tracer<'_> {
    /// Writes a span of a phase that began then and ends now.
    pub fn record(&self, phase: &'static str, begun: At, span: &Span) {
        let Some((trace, parent)) = context(self.variables).filter(|_| PHASES.contains(&phase)) else { return };
        let Ok(nonce) = self.entropy.nonce() else { return };
        let line = line(phase, trace, parent, &nonce[..16], begun, self.clock.now(), span);
        let size = std::fs::metadata(self.file).map_or(0, |found| found.len());
        if size.saturating_add(line.len() as u64) > MAX_FILE {
            return;
        }
        let folder = self.file.parent().map(std::fs::create_dir_all);
        if folder.is_some_and(|made| made.is_err()) {
            return;
        }
        // Export never fails a job.
        let file = std::fs::OpenOptions::new().append(true).create(true).open(self.file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

fn line(phase: &str, trace: &str, parent: &str, id: &str, begun: At, ended: At, span: &Span) -> String {
    let nanos = |at: At| format!("{}000000", at.get());
    let mut writer = Writer::new();
    writer.object(|resource| {
        resource.name("resourceSpans", |w| {
            w.array([()], |w, ()| {
                w.object(|scope| {
                    scope.name("scopeSpans", |w| {
                        w.array([()], |w, ()| {
                            w.object(|scope| {
                                scope.name("scope", |w| {
                                    w.object(|named| named.name("name", |w| w.string("work-queue")))
                                });
                                scope.name("spans", |w| {
                                    w.array([()], |w, ()| {
                                        w.object(|members| {
                                            members.name("attributes", |w| attributes(w, span));
                                            members.name("endTimeUnixNano", |w| w.string(&nanos(ended)));
                                            members.name("events", |w| events(w, span, &nanos(ended)));
                                            members.name("kind", |w| w.integer(1));
                                            members.name("name", |w| w.string(phase));
                                            members.name("parentSpanId", |w| w.string(parent));
                                            members.name("spanId", |w| w.string(id));
                                            members.name("startTimeUnixNano", |w| w.string(&nanos(begun)));
                                            members.name("traceId", |w| w.string(trace));
                                        });
                                    });
                                });
                            });
                        });
                    });
                });
            });
        });
    });
    writer.finish() + "\n"
}

fn attribute(writer: &mut Writer, key: &str, value: &str) {
    writer.object(|members| {
        members.name("key", |w| w.string(key));
        members.name("value", |w| w.object(|value_of| value_of.name("stringValue", |w| w.string(value))));
    });
}

fn attributes(writer: &mut Writer, span: &Span) {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (name, value) in span.references.iter().take(MAX_REFERENCES) {
        pairs.push((format!("work_queue.{name}"), crate::report::redact(value).into_owned()));
    }
    let labels = [
        ("pool", span.pool.as_deref().map(|pool| crate::report::redact(pool).into_owned())),
        ("priority", span.priority.map(|priority| priority.to_string())),
        ("mode", span.mode.map(str::to_owned)),
        ("result", Some(span.result.to_owned())),
    ];
    pairs.extend(labels.into_iter().filter_map(|(name, value)| Some((format!("work_queue.{name}"), value?))));
    writer.array(pairs, |w, (key, value)| attribute(w, &key, &value));
}

/// Attempts that lost stay apart from what was accepted.
fn events(writer: &mut Writer, span: &Span, time: &str) {
    writer.array(&span.attempts, |w, (number, observed, result)| {
        w.object(|members| {
            members.name("attributes", |w| {
                let mut pairs =
                    vec![("work_queue.attempt", number.to_string()), ("work_queue.result", (*result).to_owned())];
                pairs.extend(observed.clone().map(|sha| ("work_queue.observed_sha", sha)));
                w.array(pairs, |w, (key, value)| attribute(w, key, &value));
            });
            members.name("name", |w| w.string("publication.attempt"));
            members.name("timeUnixNano", |w| w.string(time));
        });
    });
}

/// A phase that is under way.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Phase {
    name: &'static str,
    begun: At,
}

impl Phase {
    /// Begins a phase.
    pub fn start(world: &World<'_>, name: &'static str) -> Self {
        Self { name, begun: world.clock.now() }
    }

    /// Ends it with a stable word, and the group that it was about, with a reference for each of its Claims.
    pub fn end(self, world: &World<'_>, result: &'static str, group: Option<&Assignment>) {
        let mut span = Span { result, ..Span::default() };
        if let Some(group) = group {
            span.pool = Some(group.pool.as_str().to_owned());
            span.references = group_references(group);
        }
        world.tracer().record(self.name, self.begun, &span);
    }
}

/// The references of a group: its request, commit and dispatch, and each Claim with its Work.
#[must_use]
pub fn group_references(group: &Assignment) -> Vec<(&'static str, String)> {
    let mut references = vec![
        ("request_id", group.request_id.as_str().to_owned()),
        ("commit_id", group.commit_id.as_str().to_owned()),
        ("dispatch_id", group.dispatch_id.as_str().to_owned()),
    ];
    for member in &group.claims {
        references.push(("claim_ref", member.claim_id.as_str().to_owned()));
        references.push(("work_ref", member.work_id.as_str().to_owned()));
    }
    references
}
