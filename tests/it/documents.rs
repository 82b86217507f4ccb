//! What the documentation says, and what it must never promise.

use std::fs;

use crate::tree;

fn read(name: &str) -> String {
    // Lines wrap anywhere, so phrases are looked for in running text.
    fs::read_to_string(tree::root().join(name)).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The document of non-guarantees disclaims each of them, and the front page leads to it.
///
/// S-585, S-586, S-587, S-588, S-589, S-590, S-591, S-592, S-593, S-594, S-595, S-596, S-597, S-598, S-599, S-600, S-601,
/// S-602, S-603, S-607: each has its sentence under "What it does not promise".
#[test]
fn nothing_is_promised_that_is_not_kept() {
    let text = read("docs/NON-GUARANTEES.md");
    for (id, phrase) in [
        ("S-585", "No fairness across repositories, queues or pools"),
        ("S-586", "No first-come-first-served by the wall clock"),
        ("S-587", "Equal turns are not equal runner time, tokens, cost, completions or usefulness"),
        ("S-588", "No preemption"),
        ("S-589", "No order of completion and no deadline"),
        ("S-590", "No exactly-once execution, launch or outside effect"),
        ("S-591", "No hard maximum wait"),
        ("S-592", "No automatic recovery from what cannot be known"),
        ("S-595", "No global live consistency between Issues, pull requests and the queue"),
        ("S-596", "No limit on what runs on GitHub"),
        ("S-593", "No ledger that grows for ever"),
        ("S-594", "No protection from a compromised publisher or administrator"),
        ("S-597", "No acknowledgement within an agent's turn"),
        ("S-598", "No span below the exact grant"),
        ("S-599", "No serialized writers outside"),
        ("S-599", "what was delivered is not undone"),
        ("S-600", "Not every idle slot is filled"),
        ("S-601", "No backfilling, usage accounting, critical-path ordering, dominant-resource fairness or preemption"),
        ("S-602", "The suggested weights are neither optimal nor a service level"),
        ("S-603", "A share of turns is no latency of a Work"),
        ("S-603", "No freedom from starvation beyond the stated assumptions"),
        ("S-607", "Fairness means grants among eligible keys of one pool"),
    ] {
        assert!(text.contains(phrase), "docs/NON-GUARANTEES.md does not disclaim {id}: {phrase}");
    }
    assert!(read("README.md").contains("docs/NON-GUARANTEES.md"), "the README does not lead to the non-guarantees");
}

/// S-631: no document claims a throughput: the non-guarantees say what the selector's growth and shared hosts do not show,
/// and the figures name the machine that they are samples of.
#[test]
fn figures_are_samples() {
    let text = read("docs/NON-GUARANTEES.md");
    assert!(text.contains("**No general throughput.**"));
    assert!(
        text.contains("How a selection grows with the queue, and what a shared machine measured, say nothing about")
    );
    assert!(read("docs/BENCHMARKS.md").contains("The figures below are of a virtual machine"));
    for (path, text) in tree::files("docs", "md").into_iter().chain([("README.md".to_owned(), read("README.md"))]) {
        for word in ["per second", "/s ", "ops/s", "scales to", "any workload"] {
            assert!(path.ends_with("REQUIREMENTS.md") || !text.contains(word), "{path} claims a rate: {word}");
        }
    }
}

/// What cannot be compacted is said where the other limits are. The states themselves are shown by
/// `mixed_submissions_cannot_be_compacted`, `historical_reservations_with_a_contract_wait_for_their_release` and the tests
/// that compact every prefix of every ledger.
#[test]
fn limits_of_compaction_are_said() {
    let text = read("docs/NON-GUARANTEES.md");
    for phrase in [
        "A checkpoint keeps at most 16,384 receipts of accepted requests",
        "its line has at most 8 MiB",
        "A young chain can be shorter than the checkpoint that would replace it",
        "a ledger in which one submission repeats admitted Work among new Work",
        "a historical Policy's route with a contract still holds a reservation",
    ] {
        assert!(text.contains(phrase), "docs/NON-GUARANTEES.md does not say: {phrase}");
    }
    assert_eq!(wq_action::protocol::limits::MAX_ARRAY, 16_384);
    assert_eq!(wq_action::protocol::limits::MAX_COMMIT_BYTES, 8 * 1024 * 1024);
}

/// O-379: the migration guide has operators quiesce old writers and workflows and keep their evidence before they deploy.
///
/// O-108: documentation and message say that a missing branch begins a fresh genesis, and what may be lost with it; that
/// the first submission does so is shown by the tests of publication.
#[test]
fn the_migration_guide_says_what_comes_first_and_what_is_lost() {
    let text = read("docs/MIGRATION.md");
    let at = |phrase: &str| text.find(phrase).unwrap_or_else(|| panic!("docs/MIGRATION.md does not say: {phrase}"));
    assert!(
        at("Quiesce what writes today") < at("Keep the evidence") && at("Keep the evidence") < at("Deploy the workers")
    );
    at("the first submission, which installs the Policy");
    at("It knows none of the requests, reservations and");
    assert!(read("README.md").contains("docs/MIGRATION.md"), "the README does not lead to the migration guide");
    let root = tree::files("src", "rs");
    let said = |path: &str, words: &str| root.iter().any(|(name, text)| name.ends_with(path) && text.contains(words));
    assert!(said("ledger/publisher.rs", "which knows none of the"));
    assert!(said("cli/publish.rs", "a new queue: if there was an earlier branch"));
}

/// The guide for operators says what they must know before an accident.
///
/// S-031, S-234, S-257, S-399, S-520, S-661, O-017: each has its sentences; that a missing branch is a fresh genesis is also
/// shown by the tests of publication.
#[test]
fn operators_are_told() {
    let text = read("docs/OPERATIONS.md");
    for (id, phrase) in [
        (
            "S-031",
            "**Readers before writers.** A reader that does not know an operation refuses the ledger that holds it",
        ),
        ("S-031", "upgrade whatever reads alone"),
        ("S-031", "upgrade dispatchers and producers, which are the first to write what is new"),
        (
            "S-234",
            "stop the old writers, settle the old workers (let them end, or cancel them), redeploy every client, and only",
        ),
        ("S-234", "start the new queue"),
        ("S-257", "a request that was accepted before may be accepted again"),
        ("S-257", "accepted request ids, waiting Work, reservations, Claims, evidence"),
        ("S-399", "read-only questions to tools, the runner's own diagnostics, and the telemetry of the run"),
        ("S-399", "They never create an Issue or a comment"),
        ("S-520", "works through them in the order of its assignment unless you have a reason not to"),
        ("S-520", "Members may still finish in any order, or side by side"),
        ("S-661", "A Claim handle separates authority, and nothing else"),
        ("S-661", "its context, its files, its network and whatever credentials the workflow gives it"),
        ("O-017", "**Checklists and sub-issues** are lists for people"),
        (
            "O-017",
            "neither can give a fair turn, the authority of a Claim, or a dependency that waits for a verified Result",
        ),
        ("moved tag", "Launches of that revision stop before anything is sent"),
    ] {
        assert!(text.contains(phrase), "docs/OPERATIONS.md does not say {id}: {phrase}");
    }
    assert!(read("README.md").contains("docs/OPERATIONS.md"), "the README does not lead to the guide for operators");
}

/// The commands of a document: the text between a fence of `sh` or `text` and the next one.
fn commands(text: &str) -> Vec<&str> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.filter(|block| block.starts_with("sh\n") || block.starts_with("text\n")).collect()
}

