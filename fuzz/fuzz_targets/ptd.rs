//! Parse external data.
#![no_main]

#[path = "../../crates/sconce/tests/hostile/exercise.rs"]
#[allow(dead_code)]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exercise::tensors(bytes);
});
