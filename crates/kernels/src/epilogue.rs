//! What becomes of results while they are still in the first-level cache.
//!
//! A kernel that has just written a piece of its output calls [`finish`] on it: a list of [`Then`]s, interpreted once per
//! piece, each a plain loop that vectorises. That costs a load and a store per element from the nearest cache, where a
//! separate pass would fetch the tensor from memory again. A kernel may do the first steps in registers instead (bias
//! and limits, mostly) and hand on the rest of the list.
use crate::gemm::clamp;
use crate::isa::Isa;
use crate::math;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $(($($parameter:ident),+))? => |$x:ident| $value:expr $(, $all:path, $every:path)?;)*) => {
        /// A function of one number.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Function {
            $($(#[$doc])* $name $(($(functions!(number $parameter)),+))?,)*
        }

        impl Function {
            /// Applies the function to every element.
            pub fn apply(self, isa: Isa, values: &mut [f32]) {
                isa.vectorize(
                    #[inline(always)]
                    || match self {
                        $(Self::$name $(($($parameter),+))? => functions!(in_place values, |$x| $value $(, $every)?),)*
                    },
                );
            }

            /// Puts the function of every element of `from` into `to`.
            pub fn apply_to(self, isa: Isa, from: &[f32], to: &mut [f32]) {
                let from = &from[..to.len()];
                isa.vectorize(
                    #[inline(always)]
                    || match self {
                        $(Self::$name $(($($parameter),+))? => functions!(from from, to, |$x| $value $(, $all)?),)*
                    },
                );
            }
        }
    };
    (number $parameter:ident) => { f32 };
    (in_place $values:ident, |$x:ident| $value:expr) => { $values.iter_mut().for_each(|place| { let $x = *place; *place = $value; }) };
    (in_place $values:ident, |$x:ident| $value:expr, $every:path) => { $every($values) };
    (from $from:ident, $to:ident, |$x:ident| $value:expr) => { $to.iter_mut().zip($from).for_each(|(place, &$x)| *place = $value) };
    (from $from:ident, $to:ident, |$x:ident| $value:expr, $all:path) => { $all($from, $to) };
}
functions! {
    /// The absolute value.
    Abs => |x| x.abs();
    /// The number with the other sign.
    Negate => |x| -x;
    /// The smallest whole number not below.
    Ceil => |x| math::ceil(x);
    /// The largest whole number not above.
    Floor => |x| math::floor(x);
    /// The nearest whole number; of two, the even one.
    Round => |x| math::round_ties_even(x);
    /// `x * x`
    Square => |x| x * x;
    /// `1 / x`
    Reciprocal => |x| 1.0 / x;
    /// The square root.
    SquareRoot => |x| math::sqrt(x);
    /// One divided by the square root.
    ReciprocalSquareRoot => |x| 1.0 / math::sqrt(x);
    /// `e^x`
    Exp => |x| math::exp(x), math::exp_all, math::exp_in_place;
    /// The natural logarithm.
    Log => |x| math::log(x), math::log_all, math::log_in_place;
    /// The sine.
    Sin => |x| math::sin(x), math::sin_all, math::sin_in_place;
    /// The cosine.
    Cos => |x| math::cos(x), math::cos_all, math::cos_in_place;
    /// The hyperbolic tangent.
    Tanh => |x| math::tanh(x), math::tanh_all, math::tanh_in_place;
    /// `1 / (1 + e^-x)`
    Sigmoid => |x| math::sigmoid(x), math::sigmoid_all, math::sigmoid_in_place;
    /// `x * sigmoid(x)`
    Silu => |x| math::silu(x), math::silu_all, math::silu_in_place;
    /// The error function.
    Erf => |x| math::erf(x);
    /// The Gaussian error linear unit.
    Gelu => |x| math::gelu(x);
    /// The same, approximated by a hyperbolic tangent.
    GeluTanh => |x| math::gelu_tanh(x);
    /// `clamp(x + 3, 0, 6) / 6`
    HardSigmoid => |x| clamp(x + 3.0, (0.0, 6.0)) * (1.0 / 6.0);
    /// `x * clamp(x + 3, 0, 6) / 6`
    HardSwish => |x| x * clamp(x + 3.0, (0.0, 6.0)) * (1.0 / 6.0);
    /// `alpha * (e^x - 1)` below zero.
    Elu(alpha) => |x| if x < 0.0 { alpha * math::expm1(x) } else { x };
    /// `slope * x` below zero.
    LeakyRelu(slope) => |x| if x < 0.0 { slope * x } else { x };
    /// Limits to `low..=high`; NaN stays.
    Clamp(low, high) => |x| clamp(x, (low, high));
    /// `x + summand`
    Plus(summand) => |x| x + summand;
    /// `x * factor`
    Times(factor) => |x| x * factor;
    /// `x / divisor`
    Over(divisor) => |x| x / divisor;
    /// `factor * x + summand`
    Affine(factor, summand) => |x| factor * x + summand;
}

