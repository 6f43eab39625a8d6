//! Parse a bundle, then load and run its program.
#![no_main]

#[path = "../../crates/sconce/tests/hostile/exercise.rs"]
#[allow(dead_code)]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exercise::bundle(bytes);
});
