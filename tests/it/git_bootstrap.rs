//! First submissions in repositories without a branch, behind a real Git server: what confirms that there is none, the
//! default branch that is made first, and what is verified in between.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use serde_json::json;
use wq_action::engine::Projection;
use wq_action::launch::confirm::confirm_empty;
use wq_action::ledger::commit_object::Author;
use wq_action::ledger::proposal::{Worker, default_policy};
use wq_action::ledger::{
    Admit, Ambiguity, Bounds, Branch, Class, ConfirmEmpty, GitTransport, LedgerError, Outcome, Proposal, Publication,
    Publisher, PushOutcome, Queue, Retries, Setup, Transport,
};
use wq_action::ports::{SimulatedClock, SystemEntropy};
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::policy::Policy;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, ProfileName, RepositoryName, RequestId, Revision, Token};

use crate::support::answers::Answers;
use crate::support::git::{Bare, NOW, real_git};
use crate::support::http_git::{At, Fault, HttpGit};
use crate::support::ledger::typed;
use crate::support::queue::{Meddling, REPOSITORY, actor, dispatch, node, policy, request, submission, submit};

const TOKEN: &str = "ghs_therighttoken";
const QUEUE: &str = "refs/heads/work-queue";
const MAIN: &str = "refs/heads/main";

/// An empty repository behind a server, and one way to it.
struct Empty {
    bare: Bare,
    server: HttpGit,
    clock: SimulatedClock,
}

impl Empty {
    fn new() -> Self {
        let bare = Bare::new();
        bare.git(&["config", "http.receivepack", "true"]);
        let server = HttpGit::serve(bare.around(), TOKEN);
        Self { bare, server, clock: SimulatedClock::new(NOW) }
    }

    fn transport(&self) -> GitTransport {
        let provider = Arc::new(|| Token::new(TOKEN));
        real_git().transport(self.server.remote("queue.git"), Some(provider), Bounds::default())
    }

    fn publisher<'a>(&'a self, transport: &'a dyn Transport, confirm: Option<&'a ConfirmEmpty<'a>>) -> Publisher<'a> {
        self.publisher_of(transport, confirm, "work-queue")
    }

    fn publisher_of<'a>(
        &'a self,
        transport: &'a dyn Transport,
        confirm_empty: Option<&'a ConfirmEmpty<'a>>,
        branch: &str,
    ) -> Publisher<'a> {
        Publisher::new(Setup {
            transport,
            branch: Branch::new(branch).unwrap(),
            repository: RepositoryName::new(REPOSITORY).unwrap(),
            host: "github.com".into(),
            author: Author::Runtime,
            clock: &self.clock,
            entropy: &SystemEntropy,
            retries: Retries::default(),
            confirm_empty,
        })
        .unwrap()
    }

    /// One invocation of a job: a confirmed repository, its default branch's name, and a judgement.
    fn invoke(&self, request: &FrozenRequest, admit: &Admit<'_>) -> Result<Publication, LedgerError> {
        self.invoke_over(&self.transport(), request, admit)
    }

    fn invoke_over(
        &self,
        transport: &dyn Transport,
        request: &FrozenRequest,
        admit: &Admit<'_>,
    ) -> Result<Publication, LedgerError> {
        let policy = policy();
        let proposal = Proposal { policy: &policy, default_branch: Some("main"), admit: Some(admit) };
        first(&mut self.publisher(transport, Some(&|| self.is_empty())), request, &proposal)
    }

    /// What the service says.
    fn is_empty(&self) -> Result<bool, LedgerError> {
        Ok(self.bare.git(&["for-each-ref", "refs/heads"]).is_empty())
    }

    fn branches(&self) -> Vec<String> {
        self.bare.git(&["for-each-ref", "--format=%(refname)"]).lines().map(str::to_owned).collect()
    }

    /// Pushes that the server saw.
    fn pushes(&self) -> usize {
        self.server.seen().iter().filter(|seen| seen.contains("/git-receive-pack?")).count()
    }
}

