//! When two tensors count as equal.
//!
//! Floating-point numbers a are close to golden b when |a - b| <= atol * max(1, largest |b|) + rtol * |b|; everything
//! else is equal or not. The largest golden value is taken over the whole tensor, because an error made next to large
//! numbers is an error of their size. NaN equals NaN, an infinity equals itself.
use crate::numbers::{Numbers, short};
use sconce::{ScalarType, Tensor};
use std::fmt;

/// How far floating-point numbers may be apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tolerance {
    /// Relative to each golden value.
    pub(crate) relative: f64,
    /// Relative to the largest golden value, or to 1.
    pub(crate) absolute: f64,
    /// Relative to nothing.
    pub(crate) slack: f64,
}

/// The tolerances of a check: what each type allows, unless the caller says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tolerances {
    /// Replaces all relative ones.
    pub(crate) relative: Option<f64>,
    /// Replaces all absolute ones.
    pub(crate) absolute: Option<f64>,
    /// What is allowed besides, whatever the numbers are.
    pub(crate) slack: f64,
}

impl Tolerances {
    /// What integers in place of numbers may cost, whatever they are.
    pub(crate) fn quantised() -> Self {
        Self { relative: Some(4e-2), absolute: Some(1e-1), slack: 0.0 }
    }

    fn of(&self, dtype: ScalarType) -> Tolerance {
        let (relative, absolute) = match dtype {
            ScalarType::Double | ScalarType::ComplexDouble => (1e-7, 1e-7),
            ScalarType::Half => (5e-3, 1e-3),
            ScalarType::BFloat16 => (2e-2, 1e-2),
            _ => (1e-4, 1e-5),
        };
        let (relative, absolute) = (self.relative.unwrap_or(relative), self.absolute.unwrap_or(absolute));
        Tolerance { relative, absolute, slack: self.slack }
    }
}

/// Why two tensors are not equal.
#[derive(Debug, PartialEq)]
pub(crate) enum Difference {
    /// Other element types.
    Type { have: ScalarType, want: ScalarType },
    /// Other sizes.
    Sizes { have: Vec<usize>, want: Vec<usize> },
    /// Other numbers.
    Values { wrong: usize, count: usize, error: f64, real: bool, at: Vec<usize>, have: String, want: String },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { have, want } => write!(f, "is {have}, the golden one is {want}"),
            Self::Sizes { have, want } => write!(f, "has sizes {have:?}, the golden one {want:?}"),
            Self::Values { wrong, count, error, at, have, want, .. } => {
                write!(f, "largest error {} at {at:?}: {have} instead of {want}", short(*error))?;
                write!(f, " ({wrong} of {count} elements differ)")
            }
        }
    }
}

impl Difference {
    /// The largest error, if it is a matter of floating-point numbers.
    pub(crate) fn error(&self) -> Option<f64> {
        match self {
            Self::Values { error, real: true, .. } => Some(*error),
            _ => None,
        }
    }
}

/// Compares a tensor with the golden one, and gives the largest error.
pub(crate) fn compare(have: &Tensor, want: &Tensor, tolerances: &Tolerances) -> Result<f64, Difference> {
    if have.dtype() != want.dtype() {
        return Err(Difference::Type { have: have.dtype(), want: want.dtype() });
    }
    if have.sizes() != want.sizes() {
        return Err(Difference::Sizes { have: have.sizes().to_vec(), want: want.sizes().to_vec() });
    }
    let (left, right) = (Numbers::of(have), Numbers::of(want));
    let (mut errors, mut allowed): (Vec<(usize, f64)>, f64) = (Vec::new(), 0.0);
    match (&left, &right) {
        (Numbers::Real(left), Numbers::Real(right)) => {
            (errors, allowed) = reals(left, right, tolerances.of(want.dtype()))
        }
        (Numbers::Whole(left), Numbers::Whole(right)) => {
            errors.extend(unequal(left, right).map(|(index, a, b)| (index, (a - b) as f64)));
        }
        (Numbers::Raw(left), Numbers::Raw(right)) => {
            errors.extend(unequal(left, right).map(|(index, a, b)| (index, f64::from(a) - f64::from(b))));
        }
        _ => {}
    }
    let Some(&(worst, error)) = errors.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) else {
        return Ok(allowed);
    };
    let per_element = (left.len() / want.numel().max(1)).max(1);
    Err(Difference::Values {
        wrong: errors.len(),
        count: left.len(),
        error: error.abs(),
        real: matches!(right, Numbers::Real(_)),
        at: coordinates(worst / per_element, want.sizes()),
        have: left.short(worst),
        want: right.short(worst),
    })
}

fn unequal<'v, T: Copy + PartialEq>(left: &'v [T], right: &'v [T]) -> impl Iterator<Item = (usize, T, T)> + 'v {
    left.iter().zip(right).enumerate().filter(|(_, (a, b))| a != b).map(|(index, (&a, &b))| (index, a, b))
}

/// Indices and errors of the numbers that are too far apart, and the largest error of the others. A NaN or infinity out of
/// place is infinitely far.
fn reals(have: &[f64], want: &[f64], tolerance: Tolerance) -> (Vec<(usize, f64)>, f64) {
    let largest = want.iter().filter(|value| value.is_finite()).fold(1.0f64, |most, value| most.max(value.abs()));
    let (mut wrong, mut allowed) = (Vec::new(), 0.0f64);
    for (index, (&a, &b)) in have.iter().zip(want).enumerate() {
        let error = match (a - b).abs() {
            _ if a == b || (a.is_nan() && b.is_nan()) => continue,
            error if error.is_finite() => error,
            _ => f64::INFINITY,
        };
        let bound = tolerance.absolute * largest + tolerance.relative * b.abs() + tolerance.slack;
        if error.is_infinite() || error > bound {
            wrong.push((index, error));
        } else {
            allowed = allowed.max(error);
        }
    }
    (wrong, allowed)
}

