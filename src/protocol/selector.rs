//! Which Claim a worker's message is for (jobs.md 1.5, lifecycle.md 5.1): one normalizer for safe outputs, finishes,
//! submissions and dispatches.

use super::assignment::{Assignment, Member};
use super::fault::ensure;
use super::identity::Handle;
use super::json::Node;
use super::wire::Wire as _;
use super::{Code, Fault};

/// Members by which a message would claim authority that only the runtime has.
const FORBIDDEN: [&str; 6] =
    ["work_queue_claim", "work_queue_assignment", "assignment", "run_id", "run_attempt", "authorized"];
/// The one type whose `run_id` names its target and not its author.
const TARGETS_A_RUN: &str = "approve_workflow_run";

/// The member of the original assignment that a message is for. `message` is one object; its `claim_handle` decides, and
/// may be absent only if the assignment was made of one Claim, however many are still open. A wrong selector is refused
/// and never replaced.
///
/// # Errors
/// `claim_scope_required` for a message that must name its Claim and does not; `claim_scope_invalid` for anything that
/// is no object, for a selector that is null, empty, malformed or foreign, for a `claim_id` or `work_id` of another
/// member, and for members that claim authority.
pub fn select<'a>(message: Node<'_>, original: &'a Assignment) -> Result<&'a Member, Fault> {
    const CODE: Code = Code::ClaimScopeInvalid;
    let object = message.object().ok_or_else(|| Fault::new(CODE, "a message is an object"))?;
    let member = match object.get("claim_handle") {
        Some(handle) => {
            let handle = Handle::read(handle, CODE).ok();
            handle.and_then(|handle| original.member(handle.as_str()))
        }
        None => {
            ensure!(
                original.claims.len() == 1,
                ClaimScopeRequired,
                "the assignment was made of several Claims, so every message names its claim_handle"
            );
            original.claims.first()
        }
    };
    let member = member.ok_or_else(|| Fault::new(CODE, "claim_handle is not one of the assignment's handles"))?;
    for (name, expected) in [("claim_id", member.claim_id.as_str()), ("work_id", member.work_id.as_str())] {
        let stated = object.get(name);
        let same = stated.is_none_or(|stated| stated.string().is_some_and(|stated| stated.as_str() == expected));
        ensure!(same, ClaimScopeInvalid, "claim_id or work_id is not of the Claim that claim_handle names");
    }
    let targets_a_run = object.get("type").and_then(Node::plain) == Some(TARGETS_A_RUN);
    let claims_authority =
        FORBIDDEN.iter().any(|name| object.get(name).is_some() && !(*name == "run_id" && targets_a_run));
    ensure!(!claims_authority, ClaimScopeInvalid, "a message carries a member that only the runtime may set");
    Ok(member)
}

#[cfg(test)]
mod tests {
    use super::select;
    use crate::protocol::Code;
    use crate::protocol::assignment::Assignment;
    use crate::protocol::json::Scanner;

    fn assignment(handles: &[&str]) -> Assignment {
        let claims: Vec<String> = handles
            .iter()
            .map(|handle| {
                format!(
                    r#"{{"claim_id":"c-{handle}","handle":"{handle}","result_refs":[],"work":{{}},"work_id":"w-{handle}"}}"#
                )
            })
            .collect();
        let text = format!(
            r#"{{"claims":[{}],"commit_id":"c","dispatch_id":"d","policy_epoch":"e","pool":"p","request_id":"r","version":3,"worker_profile":"w"}}"#,
            claims.join(",")
        );
        Assignment::parse(&text).unwrap()
    }

    fn selected(handles: &[&str], message: &str) -> Result<String, Code> {
        let original = assignment(handles);
        let mut scanner = Scanner::new("github.com");
        let document = scanner.read(&message.to_owned().into()).unwrap();
        select(document.root(), &original).map(|member| member.handle.to_string()).map_err(|fault| fault.code())
    }

    /// jobs.md 12.2. S-372, S-373, S-374, S-375, S-376, S-377, S-379, O-236, O-237, O-238: selectors resolve against the
    /// original assignment; a sole Claim is attached, several must be named, and nothing wrong is replaced.
    #[test]
    fn jobs_02_selectors_of_one_and_of_two_claims() {
        const INVALID: Result<&str, Code> = Err(Code::ClaimScopeInvalid);
        let one: &[(&str, Result<&str, Code>)] = &[
            (r#"{"type":"noop"}"#, Ok("h1")),
            (r#"{"claim_handle":"h1"}"#, Ok("h1")),
            (r#"{"claim_handle":"h1","claim_id":"c-h1","work_id":"w-h1"}"#, Ok("h1")),
            (r#"{"claim_id":"c-h1"}"#, Ok("h1")),
            (r#"{"claim_handle":null}"#, INVALID),
            (r#"{"claim_handle":""}"#, INVALID),
            (r#"{"claim_handle":1}"#, INVALID),
            (r#"{"claim_handle":{"handle":"h1"}}"#, INVALID),
            (r#"{"claim_handle":["h1"]}"#, INVALID),
            (r#"{"claim_handle":"c-h1"}"#, INVALID),
            (r#"{"claim_handle":"h2"}"#, INVALID),
            (r#"{"claim_handle":"H1"}"#, INVALID),
            (r#"{"claim_handle":"h1\u0000"}"#, INVALID),
            (r#"{"claim_handle":"h1","claim_id":"c-h2"}"#, INVALID),
            (r#"{"claim_handle":"h1","claim_id":null}"#, INVALID),
            (r#"{"claim_handle":"h1","work_id":"c-h1"}"#, INVALID),
            (r#"{"authorized":true}"#, INVALID),
            (r#"{"assignment":null}"#, INVALID),
            (r#"{"run_id":"7","type":"add_comment"}"#, INVALID),
            (r#"{"run_id":"7","type":"approve_workflow_run"}"#, Ok("h1")),
            (r#"{"run_attempt":1,"type":"approve_workflow_run"}"#, INVALID),
            (r#"{"work_queue_assignment":{}}"#, INVALID),
            (r#"{"work_queue_claim":"h1"}"#, INVALID),
            ("[]", INVALID),
            (r#""h1""#, INVALID),
            ("null", INVALID),
        ];
        for (message, expected) in one {
            assert_eq!(selected(&["h1"], message), expected.map(str::to_owned), "{message}");
        }
        let two: &[(&str, Result<&str, Code>)] = &[
            (r#"{"type":"noop"}"#, Err(Code::ClaimScopeRequired)),
            (r#"{"claim_id":"c-h2"}"#, Err(Code::ClaimScopeRequired)),
            (r#"{"claim_handle":"h2"}"#, Ok("h2")),
            (r#"{"claim_handle":"h2","claim_id":"c-h1"}"#, INVALID),
            (r#"{"claim_handle":null}"#, INVALID),
            (r#"{"claim_handle":"h3"}"#, INVALID),
        ];
        for (message, expected) in two {
            assert_eq!(selected(&["h1", "h2"], message), expected.map(str::to_owned), "{message}");
        }
    }
}
