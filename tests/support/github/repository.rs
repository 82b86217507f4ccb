//! A repository: refs, the files of its revisions, workflows; in memory or in a real bare repository.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::super::git::Bare;
use super::world::{Entry, Files, Issue, Pull, Rule};

/// What an account may do in a repository, as the repository record shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    None,
    Read,
    Triage,
    Write,
    Maintain,
    Admin,
}

/// A registered workflow.
#[derive(Clone, Debug)]
pub(crate) struct Workflow {
    pub(crate) id: u64,
    pub(crate) name: String,
    /// `.github/workflows/worker.lock.yml`.
    pub(crate) path: String,
    /// `active`, `disabled_manually`, …
    pub(crate) state: String,
    pub(super) runs: u64,
}

/// What a ref points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `commit` or `tag`.
    pub(crate) kind: &'static str,
    pub(crate) sha: String,
}

/// A repository.
pub(crate) struct Repository {
    pub(crate) id: u64,
    pub(crate) owner: u64,
    pub(crate) name: String,
    pub(crate) private: bool,
    pub(crate) archived: bool,
    pub(crate) disabled: bool,
    pub(crate) default_branch: String,
    pub(crate) created_at: i64,
    pub(crate) actions_enabled: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) workflows: Vec<Workflow>,
    pub(crate) issues: BTreeMap<u64, Issue>,
    pub(crate) pulls: BTreeMap<u64, Pull>,
    /// By account id.
    pub(crate) roles: BTreeMap<u64, Role>,
    pub(super) bare: Option<Arc<Bare>>,
    refs: BTreeMap<String, Target>,
    /// Annotated tags: the object and the commit it names.
    tags: HashMap<String, String>,
    files: HashMap<String, Arc<Files>>,
    made: u64,
}

impl Repository {
    pub(super) fn new(id: u64, owner: u64, name: &str, created_at: i64) -> Self {
        Self {
            id,
            owner,
            name: name.to_owned(),
            private: false,
            archived: false,
            disabled: false,
            default_branch: "main".to_owned(),
            created_at,
            actions_enabled: true,
            rules: Vec::new(),
            workflows: Vec::new(),
            issues: BTreeMap::new(),
            pulls: BTreeMap::new(),
            roles: BTreeMap::new(),
            bare: None,
            refs: BTreeMap::new(),
            tags: HashMap::new(),
            files: HashMap::new(),
            made: 0,
        }
    }

    /// The ref of a full name, such as `refs/heads/main`.
    pub(super) fn reference(&self, name: &str) -> Option<Target> {
        let Some(bare) = &self.bare else { return self.refs.get(name).cloned() };
        let sha = bare.resolve(name)?;
        let kind = if bare.git(&["cat-file", "-t", &sha]) == "tag" { "tag" } else { "commit" };
        Some(Target { kind, sha })
    }

    /// True without any branch.
    pub(super) fn is_empty(&self) -> bool {
        match &self.bare {
            Some(bare) => bare.git(&["for-each-ref", "--count=1", "refs/heads"]).is_empty(),
            None => !self.refs.keys().any(|name| name.starts_with("refs/heads/")),
        }
    }

    /// The commit of a ref's target.
    fn peel(&self, target: &Target) -> Option<String> {
        match (target.kind, &self.bare) {
            ("commit", _) => Some(target.sha.clone()),
            (_, Some(bare)) => bare.resolve(&format!("{}^{{commit}}", target.sha)),
            (_, None) => self.tags.get(&target.sha).cloned(),
        }
    }

    /// The full name and the commit of a branch or tag given in full or in short; branches win.
    pub(super) fn find_ref(&self, text: &str) -> Option<(String, String)> {
        let names = match text.starts_with("refs/") {
            true => vec![text.to_owned()],
            false => vec![format!("refs/heads/{text}"), format!("refs/tags/{text}")],
        };
        names.into_iter().find_map(|name| {
            let target = self.reference(&name)?;
            Some((name, self.peel(&target)?))
        })
    }

    /// The commit of a branch, a tag or a SHA.
    pub(super) fn commit_of(&self, text: &str) -> Option<String> {
        let known = || text.len() >= 40 && self.knows(text);
        self.find_ref(text).map(|(_, sha)| sha).or_else(|| known().then(|| text.to_owned()))
    }

    /// Whether a commit exists here.
    pub(super) fn knows(&self, sha: &str) -> bool {
        if self.files.contains_key(sha) {
            return true;
        }
        sha.bytes().all(|byte| byte.is_ascii_hexdigit())
            && self.bare.as_ref().is_some_and(|bare| bare.resolve(&format!("{sha}^{{commit}}")).is_some())
    }

