//! The daily report portfolio: ten reporting workers that differ in what they report on.

use super::files::{Set, Workflow, worker};

/// Name of each profile and what its report is on, sorted.
const REPORTS: [(&str, &str); 10] = [
    ("report-builds", "how the builds fare"),
    ("report-changes", "what was changed"),
    ("report-coverage", "what the tests cover"),
    ("report-dependencies", "how old the dependencies are"),
    ("report-docs", "what the documentation lacks"),
    ("report-flakes", "which tests are flaky"),
    ("report-issues", "which Issues wait"),
    ("report-performance", "what became slower"),
    ("report-reviews", "which pull requests wait"),
    ("report-security", "which advisories apply"),
];

pub(super) fn set() -> Set {
    let names: Vec<&str> = REPORTS.iter().map(|(name, _)| *name).collect();
    let source = include_str!("templates/daily-report-portfolio/daily-reports.md");
    let script = include_str!("templates/daily-report-portfolio/daily-reports.sh");
    let report = include_str!("templates/daily-report-portfolio/report.md");
    Set {
        dispatcher: Workflow {
            name: "daily-reports".to_owned(),
            source: source.replace("@@WORKERS@@", &names.join(", ")),
            script: script.replace("@@PROFILES@@", &names.join(" ")),
        },
        workers: REPORTS.iter().map(|(name, topic)| worker(name, report.replace("@@TOPIC@@", topic))).collect(),
        cron: "41 5 * * *",
        budget: 3,
        settings: include_str!("templates/daily-report-portfolio/aw.json"),
    }
}
