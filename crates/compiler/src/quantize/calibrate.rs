//! What values are when a program runs on inputs of its kind.
//!
//! The values to look at become the outputs of a copy of the method, which a [`Calibrator`] runs on every input. Nothing
//! is kept but what the caller makes of it. Where there is much to look at, several copies look at a part each.

use crate::emit;
use crate::ir::{Constant, Constants, Function, Output, Program, ValueId};
use crate::memory::Smallest;
use crate::{Error, lower, passes};
use sconce_format::ScalarType;

/// Runs programs on calibration inputs.
pub trait Calibrator {
    /// Whether there are inputs of this method.
    fn knows(&self, method: &str) -> bool;

    /// Runs the method `forward` of a program (the bytes of a `.pte`) on each of the inputs of the method that goes by
    /// `method` in the export, and passes what it gives to `each`: the elements of every output, row by row.
    fn run(&self, method: &str, program: &[u8], each: &mut dyn FnMut(&[Vec<u8>])) -> Result<(), String>;
}

/// Bytes of outputs that one copy of a program may have.
const MOST_BYTES: u64 = 1 << 28;

/// Runs a method on all inputs and shows the elements of each of `values` to `each`, which gets them by their place.
pub(super) fn observe(
    function: &Function,
    constants: &Constants<'_>,
    values: &[ValueId],
    calibrator: &dyn Calibrator,
    each: &mut dyn FnMut(usize, &[u8]),
) -> Result<(), Error> {
    let mut start = 0;
    while start < values.len() {
        let mut bytes = 0u64;
        let fits = |value: &&ValueId| {
            bytes = bytes.saturating_add(size(function, **value));
            bytes <= MOST_BYTES
        };
        let count = values[start..].iter().take_while(fits).count().max(1);
        let program = showing(function, constants, &values[start..start + count])?;
        let mut shown = |outputs: &[Vec<u8>]| {
            outputs.iter().take(count).enumerate().for_each(|(place, bytes)| each(start + place, bytes));
        };
        calibrator.run(&function.name, &program, &mut shown).map_err(failed)?;
        start += count;
    }
    Ok(())
}

/// Gets the elements of both values of a pair, by its place.
pub(super) type SeePair<'s> = dyn FnMut(usize, &[u8], &[u8]) + 's;

/// The same with two values at a time, which must be in one run.
pub(super) fn compare(
    function: &Function,
    constants: &Constants<'_>,
    pairs: &[(ValueId, ValueId)],
    calibrator: &dyn Calibrator,
    each: &mut SeePair<'_>,
) -> Result<(), Error> {
    let most =
        (MOST_BYTES / 2 / pairs.iter().map(|(a, _)| size(function, *a)).max().unwrap_or(1).max(1)).max(1) as usize;
    for (number, part) in pairs.chunks(most).enumerate() {
        let values: Vec<ValueId> = part.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let program = showing(function, constants, &values)?;
        let mut shown = |outputs: &[Vec<u8>]| {
            for (place, pair) in outputs.chunks_exact(2).enumerate() {
                each(number * most + place, &pair[0], &pair[1]);
            }
        };
        calibrator.run(&function.name, &program, &mut shown).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: String) -> Error {
    Error::unsupported(format!("a program that does not run on the calibration inputs ({error})"))
}

/// The elements of a tensor of type float32.
pub(super) fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + Clone + '_ {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// A program that computes only these values.
fn showing(function: &Function, constants: &Constants<'_>, values: &[ValueId]) -> Result<Vec<u8>, Error> {
    let mut copy = Function { name: "forward".to_owned(), ..function.clone() };
    copy.outputs = values.iter().copied().map(Output::Value).collect();
    copy.body.outputs = values.to_vec();
    copy.nesting = Default::default();
    let borrowed = constants.0.iter().map(|own| Constant { name: String::new(), bytes: (&*own.bytes).into() });
    let mut constants = Constants(borrowed.collect());
    super::expand_groups(&mut copy, &mut constants)?;
    lower::lower(&mut copy, &mut constants)?;
    passes::run(&passes::standard(), &mut copy, &mut constants)?;
    let program = Program { functions: vec![copy], constants, ..Program::default() };
    Ok(emit::emit(&program, &Smallest, emit::Options::default())?.program.write())
}

/// Bytes of a value; what is not known counts as little.
fn size(function: &Function, value: ValueId) -> u64 {
    let Some(ty) = function.tensor(value).filter(|ty| ty.dtype == ScalarType::Float) else { return 0 };
    let sizes = ty.sizes.iter().map(|size| size.number().and_then(|size| u64::try_from(size).ok()).unwrap_or(1));
    sizes.fold(4, u64::saturating_mul)
}
