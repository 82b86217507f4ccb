//! A second planner, written from the protocol alone: it reads the serialised projection and scans everything for
//! every winner. It shares no code with the engine, and the engine must give its answers.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigUint;
use serde_json::{Map, Value, json};
use wq_action::protocol::identity::sha256_hex;

/// One request to plan.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) pool: String,
    pub(crate) max_claims: usize,
    pub(crate) max_dispatches: usize,
    pub(crate) max_bytes: usize,
    pub(crate) worker_profiles: Option<Vec<String>>,
    pub(crate) preceding: usize,
    pub(crate) at: i64,
}

/// A stride clock by member name.
#[derive(Clone, Debug, Default)]
struct Clock {
    v: BigUint,
    pass: BTreeMap<String, BigUint>,
    active: BTreeSet<String>,
}

impl Clock {
    fn read(value: &Value) -> Self {
        let number = |value: &Value| -> BigUint { value.as_str().unwrap().parse().unwrap() };
        Self {
            v: number(&value["v"]),
            pass: object(&value["pass"]).map(|(name, pass)| (name.clone(), number(pass))).collect(),
            active: object(&value["active"]).map(|(name, _)| name.clone()).collect(),
        }
    }

    fn value(&self) -> Value {
        let pass: Map<String, Value> =
            self.pass.iter().map(|(name, pass)| (name.clone(), pass.to_string().into())).collect();
        let active: Map<String, Value> = self.active.iter().map(|name| (name.clone(), true.into())).collect();
        json!({"v": self.v.to_string(), "pass": pass, "active": active})
    }

    fn pick(&self, eligible: &BTreeSet<String>, weights: &BTreeMap<String, u64>, quantum: &BigUint) -> (String, Self) {
        let mut next = self.clone();
        for member in eligible {
            if !self.active.contains(member) {
                let entry = &self.v + quantum / weights[member];
                let own = self.pass.get(member).cloned().unwrap_or_default();
                next.pass.insert(member.clone(), own.max(entry));
            }
        }
        next.active = eligible.clone();
        // Priorities are one digit each, so the order of text is the order of numbers.
        let winner = eligible.iter().min_by_key(|member| (next.pass[*member].clone(), (*member).clone())).unwrap();
        next.v = next.pass[winner].clone();
        let advanced = &next.v + quantum / weights[winner];
        next.pass.insert(winner.clone(), advanced);
        (winner.clone(), next)
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn lcm<'a>(weights: impl Iterator<Item = &'a u64>) -> BigUint {
    weights.fold(BigUint::from(1_u32), |product, weight| {
        let (mut a, mut b) = (product.clone(), BigUint::from(*weight));
        while b != BigUint::ZERO {
            (a, b) = (b.clone(), a % b);
        }
        product * *weight / a
    })
}

/// The state that planning reads, by id.
pub(crate) struct Naive<'s> {
    state: &'s Value,
    class_weights: BTreeMap<String, u64>,
    key_weights: BTreeMap<String, u64>,
    class_quantum: BigUint,
    key_quantum: BigUint,
}

/// What a plan changes as it goes.
struct Scratch {
    claimed: BTreeSet<String>,
    classes: Clock,
    keys: BTreeMap<String, Clock>,
    opened: usize,
}

struct Selected {
    work: String,
    priority: String,
    observations: Vec<String>,
    classes: Clock,
    key_clock: Clock,
}

/// Place in the queue, Work, observations used.
type Head = ((u64, u64), String, Vec<String>);

struct Group {
    profile: Value,
    first: String,
    assignment: Value,
    members: Vec<usize>,
}

impl<'s> Naive<'s> {
    pub(crate) fn new(state: &'s Value) -> Self {
        let policy = &state["policy"];
        let class_weights: BTreeMap<String, u64> = policy["class_weights"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(index, weight)| ((index + 1).to_string(), weight.as_u64().unwrap()))
            .collect();
        let key_weights: BTreeMap<String, u64> = object(&policy["accounting_weights"])
            .map(|(name, weight)| (name.clone(), weight.as_u64().unwrap()))
            .collect();
        let (class_quantum, key_quantum) = (lcm(class_weights.values()), lcm(key_weights.values()));
        Self { state, class_weights, key_weights, class_quantum, key_quantum }
    }

    fn work(&self, id: &str) -> &Value {
        &self.state["works"][id]
    }

