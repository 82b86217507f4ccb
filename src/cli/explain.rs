//! `wq explain`.

use super::listing;
use super::prediction::{Question, write_plan_members};
use super::source::{LedgerArgs, Loaded, load, scanner};
use super::{Failure, Global, Reply};
use crate::engine::Projection;
use crate::engine::gates::{GateView, UsedObservation};
use crate::engine::schedule::explain::reason_label;
use crate::engine::state::{Barrier, WorkState};
use crate::protocol::json::Writer;
use crate::protocol::resource::Edge;
use crate::protocol::{At, Code, Fault, Wire as _};
use crate::report::label;

/// Say who is next and why, or why a Work waits, or why a Claim was granted. Changes nothing.
///
/// Without a selector: the next selection of --pool. With --work-id: that Work. With --claim-id or --request-id: a
/// committed decision.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: LedgerArgs,
    /// Pool to explain, 1 to 256 bytes [default: default].
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Explain this Work, 1 to 256 bytes.
    #[arg(long, value_name = "ID")]
    work_id: Option<String>,
    /// Explain the grant of this Claim, 1 to 256 bytes.
    #[arg(long, value_name = "ID", visible_alias = "before-claim")]
    claim_id: Option<String>,
    /// Moment to evaluate, in Unix milliseconds, 0 to 2^53-1 [default: now].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(i64).range(0..=9_007_199_254_740_991))]
    at: Option<i64>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    check(global, args)?;
    let mut loaded = load(global, &args.source)?;
    if let Some(at) = args.at {
        loaded.evaluated_at = At::new(at)?;
    }
    let mut body = match (&args.work_id, &args.claim_id, &global.request_id) {
        (Some(work_id), _, _) => work(&loaded, work_id, global.json)?,
        (_, Some(claim_id), _) => claim(&loaded, claim_id, global.json)?,
        (_, _, Some(request_id)) => request(&loaded, request_id, global.json)?,
        _ => pool(&loaded, args.pool.as_deref().unwrap_or("default"), global.json)?,
    };
    if !global.json {
        body.push_str(&format!("{}\n", loaded.stamp()));
    }
    Ok(Reply::done(body))
}

/// Refuses selectors that exclude each other or can name nothing, before anything is read.
fn check(global: &Global, args: &Args) -> Result<(), Failure> {
    let selectors = [&args.work_id, &args.claim_id, &global.request_id];
    if selectors.iter().filter(|selector| selector.is_some()).count() > 1 {
        return Err(listing::invalid("name one of --work-id, --claim-id and --request-id"));
    }
    if args.pool.is_some() && (args.claim_id.is_some() || global.request_id.is_some()) {
        return Err(listing::invalid(
            "a committed decision is explained as it was made, so --pool has no meaning here",
        ));
    }
    for (flag, value) in
        ["--work-id", "--claim-id", "--request-id", "--pool"].iter().zip(selectors.into_iter().chain([&args.pool]))
    {
        listing::identity(flag, value.as_deref())?;
    }
    Ok(())
}

fn missing(code: Code, what: &'static str) -> Failure {
    Failure::new(
        code,
        format!("the queue has no {what} of this id"),
        "Compare the id with what inspect or replay show.",
    )
}

