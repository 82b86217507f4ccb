//! The front page, taken at its word: its tour is run as it is written, and its table and links hold.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tree;

/// Stands for whatever was left out: within a line for any characters, alone on a line for any lines.
const LEFT_OUT: &str = "…";

fn page(name: &str) -> String {
    fs::read_to_string(tree::root().join(name)).unwrap()
}

/// One step of the tour: commands, the status that the last of them ends with, and what is shown of their output.
#[derive(Debug, Default)]
struct Step {
    line: usize,
    exit: i32,
    commands: String,
    shown: Vec<String>,
}

/// Reads the steps: a marker `<!-- tour -->` or `<!-- tour: exit N -->`, a block of shell, perhaps a block of text.
fn steps(text: &str) -> Vec<Step> {
    let mut lines = text.lines().enumerate().peekable();
    let mut steps = Vec::new();
    while let Some((index, line)) = lines.next() {
        let Some(rest) = line.strip_prefix("<!-- tour") else { continue };
        let exit = match rest.strip_prefix(": exit ").and_then(|rest| rest.strip_suffix(" -->")) {
            Some(number) => number.parse().unwrap(),
            None => {
                assert_eq!(rest, " -->", "README.md:{}: an unknown marker", index + 1);
                0
            }
        };
        let mut step = Step { line: index + 1, exit, ..Step::default() };
        assert_eq!(lines.next().unwrap().1, "```sh", "README.md:{}: no shell block follows the marker", index + 1);
        for (_, line) in lines.by_ref().take_while(|(_, line)| *line != "```") {
            step.commands.push_str(line);
            step.commands.push('\n');
        }
        if lines.next_if(|(_, line)| *line == "```text").is_some() {
            step.shown = lines.by_ref().take_while(|(_, line)| *line != "```").map(|(_, l)| l.to_owned()).collect();
        }
        steps.push(step);
    }
    steps
}

/// True if the line is the shown one, with anything where characters were left out.
fn line_is(shown: &str, line: &str) -> bool {
    let mut parts = shown.split(LEFT_OUT);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// True if the output is what is shown, with any lines where lines were left out.
fn output_is(shown: &[String], output: &[&str]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return output.is_empty() };
    if first == LEFT_OUT {
        return (0..=output.len()).any(|skipped| output_is(rest, &output[skipped..]));
    }
    output.split_first().is_some_and(|(line, output)| line_is(first, line) && output_is(rest, output))
}

/// The shell in a directory where `wq` is the binary under test and nothing else of this process is known.
fn shell(directory: &Path, commands: &str) -> (i32, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_wq"));
    let mut search = binary.parent().unwrap().as_os_str().to_owned();
    search.push(":");
    search.push(std::env::var_os("PATH").unwrap());
    let output = Command::new("sh")
        .arg("-euc")
        .arg(format!("exec 2>&1\n{commands}"))
        .current_dir(directory)
        .env_clear()
        .env("PATH", search)
        .env("HOME", directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code().expect("it was not killed"), String::from_utf8(output.stdout).unwrap())
}

/// Every command of the tour ends as the page says and prints what the page shows. Ids follow from the names and
/// request ids that the tour gives, so a page that no longer fits the program is noticed.
#[test]
fn the_tour_is_as_it_is_told() {
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("examples")).unwrap();
    for (name, text) in tree::files("examples", "json") {
        let path = here.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let steps = steps(&page("README.md"));
    for step in &steps {
        let (exit, output) = shell(here.path(), &step.commands);
        assert_eq!(exit, step.exit, "README.md:{}: {output}", step.line);
        let lines: Vec<&str> = output.lines().collect();
        assert!(
            output_is(&step.shown, &lines),
            "README.md:{}: shown\n{}\nprinted\n{output}",
            step.line,
            step.shown.join("\n")
        );
    }
    let all: String = steps.iter().map(|step| step.commands.as_str()).collect();
    for command in [
        "submit-work",
        "submit-graph",
        "dispatch-next",
        "explain",
        "inspect",
        "stats",
        "state",
        "trace",
        "replay",
        "verify",
        "--request-id",
    ] {
        assert!(all.contains(command), "the tour does not show {command}");
    }
    assert!(steps.iter().any(|step| step.exit != 0), "the tour shows no refusal");
}