/// O-025: the front page has a guide for the first use, whose commands a test runs, and says which of the specified
/// behaviour is there and which is not, row by row in the table of requirements; and the pages of evidence have the
/// commands that find their results again.
#[test]
fn the_documentation_guides_states_and_proves() {
    let text = |name: &str| fs::read_to_string(tree::root().join(name)).unwrap();
    let front = text("README.md");
    let (_, rest) = front.split_once("## A tour of five minutes").expect("a guide for the first use");
    assert!(commands(rest.split("\n## ").next().unwrap()).iter().any(|block| block.contains("wq submit-graph")));
    assert!(front.contains("## Not there yet") && front.contains("](docs/REQUIREMENTS.md)"));
    let table = text("docs/REQUIREMENTS.md");
    assert!(table.contains("| rows | shown | not met | not shown yet |") && table.contains("`cargo test NAME`"));
    let pages = tree::files("docs", "md").into_iter().map(|(path, _)| path);
    let mut pages: Vec<String> = pages.filter(|path| path.starts_with("docs/EVIDENCE")).collect();
    assert!(!pages.is_empty(), "there is no page of evidence");
    pages.push("docs/BENCHMARKS.md".to_owned());
    for page in pages {
        assert!(text(&page).contains("cargo "), "{page} has no command that finds its results again");
    }
}

