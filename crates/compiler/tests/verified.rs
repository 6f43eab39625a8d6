//! Every golden export passes the verifier after each pass, for every backend: tests are built with debug assertions.

use sconce_compiler::ggml::Ggml;
use sconce_compiler::partition::Partitioner;
use sconce_compiler::quantize::{Quantization, Scheme};
use sconce_compiler::xnnpack::Xnnpack;
use sconce_compiler::{Options, compile};
use sconce_pt2::Archive;
use std::path::Path;

/// Compiles every export and gives how many there are.
fn all(partitioners: impl Fn() -> Vec<Box<dyn Partitioner>>, scheme: Option<Scheme>) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pt2");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|kind| kind == "pt2"));
    let compiled = files.map(|path| {
        let file = std::fs::read(&path).unwrap();
        let quantization = scheme.map(|scheme| Quantization { scheme, calibrator: None });
        let options = Options { partitioners: partitioners(), quantization, ..Options::default() };
        let done = compile(&Archive::read(&file).unwrap(), &options);
        assert!(done.is_ok(), "{}: {}", path.display(), done.unwrap_err());
    });
    compiled.count()
}

#[test]
fn without_a_backend() {
    assert!(all(Vec::new, None) > 50);
}

#[test]
fn for_xnnpack() {
    assert!(all(|| vec![Box::new(Xnnpack)], None) > 50);
}

#[test]
fn for_ggml_and_then_xnnpack() {
    assert!(all(|| vec![Box::new(Ggml::default()), Box::new(Xnnpack)], None) > 50);
}

#[test]
fn on_small_integers() {
    assert!(all(|| vec![Box::new(Xnnpack)], Some(Scheme::Int8Dynamic)) > 50);
}
