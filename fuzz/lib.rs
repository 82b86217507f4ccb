//! What the targets share: a counting allocator, so that "bounded memory" is a number that is checked for each input, the
//! properties, and a mutator that knows what a ledger is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The shipped source of the two pure rooms. Compiled here rather than linked, so that git, command line and network
/// code is neither built nor instrumented.
#[allow(dead_code, reason = "the targets reach a part of it")]
#[path = "../src/engine/mod.rs"]
pub mod engine;
#[allow(dead_code, reason = "the targets reach a part of it")]
#[path = "../src/protocol/mod.rs"]
pub mod protocol;

mod core {
    pub(crate) use crate::{engine, protocol};
}
mod mutate;
mod properties;

pub use mutate::mutate_ledger;

/// Target `reader`.
pub fn reader(data: &[u8]) {
    properties::reader(data);
}

/// Target `commit`.
pub fn commit(data: &[u8]) {
    properties::commit(data);
}

/// Target `replay`.
pub fn ledger(data: &[u8]) {
    properties::ledger(data);
}

/// Target `checkpoint`.
pub fn checkpoint(data: &[u8]) {
    properties::checkpoint(data);
}

/// Counts live bytes and their peak. Not exact under threads; the targets have one.
pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a check and stops if it held more than `base + factor * input` bytes at once.
fn bounded(input: usize, base: usize, factor: usize, check: impl FnOnce()) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    check();
    let held = PEAK.load(Relaxed).saturating_sub(before);
    let bound = base + factor * input;
    assert!(held <= bound, "{held} bytes for an input of {input}, more than {bound}");
}
