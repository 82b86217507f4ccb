//! Servers that accept a push and then report failure, through the binary.

use serde_json::Value;

use super::asks::{Ask, Asked, policy};
use super::audit::Audit;
use super::insist;
use super::stage::{Stage, attempt};
use crate::support::ledger::work_id;

/// The server dies when it has moved the branch.
const DIES: (&str, &str) = ("reference-transaction", "#!/bin/sh\nif [ \"$1\" = committed ]; then kill -9 $PPID; fi\n");
/// The server moves the branch itself and then declines the push.
const DECLINES: (&str, &str) = ("update", "#!/bin/sh\ngit update-ref \"$1\" \"$3\" \"$2\"\nexit 1\n");
/// The server dies after it has reported success.
const DIES_LATE: (&str, &str) = ("post-receive", "#!/bin/sh\nkill -9 $PPID\n");

/// A server that does so now and then. A push that lost its race is left to be refused as such.
pub(super) const HOOKS: [(&str, &str); 3] = [
    ("reference-transaction", "#!/bin/sh\nif [ \"$1\" = committed ] && [ $(($$ % 4)) = 0 ]; then kill -9 $PPID; fi\n"),
    ("update", "#!/bin/sh\nif [ $(($$ % 4)) = 0 ]; then git update-ref \"$1\" \"$3\" \"$2\" && exit 1; fi\nexit 0\n"),
    ("post-receive", "#!/bin/sh\nif [ $(($$ % 5)) = 0 ]; then kill -9 $PPID; fi\n"),
];

/// A queue with two tasks.
fn opened() -> (Stage, Vec<Ask>) {
    let stage = Stage::new();
    stage.file("policy.json", &policy(0).to_string());
    let submissions = ["one", "two"].map(|name| {
        stage.file(&format!("{name}.json"), r#"{"task":"t"}"#);
        let file = format!("{name}.json");
        let arguments = ["submit-work", "--file", &file, "--graph-id", name, "--policy", "policy.json"];
        Ask::new(name, Asked::Submit(vec![work_id(name, "root")]), &arguments)
    });
    (stage, submissions.into())
}

fn grant() -> Ask {
    Ask::new("grant", Asked::Dispatch, &["dispatch-next", "--max-claims", "1"])
}

/// S-242, S-252, O-014, O-324: whatever the server says after it accepted, first submission, submission and grant are
/// recovered, and the grant is charged once. Its repetition is answered from the ledger.
#[test]
fn an_accepted_push_is_recovered_whatever_is_reported() {
    for (name, script) in [DIES, DECLINES, DIES_LATE] {
        let (stage, mut asks) = opened();
        stage.bare.hook(name, script);
        asks.push(grant());
        let mut calls = Vec::new();
        for ask in asks {
            let tries = insist(&stage, &ask, &[]);
            let answer = tries[0].answer.as_ref().unwrap_or_else(|| panic!("{name}: {:?}", tries[0]));
            let said = ["changed", "published_now", "recovered"].map(|member| answer[member] == true);
            assert_eq!(said, [false, false, true], "{name}: {answer}");
            let again = attempt(ask.command(&stage), None);
            assert_eq!(again.exit, Some(0), "{name}: {again:?}");
            let repeated = again.answer.as_ref().unwrap();
            assert_eq!((&repeated["replayed"], &repeated["commit_id"]), (&Value::from(true), &answer["commit_id"]));
            calls.push((ask, tries, again));
        }
        let audit = Audit::read(&stage);
        audit.history(&stage);
        for (ask, tries, again) in calls {
            assert!(audit.told(&ask, &tries) && audit.told(&ask, &[again]));
        }
        let counts = audit.replayed(&stage);
        assert_eq!((counts.commits, counts.grants, counts.claims), (3, 1, 1), "{name}");
    }
}

/// S-242, S-243, S-244, O-014, O-324: a server that accepts, dies, and then cannot be read leaves the outcome unknown:
/// exit 5, never "not written". The repetition finds the same grant, charged once.
#[test]
fn an_unreadable_server_leaves_the_outcome_unknown() {
    let (stage, submissions) = opened();
    submissions.iter().for_each(|ask| drop(insist(&stage, ask, &[])));
    let breaks = "#!/bin/sh\nif [ \"$1\" = committed ]; then mv HEAD HEAD.away; kill -9 $PPID; fi\n";
    stage.bare.hook("reference-transaction", breaks);
    let first = attempt(grant().command(&stage), None);
    assert_eq!((first.exit, first.code()), (Some(5), "publication_unresolved"), "{first:?}");
    let blind = attempt(grant().command(&stage), None);
    assert_eq!((blind.exit, blind.code()), (Some(7), "repository_unavailable"), "{blind:?}");
    let head = stage.bare.path().join("HEAD");
    std::fs::rename(head.with_extension("away"), &head).unwrap();
    let tries = insist(&stage, &grant(), &[]);
    let answer = tries[0].answer.as_ref().unwrap();
    assert_eq!((&answer["replayed"], &answer["published_now"]), (&Value::from(true), &Value::from(false)));
    let audit = Audit::read(&stage);
    assert!(audit.told(&grant(), &tries));
    let counts = audit.replayed(&stage);
    assert_eq!((counts.commits, counts.grants, counts.claims), (3, 1, 1));
}
