//! The searches: small queues with the actors that one question needs.

mod changes;
mod claims;

use serde_json::{Value, json};

use crate::kinds::Run;
use crate::search::Scope;
use crate::support::built::aw_policy;

/// The usual Policy under other limits: logical and native limit, attempts.
fn policy(logical: u32, native: u32, attempts: u32) -> Value {
    let mut policy = aw_policy();
    let pool = &mut policy["pools"]["default"];
    pool["logical_limit"] = logical.into();
    pool["native_limit"] = native.into();
    pool["retry"]["max_attempts"] = attempts.into();
    policy
}

/// Two accounts, one of weight 2, and a limit for each.
fn accounts(mut policy: Value, limit: Option<u32>) -> Value {
    policy["accounting_weights"] = json!({"": 1, "x": 2});
    if let Some(limit) = limit {
        policy["pools"]["default"]["per_account_limit"] = limit.into();
    }
    policy
}

fn batching(mut policy: Value, claims: u32) -> Value {
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = claims.into();
    policy
}

const FIRST: (usize, usize) = (0, 1);
const OWN: Run = Run::Own;

/// Every search.
pub(crate) fn scopes() -> Vec<Scope> {
    vec![
        claims::race(),
        claims::packing(),
        claims::launch(),
        claims::finish(),
        claims::release(),
        claims::late_worker(),
        claims::bindings(),
        claims::delivery(),
        claims::debt(),
        claims::retry(),
        claims::children(),
        claims::budget(),
        changes::profiles(),
        changes::gates(),
        changes::replacement(),
        changes::policies(),
        changes::deployment(),
        changes::rounds(),
        changes::compaction(),
        changes::compacted_bindings(),
        changes::campaign(),
    ]
}
