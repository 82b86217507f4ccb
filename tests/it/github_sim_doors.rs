//! The simulated GitHub through both doors, in process and over HTTP: the same faults, the same world, Git included.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wq_action::forge::endpoint::{REPOSITORY, RUN};
use wq_action::forge::{Broken, Client, Forge as _, Request};
use wq_action::ports::SimulatedClock;

use crate::support::git::git_command;
use crate::support::github::{
    Endpoint, Faults, Github, JOB, LAUNCH, OCTO_WIDGETS, Options, Port, READER, Server, Strike, Transport, VERSION,
};

const DISPATCH: &str = "/repos/octo/widgets/actions/workflows/worker.lock.yml/dispatches";

fn dispatch_of(dispatch: &str) -> Value {
    let assignment = json!({"dispatch_id": dispatch}).to_string();
    json!({"ref": "main", "inputs": {"work_queue_assignment": assignment}})
}

/// What comes back over a raw connection: everything until it ends, or none if it hangs longer than a moment.
fn raw(server: &Server, method: &str, target: &str, token: &str, body: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         X-GitHub-Api-Version: {VERSION}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok().map(|_| bytes)
}

/// Status, announced and received length of an answer; none without a whole head.
fn whole(bytes: &[u8]) -> Option<(u16, usize, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|text| text.parse().ok());
    Some((head[9..12].parse().ok()?, length.unwrap_or(0), bytes.len() - end - 4))
}

/// Each fault does what it says: what arrives, whether the world acted, and how often. In process and over HTTP alike.
#[test]
fn every_fault_does_what_it_says_through_both_doors() {
    for (number, strike) in Strike::every().into_iter().enumerate() {
        let github = Github::standard();
        let hang = Duration::from_secs(20);
        let server = github.serve(Options { hang, ..Options::default() });
        let dispatch = format!("d_{number}");
        let body = dispatch_of(&dispatch);
        let acted = match strike {
            Strike::Duplicate => 2,
            _ => usize::from(strike.acts()),
        };
        github.faults(Faults::next(Endpoint::Dispatch, strike.clone()));
        let inside = github.post(LAUNCH, DISPATCH, &body);
        assert_eq!(github.runs_of_dispatch(&dispatch).len(), acted, "{strike:?}");
        github.faults(Faults::next(Endpoint::Dispatch, strike.clone()));
        let outside = raw(&server, "POST", DISPATCH, LAUNCH, &body.to_string());
        assert_eq!(github.runs_of_dispatch(&dispatch).len(), 2 * acted, "{strike:?}");
        assert_eq!(github.posts_of_dispatch(&dispatch), 2);
        match inside.fault {
            Transport::Deliver | Transport::Delay(_) => {
                let (status, announced, received) = whole(&outside.unwrap()).unwrap();
                assert_eq!((status, received), (inside.status, announced), "{strike:?}");
            }
            Transport::DropBefore | Transport::DropAfter => assert_eq!(outside, Some(Vec::new()), "{strike:?}"),
            Transport::Reset => assert_eq!(whole(&outside.unwrap()), None, "{strike:?}"),
            Transport::Timeout => assert_eq!(outside, None, "{strike:?}"),
            Transport::Truncate(_) => {
                let (status, announced, received) = whole(&outside.unwrap()).unwrap();
                assert!(status == 200 && received > 0 && received < announced, "{strike:?}");
            }
        }
        let id = inside.header("x-github-request-id");
        match strike {
            Strike::Status(status) | Strike::StatusAfter(status) => {
                assert_eq!((inside.status, id.is_some()), (status, true))
            }
            Strike::StatusWithoutId(status) => assert_eq!((inside.status, id), (status, None)),
            Strike::SecondaryLimit(_) => assert_eq!((inside.status, inside.header("retry-after")), (403, Some("1"))),
            Strike::PrimaryLimit(_) => assert_eq!(inside.header("x-ratelimit-remaining"), Some("0")),
            Strike::Garbage => assert_eq!((inside.status, inside.json()), (200, Value::Null)),
            Strike::WrongShape => assert!(inside.json().is_array()),
            Strike::Html => assert_eq!((inside.status, id), (502, None)),
            _ => {}
        }
        assert_eq!(github.post(LAUNCH, DISPATCH, &body).status, 200, "a fault strikes once: {strike:?}");
    }
}

/// Faults by chance come again from their seed, and by rule at the call that is named.
#[test]
fn fault_plans_repeat() {
    let statuses = |seed: u64| {
        let github = Github::standard();
        github.faults(Faults::seeded(seed, 300, &Strike::every()));
        (0..200).map(|_| github.get(JOB, "/repos/octo/widgets").status).collect::<Vec<_>>()
    };
    assert_eq!(statuses(7), statuses(7));
    assert_ne!(statuses(7), statuses(8));
    let github = Github::standard();
    github.faults(Faults::default().and(Endpoint::Repository, 3, 2, Strike::Status(503)).outage(
        6,
        1,
        Strike::Status(500),
    ));
    let seen: Vec<_> = (0..7).map(|_| github.get(JOB, "/repos/octo/widgets").status).collect();
    assert_eq!(seen, [200, 200, 503, 503, 200, 500, 200]);
    let log = github.log();
    assert_eq!((log.len(), log[2].status, log[2].handled, log[3].fault.is_some()), (7, Some(503), 0, true));
    assert_eq!((github.calls(Endpoint::Repository), log[0].version.as_deref()), (7, Some(VERSION)));
}