/// What is left out is left out, and nothing else is.
#[test]
fn shown_output_is_compared_strictly() {
    assert!(line_is("a…c", "abc") && line_is("a…", "a") && line_is("…-…", "x-y") && line_is("abc", "abc"));
    assert!(!line_is("a…c", "abd") && !line_is("abc", "abcd") && !line_is("a…b…b", "ab"));
    let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(output_is(&shown(&["a", "…", "d"]), &["a", "b", "c", "d"]));
    assert!(output_is(&shown(&["a", "…"]), &["a"]) && output_is(&[], &[]));
    assert!(!output_is(&shown(&["a", "d"]), &["a", "b", "d"]) && !output_is(&[], &["a"]));
}

/// The exit statuses of the front page are those of docs/FAILURES.md, which the codes are tested against.
#[test]
fn the_front_page_has_the_exit_statuses() {
    let rows = |name: &str| -> Vec<String> {
        let text = page(name);
        let table = text.lines().skip_while(|line| *line != "| exit | meaning |").skip(2);
        table.take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
    };
    let expected = rows("docs/FAILURES.md");
    assert!(expected.len() >= 8, "{expected:?}");
    assert_eq!(rows("README.md"), expected);
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>().replace(' ', "-")
}

/// Links between the repository's documents lead to files and headings that are there.
#[test]
fn links_lead_somewhere() {
    let mut documents: Vec<(String, String)> =
        ["README.md", "CONTRIBUTING.md"].map(|name| (name.to_owned(), page(name))).into();
    documents.extend(tree::files("docs", "md"));
    documents.extend(tree::files("fixtures", "md"));
    let mut links = 0;
    for (from, text) in &documents {
        let folder = Path::new(from).parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
            let target = if file.is_empty() { from.into() } else { folder.join(file) };
            assert!(tree::root().join(&target).exists(), "{from}: {link} leads nowhere");
            let Some(heading) = heading else { continue };
            let target = page(target.to_str().unwrap());
            let mut headings = target.lines().filter(|line| line.starts_with('#'));
            let found = headings.any(|line| anchor(line.trim_start_matches('#').trim_start()) == heading);
            assert!(found, "{from}: {link} leads to no heading");
        }
    }
    assert!(links > 5, "few links were found");
}

/// Tests and files that the description of the architecture names are there.
#[test]
fn the_architecture_names_what_exists() {
    let text = page("docs/ARCHITECTURE.md");
    let code: String = ["src", "tests"].iter().flat_map(|root| tree::files(root, "rs")).map(|(_, text)| text).collect();
    let sources = tree::files("src", "rs");
    let mut names = 0;
    let rows = text.lines().skip_while(|line| *line != "## Where each guarantee is enforced");
    for row in rows.take_while(|line| !line.starts_with("## What")).filter(|line| line.starts_with("| ")).skip(2) {
        let columns: Vec<&str> = row.split('|').collect();
        for name in columns[3].split('`').skip(1).step_by(2) {
            names += 1;
            assert!(code.contains(&format!("fn {name}(")), "docs/ARCHITECTURE.md: there is no test {name}");
        }
        for name in columns[2].split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")) {
            let known = sources.iter().any(|(path, _)| path.ends_with(&format!("/{name}")));
            assert!(known, "docs/ARCHITECTURE.md: there is no file {name}");
        }
    }
    assert!(names > 15, "few tests were named");
    for row in text
        .lines()
        .skip_while(|line| *line != "### A map of the files")
        .take_while(|line| *line != "## Reading: `protocol`")
    {
        let Some(cell) = row.strip_prefix("| `").and_then(|row| row.split(" | ").next()) else { continue };
        let folder = cell.split('/').next().unwrap();
        for (index, name) in cell.trim_end_matches('`').split("`, `").enumerate() {
            let path = if index == 0 { format!("src/{name}") } else { format!("src/{folder}/{name}") };
            assert!(tree::root().join(&path).exists(), "docs/ARCHITECTURE.md: there is no {path}");
        }
    }
}
