//! Every fixed bound of the wire format (engine.md 1 and 6.1). Bounds that a Policy may lower are
//! [`crate::protocol::policy::Limits`].

/// Largest integer on the wire, 2^53 - 1.
pub const MAX_INTEGER: i64 = 9_007_199_254_740_991;
/// Deepest nesting; the root value has depth 0.
pub const MAX_DEPTH: usize = 64;
/// Most members of one array.
pub const MAX_ARRAY: usize = 16_384;
/// Longest ledger file, in bytes.
pub const MAX_LEDGER_BYTES: usize = 80 * 1024 * 1024;
/// Largest ceiling a reader may be given, in bytes (snapshots).
pub const MAX_READER_BYTES: usize = 161 * 1024 * 1024;
/// Longest ledger line and largest canonical commit, in bytes.
pub const MAX_COMMIT_BYTES: usize = 8 * 1024 * 1024;
/// Longest causal chain, in commits.
pub const MAX_COMMITS: usize = 1_000_000;
/// Longest identity, in UTF-8 bytes; also the most digits of a decimal identity.
pub const MAX_IDENTITY_BYTES: usize = 256;
/// Longest fairness key, in UTF-8 bytes.
pub const MAX_FAIRNESS_KEY_BYTES: usize = 128;
/// Longest reason code, in ASCII characters.
pub const MAX_REASON_CHARS: usize = 128;
/// Most operations in one commit.
pub const MAX_OPERATIONS: usize = 256;
/// Most observations that one Claim may name.
pub const MAX_CLAIM_OBSERVATIONS: usize = 64;
/// Most Claims in one dispatch.
pub const MAX_DISPATCH_CLAIMS: usize = 16;
/// Largest canonical trace, in bytes.
pub const MAX_TRACE_BYTES: usize = 1_024;
/// Largest canonical assignment, in bytes.
pub const MAX_ASSIGNMENT_BYTES: u64 = 49_152;
/// Most accounting keys of a Policy.
pub const MAX_ACCOUNTING_KEYS: usize = 1_024;
/// Most producers, and most members of each producer's lists.
pub const MAX_PRODUCERS: usize = 1_024;
/// Most pools of a Policy.
pub const MAX_POOLS: usize = 64;
/// Most worker profiles of a pool, and most approved profiles of a dispatch request.
pub const MAX_PROFILES: usize = 256;
/// Most projector rules of a Policy, and most members of each rule's lists.
pub const MAX_PROJECTORS: usize = 256;
/// Most repositories in a pool's allow-list.
pub const MAX_ALLOWED_REPOSITORIES: usize = 256;
/// Largest weight of a priority class or an accounting key.
pub const MAX_WEIGHT: i64 = 1_000;
/// Highest run or publisher attempt.
pub const MAX_ATTEMPT: i64 = 4_096;
/// Lowest-ranked priority class; classes are 1 to 5.
pub const MAX_PRIORITY: i64 = 5;
/// Most bytes of the receipts of a checkpoint once inflated.
pub const MAX_RECEIPT_BYTES: usize = 64 * 1024 * 1024;
/// Most selectors of a Work's resource scope.
pub const MAX_SCOPE_SELECTORS: usize = 128;
/// Most outputs of a Work's effect contract.
pub const MAX_CONTRACT_OUTPUTS: usize = 128;
