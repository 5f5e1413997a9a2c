#![no_main]

libfuzzer_sys::fuzz_target!(|case: fuzz::schedule::Case| fuzz::schedule::run(&case));
