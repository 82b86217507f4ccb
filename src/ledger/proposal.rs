//! The Policy that a first submission proposes (publication.md 6.4).

use super::error::LedgerError;
use crate::protocol::RepositoryName;
use crate::protocol::json::{Scanner, Writer};
use crate::protocol::policy::Policy;
use crate::protocol::{Code, Digest, Fault, ProfileName, Revision, Text, Wire as _};

/// Longest Policy proposal, in bytes.
const MAX_PROPOSAL_BYTES: usize = 4 * 1024 * 1024;

/// Reads a Policy from JSON text.
///
/// # Errors
/// `resource_limit` above 4 MiB, a codec code for text that is not JSON of the wire profile, `policy_invalid`.
pub fn read_policy(text: &str) -> Result<Policy, LedgerError> {
    if text.len() > MAX_PROPOSAL_BYTES {
        return Err(Fault::new(Code::ResourceLimit, "the Policy proposal is longer than 4 MiB").into());
    }
    // No member of a Policy names a resource, so no host is needed.
    let mut scanner = Scanner::new("");
    let text = Text::from(text);
    let document = scanner.read(&text)?;
    Ok(Policy::read(document.root(), Code::PolicyInvalid)?)
}

/// An approved worker of the default Policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its name; the compiled workflow is `.github/workflows/<name>.lock.yml`.
    pub name: ProfileName,
    /// The revision that its workflow is taken from.
    pub revision: Revision,
    /// Its contract stamp, if it has a valid one.
    pub contract: Option<Digest>,
}

/// The default Policy of an AW-managed queue: one pool, `default`, with the given workers; the first is the pool's
/// default.
///
/// # Errors
/// `policy_invalid` without a worker, or with a name that makes no workflow path.
pub fn default_policy(repository: &RepositoryName, workers: &[Worker]) -> Result<Policy, LedgerError> {
    let Some(first) = workers.first() else {
        return Err(Fault::new(Code::PolicyInvalid, "the default Policy needs a worker").into());
    };
    let mut profiles = Writer::new();
    profiles.object(|members| {
        for worker in workers {
            members.text(worker.name.text(), |w| write_profile(w, repository, worker));
        }
    });
    let mut default = Writer::new();
    default.string(first.name.as_str());
    let text = format!(
        concat!(
            r#"{{"accounting_weights":{{"":1}},"authorization":"aw","class_weights":[8,4,2,1,1],"#,
            r#""limits":{{"assignment_bytes":49152,"evidence_bytes":1024,"graph_nodes":4096,"#,
            r#""ledger_bytes":67108864,"observation_writes":4096,"operations":256,"payload_bytes":16384,"#,
            r#""pending_nodes":4096,"predecessors":64,"recovery_bytes":16777216,"result_bytes":4096}},"#,
            r#""mode":"weighted-priority","pools":{{"default":{{"allowed_repositories":["{repository}"],"#,
            r#""default_profile":{default},"logical_limit":16,"max_observation_age_ms":60000,"#,
            r#""native_limit":16,"profiles":{profiles},"#,
            r#""reconciliation":{{"deadline_ms":300000,"max_attempts":5}},"#,
            r#""retry":{{"backoff_ms":30000,"max_attempts":3}}}}}},"producers":{{}}}}"#
        ),
        repository = repository,
        default = default.finish(),
        profiles = profiles.finish(),
    );
    read_policy(&text)
}

fn write_profile(writer: &mut Writer, repository: &RepositoryName, worker: &Worker) {
    writer.object(|members| {
        members.name("credential_scope", |w| w.string("repository"));
        members.name("effect_scope", |w| w.string(repository.as_str()));
        if let Some(contract) = &worker.contract {
            members.name("logical_contract", |w| w.string(contract.as_str()));
        }
        members.name("max_claims", |w| w.integer(1));
        members.name("ref", |w| w.string(worker.revision.as_str()));
        members.name("share_keys", |w| w.bool(false));
        members.name("trust_domain", |w| w.string("default"));
        members.name("workflow", |w| w.string(&format!(".github/workflows/{}.lock.yml", worker.name)));
    });
}

#[cfg(test)]
mod tests {
    use super::{Worker, default_policy};
    use crate::protocol::RepositoryName;
    use crate::protocol::{Code, Digest, ProfileName, Revision};

    #[test]
    fn the_default_policy_has_its_published_digest() {
        let repository = RepositoryName::new("owner/repo").unwrap();
        let worker = Worker {
            name: ProfileName::new("worker").unwrap(),
            revision: Revision::new("f".repeat(40)).unwrap(),
            contract: Some(Digest::new("a".repeat(64)).unwrap()),
        };
        let policy = default_policy(&repository, &[worker]).unwrap();
        assert_eq!(policy.source.len(), 954);
        let digest = Digest::of(&[policy.source.as_str()]);
        assert_eq!(digest.as_str(), "c2da57e2d4b797f574c5902e5acfef081191676549354e6b8f20a1a1f9b020ac");
        assert_eq!(default_policy(&repository, &[]).unwrap_err().code(), Code::PolicyInvalid);
    }
}
