//! `docs/REQUIREMENTS.md`: which requirement is shown by which test.
//!
//! The requirements stand in two tables beside the repository; each row names the issues that deliver it. A test (or,
//! where no test can show it, the code itself) names the rows that it shows in its doc comment. This file collects
//! both and keeps the document in step.

mod citations;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use citations::{Citation, citations};

use crate::tree;

/// The tables, and how the document calls their areas.
const TABLES: &[(&str, &str)] =
    &[("requirements-spec.md", "Specification"), ("requirements-operator.md", "Operator reference")];

/// The issues that this document reports on.
const ISSUES: &[&str] = &["1", "2", "3", "4"];

/// What the later issues are about, for rows that are delivered in parts.
const LATER: &[(&str, &str)] = &[
    ("5", "effects and verified delivery"),
    ("6", "the Issue mirror"),
    ("7", "the operator's browser and report"),
    ("8", "the native Git transport"),
    ("9", "trust in the whole system"),
];

/// Reasons for rows that are not met, one `ID: reason` a line; lines that begin with `#` are comments.
const NOT_MET: &str = "docs/requirements-not-met.txt";

const INTRODUCTION: &str = "\
# Requirements

<!-- Generated from the requirement tables and from the doc comments of tests and code. Name a row's ID in the doc
     comment of the test that shows it, then run
     WQ_UPDATE_DOCS=1 cargo test --test it in_step -->

Every obligation that the specification (S) and the operator reference (O) put on the queue itself, and the tests that
show it. A row is shown when the doc comment of at least one test names it; where no test can show a row, the doc comment
of the code that settles it does. `cargo test NAME` runs the test that a row names.

A row that several issues deliver is met here in its first part, the rule; its last column says where the rule is used
later.
";

/// One row of a requirement table.
#[derive(Debug)]
struct Row {
    id: String,
    area: String,
    text: String,
    issues: Vec<String>,
}

impl Row {
    /// True if the row is given to one of these issues, starred or not.
    fn is_due(&self) -> bool {
        self.issues.iter().any(|issue| ISSUES.contains(&issue.as_str()))
    }

    /// What is left for later issues; empty if nothing is.
    fn later(&self) -> String {
        let parts: Vec<_> = self
            .issues
            .iter()
            .filter(|issue| !ISSUES.contains(&issue.as_str()))
            .filter_map(|issue| LATER.iter().find(|(number, _)| number == issue))
            .map(|(number, about)| format!("{about} ({number})"))
            .collect();
        parts.join(", ")
    }
}

/// The rows of one table, in order.
fn rows(text: &str, kind: &str) -> Vec<Row> {
    let mut area = String::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let name = heading.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').split(" (").next();
            area = format!("{kind}: {}", name.unwrap_or(heading).trim());
        }
        let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if let [id, text, _, _, issue] = cells[..]
            && citations::is_id(id)
        {
            let issues = issue.split(',').map(|issue| issue.trim().trim_end_matches('*').to_owned()).collect();
            rows.push(Row { id: id.to_owned(), area: area.clone(), text: text.to_owned(), issues });
        }
    }
    rows
}

/// The reasons of [`NOT_MET`], or what is wrong with a line of it.
fn reasons(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut reasons = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(':') {
            Some((id, reason)) if citations::is_id(id) && !reason.trim().is_empty() => {
                if reasons.insert(id.to_owned(), reason.trim().to_owned()).is_some() {
                    return Err(format!("{id} has two reasons"));
                }
            }
            _ => return Err(format!("not `ID: reason`: {line}")),
        }
    }
    Ok(reasons)
}

/// Everything wrong with the citations and the reasons.
fn mistakes(rows: &[Row], cited: &[Citation], reasons: &BTreeMap<String, String>) -> Vec<String> {
    let known: BTreeSet<_> = rows.iter().map(|row| row.id.as_str()).collect();
    let mut wrong = Vec::new();
    for citation in cited {
        if !known.contains(citation.id.as_str()) {
            wrong.push(format!("{}:{}: no requirement is called {}", citation.path, citation.line, citation.id));
        }
        if citation.range {
            let Citation { path, line, id, .. } = citation;
            wrong.push(format!("{path}:{line}: {id} begins a range; name each row, separated by commas"));
        }
    }
    let due: BTreeSet<_> = rows.iter().filter(|row| row.is_due()).map(|row| row.id.as_str()).collect();
    for id in reasons.keys() {
        if !due.contains(id.as_str()) {
            wrong.push(format!("{NOT_MET}: {id} is no requirement of these issues"));
        }
        if let Some(citation) = cited.iter().find(|citation| citation.id == *id) {
            wrong.push(format!("{NOT_MET}: {id} is not met, yet {} shows it", citation.place()));
        }
    }
    wrong
}

