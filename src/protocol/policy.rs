//! The Policy: pools, profiles, weights, entitlements and limits (engine.md 2.9, 6.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fault::ensure;
use super::identity::{
    At, Decimal, Digest, FairnessKey, Identity, Opaque, PoolName, Priority, ProfileName, Repository, Revision, Within,
    check_identity, is_js_space, names_repository, strict_repository,
};
use super::json::{Node, Object, Writer};
use super::limits::{
    MAX_ACCOUNTING_KEYS, MAX_ALLOWED_REPOSITORIES, MAX_POOLS, MAX_PRODUCERS, MAX_PROFILES, MAX_PROJECTORS, MAX_WEIGHT,
};
use super::resource::{Resource, ResourceKind};
use super::wire::{Wire, closed, list, record, words};
use super::{Code, Fault};

words! {
    /// How a priority class is chosen.
    pub enum Mode {
        WeightedPriority = "weighted-priority",
        StrictPriority = "strict-priority",
    }
}

words! {
    /// When a projector closes a backing Issue.
    pub enum CompletionPolicy {
        KeepOpen = "keep-open",
        CloseOnResult = "close-on-result",
    }
}

words! {
    /// The one authorization mode beside the historical one.
    pub enum Authorization {
        Aw = "aw",
    }
}

/// A weight of a class or an accounting key.
pub type Weight = Within<1, MAX_WEIGHT>;

/// A validated Policy. Its canonical text is kept: two Policies are the same if their texts are.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Canonical text.
    pub source: Opaque,
    /// True for `authorization: aw`, false for a historical Policy.
    pub aw: bool,
    /// Class selection.
    pub mode: Mode,
    /// Weights of priority 1 to 5.
    pub class_weights: [Weight; 5],
    /// Accounting keys in UTF-8 order, 1 to 1,024, the empty key with weight 1 among them.
    pub accounting: Vec<(FairnessKey, Weight)>,
    /// Historical entitlements by principal.
    pub producers: BTreeMap<Decimal, Producer>,
    /// Pools by name, 1 to 64.
    pub pools: BTreeMap<PoolName, Pool>,
    /// Byte and count limits.
    pub limits: Limits,
    /// Projector rules.
    pub projectors: Vec<ProjectorRule>,
}

/// What a historical producer may submit.
#[derive(Clone, Debug)]
pub struct Producer {
    /// Pools.
    pub pools: Vec<PoolName>,
    /// Priorities.
    pub priorities: Vec<Priority>,
    /// Accounting keys.
    pub fairness_keys: Vec<FairnessKey>,
}

/// One pool: routes, capacity, retry and reconciliation.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Profile of Work that names none.
    pub default_profile: ProfileName,
    /// Routes by name, 1 to 256.
    pub profiles: BTreeMap<ProfileName, Arc<WorkerProfile>>,
    /// Most open Claims.
    pub logical_limit: Within<1, 4096>,
    /// Most unreleased dispatches.
    pub native_limit: Within<1, 4096>,
    /// Most open Claims of one accounting key.
    pub per_account_limit: Option<Within<1, 4096>>,
    /// Repositories whose resources may gate Work, in order of the Policy.
    pub allowed_repositories: Vec<Identity>,
    /// Oldest usable observation, in ms.
    pub max_observation_age_ms: Within<1, 3_600_000>,
    /// Attempts and backoff.
    pub retry: Retry,
    /// Bounds of reconciliation.
    pub reconciliation: Reconciliation,
}

record! {
    /// Attempts of one Work and the wait after a cancelled Claim, in ms.
    pub struct Retry, closed LedgerInvalid {
        max_attempts: Within<1, 16> = "max_attempts";
        backoff_ms: Within<1, 3_600_000> = "backoff_ms";
    }
}

record! {
    /// When a delivery may be declared failed: attempts, or ms since Completion.
    pub struct Reconciliation, closed LedgerInvalid {
        max_attempts: Within<1, 64> = "max_attempts";
        deadline_ms: Within<1, 3_600_000> = "deadline_ms";
    }
}

/// A worker route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProfile {
    /// Path of the compiled workflow.
    pub workflow: Identity,
    /// Approved revision.
    pub revision: Revision,
    /// Batches never cross this domain.
    pub trust_domain: Identity,
    /// Whose credentials the worker has.
    pub credential_scope: Identity,
    /// Repository that effects may touch.
    pub effect_scope: Identity,
    /// Launching principal; historical Policies name it, AW Policies record it at launch.
    pub principal: Option<Decimal>,
    /// Contract stamp of the workflow.
    pub logical_contract: Option<Digest>,
    /// Most Claims in one dispatch.
    pub max_claims: Within<1, 16>,
    /// True if one dispatch may hold Claims of several accounting keys. S-125: the administrator who sets it says that
    /// the owners of these keys may see each other's inputs, which nothing here can verify; that such Claims share one
    /// credential and effect scope follows from their one profile.
    pub share_keys: bool,
}