/// O-415: the page says that both extensions for administrators are in the checked model, and they are: each has a rule,
/// and faults that break it. (`tests/it/cli_cancel.rs` has their tests through the binary.)
#[test]
fn the_evidence_says_what_is_in_the_model() {
    let page = fs::read_to_string(tree::root().join("docs/EVIDENCE.md")).unwrap();
    let stated = "cancelling under a Claim's fence and reprioritizing, are in the checked model";
    assert!(page.contains(stated));
    for rule in ["**priority**", "**cancellation**"] {
        assert!(page.contains(rule), "{rule} is no rule of the model");
    }
    for fault in ["PriorityResetsDebt", "Fence"] {
        assert!(page.lines().any(|line| line.starts_with("| ") && line.contains(fault)), "no fault {fault}");
    }
}

/// S-627: the report of figures covers cold replay (bytes, time, peak memory), incremental replay, contended retries and
/// the writes that finish a Claim, with figures in every row.
#[test]
fn the_envelope_report_is_complete() {
    let page = fs::read_to_string(tree::root().join("docs/BENCHMARKS.md")).unwrap();
    let tables = [
        "| file | commits | serde_json |",
        "| file | incremental |",
        "| publishers |",
        "| batch | Claims | commits a Claim |",
    ];
    for table in tables {
        let (_, rows) = page.split_once(table).unwrap_or_else(|| panic!("no table {table}"));
        let rows: Vec<&str> = rows.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        assert!(rows.len() > 1, "{table}");
        assert!(rows.iter().all(|row| !row.contains('…') && row.bytes().any(|byte| byte.is_ascii_digit())), "{table}");
    }
    assert!(page.contains("peak/file") && page.contains("attempts, median and most"), "peak memory and lost attempts");
}

/// S-649: every diagram of the documentation is a Mermaid block, and none of them is a state machine of its own.
#[test]
fn diagrams_are_mermaid() {
    let mut documents = tree::files("docs", "md");
    documents.push(("README.md".to_owned(), fs::read_to_string(tree::root().join("README.md")).unwrap()));
    let mut diagrams = 0;
    for (path, text) in documents {
        let mut inside = false;
        for (index, line) in text.lines().enumerate() {
            let place = format!("{path}:{}", index + 1);
            if let Some(language) = line.trim_start().strip_prefix("```") {
                inside = !inside;
                diagrams += usize::from(language == "mermaid");
                assert!(!inside || !language.is_empty(), "{place}: a block without a language");
            }
            assert!(!line.contains("stateDiagram"), "{place}: states belong to the protocol, not to a picture");
            let drawn = line.chars().any(|c| ('\u{2500}'..='\u{257f}').contains(&c));
            assert!(!drawn, "{place}: a diagram that is not Mermaid");
        }
        assert!(!inside, "{path}: a block that is not closed");
    }
    assert!(diagrams > 0, "no diagram was found");
}

/// The commands that `.ci/run` takes from the front page are there, once each.
#[test]
fn the_front_page_has_the_commands_that_ci_runs() {
    let text = fs::read_to_string(tree::root().join("README.md")).unwrap();
    let mut lines = text.lines().skip_while(|line| *line != "<!-- ci: test -->").skip(1);
    assert!(lines.next().is_some_and(|line| line.starts_with("```")), "no block follows the marker `ci: test`");
    assert!(lines.next().is_some_and(|line| line.starts_with("cargo ")), "the block begins with a cargo command");
    assert_eq!(text.matches("<!-- ci: test -->").count(), 1);
    assert!(text.matches("<!-- ci: demo -->").count() <= 1);
}
