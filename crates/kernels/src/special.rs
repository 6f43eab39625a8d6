//! Special functions of `f64`: gamma, error and Bessel functions, beyond what `libm` has.
//!
//! They are rare in models, so they are written for few lines and full accuracy rather than for speed: a power series
//! where it converges without cancellation, an asymptotic series where that is exact, a recurrence or Halley's
//! iteration in between. Values at poles and outside of domains are PyTorch's. Every loop has a bound, whatever the
//! argument.
use core::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};
use libm::{erf, erfc, exp, floor, lgamma, log, pow, sin, sqrt};

/// `B(2k) / (2k)!` for k from 1 on; B are the Bernoulli numbers.
const BERNOULLI: [f64; 12] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
    -3_617.0 / 10_670_622_842_880_000.0,
    43_867.0 / 5_109_094_217_170_944_000.0,
    -174_611.0 / 802_857_662_698_291_200_000.0,
    77_683.0 / 14_101_100_039_391_805_440_000.0,
    -236_364_091.0 / 1_693_824_136_731_743_669_452_800_000.0,
];

/// Steps after which a recurrence from a far negative argument is given up.
const MOST_STEPS: usize = 1 << 20;

/// The derivative of the logarithm of the gamma function.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == floor(x) {
            return f64::NAN;
        }
        let fraction = x - libm::trunc(x);
        return digamma(1.0 - x) - PI * libm::cos(PI * fraction) / sin(PI * fraction);
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = square
        * (1.0 / 12.0
            - square
                * (1.0 / 120.0
                    - square
                        * (1.0 / 252.0 - square * (1.0 / 240.0 - square * (1.0 / 132.0 - square * 691.0 / 32760.0)))));
    sum + log(x) - 0.5 / x - series
}

/// Derivative `n` of [`digamma`].
pub fn polygamma(n: i64, x: f64) -> f64 {
    match n {
        0 => digamma(x),
        1 if x < 0.5 => {
            let sine = sin(PI * x);
            PI * PI / (sine * sine) - zeta(2.0, 1.0 - x)
        }
        _ => {
            let n = n as f64;
            let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
            sign * exp(lgamma(n + 1.0)) * zeta(n + 1.0, x)
        }
    }
}

/// Hurwitz' zeta function: the sum of `(q + k)^-x` over all k, by the formula of Euler and Maclaurin.
pub fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x < 1.0 || x.is_infinite() {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == floor(q) {
            return f64::INFINITY;
        }
        if x != floor(x) {
            return f64::NAN;
        }
    }
    if x.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    let (mut sum, mut at, mut steps) = (0.0, q, 0);
    while at < 10.0 || steps < 9 {
        let term = pow(at, -x);
        sum += term;
        if steps > MOST_STEPS {
            return f64::NAN;
        }
        if at > 0.0 && term <= sum * f64::EPSILON / 4.0 {
            return sum;
        }
        at += 1.0;
        steps += 1;
    }
    let power = pow(at, -x);
    sum += power * at / (x - 1.0) + power / 2.0;
    // Rising factors of the derivatives of the power, two more in each term.
    let mut factor = x * power / at;
    for (k, bernoulli) in (0u32..).zip(BERNOULLI) {
        let term = factor * bernoulli;
        sum += term;
        if term.abs() < sum.abs() * f64::EPSILON / 4.0 {
            break;
        }
        let k = f64::from(2 * k + 1);
        factor *= (x + k) * (x + k + 1.0) / (at * at);
    }
    sum
}

/// The number whose complementary error function this is.
fn erfc_inverse(q: f64) -> f64 {
    if q > 1.0 {
        return -erfc_inverse(2.0 - q);
    }
    // Winitzki's approximation, good to 2e-3, and Halley's iteration.
    let logarithm = log(q * (2.0 - q));
    let half = 2.0 / (PI * 0.147) + logarithm / 2.0;
    let mut x = sqrt((sqrt(half * half - logarithm / 0.147) - half).max(0.0));
    for _ in 0..5 {
        let step = (erfc(x) - q) / (-FRAC_2_SQRT_PI * exp(-x * x));
        if step.is_finite() {
            x -= step / (1.0 + x * step);
        }
    }
    x
}

