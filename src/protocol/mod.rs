//! Bytes to typed records and back (engine.md 1, 2). Pure: no clock, file, environment, network or randomness.

pub mod actor;
pub mod assignment;
pub mod code;
pub mod commit;
pub mod compressed;
pub mod effect_contract;
pub mod evidence;
pub(crate) mod fault;
pub mod identity;
pub mod json;
pub mod ledger_text;
pub mod limits;
mod matrix;
pub mod operation;
pub mod policy;
mod repository_name;
pub mod request;
pub mod resource;
pub mod resource_scope;
mod runtime_role;
pub mod selector;
mod text;
mod token;
pub(crate) mod wire;
pub mod work;

pub use code::Code;
pub use fault::Fault;
pub use identity::{
    At, ClaimId, CommitId, Decimal, Digest, DispatchId, Epoch, FairnessKey, Generation, GraphId, Handle, Identity,
    NodeKey, ObservationId, Opaque, PoolName, Priority, ProfileName, Reason, Repository, RequestId, Revision,
    TrustDomain, WorkId,
};
pub use repository_name::RepositoryName;
pub use runtime_role::RuntimeRole;
pub use text::Text;
pub use token::{Token, TokenProvider};
pub use wire::{Measured, Wire};
