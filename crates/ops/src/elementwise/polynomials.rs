//! Orthogonal polynomials, whose degree is an operand too, and rare Bessel functions.
//!
//! A polynomial of degree `n` comes from the two before it. Chebyshev's also have a closed form between -1 and 1, which
//! takes over where it is cheaper. As in PyTorch, a degree is cut to a whole number, and below 0 there is nothing: 0.
use super::functions::{both, one};
use crate::ops;
use libm::{acos, cos, sin};
use sconce_core::Op;
use sconce_kernels::special;

/// Polynomials and Bessel functions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::special_modified_bessel_i0.out" [3] writes [1] => |call| one(call, 1, &special::i0);
    "aten::special_modified_bessel_i1.out" [3] writes [1] => |call| one(call, 1, &special::i1);
    "aten::special_modified_bessel_k0.out" [3] writes [1] => |call| one(call, 1, &|x| special::modified_bessel_k(0.0, x));
    "aten::special_modified_bessel_k1.out" [3] writes [1] => |call| one(call, 1, &|x| special::modified_bessel_k(1.0, x));
    "aten::special_scaled_modified_bessel_k0.out" [3] writes [1] => |call| {
        one(call, 1, &|x| special::scaled_modified_bessel_k(0.0, x))
    };
    "aten::special_scaled_modified_bessel_k1.out" [3] writes [1] => |call| {
        one(call, 1, &|x| special::scaled_modified_bessel_k(1.0, x))
    };
    "aten::special_spherical_bessel_j0.out" [3] writes [1] => |call| one(call, 1, &spherical_bessel);
    "aten::special_airy_ai.out" [3] writes [1] => |call| one(call, 1, &special::airy);
    "aten::special_chebyshev_polynomial_t.out" [4] writes [2] => |call| both(call, &chebyshev_t);
    "aten::special_chebyshev_polynomial_t.x_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_t);
    "aten::special_chebyshev_polynomial_t.n_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_t);
    "aten::special_chebyshev_polynomial_u.out" [4] writes [2] => |call| both(call, &chebyshev_u);
    "aten::special_chebyshev_polynomial_u.x_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_u);
    "aten::special_chebyshev_polynomial_u.n_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_u);
    "aten::special_chebyshev_polynomial_v.out" [4] writes [2] => |call| both(call, &chebyshev_v);
    "aten::special_chebyshev_polynomial_v.x_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_v);
    "aten::special_chebyshev_polynomial_v.n_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_v);
    "aten::special_chebyshev_polynomial_w.out" [4] writes [2] => |call| both(call, &chebyshev_w);
    "aten::special_chebyshev_polynomial_w.x_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_w);
    "aten::special_chebyshev_polynomial_w.n_scalar_out" [4] writes [2] => |call| both(call, &chebyshev_w);
    "aten::special_shifted_chebyshev_polynomial_t.out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_t(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_t.x_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_t(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_t.n_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_t(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_u.out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_u(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_u.x_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_u(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_u.n_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_u(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_v.out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_v(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_v.x_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_v(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_v.n_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_v(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_w.out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_w(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_w.x_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_w(2.0 * x - 1.0, n));
    "aten::special_shifted_chebyshev_polynomial_w.n_scalar_out" [4] writes [2] => |call| both(call, &|x, n| chebyshev_w(2.0 * x - 1.0, n));
    "aten::special_hermite_polynomial_h.out" [4] writes [2] => |call| both(call, &hermite_h);
    "aten::special_hermite_polynomial_h.x_scalar_out" [4] writes [2] => |call| both(call, &hermite_h);
    "aten::special_hermite_polynomial_h.n_scalar_out" [4] writes [2] => |call| both(call, &hermite_h);
    "aten::special_hermite_polynomial_he.out" [4] writes [2] => |call| both(call, &hermite_he);
    "aten::special_hermite_polynomial_he.x_scalar_out" [4] writes [2] => |call| both(call, &hermite_he);
    "aten::special_hermite_polynomial_he.n_scalar_out" [4] writes [2] => |call| both(call, &hermite_he);
    "aten::special_laguerre_polynomial_l.out" [4] writes [2] => |call| both(call, &laguerre);
    "aten::special_laguerre_polynomial_l.x_scalar_out" [4] writes [2] => |call| both(call, &laguerre);
    "aten::special_laguerre_polynomial_l.n_scalar_out" [4] writes [2] => |call| both(call, &laguerre);
    "aten::special_legendre_polynomial_p.out" [4] writes [2] => |call| both(call, &legendre);
    "aten::special_legendre_polynomial_p.x_scalar_out" [4] writes [2] => |call| both(call, &legendre);
    "aten::special_legendre_polynomial_p.n_scalar_out" [4] writes [2] => |call| both(call, &legendre);
};

