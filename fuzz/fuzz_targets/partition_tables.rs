#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| brindle_fuzz_targets::partition_tables::run(data));
