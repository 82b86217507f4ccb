#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| wq_action_fuzz::reader(data));
