#![no_main]
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| wq_action_fuzz::ledger(data));

// Three of four changes are to the ledger's values; the rest is libFuzzer's own, to its bytes.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 4 > 0
        && let Some(changed) = wq_action_fuzz::mutate_ledger(&data[..size], seed)
        && changed.len() <= max_size
    {
        data[..changed.len()].copy_from_slice(&changed);
        return changed.len();
    }
    fuzzer_mutate(data, size, max_size)
});