    /// Recovery headroom, from nothing but states.
    pub(crate) fn headroom(&self) -> u64 {
        let policy = &self.state["policy"];
        let limit = |name: &str| policy["limits"][name].as_u64().unwrap();
        let (evidence, result) = (limit("evidence_bytes"), limit("result_bytes"));
        let pool = |name: &Value| &policy["pools"][name.as_str().unwrap()];
        let works = object(&self.state["works"]).map(|(_, work)| {
            let state = work["state"].as_str().unwrap();
            if state == "cancelled" || (state == "completed" && work["barrier"] != "pending") {
                return 0;
            }
            let most = pool(&work["pool"])["retry"]["max_attempts"].as_u64().unwrap();
            let left = match (state, work["keep_open"] == true) {
                ("completed", false) => 0,
                ("completed", true) => most,
                _ => most.saturating_sub(work["attempts"].as_u64().unwrap()),
            };
            let claimed = if state == "claimed" { 8192 } else { 0 };
            left * (4 * evidence + 8192) + 2 * result + 2 * evidence + 8192 + claimed
        });
        let dispatches = object(&self.state["dispatches"]).map(|(_, dispatch)| {
            if dispatch["released"] == true {
                return 0;
            }
            let most = pool(&dispatch["pool"])["reconciliation"]["max_attempts"].as_u64().unwrap() + 4;
            let left = most.saturating_sub(dispatch["lifecycle_writes"].as_u64().unwrap());
            left * (2 * evidence + 12_288) + 2 * evidence + 8192
        });
        works.sum::<u64>() + dispatches.sum::<u64>()
    }