/// The next selection of a pool, and what one Claim in one dispatch would be.
fn pool(loaded: &Loaded, pool: &str, json: bool) -> Result<String, Failure> {
    let question = Question {
        pool: pool.to_owned(),
        at: loaded.evaluated_at.get(),
        max_claims: 1,
        max_dispatches: 1,
        max_bytes: None,
        worker_profiles: None,
        preceding_operations: 0,
        request_id: None,
        commit_id: None,
    };
    let prediction = question.ask(&loaded.projection)?;
    let refused = |fault| Failure::from(fault).at_request();
    let plan = prediction.plan.map_err(refused)?;
    let comparison = loaded.projection.compare_pool(pool, loaded.evaluated_at).map_err(refused)?;
    let selection = &comparison.selection;
    if json {
        let mut writer = Writer::new();
        writer.object(|members| {
            loaded.provenance(members);
            members.name("at", |w| loaded.evaluated_at.write(w));
            members.name("comparison", |w| comparison.write(w));
            members.name("decision", |w| w.object(|decision| write_plan_members(&plan, decision)));
            members.name("label", |w| w.string(comparison.label.unwrap_or(reason_label(selection.reason))));
            members.name("policy_epoch", |w| w.string(loaded.epoch()));
            members.name("pool", |w| w.string(pool));
            members.name("selection", |w| selection.write(w));
            members.name("status", |w| w.string("snapshot_prediction"));
        });
        return Ok(writer.finish());
    }
    let mut out = format!("pool {}: {}\n", label(pool), selection.reason);
    if let Some(work) = selection.work_id.as_ref().and_then(|id| loaded.projection.work(id.as_str())) {
        out.push_str(&format!(
            "next: {} node={} priority={} key={}\n",
            label(work.work.work_id.as_str()),
            label(work.work.node_key.as_str()),
            work.scheduling_priority().get(),
            label(work.work.fairness_key.as_str()),
        ));
        let pass = |pass: &Option<String>| pass.clone().unwrap_or_default();
        let (class, key) = (pass(&selection.class_pass), pass(&selection.key_pass));
        out.push_str(&format!("class pass {class}, key pass {key}\n"));
        out.push_str(&format!(
            "{}: among {} eligible classes and {} eligible keys; {} of {} available Work are eligible\n",
            comparison.label.unwrap_or_default(),
            comparison.classes.len(),
            comparison.keys_total,
            comparison.eligible,
            comparison.available,
        ));
        if plan.claims.is_empty() {
            out.push_str(&format!("held back now: {}\n", plan.reason));
        }
    }
    out.push_str("A prediction: it grants and changes nothing.\n");
    Ok(out)
}

/// Node keys from a Work along its first unverified predecessors.
fn path(projection: &Projection, state: &WorkState) -> Vec<String> {
    let mut keys = vec![state.work.node_key.to_string()];
    let mut at = state;
    let most = projection.installed().map_or(0, |installed| installed.policy.limits.graph_nodes as usize);
    while keys.len() < most {
        let waiting = at.work.depends_on.iter().find_map(|edge| match edge {
            Edge::Work(id) => projection.work(id.as_str()).filter(|state| state.barrier() != Barrier::Verified),
            Edge::Gate(_) => None,
        });
        let Some(next) = waiting else { break };
        keys.push(next.work.node_key.to_string());
        at = next;
    }
    keys
}

