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
        if !matches!(given.protocol(), ureq::ProxyProtocol::Http | ureq::ProxyProtocol::Https) {
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
