//! What a worker's Claims deliver (lifecycle.md 4 to 6): how each Claim ends, which message is whose, whether it may take
//! effect, and what proves that it did. No writer is here yet: what would need one stays pending and is not executed.

pub mod count;
pub mod export;
pub mod finalise;
pub mod finish;
pub mod gate;
pub mod inventory;
pub mod message;
pub mod partition;
mod temporary;
pub mod verify;

use crate::protocol::Digest;
use crate::protocol::effect_contract::NO_WRITE_TYPES;
use crate::protocol::json::Writer;

/// True for an output type that writes nothing.
#[must_use]
pub fn effect_free(output: &str) -> bool {
    NO_WRITE_TYPES.contains(&output)
}

/// SHA-256 of a canonical object.
fn digest_of(fill: impl FnOnce(&mut crate::protocol::json::Members<'_>)) -> Digest {
    let mut writer = Writer::new();
    writer.object(fill);
    Digest::of(&[&writer.finish()])
}