/// What one projector may write into Issues.
#[derive(Clone, Debug)]
pub struct ProjectorRule {
    /// Principal.
    pub principal: Decimal,
    /// Compiled workflow.
    pub workflow: Identity,
    /// Revision.
    pub revision: Revision,
    /// Pools covered.
    pub pools: Vec<PoolName>,
    /// Repositories covered.
    pub repositories: Vec<Repository>,
    /// Closing rule.
    pub completion_policy: Option<CompletionPolicy>,
    /// Backing Issues granted by name.
    pub backing_issues: Vec<Resource>,
}

/// The eleven installed limits; the ceiling of each is also its default.
#[allow(missing_docs, reason = "members carry the protocol's own names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub ledger_bytes: u64,
    pub recovery_bytes: u64,
    pub payload_bytes: u64,
    pub graph_nodes: u64,
    pub predecessors: u64,
    pub pending_nodes: u64,
    pub operations: u64,
    pub assignment_bytes: u64,
    pub result_bytes: u64,
    pub evidence_bytes: u64,
    pub observation_writes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(LIMITS.map(|(_, ceiling)| ceiling))
    }
}

/// Names and ceilings in the order of [`Limits`].
const LIMITS: [(&str, u64); 11] = [
    ("ledger_bytes", 67_108_864),
    ("recovery_bytes", 16_777_216),
    ("payload_bytes", 16_384),
    ("graph_nodes", 4_096),
    ("predecessors", 64),
    ("pending_nodes", 4_096),
    ("operations", 256),
    ("assignment_bytes", 49_152),
    ("result_bytes", 4_096),
    ("evidence_bytes", 1_024),
    ("observation_writes", 4_096),
];

impl Limits {
    /// Limits from their values in declaration order.
    const fn of(values: [u64; 11]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k] = values;
        Self {
            ledger_bytes: a,
            recovery_bytes: b,
            payload_bytes: c,
            graph_nodes: d,
            predecessors: e,
            pending_nodes: f,
            operations: g,
            assignment_bytes: h,
            result_bytes: i,
            evidence_bytes: j,
            observation_writes: k,
        }
    }

    fn read(node: Node<'_>) -> Result<Self, Fault> {
        let object = node.object().ok_or_else(|| node.fault(Code::LedgerInvalid, "limits are an object"))?;
        for (key, _) in object.members() {
            if !LIMITS.iter().any(|(name, _)| key.plain() == Some(name)) {
                return Err(key.fault(Code::ResourceLimit, "an unknown limit"));
            }
        }
        let mut values = [0; 11];
        for (value, (name, ceiling)) in values.iter_mut().zip(LIMITS) {
            let integer = object.get(name).and_then(Node::integer).and_then(|integer| u64::try_from(integer).ok());
            *value = integer
                .filter(|integer| (1..=ceiling).contains(integer))
                .ok_or_else(|| node.fault(Code::LedgerInvalid, "a limit is missing or out of its bounds"))?;
        }
        Ok(Self::of(values))
    }
}

fn slot<'a>(slots: &[Option<Node<'a>>], index: usize) -> Result<Node<'a>, Fault> {
    slots[index].ok_or_else(|| Fault::new(Code::LedgerInvalid, "an object lacks a required member"))
}

fn members<'a>(node: Node<'a>, least: usize, most: usize) -> Result<Object<'a>, Fault> {
    let object = node.object().ok_or_else(|| node.fault(Code::PolicyInvalid, "a Policy map is not an object"))?;
    if (least..=most).contains(&object.len()) {
        Ok(object)
    } else {
        Err(node.fault(Code::PolicyInvalid, "a Policy map has too few or too many members"))
    }
}

/// A value as the reference compares it with a number: nothing and emptiness count as 0, digits as what they
/// spell. It decides only which of two codes a malformed `limits.operations` gets.
fn loose_number(node: Node<'_>) -> Option<i64> {
    let text = node.plain().map(|text| text.trim_matches(is_js_space));
    if node.is_null() || text == Some("") || node.array_len() == 0 && node.array().is_some() {
        return Some(0);
    }
    node.integer().or_else(|| node.boolean().map(i64::from)).or_else(|| text?.parse().ok())
}