    /// The files of a commit.
    pub(super) fn files(&mut self, sha: &str) -> Option<Arc<Files>> {
        if let Some(files) = self.files.get(sha) {
            return Some(Arc::clone(files));
        }
        if !self.knows(sha) {
            return None;
        }
        let bare = self.bare.as_ref()?;
        let mut files = Files::new();
        for line in bare.git(&["ls-tree", "-r", "-z", sha]).split('\0').filter(|line| !line.is_empty()) {
            let (head, path) = line.split_once('\t')?;
            let mut words = head.split(' ');
            let (mode, object) = (words.next()?, words.nth(1)?);
            let output = super::super::git::git_command(&bare.path()).args(["cat-file", "blob", object]).output();
            let bytes = output.ok()?.stdout;
            let entry = match mode {
                "120000" => Entry::Link(String::from_utf8_lossy(&bytes).into_owned()),
                _ => Entry::File(bytes.into()),
            };
            files.insert(path.to_owned(), entry);
        }
        let files = Arc::new(files);
        self.files.insert(sha.to_owned(), Arc::clone(&files));
        Some(files)
    }

    /// Puts a lightweight tag or a branch on a commit; none if the name is taken.
    pub(super) fn create_ref(&mut self, name: &str, sha: &str) -> Option<()> {
        if self.reference(name).is_some() {
            return None;
        }
        match &self.bare {
            Some(bare) => {
                // Git holds the lock here: of two creators one fails.
                let mut command = super::super::git::git_command(&bare.path());
                command.args(["update-ref", name, sha, &"0".repeat(sha.len())]);
                command.output().ok()?.status.success().then_some(())
            }
            None => {
                self.refs.insert(name.to_owned(), Target { kind: "commit", sha: sha.to_owned() });
                Some(())
            }
        }
    }

    /// Makes a branch or a tag point elsewhere, or removes it: what GitHub lets others do.
    pub(super) fn move_ref(&mut self, name: &str, sha: Option<&str>) {
        match (&self.bare, sha) {
            (Some(bare), Some(sha)) => drop(bare.git(&["update-ref", name, sha])),
            (Some(bare), None) => drop(bare.git(&["update-ref", "-d", name])),
            (None, Some(sha)) => {
                self.refs.insert(name.to_owned(), Target { kind: "commit", sha: sha.to_owned() });
            }
            (None, None) => drop(self.refs.remove(name)),
        }
    }

    /// Puts an annotated tag on a commit.
    pub(super) fn annotate(&mut self, name: &str, sha: &str) {
        match &self.bare {
            Some(bare) => drop(bare.git(&["tag", "-a", "-m", "made by a test", name, sha])),
            None => {
                let object = self.made_up(name.as_bytes());
                self.tags.insert(object.clone(), sha.to_owned());
                self.refs.insert(format!("refs/tags/{name}"), Target { kind: "tag", sha: object });
            }
        }
    }

    /// Commits changes on top of a branch, or as its first commit; none as content removes a file.
    pub(super) fn commit(&mut self, branch: &str, changes: &[(&str, Option<Entry>)], now: i64) -> String {
        let name = format!("refs/heads/{branch}");
        let base = self.find_ref(&name).map(|(_, sha)| sha);
        let mut files = base.as_ref().and_then(|sha| self.files(sha)).map_or_else(Files::new, |files| (*files).clone());
        for (path, entry) in changes {
            match entry {
                Some(entry) => drop(files.insert((*path).to_owned(), entry.clone())),
                None => drop(files.remove(*path)),
            }
        }
        let sha = match &self.bare {
            Some(bare) => import(bare, &name, base.as_deref(), changes, now),
            None => self.made_up(format!("{base:?}{branch}{now}").as_bytes()),
        };
        if self.bare.is_none() {
            self.refs.insert(name, Target { kind: "commit", sha: sha.clone() });
        }
        self.files.insert(sha.clone(), Arc::new(files));
        sha
    }

    /// An object id that no object has; the same in each run of a test.
    fn made_up(&mut self, seed: &[u8]) -> String {
        self.made += 1;
        object_id(&[&self.id.to_be_bytes(), &self.made.to_be_bytes(), seed])
    }
}

/// Forty hexadecimal digits.
pub(super) fn object_id(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a real commit in one go.
fn import(bare: &Bare, name: &str, base: Option<&str>, changes: &[(&str, Option<Entry>)], now: i64) -> String {
    let mut stream = format!(
        "commit {name}\ncommitter somebody <somebody@example.invalid> {} +0000\ndata 15\nmade by a test\n\n",
        now / 1000
    )
    .into_bytes();
    if let Some(base) = base {
        stream.extend(format!("from {base}\n").bytes());
    }
    for (path, entry) in changes {
        let (mode, bytes): (&str, &[u8]) = match entry {
            Some(Entry::File(bytes)) => ("100644", bytes),
            Some(Entry::Link(target)) => ("120000", target.as_bytes()),
            None => {
                stream.extend(format!("D {path}\n").bytes());
                continue;
            }
        };
        stream.extend(format!("M {mode} inline {path}\ndata {}\n", bytes.len()).bytes());
        stream.extend(bytes);
        stream.push(b'\n');
    }
    bare.git_in(&["fast-import", "--quiet", "--date-format=raw"], &stream);
    bare.resolve(name).expect("it was imported")
}
