//! The deployment registry of a checkpoint: checked against the Policy, then rebuilt from the receipts and compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Parts, damaged, entries, intact};
use crate::engine::apply::deploy::same_authority;
use crate::engine::registry::{Deployed, DeployedRevision, Registry};
use crate::engine::state::Installed;
use crate::protocol::actor::Role;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Node, Writer};
use crate::protocol::operation::Deployment;
use crate::protocol::policy::WorkerProfile;
use crate::protocol::wire::{Wire as _, closed};
use crate::protocol::{Code, Digest, Fault, PoolName, ProfileName, Revision};

pub(super) fn restore(installed: &Installed, parts: &Parts<'_>, history: Node<'_>) -> Result<Registry, Fault> {
    let stored = match parts.deployments {
        Some(node) => read(installed, node)?,
        None => Registry::default(),
    };
    let rebuilt = rebuild(installed, history)?;
    let text = |registry: &Registry| {
        let mut writer = Writer::new();
        registry.write(&mut writer);
        writer.finish()
    };
    ensure!(text(&stored) == text(&rebuilt), CheckpointInvalid, "the deployments are not the ones that were accepted");
    Ok(rebuilt)
}

fn read(installed: &Installed, node: Node<'_>) -> Result<Registry, Fault> {
    let mut registry = BTreeMap::new();
    for (pool, routes) in sorted(node)? {
        let name: PoolName = intact(pool)?;
        let mut deployed = BTreeMap::new();
        for (profile, entry) in sorted(routes)? {
            let profile: ProfileName = intact(profile)?;
            let approved = installed.policy.pools.get(&name).and_then(|pool| pool.profiles.get(&profile));
            let approved = approved.filter(|approved| approved.logical_contract.is_some());
            let approved = approved.ok_or_else(|| damaged("a deployed route is not one of the Policy's"))?;
            deployed.insert(profile, read_route(entry, approved)?);
        }
        registry.insert(name, deployed);
    }
    Ok(Registry(registry))
}

/// Keys and entries of a map whose entries are objects.
fn sorted(node: Node<'_>) -> Result<Vec<(Node<'_>, Node<'_>)>, Fault> {
    entries(node)?;
    Ok(node.object().into_iter().flat_map(|object| object.members()).collect())
}

fn read_route(node: Node<'_>, approved: &WorkerProfile) -> Result<Deployed, Fault> {
    const NAMES: &[(&str, bool); 3] = &[("current_ref", true), ("current_contract", true), ("revisions", true)];
    let slots = closed(node, NAMES, Code::CheckpointInvalid)?;
    let [Some(current_ref), Some(current_contract), Some(known)] = slots else {
        return Err(damaged("a deployed route is incomplete"));
    };
    let current_ref: Revision = intact(current_ref)?;
    let current_contract: Digest = intact(current_contract)?;
    let mut revisions = BTreeMap::new();
    for (revision, node) in sorted(known)? {
        let slots = closed(node, &[("profile", true), ("available", true)], Code::CheckpointInvalid)?;
        let [Some(profile), Some(available)] = slots else { return Err(damaged("a revision is incomplete")) };
        let profile = WorkerProfile::read(profile, true)?;
        let revision: Revision = intact(revision)?;
        let sound =
            profile.revision == revision && profile.logical_contract.is_some() && same_authority(approved, &profile);
        ensure!(sound, CheckpointInvalid, "a deployed revision differs from its route in more than its contract");
        revisions.insert(revision, DeployedRevision { profile: Arc::new(profile), available: intact(available)? });
    }
    let current = revisions.get(&current_ref).and_then(|current| current.profile.logical_contract.as_ref());
    ensure!(current == Some(&current_contract), CheckpointInvalid, "a route's current contract is not its revision's");
    Ok(Deployed { current_ref, current_contract, revisions })
}

/// Applies every Deployment of the current epoch. Receipts are checked in full later, so what is not there is passed over.
fn rebuild(installed: &Installed, history: Node<'_>) -> Result<Registry, Fault> {
    let mut registry = Registry::initial(&installed.policy);
    for receipt in history.array().into_iter().flatten() {
        let Some(receipt) = receipt.object() else { continue };
        let text = |name: &str| receipt.get(name).and_then(Node::string);
        if text("policy_epoch").is_none_or(|epoch| epoch != *installed.epoch.text()) {
            continue;
        }
        for event in receipt.get("events").and_then(Node::array).into_iter().flatten() {
            let kind = event.object().and_then(|event| event.get("kind")).and_then(Node::plain);
            if kind != Some("Deployment") {
                continue;
            }
            let role = receipt.get("actor").and_then(Node::object).and_then(|actor| actor.get("role"));
            let role = role.and_then(Node::plain).and_then(Role::parse);
            let allowed = matches!(role, Some(Role::Administrator | Role::Producer | Role::Dispatcher))
                && text("kind").is_some_and(|kind| kind.as_str() == "deployment");
            ensure!(allowed, CheckpointInvalid, "a receipt of another kind or role carries a Deployment");
            registry.deploy(&installed.policy, Deployment::read(event, Code::LedgerInvalid)?)?;
        }
    }
    Ok(registry)
}
