//! Git missing, old, hanging or talkative.

use std::time::{Duration, Instant};

use wq_action::ledger::{
    Ambiguity, Bounds, Branch, Class, Environment, Git, PushOutcome, Store, Transport as _, read_head,
};
use wq_action::protocol::Code;

use crate::support::git::{Bare, Writer, executable, short_bounds};

/// A directory with a fake `git`, followed on the search path by the system's directories for the script's own needs.
fn fake(script: &str) -> (tempfile::TempDir, Environment) {
    let directory = tempfile::tempdir().unwrap();
    executable(directory.path(), "git", script);
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    (directory, Environment::with_path(path.as_ref()))
}

const VERSION: &str = "#!/bin/sh\nif [ \"$1\" = version ]; then echo git version 2.47.3; exit 0; fi\n";

/// Without git, or with one that is too old or broken, nothing is tried.
#[test]
fn absent_old_and_broken_gits_are_unavailable() {
    let empty = tempfile::tempdir().unwrap();
    let error = Git::find(Environment::with_path(empty.path().as_os_str())).unwrap_err();
    assert_eq!((error.code(), error.class(), error.exit()), (Code::GitUnavailable, Class::Unavailable, 7));
    assert_eq!(Git::find(Environment::with_path("".as_ref())).unwrap_err().code(), Code::GitUnavailable);
    assert_eq!(Git::find(Environment::with_path(".:bin".as_ref())).unwrap_err().code(), Code::GitUnavailable);

    let (_old, environment) = fake("#!/bin/sh\necho git version 2.30.9\n");
    let error = Git::find(environment).unwrap_err();
    assert_eq!(error.code(), Code::GitUnavailable);
    assert!(error.message().contains("2.30"), "{error}");
    let (_oldest, environment) = fake("#!/bin/sh\necho git version 2.31.0\n");
    assert_eq!(Git::find(environment).unwrap().version(), (2, 31));
    for script in ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "#!/nowhere/at/all\n"] {
        let (_broken, environment) = fake(script);
        assert_eq!(Git::find(environment).unwrap_err().code(), Code::GitUnavailable, "{script}");
    }
}

/// A hanging git is killed with everything that it started, within its bound.
#[test]
fn a_hanging_git_is_killed_as_a_group() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let marks = tempfile::tempdir().unwrap();
    let script = format!(
        "{VERSION}sleep 600 &\necho $! > {0}/child\necho $$ > {0}/leader\nexec sleep 600\n",
        marks.path().display()
    );
    let (_directory, environment) = fake(&script);
    let transport = Git::find(environment).unwrap().transport(bare.remote(), None, short_bounds());
    let store = Store::new().unwrap();

    let started = Instant::now();
    let error = read_head(&transport, &store, &Branch::default()).unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::RepositoryUnavailable, Class::Unavailable));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_gone(marks.path());

    let head = bare.resolve("refs/heads/work-queue").unwrap();
    let id = wq_action::ledger::git::ObjectId::from_hex(head.as_bytes()).unwrap();
    let outcome = transport.push(store.path(), id, "refs/heads/work-queue", None).unwrap();
    assert_eq!(outcome, PushOutcome::Ambiguous(Ambiguity::TimedOut), "it may have been sent");
    assert_gone(marks.path());
}

fn assert_gone(marks: &std::path::Path) {
    for name in ["child", "leader"] {
        let pid = std::fs::read_to_string(marks.join(name)).unwrap().trim().to_owned();
        let deadline = Instant::now() + Duration::from_secs(5);
        // A killed process whose parent has not looked yet is a zombie: it runs no more.
        let alive = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
        };
        while alive() {
            assert!(Instant::now() < deadline, "the {name} still runs");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A git that leaves a process behind which holds its output counts as hanging.
#[test]
fn a_lingering_grandchild_counts() {
    let bare = Bare::new();
    let (_directory, environment) = fake(&format!("{VERSION}sleep 600 &\nexit 0\n"));
    let transport = Git::find(environment).unwrap().transport(bare.remote(), None, short_bounds());
    let error = read_head(&transport, &Store::new().unwrap(), &Branch::default()).unwrap_err();
    assert_eq!(error.code(), Code::RepositoryUnavailable);
}

/// Endless output is cut off, on either stream.
#[test]
fn endless_output_is_bounded() {
    let bare = Bare::new();
    let bounds = Bounds { stdout: 100_000, ..Bounds::default() };
    let (_directory, environment) = fake(&format!("{VERSION}exec yes\n"));
    let transport = Git::find(environment).unwrap().transport(bare.remote(), None, bounds);
    let store = Store::new().unwrap();
    let started = Instant::now();
    assert_eq!(read_head(&transport, &store, &Branch::default()).unwrap_err().code(), Code::ResourceLimit);
    let id = wq_action::ledger::git::ObjectId::from_hex(&[b'1'; 40]).unwrap();
    let outcome = transport.push(store.path(), id, "refs/heads/work-queue", None).unwrap();
    assert_eq!(outcome, PushOutcome::Ambiguous(Ambiguity::TooMuchOutput));
    assert!(started.elapsed() < Duration::from_secs(10));

    let noisy = format!("{VERSION}head -c 5000000 /dev/zero >&2\nexit 128\n");
    let (_directory, environment) = fake(&noisy);
    let transport = Git::find(environment).unwrap().transport(bare.remote(), None, bounds);
    assert_eq!(read_head(&transport, &store, &Branch::default()).unwrap_err().code(), Code::RepositoryUnavailable);
}

/// A git that answers nonsense, or fails without a word, is neither an empty queue nor a success.
#[test]
fn nonsense_is_never_success() {
    let bare = Bare::new();
    for body in ["echo nonsense", "exit 1", "echo 'abc\tHEAD'", "kill -9 $$", "printf '\\377\\tHEAD\\n'"] {
        let (_directory, environment) = fake(&format!("{VERSION}{body}\n"));
        let transport = Git::find(environment).unwrap().transport(bare.remote(), None, Bounds::default());
        let publisher = Writer::new(transport);
        let error = read_head(&publisher.transport, &publisher.store, &publisher.branch).unwrap_err();
        assert_eq!((error.code(), error.class()), (Code::RepositoryUnavailable, Class::Unavailable), "{body}");
        let outcome = publisher.push(None, b"one\n");
        assert!(matches!(outcome, PushOutcome::Ambiguous(_)), "{body}: {outcome:?}");
    }
}
