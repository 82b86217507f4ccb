//! For whom a launch is sent (lifecycle.md 8.2).

use std::sync::Arc;

use serde_json::{Value, json};
use wq_action::launch::credential::{CredentialKind, LaunchClient};
use wq_action::protocol::identity::Within;
use wq_action::protocol::policy::WorkerProfile;
use wq_action::protocol::{Code, Decimal, Identity, Revision, Token, TokenProvider};

use crate::support::answers::Answers;

const ACTIONS: &str = "/users/github-actions%5Bbot%5D";

fn profile(principal: Option<&str>) -> WorkerProfile {
    let identity = |text: &str| Identity::new(text).unwrap();
    WorkerProfile {
        workflow: identity(".github/workflows/worker.lock.yml"),
        revision: Revision::new("a".repeat(40)).unwrap(),
        trust_domain: identity("default"),
        credential_scope: identity("repository"),
        effect_scope: identity("octo/queue"),
        principal: principal.map(|id| Decimal::new(id).unwrap()),
        logical_contract: None,
        max_claims: Within::new(1).unwrap(),
        share_keys: false,
    }
}

fn provider(token: &'static str) -> Option<TokenProvider> {
    Some(Arc::new(move || Token::new(token)))
}

/// A host that knows both bots and a person, behind a client that holds `token`.
fn host(token: Option<&str>) -> Answers {
    let account = |id: u64, login: &str, kind: &str| json!({"id": id, "login": login, "type": kind});
    let mut host = Answers::new()
        .with(ACTIONS, account(41, "github-actions[bot]", "Bot"))
        .with("/users/my-app%5Bbot%5D", account(55, "my-app[bot]", "Bot"))
        .with("/user", account(7, "monalisa", "User"));
    host.token = token.map(|token| Token::new(token).unwrap());
    host
}

fn kind(kind: &str, slug: Option<&str>) -> Result<CredentialKind, Code> {
    CredentialKind::new(kind, slug).map_err(|fault| fault.code())
}

fn principal(host: &Answers, of: CredentialKind, selected: Option<TokenProvider>) -> Result<String, Code> {
    let launch = LaunchClient::new(host.client(), Some(of), selected);
    let proof = launch.prove(&profile(None)).map_err(|fault| fault.code())?;
    Ok(proof.principal().as_str().to_owned())
}

/// S-290: metadata that are missing, unknown, contradictory or out of bounds are refused as they are read, from their
/// text alone: there is no client yet, and nothing to publish.
#[test]
fn metadata_are_checked_before_there_is_a_client() {
    assert_eq!(kind("github_token", None), Ok(CredentialKind::GithubToken));
    assert_eq!(kind("authenticated", None), Ok(CredentialKind::Authenticated));
    for other in ["", "token", "GITHUB_TOKEN"] {
        assert_eq!(kind(other, None), Err(Code::WorkQueueDispatchCredentialKindInvalid));
    }
    for plain in ["github_token", "authenticated"] {
        assert_eq!(kind(plain, Some("my-app")), Err(Code::WorkQueueDispatchCredentialMetadataConflict));
    }
    let most = "a".repeat(100);
    for slug in ["a", "0-A", "my-app", &most] {
        assert_eq!(kind("github_app", Some(slug)), Ok(CredentialKind::GithubApp(slug.to_owned())));
    }
    let over = "a".repeat(101);
    for slug in [None, Some(""), Some("-a"), Some("a_b"), Some("a b"), Some("a[bot]"), Some("ä"), Some(&over)] {
        assert_eq!(kind("github_app", slug), Err(Code::WorkQueueDispatchAppMetadataMissing), "{slug:?}");
    }
}

/// The principal of a launch is the account behind the launch credential, looked up with the client that will
/// send it; who started the job is not asked.
#[test]
fn the_principal_is_the_account_behind_the_token() {
    let host = host(Some("t-1"));
    assert_eq!(principal(&host, CredentialKind::GithubToken, provider("t-1")).as_deref(), Ok("41"));
    let app = CredentialKind::GithubApp("my-app".to_owned());
    assert_eq!(principal(&host, app, provider("t-1")).as_deref(), Ok("55"));
    assert_eq!(principal(&host, CredentialKind::Authenticated, None).as_deref(), Ok("7"));
    assert_eq!(host.asked(), [ACTIONS, "/users/my-app%5Bbot%5D", "/user"]);
}

