//! The events of a trace (operator-cli.md 4.6), one line an event.

use super::page::{Line, Page};
use super::{plain, quote};
use crate::engine::trace::{Trace, TraceEvent};
use crate::protocol::Fault;
use crate::protocol::json::Writer;

/// A page of events.
///
/// # Errors
/// `resource_limit` if one event alone is longer than a page.
pub fn trace_page(trace: &Trace, offset: usize, limit: usize) -> Result<Page, Fault> {
    Page::fill(trace.events.len(), offset, limit, |number| line(&trace.events[number]))
}

fn line(event: &TraceEvent) -> Line {
    let commit = event.commit();
    let mut text = format!(
        "{}[{}] {} request={}",
        quote(commit.commit_id.as_str()),
        event.position().operation,
        event.kind(),
        quote(commit.request_id.as_str())
    );
    let [work, claim, dispatch, state] = event.names();
    // Whatever names its Claim needs no Work beside it.
    for (name, value) in [("work", work.filter(|_| claim.is_none())), ("claim", claim), ("dispatch", dispatch)] {
        if let Some(value) = value {
            text.push_str(&format!(" {name}={}", quote(value)));
        }
    }
    if let Some(state) = state {
        text.push_str(&format!(" {}", plain(state)));
    }
    let mut writer = Writer::new();
    event.write(&mut writer);
    Line { text, json: writer.finish() }
}