/// The number whose error function this is.
pub fn erfinv(x: f64) -> f64 {
    if x.abs() >= 1.0 {
        return if x.abs() == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    if x.abs() > 0.5 {
        return erfc_inverse(1.0 - x.abs()).copysign(x);
    }
    let mut y = x / FRAC_2_SQRT_PI;
    for _ in 0..5 {
        let step = (erf(y) - x) / (FRAC_2_SQRT_PI * exp(-y * y));
        y -= step / (1.0 + y * step);
    }
    y
}

/// The number below which a normal variable lies with probability `p`.
pub fn ndtri(p: f64) -> f64 {
    match p {
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        p if (0.0..1.0).contains(&p) => -SQRT_2 * erfc_inverse(2.0 * p),
        _ => f64::NAN,
    }
}

/// `exp(x^2) * erfc(x)`, which stays finite where its factors do not.
pub fn erfcx(x: f64) -> f64 {
    if x < 10.0 {
        return if x < -27.0 { f64::INFINITY } else { exp(x * x) * erfc(x) };
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 0u32..14 {
        term *= -f64::from(2 * k + 1) / (2.0 * x * x);
        sum += term;
    }
    sum * FRAC_2_SQRT_PI / (2.0 * x)
}

/// `exp(-|x|)` times the modified Bessel function of the first kind of order 0 or 1.
fn bessel_i_scaled(order: u32, x: f64) -> f64 {
    let size = x.abs();
    let sign = if order == 1 && x < 0.0 { -1.0 } else { 1.0 };
    if size < 30.0 {
        let quarter = size * size / 4.0;
        let mut term = if order == 1 { size / 2.0 } else { 1.0 };
        let mut sum = term;
        for k in 1u32..100 {
            term *= quarter / (f64::from(k) * f64::from(k + order));
            sum += term;
        }
        return sign * sum * exp(-size);
    }
    let four_squares = f64::from(4 * order * order);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1u32..25 {
        let odd = f64::from(2 * k - 1);
        term *= -(four_squares - odd * odd) / (f64::from(k) * 8.0 * size);
        sum += term;
    }
    sign * sum / sqrt(2.0 * PI * size)
}

/// The modified Bessel function of the first kind, order 0.
pub fn i0(x: f64) -> f64 {
    unscaled(i0e(x), x)
}

/// `exp(-|x|)` times [`i0`].
pub fn i0e(x: f64) -> f64 {
    bessel_i_scaled(0, x)
}

/// The modified Bessel function of the first kind, order 1.
pub fn i1(x: f64) -> f64 {
    unscaled(i1e(x), x)
}

/// `exp(-|x|)` times [`i1`].
pub fn i1e(x: f64) -> f64 {
    bessel_i_scaled(1, x)
}

fn unscaled(scaled: f64, x: f64) -> f64 {
    // In two steps: the exponential alone overflows first.
    let half = exp(x.abs() / 2.0);
    scaled * half * half
}

/// The part of the gamma function's integral from 0 to `x`, of the whole: the regularised lower incomplete gamma
/// function, or the rest (`UPPER`).
fn incomplete_gamma<const UPPER: bool>(a: f64, x: f64) -> f64 {
    let choose = |lower: f64, upper: f64| if UPPER { upper } else { lower };
    if !(a >= 0.0 && x >= 0.0) || (a == 0.0 && x == 0.0) || (a.is_infinite() && x.is_infinite()) {
        return f64::NAN;
    }
    if a == 0.0 || x.is_infinite() {
        return choose(1.0, 0.0);
    }
    if x == 0.0 || a.is_infinite() {
        return choose(0.0, 1.0);
    }
    let front = exp(a * log(x) - x - lgamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum, mut at) = (1.0 / a, 1.0 / a, a);
        for _ in 0..100_000 {
            at += 1.0;
            term *= x / at;
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        let lower = sum * front;
        return choose(lower, 1.0 - lower);
    }
    // Lentz' evaluation of the continued fraction.
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / f64::MIN_POSITIVE;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for i in 1..100_000 {
        let i = f64::from(i);
        let numerator = -i * (i - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        let step = d * c;
        fraction *= step;
        if (step - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    let upper = fraction * front;
    choose(1.0 - upper, upper)
}

/// The regularised lower incomplete gamma function.
pub fn igamma(a: f64, x: f64) -> f64 {
    incomplete_gamma::<false>(a, x)
}

/// The regularised upper incomplete gamma function.
pub fn igammac(a: f64, x: f64) -> f64 {
    incomplete_gamma::<true>(a, x)
}

/// The modified Bessel function K of order `order`, of at most 1.
pub fn modified_bessel_k(order: f64, x: f64) -> f64 {
    scaled_modified_bessel_k(order, x) * exp(-x)
}

/// `exp(x) K(x)`, the integral of `exp(-x (cosh t - 1)) cosh(order t)` over positive `t`, by the trapezoidal rule: for
/// such a function it errs exponentially little in the number of steps per width of the peak.
pub fn scaled_modified_bessel_k(order: f64, x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 || x.is_infinite() {
        return 1.0 / x;
    }
    let step = f64::min(0.125, 0.7 / libm::sqrt(x));
    let (mut sum, mut t) = (0.5, step);
    loop {
        let half = libm::sinh(t / 2.0);
        let weight = exp(-2.0 * x * half * half);
        let term = weight * libm::cosh(order * t);
        if weight == 0.0 || term < 1e-18 * sum {
            return step * sum;
        }
        (sum, t) = (sum + term, t + step);
    }
}

/// Airy's function Ai: by K of order 1/3 on the right; on the left by its power series and, from -7.5 on, by its
/// asymptotic expansion, where ten digits are right at least.
pub fn airy(x: f64) -> f64 {
    const AT_ZERO: f64 = 0.355_028_053_887_817_2;
    const SLOPE_AT_ZERO: f64 = -0.258_819_403_792_806_8;
    if !x.is_finite() {
        return f64::NAN;
    }
    let root = libm::sqrt(x.abs());
    let angle = 2.0 / 3.0 * x.abs() * root;
    if x > 1.0 {
        return libm::sqrt(x / 3.0) / core::f64::consts::PI * modified_bessel_k(1.0 / 3.0, angle);
    }
    if x >= -7.5 {
        let (mut a, mut b, mut sum, mut k) = (AT_ZERO, SLOPE_AT_ZERO * x, AT_ZERO + SLOPE_AT_ZERO * x, 3.0);
        while a.abs() + b.abs() > 1e-18 {
            a *= x * x * x / (k * (k - 1.0));
            b *= x * x * x / (k * (k + 1.0));
            (sum, k) = (sum + a + b, k + 3.0);
        }
        return sum;
    }
    // Terms u(k) / angle^k, with signs + + - - for sine, cosine, sine, cosine.
    let (mut even, mut odd, mut term) = (1.0, 0.0, 1.0f64);
    for k in 1..16 {
        let k6 = 6.0 * f64::from(k);
        let next = term * (k6 - 5.0) * (k6 - 3.0) * (k6 - 1.0) / (216.0 * f64::from(k) * (k6 / 3.0 - 1.0) * angle);
        if next.abs() > term.abs() {
            break;
        }
        term = next;
        let signed = if k % 4 < 2 { term } else { -term };
        if k % 2 == 0 { even += signed } else { odd += signed }
    }
    let phase = angle + core::f64::consts::FRAC_PI_4;
    (libm::sin(phase) * even - libm::cos(phase) * odd) / libm::sqrt(core::f64::consts::PI * root)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PyTorch's values, which are themselves good to nine digits or more.
    #[track_caller]
    fn check(f: impl Fn(f64) -> f64, table: &[(f64, f64)]) {
        for &(x, want) in table {
            assert!((f(x) - want).abs() <= 1e-9 * want.abs(), "{x}: {} is not {want}", f(x));
        }
    }

    #[track_caller]
    fn check2(f: impl Fn(f64, f64) -> f64, table: &[(f64, f64, f64)]) {
        table.iter().for_each(|&(a, b, want)| check(|b| f(a, b), &[(b, want)]));
    }

    #[test]
    fn gamma_functions() {
        check(
            digamma,
            &[
                (-3.7, -0.8450768588704183),
                (-0.5, 0.03648997397857639),
                (-0.001, 999.4211381978913),
                (1e-05, -100000.57719921567),
                (0.3, -3.502524222200133),
                (4.5, 1.3888709263595287),
                (10.0, 2.251752589066721),
                (200.0, 5.295815283219911),
            ],
        );
        assert!(digamma(-1.0).is_nan() && digamma(0.0) == f64::NEG_INFINITY && digamma(-0.0) == f64::INFINITY);
        let zetas = [
            (1.5, 1.0, 2.612375348685488),
            (2.0, 0.3, 12.245364546107734),
            (3.0, 50.0, 0.0002040399946687985),
            (10.0, 0.1, 10000000000.386148),
            (40.0, 2.0, 9.09494784026389e-13),
            (1.001, 0.5, 1001.9648639703557),
            (2.0, -1.5, 9.379246644989124),
            (3.0, -3.25, -61.977605519711005),
        ];
        check2(zeta, &zetas);
        assert!(zeta(0.5, 1.0).is_nan() && zeta(1.0, 2.0).is_infinite() && zeta(2.0, -3.0).is_infinite());
        assert!(zeta(2.0, -1e300 - 0.5).is_infinite() && zeta(2.0, -1e12 - 0.5).is_nan());
        check(
            |x| polygamma(1, x),
            &[(0.3, 12.245364544940365), (20.0, 0.05127082293520924), (-1.3, 14.53687624396439)],
        );
        check(|x| polygamma(2, x), &[(0.3, -75.27253658872601), (2.5, -0.23620405164172736)]);
        check(|x| polygamma(5, x), &[(0.3, 164634.846099223), (20.0, 8.484266206158227e-06)]);
        let lower =
            [(0.5, 0.1, 0.345279153981423), (10.0, 12.0, 0.7576078383294875), (100.0, 90.0, 0.15822098907532103)];
        check2(igamma, &lower);
        let upper =
            [(3.0, 2.0, 0.6766764161830636), (5.0, 20.0, 1.694474393006737e-05), (1e-3, 0.5, 0.0005600666564708134)];
        check2(igammac, &upper);
        assert!(
            igamma(0.0, 1.0) == 1.0
                && igamma(1.0, 0.0) == 0.0
                && igamma(0.0, 0.0).is_nan()
                && igamma(-1.0, 1.0).is_nan()
        );
    }

    #[test]
    fn error_functions() {
        check(
            erfinv,
            &[
                (-0.999999999, -4.320005388105362),
                (-0.9, -1.1630871536766743),
                (-1e-05, -8.862269254759594e-06),
                (0.0, 0.0),
                (0.3, 0.2724627147267543),
                (0.5000001, 0.47693638746295763),
                (0.9999, 2.75106390571208),
            ],
        );
        assert!(erfinv(-1.0) == f64::NEG_INFINITY && erfinv(1.5).is_nan());
        check(
            ndtri,
            &[
                (1e-300, -37.0470962993612),
                (1e-20, -9.262340089798409),
                (0.2, -0.8416212335729142),
                (0.7, 0.5244005127080407),
                (0.9999999, 5.199337582290661),
            ],
        );
        assert!(ndtri(0.0) == f64::NEG_INFINITY && ndtri(1.0) == f64::INFINITY && ndtri(-0.1).is_nan());
        check(
            erfcx,
            &[
                (-20.0, 1.0442939379528289e+174),
                (0.5, 0.6156903441929258),
                (9.9, 0.05670245693883227),
                (10.0, 0.05614099274382259),
                (1e10, 5.641895835477563e-11),
            ],
        );
    }

    #[test]
    fn bessel_functions() {
        check(
            i0,
            &[
                (-5.0, 27.239871823604442),
                (29.0, 292520631785.69086),
                (31.0, 2089962966491.9038),
                (700.0, 1.5295933476718735e+302),
            ],
        );
        check(i0e, &[(0.3, 0.7575806251825477), (31.0, 0.07194649669698383), (1e5, 0.0012615678379767766)]);
        check(i1, &[(-5.0, -24.335642142450524), (0.0, 0.0), (29.0, 287432108126.2548), (31.0, 2055972795294.565)]);
        check(i1e, &[(8.0, 0.13414249329269812), (31.0, 0.07077639283438569), (1e5, 0.001261561530121817)]);
    }
}