/// Degrees above this are not computed: the result is NaN.
const LARGEST_DEGREE: f64 = 1e6;
/// Hermite's polynomials are not computed above this degree, where they leave float32 behind.
const LARGEST_HERMITE: f64 = 128.0;
/// From this degree on Chebyshev's polynomials use their closed form.
const CLOSED_FORM: f64 = 8.0;

fn spherical_bessel(x: f64) -> f64 {
    if x == 0.0 {
        1.0
    } else if x.is_infinite() {
        0.0
    } else {
        sin(x) / x
    }
}

/// The polynomial of degree `n` whose first is `one`; `next(k, q, p)` is that of degree `k + 1` after `q` and `p`.
fn recur(n: f64, one: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let n = libm::trunc(n);
    let (mut p, mut q, mut k) = (1.0, one, 1.0);
    match n {
        _ if n.is_nan() || n > LARGEST_DEGREE => return f64::NAN,
        _ if n < 0.0 => return 0.0,
        0.0 => return 1.0,
        _ => {}
    }
    while k < n && !q.is_nan() {
        (p, q, k) = (q, next(k, q, p), k + 1.0);
    }
    q
}

/// A polynomial of Chebyshev's kinds, which differ in the first one and in the closed form, given the angle of `x`.
fn chebyshev(x: f64, n: f64, one: f64, closed: impl Fn(f64) -> f64) -> f64 {
    if n > CLOSED_FORM && x.abs() < 1.0 && n <= LARGEST_DEGREE {
        return closed(acos(x));
    }
    recur(n, one, |_, q, p| 2.0 * x * q - p)
}

fn chebyshev_t(x: f64, n: f64) -> f64 {
    let degree = libm::trunc(n);
    chebyshev(x, degree, x, |angle| cos(degree * angle))
}

fn chebyshev_u(x: f64, n: f64) -> f64 {
    let degree = libm::trunc(n);
    chebyshev(x, degree, 2.0 * x, |angle| sin((degree + 1.0) * angle) / sin(angle))
}

fn chebyshev_v(x: f64, n: f64) -> f64 {
    let degree = libm::trunc(n);
    chebyshev(x, degree, 2.0 * x - 1.0, |angle| cos((degree + 0.5) * angle) / cos(angle / 2.0))
}

fn chebyshev_w(x: f64, n: f64) -> f64 {
    let degree = libm::trunc(n);
    chebyshev(x, degree, 2.0 * x + 1.0, |angle| sin((degree + 0.5) * angle) / sin(angle / 2.0))
}

fn hermite_h(x: f64, n: f64) -> f64 {
    if n > LARGEST_HERMITE { f64::NAN } else { recur(n, 2.0 * x, |k, q, p| 2.0 * (x * q - k * p)) }
}

fn hermite_he(x: f64, n: f64) -> f64 {
    if n > LARGEST_HERMITE { f64::NAN } else { recur(n, x, |k, q, p| x * q - k * p) }
}

fn laguerre(x: f64, n: f64) -> f64 {
    recur(n, 1.0 - x, |k, q, p| ((2.0 * k + 1.0 - x) * q - k * p) / (k + 1.0))
}

fn legendre(x: f64, n: f64) -> f64 {
    recur(n, x, |k, q, p| ((2.0 * k + 1.0) * x * q - k * p) / (k + 1.0))
}
