//! The root tree of the queue branch (publication.md 1.3). It is kept as the bytes that it came as: an update changes
//! the ledger's object id in place, so every other entry stays exactly what it was.

use gix::ObjectId;
use gix::objs::Kind;

use super::error::{Class, LedgerError};
use super::names::{LEDGER_FILE, RETIRED_FILE};
use super::store::Store;
use crate::protocol::Code;
use crate::protocol::limits::MAX_LEDGER_BYTES;

/// Most entries of the root tree.
const MAX_ENTRIES: usize = 16_384;
/// Largest root tree object, in bytes: room for all those entries with names of 480 bytes.
const MAX_TREE_BYTES: u64 = 8 * 1024 * 1024;
/// The mode of the ledger: a regular file that nobody executes.
const LEDGER_MODE: &[u8] = b"100644";
/// Bytes of a SHA-1 object id.
const ID_BYTES: usize = 20;

/// A root tree that holds exactly one well-formed ledger entry.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RootTree {
    bytes: Vec<u8>,
    /// Where the ledger's object id stands in `bytes`.
    ledger_at: usize,
}

struct Entry<'a> {
    mode: &'a [u8],
    name: &'a [u8],
    id_at: usize,
    end: usize,
}

/// The entry that starts at an offset: `<mode> SPACE <name> NUL <id>`.
fn entry(bytes: &[u8], start: usize) -> Option<Entry<'_>> {
    let rest = bytes.get(start..)?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let nul = space + rest.get(space..)?.iter().position(|byte| *byte == 0)?;
    let id_at = start + nul + 1;
    let end = id_at + ID_BYTES;
    let (mode, name) = (&rest[..space], &rest[space + 1..nul]);
    let sound = mode.iter().all(|byte| matches!(byte, b'0'..=b'7')) && !mode.is_empty() && !name.is_empty();
    (sound && end <= bytes.len()).then_some(Entry { mode, name, id_at, end })
}

impl RootTree {
    /// Reads and checks the root tree of a commit.
    ///
    /// # Errors
    /// `resource_limit` over 16,384 entries, `unsupported_protocol` beside a retired log, `ledger_invalid` unless
    /// there is exactly one `work-queue.jsonl` and it is a regular file of mode 100644.
    pub fn read(store: &Store, id: ObjectId) -> Result<Self, LedgerError> {
        let bytes = store.read(id, Kind::Tree, MAX_TREE_BYTES)?.ok_or_else(too_many)?;
        Self::parse(bytes)
    }

    /// Checks the bytes of a tree object.
    ///
    /// # Errors
    /// As [`RootTree::read`].
    pub fn parse(bytes: Vec<u8>) -> Result<Self, LedgerError> {
        let (mut at, mut entries, mut ledger, mut mode_ok, mut retired) = (0, 0, None, false, false);
        while at < bytes.len() {
            let entry = entry(&bytes, at).ok_or_else(|| shape("the queue branch's tree is malformed"))?;
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(too_many());
            }
            retired |= entry.name == RETIRED_FILE.as_bytes();
            if entry.name == LEDGER_FILE.as_bytes() {
                if ledger.replace(entry.id_at).is_some() {
                    return Err(shape("the queue branch's tree names the ledger twice"));
                }
                mode_ok = entry.mode == LEDGER_MODE;
            }
            at = entry.end;
        }
        if retired {
            return Err(LedgerError::new(
                Code::UnsupportedProtocol,
                Class::Invalid,
                "the branch holds the log of a retired protocol",
                "Choose another branch; the retired log is never read or migrated.",
            ));
        }
        let ledger_at = ledger.ok_or_else(|| shape("the queue branch has no ledger file"))?;
        if !mode_ok {
            return Err(shape("the queue branch's ledger is not a regular file of mode 100644"));
        }
        Ok(Self { bytes, ledger_at })
    }

    /// The tree of a new queue branch: the ledger alone.
    #[must_use]
    pub fn genesis(ledger: ObjectId) -> Self {
        let mut bytes = [LEDGER_MODE, b" ", LEDGER_FILE.as_bytes(), b"\0"].concat();
        let ledger_at = bytes.len();
        bytes.extend_from_slice(ledger.as_slice());
        Self { bytes, ledger_at }
    }

    /// The same tree with another ledger; every other entry stays byte for byte.
    #[must_use]
    pub fn with_ledger(&self, ledger: ObjectId) -> Self {
        let mut tree = self.clone();
        tree.bytes[self.ledger_at..self.ledger_at + ID_BYTES].copy_from_slice(ledger.as_slice());
        tree
    }

    /// The ledger's blob.
    #[must_use]
    pub fn ledger(&self) -> ObjectId {
        ObjectId::from_bytes_or_panic(&self.bytes[self.ledger_at..self.ledger_at + ID_BYTES])
    }

    /// True when two trees are equal except for the ledger's content.
    #[must_use]
    pub fn differs_only_in_ledger(&self, other: &Self) -> bool {
        self.ledger_at == other.ledger_at && self.with_ledger(other.ledger()) == *other
    }

    /// Writes the tree object.
    ///
    /// # Errors
    /// `io_failed`.
    pub fn write(&self, store: &Store) -> Result<ObjectId, LedgerError> {
        store.write(Kind::Tree, &self.bytes)
    }
}