/// The hour's calls end, and begin again with the next hour of the simulated clock.
#[test]
fn rate_limits_follow_the_simulated_clock() {
    let github = Github::standard();
    github.rate_limit(2);
    let ask = || github.get(JOB, "/repos/octo/widgets");
    assert_eq!((ask().status, ask().status), (200, 200));
    let refused = ask();
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining")), (403, Some("0")));
    assert_eq!(github.get(READER, "/repos/octo/widgets").status, 200);
    github.advance(3_600_000);
    assert_eq!(ask().header("x-ratelimit-remaining"), Some("1"));
    assert_eq!(github.skewed(-600_000).get(READER, "/meta").at, github.now() - 600_000);
}

/// The port `Forge` over the simulated world, as our own client uses it.
#[test]
fn the_client_speaks_to_the_simulated_world() {
    let github = Github::standard();
    let clock = SimulatedClock::new(github.now());
    let forge = Port::new(&github, JOB, &clock);
    let client = Client::new(&forge, &clock);
    let name = wq_action::protocol::RepositoryName::new(OCTO_WIDGETS).unwrap();
    assert!(!client.is_empty(&name).unwrap());
    let repository = client.repository(&name).unwrap();
    assert_eq!(repository.id.as_str(), github.repository_id(OCTO_WIDGETS).to_string());
    let send = |strike: Strike| {
        github.faults(Faults::next(Endpoint::Repository, strike));
        forge.send(&Request::new(&REPOSITORY, "/repos/octo/widgets".to_owned()))
    };
    assert_eq!(send(Strike::DropAfter), Err(Broken::Interrupted));
    assert_eq!(send(Strike::HalfBody), Err(Broken::Interrupted));
    assert_eq!(send(Strike::TimeoutBefore), Err(Broken::Timeout));
    let limited = send(Strike::SecondaryLimit(7)).unwrap();
    assert_eq!((limited.status, limited.headers.retry_after), (403, Some(7)));
    forge.rotate("worthless");
    let refused = forge.send(&Request::new(&RUN, "/repos/octo/widgets/actions/runs/1".to_owned())).unwrap();
    assert_eq!((refused.status, refused.headers.request_id.is_some()), (401, true));
    assert_eq!(refused.headers.date.map(|at| at.get()), Some(github.now()));
}

/// One world behind two servers and in process; Git over HTTP with the token's own rights; tags made by the API are
/// there for Git, and commits pushed by Git for the API.
#[test]
fn git_and_rest_see_one_repository() {
    let (github, bare) = Github::standard_with_git();
    github.make_private(OCTO_WIDGETS);
    let (first, second) = (github.serve(Options::default()), github.serve(Options::default()));
    let sha = github.head(OCTO_WIDGETS, "main").unwrap();
    assert_eq!(bare.resolve("refs/heads/main"), Some(sha.clone()));
    let git = |server: &Server, token: &str, arguments: &[&str]| {
        let url = format!("http://x-access-token:{token}@127.0.0.1:{}/octo/widgets.git", server.port());
        let mut command = git_command(&bare.path());
        command.env("GIT_TERMINAL_PROMPT", "0").args(arguments[..1].iter()).arg(url).args(&arguments[1..]);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let tag = format!("refs/tags/gh-aw/work-queue/{sha}");
    let body = json!({"ref": tag, "sha": sha}).to_string();
    let made = raw(&first, "POST", "/repos/octo/widgets/git/refs", LAUNCH, &body).unwrap();
    assert_eq!(whole(&made).unwrap().0, 201);
    assert!(String::from_utf8_lossy(&made).contains(first.api_url()), "replies carry the server's own address");
    let (listed, refs) = git(&second, READER, &["ls-remote"]);
    assert!(listed && refs.contains(&tag), "{refs}");
    assert!(!git(&first, "worthless", &["ls-remote"]).0);
    assert!(!git(&first, READER, &["push", "refs/heads/main:refs/heads/theirs"]).0);
    assert!(git(&first, JOB, &["push", "refs/heads/main:refs/heads/ours"]).0);
    assert_eq!(github.head(OCTO_WIDGETS, "ours"), Some(sha));
    let blob = bare.blob(b"pushed\n");
    let tree = bare.tree(&[("100644", "pushed.txt", &blob)]);
    let commit = bare.commit("pushed", &tree, &[]);
    let target = format!("/repos/octo/widgets/contents/pushed.txt?ref={commit}");
    assert_eq!(github.get(READER, &target).json()["size"], 7);
    let body = dispatch_of("d_1");
    assert_eq!(whole(&raw(&second, "POST", DISPATCH, LAUNCH, &body.to_string()).unwrap()).unwrap().0, 200);
    assert_eq!(github.runs_of_dispatch("d_1").len(), 1);
    github.faults(Faults::next(Endpoint::GitFetch, Strike::Status(503)));
    assert!(!git(&first, READER, &["ls-remote"]).0);
}

/// Fast enough for years of simulated days, with every call held against the schemas.
#[test]
fn thousands_of_calls_a_second() {
    let github = Github::standard();
    github.keep_calls(100);
    let run = github.post(LAUNCH, DISPATCH, &dispatch_of("d_1")).json()["workflow_run_id"].as_u64().unwrap();
    let target = format!("/repos/octo/widgets/actions/runs/{run}/attempts/1");
    let started = Instant::now();
    for _ in 0..5000 {
        assert_eq!(github.get(JOB, &target).status, 200);
    }
    let rate = 5000.0 / started.elapsed().as_secs_f64();
    crate::support::tell!("the simulated GitHub answers {rate:.0} reads of a run a second");
    assert!(github.log().len() <= 200 && github.all_calls() == 5001);
}