/// One step after the main computation.
#[derive(Clone, Copy, Debug)]
pub enum Then<'a> {
    /// A function of each element.
    Apply(Function),
    /// Adds a tensor laid out as the output.
    Add(&'a [f32]),
    /// Multiplies by a tensor laid out as the output.
    Multiply(&'a [f32]),
}

/// A list of steps, parted: those that a kernel takes in registers, and the rest.
pub(crate) struct Steps<'a> {
    /// What is added first.
    pub(crate) residual: Option<&'a [f32]>,
    /// The limits that follow.
    pub(crate) limits: Option<(f32, f32)>,
    /// What is left for [`finish`].
    pub(crate) rest: &'a [Then<'a>],
}

impl<'a> Steps<'a> {
    pub(crate) fn of(then: &'a [Then<'a>]) -> Self {
        let (residual, then) = match then {
            [Then::Add(other), rest @ ..] => (Some(*other), rest),
            all => (None, all),
        };
        match then {
            [Then::Apply(Function::Clamp(low, high)), rest @ ..] => {
                Self { residual, limits: Some((*low, *high)), rest }
            }
            rest => Self { residual, limits: None, rest },
        }
    }
}

/// Takes the steps for the piece `values` of an output, which starts at element `at` of it.
pub fn finish(isa: Isa, then: &[Then<'_>], at: usize, values: &mut [f32]) {
    for step in then {
        match *step {
            Then::Apply(function) => function.apply(isa, values),
            Then::Add(other) => combine(isa, values, &other[at..], |a, b| a + b),
            Then::Multiply(other) => combine(isa, values, &other[at..], |a, b| a * b),
        }
    }
}

#[inline(always)]
fn combine(isa: Isa, values: &mut [f32], other: &[f32], f: impl Fn(f32, f32) -> f32) {
    let other = &other[..values.len()];
    isa.vectorize(
        #[inline(always)]
        || {
            for (x, y) in values.iter_mut().zip(other) {
                *x = f(*x, *y);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other_at_their_place() {
        for isa in Isa::available() {
            let residual: Vec<f32> = (0..40).map(|i| i as f32).collect();
            let then = [
                Then::Add(&residual),
                Then::Apply(Function::Clamp(0.0, 20.0)),
                Then::Multiply(&residual),
                Then::Apply(Function::Affine(2.0, 1.0)),
            ];
            let mut values = [-12.0; 21];
            finish(isa, &then, 10, &mut values);
            for (i, value) in values.into_iter().enumerate() {
                let place = (10 + i) as f32;
                assert_eq!(value, (place - 12.0).clamp(0.0, 20.0) * place * 2.0 + 1.0);
            }
        }
    }

    #[test]
    fn halves_are_rounded_to_even_numbers() {
        for isa in Isa::available() {
            let mut values = [-2.5, -1.5, -0.4, 0.5, 2.5, 3.5, 8_388_609.0];
            Function::Round.apply(isa, &mut values);
            assert_eq!(values, [-2.0, -2.0, 0.0, 0.0, 2.0, 4.0, 8_388_609.0]);
            assert!(values[2].is_sign_negative());
        }
    }

    #[test]
    fn hard_swish_is_flat_then_straight() {
        let mut values = [-4.0, -3.0, -1.5, 0.0, 1.0, 3.0, 5.0];
        Function::HardSwish.apply(Isa::detect(), &mut values);
        let expected = [0.0, 0.0, -0.375, 0.0, 4.0 / 6.0, 3.0, 5.0];
        assert!(values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{values:?}");
    }
}
