//! Headers of an answer, read with bounds. What does not fit its form counts as absent.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use ureq::http::HeaderMap;

use super::host::Host;
use super::port::Headers;
use crate::protocol::At;

/// Longest request id, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 256;
/// Most digits of a number.
const MAX_DIGITS: usize = 12;
/// Longest other text, in bytes.
const MAX_TEXT_BYTES: usize = 2048;

/// Longest address outside of the API, in bytes: a signed one is long.
const MAX_ADDRESS_BYTES: usize = 8192;

/// Reads the headers that anything depends on.
pub(super) fn read(map: &HeaderMap, host: &Host) -> Headers {
    let text = |name: &str| map.get(name).and_then(|value| value.to_str().ok());
    let short = |name: &str| text(name).filter(|text| text.len() <= MAX_TEXT_BYTES);
    let number = |name: &str| {
        let digits = text(name)?;
        let fits = digits.len() <= MAX_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| fits)
    };
    let request_id = text("x-github-request-id")
        .filter(|id| (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()));
    Headers {
        request_id: request_id.map(str::to_owned),
        retry_after: number("retry-after"),
        rate_remaining: number("x-ratelimit-remaining"),
        rate_reset: number("x-ratelimit-reset"),
        date: short("date").and_then(moment),
        location: short("location").and_then(|location| inside(location, host.api())),
        elsewhere: text("location").filter(|location| is_address(location)).map(str::to_owned),
        accepted_permissions: short("x-accepted-github-permissions").map(str::to_owned),
        oauth_scopes: short("x-oauth-scopes").map(str::to_owned),
    }
}

/// True for an absolute address that may be read: `https`, or `http` on loopback, without user information or spaces.
fn is_address(text: &str) -> bool {
    let secure = text.strip_prefix("https://");
    let rest = secure.or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = authority.split(':').next().unwrap_or_default();
    let loopback = matches!(name, "127.0.0.1" | "localhost");
    text.len() <= MAX_ADDRESS_BYTES
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && !name.is_empty()
        && !authority.contains('@')
        && (secure.is_some() || loopback)
}

/// Unix milliseconds of an HTTP date.
fn moment(text: &str) -> Option<At> {
    let seconds = OffsetDateTime::parse(text, &Rfc2822).ok()?.unix_timestamp();
    seconds.checked_mul(1000).and_then(|millis| At::new(millis).ok())
}

/// The part of a redirect's target below the API's base URL; none if it leads out of it. The host reads the path
/// after decoding it, so what would climb out once decoded leads out as well.
fn inside(location: &str, api: &str) -> Option<String> {
    let origin_bytes = api.find("://").map_or(0, |scheme| scheme + 3);
    let path_at = api[origin_bytes..].find('/').map_or(api.len(), |slash| origin_bytes + slash);
    let (origin, base) = api.split_at(path_at);
    let target = if location.starts_with('/') {
        location
    } else {
        // Schemes and hosts are compared without regard to case.
        let head = location.get(..origin.len())?;
        if !head.eq_ignore_ascii_case(origin) {
            return None;
        }
        &location[origin.len()..]
    };
    let target = target.strip_prefix(base)?;
    let path = target.split('?').next().unwrap_or(target);
    let decoded = path.to_ascii_lowercase().replace("%2f", "/").replace("%2e", ".").replace("%5c", "\\");
    let plain =
        target.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'\\' | b'"' | b'<' | b'>'));
    let climbs = decoded.split('/').skip(1).any(|segment| matches!(segment, "" | "." | ".."));
    (target.starts_with('/') && plain && !climbs && !decoded.contains('\\')).then(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{inside, is_address, moment};

    /// An artifact's address is `https`, or on this machine.
    #[test]
    fn addresses_are_absolute_and_secure() {
        for (text, is) in [
            ("https://storage.example/a?sig=b%2Fc", true),
            ("http://localhost:8080/a", true),
            ("http://127.0.0.1/a", true),
            ("http://storage.example/a", false),
            ("http://localhost@storage.example/a", false),
            ("https://token@storage.example/a", false),
            ("https:///a", false),
            ("file:///etc/passwd", false),
            ("/a", false),
            ("https://storage.example/a b", false),
        ] {
            assert_eq!(is_address(text), is, "{text}");
        }
    }

    /// A redirect is followed below the API's base URL alone.
    #[test]
    fn redirects_stay_inside_the_api() {
        let api = "https://h.example:8443/git/api/v3";
        for (location, target) in [
            ("https://h.example:8443/git/api/v3/repositories/7", Some("/repositories/7")),
            ("https://H.Example:8443/git/api/v3/repositories/7?a=b%2Fc", Some("/repositories/7?a=b%2Fc")),
            ("/git/api/v3/repositories/7/rules/a%2Fb", Some("/repositories/7/rules/a%2Fb")),
            ("https://h.example/git/api/v3/x", None),
            ("http://h.example:8443/git/api/v3/x", None),
            ("https://h.example:8443/git/api/v3", None),
            ("https://h.example:8443/git/api/v3x/y", None),
            ("https://h.example:8443@evil.example/git/api/v3/x", None),
            ("https://h.example:8443.evil.example/git/api/v3/x", None),
            ("//evil.example/git/api/v3/x", None),
            ("/other/x", None),
            ("x", None),
            ("", None),
            ("/git/api/v3/../../x", None),
            ("/git/api/v3/a/%2E%2e/x", None),
            ("/git/api/v3/a%2f..%2fx", None),
            ("/git/api/v3/a\\x", None),
            ("/git/api/v3/a%5cx", None),
            ("/git/api/v3//x", None),
            ("/git/api/v3/a#b", None),
            ("/git/api/v3/a b", None),
        ] {
            assert_eq!(inside(location, api).as_deref(), target, "{location}");
        }
        assert_eq!(inside("https://api.github.com/x", "https://api.github.com").as_deref(), Some("/x"));
        assert_eq!(inside("https://api.github.com.evil.example/x", "https://api.github.com"), None);
    }

    /// Dates are those of HTTP.
    #[test]
    fn dates_are_read() {
        assert_eq!(moment("Mon, 30 Nov 2026 12:00:00 GMT").map(|at| at.get()), Some(1_796_040_000_000));
        assert_eq!(moment("yesterday"), None);
        assert_eq!(moment("Mon, 30 Nov 1926 12:00:00 GMT"), None);
    }
}
