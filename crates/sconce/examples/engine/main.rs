//! An engine of one's own, beside the CPU engine.
//!
//! ```sh
//! cargo run -p sconce --example engine -- tests/golden/mobile_block.pte
//! ```
//!
//! [`Elementwise`] stands for a device: it has memory of its own, and every session has a thread that works while the caller
//! does something else. What it does not run it refuses with a reason, and the CPU engine gets it. The example prints who runs
//! what, and compares the outputs with those of the CPU engine alone.
mod elementwise;

use elementwise::Elementwise;
use sconce::core::ValueInfo;
use sconce::{Error, Input, Module, Options, Tensor};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: engine MODEL.pte")?;
    let (plans, difference) = compare(path.as_ref())?;
    print!("{plans}");
    println!("the outputs differ by at most {difference:e}");
    Ok(())
}

/// Who runs what of a method `forward` of floats, and the largest difference of its outputs from those of the CPU alone.
fn compare(path: &Path) -> Result<(String, f32), Error> {
    let module = Options::new().threads(1).engine(Elementwise).load(path)?;
    let reference = Options::new().threads(1).load(path)?;
    let plans = [module.call_plans("forward")?, module.delegate_plans("forward")?].concat().concat();
    let (one, other) = (outputs(&module)?, outputs(&reference)?);
    let difference = one.into_iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    Ok((plans, difference))
}

/// The numbers that a module gives for inputs that rise and fall.
fn outputs(module: &Module) -> Result<Vec<f32>, Error> {
    let mut session = module.session()?;
    let mut tensors = Vec::new();
    for index in 0..session.view().inputs() {
        let Some(ValueInfo::Tensor { shape, .. }) = session.view().input(index) else { continue };
        let count = shape.sizes().iter().product();
        let numbers: Vec<f32> = (0..count).map(|place| (place as f32 * 0.37).sin() * 2.0).collect();
        tensors.push(Tensor::from_slice(&numbers, shape.sizes())?);
    }
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::Tensor).collect();
    let mut numbers = Vec::new();
    for value in session.run(&inputs)? {
        numbers.extend_from_slice(value.tensor()?.as_slice::<f32>()?);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mobile block has sums and limits of single numbers, which the engine takes, and convolutions, which it refuses.
    #[test]
    fn both_engines_give_what_one_gives() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mobile_block.pte");
        let (plans, difference) = compare(&path).unwrap();
        for expected in [
            "on elementwise:",
            "multiply  <-  multiply %0, %3",
            "on cpu:",
            "elementwise does not run conv2d: it has no such function",
        ] {
            assert!(plans.contains(expected), "{expected} is not in\n{plans}");
        }
        assert!(difference < 1e-5, "{difference}");
    }
}
