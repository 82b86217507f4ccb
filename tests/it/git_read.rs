//! Reading the queue branch of real repositories.

use wq_action::ledger::{Bounds, Branch, Class, Head, Remote, Store, read_head};
use wq_action::protocol::Code;
use wq_action::protocol::RepositoryName;

use crate::support::git::{Bare, Writer, git_command, real_git};

fn read_error(bare: &Bare) -> wq_action::ledger::LedgerError {
    let store = Store::new().unwrap();
    read_head(&bare.transport(), &store, &Branch::default()).expect_err("refused")
}

/// O-003, O-004: the complete history arrives in a private bare store, and no other reference does.
#[test]
fn a_read_brings_the_branch_with_its_whole_history_and_nothing_else() {
    let bare = Bare::new();
    let first = bare.seed(b"one\n");
    let tree = bare.tree(&[("100644", "work-queue.jsonl", &bare.blob(b"one\ntwo\n"))]);
    let second = bare.commit("work-queue", &tree, &[&first]);
    let other = bare.commit("main", &bare.tree(&[("100644", "README", &bare.blob(b"other\n"))]), &[]);
    bare.git(&["tag", "v1", &second]);

    let publisher = Writer::new(bare.transport());
    let snapshot = publisher.snapshot();
    assert_eq!(snapshot.ledger, b"one\ntwo\n");
    assert_eq!(snapshot.commit.to_string(), second);
    assert_eq!(snapshot.parents.len(), 1);

    let in_store = |arguments: &[&str]| {
        let output = git_command(publisher.store.path()).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (_, refs) = in_store(&["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/work-queue/head\n");
    assert!(in_store(&["cat-file", "-e", &first]).0, "the ancestor is there");
    assert!(!in_store(&["cat-file", "-e", &other]).0, "no other branch's commit is");
    assert_eq!(in_store(&["rev-parse", "--is-shallow-repository"]).1, "false\n");
    assert!(in_store(&["fsck", "--strict"]).0);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(publisher.store.directory()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

/// S-176, O-033: an existing repository without the branch is an absent queue, and reading leaves it as it is.
#[test]
fn a_repository_without_the_branch_is_an_absent_queue() {
    let bare = Bare::new();
    let before = bare.contents();
    assert_eq!(Writer::new(bare.transport()).read(), Head::Absent, "no references at all");
    assert_eq!(bare.contents(), before);

    bare.commit("main", &bare.tree(&[("100644", "README", &bare.blob(b"x"))]), &[]);
    let before = bare.contents();
    assert_eq!(Writer::new(bare.transport()).read(), Head::Absent, "another branch");
    assert_eq!(bare.contents(), before);
}

/// O-047: a place that cannot be read is an error of its own kind, never an empty queue.
#[test]
fn an_unreadable_place_is_never_an_absent_queue() {
    let directory = tempfile::tempdir().unwrap();
    let read = |path: &std::path::Path| {
        let transport = real_git().transport(Remote::path(path).unwrap(), None, Bounds::default());
        read_head(&transport, &Store::new().unwrap(), &Branch::default()).expect_err("refused")
    };
    let missing = read(&directory.path().join("nowhere"));
    assert_eq!((missing.code(), missing.class()), (Code::RepositoryUnavailable, Class::Unavailable));
    let plain = read(directory.path());
    assert_eq!((plain.code(), plain.class()), (Code::RepositoryUnavailable, Class::Unavailable));
    assert_ne!(missing.message(), plain.message());
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert_eq!(read(&file).code(), Code::RepositoryUnavailable);
    for error in [missing, plain] {
        assert!(!error.to_string().contains(directory.path().to_str().unwrap()), "no paths in sentences");
        assert_eq!(error.exit(), 7);
    }
}

/// O-047: a repository that this user may not open is denied. Root may open everything, so there another owner's
/// directory, which git itself refuses, plays that part.
#[test]
fn a_repository_without_permission_is_denied() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let bare = Bare::new();
    bare.seed(b"one\n");
    if std::fs::metadata(bare.path()).unwrap().uid() == 0 {
        if std::os::unix::fs::chown(bare.path(), Some(65_534), Some(65_534)).is_err() {
            eprintln!("skipped: the owner of a directory cannot be changed here");
            return;
        }
    } else {
        std::fs::set_permissions(bare.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    let error = read_error(&bare);
    std::fs::set_permissions(bare.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((error.code(), error.class(), error.exit()), (Code::RepositoryUnavailable, Class::Denied, 4));
}

/// S-050, O-049, O-224: a branch of the wrong shape is refused with its code and left alone.
#[test]
fn every_wrong_shape_of_the_tree_is_refused() {
    let cases: [(&[(&str, &str)], Code); 7] = [
        (&[("100644", "README")], Code::LedgerInvalid),
        (&[("120000", "work-queue.jsonl")], Code::LedgerInvalid),
        (&[("100755", "work-queue.jsonl")], Code::LedgerInvalid),
        (&[("040000", "work-queue.jsonl")], Code::LedgerInvalid),
        (&[("100644", "WORK-QUEUE.jsonl"), ("100644", "work-queue.json")], Code::LedgerInvalid),
        (&[("100644", "dispatch-work-coordinator.jsonl")], Code::UnsupportedProtocol),
        (&[("100644", "dispatch-work-coordinator.jsonl"), ("100644", "work-queue.jsonl")], Code::UnsupportedProtocol),
    ];
    for (names, code) in cases {
        let bare = Bare::new();
        let blob = bare.blob(b"one\n");
        let folder = bare.tree(&[("100644", "file", &blob)]);
        let entries: Vec<_> = names
            .iter()
            .map(|(mode, name)| (*mode, *name, if *mode == "040000" { folder.as_str() } else { blob.as_str() }))
            .collect();
        bare.commit("work-queue", &bare.tree(&entries), &[]);
        let before = bare.contents();
        let error = read_error(&bare);
        assert_eq!(error.code(), code, "{names:?}");
        assert_eq!(error.exit(), 3);
        assert_eq!(bare.contents(), before);
    }
}

/// Two entries of one name are refused whoever notices first, git's own check of what it received or ours.
#[test]
fn a_tree_that_names_the_ledger_twice_is_refused() {
    let bare = Bare::new();
    let id = bare.blob(b"one\n");
    let raw: Vec<u8> = (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
    let entry = [b"100644 work-queue.jsonl\0".as_slice(), &raw].concat();
    let twice = [entry.as_slice(), &entry].concat();
    let tree = bare.git_in(&["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &twice);
    bare.commit("work-queue", &tree, &[]);
    assert_eq!(read_error(&bare).code(), Code::LedgerInvalid);
}

/// A root tree of 16,384 entries is read, one more is refused.
#[test]
fn a_huge_tree_is_refused() {
    let bare = Bare::new();
    let blob = bare.blob(b"one\n");
    let names: Vec<_> = (0..16_384).map(|index| format!("file-{index}")).collect();
    let mut entries: Vec<_> = names[..16_383].iter().map(|name| ("100644", name.as_str(), blob.as_str())).collect();
    entries.push(("100644", "work-queue.jsonl", &blob));
    bare.commit("work-queue", &bare.tree(&entries), &[]);
    Writer::new(bare.transport()).snapshot();
    entries.push(("100644", &names[16_383], &blob));
    bare.commit("work-queue", &bare.tree(&entries), &[]);
    assert_eq!(read_error(&bare).code(), Code::ResourceLimit);
}

/// A ledger of more than 80 MiB is refused before its content is read.
#[test]
fn a_ledger_over_80_mib_is_refused() {
    let bare = Bare::new();
    bare.seed(&vec![b'\n'; 80 * 1024 * 1024 + 1]);
    let error = read_error(&bare);
    assert_eq!((error.code(), error.exit()), (Code::ResourceLimit, 3));
}

/// S-006, S-256, O-289: a retired branch stops the default queue, and is no queue by itself; a branch of another name
/// is an authority of its own.
#[test]
fn retired_branches_are_never_adopted() {
    for name in ["dispatch-coordinator", "gh-aw-work-queue"] {
        let bare = Bare::new();
        let tree = bare.tree(&[("100644", "work-queue.jsonl", &bare.blob(b"one\n"))]);
        bare.commit(name, &tree, &[]);
        assert_eq!(read_error(&bare).code(), Code::UnsupportedProtocol);
        assert_eq!(Branch::new(name).unwrap_err().code(), Code::UnsupportedProtocol);
        let mut publisher = Writer::new(bare.transport());
        publisher.branch = Branch::new("team/queue").unwrap();
        assert_eq!(publisher.read(), Head::Absent);
        bare.seed(b"two\n");
        publisher.branch = Branch::default();
        assert_eq!(publisher.snapshot().ledger, b"two\n", "an existing queue is read beside a retired branch");
    }
}

/// O-281: with every object at hand the remote is asked all the same.
#[test]
fn a_second_read_still_contacts_the_remote() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let publisher = Writer::new(bare.transport());
    publisher.snapshot();
    std::fs::rename(bare.path(), bare.around().join("moved.git")).unwrap();
    let error = read_head(&publisher.transport, &publisher.store, &publisher.branch).expect_err("gone");
    assert_eq!(error.code(), Code::RepositoryUnavailable);
}

/// O-003: a repository that has only part of the history is refused.
#[test]
fn a_shallow_remote_is_refused() {
    let bare = Bare::new();
    let first = bare.seed(b"one\n");
    let tree = bare.tree(&[("100644", "work-queue.jsonl", &bare.blob(b"one\ntwo\n"))]);
    bare.commit("work-queue", &tree, &[&first]);
    let shallow = bare.around().join("shallow.git");
    let url = format!("file://{}", bare.path().display());
    let mut clone = git_command(bare.around());
    clone.args(["clone", "--quiet", "--bare", "--depth=1", "--branch=work-queue", &url]).arg(&shallow);
    assert!(clone.status().unwrap().success());
    let transport = real_git().transport(Remote::path(&shallow).unwrap(), None, Bounds::default());
    let error = read_head(&transport, &Store::new().unwrap(), &Branch::default()).expect_err("refused");
    assert_eq!(error.code(), Code::LedgerInvalid);
}

#[test]
fn a_branch_that_is_a_symbolic_reference_is_refused() {
    let bare = Bare::new();
    let tree = bare.tree(&[("100644", "work-queue.jsonl", &bare.blob(b"one\n"))]);
    bare.commit("other", &tree, &[]);
    bare.git(&["symbolic-ref", "refs/heads/work-queue", "refs/heads/other"]);
    assert_eq!(read_error(&bare).code(), Code::LedgerInvalid);
}

#[test]
fn a_file_url_is_a_local_remote() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let remote = Remote::url(&format!("file://{}", bare.path().display())).unwrap();
    assert!(remote.is_local());
    let publisher = Writer::new(real_git().transport(remote, None, Bounds::default()));
    assert_eq!(publisher.snapshot().ledger, b"one\n");
    let nowhere = Remote::url("file:///nowhere/at/all").unwrap();
    let transport = real_git().transport(nowhere, None, Bounds::default());
    let error = read_head(&transport, &Store::new().unwrap(), &Branch::default()).expect_err("refused");
    assert_eq!(error.code(), Code::RepositoryUnavailable);
}

/// The names that reach a command line are validated first.
#[test]
fn names_are_checked() {
    assert_eq!(Branch::default().as_str(), "work-queue");
    for name in ["q", "work-queue", "team/queue.v2", "0"] {
        assert_eq!(Branch::new(name).unwrap().reference(), format!("refs/heads/{name}"));
    }
    let long = "q".repeat(257);
    let illegal = [
        "", "@", "-q", "/q", "q/", "q//r", "q..r", "q@{1}", "q r", "q~", "q^", "q:r", "q?", "q*", "q[", "q\\r", ".q",
        "q/.r", "q.", "q./r", "q.lock", "q.lock/r", "q\n", "ü", "_q", &long,
    ];
    for name in illegal {
        assert_eq!(Branch::new(name).unwrap_err().code(), Code::BranchInvalid, "{name:?}");
    }
    assert!(RepositoryName::new("octo-org/queue_1.x").is_ok());
    for name in ["", "a", "a/", "/a", "a/b/c", "./b", "a/..", "a b/c", "ä/b", &format!("a/{long}")] {
        assert_eq!(RepositoryName::new(name).unwrap_err().code(), Code::RepositoryInvalid, "{name:?}");
    }
    let server = Remote::server("https://ghe.example.com:8443/", &RepositoryName::new("a/b").unwrap()).unwrap();
    assert!(!server.is_local());
    let urls = [
        "https://user@host/a/b.git",
        "https://host",
        "https:///a",
        "http://example.com/a/b.git",
        "ssh://host/a/b",
        "https://host/a?b",
        "https://host/a#b",
        "https://host:99999/a",
        "file://host/a",
        "https://ho st/a",
        "https://[::1/a",
    ];
    for url in urls {
        assert_eq!(Remote::url(url).unwrap_err().code(), Code::UsageInvalid, "{url}");
    }
    assert!(Remote::url("http://127.0.0.1:8080/a.git").is_ok());
}
