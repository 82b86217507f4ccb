//! The tools that stage an intent (jobs.md 4.7 to 4.10). What is checked here against the snapshot's Policy is early advice
//! (decisions 29, 70); a trusted job decides.

use super::{Toolbox, named, text};
use crate::agent::intent::{Intent, IntentKind, parse_finishes};
use crate::agent::staging::StagedFile;
use crate::engine::Projection;
use crate::engine::state::WorkState;
use crate::engine::submission::{Defaults, complete, identity};
use crate::protocol::assignment::Member;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Scanner, Value, Writer, hex};
use crate::protocol::request::Outcome;
use crate::protocol::selector::select;
use crate::protocol::work::WorkDraft;
use crate::protocol::{Code, Fault, Handle, Identity, Opaque, PoolName, RuntimeRole, Text, Wire as _};

/// Members that a worker's new Work has from its own, if it names none.
const INHERITED: [&str; 4] = ["graph_id", "pool", "priority", "fairness_key"];

impl Toolbox<'_> {
    /// `work_queue_submit`.
    pub(super) fn submit(&mut self, arguments: &Value) -> Result<String, Fault> {
        let member = self.scope(arguments)?;
        let Some(Value::Array(nodes)) = arguments.get("nodes") else { return Err(Code::RequestInvalid.into()) };
        let parent = member.as_ref().and_then(|member| self.view.projection.as_ref()?.work(member.work_id.as_str()));
        let mut scanner = Scanner::new(self.scanner.host());
        match &self.view.projection {
            Some(projection) => self.check_nodes(projection, nodes, parent, &mut scanner)?,
            None => nodes.iter().try_for_each(|node| identity(node).map(drop))?,
        }
        let parameters = Value::Object(vec![("nodes".to_owned(), Value::Array(nodes.clone()))]);
        self.stage(IntentKind::Submit, &parameters, member)
    }

    /// What ingestion would say of these nodes, as far as the snapshot's Policy and names alone tell.
    fn check_nodes(
        &self,
        projection: &Projection,
        nodes: &[Value],
        parent: Option<&WorkState>,
        scanner: &mut Scanner,
    ) -> Result<(), Fault> {
        let policy = &projection.rules()?.policy;
        let defaults = Defaults { projection: Some(projection), policy, at: self.view.snapshot.captured_at };
        ensure!(
            nodes.len() as u64 <= policy.limits.graph_nodes,
            GraphInvalid,
            "the plan has more nodes than a graph may have"
        );
        for node in nodes {
            let whole = complete(&inherit(node, parent), &defaults)?.encode()?;
            let document = scanner.read(&Text::from(whole))?;
            let draft = WorkDraft::read(document.root(), Code::WorkInvalid)?;
            if let Some(parent) = parent {
                let own = &parent.work;
                let same = draft.pool.as_ref() == Ok(&own.pool)
                    && draft.priority.as_ref() == Ok(&own.priority)
                    && draft.fairness_key.as_ref() == Ok(&own.fairness_key);
                ensure!(same, ChildEntitlement, "a child keeps its parent's pool, priority and accounting key");
            } else {
                projection.check_entitlement(&draft, &self.view.snapshot.origin)?;
            }
            let payload = draft.payload.as_ref().map_err(Clone::clone)?;
            let most = policy.limits.payload_bytes;
            ensure!(payload.len() as u64 <= most, ResourceLimit, "the payload exceeds the Policy's limit");
        }
        Ok(())
    }

    /// `work_queue_dispatch_next`.
    pub(super) fn dispatch_next(&mut self, arguments: &Value) -> Result<String, Fault> {
        let member = self.scope(arguments)?;
        let pool = named(arguments, "pool", PoolName::new)?.ok_or_else(|| Fault::from(Code::RequestInvalid))?;
        if let Some(projection) = &self.view.projection {
            let installed = projection.rules()?.policy.pools.contains_key(&pool);
            ensure!(installed, PolicyInvalid, "the pool is not installed");
        }
        let parameters = without_handle(arguments);
        self.stage(IntentKind::DispatchNext, &parameters, member)
    }

    /// `work_queue_claim_finish`.
    pub(super) fn claim_finish(&mut self, arguments: &Value) -> Result<String, Fault> {
        ensure!(
            self.view.snapshot.worker.is_some(),
            WorkQueueAssignmentRequired,
            "this run has no assignment, so there is no Claim to finish"
        );
        let outcome = match text(arguments, "outcome") {
            Some("completed") => Outcome::Completed,
            Some("cancelled") => Outcome::Cancelled,
            _ => return Err(Code::WorkQueueFinishInvalid.into()),
        };
        let keep_open = arguments.get("keep_open") == Some(&Value::Bool(true));
        ensure!(
            !keep_open || outcome == Outcome::Completed,
            WorkQueueFinishInvalid,
            "keep_open goes with completed: only a completed Claim can keep its Work open"
        );
        let member = self.scope(arguments)?;
        let mut parameters = vec![("outcome".to_owned(), Value::String(outcome.as_str().to_owned()))];
        if keep_open {
            parameters.push(("keep_open".to_owned(), Value::Bool(true)));
        }
        self.stage(IntentKind::Finish, &Value::Object(parameters), member)
    }

    /// For which Claim a call is: a worker's, by the selector; nobody's for others, who may not even name one.
    fn scope(&mut self, arguments: &Value) -> Result<Option<Member>, Fault> {
        ensure!(self.role != RuntimeRole::Observer, WorkQueueObserverReadOnly, "an observer stages nothing");
        let Some(original) = &self.view.snapshot.worker else {
            ensure!(
                arguments.get("claim_handle").is_none(),
                WorkQueueClaimScopeInvalid,
                "only a worker acts for a Claim, so claim_handle has no place here"
            );
            return Ok(None);
        };
        let handle = arguments.get("claim_handle").map(|handle| ("claim_handle".to_owned(), handle.clone()));
        let message = Text::from(Value::Object(handle.into_iter().collect()).encode()?);
        let document = self.scanner.read(&message)?;
        select(document.root(), original).map(|member| Some(member.clone()))
    }

    /// Appends the intent to its file, and says how it is called. A finish that was staged before is not staged again.
    fn stage(&mut self, kind: IntentKind, parameters: &Value, member: Option<Member>) -> Result<String, Fault> {
        let (finish, submit, dispatch) =
            (kind == IntentKind::Finish, kind == IntentKind::Submit, kind == IntentKind::DispatchNext);
        tracing::debug!(target: "work-queue:mcp", finish, submit, dispatch, "tool.intent.stage.start");
        let handle = member.map(|member| member.handle);
        let parameters = Opaque::parse(&mut self.scanner, &Text::from(parameters.encode()?))?;
        let path = if finish { &self.staged.finish } else { &self.staged.intents };
        let mut file = StagedFile::open(path)?;
        let known = file.check(finish, &mut self.scanner)?;
        if let (true, Some(handle), Some(original)) = (finish, &handle, &self.view.snapshot.worker) {
            let staged = parse_finishes(file.bytes(), original, &mut self.scanner)?;
            ensure!(
                staged.errors.is_empty(),
                WorkQueueIntentInvalid,
                "a line of the staged finishes is for no Claim of this run"
            );
            if staged.by_handle.contains_key(handle) {
                let earlier = known.iter().find(|intent| intent.claim_handle.as_ref() == Some(handle));
                let earlier = earlier.filter(|earlier| earlier.parameters == parameters);
                let earlier = earlier.ok_or_else(|| {
                    Fault::new(
                        Code::WorkQueueFinishConflict,
                        "this Claim's finish was staged with another outcome or keep_open",
                    )
                })?;
                tracing::debug!(target: "work-queue:mcp", "tool.intent.stage.reused");
                return Ok(told(&earlier.intent_id, Some(handle)));
            }
        }
        let intent_id = Identity::new(format!("intent:{}", uuid(self.random)?))?;
        let intent = Intent { intent_id, kind, parameters, claim_handle: handle };
        file.append(&intent.canonical())?;
        tracing::debug!(target: "work-queue:mcp", "tool.intent.stage.complete");
        Ok(told(&intent.intent_id, intent.claim_handle.as_ref()))
    }
}