fn first(
    publisher: &mut Publisher<'_>,
    request: &FrozenRequest,
    proposal: &Proposal<'_>,
) -> Result<Publication, LedgerError> {
    publisher.publish(request, Some(proposal), &mut |projection, scanner, at| {
        projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
    })
}

fn anything(_: &Projection) -> Result<(), LedgerError> {
    Ok(())
}

fn unverifiable(_: &Projection) -> Result<(), LedgerError> {
    let action = "Deploy the worker, then retry the same submission.";
    Err(LedgerError::new(Code::PolicyMissing, Class::Invalid, "a worker route cannot be verified", action))
}

fn now(publication: &Publication) -> bool {
    matches!(publication.outcome, Outcome::PublishedNow { .. })
}

/// S-202, S-617: a server that shows no branch has an absent queue only if the service, asked for exactly this
/// repository, says that it is empty. No answer, another repository's answer or `isEmpty: false` is no absence, and
/// neither is a denial of Git's own; nothing is written for any of them.
#[test]
fn publication_07_absence_needs_the_services_confirmation() {
    let empty = Empty::new();
    let before = empty.bare.contents();
    let transport = empty.transport();
    let mut unasked = empty.publisher(&transport, None);
    assert!(matches!(unasked.read(), Ok(Queue::EmptyRepository)));
    assert_eq!(unasked.read_present().unwrap_err().code(), Code::RepositoryUnavailable);
    let refused = unasked.publish_request(&submit("a"), Some(&policy())).unwrap_err();
    assert_eq!(refused.code(), Code::RepositoryUnavailable);

    let name = RepositoryName::new(REPOSITORY).unwrap();
    let says = |name: &str, is_empty: bool| {
        (200, json!({"data": {"repository": {"nameWithOwner": name, "isEmpty": is_empty}}}))
    };
    let read = |answer| {
        let mut host = Answers::new();
        host.by_target.insert(String::new(), answer);
        let confirm = || confirm_empty(host.client(), &name);
        let mut publisher = empty.publisher(&transport, Some(&confirm));
        let read = publisher.read().map_err(|error| (error.code(), error.class()));
        let written = publisher.publish_request(&submit("a"), None).unwrap_err().code();
        (read.map(|queue| matches!(queue, Queue::Absent)), written)
    };
    let unavailable = |class| (Err((Code::RepositoryUnavailable, class)), Code::RepositoryUnavailable);
    assert_eq!(read(says(REPOSITORY, true)), (Ok(true), Code::PolicyMissing));
    assert_eq!(read(says("Local/Queue", true)), (Ok(true), Code::PolicyMissing), "as the host spells it");
    assert_eq!(read(says(REPOSITORY, false)), unavailable(Class::Unavailable));
    assert_eq!(read(says("local/other", true)), unavailable(Class::Unavailable));
    assert_eq!(read((200, json!({"data": {"repository": null}}))), unavailable(Class::Unavailable));
    assert_eq!(read((403, json!({}))), unavailable(Class::Denied));
    assert_eq!(read((502, json!({}))), unavailable(Class::Unavailable));
    assert_eq!(read((0, json!({}))), unavailable(Class::Unavailable));

    let unneeded = || panic!("a denial is not asked about");
    empty.server.fail_next(At::ReadAdvertisement, Fault::Status(403));
    let denied = empty.publisher(&transport, Some(&unneeded)).read().unwrap_err();
    assert_eq!(
        (denied.code(), denied.class(), denied.status()),
        (Code::RepositoryUnavailable, Class::Denied, Some(403))
    );
    assert_eq!(empty.bare.contents(), before);
}