/// A bot's account exists whoever asks, so a workflow's or App's token must also be the selected one: nothing is read
/// before that is shown.
#[test]
fn a_bots_token_is_the_selected_one() {
    let held = host(Some("t-1"));
    let bot = |host: &Answers, selected| principal(host, CredentialKind::GithubToken, selected).unwrap_err();
    assert_eq!(bot(&held, None), Code::WorkQueueDispatchCredentialBindingRequired);
    assert_eq!(bot(&held, provider("")), Code::WorkQueueDispatchCredentialTokenInvalid);
    assert_eq!(bot(&held, provider("a\nb")), Code::WorkQueueDispatchCredentialTokenInvalid);
    assert_eq!(bot(&held, provider("t-2")), Code::WorkQueueDispatchCredentialClientMismatch);
    assert_eq!(bot(&host(None), provider("t-1")), Code::WorkQueueDispatchCredentialAuthUnavailable);
    assert_eq!(held.asked(), [""; 0]);
    let most: &'static str = "t".repeat(16_384).leak();
    assert!(principal(&host(Some(most)), CredentialKind::GithubToken, provider(most)).is_ok());
    let over: &'static str = "t".repeat(16_385).leak();
    assert_eq!(bot(&held, provider(over)), Code::WorkQueueDispatchCredentialTokenInvalid);
    let unknown = LaunchClient::new(held.client(), None, provider("t-1")).prove(&profile(None));
    assert_eq!(unknown.map(drop).unwrap_err().code(), Code::WorkQueueDispatchCredentialValidatorRequired);
}

/// The account has the kind and the name that the metadata say; what cannot be read is no identity.
#[test]
fn the_account_has_the_stated_kind_and_name() {
    let answered = |target: &str, answer: (u16, Value), of: CredentialKind| {
        let mut host = host(Some("t-1"));
        host.by_target.insert(target.to_owned(), answer);
        principal(&host, of, provider("t-1")).unwrap_err()
    };
    let account = |login: &str, kind: &str| (200, json!({"id": 41, "login": login, "type": kind}));
    let unverified = Code::WorkQueueDispatchCredentialIdentityUnverified;
    for answer in
        [account("github-actions[bot]", "User"), account("github-actions", "Bot"), account("other[bot]", "Bot")]
    {
        assert_eq!(answered(ACTIONS, answer, CredentialKind::GithubToken), unverified);
    }
    let organization = account("octo", "Organization");
    assert_eq!(answered("/user", organization, CredentialKind::Authenticated), unverified);
    for status in [401, 403, 404, 500, 0] {
        let code = Code::WorkQueueDispatchCredentialIdentityUnavailable;
        assert_eq!(answered(ACTIONS, (status, Value::Null), CredentialKind::GithubToken), code);
        assert_eq!(answered("/user", (status, Value::Null), CredentialKind::Authenticated), code);
    }
    let unnumbered = (200, json!({"id": "41", "login": "github-actions[bot]", "type": "Bot"}));
    let code = Code::WorkQueueDispatchCredentialIdentityUnavailable;
    assert_eq!(answered(ACTIONS, unnumbered, CredentialKind::GithubToken), code);
}

/// S-291, O-207: a proof is of one client and one profile; with another of either it is none. A profile that names its
/// principal is proven only for that account.
#[test]
fn a_proof_is_of_one_client_and_one_profile() {
    let (ours, other) = (host(Some("t-1")), host(Some("t-1")));
    let launch = LaunchClient::new(ours.client(), Some(CredentialKind::GithubToken), provider("t-1"));
    let proof = launch.prove(&profile(None)).unwrap();
    assert!(proof.is_for(ours.client(), &profile(None)));
    assert_eq!(proof.principal_for(launch.client(), &profile(None)).unwrap().as_str(), "41");
    let mut newer = profile(None);
    newer.revision = Revision::new("b".repeat(40)).unwrap();
    for (client, profile) in
        [(other.client(), profile(None)), (ours.client(), newer), (ours.client(), profile(Some("41")))]
    {
        assert!(!proof.is_for(client, &profile));
        let code = proof.principal_for(client, &profile).unwrap_err().code();
        assert_eq!(code, Code::WorkQueueDispatchCredentialProofInvalid);
    }
    assert!(launch.prove(&profile(Some("41"))).is_ok());
    let refused = launch.prove(&profile(Some("7"))).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::WorkQueueDispatchCredentialPrincipalMismatch);
    for secret in [refused.to_string(), format!("{:?}", Token::new("t-1"))] {
        assert!(!secret.contains("t-1"), "{secret}");
    }
}
