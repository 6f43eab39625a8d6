//! Inputs where nobody gives some.
use crate::failure::Failure;
use crate::golden::Bound;
use sconce::core::{Method, ValueInfo};
use sconce::{ScalarType, Tensor, Value, bf16, f16};

/// What tensors are filled with.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Ones.
    Ones,
    /// Zeros.
    Zeros,
    /// Numbers around 0, the same every time; integers 0 and 1.
    Random,
}

/// Inputs of a method: filled tensors, and what the program recorded for everything else.
pub(crate) fn inputs(method: Method<'_>, fill: Fill) -> Result<Bound, Failure> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let input = |index| match method.input(index) {
        Some(ValueInfo::Tensor { dtype, shape, .. }) => {
            let tensor = match fill {
                Fill::Zeros => Tensor::zeros(dtype, shape.sizes())?,
                Fill::Ones => filled(dtype, shape.sizes(), &mut || (1.0, true))?,
                Fill::Random => random.tensor(dtype, shape.sizes())?,
            };
            Ok(Some(Value::Tensor(tensor)))
        }
        _ => Ok(None),
    };
    (0..method.inputs()).map(input).collect()
}

/// A tensor of numbers: of each that `next` gives, the first one, or the second for integers and truth values.
fn filled(dtype: ScalarType, sizes: &[usize], next: &mut dyn FnMut() -> (f32, bool)) -> Result<Tensor, Failure> {
    let mut tensor = Tensor::zeros(dtype, sizes)?;
    macro_rules! fill {
        ($($dtype:ident $type:ty: $value:expr,)*) => {
            match dtype {
                $(ScalarType::$dtype => {
                    tensor.as_mut_slice::<$type>()?.iter_mut().for_each(|slot| *slot = $value(next()));
                })*
                ScalarType::Bool => {
                    let truths: Vec<bool> = (0..tensor.numel()).map(|_| next().1).collect();
                    tensor = Tensor::from_bools(&truths, sizes)?;
                }
                _ => {}
            }
        };
    }
    fill! {
        Float f32: |(real, _)| real,
        Double f64: |(real, _): (f32, _)| real.into(),
        Half f16: |(real, _)| f16::from_f32(real),
        BFloat16 bf16: |(real, _)| bf16::from_f32(real),
        Byte u8: |(_, whole): (_, bool)| whole.into(),
        Char i8: |(_, whole): (_, bool)| whole.into(),
        Short i16: |(_, whole): (_, bool)| whole.into(),
        Int i32: |(_, whole): (_, bool)| whole.into(),
        Long i64: |(_, whole): (_, bool)| whole.into(),
        UInt16 u16: |(_, whole): (_, bool)| whole.into(),
        UInt32 u32: |(_, whole): (_, bool)| whole.into(),
        UInt64 u64: |(_, whole): (_, bool)| whole.into(),
    }
    Ok(tensor)
}

/// A small generator (xorshift), the same numbers every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Floating-point numbers between -1 and 1; integers 0 and 1, which are in range as indices too.
    fn tensor(&mut self, dtype: ScalarType, sizes: &[usize]) -> Result<Tensor, Failure> {
        filled(dtype, sizes, &mut || {
            let bits = self.next();
            ((bits >> 40) as f32 / (1u32 << 23) as f32 - 1.0, bits & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_inputs_are_small_and_repeatable() {
        for dtype in ScalarType::all() {
            let make = || Random(1).tensor(dtype, &[64]).unwrap();
            assert_eq!(make().bytes(), make().bytes());
        }
        let reals = Random(1).tensor(ScalarType::Float, &[1000]).unwrap();
        let reals = reals.as_slice::<f32>().unwrap();
        assert!(reals.iter().all(|value| (-1.0..1.0).contains(value)) && reals.iter().any(|value| *value < -0.5));
        let indices = Random(1).tensor(ScalarType::Long, &[100]).unwrap();
        let indices = indices.as_slice::<i64>().unwrap();
        assert!(indices.iter().all(|index| (0..=1).contains(index)) && indices.contains(&1));
    }

    #[test]
    fn ones_are_ones_of_every_type() {
        let ones = |dtype| filled(dtype, &[2], &mut || (1.0, true)).unwrap();
        assert_eq!(ones(ScalarType::Double).as_slice::<f64>().unwrap(), [1.0, 1.0]);
        assert_eq!(ones(ScalarType::Short).as_slice::<i16>().unwrap(), [1, 1]);
        assert_eq!(ones(ScalarType::Half).as_slice::<f16>().unwrap(), [f16::ONE; 2]);
        assert_eq!(ones(ScalarType::Bool).bytes(), [1, 1]);
    }
}
