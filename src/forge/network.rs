//! What the surroundings say about the way to the host: certificate authorities and a proxy (lifecycle.md 0.3; issue 3,
//! forge). The bundled authorities are always trusted as well.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use ureq::Proxy;
use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

use crate::protocol::fault::ensure;
use crate::protocol::{Code, Fault};

/// Most bytes of one file of certificates.
const MAX_CERTIFICATE_BYTES: u64 = 4 * 1024 * 1024;
/// Most files that are read below `SSL_CERT_DIR`.
const MAX_CERTIFICATE_FILES: usize = 4096;
/// Longest proxy URL and longest list of exceptions, in bytes.
const MAX_PROXY_BYTES: usize = 4096;

/// Certificate authorities and a proxy. Empty by default: the bundled authorities and no proxy.
#[derive(Clone, Default)]
pub struct Network {
    /// A file of certificate authorities in PEM form.
    pub cert_file: Option<PathBuf>,
    /// Directories with such files.
    pub cert_directories: Vec<PathBuf>,
    /// `http` or `https` URL of the proxy for `https` hosts, with a name and password if it needs them.
    pub proxy: Option<String>,
    /// Hosts that are reached without it, separated by commas: `host`, `.domain`, `*.domain`, `host:port`, or `*`. A
    /// name stands for the names below it too.
    pub no_proxy: String,
}

/// Shows no path and no password.
impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("cert_file", &self.cert_file.is_some())
            .field("cert_directories", &self.cert_directories.len())
            .field("proxy", &self.proxy.is_some())
            .finish_non_exhaustive()
    }
}

impl Network {
    /// From `SSL_CERT_FILE`, `SSL_CERT_DIR`, `https_proxy` or `HTTPS_PROXY`, and `no_proxy` or `NO_PROXY`. Empty
    /// variables count as absent.
    ///
    /// # Errors
    /// `settings_invalid` if a variable of the proxy is no UTF-8.
    pub fn from_environment() -> Result<Self, Fault> {
        Self::from_variables(&|name| env::var_os(name))
    }

    /// As [`Network::from_environment`], from any source of variables.
    ///
    /// # Errors
    /// As [`Network::from_environment`].
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Fault> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |names: [&str; 2]| -> Result<Option<String>, Fault> {
            let value = names.iter().find_map(|name| given(name));
            value.map(OsString::into_string).transpose().map_err(|_| {
                Fault::new(
                    Code::SettingsInvalid,
                    "a proxy variable of the environment is no UTF-8; correct or unset it",
                )
            })
        };
        Ok(Self {
            cert_file: given("SSL_CERT_FILE").map(PathBuf::from),
            cert_directories: given("SSL_CERT_DIR")
                .map(|list| env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect())
                .unwrap_or_default(),
            // Lower case first, as curl and so git do.
            proxy: text(["https_proxy", "HTTPS_PROXY"])?,
            no_proxy: text(["no_proxy", "NO_PROXY"])?.unwrap_or_default(),
        })
    }

    /// The bundled authorities together with those of the files.
    pub(super) fn roots(&self) -> Result<RootCerts, Fault> {
        let bundled = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| der.as_ref().to_vec());
        let mut found: BTreeSet<Vec<u8>> = bundled.collect();
        if let Some(file) = &self.cert_file {
            let certificates = certificates(file).filter(|found| !found.is_empty());
            let Some(certificates) = certificates else {
                return Err(Fault::new(
                    Code::SettingsInvalid,
                    "SSL_CERT_FILE names no readable file of PEM certificates of at most 4 MiB; correct or unset it",
                ));
            };
            found.extend(certificates);
        }
        let mut files = 0;
        for directory in &self.cert_directories {
            let Ok(entries) = fs::read_dir(directory) else {
                return Err(Fault::new(
                    Code::SettingsInvalid,
                    "SSL_CERT_DIR names a directory that cannot be read; correct or unset it",
                ));
            };
            for entry in entries.flatten() {
                files += 1;
                ensure!(
                    files <= MAX_CERTIFICATE_FILES,
                    SettingsInvalid,
                    "SSL_CERT_DIR holds more than 4,096 files; name a directory of certificates alone"
                );
                // Such directories hold other files too: revocation lists, links to nowhere.
                found.extend(certificates(&entry.path()).unwrap_or_default());
            }
        }
        Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).into())
    }

    /// The proxy for these `https` URLs; none where there is none or every one of them is an exception.
    pub(super) fn proxy(&self, urls: [&str; 2]) -> Result<Option<Proxy>, Fault> {
        let Some(url) = self.proxy.as_deref() else { return Ok(None) };
        let invalid = || {
            Fault::new(Code::SettingsInvalid, "HTTPS_PROXY holds no http or https URL of a proxy; correct or unset it")
        };
        ensure!(
            url.len() <= MAX_PROXY_BYTES && self.no_proxy.len() <= MAX_PROXY_BYTES,
            SettingsInvalid,
            "HTTPS_PROXY or NO_PROXY is longer than 4,096 bytes; shorten it"
        );
        let given = Proxy::new(url).map_err(|_| invalid())?;
        // The library takes the usual port for one that is no number.
        let address = given.uri().authority().map_or("", |authority| authority.as_str());
        let port = address.rsplit(['@', ']']).next().and_then(|rest| rest.split_once(':'));
        if !matches!(given.protocol(), ureq::ProxyProtocol::Http | ureq::ProxyProtocol::Https)
            || port.is_some_and(|(_, port)| port.parse::<u16>().is_err())
        {
            return Err(invalid());
        }
        let mut proxy = Proxy::builder(given.protocol()).host(given.host()).port(given.port());
        if let Some(name) = given.username() {
            proxy = proxy.username(name);
        }
        if let Some(password) = given.password() {
            proxy = proxy.password(password);
        }
        // Which hosts are exceptions is decided here, once, by the rules that git's transport has too.
        for url in urls {
            let (name, port) = destination(url);
            // Plain http is there on this machine alone, and no proxy stands between.
            if url.starts_with("http:") || self.is_exception(&name, port) {
                proxy = proxy.no_proxy(&name);
            }
        }
        proxy.build().map(Some).map_err(|_| invalid())
    }

    fn is_exception(&self, name: &str, port: u16) -> bool {
        let bare = |name: &str| name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let name = bare(name);
        self.no_proxy.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
            if entry == "*" {
                return true;
            }
            let entry = match entry.rsplit_once(':') {
                // One colon is a port; several are an address of IPv6.
                Some((host, number)) if !host.contains(':') || host.ends_with(']') => {
                    if number.parse() != Ok(port) {
                        return false;
                    }
                    host
                }
                _ => entry,
            };
            let entry = bare(entry);
            let entry = entry.trim_start_matches('*').trim_start_matches('.');
            let below = || name.strip_suffix(entry).is_some_and(|head| head.ends_with('.'));
            !entry.is_empty() && (name == entry || below())
        })
    }
}

