//! Does with a payload what a load does: reads it. Any outcome but a panic is fine, and what is read holds to the rules of
//! [`sconce_graph::payload`].

use sconce_graph::payload::{Context, Function, MOST_BYTES, Payload};

/// Signs of a sentence that people read.
const MOST_SIGNS: usize = 1 << 14;

/// Most bytes that may become of a payload of so many.
pub(crate) fn most(bytes: usize) -> usize {
    (1 << 16) + MOST_BYTES * bytes
}

/// Whether a payload can be read.
pub(crate) fn read(format: &dyn Payload, payload: &[u8]) -> bool {
    let functions = match format.read(payload, &Context::NONE) {
        Ok(functions) => functions,
        Err(unreadable) => {
            let signs = unreadable.to_string().len();
            assert!(0 < signs && signs <= MOST_SIGNS, "the reason has {signs} signs");
            return false;
        }
    };
    let (bytes, most) = (functions.iter().map(Function::bytes).sum::<usize>(), most(payload.len()));
    assert!(bytes <= most, "of {} bytes became {bytes}", payload.len());
    for function in functions {
        function.verify().unwrap_or_else(|rule| panic!("the function {:?} {rule}", function.name));
    }
    true
}
