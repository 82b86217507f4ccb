//! The way to the host: TLS with private authorities, proxies, and the three kinds of GitHub; and that a token is shown
//! nowhere on it.

use std::fs;
use std::io::{Read as _, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use wq_action::forge::endpoint::{RUN, USER};
use wq_action::forge::{Broken, Client, Forge as _, Host, HttpForge, Network, Posted, Request, Response};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::{Decimal, Token};

use crate::forge_http::{TOKEN, credential, name};
use crate::support::wire::{Authority, Proxy, Wire, answer};

/// A host with a path, as some servers of enterprises have it.
fn local(scheme: &str, port: u16) -> Host {
    Host::new(Some(&format!("{scheme}://127.0.0.1:{port}")), None, None).unwrap()
}

fn user(host: &Host, network: &Network) -> Result<Response, Broken> {
    HttpForge::new(host.clone(), credential(), network).unwrap().send(&Request::new(&USER, "/user".to_owned()))
}

/// A private authority is trusted when SSL_CERT_FILE or SSL_CERT_DIR has it, and not without; no other authority and
/// no other name will do, and plain HTTP is no TLS. Whoever is not trusted never sees a request.
#[test]
fn a_private_authority_is_trusted_when_it_is_named() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("ca.pem"), folder.path().join("other"));
    fs::write(&file, authority.pem()).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("other.pem"), Authority::new().pem()).unwrap();
    let wire = Wire::tls(&authority, &["127.0.0.1"], |_| answer(200, &[], "{}"));
    let host = local("https", wire.port());
    let variables = |name: &'static str, value: std::path::PathBuf| {
        Network::from_variables(&|asked| (asked == name).then(|| value.clone().into())).unwrap()
    };
    assert_eq!(user(&host, &Network::default()), Err(Broken::Untrusted));
    assert_eq!(user(&host, &variables("SSL_CERT_DIR", other.clone())), Err(Broken::Untrusted));
    assert_eq!(wire.seen().len(), 0);
    assert_eq!(user(&host, &variables("SSL_CERT_FILE", file)).unwrap().status, 200);
    fs::write(other.join("ca.pem"), authority.pem()).unwrap();
    let trusting = variables("SSL_CERT_DIR", other);
    assert_eq!(user(&host, &trusting).unwrap().status, 200);
    assert_eq!(wire.seen().len(), 2);

    let wire = Wire::tls(&authority, &["localhost"], |_| answer(200, &[], "{}"));
    assert_eq!(user(&local("https", wire.port()), &trusting), Err(Broken::Untrusted));
    assert_eq!(wire.seen().len(), 0);
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = plain.local_addr().unwrap().port();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        let mut bytes = vec![0; 16 * 1024];
        let count = stream.read(&mut bytes).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        bytes.truncate(count);
        bytes
    });
    assert_eq!(user(&local("https", port), &trusting), Err(Broken::Untrusted));
    assert!(!contains(&heard.join().unwrap(), TOKEN));
}

struct Place {
    network: Network,
    proxy: Proxy,
    wire: Wire,
    _folder: tempfile::TempDir,
}

/// A server under these names behind a proxy, which is the only way to it.
fn place(
    names: &[&str],
    script: impl Fn(&crate::support::wire::Seen) -> Vec<crate::support::wire::Step> + Send + Sync + 'static,
) -> Place {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, authority.pem()).unwrap();
    let wire = Wire::tls(&authority, names, script);
    let proxy = Proxy::to(Some(wire.port()));
    let network = Network { cert_file: Some(file), proxy: Some(proxy.url()), ..Network::default() };
    Place { network, proxy, wire, _folder: folder }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A proxy gets CONNECT with host and port, and its own password if it has one; the token passes inside TLS. Hosts of
/// NO_PROXY and plain HTTP on this machine go past it; a proxy that refuses makes the host unreachable.
#[test]
fn a_proxy_sees_host_and_port_alone() {
    let place = place(&["git.corp.example", "127.0.0.1"], |_| answer(200, &[], "{}"));
    let host = Host::new(Some("https://git.corp.example:8443"), None, None).unwrap();
    assert_eq!(user(&host, &place.network).unwrap().status, 200);
    let mut network = place.network.clone();
    network.proxy = Some(place.proxy.url().replace("//", "//worker:p%40ss@"));
    assert_eq!(user(&host, &network).unwrap().status, 200);
    assert_eq!(place.proxy.asked(), ["CONNECT git.corp.example:8443 HTTP/1.1"; 2]);
    let bytes = place.proxy.bytes();
    for bytes in &bytes {
        assert!(bytes.len() > 500, "the tunnel was recorded");
        for text in [TOKEN, "Bearer", "/user", "github+json"] {
            assert!(!contains(bytes, text), "{text}");
        }
    }
    let pair = base64::engine::general_purpose::STANDARD.encode("worker:p@ss");
    assert!(
        !contains(&bytes[0], "Proxy-Authorization")
            && contains(&bytes[1], &format!("Proxy-Authorization: Basic {pair}"))
    );
    let seen = place.wire.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.header("proxy-authorization").is_none()));

    // Past the proxy, to this machine.
    let direct = local("https", place.wire.port());
    network.no_proxy = "other.example,127.0.0.1".to_owned();
    assert_eq!(user(&direct, &network).unwrap().status, 200);
    network.no_proxy = String::new();
    let plain = Wire::plain(|_| answer(200, &[], "{}"));
    assert_eq!(user(&local("http", plain.port()), &network).unwrap().status, 200);
    assert_eq!(place.proxy.asked().len(), 2);
    // Without the exception even this machine is reached through it.
    assert_eq!(user(&direct, &network).unwrap().status, 200);
    assert_eq!(place.proxy.asked().len(), 3);

    let refusing = Proxy::to(None);
    network.proxy = Some(refusing.url());
    assert_eq!(user(&host, &network), Err(Broken::Unreachable));
    network.cert_file = None;
    network.proxy = Some(place.proxy.url());
    assert_eq!(user(&host, &network), Err(Broken::Untrusted));
    assert_eq!(place.wire.seen().len(), 4);
}

