//! The conformance data: where it lies and how its ledgers are built.
//!
//! The data is not part of a clone. `WQ_SHARED` names its folder; without it the folder `shared` beside the
//! checkout is tried. Tests that need it pass with a note where there is none; the project's own `fixtures/`
//! cover the same code on a smaller scale.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;

/// One ledger of the corpus that must be accepted.
pub(crate) struct CorpusCase {
    /// File name without its ending.
    pub(crate) name: String,
    /// The ledger file.
    pub(crate) text: Vec<u8>,
    /// The whole expectation.
    pub(crate) expect: Value,
    /// Tags of what the ledger holds.
    pub(crate) features: Vec<String>,
}

/// One ledger of the corpus that must be refused.
pub(crate) struct InvalidCase {
    pub(crate) name: String,
    /// What was changed, in words.
    pub(crate) mutation: String,
    /// `codec`, `shape`, `chain` or `replay`.
    pub(crate) stage: String,
    /// Line at fault, from 1.
    pub(crate) line: Option<usize>,
    pub(crate) code: String,
    /// Codes that say the same thing better.
    pub(crate) alternatives: Vec<String>,
    /// Tags of the ledger it was made from; empty for a ledger given whole.
    #[allow(dead_code, reason = "cases of later steps are chosen by feature")]
    pub(crate) features: Vec<String>,
    /// Host that external resources live on.
    pub(crate) host: String,
    /// The ledger file.
    pub(crate) text: Vec<u8>,
}

impl InvalidCase {
    /// True for the expected code or one of its alternatives.
    pub(crate) fn allows(&self, code: &str) -> bool {
        self.code == code || self.alternatives.iter().any(|other| other == code)
    }
}

/// The folder of the conformance data, if there is one.
pub(crate) fn conformance() -> Option<PathBuf> {
    let given = std::env::var_os("WQ_SHARED").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = given.into_iter().chain([beside]).map(|root| root.join("conformance")).find(|path| path.is_dir());
    if folder.is_none() {
        eprintln!("skipped: no conformance data (set WQ_SHARED to the folder that holds it)");
    }
    folder
}

/// Reads a JSON file of the conformance folder; none without the folder.
pub(crate) fn load(name: &str) -> Option<Value> {
    let path = conformance()?.join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(serde_json::from_slice(&bytes).expect("conformance data is JSON"))
}

/// Every ledger that must be accepted, in order of name; empty without the folder.
pub(crate) fn load_corpus() -> Vec<CorpusCase> {
    let Some(folder) = conformance().map(|folder| folder.join("corpus")) else { return Vec::new() };
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("the corpus is readable")
        .filter_map(|entry| entry.expect("the corpus is readable").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    names.sort();
    names.iter().map(|name| load_case(name).expect("the folder is there")).collect()
}

/// One ledger that must be accepted; none without the folder.
pub(crate) fn load_case(name: &str) -> Option<CorpusCase> {
    let folder = conformance()?.join("corpus");
    let text = std::fs::read(folder.join(format!("{name}.jsonl"))).expect("the corpus is complete");
    let expect = load(&format!("corpus/{name}.expect.json"))?;
    let features = strings(&expect["features"]);
    Some(CorpusCase { name: name.to_owned(), text, expect, features })
}

/// Every case of `corpus/invalid/FILE.json`; empty without the folder.
pub(crate) fn load_invalid(file: &str) -> Vec<InvalidCase> {
    let Some(cases) = load(&format!("corpus/invalid/{file}.json")) else { return Vec::new() };
    let mut bases: HashMap<String, CorpusCase> = HashMap::new();
    cases.as_array().expect("a list of cases").iter().map(|case| invalid(case, &mut bases)).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().expect("a string").to_owned()).collect()
}

fn invalid(case: &Value, bases: &mut HashMap<String, CorpusCase>) -> InvalidCase {
    let text = |member: &str| case[member].as_str().expect("a string member").to_owned();
    let base = case["base"].as_str().map(|name| {
        &*bases.entry(name.to_owned()).or_insert_with(|| load_case(name).expect("the base is in the corpus"))
    });
    InvalidCase {
        name: text("name"),
        mutation: case["mutation"].as_str().unwrap_or_default().to_owned(),
        stage: text("stage"),
        line: case["line"].as_u64().map(|line| line as usize),
        code: text("code"),
        alternatives: strings(&case["alternatives"]),
        features: base.map(|base| base.features.clone()).unwrap_or_default(),
        host: base.and_then(|base| base.expect["host"].as_str()).unwrap_or("github.com").to_owned(),
        text: match base {
            None => text("ledger").into_bytes(),
            Some(base) => build(case, &base.text).into_bytes(),
        },
    }
}

/// Builds the text of a case from the lines of its base.
fn build(case: &Value, base: &[u8]) -> String {
    let base = std::str::from_utf8(base).expect("the corpus is UTF-8");
    let mut lines: Vec<String> = base.lines().map(str::to_owned).collect();
    for edit in case["edit"].as_array().into_iter().flatten() {
        let line = &mut lines[edit["line"].as_u64().expect("a line number") as usize - 1];
        let mut value: Value = serde_json::from_str(line).expect("a line of the corpus is JSON");
        for op in edit["ops"].as_array().expect("a list of patches") {
            patch(&mut value, op);
        }
        // Compact text with the library's sorted maps and minimal escapes is the canonical form.
        *line = value.to_string();
    }
    let mut written: Vec<String> = Vec::new();
    for item in case["lines"].as_array().expect("a list of lines") {
        match item {
            Value::Number(line) => written.push(lines[line.as_u64().expect("a line number") as usize - 1].clone()),
            Value::Array(range) => {
                let [from, to] = [0, 1].map(|index| range[index].as_u64().expect("a line number") as usize);
                written.extend(lines[from - 1..to].iter().cloned());
            }
            Value::String(raw) => written.push(raw.clone()),
            other => {
                let count = other["count"].as_u64().expect("a count") as usize;
                let part = |member: &str| other[member].as_str().unwrap_or_default();
                written.push(format!("{}{}{}", part("before"), part("repeat").repeat(count), part("after")));
            }
        }
    }
    let mut text = written.join("\n");
    if case["final_newline"] != Value::Bool(false) {
        text.push('\n');
    }
    text
}

/// Applies one JSON Patch operation.
fn patch(root: &mut Value, op: &Value) {
    let path = op["path"].as_str().expect("a path");
    let (parent, last) = path.rsplit_once('/').expect("a path below the root");
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = root.pointer_mut(parent).expect("the parent is there");
    let value = op["value"].clone();
    match (op["op"].as_str(), parent) {
        (Some("remove"), Value::Object(members)) => drop(members.remove(&last).expect("the member is there")),
        (Some("remove"), Value::Array(items)) => drop(items.remove(last.parse().expect("an index"))),
        (Some("replace"), Value::Array(items)) => items[last.parse::<usize>().expect("an index")] = value,
        (Some("add"), Value::Array(items)) if last == "-" => items.push(value),
        (Some("add"), Value::Array(items)) => items.insert(last.parse().expect("an index"), value),
        (Some("add" | "replace"), Value::Object(members)) => drop(members.insert(last, value)),
        (other, _) => panic!("patch {other:?} at {path} is not understood"),
    }
}
