#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| brindle_fuzz_targets::imsm_set::run(data));
