//! Stable identities of publications (lifecycle.md 0.5; jobs.md 5.3.3; publication.md 2.3): who asks and for what
//! decide the request id, so a job that is repeated finds what it published before.

use crate::protocol::actor::Actor;
use crate::protocol::identity::sha256_hex;
use crate::protocol::json::Writer;
use crate::protocol::{Digest, RequestId, Wire as _};

/// The request id of an intent: `request:` and the digest of `{"intent_id", "origin"}`. The origin is the logical
/// requester ([`super::origin`]), not the attempt that publishes.
#[must_use]
pub fn request_id(origin: &Actor, intent_id: &str) -> RequestId {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("intent_id", |writer| writer.string(intent_id));
        members.name("origin", |writer| origin.write(writer));
    });
    RequestId::new(format!("request:{}", Digest::of(&[&writer.finish()]))).expect("72 printable bytes are an identity")
}

/// The intent id of a write of our own: `intent:` and the digest of its purpose, a canonical JSON value such as
/// [`purpose`] writes.
#[must_use]
pub fn intent_id(purpose: &str) -> String {
    format!("intent:{}", sha256_hex(&[purpose]))
}

/// A purpose as canonical JSON: an array of strings such as `["start","d_1"]`.
#[must_use]
pub fn purpose(parts: &[&str]) -> String {
    let mut writer = Writer::new();
    writer.array(parts, |writer, part| writer.string(part));
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::{intent_id, purpose, request_id};
    use crate::protocol::actor::{Actor, Role};
    use crate::protocol::identity::{Within, sha256_hex};
    use crate::protocol::{Decimal, Identity, Repository};

    /// The digest is over the canonical text, and every member of the origin counts, the attempt too.
    #[test]
    fn the_request_follows_from_its_origin_and_intent() {
        let mut actor =
            Actor::new(Role::Dispatcher, Decimal::new("7").unwrap(), Repository::new("octo/queue").unwrap()).unwrap();
        actor.workflow = Some(Identity::new(".github/workflows/plan.lock.yml").unwrap());
        actor.run_id = Some(Decimal::new("42").unwrap());
        actor.run_attempt = Some(Within::new(2).unwrap());
        let canonical = concat!(
            r#"{"intent_id":"i\"1","origin":{"principal":"7","repository":"octo/queue","role":"dispatcher","#,
            r#""run_attempt":2,"run_id":"42","workflow":".github/workflows/plan.lock.yml"}}"#
        );
        let first = request_id(&actor, "i\"1");
        assert_eq!(first.as_str(), format!("request:{}", sha256_hex(&[canonical])));
        assert_ne!(request_id(&actor, "i2"), first);
        actor.run_attempt = Some(Within::new(1).unwrap());
        assert_ne!(request_id(&actor, "i\"1"), first);
    }

    #[test]
    fn a_purpose_is_a_canonical_array() {
        assert_eq!(purpose(&["bind", "d_\"1", "9"]), r#"["bind","d_\"1","9"]"#);
        let expected = format!("intent:{}", sha256_hex(&[r#"["start","d_1"]"#]));
        assert_eq!(intent_id(&purpose(&["start", "d_1"])), expected);
    }
}
