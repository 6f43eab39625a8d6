//! Does with a file what an application would: load it, make sessions, run every method. Any outcome but a panic is fine.
use sconce::core::ValueInfo;
use sconce::{Input, Module, Options, Tensor};

fn options() -> Options {
    Options::new().threads(1).memory_limit(32 << 20).instruction_limit(2_000)
}

/// A `.pte`, with its external data if it has any. Gives how far it got: 0 refused, 1 loaded, 2 ran.
pub(crate) fn program(bytes: &[u8], data: Option<&std::path::Path>) -> u8 {
    let options = data.map_or_else(options, |path| options().data(path));
    match options.load(bytes) {
        Ok(module) => 1 + u8::from(module.methods().iter().any(|method| run(&module, method))),
        Err(error) => {
            let _ = error.to_string();
            0
        }
    }
}

fn run(module: &Module, method: &str) -> bool {
    let mut session = match module.method_session(method) {
        Ok(session) => session,
        Err(error) => {
            let _ = error.to_string();
            return false;
        }
    };
    let mut tensors = Vec::new();
    for index in 0..session.view().inputs() {
        tensors.push(match session.view().input(index) {
            Some(ValueInfo::Tensor { dtype, shape, .. }) if is_small(shape.sizes()) => {
                Tensor::zeros(dtype, shape.sizes()).ok()
            }
            _ => None,
        });
    }
    let inputs: Vec<Input<'_>> =
        tensors.iter().map(|tensor| tensor.as_ref().map_or(Input::Recorded, Input::Tensor)).collect();
    // Twice: what a run leaves behind must not break the next.
    (0..2).map(|_| session.run(&inputs).map_err(|error| error.to_string())).all(|outcome| outcome.is_ok())
}

/// Whether an application would make such an input; sanitizers stop at sizes that no machine has.
fn is_small(sizes: &[usize]) -> bool {
    let elements = sizes.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
    elements.is_some_and(|count| count < 1 << 24)
}

/// A `.ptd`.
pub(crate) fn tensors(bytes: &[u8]) -> u8 {
    use sconce::format::ptd::{File, Header};
    let size = bytes.len() as u64;
    let parsed = Header::parse(bytes, size).and_then(|header| File::parse(bytes, header, size));
    let Ok(file) = parsed else { return 0 };
    for index in 0..file.len() {
        let range = file.range(index);
        assert!(range.start <= range.end && range.end <= size, "an entry is outside of the file");
        assert!(file.find(file.key(index)).is_some());
        let _ = file.layout(index).map(|layout| (layout.dtype(), layout.sizes().iter().count()));
    }
    2
}

/// A `.bpte` and the program in it.
pub(crate) fn bundle(bytes: &[u8]) -> u8 {
    match sconce::format::bpte::File::parse(bytes) {
        Ok(file) => program(file.program(), None).max(1),
        Err(_) => 0,
    }
}
