//! Which type the result of mixed operands has.
//!
//! PyTorch orders types by category (bool, integer, floating, complex) and operands by how much of a tensor they are:
//! tensors with dimensions count first, then tensors without, then plain numbers. A weaker operand changes the type
//! only if its category is higher.
use sconce_format::ScalarType::{self, *};

/// An operand of a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A tensor of this type with dimensions.
    Tensor(ScalarType),
    /// A tensor of this type without dimensions.
    ZeroDim(ScalarType),
    /// A number: an integer counts as int64, a floating-point number as float32, a truth value as bool.
    Scalar(ScalarType),
}

impl Operand {
    /// A tensor of this type and rank.
    pub fn tensor(dtype: ScalarType, rank: usize) -> Self {
        if rank == 0 { Self::ZeroDim(dtype) } else { Self::Tensor(dtype) }
    }
}

fn category(dtype: ScalarType) -> u8 {
    match dtype {
        Bool => 0,
        _ if dtype.is_complex() => 3,
        _ if dtype.is_floating() => 2,
        _ => 1,
    }
}

/// The type of a result of these operands.
pub fn promote(operands: &[Operand]) -> Option<ScalarType> {
    let mut strengths: [Option<ScalarType>; 3] = [None; 3];
    for operand in operands {
        let (strength, dtype) = match *operand {
            Operand::Tensor(dtype) => (0, dtype),
            Operand::ZeroDim(dtype) => (1, dtype),
            Operand::Scalar(dtype) => (2, dtype),
        };
        strengths[strength] = Some(match strengths[strength] {
            Some(present) => promote_types(present, dtype)?,
            None => dtype,
        });
    }
    strengths.into_iter().flatten().reduce(|strong, weak| {
        if category(weak) > category(strong) { promote_types(strong, weak).unwrap_or(weak) } else { strong }
    })
}

/// The smallest type that holds both, as `torch.promote_types` has it; `None` for types that do not promote.
pub fn promote_types(a: ScalarType, b: ScalarType) -> Option<ScalarType> {
    if a == b {
        return Some(a);
    }
    match (category(a), category(b)) {
        (x, y) if x > y && x >= 2 => promote_floating(a, b, x, y),
        (x, y) if y > x && y >= 2 => promote_floating(b, a, y, x),
        (0, _) => Some(b),
        (_, 0) => Some(a),
        (1, 1) => promote_integers(a, b),
        (2, 2) => Some(match (a, b) {
            (Double, _) | (_, Double) => Double,
            _ => Float,
        }),
        (3, 3) => Some(if a == ComplexDouble || b == ComplexDouble { ComplexDouble } else { ComplexFloat }),
        _ => None,
    }
}

/// A floating or complex type with one of a lower category.
fn promote_floating(high: ScalarType, low: ScalarType, high_category: u8, low_category: u8) -> Option<ScalarType> {
    if high_category == 3 && low_category == 2 {
        return Some(match (high, low) {
            (ComplexDouble, _) | (_, Double) => ComplexDouble,
            (ComplexHalf, Half) => ComplexHalf,
            _ => ComplexFloat,
        });
    }
    Some(high)
}

fn promote_integers(a: ScalarType, b: ScalarType) -> Option<ScalarType> {
    let signed = |dtype| matches!(dtype, Char | Short | Int | Long);
    match (signed(a), signed(b)) {
        (true, true) | (false, false) => Some(if a.size() >= b.size() { a } else { b }),
        (true, false) => promote_signs(a, b),
        (false, true) => promote_signs(b, a),
    }
}

/// A signed with an unsigned type: only uint8 meets a signed type that holds both.
fn promote_signs(signed: ScalarType, unsigned: ScalarType) -> Option<ScalarType> {
    match (signed, unsigned) {
        (Char, Byte) => Some(Short),
        (_, Byte) => Some(signed),
        _ => None,
    }
}

/// The type in which a function of real numbers computes for operands of this type: floating types stay, others become
/// float32.
pub fn to_floating(dtype: ScalarType) -> ScalarType {
    if dtype.is_floating() || dtype.is_complex() { dtype } else { Float }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_torch_promote_types() {
        let table = [
            (Byte, Char, Short),
            (Byte, Long, Long),
            (Int, Long, Long),
            (Bool, Byte, Byte),
            (Long, Half, Half),
            (Half, BFloat16, Float),
            (Half, Float, Float),
            (Float, Double, Double),
            (Double, ComplexFloat, ComplexDouble),
            (Int, ComplexHalf, ComplexHalf),
        ];
        for (a, b, want) in table {
            assert_eq!(promote_types(a, b), Some(want), "{a:?} {b:?}");
            assert_eq!(promote_types(b, a), Some(want), "{b:?} {a:?}");
        }
    }

    #[test]
    fn weaker_operands_change_only_the_category() {
        let promote = |operands: &[Operand]| super::promote(operands).unwrap();
        assert_eq!(promote(&[Operand::Tensor(Int), Operand::Scalar(Long)]), Int);
        assert_eq!(promote(&[Operand::Tensor(Int), Operand::Scalar(Float)]), Float);
        assert_eq!(promote(&[Operand::Tensor(Half), Operand::ZeroDim(Double)]), Half);
        assert_eq!(promote(&[Operand::ZeroDim(Int), Operand::ZeroDim(Long)]), Long);
        assert_eq!(promote(&[Operand::Tensor(Bool), Operand::Scalar(Long)]), Long);
        assert_eq!(promote(&[Operand::Tensor(Byte), Operand::ZeroDim(Float), Operand::Scalar(Bool)]), Float);
        assert_eq!(super::promote(&[]), None);
    }
}
