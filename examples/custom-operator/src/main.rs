//! A program with an operator of the application's own.
//!
//! `export.py` defines `audio::soft_clip` in PyTorch and exports a model that uses it. Here the operator is a kernel,
//! registered under its full name; the program then loads and runs like any other.
//!
//! ```text
//! cargo run -p custom-operator
//! ```
use sconce::core::{Call, Fault, Kernel, writes};
use sconce::view::{view, view_mut};
use sconce::{Error, Options, Registry, ScalarType, Tensor};

/// `audio::soft_clip.out(Tensor x, float limit, *, Tensor(a!) out)`: `limit * tanh(x / limit)`.
struct SoftClip;

impl Kernel for SoftClip {
    /// The schema's three arguments and the returned tensor.
    fn arity(&self) -> usize {
        4
    }

    fn writes(&self) -> u32 {
        writes(&[2])
    }

    fn run(&self, call: &mut Call<'_>) -> Result<(), Fault> {
        let (x, limit) = (call.tensor(0)?, call.double(1)? as f32);
        let out = call.out(2, x.sizes())?;
        if x.dtype != ScalarType::Float || out.dtype != ScalarType::Float || x.shape != out.shape {
            return Err(Fault::argument(0, "two float32 tensors that lie alike are needed here"));
        }
        let unaligned = Fault::argument(0, "the tensor is not aligned to its elements");
        let (x, out) = (view::<f32>(x.data).ok_or(unaligned)?, view_mut::<f32>(out.data).ok_or(unaligned)?);
        for (out, x) in out.iter_mut().zip(x) {
            *out = limit * (x / limit).tanh();
        }
        Ok(())
    }
}

/// Amplifies a signal with the exported program.
fn amplify(signal: &[f32; 64]) -> Result<Vec<f32>, Error> {
    let mut registry = Registry::with_defaults();
    registry.add_kernel("audio::soft_clip.out", SoftClip);
    let module = Options::new().registry(registry).load(include_bytes!("../soft_clip.pte").as_slice())?;
    let input = Tensor::from_slice(signal, &[2, 32])?;
    let outputs = module.forward(&[(&input).into()])?;
    Ok(outputs[0].tensor()?.as_slice::<f32>()?.to_vec())
}

fn signal() -> [f32; 64] {
    std::array::from_fn(|i| (i as f32 / 5.0).sin())
}

fn main() -> Result<(), Error> {
    let clipped = amplify(&signal())?;
    let loudest = clipped.iter().copied().fold(f32::MIN, f32::max);
    println!("The loudest of {} samples is {loudest:.3}.", clipped.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_uses_our_operator() -> Result<(), Error> {
        for (clipped, x) in amplify(&signal())?.iter().zip(signal()) {
            // The exported model: soft_clip(4 x, 0.9) + 0.05.
            let expected = 0.9 * (4.0 * f64::from(x) / 0.9).tanh() + 0.05;
            assert!((f64::from(*clipped) - expected).abs() < 1e-6, "{clipped} instead of {expected}");
        }
        Ok(())
    }

    #[test]
    fn without_it_the_error_names_it() {
        let module = Options::new().load(include_bytes!("../soft_clip.pte").as_slice());
        let error = module.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("audio::soft_clip.out"), "{error}");
    }
}