/// O-368, O-370, S-177, S-203: the first valid submission makes the default branch with its one file, and then the queue
/// branch, a separate one whose first commit holds Policy and Work. The default branch is there only after both were
/// validated, and is made once.
#[test]
fn publication_09_the_first_submission_prepares_an_empty_repository() {
    for role in [Role::Producer, Role::Dispatcher] {
        let empty = Empty::new();
        let invalid = submission("bad", role, &[node("g", "a", "{}").replace(r#""pool":"default""#, r#""pool":"x""#)]);
        assert!(empty.invoke(&invalid, &|_| panic!("nothing is judged that is not valid")).is_err());
        assert_eq!((empty.branches(), empty.pushes()), (vec![], 0));
        let seen = RefCell::new(Vec::new());
        let request = submission("submit", role, &[node("g", "a", "{}"), node("g", "b", "{}")]);
        let publication = empty.invoke(&request, &|next| {
            assert!(next.installed().is_some_and(|installed| installed.policy.source == policy().source));
            seen.borrow_mut().push((next.works().len(), empty.branches()));
            Ok(())
        });
        assert!(now(&publication.unwrap()));
        assert_eq!(seen.take(), [(2, vec![MAIN.to_owned()])], "judged once, before there is a queue branch");
        let git = |arguments: &[&str]| empty.bare.git(arguments);
        assert_eq!(git(&["ls-tree", "-r", "--name-only", MAIN]), ".gh-aw/work-queue-bootstrap");
        let text = git(&["cat-file", "blob", "main:.gh-aw/work-queue-bootstrap"]);
        assert!(text.contains("authoritative queue ledger") && text.is_ascii() && text.lines().count() == 1);
        assert_eq!(git(&["log", "--format=%P|%B", MAIN]).trim_end(), "|Initialize repository for work queue");
        assert_eq!(git(&["log", "--format=%P|%s", QUEUE]), "|Publish checked fair work queue request");
        assert_eq!(git(&["ls-tree", "-r", "--name-only", QUEUE]), "work-queue.jsonl");
        let ledger = empty.bare.ledger();
        assert_eq!(ledger.lines().count(), 1);
        assert_eq!(ledger.matches(r#""kind":"Policy""#).count(), 1);
        git(&["fsck", "--strict"]);
        let (main, pushes) = (empty.bare.resolve(MAIN), empty.pushes());
        assert!(now(&empty.invoke(&submit("next"), &unverifiable).unwrap()), "no route is asked about any more");
        assert_eq!((empty.bare.resolve(MAIN), empty.pushes()), (main, pushes + 1), "one push");
    }
}

/// O-371, S-183, S-617: whatever is no producer's or dispatcher's submission makes nothing, judges no route and prepares
/// no repository; a Policy alone is no first commit.
#[test]
fn publication_08_nothing_else_prepares_a_repository() {
    let empty = Empty::new();
    let before = empty.bare.contents();
    let judged = Cell::new(0);
    let admit = |_: &Projection| {
        judged.set(judged.get() + 1);
        Ok(())
    };
    let refused = |request: &FrozenRequest| empty.invoke(request, &admit).unwrap_err().code();
    for role in [Role::Administrator, Role::Reconciler, Role::Projector] {
        let code = refused(&submission("s", role, &[node("g", "a", "{}")]));
        let expected = if role == Role::Administrator { Code::QueueMissing } else { Code::ActorUnauthorized };
        assert_eq!(code, expected, "{role:?}");
    }
    let worker: Actor = typed(
        r#"{"role":"worker","principal":"1","repository":"local/queue","workflow":"w.yml","run_id":"1",
        "run_attempt":1,"dispatch_id":"d"}"#,
    );
    let nodes = format!(r#"{{"nodes":[{}]}}"#, node("g", "a", "{}"));
    let worker = FrozenRequest::new(RequestId::new("w").unwrap(), RequestKind::Submit, worker, &nodes).unwrap();
    assert_eq!(refused(&worker), Code::ClaimScopeInvalid);
    assert_eq!(refused(&dispatch("d")), Code::QueueMissing);
    let epoch = format!(r#"{{"operations":[{{"epoch":"e","kind":"Policy","policy":{}}}]}}"#, policy().source.as_str());
    for (kind, parameters) in [
        (RequestKind::Policy, epoch.as_str()),
        (RequestKind::Control, r#"{"operations":[{"control":"grants_paused","kind":"Control","value":true}]}"#),
        (RequestKind::CancelWork, r#"{"operations":[{"kind":"CancelWork","reason":"r","work_id":"w"}]}"#),
    ] {
        assert_eq!(refused(&request("r", kind, Role::Administrator, parameters)), Code::QueueMissing, "{kind:?}");
    }
    // Every kind but a submission, by every role: whatever its parameters, there is no queue that it could be about.
    let any = r#"{"operations":[]}"#;
    let mut tried = 0;
    for kind in RequestKind::ALL.iter().copied().filter(|kind| *kind != RequestKind::Submit) {
        for role in [Role::Producer, Role::Dispatcher, Role::Administrator, Role::Reconciler, Role::Projector] {
            let Ok(request) = FrozenRequest::new(RequestId::new("k").unwrap(), kind, actor(role), any) else {
                continue;
            };
            assert!(empty.invoke(&request, &admit).is_err(), "{kind:?} by {role:?}");
            tried += 1;
        }
    }
    assert!(tried >= RequestKind::ALL.len(), "{tried}");
    let none = request("e", RequestKind::Submit, Role::Producer, r#"{"nodes":[]}"#);
    assert_eq!(refused(&none), Code::RequestInvalid);
    let transport = empty.transport();
    let confirm = || empty.is_empty();
    let mut publisher = empty.publisher(&transport, Some(&confirm));
    assert!(matches!(publisher.read(), Ok(Queue::Absent)));
    assert_eq!(publisher.read_present().unwrap_err().code(), Code::QueueMissing);
    assert_eq!((judged.get(), empty.pushes()), (0, 0));
    assert_eq!(empty.bare.contents(), before);
}

/// S-206, S-207, S-180, S-617: a route that cannot be verified ends the invocation with the default branch alone; after
/// the worker is deployed, the same request publishes Policy and Work in one commit and prepares nothing again.
#[test]
fn publication_09_an_unverifiable_route_leaves_no_queue() {
    let empty = Empty::new();
    for round in 0..2 {
        let error = empty.invoke(&submit("one"), &unverifiable).unwrap_err();
        assert_eq!((error.code(), error.exit()), (Code::PolicyMissing, 2), "round {round}");
        assert_eq!(empty.branches(), [MAIN]);
    }
    let (main, pushes) = (empty.bare.resolve(MAIN), empty.pushes());
    let publication = empty.invoke(&submit("one"), &anything).unwrap();
    assert!(now(&publication));
    assert_eq!((empty.bare.resolve(MAIN), empty.pushes()), (main, pushes + 1));
    assert_eq!(publication.current.projection.works().len(), 1);
    assert_eq!(empty.bare.ledger().lines().count(), 1);
}

/// S-204, O-372, S-617: a queue branch that is, contains or lies inside the empty repository's default branch is refused
/// before anything is written, and so is a default branch of a name that is not made here. Without a default branch
/// the queue would become it, so that is refused too.
#[test]
fn publication_09_queue_and_default_branch_are_never_one() {
    let empty = Empty::new();
    let before = empty.bare.contents();
    let (policy, transport) = (policy(), empty.transport());
    let confirm = || empty.is_empty();
    let refused = |queue: &str, default_branch: Option<&str>| {
        let admit = |_: &Projection| panic!("nothing is judged");
        let proposal = Proposal { policy: &policy, default_branch, admit: Some(&admit) };
        let mut publisher = empty.publisher_of(&transport, Some(&confirm), queue);
        first(&mut publisher, &submit("a"), &proposal).unwrap_err().code()
    };
    for (queue, default_branch) in [
        ("main", "main"),
        ("work-queue", "work-queue"),
        ("main/queue", "main"),
        ("main", "main/trunk"),
        ("work-queue", "-x"),
        ("work-queue", "a b"),
        ("work-queue", "*"),
        ("work-queue", "główna"),
        ("work-queue", ""),
    ] {
        assert_eq!(refused(queue, Some(default_branch)), Code::BranchInvalid, "{queue} {default_branch}");
    }
    assert_eq!(refused("work-queue", None), Code::RepositoryUnavailable);
    assert_eq!(empty.pushes(), 0);
    assert_eq!(empty.bare.contents(), before);
}

/// S-205, S-617: after a preparation without an answer the default branch is looked at again. It is there: the
/// submission goes on. It is not there, or cannot be read: nothing proceeds, and the same submission publishes later.
#[test]
fn publication_09_a_lost_preparation_is_looked_at_again() {
    for fault in [Fault::DropAfter, Fault::StatusAfter(502), Fault::HalfAnswer] {
        let empty = Empty::new();
        empty.server.fail_next(At::Push, fault);
        assert!(now(&empty.invoke(&submit("one"), &anything).unwrap()), "{fault:?}");
        assert_eq!(empty.branches(), [MAIN, QUEUE]);
    }
    for fault in [Fault::DropBefore, Fault::Status(500)] {
        let empty = Empty::new();
        empty.server.fail_next(At::Push, fault);
        let error = empty.invoke(&submit("one"), &|_| panic!("nothing proceeds")).unwrap_err();
        assert_eq!((error.code(), error.class(), error.exit()), (Code::RepositoryUnavailable, Class::Unknown, 5));
        assert_eq!(empty.branches(), [""; 0], "{fault:?}");
        assert!(now(&empty.invoke(&submit("one"), &anything).unwrap()));
    }
    let empty = Empty::new();
    let mut unreadable = Meddling::new(empty.transport());
    unreadable.report = Box::new(|_, _| PushOutcome::Ambiguous(Ambiguity::NoReport));
    // The read, the look before the preparation, and then the look after it.
    unreadable.blind = Box::new(|number| number == 2);
    let error = empty.invoke_over(&unreadable, &submit("one"), &|_| panic!("nothing proceeds")).unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::RepositoryUnavailable, Class::Unknown));
    assert_eq!(*unreadable.reads.borrow(), 3);
    assert_eq!(empty.branches(), [MAIN], "it was made all the same");
    assert!(now(&empty.invoke(&submit("one"), &anything).unwrap()));
}

/// S-184, S-617: a server that refuses the preparation, or the queue branch after it, is a denial after one push;
/// nobody's permissions are asked for.
#[test]
fn a_refused_preparation_is_a_denial() {
    let empty = Empty::new();
    empty.bare.hook("pre-receive", "#!/bin/sh\nexit 1\n");
    let error = empty.invoke(&submit("one"), &|_| panic!("nothing proceeds")).unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::PublicationDenied, Class::Denied));
    assert_eq!((empty.branches(), empty.pushes()), (vec![], 1));
    empty.bare.hook("pre-receive", "#!/bin/sh\nread old new name\ntest \"$name\" = refs/heads/main\n");
    let error = empty.invoke(&submit("one"), &anything).unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::PublicationDenied, Class::Denied));
    assert_eq!(empty.branches(), [MAIN]);
}

/// S-195: submissions that meet in an empty repository, while it is prepared or after it, land both Works once, under
/// the Policy of the one that made the queue.
#[test]
fn publication_10_concurrent_first_submissions_land_once_each() {
    for meeting in [0, 1] {
        let empty = Empty::new();
        let mut racing = Meddling::new(empty.transport());
        racing.before_push = Box::new(|number| {
            if number == meeting {
                assert!(now(&empty.invoke(&submit("winner"), &anything).unwrap()));
            }
        });
        let judged = Cell::new(0);
        let admit = |_: &Projection| {
            judged.set(judged.get() + 1);
            Ok(())
        };
        let other = policy().source.as_str().replace("[8,4,2,1,1]", "[1,1,1,1,1]");
        let other: Policy = wq_action::ledger::proposal::read_policy(&other).unwrap();
        let proposal = Proposal { policy: &other, default_branch: Some("main"), admit: Some(&admit) };
        let confirm = || empty.is_empty();
        let mut publisher = empty.publisher(&racing, Some(&confirm));
        let publication = first(&mut publisher, &submit("loser"), &proposal).unwrap();
        assert!(now(&publication), "{meeting}");
        let projection = &publication.current.projection;
        let ids: Vec<_> = projection.requests().map(|accepted| accepted.request_id.to_string()).collect();
        assert_eq!((ids, projection.works().len()), (vec!["winner".to_owned(), "loser".to_owned()], 2));
        assert_eq!(projection.installed().unwrap().policy.source, policy().source);
        assert_eq!(empty.bare.ledger().matches(r#""kind":"Policy""#).count(), 1);
        assert_eq!(empty.bare.git(&["rev-list", "--count", MAIN]), "1");
        assert_eq!(judged.get(), 1, "the second attempt is an ordinary submission");
    }
}

/// S-231: routes are verified anew on every attempt that would make the queue, and never for a request that is found
/// committed, even if its route is gone since.
#[test]
fn routes_are_verified_on_every_first_attempt_alone() {
    let empty = Empty::new();
    assert_eq!(empty.invoke(&submit("one"), &unverifiable).unwrap_err().code(), Code::PolicyMissing);
    let judged = Cell::new(0);
    let gone_later = |_: &Projection| {
        judged.set(judged.get() + 1);
        if judged.get() == 1 { Ok(()) } else { unverifiable_now() }
    };
    empty.server.fail_next(At::Push, Fault::DropBefore);
    let error = empty.invoke(&submit("one"), &gone_later).unwrap_err();
    assert_eq!((error.code(), judged.get()), (Code::PolicyMissing, 2));
    assert_eq!(empty.branches(), [MAIN]);
    empty.server.fail_next(At::Push, Fault::DropAfter);
    judged.set(0);
    let publication = empty.invoke(&submit("one"), &gone_later).unwrap();
    assert!(matches!(publication.outcome, Outcome::Recovered { .. }));
    let again = empty.invoke(&submit("one"), &gone_later).unwrap();
    assert!(matches!(again.outcome, Outcome::AlreadyCommitted { .. }));
    assert_eq!(judged.get(), 1);
}

fn unverifiable_now() -> Result<(), LedgerError> {
    Err(LedgerError::new(Code::PolicyMissing, Class::Invalid, "the route is gone", "Deploy the worker."))
}

/// S-186: of 31 workers 30 are broken. A first submission to the good one passes, because only the routes of submitted
/// Work are looked at; one that names a broken one, even among others, writes nothing. Later submissions ask for none.
#[test]
fn only_submitted_routes_count() {
    let named = |number: usize| format!("worker-{number:02}");
    let workers: Vec<_> = (0..31)
        .map(|number| Worker {
            name: ProfileName::new(named(number)).unwrap(),
            revision: Revision::new("f".repeat(40)).unwrap(),
            contract: None,
        })
        .collect();
    let policy = default_policy(&RepositoryName::new(REPOSITORY).unwrap(), &workers).unwrap();
    let to = |key: &str, number: usize| {
        let profile = format!(r#""worker_profile":"{}""#, named(number));
        node("g", key, "{}").replace(r#""worker_profile":"worker""#, &profile)
    };
    let empty = Empty::new();
    let admit = |next: &Projection| {
        let good = |name: &ProfileName| name.as_str() == "worker-17";
        match next.works().all(|work| good(&work.work.worker_profile)) {
            true => Ok(()),
            false => unverifiable_now(),
        }
    };
    let transport = empty.transport();
    let confirm = || empty.is_empty();
    let proposal = Proposal { policy: &policy, default_branch: Some("main"), admit: Some(&admit) };
    let submit = |id: &str, nodes: &[String]| {
        let mut publisher = empty.publisher(&transport, Some(&confirm));
        first(&mut publisher, &submission(id, Role::Producer, nodes), &proposal)
    };
    let error = submit("both", &[to("a", 17), to("b", 3)]).unwrap_err();
    assert_eq!((error.code(), empty.bare.resolve(QUEUE)), (Code::PolicyMissing, None));
    assert!(now(&submit("good", &[to("a", 17)]).unwrap()));
    let broken = submission("broken", Role::Producer, &[to("b", 3)]);
    let mut publisher = empty.publisher(&transport, Some(&confirm));
    assert!(now(&first(&mut publisher, &broken, &proposal).unwrap()), "an ordinary submission asks for no route");
}
