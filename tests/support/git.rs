//! Real bare repositories, fake executables, and a writer below the publisher.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use wq_action::ledger::commit_object::Author;
use wq_action::ledger::push::Candidate;
use wq_action::ledger::{
    Bounds, Branch, Environment, Git, GitTransport, Head, PushOutcome, Remote, Snapshot, Store, read_head,
};
use wq_action::ports::{SimulatedClock, SystemEntropy};

/// A moment in 2026, in Unix milliseconds.
pub(crate) const NOW: i64 = 1_790_000_000_000;

/// The real git, without any configuration of the machine or of the person.
pub(crate) fn git_command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", directory)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "somebody")
        .env("GIT_AUTHOR_EMAIL", "somebody@example.invalid")
        .env("GIT_COMMITTER_NAME", "somebody")
        .env("GIT_COMMITTER_EMAIL", "somebody@example.invalid");
    command
}

/// Feeds a command and waits for it.
pub(crate) fn feed(mut command: Command, input: &[u8]) -> Output {
    use std::io::Write as _;
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    })
}

/// A real bare repository in a temporary directory.
pub(crate) struct Bare {
    directory: TempDir,
}

impl Bare {
    pub(crate) fn new() -> Self {
        let bare = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(bare.path()).unwrap();
        bare.git(&["init", "--bare", "--quiet", "--initial-branch=main", "."]);
        bare
    }

    /// The directory around the repository, for other files of a test.
    pub(crate) fn around(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("queue.git")
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(arguments, b"")
    }

    /// Runs git with input and returns its output without the last line feed.
    pub(crate) fn git_in(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = git_command(&self.path());
        command.args(arguments);
        let output = feed(command, input);
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').to_owned()
    }

    pub(crate) fn blob(&self, bytes: &[u8]) -> String {
        self.git_in(&["hash-object", "-w", "--stdin"], bytes)
    }

    /// A tree of `(mode, name, object)`.
    pub(crate) fn tree(&self, entries: &[(&str, &str, &str)]) -> String {
        let kind = |mode: &str| match mode {
            "040000" => "tree",
            _ => "blob",
        };
        let text: String =
            entries.iter().map(|(mode, name, id)| format!("{mode} {} {id}\t{name}\n", kind(mode))).collect();
        self.git_in(&["mktree"], text.as_bytes())
    }

    /// A commit of a tree, put on a branch.
    pub(crate) fn commit(&self, branch: &str, tree: &str, parents: &[&str]) -> String {
        let mut arguments = vec!["commit-tree", tree, "-m", "made by a test"];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        let commit = self.git(&arguments);
        self.git(&["update-ref", &format!("refs/heads/{branch}"), &commit]);
        commit
    }

    /// A queue branch that holds this ledger alone.
    pub(crate) fn seed(&self, ledger: &[u8]) -> String {
        let blob = self.blob(ledger);
        let tree = self.tree(&[("100644", "work-queue.jsonl", &blob)]);
        self.commit("work-queue", &tree, &[])
    }

    /// The object that a revision names, or none.
    pub(crate) fn resolve(&self, revision: &str) -> Option<String> {
        let output = git_command(&self.path()).args(["rev-parse", "--verify", "--quiet", revision]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    pub(crate) fn ledger(&self) -> String {
        let mut command = git_command(&self.path());
        command.args(["cat-file", "blob", "refs/heads/work-queue:work-queue.jsonl"]);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        super::schema::check_ledger(&text);
        text
    }

    /// Installs a server-side hook.
    pub(crate) fn hook(&self, name: &str, script: &str) {
        let hooks = self.path().join("hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        executable(&hooks, name, script);
    }

    /// Everything below the repository's directory with its content, to show that nothing changed.
    pub(crate) fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(directory: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => walk(&path, found),
                    false => found.push((path.clone(), std::fs::read(&path).unwrap())),
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path(), &mut found);
        found.sort();
        found
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::path(&self.path()).unwrap()
    }

    pub(crate) fn transport(&self) -> GitTransport {
        real_git().transport(self.remote(), None, Bounds::default())
    }
}

/// Writes an executable script. Another process writes it: a descriptor of ours, inherited by a child that another
/// test is just starting, would make the script busy.
pub(crate) fn executable(directory: &Path, name: &str, script: &str) -> PathBuf {
    let path = directory.join(name);
    let mut command = Command::new("sh");
    command.args([OsStr::new("-c"), OsStr::new("cat > \"$0\" && chmod 755 \"$0\""), path.as_os_str()]);
    assert!(feed(command, script.as_bytes()).status.success());
    path
}

/// The git that the tests' own search path finds.
pub(crate) fn real_git() -> Git {
    Git::find(Environment::of_process()).expect("git is installed")
}

/// One writer below the publisher: a transport, a store of its own, a clock that stands.
pub(crate) struct Writer {
    pub(crate) transport: GitTransport,
    pub(crate) store: Store,
    pub(crate) branch: Branch,
    pub(crate) clock: SimulatedClock,
}

impl Writer {
    pub(crate) fn new(transport: GitTransport) -> Self {
        let store = Store::new().expect("a store");
        Self { transport, store, branch: Branch::default(), clock: SimulatedClock::new(NOW) }
    }

    pub(crate) fn read(&self) -> Head {
        read_head(&self.transport, &self.store, &self.branch).expect("a readable remote")
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        match self.read() {
            Head::Present(snapshot) => snapshot,
            other => panic!("no queue branch: {other:?}"),
        }
    }

    pub(crate) fn candidate(&self, base: Option<&Snapshot>, ledger: &[u8]) -> Candidate {
        Candidate::build(&self.store, base, ledger, Author::Operator, &self.clock, &SystemEntropy).expect("built")
    }

    pub(crate) fn push(&self, base: Option<&Snapshot>, ledger: &[u8]) -> PushOutcome {
        let candidate = self.candidate(base, ledger);
        candidate.push(&self.transport, &self.store, &self.branch, base, ledger).expect("sent")
    }
}

/// Bounds for tests of hanging processes.
pub(crate) fn short_bounds() -> Bounds {
    let short = Duration::from_millis(700);
    Bounds { query: short, fetch: short, push: short, ..Bounds::default() }
}
