//! A smart-HTTP Git server on loopback: `git http-backend` behind a few lines of HTTP, with basic authentication and
//! faults on demand.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use wq_action::ledger::Remote;

use super::git::{feed, git_command};

/// Which request a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// `GET …/info/refs?service=git-upload-pack`.
    ReadAdvertisement,
    /// `POST …/git-upload-pack`.
    Read,
    /// `GET …/info/refs?service=git-receive-pack`.
    PushAdvertisement,
    /// `POST …/git-receive-pack`.
    Push,
}

/// What happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Answers with a status, without looking at the request.
    Status(u16),
    /// Closes the connection before the request is acted on.
    DropBefore,
    /// Acts on the request and closes the connection without an answer.
    DropAfter,
    /// Acts on the request and answers with a status.
    StatusAfter(u16),
    /// Acts on the request and sends half of the answer.
    HalfAnswer,
}

struct Shared {
    root: PathBuf,
    token: String,
    faults: Mutex<Vec<(At, Fault)>>,
    seen: Mutex<Vec<String>>,
}

/// The server. It lives as long as the test's process.
pub(crate) struct HttpGit {
    shared: Arc<Shared>,
    port: u16,
}

/// A request, with header names in lower case.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn kind(&self) -> Option<At> {
        match (self.path.ends_with("/info/refs"), self.query.as_str()) {
            (true, "service=git-upload-pack") => Some(At::ReadAdvertisement),
            (true, "service=git-receive-pack") => Some(At::PushAdvertisement),
            _ if self.path.ends_with("/git-upload-pack") => Some(At::Read),
            _ if self.path.ends_with("/git-receive-pack") => Some(At::Push),
            _ => None,
        }
    }
}

impl HttpGit {
    /// Serves the repositories below a directory to whoever has the token.
    pub(crate) fn serve(root: &Path, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            root: root.to_owned(),
            token: token.to_owned(),
            faults: Mutex::default(),
            seen: Mutex::default(),
        });
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&server);
                std::thread::spawn(move || serve_one(&shared, stream));
            }
        });
        Self { shared, port }
    }

    /// The address of one repository.
    pub(crate) fn remote(&self, repository: &str) -> Remote {
        Remote::url(&format!("http://127.0.0.1:{}/{repository}", self.port)).unwrap()
    }

    /// Strikes the next request of a kind.
    pub(crate) fn fail_next(&self, at: At, fault: Fault) {
        self.shared.faults.lock().unwrap().push((at, fault));
    }

    /// The method, path and query of each request so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().clone()
    }
}

/// Reads one request off a connection.
pub(super) fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((target.as_str(), ""));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let mut request = Request { method, path: path.to_owned(), query: query.to_owned(), headers, body: Vec::new() };
    if request.header("expect").is_some() {
        (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    if request.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            if size == 0 {
                break;
            }
            request.body.extend_from_slice(&chunk[..size]);
        }
    } else if let Some(length) = request.header("content-length").and_then(|length| length.parse::<usize>().ok()) {
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).ok()?;
    }
    Some(request)
}

fn answer(mut stream: &TcpStream, status: u16, headers: &str, body: &[u8]) {
    let head =
        format!("HTTP/1.1 {status} Status\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
}

fn serve_one(shared: &Shared, stream: TcpStream) {
    let Some(request) = read_request(&stream) else { return };
    let kind = request.kind();
    shared.seen.lock().unwrap().push(format!("{} {}?{}", request.method, request.path, request.query));
    let fault = {
        let mut faults = shared.faults.lock().unwrap();
        let index = faults.iter().position(|(at, _)| Some(*at) == kind);
        index.map(|index| faults.remove(index).1)
    };
    match fault {
        Some(Fault::Status(status)) => return answer(&stream, status, "", b"an answer that nobody may print"),
        Some(Fault::DropBefore) => return,
        _ => {}
    }
    let expected = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{}", shared.token));
    if request.header("authorization").is_none_or(|given| given != format!("basic {expected}")) {
        return answer(&stream, 401, "WWW-Authenticate: Basic realm=\"git\"\r\n", b"");
    }
    let (status, headers, body) = backend(&shared.root, &request);
    match fault {
        Some(Fault::DropAfter) => {}
        Some(Fault::StatusAfter(status)) => answer(&stream, status, "", b""),
        Some(Fault::HalfAnswer) => {
            let head = format!("HTTP/1.1 {status} Status\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
            let _ = (&stream).write_all(head.as_bytes());
            let _ = (&stream).write_all(&body[..body.len() / 2]);
        }
        _ => answer(&stream, status, &headers, &body),
    }
}

/// Runs `git http-backend` over the repositories below a directory and takes its CGI answer apart.
pub(super) fn backend(root: &Path, request: &Request) -> (u16, String, Vec<u8>) {
    let mut command = git_command(root);
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", &request.path)
        .env("QUERY_STRING", &request.query)
        .env("REMOTE_USER", "somebody")
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("CONTENT_LENGTH", request.body.len().to_string());
    for (header, variable) in [
        ("content-type", "CONTENT_TYPE"),
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        if let Some(value) = request.header(header) {
            command.env(variable, value);
        }
    }
    let output = feed(command, &request.body).stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").map_or(output.len(), |at| at + 4);
    let (mut status, mut headers) = (200, String::new());
    for line in String::from_utf8_lossy(&output[..end]).lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("Status: ") {
            Some(given) => status = given[..3].parse().unwrap(),
            None => headers.push_str(&format!("{line}\r\n")),
        }
    }
    (status, headers, output[end..].to_vec())
}