/// A node with what a worker's new Work has from its own.
fn inherit(node: &Value, parent: Option<&WorkState>) -> Value {
    let (Some(parent), Value::Object(members)) = (parent, node) else { return node.clone() };
    let mut members = members.clone();
    for name in INHERITED.into_iter().filter(|name| node.get(name).is_none()) {
        let value = match name {
            "graph_id" => Value::String(parent.work.graph_id.to_string()),
            "pool" => Value::String(parent.work.pool.to_string()),
            "priority" => Value::Integer(parent.work.priority.get()),
            _ => Value::String(parent.work.fairness_key.to_string()),
        };
        members.push((name.to_owned(), value));
    }
    Value::Object(members)
}

/// The given arguments but for the selector, which stands outside of an intent's parameters.
fn without_handle(arguments: &Value) -> Value {
    match arguments {
        Value::Object(members) => {
            Value::Object(members.iter().filter(|(name, _)| name != "claim_handle").cloned().collect())
        }
        other => other.clone(),
    }
}

/// What staging answers: never a Claim, a grant or an authority.
fn told(intent_id: &Identity, handle: Option<&Handle>) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        if let Some(handle) = handle {
            members.name("claim_handle", |w| handle.write(w));
        }
        members.name("intent_id", |w| intent_id.write(w));
        members.name("status", |w| w.string("staged"));
    });
    writer.finish()
}

/// A random UUID of version 4.
fn uuid(random: super::Random<'_>) -> Result<String, Fault> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex(&bytes);
    Ok(format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]))
}