/// True for the path of a compiled workflow.
pub(crate) fn is_lock_path(path: &str) -> bool {
    path.starts_with(".github/workflows/") && path.ends_with(".lock.yml") && !path.contains("..")
}

impl WorkerProfile {
    /// Reads a profile, under an AW Policy if `aw`.
    pub(crate) fn read(node: Node<'_>, aw: bool) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 9] = &[
            ("workflow", true),
            ("ref", true),
            ("trust_domain", true),
            ("credential_scope", true),
            ("effect_scope", true),
            ("max_claims", true),
            ("share_keys", true),
            ("principal", false),
            ("logical_contract", false),
        ];
        let slots = closed(node, NAMES, Code::LedgerInvalid)?;
        let optional = |index: usize| slots[index];
        let logical_contract = optional(8).map(|node| Digest::read(node, Code::PolicyInvalid)).transpose()?;
        let principal = optional(7).map(|node| Decimal::read(node, Code::PolicyInvalid)).transpose()?;
        ensure!(aw || principal.is_some(), PolicyInvalid, "a profile of a historical Policy names its principal");
        if aw {
            let fixed = slot(&slots, 2)?.plain() == Some("default") && slot(&slots, 3)?.plain() == Some("repository");
            let scoped = slot(&slots, 4)?.string().is_some_and(|scope| names_repository(scope.as_str()));
            ensure!(fixed && scoped, PolicyInvalid, "a profile leaves the fixed scopes of an AW Policy");
        }
        let workflow = Identity::read(slot(&slots, 0)?, Code::LedgerInvalid)?;
        check_identity(slot(&slots, 1)?)?;
        let trust_domain = Identity::read(slot(&slots, 2)?, Code::LedgerInvalid)?;
        let credential_scope = Identity::read(slot(&slots, 3)?, Code::LedgerInvalid)?;
        let effect_scope = Identity::read(slot(&slots, 4)?, Code::LedgerInvalid)?;
        let revision = Revision::read(slot(&slots, 1)?, Code::PolicyInvalid)?;
        ensure!(is_lock_path(workflow.as_str()), PolicyInvalid, "a profile's workflow is not a compiled workflow path");
        Ok(Self {
            workflow,
            revision,
            trust_domain,
            credential_scope,
            effect_scope,
            principal,
            logical_contract,
            max_claims: Within::read(slot(&slots, 5)?, Code::LedgerInvalid)?,
            share_keys: bool::read(slot(&slots, 6)?, Code::PolicyInvalid)?,
        })
    }

    /// Writes the canonical form.
    pub fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("credential_scope", |w| self.credential_scope.write(w));
            members.name("effect_scope", |w| self.effect_scope.write(w));
            if let Some(contract) = &self.logical_contract {
                members.name("logical_contract", |w| contract.write(w));
            }
            members.name("max_claims", |w| self.max_claims.write(w));
            if let Some(principal) = &self.principal {
                members.name("principal", |w| principal.write(w));
            }
            members.name("ref", |w| self.revision.write(w));
            members.name("share_keys", |w| w.bool(self.share_keys));
            members.name("trust_domain", |w| self.trust_domain.write(w));
            members.name("workflow", |w| self.workflow.write(w));
        });
    }
}

impl Pool {
    fn read(node: Node<'_>, aw: bool, operations: Option<i64>) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 9] = &[
            ("default_profile", true),
            ("profiles", true),
            ("logical_limit", true),
            ("native_limit", true),
            ("allowed_repositories", true),
            ("max_observation_age_ms", true),
            ("retry", true),
            ("reconciliation", true),
            ("per_account_limit", false),
        ];
        let slots = closed(node, NAMES, Code::LedgerInvalid)?;
        let default_profile = ProfileName::read(slot(&slots, 0)?, Code::LedgerInvalid)?;
        let routes = members(slot(&slots, 1)?, 1, MAX_PROFILES)?;
        ensure!(
            routes.members().any(|(key, _)| key.string().is_some_and(|key| key == *default_profile.text())),
            PolicyInvalid,
            "a pool's default profile is not among its profiles"
        );
        let mut profiles = BTreeMap::new();
        for (key, value) in routes.members() {
            let name = ProfileName::read(key, Code::LedgerInvalid)?;
            let profile = WorkerProfile::read(value, aw)?;
            ensure!(
                operations.is_none_or(|operations| operations > 2 * profile.max_claims.get()),
                PolicyInvalid,
                "limits.operations leaves no room for a full dispatch"
            );
            profiles.insert(name, Arc::new(profile));
        }
        Ok(Self {
            default_profile,
            profiles,
            logical_limit: Within::read(slot(&slots, 2)?, Code::LedgerInvalid)?,
            native_limit: Within::read(slot(&slots, 3)?, Code::LedgerInvalid)?,
            per_account_limit: slots[8].map(|node| Within::read(node, Code::LedgerInvalid)).transpose()?,
            allowed_repositories: list(slot(&slots, 4)?, 0, MAX_ALLOWED_REPOSITORIES, Code::PolicyInvalid)?,
            max_observation_age_ms: Within::read(slot(&slots, 5)?, Code::LedgerInvalid)?,
            retry: Retry::read(slot(&slots, 6)?, Code::LedgerInvalid)?,
            reconciliation: Reconciliation::read(slot(&slots, 7)?, Code::LedgerInvalid)?,
        })
    }

    /// True if resources of this repository may gate or scope this pool's Work.
    #[must_use]
    pub fn allows(&self, repository: &str) -> bool {
        self.allowed_repositories.iter().any(|allowed| allowed.as_str() == repository)
    }
}