impl std::fmt::Debug for RootTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RootTree({} bytes)", self.bytes.len())
    }
}

/// Reads a ledger blob of at most 80 MiB.
///
/// # Errors
/// `resource_limit` above that, before the content is read; `ledger_invalid` when it is missing or no blob.
pub fn read_ledger(store: &Store, id: ObjectId) -> Result<Vec<u8>, LedgerError> {
    store.read(id, Kind::Blob, MAX_LEDGER_BYTES as u64)?.ok_or_else(|| {
        LedgerError::new(
            Code::ResourceLimit,
            Class::Invalid,
            "the ledger is larger than 80 MiB",
            "Restore the branch from its last valid commit; nothing was changed.",
        )
    })
}

fn shape(message: &'static str) -> LedgerError {
    LedgerError::new(
        Code::LedgerInvalid,
        Class::Invalid,
        message,
        "Find out who wrote the branch; it is never repaired or reset here.",
    )
}

fn too_many() -> LedgerError {
    LedgerError::new(
        Code::ResourceLimit,
        Class::Invalid,
        "the queue branch's root tree has more than 16,384 entries",
        "Keep other files off the queue branch.",
    )
}

#[cfg(test)]
mod tests {
    use super::RootTree;
    use crate::protocol::Code;
    use gix::ObjectId;

    fn line(mode: &str, name: &str, byte: u8) -> Vec<u8> {
        [format!("{mode} {name}\0").as_bytes(), &[byte; 20]].concat()
    }

    #[test]
    fn an_update_keeps_every_other_byte() {
        let bytes = [line("100664", "a", 1), line("100644", "work-queue.jsonl", 2), line("40000", "z", 3)].concat();
        let tree = RootTree::parse(bytes.clone()).expect("well formed");
        let next = tree.with_ledger(ObjectId::from_bytes_or_panic(&[9; 20]));
        let expected = [line("100664", "a", 1), line("100644", "work-queue.jsonl", 9), line("40000", "z", 3)].concat();
        assert_eq!(next.bytes, expected);
        assert!(tree.differs_only_in_ledger(&next));
        let other = RootTree::parse([line("100644", "a", 1), bytes[29..].to_vec()].concat()).expect("well formed");
        assert!(!other.differs_only_in_ledger(&next));
    }

    #[test]
    fn every_malformed_tree_is_refused() {
        let code = |bytes: Vec<u8>| RootTree::parse(bytes).unwrap_err().code();
        let ledger = || line("100644", "work-queue.jsonl", 1);
        assert_eq!(code(Vec::new()), Code::LedgerInvalid);
        assert_eq!(code(line("120000", "work-queue.jsonl", 1)), Code::LedgerInvalid);
        assert_eq!(code(line("100755", "work-queue.jsonl", 1)), Code::LedgerInvalid);
        assert_eq!(code(line("40000", "work-queue.jsonl", 1)), Code::LedgerInvalid);
        assert_eq!(code([ledger(), ledger()].concat()), Code::LedgerInvalid);
        assert_eq!(code(ledger()[..30].to_vec()), Code::LedgerInvalid);
        assert_eq!(
            code([line("100644", "dispatch-work-coordinator.jsonl", 1), ledger()].concat()),
            Code::UnsupportedProtocol
        );
        let many: Vec<u8> = (0..16_384).flat_map(|index| line("100644", &format!("f{index:05}"), 1)).collect();
        assert_eq!(code([many.clone(), ledger()].concat()), Code::ResourceLimit);
        assert!(RootTree::parse([many[34..].to_vec(), ledger()].concat()).is_ok(), "exactly 16,384");
        assert_eq!(code([many[30..].to_vec(), ledger()].concat()), Code::LedgerInvalid);
    }
}
