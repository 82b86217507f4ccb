//! Policies, routes and deployments.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{DEPLOYMENT, Model, POLICY, Route, State, Verdict, missing, rule, text};

impl Model {
    /// The profile that a Work runs now, and whether it is available.
    pub(super) fn route_of(&self, work: &Value) -> Option<(Arc<Value>, bool)> {
        let (pool, profile) = (text(work, "pool"), text(work, "worker_profile"));
        match self.routes.get(&(pool.to_owned(), profile.to_owned())) {
            Some(route) => {
                let revision = work["execution_ref"].as_str().unwrap_or(&route.current);
                route.revisions.get(revision).cloned()
            }
            None => Some((Arc::new(self.pool(pool)["profiles"][profile].clone()), true)),
        }
    }

    pub(super) fn install(&mut self, operation: &Value) -> Verdict {
        let settled = self.works.values().all(|work| match work.state {
            State::Completed => work.barrier != "pending",
            state => state == State::Cancelled,
        });
        let quiet = settled && self.dispatches.values().all(|dispatch| dispatch.released);
        rule!(quiet, POLICY, "a Policy changes while something is active");
        self.policy = Arc::new(operation["policy"].clone());
        self.epoch = text(operation, "epoch").to_owned();
        self.routes.clear();
        for (pool, settings) in operation["policy"]["pools"].as_object().into_iter().flatten() {
            for (name, profile) in settings["profiles"].as_object().into_iter().flatten() {
                if operation["policy"]["authorization"] == "aw" && profile["logical_contract"].is_string() {
                    let current = text(profile, "ref").to_owned();
                    let revisions = BTreeMap::from([(current.clone(), (Arc::new(profile.clone()), true))]);
                    let contract = profile["logical_contract"].clone();
                    self.routes.insert((pool.clone(), name.clone()), Route { current, contract, revisions });
                }
            }
        }
        Ok(())
    }

    pub(super) fn deploy(&mut self, operation: &Value) -> Verdict {
        const AUTHORITY: [&str; 7] =
            ["workflow", "principal", "trust_domain", "credential_scope", "effect_scope", "max_claims", "share_keys"];
        let (pool, name) = (text(operation, "pool"), text(operation, "worker_profile"));
        let approved = self.pool(pool)["profiles"][name].clone();
        let route = self.routes.get_mut(&(pool.to_owned(), name.to_owned()));
        let route = route.ok_or_else(|| missing(DEPLOYMENT, "route"))?;
        let profile = &operation["profile"];
        let expected =
            operation["expected_ref"] == route.current.as_str() && operation["expected_contract"] == route.contract;
        rule!(expected, DEPLOYMENT, "a deployment replaces another revision than it expects");
        let same = AUTHORITY.iter().all(|member| profile.get(member) == approved.get(member));
        rule!(same, DEPLOYMENT, "a deployment changes the route's authority");
        let revision = text(profile, "ref").to_owned();
        let known = route.revisions.get(&revision);
        let kept = known.is_none_or(|(known, _)| **known == *profile);
        rule!(kept, DEPLOYMENT, "a deployment rewrites a revision");
        route.revisions.insert(revision.clone(), (Arc::new(profile.clone()), operation["available"] == true));
        if operation["activate"] != false {
            route.current = revision;
            route.contract = profile["logical_contract"].clone();
        }
        Ok(())
    }
}
