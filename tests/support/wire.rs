//! A scripted server on loopback, with or without TLS of a private authority, and a proxy: for tests that need every
//! byte and every connection in their hands.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A certificate authority that nobody knows.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// A new one.
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "private authority");
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Its certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    fn server(&self, names: &[&str]) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Request line.
    pub(crate) line: String,
    /// Headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Body.
    pub(crate) body: Vec<u8>,
    /// Number of the connection, from 1.
    pub(crate) connection: usize,
}

impl Seen {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What the server does with a request, step by step. The connection ends after the last step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one, with so many milliseconds between.
    Drip(Vec<u8>, u64),
    /// Waits so many milliseconds.
    Pause(u64),
    /// Waits for the next request on this connection.
    Keep,
}

/// An answer with a body and the length of it, as the steps that send it. It says that the connection ends with it, so
/// that nobody uses one that is about to.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Step> {
    respond(status, headers, body, "connection: close\r\n")
}

/// The same answer on a connection that stays.
pub(crate) fn kept(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Step> {
    let mut steps = respond(status, headers, body, "");
    steps.push(Step::Keep);
    steps
}

fn respond(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>, ending: &str) -> Vec<Step> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: {}\r\n{ending}", body.len());
    for (name, value) in headers {
        bytes += &format!("{name}: {value}\r\n");
    }
    let mut bytes = (bytes + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}

type Script = dyn Fn(&Seen) -> Vec<Step> + Send + Sync;

struct Shared {
    script: Box<Script>,
    tls: Option<Arc<ServerConfig>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
}

/// The server. It lives as long as the test's process.
pub(crate) struct Wire {
    shared: Arc<Shared>,
    port: u16,
}

impl Wire {
    /// Plain HTTP.
    pub(crate) fn plain(script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::serve(Box::new(script), None)
    }

    /// HTTPS under these names.
    pub(crate) fn tls(
        authority: &Authority,
        names: &[&str],
        script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Box::new(script), Some(authority.server(names)))
    }

    fn serve(script: Box<Script>, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { script, tls, seen: Mutex::default(), connections: AtomicUsize::new(0) });
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&server);
                std::thread::spawn(move || {
                    let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                    match &shared.tls {
                        Some(config) => {
                            let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                            let mut stream = StreamOwned::new(connection, stream);
                            converse(&shared, &mut stream, number);
                            stream.conn.send_close_notify();
                            let _ = stream.flush();
                        }
                        None => converse(&shared, &mut { stream }, number),
                    }
                });
            }
        });
        Self { shared, port }
    }

    /// Its port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }
}

fn converse(shared: &Shared, stream: &mut (impl Read + Write), connection: usize) {
    while let Some(seen) = read_request(stream, connection) {
        shared.seen.lock().unwrap().push(seen.clone());
        let mut keep = false;
        for step in (shared.script)(&seen) {
            let sent = match step {
                Step::Send(bytes) => stream.write_all(&bytes),
                Step::Drip(bytes, millis) => bytes.iter().try_for_each(|byte| {
                    std::thread::sleep(Duration::from_millis(millis));
                    stream.write_all(&[*byte]).and_then(|()| stream.flush())
                }),
                Step::Pause(millis) => {
                    std::thread::sleep(Duration::from_millis(millis));
                    Ok(())
                }
                Step::Keep => {
                    keep = true;
                    Ok(())
                }
            };
            if sent.and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
        if !keep {
            return;
        }
    }
}

fn read_request(stream: &mut impl Read, connection: usize) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let mut lines = lines.into_iter();
    let line = lines.next()?;
    let split = |line: String| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    let mut seen = Seen { line, headers: lines.filter_map(split).collect(), body: Vec::new(), connection };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    seen.body = vec![0; length];
    reader.read_exact(&mut seen.body).ok()?;
    Some(seen)
}

/// A proxy for CONNECT that leads every name to one port of this machine.
pub(crate) struct Proxy {
    port: u16,
    bytes: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Proxy {
    /// Leads to this port; or refuses everything, without one.
    pub(crate) fn to(target: Option<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bytes = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
        let record = Arc::clone(&bytes);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let record = Arc::clone(&record);
                std::thread::spawn(move || tunnel(stream, target, &record));
            }
        });
        Self { port, bytes }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// For each connection everything that a client sent: the CONNECT request, then the tunnel's bytes.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        self.bytes.lock().unwrap().clone()
    }

    /// The request line of each connection.
    pub(crate) fn asked(&self) -> Vec<String> {
        let first = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
        self.bytes().iter().map(first).collect()
    }
}

fn tunnel(mut client: TcpStream, target: Option<u16>, record: &Mutex<Vec<Vec<u8>>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let number = {
        let mut record = record.lock().unwrap();
        record.push(head);
        record.len() - 1
    };
    let Some(target) = target else {
        return client.write_all(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n").ok();
    };
    let mut server = TcpStream::connect(("127.0.0.1", target)).ok()?;
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").ok()?;
    let (mut back_from, mut back_to) = (server.try_clone().ok()?, client.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(std::net::Shutdown::Both);
    });
    let mut buffer = [0; 4096];
    loop {
        let count = client.read(&mut buffer).ok()?;
        if count == 0 {
            let _ = server.shutdown(std::net::Shutdown::Write);
            return Some(());
        }
        record.lock().unwrap()[number].extend_from_slice(&buffer[..count]);
        server.write_all(&buffer[..count]).ok()?;
    }
}