fn work(loaded: &Loaded, id: &str, json: bool) -> Result<String, Failure> {
    let projection = &loaded.projection;
    let state = projection.work(id).ok_or_else(|| missing(Code::WorkMissing, "Work"))?;
    let at = loaded.evaluated_at;
    let explanation = projection.explain_work(state, at)?;
    let view = projection.view_work(state, at, None);
    let path = path(projection, state);
    if !json {
        let keys: Vec<String> = path.iter().map(|key| label(key)).collect();
        let mut out = format!("{}: {}\n", view.reason, keys.join(" -> "));
        if view.label != view.reason {
            out.push_str(&format!("that is: {}\n", view.label));
        }
        out.push_str(&format!(
            "state {}, delivery {}, priority {}, key {}, attempts {}\n",
            state.state(),
            state.barrier().as_str(),
            state.scheduling_priority().get(),
            label(state.work.fairness_key.as_str()),
            state.attempts,
        ));
        for (kind, id, reason) in &view.unresolved {
            out.push_str(&format!("  waits for {kind} {}: {reason}\n", label(id)));
        }
        let hidden = view.unresolved_total - view.unresolved.len();
        if hidden > 0 {
            out.push_str(&format!("  and {hidden} more\n"));
        }
        for gate in projection.gates_of(state, at) {
            out.push_str(&gate_line(&gate));
        }
        return Ok(out);
    }
    // The engine's own explanation, with the members of decision 71 and the provenance around it.
    let mut inner = Writer::new();
    projection.write_work_explanation(&explanation, &mut inner);
    let inner = inner.finish();
    let mut writer = Writer::new();
    writer.object(|members| {
        loaded.provenance(members);
        view.members(state, members);
        members.name("at", |w| at.write(w));
        members.name("barrier", |w| w.string(state.barrier().as_str()));
        members.name("explanation", |w| w.raw(&inner));
        members.name("gates", |w| {
            w.array(projection.gates_of(state, at), |w, gate| w.object(|members| gate.members(members)));
        });
        members.name("graph_id", |w| state.work.graph_id.write(w));
        members.name("node_key", |w| state.work.node_key.write(w));
        members.name("observations", |w| w.array(&explanation.readiness.observations, |w, id| id.write(w)));
        members.name("path", |w| w.array(&path, |w, key| w.string(key)));
        members.name("pool", |w| state.work.pool.write(w));
        members.name("scheduling_eligible", |w| w.bool(explanation.scheduling.is_ready()));
        members.name("state", |w| w.string(state.state()));
        members.name("status", |w| w.string("operator_live_read"));
        members.name("work_id", |w| state.work.work_id.write(w));
    });
    Ok(writer.finish())
}

/// A gate for people: what it waits for, how it stands, and what was seen of it.
pub(super) fn gate_line(gate: &GateView<'_>) -> String {
    let (resource, condition) = (&gate.gate.resource, gate.gate.condition);
    let mut out = format!(
        "  gate {} {} #{} {condition}: {}",
        resource.kind,
        label(resource.repository.as_str()),
        label(resource.number.as_str()),
        gate.reason
    );
    match (gate.observation, gate.age_ms()) {
        (Some(seen), Some(age)) => out.push_str(&format!(
            "; observation {} at {} ms, {age} ms old{}: {}, read {}\n",
            label(seen.observation_id.as_str()),
            seen.observed_at.get(),
            gate.max_age_ms.map_or_else(String::new, |most| format!(" of at most {most}")),
            seen.state,
            label(seen.read_status.as_str()),
        )),
        _ => out.push_str("; not observed yet\n"),
    }
    out
}

/// The observations that a Claim rests on, for people.
fn used_lines(used: &[UsedObservation<'_>]) -> String {
    let line = |used: &UsedObservation<'_>| {
        let (seen, resource) = (used.observation, &used.observation.resource);
        format!(
            "rested on observation {} of {} {} #{} at {} ms, {} ms old{}\n",
            label(seen.observation_id.as_str()),
            resource.kind,
            label(resource.repository.as_str()),
            label(resource.number.as_str()),
            seen.observed_at.get(),
            used.age_ms,
            used.max_age_ms.map_or_else(String::new, |most| format!(" of at most {most}")),
        )
    };
    used.iter().map(line).collect()
}

