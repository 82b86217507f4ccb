//! Repositories that work against their readers and writers, and what the command line makes of them.

use std::fs;

use wq_action::ledger::{Class, Remote};
use wq_action::protocol::Code;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{ADMINISTRATOR, Node, PRODUCER};
use crate::support::cli::run;
use crate::support::git::{Bare, git_command, real_git, short_bounds};
use crate::support::ledger::Chain;
use crate::support::queue::{World, policy, submit};

/// A queue branch with one submission.
fn seeded() -> Bare {
    let bare = Bare::new();
    World::new(bare.transport()).publisher().publish_request(&submit("first"), Some(&policy())).unwrap();
    bare
}

/// S-251: a reference that cannot be written is no lost race. A lock that a killed push left behind, a branch whose
/// name goes on like the queue's, a rule that hides the branch: the failure says that nobody was faster, and nothing
/// changes.
#[test]
fn a_branch_that_cannot_be_moved_is_no_lost_race() {
    let locked = seeded();
    fs::write(locked.path().join("refs/heads/work-queue.lock"), "").unwrap();
    let shadowed = Bare::new();
    shadowed.commit("work-queue/deeper", &shadowed.tree(&[]), &[]);
    let hidden = seeded();
    hidden.git(&["config", "uploadpack.hideRefs", "refs/heads/work-queue"]);
    for bare in [locked, shadowed, hidden] {
        let before = bare.resolve("refs/heads/work-queue");
        let world = World::new(bare.transport());
        let error = world.publisher().publish_request(&submit("second"), Some(&policy())).unwrap_err();
        assert_eq!((error.code(), error.class()), (Code::PublicationUnresolved, Class::Conflict));
        assert!(error.message().ends_with("and nobody else did"), "{error}");
        assert_eq!(bare.resolve("refs/heads/work-queue"), before);
    }
}

/// S-251: what a hook prints decides nothing. One that declines is believed at once, even when it speaks of a lock.
#[test]
fn a_hook_that_speaks_of_a_lost_lock_is_still_a_hook() {
    for (name, words) in [
        ("update", "error: cannot lock ref 'refs/heads/work-queue': is at 1 but expected 2"),
        ("pre-receive", "cannot lock ref is at 1 but expected 2"),
    ] {
        let bare = seeded();
        bare.hook(name, &format!("#!/bin/sh\necho x >>ran\necho \"{words}\" >&2\nexit 1\n"));
        let world = World::new(bare.transport());
        let error = world.publisher().publish_request(&submit("second"), Some(&policy())).unwrap_err();
        assert_eq!((error.code(), error.class()), (Code::PublicationDenied, Class::Denied), "{error}");
        assert_eq!(fs::read_to_string(bare.path().join("ran")).unwrap(), "x\n", "it was asked once");
    }
}

/// A repository of the other object format is named as such, by reads and by publications; it is never taken
/// for an uncertain push.
#[test]
fn a_repository_of_another_object_format_is_told_by_name() {
    let bare = Bare::new();
    let other = bare.around().join("other.git");
    let made = git_command(bare.around())
        .args(["init", "--quiet", "--bare", "--object-format=sha256"])
        .arg(&other)
        .output()
        .unwrap();
    assert!(made.status.success());
    let remote = Remote::path(&other).unwrap();
    let world = World::new(real_git().transport(remote, None, short_bounds()));
    let error = world.publisher().publish_request(&submit("first"), Some(&policy())).unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::UnsupportedProtocol, Class::Invalid), "{error}");
    let git = |arguments: &[&str]| {
        let output = git_command(&other).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let tree = git(&["hash-object", "-w", "-t", "tree", "/dev/null"]);
    let commit = git(&["-c", "user.name=n", "-c", "user.email=n@h", "commit-tree", &tree, "-m", "m"]);
    git(&["update-ref", "refs/heads/work-queue", &commit]);
    let error = world.publisher().read_present().unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::UnsupportedProtocol, Class::Invalid), "{error}");
}

/// S-564: node keys in the message of a refused ledger stay visible ASCII on a terminal, and whole in JSON.
#[test]
fn a_refused_ledger_cannot_write_to_the_terminal() {
    let (a, b) = ("a\u{9b}31m\u{202e}", "b\u{9d}0;title\u{9c}");
    let mut chain = Chain::new("initial");
    let installed =
        format!(r#"{{"kind":"Policy","epoch":"initial","policy":{}}}"#, crate::support::ledger::policy(false));
    chain.plain("genesis", RequestKind::Policy, ADMINISTRATOR, 0, &[installed]);
    let nodes = [Node::new(a).after(b), Node::new(b).after(a)].map(|node| node.value().to_string());
    let parameters = format!(r#"{{"nodes":[{}]}}"#, nodes.join(","));
    chain.commit("cycle", RequestKind::Submit, PRODUCER, 1, &parameters, &nodes);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ledger.jsonl"), &chain.text).unwrap();
    for command in ["verify", "replay", "stats"] {
        let ran = run(folder.path(), &[command, "--ledger", "ledger.jsonl"]);
        let said = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.code, 3, "{said}");
        assert!(
            said.contains("dependency_cycle") && said.contains(r"a\u009b31m\u202e -> b\u009d0;title\u009c"),
            "{said}"
        );
        assert!(said.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')), "{said:?}");
    }
    let found = run(folder.path(), &["verify", "--ledger", "ledger.jsonl", "--json"]).json(3);
    assert!(found["message"].as_str().unwrap().contains(a), "{found}");
}