impl ProjectorRule {
    fn read(node: Node<'_>, pools: Object<'_>) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 7] = &[
            ("principal", true),
            ("workflow", true),
            ("ref", true),
            ("pools", true),
            ("repositories", true),
            ("completion_policy", false),
            ("backing_issues", false),
        ];
        let slots = closed(node, NAMES, Code::PolicyInvalid)?;
        let principal = Decimal::read(slot(&slots, 0)?, Code::PolicyInvalid)?;
        let workflow = Identity::read(slot(&slots, 1)?, Code::PolicyInvalid)?;
        ensure!(
            is_lock_path(workflow.as_str()),
            PolicyInvalid,
            "a projector's workflow is not a compiled workflow path"
        );
        let revision = Revision::read(slot(&slots, 2)?, Code::PolicyInvalid)?;
        let covered: Vec<PoolName> = list(slot(&slots, 3)?, 1, MAX_PROJECTORS, Code::PolicyInvalid)?;
        let installed =
            |name: &PoolName| pools.members().any(|(key, _)| key.string().is_some_and(|key| key == *name.text()));
        ensure!(covered.iter().all(installed), PolicyInvalid, "a projector covers a pool that is not installed");
        let repositories: Vec<Repository> = list(slot(&slots, 4)?, 1, MAX_PROJECTORS, Code::PolicyInvalid)?;
        ensure!(
            repositories.iter().all(|repository| strict_repository(repository.as_str())),
            PolicyInvalid,
            "a projector covers a malformed repository"
        );
        let completion_policy = slots[5].map(|node| CompletionPolicy::read(node, Code::PolicyInvalid)).transpose()?;
        let mut backing_issues = Vec::new();
        if let Some(node) = slots[6] {
            let length = node.array_len();
            let items = node.array().filter(|_| (1..=MAX_PROJECTORS).contains(&length));
            for item in
                items.ok_or_else(|| node.fault(Code::PolicyInvalid, "backing_issues is not a list of 1 to 256"))?
            {
                let issue = Resource::read_closed(item, Code::PolicyInvalid)?;
                let covered = issue.kind == ResourceKind::Issue && repositories.contains(&issue.repository);
                ensure!(covered, PolicyInvalid, "a backing Issue lies outside its projector's rule");
                backing_issues.push(issue);
            }
        }
        Ok(Self { principal, workflow, revision, pools: covered, repositories, completion_policy, backing_issues })
    }
}

impl Producer {
    fn read(node: Node<'_>, policy: (&BTreeMap<PoolName, Pool>, &[(FairnessKey, Weight)])) -> Result<Self, Fault> {
        let names = [("pools", true), ("priorities", true), ("fairness_keys", true)];
        let slots = closed(node, &names, Code::LedgerInvalid)?;
        for index in 0..names.len() {
            list_bounds(slot(&slots, index)?)?;
        }
        let (pools, accounting) = policy;
        Ok(Self {
            pools: installed(slot(&slots, 0)?, |name| pools.get_key_value(name).map(|(name, _)| name.clone()))?,
            priorities: list(slot(&slots, 1)?, 1, MAX_PRODUCERS, Code::PolicyInvalid)?,
            fairness_keys: installed(slot(&slots, 2)?, |key| {
                let at = accounting.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
                Some(accounting[at].0.clone())
            })?,
        })
    }
}

fn list_bounds(node: Node<'_>) -> Result<(), Fault> {
    if node.array().is_some() && (1..=MAX_PRODUCERS).contains(&node.array_len()) {
        Ok(())
    } else {
        Err(node.fault(Code::PolicyInvalid, "an entitlement is not a list of 1 to 1024"))
    }
}

