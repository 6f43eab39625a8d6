//! The elements of any tensor as numbers to be compared and printed.
use sconce::{Element, ScalarType, Tensor, bf16, f16};

/// Elements in row-major order.
#[derive(Debug, PartialEq)]
pub(crate) enum Numbers {
    /// Integers and truth values.
    Whole(Vec<i128>),
    /// Floating-point numbers; a complex number is two, real and imaginary.
    Real(Vec<f64>),
    /// Types without arithmetic here, byte by byte.
    Raw(Vec<u8>),
}

impl Numbers {
    /// The elements of a tensor.
    pub(crate) fn of(tensor: &Tensor) -> Self {
        let tensor = &tensor.to_contiguous();
        match tensor.dtype() {
            ScalarType::Byte => whole::<u8>(tensor),
            ScalarType::Char => whole::<i8>(tensor),
            ScalarType::Short => whole::<i16>(tensor),
            ScalarType::Int => whole::<i32>(tensor),
            ScalarType::Long => whole::<i64>(tensor),
            ScalarType::UInt16 => whole::<u16>(tensor),
            ScalarType::UInt32 => whole::<u32>(tensor),
            ScalarType::UInt64 => whole::<u64>(tensor),
            ScalarType::Bool => Self::Whole(tensor.bytes().iter().map(|&byte| i128::from(byte != 0)).collect()),
            ScalarType::Half => real::<f16>(tensor),
            ScalarType::BFloat16 => real::<bf16>(tensor),
            ScalarType::Float => real::<f32>(tensor),
            ScalarType::Double => real::<f64>(tensor),
            ScalarType::ComplexFloat => Self::Real(
                tensor.bytes().as_chunks().0.iter().map(|&part| f64::from(f32::from_ne_bytes(part))).collect(),
            ),
            ScalarType::ComplexDouble => {
                Self::Real(tensor.bytes().as_chunks().0.iter().map(|&part| f64::from_ne_bytes(part)).collect())
            }
            _ => Self::Raw(tensor.bytes().to_vec()),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(values) => values.len(),
            Self::Real(values) => values.len(),
            Self::Raw(values) => values.len(),
        }
    }

    /// Number `index` in a few digits.
    pub(crate) fn short(&self, index: usize) -> String {
        match self {
            Self::Whole(values) => values.get(index).map(i128::to_string),
            Self::Real(values) => values.get(index).map(|&value| short(value)),
            Self::Raw(values) => values.get(index).map(|byte| format!("0x{byte:02x}")),
        }
        .unwrap_or_default()
    }
}

fn whole<T: Element + Into<i128>>(tensor: &Tensor) -> Numbers {
    Numbers::Whole(tensor.as_slice::<T>().unwrap_or_default().iter().map(|&value| value.into()).collect())
}

fn real<T: Element + Into<f64>>(tensor: &Tensor) -> Numbers {
    Numbers::Real(tensor.as_slice::<T>().unwrap_or_default().iter().map(|&value| value.into()).collect())
}

/// A number in at most six significant digits.
pub(crate) fn short(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    if !(-5.0..6.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (5.0 - magnitude) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_each_family() {
        let tensor = |dtype, bytes: &[u8]| Tensor::from_bytes(dtype, &[bytes.len() / dtype.size()], bytes).unwrap();
        assert_eq!(Numbers::of(&tensor(ScalarType::Char, &[255, 1])), Numbers::Whole(vec![-1, 1]));
        assert_eq!(Numbers::of(&tensor(ScalarType::UInt64, &[255; 8])), Numbers::Whole(vec![u64::MAX.into()]));
        assert_eq!(Numbers::of(&tensor(ScalarType::Bool, &[0, 1])), Numbers::Whole(vec![0, 1]));
        // 0x3f80 is 1.0 in bfloat16.
        let one = 0x3f80u16.to_ne_bytes();
        assert_eq!(Numbers::of(&tensor(ScalarType::BFloat16, &one)), Numbers::Real(vec![1.0]));
        let complex: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|part| part.to_ne_bytes()).collect();
        assert_eq!(Numbers::of(&tensor(ScalarType::ComplexFloat, &complex)), Numbers::Real(vec![1.5, -2.0]));
        assert_eq!(Numbers::of(&tensor(ScalarType::QInt8, &[7])), Numbers::Raw(vec![7]));
    }

    #[test]
    fn few_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (100.0, "100"),
            (-0.123456789, "-0.123457"),
            (123456.7, "123457"),
            (1e9, "1.000e9"),
            (1.5e-7, "1.500e-7"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