    /// The execution profile of a Work, or why it has none.
    fn profile(&self, work: &Value) -> Result<&Value, &'static str> {
        let (pool, name) = (work["pool"].as_str().unwrap(), work["worker_profile"].as_str().unwrap());
        let entry = &self.state["deployments"][pool][name];
        if entry.is_null() {
            return Ok(&self.state["policy"]["pools"][pool]["profiles"][name]);
        }
        let pin = work.get("execution_ref").unwrap_or(&entry["current_ref"]).as_str().unwrap();
        let revision = &entry["revisions"][pin];
        if revision["available"] != true {
            return Err("worker_unavailable");
        }
        if revision["profile"].get("logical_contract") != work.get("admission_contract") {
            return Err("worker_incompatible");
        }
        Ok(&revision["profile"])
    }

    fn open_claims(&self, scratch: &Scratch, pool: &str, key: Option<&str>) -> usize {
        let counts = |id: &str| {
            let work = self.work(id);
            work["pool"] == pool && key.is_none_or(|key| work["fairness_key"] == key)
        };
        let stored = object(&self.state["claims"])
            .filter(|(_, claim)| claim["state"] == "open" && counts(claim["work_id"].as_str().unwrap()))
            .count();
        stored + scratch.claimed.iter().filter(|id| counts(id)).count()
    }

    /// The observations used, or the reason against the Work.
    fn eligible(&self, scratch: &Scratch, work: &Value, ask: &Ask) -> Result<Vec<String>, &'static str> {
        let name = work["worker_profile"].as_str().unwrap();
        if ask.worker_profiles.as_ref().is_some_and(|allowed| !allowed.iter().any(|one| one == name)) {
            return Err("worker_not_approved");
        }
        self.profile(work)?;
        if work["retry_not_before"].as_i64().unwrap() > ask.at {
            return Err("retry_delayed");
        }
        let pool = &self.state["policy"]["pools"][&ask.pool];
        if work["attempts"].as_u64() >= pool["retry"]["max_attempts"].as_u64() {
            return Err("retry_exhausted");
        }
        if let Some(most) = pool["per_account_limit"].as_u64()
            && self.open_claims(scratch, &ask.pool, work["fairness_key"].as_str()) as u64 >= most
        {
            return Err("account_capacity_blocked");
        }
        let mut observations = Vec::new();
        for edge in work["depends_on"].as_array().unwrap() {
            if edge["kind"] == "work" {
                let before = self.work(edge["work_id"].as_str().unwrap());
                if before["barrier"] != "verified" {
                    return Err("dependency");
                }
                continue;
            }
            let gate = json!({
                "condition": edge["condition"], "host": edge["resource"]["host"], "kind": edge["kind"],
                "repository_id": edge["resource"]["repository_id"], "resource_id": edge["resource"]["resource_id"],
            });
            let latest = &self.state["observations"][gate.to_string()];
            let age = ask.at - latest["observed_at"].as_i64().ok_or("external_unavailable")?;
            let fresh = (0..=pool["max_observation_age_ms"].as_i64().unwrap()).contains(&age);
            if latest["credential_generation"] != self.state["credential_generation"] || !fresh {
                return Err("observation_stale");
            }
            let holds = if edge["kind"] == "issue" {
                latest["resource_state"] == "closed"
                    && (edge["condition"] == "closed" || latest["state_reason"] == "completed")
            } else {
                latest["merged"] == true && latest["merge_commit"].is_string()
            };
            if latest["state"] != "ready" || latest["read_status"] != "ok" || !holds {
                return Err("dependency_external_waiting");
            }
            observations.push(latest["observation_id"].as_str().unwrap().to_owned());
        }
        Ok(observations)
    }

    fn next(&self, scratch: &Scratch, ask: &Ask) -> Result<Selected, &'static str> {
        if self.state["grants_paused"] == true {
            return Err("grants_paused");
        }
        let limit = self.state["policy"]["pools"][&ask.pool]["logical_limit"].as_u64().unwrap();
        if self.open_claims(scratch, &ask.pool, None) as u64 >= limit {
            return Err("capacity_blocked");
        }
        let mut any = false;
        let mut heads: BTreeMap<(String, String), Head> = BTreeMap::new();
        for (id, work) in object(&self.state["works"]) {
            if work["pool"] != ask.pool.as_str() || work["state"] != "available" || scratch.claimed.contains(id) {
                continue;
            }
            any = true;
            let Ok(observations) = self.eligible(scratch, work, ask) else { continue };
            let priority = work.get("effective_priority").unwrap_or(&work["priority"]).to_string();
            let place = (work["position"]["commit"].as_u64().unwrap(), work["position"]["operation"].as_u64().unwrap());
            let slot = (priority, work["fairness_key"].as_str().unwrap().to_owned());
            if heads.get(&slot).is_none_or(|head| place < head.0) {
                heads.insert(slot, (place, id.clone(), observations));
            }
        }
        if heads.is_empty() {
            return Err(if any { "no_eligible_work" } else { "no_work" });
        }
        let present: BTreeSet<String> = heads.keys().map(|(priority, _)| priority.clone()).collect();
        let (priority, classes) = if self.state["policy"]["mode"] == "strict-priority" {
            (present.first().unwrap().clone(), scratch.classes.clone())
        } else {
            scratch.classes.pick(&present, &self.class_weights, &self.class_quantum)
        };
        let keys: BTreeSet<String> =
            heads.keys().filter(|slot| slot.0 == priority).map(|(_, key)| key.clone()).collect();
        let clock = scratch.keys.get(&priority).cloned().unwrap_or_default();
        let (key, key_clock) = clock.pick(&keys, &self.key_weights, &self.key_quantum);
        let (_, work, observations) = heads.remove(&(priority.clone(), key)).unwrap();
        Ok(Selected { work, priority, observations, classes, key_clock })
    }

    fn member(&self, id: &str, handle: usize, claim_id: &str) -> Value {
        let work = self.work(id);
        let references: Vec<Value> = work["depends_on"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|edge| edge["kind"] == "work")
            .map(|edge| {
                let before = self.work(edge["work_id"].as_str().unwrap());
                json!({"work_id": edge["work_id"], "result_commit_id": before["result_commit_id"],
                    "descriptor": before["result"]})
            })
            .collect();
        json!({"handle": format!("h{handle}"), "claim_id": claim_id, "work_id": id, "work": work["payload"],
            "result_refs": references})
    }

    fn compatible(&self, group: &Group, work: &Value, profile: &Value) -> bool {
        let first = self.work(&group.first);
        group.assignment["worker_profile"] == work["worker_profile"]
            && profile["trust_domain"] == work["batch_trust_domain"]
            && group.profile == *profile
            && first["batch_trust_domain"] == work["batch_trust_domain"]
            && (profile["share_keys"] == true || first["fairness_key"] == work["fairness_key"])
    }

    /// Plans a request, in the form of the corpus's predictions with digests.
    pub(crate) fn plan(&self, ask: &Ask, request_id: &str, commit_id: &str) -> Value {
        self.charge(ask, request_id, commit_id).0
    }

    /// Plans a request and gives the pool's clocks after it, in the form of the serialised projection.
    pub(crate) fn charge(&self, ask: &Ask, request_id: &str, commit_id: &str) -> (Value, Value) {
        let policy = &self.state["policy"];
        let operations = policy["limits"]["operations"].as_u64().unwrap() as usize;
        let limit = ask.max_claims.min(operations - ask.preceding);
        let bytes = ask.max_bytes.min(policy["limits"]["assignment_bytes"].as_u64().unwrap() as usize);
        let clocks = &self.state["clocks"][&ask.pool];
        let mut scratch = Scratch {
            claimed: BTreeSet::new(),
            classes: if clocks.is_null() { Clock::default() } else { Clock::read(&clocks["classes"]) },
            keys: object(&clocks["keys"]).map(|(name, clock)| (name.clone(), Clock::read(clock))).collect(),
            opened: 0,
        };
        let native = object(&self.state["dispatches"])
            .filter(|(_, dispatch)| dispatch["released"] == false && dispatch["pool"] == ask.pool.as_str())
            .count();
        let native_limit = policy["pools"][&ask.pool]["native_limit"].as_u64().unwrap() as usize;
        let hash = sha256_hex(&[request_id]);
        let mut groups: Vec<Group> = Vec::new();
        let mut claims: Vec<Value> = Vec::new();
        let mut next = self.next(&scratch, ask);
        let mut last = view(&next);
        let mut reason = next.as_ref().map_or_else(|reason| *reason, |_| "selected");
        while claims.len() < limit {
            let Ok(winner) = &next else { break };
            let work = self.work(&winner.work);
            let profile = self.profile(work).unwrap();
            let claim_id = format!("c_{hash}_{}", claims.len() + 1);
            let with = |group: &Group| {
                let mut assignment = group.assignment.clone();
                let members = assignment["claims"].as_array_mut().unwrap();
                members.push(self.member(&winner.work, members.len() + 1, &claim_id));
                assignment
            };
            let chosen = groups.iter().position(|group| {
                self.compatible(group, work, profile)
                    && (group.members.len() as u64) < profile["max_claims"].as_u64().unwrap()
                    && with(group).to_string().len() <= bytes
            });
            let chosen = match chosen {
                Some(chosen) => chosen,
                None if groups.len() >= ask.max_dispatches => {
                    reason = "dispatch_budget_blocked";
                    break;
                }
                None if native + scratch.opened >= native_limit => {
                    reason = "native_capacity_blocked";
                    break;
                }
                None => {
                    let assignment = json!({"version": 3, "dispatch_id": format!("d_{hash}_{}", groups.len() + 1),
                        "request_id": request_id, "commit_id": commit_id, "policy_epoch": self.state["policy_epoch"],
                        "pool": ask.pool, "worker_profile": work["worker_profile"], "claims": []});
                    let first = winner.work.clone();
                    let group = Group { profile: profile.clone(), first, assignment, members: Vec::new() };
                    if with(&group).to_string().len() > bytes {
                        reason = "assignment_bytes_blocked";
                        break;
                    }
                    groups.push(group);
                    scratch.opened += 1;
                    groups.len() - 1
                }
            };
            let group = &mut groups[chosen];
            group.assignment = with(group);
            group.members.push(claims.len());
            claims.push(json!({"kind": "Claim", "work_id": winner.work, "claim_id": claim_id,
                "dispatch_id": group.assignment["dispatch_id"], "handle": format!("h{}", group.members.len()),
                "observations": winner.observations}));
            scratch.claimed.insert(winner.work.clone());
            scratch.classes = winner.classes.clone();
            scratch.keys.insert(winner.priority.clone(), winner.key_clock.clone());
            last = view(&next);
            next = self.next(&scratch, ask);
            reason = next.as_ref().map_or_else(|reason| *reason, |_| "selected");
        }
        let mut seen = view(&next);
        if claims.len() == limit {
            reason = match limit {
                0 => "operation_budget_blocked",
                _ if limit == ask.max_claims => "claim_budget_reached",
                _ => "operation_budget_reached",
            };
            seen = last;
        } else if !claims.is_empty() && reason == "no_work" {
            reason = "prefix_complete";
        }
        let keys: Map<String, Value> =
            scratch.keys.iter().map(|(priority, clock)| (priority.clone(), clock.value())).collect();
        let clocks = json!({"classes": scratch.classes.value(), "keys": keys});
        (answer(&claims, &groups, reason, seen), clocks)
    }
}

