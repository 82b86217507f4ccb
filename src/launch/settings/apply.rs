//! Applying settings to a Policy that has its routes (publication.md 6.3, decision 37).

use super::error::{SettingsError, child};
use super::{PoolSettings, Settings};
use crate::protocol::json::{Scanner, Value, parse};
use crate::protocol::limits::MAX_POOLS;
use crate::protocol::policy::{Mode, Policy};
use crate::protocol::{Code, Fault, Text, Wire as _};

const POOLS: &str = "work_queue.pools";

/// The Policy that these settings make of `policy`, which itself stays as it is.
///
/// Capacity, retry and weights are replaced in every pool; a named pool that is not there yet is a copy of `default`
/// with its routes, repositories, reconciliation and observation age. Nothing else changes: settings add no route,
/// repository, producer or identity, and `issues` never reaches a Policy.
///
/// # Errors
/// `settings_invalid` naming the property: a new pool without a pool `default` to copy, more than 64 pools.
/// `policy_invalid` if the outcome is no Policy.
pub fn apply(settings: &Settings, policy: &Policy) -> Result<Policy, Fault> {
    let mut document = parse(policy.source.as_str())?;
    set(&mut document, "mode", Value::String(mode_name(settings.mode).to_owned()));
    let weights = settings.class_weights.iter().map(|weight| Value::Integer(weight.get())).collect();
    set(&mut document, "class_weights", Value::Array(weights));
    let accounts = settings.accounting_weights.iter();
    let accounts = accounts.map(|(key, weight)| (key.as_str().to_owned(), Value::Integer(weight.get()))).collect();
    set(&mut document, "accounting_weights", Value::Object(accounts));
    if let Some(limits) = get_mut(&mut document, "limits") {
        set(limits, "pending_nodes", Value::Integer(settings.pending_limit.get()));
    }
    if let Some(Value::Object(pools)) = get_mut(&mut document, "pools") {
        add_pools(settings, pools)?;
        for (name, pool) in pools {
            apply_to_pool(settings, name, pool);
        }
    }
    let text = Text::from(document.encode()?.as_str());
    // No member of a Policy names a resource, so no host is needed. The bound of a proposal does not apply: this text
    // was made here, and the ledger's own bounds follow.
    let mut scanner = Scanner::new("");
    let document = scanner.read(&text)?;
    Policy::read(document.root(), Code::PolicyInvalid)
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::WeightedPriority => "weighted-priority",
        Mode::StrictPriority => "strict-priority",
    }
}

fn add_pools(settings: &Settings, pools: &mut Vec<(String, Value)>) -> Result<(), SettingsError> {
    for name in settings.pools.keys() {
        if pools.iter().any(|(known, _)| known == name.as_str()) {
            continue;
        }
        let Some((_, template)) = pools.iter().find(|(known, _)| known == "default") else {
            let message = "is a new pool, and there is no pool default to take its routes from";
            return Err(SettingsError::new(&child(POOLS, name.as_str()), message));
        };
        let template = template.clone();
        pools.push((name.as_str().to_owned(), template));
    }
    if pools.len() > MAX_POOLS {
        return Err(SettingsError::new(POOLS, format!("makes more than {MAX_POOLS} pools, default among them")));
    }
    Ok(())
}

fn apply_to_pool(settings: &Settings, name: &str, pool: &mut Value) {
    let inherited = PoolSettings { concurrency: settings.concurrency, per_account_limit: None, retry: settings.retry };
    let chosen = settings.pools.get(name).copied().unwrap_or(inherited);
    let capacity = Value::Integer(chosen.concurrency.get());
    set(pool, "logical_limit", capacity.clone());
    set(pool, "native_limit", capacity);
    if let Value::Object(members) = pool {
        members.retain(|(member, _)| member != "per_account_limit");
    }
    if let Some(limit) = chosen.per_account_limit {
        set(pool, "per_account_limit", Value::Integer(limit.get()));
    }
    let retry = vec![
        ("max_attempts".to_owned(), Value::Integer(chosen.retry.max_attempts.get())),
        ("backoff_ms".to_owned(), Value::Integer(chosen.retry.backoff_seconds.get() * 1000)),
    ];
    set(pool, "retry", Value::Object(retry));
    if let Some(Value::Object(profiles)) = get_mut(pool, "profiles") {
        for (_, profile) in profiles {
            set(profile, "max_claims", Value::Integer(1));
            set(profile, "share_keys", Value::Bool(false));
        }
    }
}

fn get_mut<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    match object {
        Value::Object(members) => members.iter_mut().find(|(member, _)| member == name).map(|(_, value)| value),
        _ => None,
    }
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(slot) = get_mut(object, name) {
        *slot = value;
    } else if let Value::Object(members) = object {
        members.push((name.to_owned(), value));
    }
}
