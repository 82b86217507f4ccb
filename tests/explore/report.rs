//! The two tables of docs/EVIDENCE.md: compared with what was found, or written by `WQ_UPDATE_DOCS=1`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use crate::audit::RULES;
use crate::faults::Row;
use crate::search::{Outcome, Scope};

/// Both tests write the same file.
static FILE: Mutex<()> = Mutex::new(());

/// The rules, as a list.
pub(crate) fn rules() -> String {
    RULES.iter().fold(String::new(), |text, (name, sentence)| text + &format!("- **{name}**: {sentence}.\n"))
}

/// One row for each search.
pub(crate) fn searches(found: &[(Scope, Outcome)]) -> String {
    let mut text = String::from(
        "| search | what races | requests | states | transitions | ledgers | depth | exhausted |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for (scope, outcome) in found {
        let exhausted = if outcome.exhausted { "yes" } else { "**no**" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {exhausted} |",
            scope.name,
            scope.about,
            scope.slots.len(),
            outcome.states,
            outcome.transitions,
            outcome.versions,
            outcome.depth,
        );
    }
    text
}

/// One row for each fault, then the traces.
pub(crate) fn faults(found: &[(&Row, Vec<String>)]) -> String {
    let mut text = String::from(
        "| fault | in `src/` | what it breaks | search | rule | steps |\n| --- | --- | --- | --- | --- | ---: |\n",
    );
    for (row, trace) in found {
        let Row { fault, place, breaks, search, rule } = row;
        let _ = writeln!(text, "| {fault:?} | {place} | {breaks} | {search} | {rule} | {} |", trace.len());
    }
    text.push_str("\nThe shortest trace of each:\n\n");
    for (row, trace) in found {
        let _ = writeln!(text, "- **{:?}**: {}.", row.fault, trace.join("; "));
    }
    text
}

/// Compares a section of the document with its text, or rewrites it.
pub(crate) fn section(name: &str, expected: &str) {
    let _file = FILE.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/EVIDENCE.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let start = document.find(&begin).expect("the section begins") + begin.len();
    let stop = start + document[start..].find(&end).expect("the section ends");
    let expected = format!("\n{expected}\n");
    if document[start..stop] == expected {
        return;
    }
    if std::env::var_os("WQ_UPDATE_DOCS").is_some() {
        std::fs::write(&path, document[..start].to_owned() + &expected + &document[stop..]).unwrap();
        return;
    }
    panic!("docs/EVIDENCE.md is not in step; run `WQ_UPDATE_DOCS=1 cargo test --test explore`. Found:\n{expected}");
}
