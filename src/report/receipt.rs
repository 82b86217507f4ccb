//! Receipts of queue controls (jobs.md 5.3.6): what became of each staged intent, bounded and without any payload.

use crate::protocol::json::{Members, Writer};
use crate::protocol::{Code, CommitId, RequestId, Wire as _};

/// Most receipts of a document.
pub const MAX_RECEIPTS: usize = 256;
/// Longest document, in bytes: with the other outputs of its job it stays below the 1 MiB that GitHub takes.
pub const MAX_DOCUMENT_BYTES: usize = 1_000_000;

/// How an intent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its request is in the ledger.
    Durable,
    /// Nothing could be granted now.
    NoGrant,
    /// It was refused, or could not be carried out.
    Blocked,
    /// Staged mode: checked, and nothing written.
    StagedPreview,
}

impl Status {
    /// The word of receipts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::NoGrant => "no_grant",
            Self::Blocked => "blocked",
            Self::StagedPreview => "staged_preview",
        }
    }
}

/// Why an intent was blocked, in the words that diagnostic, receipt, summary and annotation share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The stable code underneath.
    pub code: Code,
    /// The category.
    pub reason: &'static str,
    /// What it means.
    pub explanation: &'static str,
    /// What to do.
    pub action: &'static str,
}

/// One launch, as the launcher wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The entry as canonical JSON.
    pub json: String,
    /// The same without detail: identities and state alone.
    pub brief: String,
    /// True if nothing is left to do for it.
    pub settled: bool,
    /// True if the host refused it for good.
    pub rejected: bool,
}

/// What became of one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Line of a defective intent, from 1.
    pub line: Option<usize>,
    /// Id of the intent, if it has one.
    pub intent_id: Option<String>,
    /// How it ended.
    pub status: Status,
    /// What a worker's intent is for.
    pub claim_handle: Option<String>,
    /// Why there is no grant, or why the grant ended.
    pub reason: Option<&'static str>,
    /// What is wrong.
    pub trouble: Option<Trouble>,
    /// The request.
    pub request_id: Option<RequestId>,
    /// Its commit.
    pub commit_id: Option<CommitId>,
    /// True if the request was committed before.
    pub recovered: bool,
    /// True if an earlier request is confirmed and nothing may follow from it any more.
    pub acknowledgement_only: bool,
    /// For a grant: its launches.
    pub launches: Option<Vec<Launch>>,
    /// For a grant: how many dispatches it reserved.
    pub dispatches: Option<usize>,
    /// For a worker's request: its control receipt as canonical JSON.
    pub control: Option<String>,
    /// For a grant: the fuller receipt as canonical JSON.
    pub receipt: Option<String>,
}

impl Receipt {
    /// A receipt with nothing but how an intent ended.
    #[must_use]
    pub fn new(intent_id: Option<String>, status: Status) -> Self {
        Self {
            line: None,
            intent_id,
            status,
            claim_handle: None,
            reason: None,
            trouble: None,
            request_id: None,
            commit_id: None,
            recovered: false,
            acknowledgement_only: false,
            launches: None,
            dispatches: None,
            control: None,
            receipt: None,
        }
    }

    /// A blocked intent.
    #[must_use]
    pub fn blocked(intent_id: Option<String>, trouble: Trouble) -> Self {
        Self { trouble: Some(trouble), ..Self::new(intent_id, Status::Blocked) }
    }

    fn unresolved(&self) -> usize {
        self.launches.iter().flatten().filter(|launch| !launch.settled).count()
    }

    fn rejected(&self) -> usize {
        self.launches.iter().flatten().filter(|launch| launch.rejected).count()
    }

    fn write(&self, full: bool, writer: &mut Writer) {
        writer.object(|members| self.members(full, members));
    }

