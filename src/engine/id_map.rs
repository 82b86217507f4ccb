//! A map from identities that never reads a stored identity again to grow.
//!
//! Identities are spans of the ledger's buffer. A table that hashes its keys anew whenever it grows would walk that
//! whole buffer each time, so every entry keeps its hash. The hash is seeded at random for each map: it decides only
//! where an entry lies, never an answer or an order.

use std::borrow::Borrow;
use std::hash::BuildHasher as _;
use std::ops::Index;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Values by identity. Iteration has no order, so nothing that is written iterates one.
#[derive(Clone, Debug)]
pub(crate) struct IdMap<K, V> {
    seed: DefaultHashBuilder,
    table: HashTable<Entry<K, V>>,
}

#[derive(Clone, Debug)]
struct Entry<K, V> {
    hash: u64,
    key: K,
    value: V,
}

impl<K, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self { seed: DefaultHashBuilder::default(), table: HashTable::new() }
    }
}

impl<K: Borrow<str>, V> IdMap<K, V> {
    pub(crate) fn get<Q: Borrow<str> + ?Sized>(&self, key: &Q) -> Option<&V> {
        let key = key.borrow();
        let hash = self.seed.hash_one(key);
        self.table.find(hash, |entry| entry.hash == hash && entry.key.borrow() == key).map(|entry| &entry.value)
    }

    pub(crate) fn contains_key<Q: Borrow<str> + ?Sized>(&self, key: &Q) -> bool {
        self.get(key).is_some()
    }

    /// Adds an entry, or replaces the value of one. True if the key is new.
    pub(crate) fn insert(&mut self, key: K, value: V) -> bool {
        let hash = self.seed.hash_one(key.borrow());
        let same = |entry: &Entry<K, V>| entry.hash == hash && entry.key.borrow() == key.borrow();
        if let Some(entry) = self.table.find_mut(hash, same) {
            entry.value = value;
            return false;
        }
        self.table.insert_unique(hash, Entry { hash, key, value }, |entry| entry.hash);
        true
    }

    /// Makes room for more entries at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.table.reserve(more, |entry| entry.hash);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.table.iter().map(|entry| &entry.key)
    }
}

impl<K: Borrow<str>, V, Q: Borrow<str> + ?Sized> Index<&Q> for IdMap<K, V> {
    type Output = V;

    /// # Panics
    /// If the key is absent.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the caller knows the key to be present")
    }
}