/// Where element `index` of a row-major tensor is.
fn coordinates(mut index: usize, sizes: &[usize]) -> Vec<usize> {
    let mut at: Vec<usize> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let here = index % size.max(1);
            index /= size.max(1);
            here
        })
        .collect();
    at.reverse();
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_slice(values, &[values.len()]).unwrap()
    }

    fn close(have: &[f32], want: &[f32]) -> bool {
        compare(&floats(have), &floats(want), &Tolerances::default()).is_ok()
    }

    #[test]
    fn absolute_tolerance_scales_with_the_largest_golden_value() {
        // Alone, 0 may be off by 1e-5; beside 1000, by 1e-2.
        assert!(close(&[9e-6], &[0.0]));
        assert!(!close(&[2e-5], &[0.0]));
        assert!(close(&[9e-3, 1000.0], &[0.0, 1000.0]));
        assert!(!close(&[2e-2, 1000.0], &[0.0, 1000.0]));
        // An infinity is no measure of size.
        assert!(!close(&[9e-3, f32::INFINITY], &[0.0, f32::INFINITY]));
    }

    #[test]
    fn relative_tolerance_is_of_each_golden_value() {
        // 1000: 1e-5 * 1000 + 1e-4 * 1000 = 0.11.
        assert!(close(&[1000.1], &[1000.0]));
        assert!(!close(&[1000.12], &[1000.0]));
    }

    #[test]
    fn not_a_number_and_infinities() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert!(close(&[nan, inf, -inf], &[nan, inf, -inf]));
        for (have, want) in [(nan, 0.0), (0.0, nan), (inf, -inf), (inf, f32::MAX), (1.0, inf), (nan, inf)] {
            assert!(!close(&[have], &[want]), "{have} {want}");
        }
    }

    #[test]
    fn integers_are_exact_even_where_floats_are_not() {
        let of = |value: i64| Tensor::from_slice(&[value], &[]).unwrap();
        let far = Tolerances { relative: Some(1.0), absolute: Some(1.0), slack: 1.0 };
        assert_eq!(compare(&of(i64::MAX), &of(i64::MAX), &far), Ok(0.0));
        let difference = compare(&of(i64::MAX - 1), &of(i64::MAX), &far).unwrap_err().to_string();
        assert!(difference.contains("9223372036854775806 instead of 9223372036854775807"), "{difference}");
    }

    #[test]
    fn each_type_has_its_own_tolerance_and_options_replace_them() {
        let close = |dtype, have: f64, tolerances: &Tolerances| {
            let of = |value: f64| match dtype {
                ScalarType::Double => Tensor::from_slice(&[value], &[]).unwrap(),
                ScalarType::Half => Tensor::from_slice(&[sconce::f16::from_f64(value)], &[]).unwrap(),
                _ => Tensor::from_slice(&[sconce::bf16::from_f64(value)], &[]).unwrap(),
            };
            compare(&of(have), &of(1.0), tolerances).is_ok()
        };
        let default = Tolerances::default();
        assert!(
            close(ScalarType::Double, 1.0 + 1.9e-7, &default) && !close(ScalarType::Double, 1.0 + 2.1e-7, &default)
        );
        assert!(close(ScalarType::Half, 1.005, &default) && !close(ScalarType::Half, 1.008, &default));
        assert!(close(ScalarType::BFloat16, 1.0234375, &default) && !close(ScalarType::BFloat16, 1.0390625, &default));
        let wide = Tolerances { relative: Some(0.1), ..Tolerances::default() };
        assert!(close(ScalarType::Double, 1.09, &wide));
    }

    #[test]
    fn slack_is_the_same_beside_large_numbers() {
        let step = Tolerances { relative: Some(0.0), absolute: Some(0.0), slack: 0.5 };
        let compare = |have: &[f32]| compare(&floats(have), &floats(&[0.0, 1000.0]), &step);
        assert_eq!(compare(&[0.5, 999.75]), Ok(0.5));
        assert_eq!(compare(&[0.0, 1000.75]).unwrap_err().error(), Some(0.75));
    }

    #[test]
    fn the_worst_element_is_named_with_its_place() {
        let of = |values: &[f32]| Tensor::from_slice(values, &[2, 3]).unwrap();
        let difference = compare(&of(&[0., 0., 5., 0., 1., 0.]), &of(&[0.; 6]), &Tolerances::default()).unwrap_err();
        assert_eq!(difference.to_string(), "largest error 5 at [0, 2]: 5 instead of 0 (2 of 6 elements differ)");
    }

    #[test]
    fn types_and_sizes_must_match() {
        let flat = floats(&[1.0, 2.0]);
        let column = Tensor::from_slice(&[1.0f32, 2.0], &[2, 1]).unwrap();
        assert!(matches!(compare(&flat, &column, &Tolerances::default()), Err(Difference::Sizes { .. })));
        let double = Tensor::from_slice(&[1.0f64, 2.0], &[2]).unwrap();
        assert!(matches!(compare(&flat, &double, &Tolerances::default()), Err(Difference::Type { .. })));
    }
}
