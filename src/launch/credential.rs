//! For whom a launch is sent (lifecycle.md 8.2, jobs.md 5.3.1). The account behind the launch credential becomes the
//! worker's principal, so it is looked up with the very client that will send the POST, and shown for one profile.

use crate::forge::{AccountKind, Client};
use crate::protocol::fault::ensure;
use crate::protocol::policy::WorkerProfile;
use crate::protocol::{Code, Decimal, Fault, TokenProvider};

/// Longest slug of an App, in bytes.
const MAX_SLUG_BYTES: usize = 100;

/// What protected configuration says about the launch credential. It is read before any client is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// The workflow's own token.
    GithubToken,
    /// A token of the App with this slug.
    GithubApp(String),
    /// A personal token, or another one with an account.
    Authenticated,
}

impl CredentialKind {
    /// Reads `kind` and `app_slug` of `work_queue_dispatch_credential`.
    ///
    /// # Errors
    /// `work_queue_dispatch_credential_kind_invalid` for an unknown kind,
    /// `work_queue_dispatch_app_metadata_missing` unless an App has a slug `[A-Za-z0-9][A-Za-z0-9-]{0,99}`,
    /// `work_queue_dispatch_credential_metadata_conflict` for a slug beside another kind.
    pub fn new(kind: &str, app_slug: Option<&str>) -> Result<Self, Fault> {
        let plain = match kind {
            "github_token" => Self::GithubToken,
            "authenticated" => Self::Authenticated,
            "github_app" => {
                let slug = app_slug.filter(|slug| is_slug(slug));
                return slug
                    .map(|slug| Self::GithubApp(slug.to_owned()))
                    .ok_or_else(|| Code::WorkQueueDispatchAppMetadataMissing.into());
            }
            _ => return Err(Code::WorkQueueDispatchCredentialKindInvalid.into()),
        };
        match app_slug {
            None => Ok(plain),
            Some(_) => Err(Code::WorkQueueDispatchCredentialMetadataConflict.into()),
        }
    }

    /// The login that the account must have, where the kind fixes it.
    fn login(&self) -> Option<String> {
        match self {
            Self::GithubToken => Some("github-actions[bot]".to_owned()),
            Self::GithubApp(slug) => Some(format!("{slug}[bot]")),
            Self::Authenticated => None,
        }
    }
}

fn is_slug(slug: &str) -> bool {
    slug.len() <= MAX_SLUG_BYTES
        && slug.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && slug.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The client that sends launches, and what shows for whom. It is another one than the queue's, even with one token.
#[derive(Clone)]
pub struct LaunchClient<'a> {
    client: Client<'a>,
    kind: Option<CredentialKind>,
    selected: Option<TokenProvider>,
}

impl<'a> LaunchClient<'a> {
    /// A client with the kind of its credential, and the token that protected configuration selects for it, which a
    /// workflow's or App's token is compared with.
    #[must_use]
    pub fn new(client: Client<'a>, kind: Option<CredentialKind>, selected: Option<TokenProvider>) -> Self {
        Self { client, kind, selected }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> Client<'a> {
        self.client
    }

    /// Shows for whom this client launches a worker of this profile.
    ///
    /// # Errors
    /// `work_queue_dispatch_credential_` with `validator_required` (no kind), `binding_required` (no selected token),
    /// `token_invalid` (it is no token), `auth_unavailable` (the client does not tell its own), `client_mismatch` (it
    /// is another), `identity_unavailable` (the account could not be read), `identity_unverified` (it is of another
    /// kind or name), or `principal_mismatch` (the profile names another account).
    pub fn prove(&self, profile: &WorkerProfile) -> Result<CredentialProof<'a>, Fault> {
        let kind = self.kind.as_ref().ok_or(Code::WorkQueueDispatchCredentialValidatorRequired)?;
        let principal = self.principal(kind)?;
        let agreed = profile.principal.as_ref().is_none_or(|stated| *stated == principal);
        let code = Code::WorkQueueDispatchCredentialPrincipalMismatch;
        ensure!(agreed, WorkQueueDispatchCredentialPrincipalMismatch, code.meaning());
        Ok(CredentialProof { client: self.client, profile: profile.clone(), principal })
    }

    fn principal(&self, kind: &CredentialKind) -> Result<Decimal, Fault> {
        let unavailable = |error: crate::forge::ForgeError| {
            Fault::new(Code::WorkQueueDispatchCredentialIdentityUnavailable, error.message())
        };
        let (account, verified) = match kind.login() {
            Some(login) => {
                // The account exists whoever asks: only the token shows that it is this client's.
                self.check_token()?;
                let account = self.client.account(&login).map_err(unavailable)?;
                let verified = account.kind == AccountKind::Bot && account.login == login;
                (account, verified)
            }
            None => {
                let account = self.client.user().map_err(unavailable)?;
                let verified = matches!(account.kind, AccountKind::User | AccountKind::Bot);
                (account, verified)
            }
        };
        let code = Code::WorkQueueDispatchCredentialIdentityUnverified;
        ensure!(verified, WorkQueueDispatchCredentialIdentityUnverified, code.meaning());
        Ok(account.id)
    }

    /// The client's own token is the selected one. Both are asked for now, because tokens rotate.
    fn check_token(&self) -> Result<(), Fault> {
        let selected = self.selected.as_ref().ok_or(Code::WorkQueueDispatchCredentialBindingRequired)?;
        let selected = selected().map_err(|_| Fault::from(Code::WorkQueueDispatchCredentialTokenInvalid))?;
        let holds = self.client.holds(&selected).ok_or(Code::WorkQueueDispatchCredentialAuthUnavailable)?;
        let code = Code::WorkQueueDispatchCredentialClientMismatch;
        ensure!(holds, WorkQueueDispatchCredentialClientMismatch, code.meaning());
        Ok(())
    }
}

/// The proof for whom a client launches a worker of a profile. It lives in this process, for this client alone.
#[derive(Clone)]
pub struct CredentialProof<'a> {
    client: Client<'a>,
    profile: WorkerProfile,
    principal: Decimal,
}

impl CredentialProof<'_> {
    /// The account that launches.
    #[must_use]
    pub fn principal(&self) -> &Decimal {
        &self.principal
    }

    /// True if the proof is of this very client and profile.
    #[must_use]
    pub fn is_for(&self, client: Client<'_>, profile: &WorkerProfile) -> bool {
        self.client.is_same(client) && self.profile == *profile
    }

    /// The account, if the proof is of this very client and profile.
    ///
    /// # Errors
    /// `work_queue_dispatch_credential_proof_invalid` otherwise.
    pub fn principal_for(&self, client: Client<'_>, profile: &WorkerProfile) -> Result<&Decimal, Fault> {
        let code = Code::WorkQueueDispatchCredentialProofInvalid;
        ensure!(self.is_for(client, profile), WorkQueueDispatchCredentialProofInvalid, code.meaning());
        Ok(&self.principal)
    }
}
