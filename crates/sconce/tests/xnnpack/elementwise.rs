//! Functions of one and of two elements.

use super::program::{Array, KINDS, Kind, Payload, check};
use sconce::format::xnnpack::model::{Binary, ExponentialUnit, LeakyUnit, Operation, Unary};

type Row = (fn(Unary) -> Operation, fn(f64) -> f64, bool);

/// Node, what it computes, and whether it is for numbers above zero only.
const FUNCTIONS: [Row; 17] = [
    (Operation::Abs, f64::abs, false),
    (Operation::Ceiling, f64::ceil, false),
    (Operation::Copy, |x| x, false),
    (Operation::Cos, f64::cos, false),
    (Operation::Exp, f64::exp, false),
    (Operation::Floor, f64::floor, false),
    (Operation::Gelu, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())), false),
    (Operation::Hardswish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0, false),
    (Operation::Log, f64::ln, true),
    (Operation::Negate, |x| -x, false),
    (Operation::ReciprocalSquareRoot, |x| 1.0 / x.sqrt(), true),
    (Operation::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), false),
    (Operation::Sin, f64::sin, false),
    (Operation::Square, |x| x * x, false),
    (Operation::SquareRoot, f64::sqrt, true),
    (Operation::Tanh, f64::tanh, false),
    (Operation::Convert, |x| x, false),
];

/// The error function by its series, for numbers of a few units.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// The kind of a result whose numbers are about as large as those of the operands.
fn result(kind: Kind) -> Kind {
    kind.with(0.06, 2)
}

#[test]
fn functions_of_one_element() {
    for (operation, function, positive) in FUNCTIONS {
        for kind in KINDS {
            let mut payload = Payload::default();
            let (input, numbers) = payload.input(kind, &[2, 3, 37], if positive { 0.5..4.0 } else { -4.0..4.0 });
            let output = payload.output(result(kind), &[2, 3, 37]);
            payload.unary(operation, input, output);
            let expected = numbers.map(function);
            let what = payload.graph.nodes[0].operation.name();
            let moves = ["Abs", "Ceiling", "Copy", "Convert", "Floor", "Negate"].contains(&what);
            check(what, result(kind), &payload.run()[0], &expected, moves && !kind.is_quantized());
        }
    }
}

/// Node, limits and what it computes.
type Limited = (Operation, Option<(f32, f32)>, fn(f64) -> f64);

#[test]
fn functions_with_a_parameter_and_limits() {
    for kind in KINDS {
        let rows: [Limited; 3] = [
            (Operation::ELU(ExponentialUnit { alpha: 0.7, input_id: 0, output_id: 1, flags: 0 }), None, |x| {
                if x < 0.0 { f64::from(0.7f32) * x.exp_m1() } else { x }
            }),
            (Operation::LeakyReLU(LeakyUnit { negative_slope: 0.2, input_id: 0, output_id: 1, flags: 0 }), None, |x| {
                if x < 0.0 { f64::from(0.2f32) * x } else { x }
            }),
            (Operation::Clamp(Unary { input_id: 0, output_id: 1, flags: 0 }), Some((-1.5, 2.25)), |x| {
                x.clamp(-1.5, 2.25)
            }),
        ];
        for (operation, limits, function) in rows {
            let mut payload = Payload::default();
            let (_, numbers) = payload.input(kind, &[5, 13], -4.0..4.0);
            payload.output(result(kind), &[5, 13]);
            let what = operation.name();
            payload.node(operation, limits);
            check(what, result(kind), &payload.run()[0], &numbers.map(function), false);
        }
    }
}

/// Along the last dimension.
#[test]
fn softmax() {
    for kind in KINDS {
        let mut payload = Payload::default();
        let (input, numbers) = payload.input(kind, &[3, 2, 21], -4.0..4.0);
        let to = kind.with(1.0 / 256.0, if matches!(kind, Kind::Int8(..)) { -135 } else { -131 });
        let output = payload.output(to, &[3, 2, 21]);
        payload.unary(Operation::Softmax, input, output);
        let sums: Vec<f64> = numbers.numbers.chunks(21).map(|row| row.iter().map(|x| x.exp()).sum()).collect();
        let expected = Array::new(&[3, 2, 21], |place| numbers.numbers[place].exp() / sums[place / 21]);
        check("softmax", to, &payload.run()[0], &expected, false);
    }
}

type Pair = (fn(Binary) -> Operation, fn(f64, f64) -> f64);

