//! Constants of more than a page that steps read where they are get asked for when a model is made; others are not: weights
//! are packed, and a page comes at once.
use sconce_cpu::{Model, Options};
use sconce_graph::{Constants, Source, parse};
use std::sync::Mutex;

/// Zeros, and the names that were wished for.
struct Watched(Vec<u8>, Mutex<Vec<String>>);

impl Constants for Watched {
    fn bytes<'a>(&'a self, _: &'a Source) -> Option<&'a [u8]> {
        Some(&self.0)
    }

    fn will_read(&self, source: &Source) {
        self.1.lock().unwrap().push(source.to_string());
    }
}

#[test]
fn what_is_read_in_place_is_asked_for() {
    let text = "%0: float32[64, 64] = input
%1: float32[64, 64] = constant \"table\"
%2: float32[64] = constant \"row\"
%3: float32[64, 64] = constant \"weights\"
%4: float32[64, 64] = linear %0, %3 {transposed: false}
%5: float32[64, 64] = maximum %4, %1
%6: float32[64, 64] = maximum %5, %2
output %6
";
    let watched = Watched(vec![0; 64 * 64 * 4], Mutex::default());
    Model::new(parse(text).unwrap(), Options::default(), &watched).unwrap();
    let wishes = watched.1.into_inner().unwrap();
    assert_eq!(wishes, [Source::Named("table".into()).to_string()]);
}