fn view(next: &Result<Selected, &'static str>) -> Value {
    match next {
        Ok(winner) => json!({"work_id": winner.work, "reason": "selected", "observations": winner.observations,
            "class_pass": winner.classes.v.to_string(), "key_pass": winner.key_clock.v.to_string()}),
        Err(reason) => json!({"reason": reason, "observations": []}),
    }
}

fn answer(claims: &[Value], groups: &[Group], reason: &str, next: Value) -> Value {
    let list = |name: &str| -> Vec<Value> { claims.iter().map(|claim| claim[name].clone()).collect() };
    let members: Vec<&Vec<usize>> = groups.iter().map(|group| &group.members).collect();
    let assignments: Vec<&Value> = groups.iter().map(|group| &group.assignment).collect();
    let mut result = Map::new();
    result.insert("work_ids".to_owned(), list("work_id").into());
    result.insert("groups".to_owned(), json!(members));
    result.insert("reason".to_owned(), reason.into());
    result.insert("next".to_owned(), next);
    let observations = list("observations");
    if observations.iter().any(|list| *list != json!([])) {
        result.insert("observations".to_owned(), observations.into());
    }
    result.insert("operations_sha256".to_owned(), sha256_hex(&[&json!(claims).to_string()]).into());
    result.insert("assignments_sha256".to_owned(), sha256_hex(&[&json!(assignments).to_string()]).into());
    Value::Object(result)
}