/// Reads names that must be installed; whatever is not a name at all is not installed either.
fn installed<T>(node: Node<'_>, find: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Fault> {
    let items = node.array().ok_or_else(|| node.fault(Code::PolicyInvalid, "an entitlement is not a list"))?;
    items
        .map(|item| {
            item.string()
                .and_then(|name| find(name.as_str()))
                .ok_or_else(|| item.fault(Code::PolicyInvalid, "a producer's pool or key is not installed"))
        })
        .collect()
}

impl Policy {
    /// Weight of an accounting key, if the key is registered.
    #[must_use]
    pub fn account(&self, key: &str) -> Option<usize> {
        self.accounting.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()
    }

    fn weights(node: Node<'_>) -> Result<[Weight; 5], Fault> {
        let weights: Vec<Weight> = list(node, 5, 5, Code::PolicyInvalid)?;
        weights.try_into().map_err(|_| node.fault(Code::PolicyInvalid, "class_weights has five members"))
    }

    fn accounts(node: Node<'_>) -> Result<Vec<(FairnessKey, Weight)>, Fault> {
        let keys = members(node, 1, MAX_ACCOUNTING_KEYS)?;
        let empty = keys.get("").and_then(Node::integer) == Some(1);
        ensure!(empty, PolicyInvalid, "the empty accounting key has weight 1");
        keys.members()
            .map(|(key, value)| {
                Ok((FairnessKey::read(key, Code::LedgerInvalid)?, Weight::read(value, Code::LedgerInvalid)?))
            })
            .collect()
    }

    fn entitlements(
        node: Node<'_>,
        pools: &BTreeMap<PoolName, Pool>,
        accounting: &[(FairnessKey, Weight)],
    ) -> Result<BTreeMap<Decimal, Producer>, Fault> {
        let mut producers = BTreeMap::new();
        for (key, value) in members(node, 0, MAX_PRODUCERS)?.members() {
            let principal = Decimal::read(key, Code::PolicyInvalid)?;
            producers.insert(principal, Producer::read(value, (pools, accounting))?);
        }
        Ok(producers)
    }
}

impl Wire for Policy {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 8] = &[
            ("mode", true),
            ("class_weights", true),
            ("accounting_weights", true),
            ("producers", true),
            ("pools", true),
            ("limits", true),
            ("projectors", false),
            ("authorization", false),
        ];
        let slots = closed(node, NAMES, Code::LedgerInvalid)?;
        let aw = slots[7].map(|node| Authorization::read(node, Code::PolicyInvalid)).transpose()?.is_some();
        let pools_node = slot(&slots, 4)?;
        let mut projectors = Vec::new();
        if let Some(node) = slots[6] {
            let length = node.array_len();
            let items = node.array().filter(|_| (1..=MAX_PROJECTORS).contains(&length));
            let items = items.ok_or_else(|| node.fault(Code::PolicyInvalid, "projectors is not a list of 1 to 256"))?;
            let installed = members(pools_node, 0, MAX_PRODUCERS)?;
            projectors = items.map(|item| ProjectorRule::read(item, installed)).collect::<Result<_, _>>()?;
        }
        let mode = Mode::read(slot(&slots, 0)?, Code::PolicyInvalid)?;
        let class_weights = Self::weights(slot(&slots, 1)?)?;
        let accounting = Self::accounts(slot(&slots, 2)?)?;
        let producers_node = slot(&slots, 3)?;
        let producer_count = members(producers_node, 0, MAX_PRODUCERS)?.len();
        let pool_members = members(pools_node, 1, MAX_POOLS)?;
        ensure!(!aw || producer_count == 0, PolicyInvalid, "an AW Policy lists no producers");
        let operations = slot(&slots, 5)?.object().and_then(|limits| limits.get("operations")).and_then(loose_number);
        let mut pools = BTreeMap::new();
        for (key, value) in pool_members.members() {
            let name = PoolName::read(key, Code::LedgerInvalid)?;
            pools.insert(name, Pool::read(value, aw, operations)?);
        }
        let producers = Self::entitlements(producers_node, &pools, &accounting)?;
        let limits = Limits::read(slot(&slots, 5)?)?;
        Ok(Self {
            source: Opaque::read(node, Code::LedgerInvalid)?,
            aw,
            mode,
            class_weights,
            accounting,
            producers,
            pools,
            limits,
            projectors,
        })
    }

    fn write(&self, writer: &mut Writer) {
        self.source.write(writer);
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Policy {}

/// `at + ms` as a time, if it stays one.
#[must_use]
pub fn later(at: At, ms: i64) -> Option<At> {
    At::new(at.get().checked_add(ms)?).ok()
}