    fn members(&self, full: bool, members: &mut Members<'_>) {
        if let Some(line) = self.line {
            members.name("line", |w| w.integer(line as i64));
        }
        if let Some(id) = &self.intent_id {
            members.name("intent_id", |w| w.string(id));
        }
        members.name("status", |w| w.string(self.status.as_str()));
        if let Some(handle) = &self.claim_handle {
            members.name("claim_handle", |w| w.string(handle));
        }
        if let Some(trouble) = &self.trouble {
            members.name("action", |w| w.string(trouble.action));
            members.name("code", |w| w.string(trouble.code.as_str()));
            members.name("explanation", |w| w.string(trouble.explanation));
            members.name("reason", |w| w.string(trouble.reason));
        } else if let Some(reason) = self.reason {
            members.name("reason", |w| w.string(reason));
        }
        if let Some(id) = &self.request_id {
            members.name("request_id", |w| id.write(w));
        }
        if let Some(id) = &self.commit_id {
            members.name("commit_id", |w| id.write(w));
        }
        if self.recovered {
            members.name("recovered", |w| w.bool(true));
        }
        if self.acknowledgement_only {
            members.name("acknowledgement_only", |w| w.bool(true));
        }
        if let Some(dispatches) = self.dispatches {
            members.name("dispatches", |w| w.integer(dispatches as i64));
        }
        if let Some(launches) = &self.launches {
            members.name("launches", |w| {
                w.array(launches, |w, launch| w.raw(if full { &launch.json } else { &launch.brief }));
            });
            members.name("success", |w| {
                w.bool(self.status != Status::Blocked && self.unresolved() == 0 && self.rejected() == 0)
            });
        }
        if matches!(self.status, Status::Durable | Status::NoGrant) {
            members.name("control", |w| w.raw(self.control.as_deref().unwrap_or("null")));
        }
        if let Some(receipt) = self.receipt.as_deref().filter(|_| full) {
            members.name("receipt", |w| w.raw(receipt));
        }
    }
}

/// What became of a whole file of intents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// One for each intent, defective lines first.
    pub receipts: Vec<Receipt>,
    /// Dispatches that the batch leaves.
    pub remaining: u32,
}

/// Counts of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests in the ledger.
    pub durable: usize,
    /// Intents that were blocked.
    pub blocked: usize,
    /// Launches that are not settled.
    pub unresolved: usize,
    /// Launches that the host refused for good.
    pub rejected: usize,
}

impl Tally {
    /// True if a person or a later run must look after something. A launch that was refused is no execution, so it counts.
    #[must_use]
    pub const fn needs_recovery(&self) -> bool {
        self.blocked + self.unresolved + self.rejected > 0
    }
}

