//! What a job's environment says about itself (jobs.md 3.4, 8).

use std::fmt;

use serde::Deserialize;

use crate::protocol::fault::ensure;
use crate::protocol::limits::MAX_ATTEMPT;
use crate::protocol::{Code, Decimal, Fault, RepositoryName, Revision, RuntimeRole};

/// Longest value of one variable, in bytes: what Linux lets a variable be.
const MAX_VALUE_BYTES: usize = 128 * 1024;
/// Longest value that names something: a reference, an event, a URL.
const MAX_NAME_BYTES: usize = 1024;
/// Largest event payload, in bytes; GitHub's own bound is 25 MB.
const MAX_PAYLOAD_BYTES: usize = 32 * 1024 * 1024;
/// Most launches of one run.
const MAX_BUDGET: u32 = 4096;

const REPOSITORY: &str = "GITHUB_REPOSITORY";
const RUN_ID: &str = "GITHUB_RUN_ID";
const RUN_ATTEMPT: &str = "GITHUB_RUN_ATTEMPT";
const WORKFLOW_REF: &str = "GITHUB_WORKFLOW_REF";
const SHA: &str = "GITHUB_SHA";
const EVENT_NAME: &str = "GITHUB_EVENT_NAME";
const ACTOR_ID: &str = "GITHUB_ACTOR_ID";
const SERVER_URL: &str = "GITHUB_SERVER_URL";
const API_URL: &str = "GITHUB_API_URL";
const GRAPHQL_URL: &str = "GITHUB_GRAPHQL_URL";
const ROLE: &str = "GH_AW_WORK_QUEUE_ROLE";
const CONTRACT: &str = "GH_AW_WORK_QUEUE_CONTRACT";
const INTENT_ORIGIN: &str = "GH_AW_WORK_QUEUE_INTENT_ORIGIN";
const DISPATCH_BUDGET: &str = "GH_AW_WORK_QUEUE_DISPATCH_BUDGET";
const MAX_DISPATCHES: &str = "GH_AW_WORK_QUEUE_MAX_DISPATCHES";

/// Every variable that is read, with its bound in bytes.
const VARIABLES: [(&str, usize); 15] = [
    (REPOSITORY, MAX_NAME_BYTES),
    (RUN_ID, MAX_NAME_BYTES),
    (RUN_ATTEMPT, MAX_NAME_BYTES),
    (WORKFLOW_REF, MAX_NAME_BYTES),
    (SHA, MAX_NAME_BYTES),
    (EVENT_NAME, MAX_NAME_BYTES),
    (ACTOR_ID, MAX_NAME_BYTES),
    (SERVER_URL, MAX_NAME_BYTES),
    (API_URL, MAX_NAME_BYTES),
    (GRAPHQL_URL, MAX_NAME_BYTES),
    (ROLE, MAX_NAME_BYTES),
    (CONTRACT, MAX_NAME_BYTES),
    // Its own, smaller bound has a code of its own (jobs.md 5.3.4).
    (INTENT_ORIGIN, MAX_VALUE_BYTES),
    (DISPATCH_BUDGET, MAX_NAME_BYTES),
    (MAX_DISPATCHES, MAX_NAME_BYTES),
];

/// `GITHUB_WORKFLOW_REF` in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowRef {
    /// Repository of the workflow, as the runner spells it.
    pub repository: RepositoryName,
    /// Path of the workflow: `.github/workflows/<file>`.
    pub path: String,
    /// The reference that it was taken from, such as `refs/heads/main`.
    pub reference: String,
}

impl WorkflowRef {
    /// Splits `owner/name/.github/workflows/file@ref`; none for text of another form.
    fn read(text: &str) -> Option<Self> {
        let (place, reference) = text.split_once('@')?;
        let (repository, file) = place.split_once("/.github/workflows/")?;
        let named = !file.is_empty() && !file.contains('/') && !reference.is_empty();
        let repository = RepositoryName::new(repository).ok()?;
        named.then(|| Self { repository, path: format!(".github/workflows/{file}"), reference: reference.to_owned() })
    }
}

/// A job's run, repository and event as its environment tells them, and the queue's compiled values beside them.
#[derive(Clone)]
pub struct Context {
    repository: RepositoryName,
    run_id: Decimal,
    run_attempt: i64,
    payload_repository_id: Option<Decimal>,
    payload: Option<String>,
    values: [Option<String>; VARIABLES.len()],
}

