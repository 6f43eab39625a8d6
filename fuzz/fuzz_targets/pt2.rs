//! Read an export, compile it without backends and for XNNPACK, and run what comes of it.
#![no_main]

#[path = "../../crates/sconce/tests/hostile/exercise.rs"]
#[allow(dead_code)]
mod exercise;

use sconce::compile::{Archive, compile, options};
use sconce::format::pte::model::Program;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(archive) = Archive::read(bytes) else { return };
    for backend in ["portable", "xnnpack"] {
        match compile(&archive, &options([backend]).expect("a backend of the compiler")) {
            Ok(compiled) => {
                Program::read(&compiled.program).expect("a program that is well formed");
                exercise::program(&compiled.program, None);
            }
            Err(error) => drop(error.to_string()),
        }
    }
});