/// Puts the observations that a Claim rests on, if there are any, into its explanation.
fn with_observations(object: &str, used: &[UsedObservation<'_>]) -> String {
    if used.is_empty() {
        return object.to_owned();
    }
    let mut writer = Writer::new();
    writer.array(used, |w, one| w.object(|members| one.members(members)));
    let body = object.strip_prefix('{').unwrap_or(object);
    format!("{{\"observations\":{},{body}", writer.finish())
}

fn claim(loaded: &Loaded, id: &str, json: bool) -> Result<String, Failure> {
    let projection = &loaded.projection;
    let state = projection.claim(id).ok_or_else(|| missing(Code::ClaimMissing, "Claim"))?;
    let work = projection.work_of(state);
    let explanation = &state.explanation;
    let rebuilt = projection.rebuild_grants(state.request_id.as_str(), &mut scanner()?)?;
    let used = projection.observations_of(state, &mut scanner()?);
    if !json {
        let mut out = format!(
            "granted {} to {} node={} priority={} key={}\nat commit {} operation {}, after {}\nchosen at class pass {} and key pass {}; stored before: {} and {}\n\
             open Claims {} -> {}, native reservations {} -> {}\n",
            label(state.claim.work_id.as_str()),
            label(state.claim.claim_id.as_str()),
            label(work.work.node_key.as_str()),
            explanation.priority.get(),
            label(work.work.fairness_key.as_str()),
            label(state.commit_id.as_str()),
            explanation.position.operation,
            label(explanation.before_tip.as_ref().map_or("", |tip| tip.as_str())),
            explanation.class_pass,
            explanation.key_pass,
            explanation.class_pass_prior,
            explanation.key_pass_prior,
            explanation.capacity_before.logical,
            explanation.capacity_after.logical,
            explanation.capacity_before.native,
            explanation.capacity_after.native,
        );
        out.push_str(&used_lines(&used));
        return Ok(out);
    }
    let granted = projection.request(state.request_id.as_str()).map(|accepted| projection.granted(accepted));
    let place = granted.and_then(|claims| claims.iter().position(|claim| claim.claim.claim_id == state.claim.claim_id));
    let object = place.and_then(|place| rebuilt.get(place)).ok_or_else(|| Fault::from(Code::Internal))?;
    Ok(with_provenance(loaded, explanation.label, &with_observations(object, &used)))
}

/// Puts the Git commit, the time of reading and the specification's word into an object that has its own `tip`.
fn with_provenance(loaded: &Loaded, word: Option<&str>, object: &str) -> String {
    let sha = loaded.sha.as_ref().map_or_else(|| "null".to_owned(), |sha| format!("\"{sha}\""));
    let word = word.map_or_else(String::new, |word| format!("\"label\":\"{word}\","));
    let body = object.strip_prefix('{').unwrap_or(object);
    format!("{{\"evaluated_at\":{},{word}\"sha\":{sha},{body}", loaded.evaluated_at.get())
}

fn request(loaded: &Loaded, id: &str, json: bool) -> Result<String, Failure> {
    let projection = &loaded.projection;
    let accepted = projection.request(id).ok_or_else(|| missing(Code::RequestMissing, "request"))?;
    let claims = projection.granted(accepted);
    let rebuilt = projection.rebuild_grants(id, &mut scanner()?)?;
    if !json {
        let mut out = format!(
            "{} was committed as {} under epoch {}\n",
            accepted.kind,
            label(accepted.commit_id.as_str()),
            label(accepted.policy_epoch.as_str()),
        );
        for claim in claims {
            let (claim_id, work_id) = (claim.claim.claim_id.as_str(), claim.claim.work_id.as_str());
            let operation = claim.explanation.position.operation;
            out.push_str(&format!("  operation {operation}: {} on {}\n", label(claim_id), label(work_id)));
            let lines = used_lines(&projection.observations_of(claim, &mut scanner()?));
            out.extend(lines.lines().map(|line| format!("    {line}\n")));
        }
        return Ok(out);
    }
    let mut told = Vec::with_capacity(claims.len());
    for (claim, object) in claims.iter().zip(&rebuilt) {
        told.push(with_observations(object, &projection.observations_of(claim, &mut scanner()?)));
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        loaded.provenance(members);
        members.name("at", |w| accepted.at.write(w));
        members.name("claims", |w| w.array(&told, |w, claim| w.raw(claim)));
        members.name("commit_id", |w| accepted.commit_id.write(w));
        members.name("kind", |w| accepted.kind.write(w));
        members.name("policy_epoch", |w| accepted.policy_epoch.write(w));
        members.name("request_id", |w| accepted.request_id.write(w));
        members.name("status", |w| w.string("committed_request"));
    });
    Ok(writer.finish())
}
