//! Orthogonal polynomials and rare Bessel functions, against PyTorch's values; Airy's function at -3 is the tabulated one, which
//! PyTorch misses in the eighth digit.
use crate::support::*;

#[test]
fn polynomials() {
    let expected = [
        ("chebyshev_polynomial_t", [0.3448, -1.0, 1.0, 11.5, 0.780_462_8]),
        ("chebyshev_polynomial_u", [0.0496, -4.0, 4.0, 24.0, 0.167_642]),
        ("chebyshev_polynomial_v", [1.0336, -7.0, 1.0, 19.0, -0.707_816_2]),
        ("chebyshev_polynomial_w", [-0.9344, -1.0, 7.0, 29.0, 1.043_100_3]),
        ("hermite_polynomial_h", [7.8096, 4.0, -4.0, 23.0, -36_282.69]),
        ("hermite_polynomial_he", [2.4681, 2.0, -2.0, 5.25, 2_419.419]),
        ("laguerre_polynomial_l", [0.052_337_5, 5.666_666_7, -0.666_666_7, -0.875, 35.637_07]),
        ("legendre_polynomial_p", [0.072_937_5, -1.0, 1.0, 8.875, 0.132_659_5]),
        ("shifted_chebyshev_polynomial_t", [-0.0752, -99.0, 1.0, 31.0, -9_339_149.0]),
        ("shifted_chebyshev_polynomial_u", [-0.5104, -204.0, 4.0, 63.0, -19_612_570.0]),
        ("shifted_chebyshev_polynomial_v", [-1.5984, -239.0, 1.0, 55.0, -23_893_162.0]),
        ("shifted_chebyshev_polynomial_w", [0.5776, -169.0, 7.0, 71.0, -15_331_978.0]),
    ];
    for (name, values) in expected {
        let x = floats(&[5], &[0.3, -1.0, 1.0, 2.5, -0.7]);
        let degrees = floats(&[5], &[4.0, 3.0, 3.0, 2.0, 11.0]);
        let y = run_one(&format!("aten::special_{name}.out"), args![x, degrees, out::<f32>(&[5])]).values::<f32>();
        let close = |(have, want): (&f32, &f32)| (have - want).abs() <= 1e-5 + 1e-5 * want.abs();
        assert!(y.iter().zip(&values).all(close), "{name}: {y:?} is not {values:?}");
    }
    let degrees = floats(&[3], &[-1.0, 0.0, f32::NAN]);
    let y = run_one("aten::special_legendre_polynomial_p.x_scalar_out", args![0.5, degrees, out::<f32>(&[3])]);
    y.assert_close(&[3], &[0.0, 1.0, f32::NAN], 0.0);
}

#[test]
fn bessel_functions() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let expected = [
        ("modified_bessel_k0", [inf, 2.4270690247, 0.213805562648, 5.74123781534e-10, nan, nan]),
        ("modified_bessel_k1", [inf, 9.85384478087, 0.277387800457, 5.88305796956e-10, nan, nan]),
        ("scaled_modified_bessel_k0", [inf, 2.68232610226, 0.958210053295, 0.278544876657, nan, nan]),
        ("scaled_modified_bessel_k1", [inf, 10.890182683, 1.24316587355, 0.285425496941, nan, nan]),
        (
            "spherical_bessel_j0",
            [1.0, 0.998334166468, 0.664996657736, 0.0456472625364, 0.0470400026866, 0.0457909428046],
        ),
        (
            "airy_ai",
            [0.355028053888, 0.329203129944, 0.0717494970081, 1.69167286867e-27, -0.378814293678, -0.0221337215473],
        ),
    ];
    for (name, values) in expected {
        let x = tensor(&[6], &[0.0, 0.1, 1.5, 20.0, -3.0, -9.0]);
        let y = run_one(&format!("aten::special_{name}.out"), args![x, out::<f64>(&[6])]).values::<f64>();
        let same = |(have, want): (&f64, &f64)| {
            have == want || (have.is_nan() && want.is_nan()) || (have - want).abs() <= 1e-9 * want.abs()
        };
        assert!(y.iter().zip(&values).all(same), "{name}: {y:?} is not {values:?}");
    }
}
