//! Debug lines on standard error (jobs.md 6.4). Any room emits a `tracing` event whose target is `work-queue:` and a
//! namespace, whose message is the event's static name, and whose fields are flags and counts; everything else about
//! it is dropped here. Lines grant nothing and nothing reads them.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tracing::field::{Field as Name, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::ports::{Clock as _, SystemClock};
use crate::protocol::At;
use crate::report::debug::{Field, Stopwatch, Switches, debug_line, is_always_visible, is_name, namespace};

/// The time of day, and whole milliseconds of a clock that never goes back.
pub type Now = Arc<dyn Fn() -> (At, u64) + Send + Sync>;

/// The layer that writes the lines.
pub struct DebugLayer<W> {
    switches: Switches,
    now: Now,
    state: Mutex<(Stopwatch, W)>,
}

impl<W: Write + Send + 'static> DebugLayer<W> {
    /// A layer with these switches, this time and this stream.
    pub fn new(switches: Switches, now: Now, stream: W) -> Self {
        Self { switches, now, state: Mutex::new((Stopwatch::default(), stream)) }
    }
}

/// True for the events that the layer looks at.
#[must_use]
pub fn is_ours(metadata: &tracing::Metadata<'_>) -> bool {
    namespace(metadata.target()).is_some()
}

/// The layer of this process: switched by `ACTIONS_RUNNER_DEBUG`, `RUNNER_DEBUG` and `DEBUG`.
#[must_use]
pub fn of_process<W: Write + Send + 'static>(stream: W) -> DebugLayer<W> {
    let variable = super::environment::variable;
    let [actions, runner, debug] = ["ACTIONS_RUNNER_DEBUG", "RUNNER_DEBUG", "DEBUG"].map(variable);
    let switches = Switches::new(actions.as_deref(), runner.as_deref(), debug.as_deref());
    let started = Instant::now();
    let passed = move || u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    DebugLayer::new(switches, Arc::new(move || (SystemClock.now(), passed())), stream)
}

impl<S: Subscriber, W: Write + Send + 'static> Layer<S> for DebugLayer<W> {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let target = event.metadata().target();
        let Some(namespace) = namespace(target) else { return };
        let mut seen = Seen::default();
        event.record(&mut seen);
        let visible = is_always_visible(namespace, &seen.event) || self.switches.enables(target);
        if !visible || !is_name(&seen.event) {
            return;
        }
        let (at, passed) = (self.now)();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (watch, stream) = &mut *state;
        let line = debug_line(at, namespace, &seen.event, &seen.fields, watch.lap(namespace, passed));
        // Nobody is left to tell about a stderr that cannot be written.
        let _ = stream.write_all(format!("{line}\n").as_bytes()).and_then(|()| stream.flush());
    }
}

/// What an event may show.
#[derive(Default)]
struct Seen {
    event: String,
    fields: Vec<(&'static str, Field)>,
}

impl Visit for Seen {
    fn record_debug(&mut self, name: &Name, value: &dyn std::fmt::Debug) {
        // The message alone is text: the event's name.
        if name.name() == "message" {
            self.event = format!("{value:?}");
        }
    }

    fn record_str(&mut self, name: &Name, value: &str) {
        if name.name() == "message" {
            value.clone_into(&mut self.event);
        }
    }

    fn record_bool(&mut self, name: &Name, value: bool) {
        self.fields.push((name.name(), Field::Flag(value)));
    }

    fn record_u64(&mut self, name: &Name, value: u64) {
        self.fields.push((name.name(), Field::Count(value)));
    }

    fn record_i64(&mut self, name: &Name, value: i64) {
        self.fields.extend(u64::try_from(value).ok().map(|value| (name.name(), Field::Count(value))));
    }

    fn record_u128(&mut self, _name: &Name, _value: u128) {}

    fn record_i128(&mut self, _name: &Name, _value: i128) {}

    fn record_f64(&mut self, _name: &Name, _value: f64) {}
}