/// Host and port of a base URL.
fn destination(url: &str) -> (String, u16) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let authority = rest.split('/').next().unwrap_or(rest);
    let usual = if scheme == "http" { 80 } else { 443 };
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host.to_owned(), port.parse().unwrap_or(usual)),
        _ => (authority.to_owned(), usual),
    }
}

/// The certificates of a PEM file, in DER; none if it is no readable regular file within the bound.
fn certificates(path: &Path) -> Option<Vec<Vec<u8>>> {
    // Asked before the file is opened: opening a pipe would wait.
    let kind = fs::metadata(path).ok()?;
    if !kind.is_file() || kind.len() > MAX_CERTIFICATE_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_CERTIFICATE_BYTES).read_to_end(&mut bytes).ok()?;
    let items = parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate.der().to_vec()),
        _ => None,
    });
    Some(items.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ureq::tls::RootCerts;

    use super::{MAX_CERTIFICATE_BYTES, MAX_CERTIFICATE_FILES, MAX_PROXY_BYTES, Network};
    use crate::protocol::Code;

    fn count(network: &Network) -> usize {
        match network.roots().unwrap() {
            RootCerts::Specific(certificates) => certificates.len(),
            _ => 0,
        }
    }

    fn refused(network: &Network) -> String {
        let fault = network.roots().unwrap_err();
        assert_eq!(fault.code(), Code::SettingsInvalid);
        fault.message().to_owned()
    }

    fn pem(name: &str) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap().pem()
    }

    /// Files add to the bundled authorities, each authority once; a directory's other files are passed over.
    #[test]
    fn files_add_to_the_bundled_authorities() {
        let folder = tempfile::tempdir().unwrap();
        let bundled = count(&Network::default());
        assert!(bundled > 50, "{bundled}");
        let (one, two) = (pem("one"), pem("two"));
        let file = folder.path().join("one.pem");
        fs::write(&file, format!("# a comment\n{one}\n{two}")).unwrap();
        let mut network = Network { cert_file: Some(file), ..Network::default() };
        assert_eq!(count(&network), bundled + 2);
        fs::write(folder.path().join("again.0"), &two).unwrap();
        fs::write(folder.path().join("three.0"), pem("three")).unwrap();
        fs::write(folder.path().join("README"), "no certificate").unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        network.cert_directories = vec![folder.path().to_owned()];
        assert_eq!(count(&network), bundled + 3);
    }

    /// A file or directory that was named but gives nothing is an error, and so is each bound when it is passed.
    #[test]
    fn authorities_have_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("empty.pem"), "nothing").unwrap();
        fs::write(at("large.pem"), pem("large")).unwrap();
        let large = fs::OpenOptions::new().write(true).open(at("large.pem")).unwrap();
        let file = |name: &str| Network { cert_file: Some(at(name)), ..Network::default() };
        large.set_len(MAX_CERTIFICATE_BYTES).unwrap();
        assert!(file("large.pem").roots().is_ok());
        large.set_len(MAX_CERTIFICATE_BYTES + 1).unwrap();
        for name in ["large.pem", "empty.pem", "absent.pem", "."] {
            assert!(refused(&file(name)).contains("SSL_CERT_FILE"), "{name}");
        }
        let crowd = at("crowd");
        fs::create_dir(&crowd).unwrap();
        for number in 0..MAX_CERTIFICATE_FILES {
            fs::write(crowd.join(number.to_string()), "").unwrap();
        }
        let network = Network { cert_directories: vec![crowd.clone()], ..Network::default() };
        assert!(network.roots().is_ok());
        fs::write(crowd.join("more"), "").unwrap();
        assert!(refused(&network).contains("4,096 files"));
        let network = Network { cert_directories: vec![at("absent")], ..Network::default() };
        assert!(refused(&network).contains("SSL_CERT_DIR"));
    }

    /// Variables come in both cases, the lower one first; empty ones count as absent; nothing shows what they hold.
    #[test]
    fn variables_are_read() {
        let from = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
            Network::from_variables(&find).unwrap()
        };
        let all = from(&[
            ("SSL_CERT_FILE", "/a"),
            ("SSL_CERT_DIR", "/b::/c"),
            ("HTTPS_PROXY", "http://upper"),
            ("https_proxy", "http://user:secret@lower"),
            ("NO_PROXY", "x"),
            ("HTTP_PROXY", "http://plain"),
        ]);
        assert_eq!(all.cert_file.as_deref(), Some(std::path::Path::new("/a")));
        assert_eq!(all.cert_directories.len(), 2);
        assert_eq!((all.proxy.as_deref(), all.no_proxy.as_str()), (Some("http://user:secret@lower"), "x"));
        let shown = format!("{all:?}");
        assert!(!shown.contains("secret") && !shown.contains("/a"), "{shown}");
        let empty =
            from(&[("SSL_CERT_FILE", ""), ("SSL_CERT_DIR", ""), ("https_proxy", ""), ("HTTPS_PROXY", "http://upper")]);
        assert_eq!((empty.cert_file, empty.cert_directories.len()), (None, 0));
        assert_eq!(empty.proxy.as_deref(), Some("http://upper"));
    }

    /// What is no proxy, or too long, is refused; a proxy of another kind is never silently left out.
    #[test]
    fn other_proxies_are_refused() {
        let urls = ["https://api.github.com", "https://api.github.com/graphql"];
        let long = format!("http://proxy/{}", "a".repeat(MAX_PROXY_BYTES));
        for proxy in
            ["socks5://h:1", "socks4://h", "ftp://h", "http://", "http://h:port", "no url", "://", long.as_str()]
        {
            let network = Network { proxy: Some(proxy.to_owned()), ..Network::default() };
            let fault = network.proxy(urls).unwrap_err();
            assert_eq!(fault.code(), Code::SettingsInvalid, "{proxy}");
            assert!(fault.message().contains("HTTPS_PROXY"));
        }
        let no_proxy = "a,".repeat(MAX_PROXY_BYTES / 2) + "a";
        let network = Network { proxy: Some("http://h".to_owned()), no_proxy, ..Network::default() };
        assert!(network.proxy(urls).is_err());
        let network = Network { proxy: Some("http://[::1]:3128".to_owned()), ..Network::default() };
        let proxy = network.proxy(urls).unwrap().unwrap();
        assert_eq!((proxy.host(), proxy.port()), ("[::1]", 3128));
        let network = Network { proxy: Some("http://u%40:p@h:3128/".to_owned()), ..Network::default() };
        let proxy = network.proxy(urls).unwrap().unwrap();
        assert_eq!(
            (proxy.host(), proxy.port(), proxy.username(), proxy.password()),
            ("h", 3128, Some("u@"), Some("p"))
        );
    }

    /// Exceptions are names, names with their ports, domains, addresses, or everything.
    #[test]
    fn exceptions_are_matched() {
        for (list, name, port, expected) in [
            ("", "h.example", 443, false),
            ("*", "h.example", 443, true),
            ("h.example", "h.example", 443, true),
            ("H.Example", "h.example", 443, true),
            ("example", "h.example", 443, true),
            (".example", "h.example", 443, true),
            ("*.example", "h.example", 443, true),
            ("ample", "h.example", 443, false),
            ("x, h.example ,y", "h.example", 443, true),
            ("x h.example", "h.example", 443, true),
            ("h.example:8443", "h.example", 443, false),
            ("h.example:8443", "h.example", 8443, true),
            ("h.example:", "h.example", 443, false),
            ("other.h.example", "h.example", 443, false),
            ("127.0.0.1", "127.0.0.1", 443, true),
            ("::1", "[::1]", 443, true),
            ("[::1]:443", "[::1]", 443, true),
            ("[::1]:8443", "[::1]", 443, false),
            (".,*.,,", "h.example", 443, false),
        ] {
            let network = Network { no_proxy: list.to_owned(), ..Network::default() };
            assert_eq!(network.is_exception(name, port), expected, "{list} {name}:{port}");
        }
    }
}