impl Context {
    /// Takes a job's variables and the text of its event payload, if it has one. Other variables are left alone; the
    /// first of two with one name counts; an empty one is absent.
    ///
    /// # Errors
    /// `publisher_repository_context_missing` without a repository `owner/name`, a positive run id and an attempt of
    /// 1 to 4096 (1 if it is absent); `settings_invalid` for a value longer than its bound, or a payload of more than
    /// 32 MiB that is no JSON object or whose `repository.id` is no positive integer.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>, payload: Option<String>) -> Result<Self, Fault> {
        let mut values: [Option<String>; VARIABLES.len()] = Default::default();
        for (name, value) in variables {
            let Some(slot) = VARIABLES.iter().position(|(known, _)| *known == name) else { continue };
            ensure!(value.len() <= VARIABLES[slot].1, SettingsInvalid, "a variable of the runner is too long");
            // The role alone is an error when it is empty (jobs.md 1.1).
            if values[slot].is_none() && (!value.is_empty() || name == ROLE) {
                values[slot] = Some(value);
            }
        }
        let value = |name| find(&values, name);
        let missing = || Fault::from(Code::PublisherRepositoryContextMissing);
        let repository = value(REPOSITORY).and_then(|name| RepositoryName::new(name).ok()).ok_or_else(missing)?;
        let run_id = value(RUN_ID).and_then(|id| Decimal::new(id).ok()).ok_or_else(missing)?;
        let run_attempt = value(RUN_ATTEMPT).map_or(Some(1), attempt).ok_or_else(missing)?;
        let payload_repository_id = payload.as_deref().map(payload_repository).transpose()?.flatten();
        Ok(Self { repository, run_id, run_attempt, payload_repository_id, payload, values })
    }

    /// Takes the variables of this process; the payload comes from the file that `GITHUB_EVENT_PATH` names.
    ///
    /// # Errors
    /// As [`Context::new`]; `settings_invalid` for a value that is no UTF-8, `io_failed` for a payload that cannot be
    /// read.
    pub fn of_process() -> Result<Self, Fault> {
        let mut variables = Vec::new();
        for (name, _) in VARIABLES {
            let Some(value) = std::env::var_os(name) else { continue };
            let value = value
                .into_string()
                .map_err(|_| Fault::new(Code::SettingsInvalid, "a variable of the runner is no UTF-8 text"))?;
            variables.push((name.to_owned(), value));
        }
        let payload = std::env::var_os("GITHUB_EVENT_PATH").filter(|path| !path.is_empty());
        Self::new(variables, payload.map(|path| read_payload(std::path::Path::new(&path))).transpose()?)
    }

    /// The repository, as the runner spells it.
    #[must_use]
    pub fn repository(&self) -> &RepositoryName {
        &self.repository
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &Decimal {
        &self.run_id
    }

    /// Its attempt, 1 to 4096.
    #[must_use]
    pub fn run_attempt(&self) -> i64 {
        self.run_attempt
    }

    /// The workflow, if `GITHUB_WORKFLOW_REF` has its form.
    #[must_use]
    pub fn workflow(&self) -> Option<WorkflowRef> {
        self.value(WORKFLOW_REF).and_then(WorkflowRef::read)
    }

    /// The revision, if `GITHUB_SHA` is one.
    #[must_use]
    pub fn sha(&self) -> Option<Revision> {
        self.value(SHA).and_then(|sha| Revision::new(sha).ok())
    }

    /// Name of the event.
    #[must_use]
    pub fn event_name(&self) -> Option<&str> {
        self.value(EVENT_NAME)
    }

    /// Whom the run acts for, as text: GitHub's answer is what counts.
    #[must_use]
    pub fn actor_id(&self) -> Option<&str> {
        self.value(ACTOR_ID)
    }

    /// Origin of the web pages, such as `https://github.com`.
    #[must_use]
    pub fn server_url(&self) -> Option<&str> {
        self.value(SERVER_URL)
    }

    /// Base URL of REST.
    #[must_use]
    pub fn api_url(&self) -> Option<&str> {
        self.value(API_URL)
    }

    /// URL of GraphQL.
    #[must_use]
    pub fn graphql_url(&self) -> Option<&str> {
        self.value(GRAPHQL_URL)
    }

    /// Numeric id of the event's repository, if the payload has one.
    #[must_use]
    pub fn payload_repository_id(&self) -> Option<&Decimal> {
        self.payload_repository_id.as_ref()
    }

    /// Text of the event payload, a JSON object of at most 32 MiB.
    #[must_use]
    pub fn payload(&self) -> Option<&str> {
        self.payload.as_deref()
    }

    /// The compiled role, if there is one.
    ///
    /// # Errors
    /// `work_queue_runtime_role_invalid` for any other word, the empty one included.
    pub fn role(&self) -> Result<Option<RuntimeRole>, Fault> {
        let read = |word| RuntimeRole::parse(word).ok_or_else(|| Fault::from(Code::WorkQueueRuntimeRoleInvalid));
        self.value(ROLE).map(read).transpose()
    }

    /// The contract stamp of the compiled worker, to be compared with a frozen profile's.
    #[must_use]
    pub fn contract(&self) -> Option<&str> {
        self.value(CONTRACT)
    }

    /// The origin of the intents that this job publishes, unread.
    #[must_use]
    pub fn intent_origin(&self) -> Option<&str> {
        self.value(INTENT_ORIGIN)
    }

    /// Launches that the whole run may make (decision 8): `GH_AW_WORK_QUEUE_DISPATCH_BUDGET`, else the compiled `max`,
    /// else `GH_AW_WORK_QUEUE_MAX_DISPATCHES`, else 1.
    ///
    /// # Errors
    /// `work_queue_dispatch_budget_invalid` unless the first of these that is given is a decimal integer of 0 to 4096
    /// without a sign or leading zeros.
    pub fn dispatch_budget(&self, compiled_max: Option<i64>) -> Result<u32, Fault> {
        let stated = |name| self.value(name).map(|text| canonical_integer(text).ok_or(()));
        let compiled = || compiled_max.map(|max| u32::try_from(max).map_err(drop));
        let budget = stated(DISPATCH_BUDGET).or_else(compiled).or_else(|| stated(MAX_DISPATCHES)).unwrap_or(Ok(1));
        match budget {
            Ok(budget) if budget <= MAX_BUDGET => Ok(budget),
            _ => Err(Code::WorkQueueDispatchBudgetInvalid.into()),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        find(&self.values, name)
    }
}

/// Names the kind of value alone: an event's payload stays out of logs.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(attempt {})", self.run_attempt)
    }
}

