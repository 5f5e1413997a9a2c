#![no_main]

libfuzzer_sys::fuzz_target!(|case: fuzz::headers::Case| fuzz::headers::run(&case));
