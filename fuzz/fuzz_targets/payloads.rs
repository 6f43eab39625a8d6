//! Read a payload in a format: the first byte says in which.
#![no_main]

#[path = "../../crates/payloads/tests/broken/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((row, payload)) = bytes.split_first() else { return };
    let formats = sconce_payloads::ALL;
    exercise::read(formats[usize::from(*row) % formats.len()], payload);
});
