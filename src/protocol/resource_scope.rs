//! Which resources a Work may write to: the versioned `resource_scope` inside its otherwise opaque payload, and the
//! check of one target against it and against the Work's subject (engine.md 8, lifecycle.md 5.8).
//!
//! Replay never looks here; the gate before an effect does. Every refusal is `claim_scope_invalid`. Who else has a say
//! about a target (profiles, the bound run, the Work's ancestors) is [`crate::engine::scope`].

use super::fault::ensure;
use super::identity::{Decimal, Identity, Opaque, Repository};
use super::json::{Node, Scanner};
use super::limits::MAX_SCOPE_SELECTORS;
use super::resource::{Resource, ResourceKind};
use super::wire::{Wire, closed, record};
use super::{Code, Fault, Text};

record! {
    /// What an effect touches, or what a selector permits: `repository`, and as many exact coordinates as are given.
    /// Nothing is a pattern or a prefix.
    pub struct Target, closed ClaimScopeInvalid, check check {
        repository: Repository = "repository";
        kind [optional]: ResourceKind = "kind";
        host [optional]: Identity = "host";
        repository_id [optional]: Decimal = "repository_id";
        resource_id [optional]: Decimal = "resource_id";
        number [optional]: Decimal = "number";
        comment_id [optional]: Decimal = "comment_id";
        run_id [optional]: Decimal = "run_id";
        reference [optional]: Identity = "ref";
        path [optional]: Identity = "path";
    }
}

/// Who named a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetOrigin {
    /// The agent described it: `run_id`, `ref` and `path` count only if the matching selector names them too.
    Described,
    /// The compiled broker of this Claim made it and registered it for the pass.
    Broker,
}

/// A payload's `resource_scope`: at most 128 distinct selectors. Without any, every write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceScope {
    /// The selectors, in the order given.
    pub resources: Vec<Target>,
}

impl Target {
    /// Reads a target, its host being the scanner's approved one.
    ///
    /// # Errors
    /// `claim_scope_invalid`, whatever is wrong with it.
    pub fn parse(scanner: &mut Scanner, text: &Text) -> Result<Self, Fault> {
        scanner.read(text).and_then(|document| read_target(document.root())).map_err(refused)
    }

    fn check(&self) -> Result<(), Fault> {
        ensure!(self.repository.is_strict(), ClaimScopeInvalid, "a target's repository is malformed");
        ensure!(
            self.path.as_ref().is_none_or(|path| is_relative(path.as_str())),
            ClaimScopeInvalid,
            "a target's path is not a plain relative path"
        );
        Ok(())
    }

    /// True if the target says which repository it means by its number on the approved host and, where it speaks of an
    /// Issue or pull request at all, says completely which one.
    #[must_use]
    pub fn has_native_binding(&self) -> bool {
        let typed = [self.kind.is_some(), self.number.is_some(), self.resource_id.is_some()];
        let named = self.comment_id.is_some() || typed.contains(&true);
        self.host.is_some() && self.repository_id.is_some() && (!named || !typed.contains(&false))
    }

    /// True if every member of this selector equals the target's.
    fn selects(&self, target: &Self, origin: TargetOrigin) -> bool {
        fn same<T: PartialEq>(selector: Option<&T>, target: Option<&T>) -> bool {
            selector.is_none() || selector == target
        }
        fn named<T>(selector: Option<&T>, target: Option<&T>) -> bool {
            target.is_none() || selector.is_some()
        }
        self.repository == target.repository
            && same(self.kind.as_ref(), target.kind.as_ref())
            && same(self.host.as_ref(), target.host.as_ref())
            && same(self.repository_id.as_ref(), target.repository_id.as_ref())
            && same(self.resource_id.as_ref(), target.resource_id.as_ref())
            && same(self.number.as_ref(), target.number.as_ref())
            && same(self.comment_id.as_ref(), target.comment_id.as_ref())
            && same(self.run_id.as_ref(), target.run_id.as_ref())
            && same(self.reference.as_ref(), target.reference.as_ref())
            && same(self.path.as_ref(), target.path.as_ref())
            && (origin == TargetOrigin::Broker
                || (named(self.run_id.as_ref(), target.run_id.as_ref())
                    && named(self.reference.as_ref(), target.reference.as_ref())
                    && named(self.path.as_ref(), target.path.as_ref())))
    }