/// The whole document.
fn document(rows: &[Row], cited: &[Citation], reasons: &BTreeMap<String, String>) -> String {
    let mut shown: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for citation in cited {
        shown.entry(&citation.id).or_default().insert(format!("`{}`", citation.place()));
    }
    let due: Vec<_> = rows.iter().filter(|row| row.is_due()).collect();
    let met = due.iter().filter(|row| shown.contains_key(row.id.as_str())).count();
    let excused = due.iter().filter(|row| reasons.contains_key(&row.id)).count();
    let open: Vec<_> =
        due.iter().filter(|row| !shown.contains_key(row.id.as_str()) && !reasons.contains_key(&row.id)).collect();

    let mut out = INTRODUCTION.to_owned();
    writeln!(out, "\n| rows | shown | not met | not shown yet |\n| ---: | ---: | ---: | ---: |").unwrap();
    writeln!(out, "| {} | {met} | {excused} | {} |", due.len(), open.len()).unwrap();
    writeln!(out, "\n## Not met\n").unwrap();
    if excused + open.len() == 0 {
        writeln!(out, "None.").unwrap();
    } else {
        writeln!(out, "| ID | requirement | reason |\n| --- | --- | --- |").unwrap();
        for row in due.iter().filter(|row| !shown.contains_key(row.id.as_str())) {
            let reason = reasons.get(&row.id).map_or("not shown yet", String::as_str);
            writeln!(out, "| {} | {} | {reason} |", row.id, row.text).unwrap();
        }
    }
    let mut area = "";
    for row in due.iter().filter(|row| shown.contains_key(row.id.as_str())) {
        if row.area != area {
            area = &row.area;
            writeln!(out, "\n## {area}\n\n| ID | requirement | shown by | later |\n| --- | --- | --- | --- |").unwrap();
        }
        let places = shown[row.id.as_str()].iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let line = format!("| {} | {} | {places} | {} |", row.id, row.text, row.later());
        writeln!(out, "{}", line.replace("|  |", "| |")).unwrap();
    }
    out
}

/// The citations of every test and source file.
fn all_citations() -> Vec<Citation> {
    ["src", "tests", "benches"]
        .iter()
        .flat_map(|folder| tree::files(folder, "rs"))
        .filter(|(path, _)| !path.starts_with("tests/it/requirements"))
        .flat_map(|(path, text)| citations(&path, &text))
        .collect()
}

/// The document lists every due row with what shows it, and no doc comment names a row that does not exist.
#[test]
fn requirements_document_in_step() {
    let Some(folder) = tree::shared() else {
        println!("skipped: the requirement tables are not beside the repository");
        return;
    };
    let mut all = Vec::new();
    for (file, kind) in TABLES {
        let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
            println!("skipped: {file} is not beside the repository");
            return;
        };
        all.extend(rows(&text, kind));
    }
    let cited = all_citations();
    let text = std::fs::read_to_string(tree::root().join(NOT_MET)).unwrap_or_default();
    let reasons = reasons(&text).unwrap();
    let wrong = mistakes(&all, &cited, &reasons);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    tree::keep_in_step("docs/REQUIREMENTS.md", &document(&all, &cited, &reasons));
}

mod tests {
    use super::*;

    const TABLE: &str = "## 3. Area (S-001 to S-004)\n\n| Id | Requirement | Spec | Note | Issue |\n| --- | --- | --- | --- | --- |\n\
        | S-001 | First. | 1 | engine 1 | 1 |\n| S-002 | Second. | 1 | none | 1, 5 |\n| S-003 | Third. | 1 | none | 13 |\n\
        | S-004 | Fourth. | 1 | none | 1* |\n| S-005 | Fifth. | 1 | none | none |\n";

    fn cite(text: &str) -> Vec<Citation> {
        citations("tests/it/x.rs", text)
    }

    #[test]
    fn due_rows_are_those_that_name_the_issue() {
        let rows = rows(TABLE, "Kind");
        let due: Vec<_> = rows.iter().filter(|row| row.is_due()).map(|row| row.id.as_str()).collect();
        assert_eq!(due, ["S-001", "S-002", "S-004"]);
        assert_eq!(rows[0].area, "Kind: Area");
        assert_eq!(rows[1].later(), "effects and verified delivery (5)");
    }

    #[test]
    fn the_document_says_shown_not_met_and_not_shown_yet() {
        let reasons = reasons("# comment\nS-002: for a reason\n").unwrap();
        let text = document(&rows(TABLE, "Kind"), &cite("/// S-001: x.\n#[test]\nfn it_is() {}\n"), &reasons);
        assert!(text.contains("| 3 | 1 | 1 | 1 |\n"), "{text}");
        assert!(text.contains("| S-001 | First. | `tests/it/x.rs::it_is` | |\n"), "{text}");
        assert!(text.contains("| S-002 | Second. | for a reason |\n"), "{text}");
        assert!(text.contains("| S-004 | Fourth. | not shown yet |\n"), "{text}");
        assert!(!text.contains("S-003"), "{text}");
    }

    #[test]
    fn unknown_ids_ranges_and_contradictions_are_mistakes() {
        let rows = rows(TABLE, "Kind");
        let none = BTreeMap::new();
        assert_eq!(
            mistakes(&rows, &cite("/// S-999.\nfn f() {}"), &none),
            ["tests/it/x.rs:1: no requirement is called S-999"]
        );
        assert_eq!(mistakes(&rows, &cite("/// S-001 to S-004.\nfn f() {}"), &none).len(), 1);
        assert_eq!(mistakes(&rows, &cite("/// S-001, S-004.\nfn f() {}"), &none), [""; 0]);
        let both = reasons("S-001: no\n").unwrap();
        assert_eq!(mistakes(&rows, &cite("/// S-001.\nfn f() {}"), &both).len(), 1);
        assert_eq!(mistakes(&rows, &[], &reasons("S-003: no\n").unwrap()).len(), 1);
        assert!(reasons("S-001 no\n").is_err());
    }
}