const COMBINATIONS: [Pair; 6] = [
    (Operation::Add, |a, b| a + b),
    (Operation::Subtract, |a, b| a - b),
    (Operation::Multiply, |a, b| a * b),
    (Operation::Div, |a, b| a / b),
    (Operation::Minimum, f64::min),
    (Operation::Maximum, f64::max),
];

/// Sizes of two operands and of the result, the same or repeated in every way.
const SIZES: [(&[usize], &[usize], &[usize]); 7] = [
    (&[2, 3, 4, 17], &[2, 3, 4, 17], &[2, 3, 4, 17]),
    (&[2, 3, 4, 5], &[5], &[2, 3, 4, 5]),
    (&[4, 1], &[2, 3, 1, 5], &[2, 3, 4, 5]),
    (&[1], &[2, 3], &[2, 3]),
    (&[2, 1, 4, 1], &[1, 3, 1, 5], &[2, 3, 4, 5]),
    (&[2, 3, 4, 5], &[1, 1, 1, 5], &[2, 3, 4, 5]),
    (&[3, 1, 1], &[2, 3, 4, 5], &[2, 3, 4, 5]),
];

/// What two operands make, where a size of one is repeated.
fn combined(a: &Array, b: &Array, sizes: &[usize], function: impl Fn(f64, f64) -> f64) -> Array {
    let whole = Array::new(sizes, |_| 0.0);
    let at = |operand: &Array, indices: &[usize]| {
        let own = &indices[indices.len() - operand.sizes.len()..];
        let own: Vec<usize> = own.iter().zip(&operand.sizes).map(|(&index, &size)| index.min(size - 1)).collect();
        operand.at(&own)
    };
    Array::new(sizes, |place| {
        let indices = whole.indices(place);
        function(at(a, &indices), at(b, &indices))
    })
}

/// Limits are for sums, differences, products and quotients; a minimum or maximum has none.
#[test]
fn functions_of_two_elements() {
    for (operation, function) in COMBINATIONS {
        for (first, second, sizes) in SIZES {
            for kind in KINDS {
                for limits in [None, Some((-0.5, 0.75))] {
                    let mut payload = Payload::default();
                    let (input1_id, a) = payload.input(kind, first, -2.0..2.0);
                    let (input2_id, b) = payload.input(kind.with(0.025, -9), second, 0.5..2.0);
                    let output_id = payload.output(result(kind), sizes);
                    payload.node(operation(Binary { input1_id, input2_id, output_id, flags: 0 }), limits);
                    let what = payload.graph.nodes[0].operation.name();
                    let chooses = ["Minimum", "Maximum"].contains(&what);
                    let mut expected = combined(&a, &b, sizes, function);
                    if let Some((low, high)) = limits.filter(|_| !chooses) {
                        expected = expected.map(|x| x.clamp(f64::from(low), f64::from(high)));
                    }
                    let what = format!("{what} of {first:?} and {second:?} within {limits:?}");
                    check(&what, result(kind), &payload.run()[0], &expected, chooses && !kind.is_quantized());
                }
            }
        }
    }
}

/// One slope per channel, a constant.
#[test]
fn slopes_below_zero() {
    for kind in KINDS {
        let mut payload = Payload::default();
        let (input1_id, a) = payload.input(kind, &[2, 3, 4, 19], -4.0..4.0);
        let (input2_id, b) = payload.constant(kind.with(0.01, 0), &[1, 1, 1, 19], -0.5..0.5);
        let output_id = payload.output(result(kind), &[2, 3, 4, 19]);
        payload.node(Operation::PReLU(Binary { input1_id, input2_id, output_id, flags: 0 }), None);
        let expected = combined(&a, &b, &[2, 3, 4, 19], |a, b| if a < 0.0 { a * b } else { a });
        check("PReLU", result(kind), &payload.run()[0], &expected, false);
    }
}

/// From every kind to every kind: quotients are rounded to even.
#[test]
fn conversions() {
    for from in KINDS {
        for to in KINDS {
            let mut payload = Payload::default();
            let (input, numbers) = payload.input(from, &[3, 41], -6.0..6.0);
            let output = payload.output(to, &[3, 41]);
            payload.unary(Operation::Convert, input, output);
            let exact = to == Kind::Fp32 || !from.is_quantized() && !to.is_quantized();
            check(&format!("{from:?} as"), to, &payload.run()[0], &numbers, exact);
        }
    }
}