fn find<'a>(values: &'a [Option<String>; VARIABLES.len()], name: &str) -> Option<&'a str> {
    let slot = VARIABLES.iter().position(|(known, _)| *known == name)?;
    values[slot].as_deref()
}

/// An integer as `0` or digits without a leading zero, if 32 bits hold it.
fn canonical_integer(text: &str) -> Option<u32> {
    let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    canonical.then(|| text.parse().ok()).flatten()
}

fn attempt(text: &str) -> Option<i64> {
    canonical_integer(text).map(i64::from).filter(|attempt| (1..=MAX_ATTEMPT).contains(attempt))
}

fn read_payload(path: &std::path::Path) -> Result<String, Fault> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path);
    let most = MAX_PAYLOAD_BYTES as u64 + 1;
    match file.and_then(|file| file.take(most).read_to_string(&mut text)) {
        Ok(_) => Ok(text),
        Err(_) => Err(Fault::new(Code::IoFailed, "the event payload could not be read")),
    }
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    repository: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The id of a payload's repository. The rest of it is read by whoever needs it.
fn payload_repository(text: &str) -> Result<Option<Decimal>, Fault> {
    let refused = || Fault::new(Code::SettingsInvalid, "the event payload is too large or malformed");
    // A list would be read as the members of an object in their order.
    let object = text.trim_ascii_start().starts_with('{');
    ensure!(object && text.len() <= MAX_PAYLOAD_BYTES, SettingsInvalid, "the event payload is too large or malformed");
    let payload: Payload = serde_json::from_str(text).map_err(|_| refused())?;
    let id = payload.repository.and_then(|mut repository| repository.remove("id"));
    let read = |id: serde_json::Value| {
        let id = id.as_u64().ok_or_else(refused)?;
        Decimal::new(id.to_string()).map_err(|_| refused())
    };
    id.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::{Context, RuntimeRole};
    use crate::protocol::Code;

    fn context(changes: &[(&str, &str)], payload: Option<&str>) -> Result<Context, Code> {
        let base = [("GITHUB_REPOSITORY", "Octo/Queue"), ("GITHUB_RUN_ID", "42"), ("GITHUB_RUN_ATTEMPT", "3")];
        let kept = base.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        let all = kept.chain(changes).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Context::new(all, payload.map(str::to_owned)).map_err(|fault| fault.code())
    }

    fn of(name: &str, value: &str) -> Result<Context, Code> {
        context(&[(name, value)], None)
    }

    /// A job without its run is none, whatever else it says.
    #[test]
    fn repository_run_and_attempt_are_needed() {
        assert_eq!(context(&[], None).unwrap().run_attempt(), 3);
        assert_eq!(of("GITHUB_RUN_ATTEMPT", "").unwrap().run_attempt(), 1);
        assert_eq!(of("GITHUB_RUN_ATTEMPT", "4096").unwrap().run_attempt(), 4096);
        for (name, value) in [
            ("GITHUB_REPOSITORY", ""),
            ("GITHUB_REPOSITORY", "queue"),
            ("GITHUB_REPOSITORY", "a/b/c"),
            ("GITHUB_RUN_ID", ""),
            ("GITHUB_RUN_ID", "0"),
            ("GITHUB_RUN_ID", "042"),
            ("GITHUB_RUN_ID", "4.2"),
            ("GITHUB_RUN_ATTEMPT", "0"),
            ("GITHUB_RUN_ATTEMPT", "01"),
            ("GITHUB_RUN_ATTEMPT", "4097"),
            ("GITHUB_RUN_ATTEMPT", "-1"),
        ] {
            let found = of(name, value).map(drop);
            assert_eq!(found, Err(Code::PublisherRepositoryContextMissing), "{name}={value}");
        }
        assert_eq!(of("GITHUB_REF_NAME", &"x".repeat(9999)).map(drop), Ok(()), "not ours");
        assert_eq!(of("GITHUB_SHA", &"a".repeat(1025)).map(drop), Err(Code::SettingsInvalid));
    }

    #[test]
    fn a_workflow_reference_has_three_parts() {
        let read = |text: &str| of("GITHUB_WORKFLOW_REF", text).unwrap().workflow();
        let found = read("octo/queue/.github/workflows/plan.lock.yml@refs/heads/a@b").unwrap();
        assert_eq!(found.repository.as_str(), "octo/queue");
        assert_eq!((&*found.path, &*found.reference), (".github/workflows/plan.lock.yml", "refs/heads/a@b"));
        for text in [
            "",
            "octo/queue/.github/workflows/plan.yml",
            "octo/queue/.github/workflows/@main",
            "octo/queue/.github/workflows/plan.yml@",
            "octo/queue/workflows/plan.yml@main",
            "queue/.github/workflows/plan.yml@main",
            "octo/queue/.github/workflows/a/b.yml@main",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// The payload is judged by its repository alone, floating-point numbers elsewhere included.
    #[test]
    fn the_payload_tells_its_repository() {
        let id =
            |text| context(&[], Some(text)).map(|found| found.payload_repository_id().map(|id| id.as_str().into()));
        assert_eq!(
            id(r#"{"x":1.5,"repository":{"id":9007199254740993,"y":1e9}}"#),
            Ok(Some("9007199254740993".to_owned()))
        );
        assert_eq!(id("{}"), Ok(None));
        assert_eq!(id(r#"{"repository":null}"#), Ok(None));
        for text in [
            "",
            "[]",
            "{",
            r#"{"repository":{"id":"7"}}"#,
            r#"{"repository":{"id":0}}"#,
            r#"{"repository":{"id":1.5}}"#,
        ] {
            assert_eq!(id(text), Err(Code::SettingsInvalid), "{text}");
        }
        let most = format!("{{{}}}", " ".repeat(super::MAX_PAYLOAD_BYTES - 2));
        assert_eq!(id(&most), Ok(None));
        assert_eq!(id(&format!("{most} ")), Err(Code::SettingsInvalid));
        let seen = format!("{:?}", context(&[], Some(r#"{"secret":"s3cret"}"#)).unwrap());
        assert_eq!(seen, "Context(attempt 3)");
    }

    #[test]
    fn the_compiled_role_is_one_of_three() {
        let role = |value| of("GH_AW_WORK_QUEUE_ROLE", value).unwrap().role().map_err(|fault| fault.code());
        assert_eq!(context(&[], None).unwrap().role(), Ok(None));
        assert_eq!(role("worker"), Ok(Some(RuntimeRole::Worker)));
        assert_eq!(role("observer"), Ok(Some(RuntimeRole::Observer)));
        assert_eq!(role("dispatcher"), Ok(Some(RuntimeRole::Dispatcher)));
        for other in ["", "producer", "Worker"] {
            assert_eq!(role(other), Err(Code::WorkQueueRuntimeRoleInvalid));
        }
    }

    /// The step's budget stands before the compiled one, and that before the runtime's variable (decision 8).
    #[test]
    fn one_budget_is_in_force() {
        let budget = |step: &str, compiled, variable: &str| {
            let names = [("GH_AW_WORK_QUEUE_DISPATCH_BUDGET", step), ("GH_AW_WORK_QUEUE_MAX_DISPATCHES", variable)];
            context(&names, None).unwrap().dispatch_budget(compiled).map_err(|fault| fault.code())
        };
        assert_eq!(budget("", None, ""), Ok(1));
        assert_eq!(budget("", None, "7"), Ok(7));
        assert_eq!(budget("", Some(5), "7"), Ok(5));
        assert_eq!(budget("0", Some(5), "7"), Ok(0));
        assert_eq!(budget("4096", None, "x"), Ok(4096));
        let invalid = Err(Code::WorkQueueDispatchBudgetInvalid);
        for step in ["4097", "01", "-1", "+1", "1.0", " 1", "1e3", "99999999999"] {
            assert_eq!(budget(step, None, ""), invalid, "{step}");
            assert_eq!(budget("", None, step), invalid, "{step}");
        }
        assert_eq!(budget("", Some(-1), ""), invalid);
        assert_eq!(budget("", Some(4097), ""), invalid);
    }
}
