//! Every function against `libm` in double precision, over bit patterns from one end to the other.
use super::*;

/// Distance in units of the last place of the expected value.
fn error(actual: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if rounded.is_nan() {
        return if actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if rounded.is_infinite() || actual.is_infinite() || actual.is_nan() {
        return if rounded == actual { 0.0 } else { f64::INFINITY };
    }
    let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
    (f64::from(actual) - expected).abs() / unit
}

/// Walks all floats in a stride that has no pattern, and the interesting ones.
fn check(name: &str, ours: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, limit: f64) {
    let special = [
        0.0,
        1.0,
        0.5,
        2.0,
        88.72284,
        88.722_85,
        103.97208,
        104.0,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    let edges = special.iter().flat_map(|x| [*x, -*x]).flat_map(|x| [x, x.next_up(), x.next_down()]);
    let all = (0..=u32::MAX).step_by(4001).map(f32::from_bits);
    for x in edges.chain(all) {
        let (actual, expected) = (ours(x), exact(x.into()));
        let error = error(actual, expected);
        assert!(error <= limit, "{name}({x:e}) = {actual:e} instead of {expected:e}: {error} ulp");
    }
}

#[test]
fn within_a_unit_of_the_exact_value() {
    check("exp", exp, libm::exp, 0.51);
    check("exp2", exp2, libm::exp2, 0.51);
    check("expm1", expm1, libm::expm1, 0.51);
    check("log", log, libm::log, 0.51);
    check("log1p", log1p, libm::log1p, 0.51);
    check("log2", log2, libm::log2, 0.51);
    check("log10", log10, libm::log10, 0.51);
    check("tanh", tanh, libm::tanh, 0.51);
    check("sigmoid", sigmoid, |x| 1.0 / (1.0 + libm::exp(-x)), 0.51);
    check("erf", erf, libm::erf, 0.51);
    check("sin", sin, libm::sin, 0.51);
    check("cos", cos, libm::cos, 0.51);
    check("sqrt", sqrt, libm::sqrt, 0.5);
}

#[test]
fn activations_of_finite_values() {
    let finite = |f: fn(f32) -> f32| move |x: f32| if x.abs() < 1e4 { f(x) } else { 0.0 };
    let exact = |f: fn(f64) -> f64| move |x: f64| if x.abs() < 1e4 { f(x) } else { 0.0 };
    check("silu", finite(silu), exact(|x| x / (1.0 + libm::exp(-x))), 0.51);
    check("gelu", finite(gelu), exact(|x| 0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)), 1.0);
    check(
        "gelu_tanh",
        finite(gelu_tanh),
        exact(|x| {
            let inner = 0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x);
            x / (1.0 + libm::exp(-2.0 * inner))
        }),
        0.51,
    );
}

#[test]
fn powers() {
    let bases = [0.0f32, 1.0, 0.5, 2.0, 3.0, 1e-20, 1e20, 1e-40, 0.999, 1.001, f32::INFINITY, f32::NAN];
    let exponents = [0.0f32, 1.0, 2.0, 3.0, 0.5, 1.5, 7.0, 100.0, 1e9, 16_777_217.0, f32::INFINITY, f32::NAN];
    for x in bases.iter().flat_map(|x| [*x, -*x]) {
        for y in exponents.iter().flat_map(|y| [*y, -*y]) {
            let (actual, expected) = (pow(x, y), libm::pow(x.into(), y.into()));
            assert!(error(actual, expected) <= 0.6, "{x}^{y} = {actual} instead of {expected}");
            assert!(expected != 0.0 || actual.is_sign_negative() == expected.is_sign_negative(), "sign of {x}^{y}");
        }
    }
    let mut random = crate::testing::Random::new(9);
    for _ in 0..20_000 {
        let (x, y) = (f32::from_bits(random.below(1 << 31) as u32), random.floats(1)[0] * 40.0);
        let (actual, expected) = (pow(x, y), libm::pow(x.into(), y.into()));
        assert!(error(actual, expected) <= 0.6, "{x:e}^{y} = {actual:e} instead of {expected:e}");
    }
}

#[test]
fn zeros_keep_their_sign() {
    for f in [expm1, log1p, tanh, erf, sin] {
        assert!(f(-0.0).is_sign_negative() && f(0.0).is_sign_positive());
    }
}