    /// True if the target is exactly this resource, in every one of its coordinates.
    fn is_resource(&self, subject: &Resource) -> bool {
        self.repository == subject.repository
            && self.kind == Some(subject.kind)
            && self.host.as_ref() == Some(&subject.host)
            && self.repository_id.as_ref() == Some(&subject.repository_id)
            && self.resource_id.as_ref() == Some(&subject.resource_id)
            && self.number.as_ref() == Some(&subject.number)
    }
}

impl ResourceScope {
    /// Reads the scope out of a Work's payload; none where the payload has no such member.
    ///
    /// # Errors
    /// `claim_scope_invalid` for a scope of another shape: such a Work writes nowhere.
    pub fn of_payload(scanner: &mut Scanner, payload: &Opaque) -> Result<Option<Self>, Fault> {
        let document = scanner.read(payload.text()).map_err(refused)?;
        let scope = document.root().object().and_then(|members| members.get("resource_scope"));
        scope.map(Self::read_scope).transpose().map_err(refused)
    }

    fn read_scope(node: Node<'_>) -> Result<Self, Fault> {
        let invalid = Code::ClaimScopeInvalid;
        let [version, resources] = closed(node, &[("version", true), ("resources", true)], invalid)?;
        ensure!(
            version.and_then(Node::integer) == Some(1),
            ClaimScopeInvalid,
            "a resource scope's version is not supported"
        );
        let items = resources.and_then(Node::array).ok_or_else(|| node.fault(invalid, "resources is an array"))?;
        ensure!(
            items.clone().count() <= MAX_SCOPE_SELECTORS,
            ClaimScopeInvalid,
            "a resource scope has more than 128 selectors"
        );
        let mut selectors: Vec<Target> = Vec::new();
        for item in items {
            let selector = read_target(item)?;
            ensure!(!selectors.contains(&selector), ClaimScopeInvalid, "a resource scope repeats a selector");
            selectors.push(selector);
        }
        Ok(Self { resources: selectors })
    }
}

/// Checks a target against one Work: its scope and its subject. Both narrow; with neither, nothing may be written.
///
/// # Errors
/// `claim_scope_invalid`.
pub fn check_target(
    scope: Option<&ResourceScope>,
    subject: Option<&Resource>,
    target: &Target,
    origin: TargetOrigin,
) -> Result<(), Fault> {
    if let Some(subject) = subject {
        ensure!(target.is_resource(subject), ClaimScopeInvalid, "the target is not the Work's subject");
        let further = target.run_id.is_some() || target.reference.is_some() || target.path.is_some();
        ensure!(
            !further || scope.is_some(),
            ClaimScopeInvalid,
            "a subject alone permits no run, ref or path; the Work needs a resource scope for it"
        );
    } else {
        ensure!(scope.is_some(), ClaimScopeInvalid, "the Work has neither a resource scope nor a subject");
    }
    if let Some(scope) = scope {
        let matches = scope
            .resources
            .iter()
            .any(|selector| selector.selects(target, origin) && (subject.is_some() || selector.has_native_binding()));
        ensure!(matches, ClaimScopeInvalid, "no selector of the Work's resource scope permits the target");
    }
    Ok(())
}

fn read_target(node: Node<'_>) -> Result<Target, Fault> {
    let target = Target::read(node, Code::ClaimScopeInvalid)?;
    ensure!(
        target.host.as_ref().is_none_or(|host| host.as_str() == node.host()),
        ClaimScopeInvalid,
        "a target's host is not approved"
    );
    Ok(target)
}

/// Not empty, not absolute, and every part between slashes a plain name.
fn is_relative(path: &str) -> bool {
    !path.contains('\\') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// The same refusal under the one code that a scope has.
fn refused(fault: Fault) -> Fault {
    Fault::new(Code::ClaimScopeInvalid, fault.message().to_owned())
}
