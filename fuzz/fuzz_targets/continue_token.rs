#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| karmada_fuzz::run("continue_token", data));
