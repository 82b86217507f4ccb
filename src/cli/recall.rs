//! Finding the expected priorities of a request again, of which a checkpoint kept only the receipt.
//!
//! A receipt names the Work of a change but no priority. What was expected is what the last change before it had set, or
//! the admitted priority; the targets that one earlier request set share its value. Few values are open then, and the
//! fingerprint, which covers them all, proves the right ones.

use std::collections::BTreeMap;

use super::Failure;
use crate::engine::Projection;
use crate::engine::state::{Accepted, Source};
use crate::protocol::json::{Node, Scanner};
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, Fault, Priority, WorkId};

/// Most earlier requests whose priority is open: 5 to the power of this is how often the fingerprint is tried.
const MAX_OPEN: usize = 5;

/// What a target's priority was expected to be.
#[derive(Clone, Copy)]
enum Expected {
    Admitted(Priority),
    /// The value that an earlier request set, by its place among the open ones.
    SetBy(usize),
}

/// The expected priorities of `works`, which are the sorted targets of a request, in their order. `proves` tells whether
/// the request would have had its fingerprint with these.
///
/// # Errors
/// `request_reused` when more than five earlier requests set the priorities, so that nothing can be said.
pub(crate) fn expected_priorities(
    projection: &Projection,
    accepted: &Accepted,
    works: &[WorkId],
    proves: impl Fn(&[Priority]) -> bool,
) -> Result<Option<Vec<Priority>>, Failure> {
    let (mut setters, mut targets) = (BTreeMap::new(), Vec::new());
    for (ordinal, earlier) in projection.requests().enumerate() {
        let changed = prioritized(earlier)?;
        if earlier.commit_id == accepted.commit_id {
            targets = changed;
            break;
        }
        setters.extend(changed.into_iter().map(|work_id| (work_id, ordinal)));
    }
    if targets != works {
        return Ok(None);
    }
    let mut open: Vec<usize> = Vec::new();
    let mut expected = Vec::with_capacity(works.len());
    for work_id in works {
        expected.push(match (setters.get(work_id), projection.work(work_id.as_str())) {
            (Some(setter), _) => Expected::SetBy(open.iter().position(|one| one == setter).unwrap_or_else(|| {
                open.push(*setter);
                open.len() - 1
            })),
            (None, Some(state)) => Expected::Admitted(state.work.priority),
            (None, None) => return Ok(None),
        });
    }
    if open.len() > MAX_OPEN {
        let message = "the request id is committed, and compaction left too little to compare its meaning";
        return Err(Failure::new(Code::RequestReused, message, "Look at it with explain --request-id."));
    }
    let priorities = (1..=5).map(Priority::new).collect::<Result<Vec<_>, Fault>>()?;
    let tries = priorities.len().pow(open.len() as u32);
    let guess = |number: usize| -> Vec<Priority> {
        let value = |place: usize| priorities[number / priorities.len().pow(place as u32) % priorities.len()];
        let one = |expected: &Expected| match *expected {
            Expected::Admitted(priority) => priority,
            Expected::SetBy(place) => value(place),
        };
        expected.iter().map(one).collect()
    };
    Ok((0..tries).map(guess).find(|guess| proves(guess)))
}

/// The Work whose priority a receipt says was changed, in its order.
fn prioritized(accepted: &Accepted) -> Result<Vec<WorkId>, Fault> {
    let Source::Receipt(text) = &accepted.source else { return Ok(Vec::new()) };
    if accepted.kind != RequestKind::Control {
        return Ok(Vec::new());
    }
    let mut scanner = Scanner::new("");
    let document = scanner.read(text.text())?;
    let events = document.root().object().and_then(|receipt| receipt.get("events")).and_then(Node::array);
    let mut works = Vec::new();
    for event in events.into_iter().flatten().filter_map(Node::object) {
        if event.get("kind").and_then(Node::plain) == Some("WorkPriority")
            && let Some(work_id) = event.get("work_id").and_then(Node::string)
        {
            works.push(WorkId::new(work_id)?);
        }
    }
    Ok(works)
}
