//! Every function against `libm` in double precision, over bit patterns from one end to the other.
use super::*;

/// Distance from the correctly rounded value, in units of its last place.
fn error(actual: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if rounded.is_nan() {
        return if actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if rounded.is_infinite() || actual.is_infinite() || actual.is_nan() {
        return if rounded == actual { 0.0 } else { f64::INFINITY };
    }
    let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
    (f64::from(actual) - f64::from(rounded)).abs() / unit
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
fn within_two_units_of_the_exact_value() {
    let sigmoid_exact =
        |x: f64| if x < 0.0 { libm::exp(x) / (1.0 + libm::exp(x)) } else { 1.0 / (1.0 + libm::exp(-x)) };
    check("exp", exp, libm::exp, 1.0);
    let decay_exact = |x: f64| if x < -87.0 { 0.0 } else { libm::exp(x) };
    check("decay", |x| if x > 0.0 { exp(x) } else { decay(x) }, decay_exact, 6.0);
    check("exp2", exp2, libm::exp2, 1.0);
    check("expm1", expm1, libm::expm1, 1.0);
    check("log", log, libm::log, 1.0);
    check("log1p", log1p, libm::log1p, 2.0);
    check("log2", log2, libm::log2, 2.0);
    check("log10", log10, libm::log10, 2.0);
    check("tanh", tanh, libm::tanh, 2.0);
    check("sinh", sinh, libm::sinh, 2.0);
    check("cosh", cosh, libm::cosh, 2.0);
    check("asinh", asinh, libm::asinh, 1.0);
    check("acosh", acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 1.0);
    check("atanh", atanh, libm::atanh, 1.0);
    check("sigmoid", sigmoid, sigmoid_exact, 2.0);
    check("erf", erf, libm::erf, 2.0);
    check("sin", sin, libm::sin, 2.0);
    check("cos", cos, libm::cos, 2.0);
    check("tan", tan, libm::tan, 2.0);
    check("asin", asin, libm::asin, 2.0);
    check("acos", acos, libm::acos, 2.0);
    check("atan", atan, libm::atan, 2.0);
    check("sqrt", sqrt, libm::sqrt, 0.0);
}

/// Where most roundings add up: the polynomial, the sum and the quotient all count.
#[test]
fn hyperbolic_tangents_of_small_arguments() {
    for x in (1e-4f32.to_bits()..0.36f32.to_bits()).step_by(199).map(f32::from_bits) {
        let error = error(tanh(x), libm::tanh(x.into()));
        assert!(error <= 2.0, "tanh({x:e}): {error} ulp");
    }
}

/// Arguments as they usually are, then with some among them that are not.
#[test]
fn slices_are_as_exact_as_single_values() {
    type Row = (&'static str, fn(&[f32], &mut [f32]), fn(&mut [f32]), fn(f64) -> f64, f64);
    let sigmoid_exact = |x: f64| 1.0 / (1.0 + libm::exp(-x));
    let rows: [Row; 8] = [
        ("exp", exp_all, exp_in_place, libm::exp, 1.0),
        ("sigmoid", sigmoid_all, sigmoid_in_place, sigmoid_exact, 5.0),
        ("silu", silu_all, silu_in_place, <f64 as Math>::silu, 5.0),
        ("log", log_all, log_in_place, libm::log, 1.0),
        ("sin", sin_all, sin_in_place, libm::sin, 2.0),
        ("cos", cos_all, cos_in_place, libm::cos, 2.0),
        ("tan", tan_all, tan_in_place, libm::tan, 2.0),
        ("tanh", tanh_all, tanh_in_place, libm::tanh, 2.0),
    ];
    let positive: Vec<f32> = (1 << 23..87f32.to_bits()).step_by(9973).map(f32::from_bits).collect();
    let both = positive.iter().flat_map(|x| [*x, -*x]).collect();
    let far = [0.5, 1e-3, -3.0, 7e3, -1e30, 1e-40, 0.0, -0.0, -95.0, 100.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let mixed = positive.iter().chain(&far).copied().collect();
    for (name, all, in_place, exact, limit) in rows {
        for x in [&positive, &both, &mixed] {
            let (mut out, mut same) = (vec![0.0; x.len()], x.clone());
            all(x, &mut out);
            in_place(&mut same);
            for ((x, out), same) in x.iter().zip(out).zip(same) {
                let error = error(out, exact((*x).into()));
                assert!(error <= limit, "{name}({x:e}) = {out:e}: {error} ulp");
                assert!(
                    same == out || same.is_nan() && out.is_nan(),
                    "{name}({x:e}) = {same:e} in place, {out:e} elsewhere"
                );
            }
        }
    }
}

#[test]
fn angles_of_points() {
    let ends = [0.0f32, 1.0, 2.5e-3, 7e5, 1e-40, f32::MAX, f32::INFINITY, f32::NAN];
    let values = || ends.iter().flat_map(|x| [*x, -*x]);
    for (y, x) in values().flat_map(|y| values().map(move |x| (y, x))) {
        let (actual, expected) = (atan2(y, x), libm::atan2(y.into(), x.into()));
        assert!(error(actual, expected) <= 2.0, "atan2({y:e}, {x:e}) = {actual:e} instead of {expected:e}");
        assert!(expected.is_nan() || actual.is_sign_negative() == expected.is_sign_negative(), "atan2({y:e}, {x:e})");
    }
}

#[test]
fn activations_of_finite_values() {
    let exact = |x: f64| 0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2);
    let by_tanh = |x: f64| 0.5 * x * (1.0 + libm::tanh(0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)));
    for x in (-2000..=2000).map(|i| i as f32 / 100.0) {
        let wide = f64::from(x);
        let silu_error = error(silu(x), wide / (1.0 + libm::exp(-wide)));
        assert!(silu_error <= 2.0, "silu({x}): {silu_error} ulp");
        // As in PyTorch: where `1 + erf` cancels, the absolute error counts.
        assert!((f64::from(gelu(x)) - exact(wide)).abs() <= 2e-7 * wide.abs(), "gelu({x})");
        assert!((f64::from(gelu_tanh(x)) - by_tanh(wide)).abs() <= 4e-7 * wide.abs(), "gelu_tanh({x})");
    }
}

#[test]
fn powers() {
    let bases = [0.0f32, 1.0, 0.5, 2.0, 3.0, 1e-20, 1e20, 1e-40, 0.999, 1.001, f32::INFINITY, f32::NAN];
    let exponents = [0.0f32, 1.0, 2.0, 3.0, 0.5, 1.5, 7.0, 100.0, 1e9, 16_777_217.0, f32::INFINITY, f32::NAN];
    for x in bases.iter().flat_map(|x| [*x, -*x]) {
        for y in exponents.iter().flat_map(|y| [*y, -*y]) {
            let (actual, expected) = (pow(x, y), libm::pow(x.into(), y.into()));
            assert!(error(actual, expected) <= 1.0, "{x}^{y} = {actual} instead of {expected}");
            assert!(expected != 0.0 || actual.is_sign_negative() == expected.is_sign_negative(), "sign of {x}^{y}");
        }
    }
    let mut random = crate::testing::Random::new(9);
    for _ in 0..20_000 {
        let (x, y) = (f32::from_bits(random.below(1 << 31) as u32), random.floats(1)[0] * 40.0);
        let (actual, expected) = (pow(x, y), libm::pow(x.into(), y.into()));
        assert!(error(actual, expected) <= 1.0, "{x:e}^{y} = {actual:e} instead of {expected:e}");
    }
}

#[test]
fn zeros_keep_their_sign() {
    for f in [expm1, log1p, tanh, erf, sin, tan] {
        assert!(f(-0.0).is_sign_negative() && f(0.0).is_sign_positive());
    }
}