/// The three kinds of host, a server below a path and with a port among them: where each request goes, and that a
/// launch's answer must name the run by that host's URLs.
#[test]
fn every_kind_of_host_is_reached_at_its_own_urls() {
    let kinds = [
        (None, None, None, "api.github.com", "api.github.com:443", "", "/graphql"),
        (Some("https://octo.ghe.com"), None, None, "api.octo.ghe.com", "api.octo.ghe.com:443", "", "/graphql"),
        (
            Some("https://git.corp.example:8443/git"),
            Some("https://git.corp.example:8443/git/api/v3"),
            Some("https://git.corp.example:8443/git/api/graphql"),
            "git.corp.example",
            "git.corp.example:8443",
            "/git/api/v3",
            "/git/api/graphql",
        ),
    ];
    for (server, api, graphql, certified, address, prefix, queries) in kinds {
        let host = Host::new(server, api, graphql).unwrap();
        let page = host.html_url("octo/queue", "9");
        let details =
            format!(r#"{{"workflow_run_id":9,"run_url":"{}","html_url":"{page}"}}"#, host.run_url("octo/queue", "9"));
        let place = place(&[certified], move |seen| match seen.line.split(' ').nth(1).unwrap() {
            path if path.ends_with("/dispatches") => answer(200, &[], &details),
            path if path.ends_with("/graphql") => {
                answer(200, &[], r#"{"data":{"repository":{"nameWithOwner":"octo/queue","isEmpty":false}}}"#)
            }
            _ => answer(200, &[], r#"{"id":9007199254740993,"full_name":"octo/queue","default_branch":"main"}"#),
        });
        let forge = HttpForge::new(host, credential(), &place.network).unwrap();
        let clock = SimulatedClock::new(0);
        let client = Client::new(&forge, &clock);
        assert_eq!(client.repository(&name()).unwrap().id.as_str(), "9007199254740993");
        assert!(!client.is_empty(&name()).unwrap());
        let posted = client.dispatch(&name(), "w.lock.yml", "refs/tags/t", &[]);
        assert_eq!(posted, Posted::Accepted { run_id: Decimal::new("9").unwrap(), html_url: page });
        let lines: Vec<_> = place.wire.seen().iter().map(|seen| seen.line.clone()).collect();
        assert_eq!(
            lines,
            [
                format!("GET {prefix}/repos/octo/queue HTTP/1.1"),
                format!("POST {queries} HTTP/1.1"),
                format!("POST {prefix}/repos/octo/queue/actions/workflows/w.lock.yml/dispatches HTTP/1.1"),
            ]
        );
        assert!(place.proxy.asked().iter().all(|line| *line == format!("CONNECT {address} HTTP/1.1")), "{address}");
        // A read may share a connection with another; the launch has its own.
        assert_eq!(place.proxy.asked().len(), 1 + place.wire.seen()[1].connection);
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A host that throws the token back in every place it can: no log at the finest level, no error, no `Debug` form has
/// it, nor the repository's name or anything else of the host's text.
#[test]
fn a_token_is_shown_nowhere() {
    let echo = format!(r#"{{"message":"{TOKEN}","errors":[{{"type":"{TOKEN}","message":"{TOKEN}"}}]}}"#);
    let wire = Wire::plain(move |seen| {
        let status = if seen.line.contains("graphql") { 200 } else { 403 };
        let headers = [("location", TOKEN), ("x-accepted-github-permissions", TOKEN), ("retry-later", TOKEN)];
        answer(status, &headers, &echo)
    });
    let host = local("http", wire.port());
    let network = Network { proxy: Some(format!("http://u:{TOKEN}@127.0.0.1:9")), ..Network::default() };
    let forge = HttpForge::new(host, credential(), &network).unwrap();
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let mut shown = format!("{forge:?} {network:?} {:?}", Token::new(TOKEN).unwrap());
    tracing::subscriber::with_default(subscriber, || {
        let clock = SimulatedClock::new(0);
        let client = Client::new(&forge, &clock);
        let request = Request::new(&RUN, format!("/{TOKEN}")).with_body(TOKEN.to_owned());
        shown += &format!("{request:?}");
        for error in
            [client.repository(&name()).unwrap_err(), client.is_empty(&name()).unwrap_err(), client.user().unwrap_err()]
        {
            shown += &format!("{error} {error:?} {} {}", error.message(), error.action());
        }
        shown += &format!("{:?}", client.dispatch(&name(), "w.yml", "refs/tags/t", &[("a", TOKEN)]));
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("api answered"), "the log was captured");
    for text in [&shown, &log] {
        assert!(!text.contains("canary"), "{text}");
    }
    assert!(!log.contains("octo"), "{log}");
}