impl Document {
    /// Counts.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let count = |status: Status| self.receipts.iter().filter(|receipt| receipt.status == status).count();
        Tally {
            durable: count(Status::Durable),
            blocked: count(Status::Blocked),
            unresolved: self.receipts.iter().map(Receipt::unresolved).sum(),
            rejected: self.receipts.iter().map(Receipt::rejected).sum(),
        }
    }

    /// `ok` or `recovery_required`.
    #[must_use]
    pub fn status(&self) -> &'static str {
        if self.tally().needs_recovery() { "recovery_required" } else { "ok" }
    }

    /// The trouble of the first blocked intent.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.receipts.iter().find_map(|receipt| receipt.trouble.as_ref())
    }

    /// The document as canonical JSON of at most 256 receipts and 1 MiB. What does not fit loses its detail first and then
    /// its receipts, says so with `truncated`, and counts in `summary` all the same.
    #[must_use]
    pub fn json(&self) -> String {
        let short = self.receipts.len() > MAX_RECEIPTS;
        let text = self.write(true, MAX_RECEIPTS, short);
        if text.len() <= MAX_DOCUMENT_BYTES {
            return text;
        }
        let mut most = MAX_RECEIPTS;
        loop {
            let text = self.write(false, most, true);
            if text.len() <= MAX_DOCUMENT_BYTES || most == 0 {
                return text;
            }
            most /= 2;
        }
    }

    fn write(&self, full: bool, most: usize, truncated: bool) -> String {
        let tally = self.tally();
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("receipts", |w| {
                w.array(self.receipts.iter().take(most), |w, receipt| receipt.write(full, w));
            });
            members.name("remaining_dispatches", |w| w.integer(i64::from(self.remaining)));
            members.name("status", |w| w.string(self.status()));
            members.name("success", |w| w.bool(!tally.needs_recovery()));
            members.name("summary", |w| {
                w.object(|members| {
                    members.name("blocked_intents", |w| w.integer(tally.blocked as i64));
                    members.name("durable_requests", |w| w.integer(tally.durable as i64));
                    members.name("rejected_launches", |w| w.integer(tally.rejected as i64));
                    members.name("unresolved_launches", |w| w.integer(tally.unresolved as i64));
                });
            });
            if truncated {
                members.name("truncated", |w| w.bool(true));
            }
            members.name("version", |w| w.integer(3));
        });
        writer.finish()
    }

    /// The step summary: a status, the counts, and for what is blocked its category, explanation and action.
    #[must_use]
    pub fn markdown(&self) -> String {
        let tally = self.tally();
        let word = if tally.needs_recovery() { "Recovery required" } else { "Complete" };
        let mut text = format!(
            "### Work queue controls\n\n**Status:** {word}\n\n- Durable requests: {}\n- Blocked intents: {}\n- Unresolved launches: {}\n",
            tally.durable, tally.blocked, tally.unresolved
        );
        if tally.rejected > 0 {
            text.push_str(&format!(
                "- Refused launches: {} (their capacity is free; nothing was executed)\n",
                tally.rejected
            ));
        }
        self.push_grants(&mut text);
        let mut told: Vec<&Trouble> = Vec::new();
        for trouble in self.receipts.iter().filter_map(|receipt| receipt.trouble.as_ref()) {
            if !told.iter().any(|known| known.reason == trouble.reason) {
                told.push(trouble);
            }
        }
        for trouble in told.iter().take(16) {
            text.push_str(&format!("\n**{}** {} {}\n", trouble.reason, trouble.explanation, trouble.action));
        }
        text
    }

    /// One line for each grant or its absence, at most 16.
    fn push_grants(&self, text: &mut String) {
        let grants = self.receipts.iter().filter(|receipt| receipt.launches.is_some() && receipt.trouble.is_none());
        for receipt in grants.take(16) {
            let reason = receipt.reason.unwrap_or("granted");
            let dispatches = receipt.dispatches.unwrap_or(0);
            text.push_str(&format!("- Grant: {dispatches} reserved, {reason}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, Launch, MAX_DOCUMENT_BYTES, Receipt, Status, Trouble};
    use crate::protocol::{Code, RequestId};

    fn launch(settled: bool, rejected: bool, detail: usize) -> Launch {
        let json = format!(r#"{{"dispatch_id":"d","x":"{}"}}"#, "x".repeat(detail));
        Launch { json, brief: r#"{"dispatch_id":"d"}"#.to_owned(), settled, rejected }
    }

    const TROUBLE: Trouble = Trouble {
        code: Code::PolicyMissing,
        reason: "policy_missing",
        explanation: "There is no queue.",
        action: "Submit first.",
    };

    /// The shapes of jobs.md 5.3.6.
    #[test]
    fn receipts_have_their_documented_shapes() {
        let mut grant = Receipt::new(Some("i".to_owned()), Status::Durable);
        grant.request_id = Some(RequestId::new("request:1").unwrap());
        grant.launches = Some(vec![launch(true, false, 0)]);
        grant.dispatches = Some(1);
        grant.reason = Some("partial_batch");
        let line = Receipt { line: Some(3), ..Receipt::blocked(Some("j".to_owned()), TROUBLE) };
        let document = Document { receipts: vec![line, grant], remaining: 2 };
        assert_eq!(
            document.json(),
            concat!(
                r#"{"receipts":[{"action":"Submit first.","code":"policy_missing","explanation":"There is no queue.","intent_id":"j","line":3,"#,
                r#""reason":"policy_missing","status":"blocked"},{"control":null,"dispatches":1,"intent_id":"i","launches":[{"dispatch_id":"d","x":""}],"#,
                r#""reason":"partial_batch","request_id":"request:1","status":"durable","success":true}],"remaining_dispatches":2,"#,
                r#""status":"recovery_required","success":false,"summary":{"blocked_intents":1,"durable_requests":1,"rejected_launches":0,"#,
                r#""unresolved_launches":0},"version":3}"#
            )
        );
        assert!(document.markdown().contains("**policy_missing** There is no queue. Submit first."));
    }

    /// O-093: a refused launch is never counted as execution, and needs somebody.
    #[test]
    fn a_refused_launch_needs_recovery() {
        let mut grant = Receipt::new(Some("i".to_owned()), Status::Durable);
        grant.launches = Some(vec![launch(true, true, 0)]);
        let document = Document { receipts: vec![grant], remaining: 0 };
        assert_eq!(document.status(), "recovery_required");
        assert!(document.json().contains(r#""success":false"#));
        assert!(document.markdown().contains("nothing was executed"));
        assert_eq!(Document::default().status(), "ok");
    }

    /// S-518: the document keeps its bounds, and identities before detail.
    #[test]
    fn a_document_is_bounded() {
        let mut grant = Receipt::new(Some("i".to_owned()), Status::Durable);
        grant.launches = Some(vec![launch(true, false, 4096)]);
        let document = Document { receipts: vec![grant.clone(); 300], remaining: 0 };
        let text = document.json();
        assert!(text.len() <= MAX_DOCUMENT_BYTES && text.contains(r#""truncated":true"#));
        assert_eq!(text.matches(r#""intent_id":"i""#).count(), 256);
        assert!(text.contains(r#""durable_requests":300"#));
        grant.intent_id = Some("y".repeat(9000));
        let text = Document { receipts: vec![grant; 256], remaining: 0 }.json();
        assert!(text.len() <= MAX_DOCUMENT_BYTES && text.contains(r#""truncated":true"#));
    }
}
