//! Complex numbers.
use crate::support::*;
use sconce_core::ScalarType;
use sconce_kernels::Complex;

impl Element for Complex<f32> {
    const DTYPE: ScalarType = ScalarType::ComplexFloat;
}

impl Element for Complex<f64> {
    const DTYPE: ScalarType = ScalarType::ComplexDouble;
}

type Pair = (f32, f32);

pub(crate) fn complexes(sizes: &[usize], values: &[Pair]) -> Tensor {
    tensor(sizes, &values.iter().map(|&(re, im)| Complex { re, im }).collect::<Vec<_>>())
}

#[test]
fn arithmetic() {
    let (a, b) = (|| complexes(&[2], &[(1., 2.), (0., -1.)]), || complexes(&[1], &[(3., -1.)]));
    let place = || out::<Complex<f32>>(&[2]);
    let sum = run_one("aten::add.out", args![a(), b(), 2, place()]);
    assert_eq!(sum, complexes(&[2], &[(7., 0.), (6., -3.)]));
    let difference = run_one("aten::sub.out", args![a(), floats(&[2], &[1., 5.]), 1, place()]);
    assert_eq!(difference, complexes(&[2], &[(0., 2.), (-5., -1.)]));
    assert_eq!(run_one("aten::mul.out", args![a(), b(), place()]), complexes(&[2], &[(5., 5.), (-1., -3.)]));
    assert_eq!(run_one("aten::div.out", args![a(), b(), place()]), complexes(&[2], &[(0.1, 0.7), (0.1, -0.3)]));
    assert_eq!(run_one("aten::mul.Scalar_out", args![a(), 2.0, place()]), complexes(&[2], &[(2., 4.), (0., -2.)]));
    let lengths = run_one("aten::abs.out", args![complexes(&[2], &[(3., -4.), (0., 0.)]), out::<f32>(&[2])]);
    assert_eq!(lengths, floats(&[2], &[5., 0.]));
}

#[test]
fn parts() {
    let pairs = || complexes(&[2], &[(1., 2.), (3., -4.)]);
    let made = run_one(
        "aten::complex.out",
        args![floats(&[2], &[1., 3.]), floats(&[2], &[2., -4.]), out::<Complex<f32>>(&[2])],
    );
    assert_eq!(made, pairs());
    let flat = floats(&[2, 2], &[1., 2., 3., -4.]);
    assert_eq!(run_one("aten::view_as_complex_copy.out", args![flat, out::<Complex<f32>>(&[2])]), pairs());
    let mirrored = complexes(&[2], &[(1., -2.), (3., 4.)]);
    for name in ["aten::_conj_copy.out", "aten::_conj_physical.out", "aten::conj_physical.out"] {
        assert_eq!(run_one(name, args![pairs(), out::<Complex<f32>>(&[2])]), mirrored);
    }
    let angles = complexes(&[3], &[(-1., 0.), (0., 1.), (-1., -0.)]);
    let pi = core::f32::consts::PI;
    run_one("aten::angle.out", args![angles, out::<f32>(&[3])]).assert_close(&[3], &[pi, pi / 2., -pi], 1e-6);
    let turned = args![floats(&[1], &[2.]), floats(&[1], &[pi / 2.]), out::<Complex<f32>>(&[1])];
    let turned = run_one("aten::polar.out", turned).values::<Complex<f32>>()[0];
    assert!(turned.re.abs() < 1e-6 && turned.im == 2.0, "{turned:?}");
}

#[test]
fn sums() {
    let x = || complexes(&[2, 2], &[(1., 2.), (3., -4.), (5., 0.), (0., 1.)]);
    let sum = |dims: Arg, keep: bool, place: &[usize]| {
        run_one("aten::sum.IntList_out", args![x(), dims, keep, (), out::<Complex<f32>>(place)])
    };
    assert_eq!(sum([1].into(), false, &[2]), complexes(&[2], &[(4., -2.), (5., 1.)]));
    assert_eq!(sum([0].into(), true, &[1, 2]), complexes(&[1, 2], &[(6., 2.), (3., -3.)]));
    assert_eq!(sum(Arg::None, false, &[]), complexes(&[], &[(9., -1.)]));
    let one = args![complexes(&[], &[(1., 2.)]), (), false, (), out::<Complex<f32>>(&[])];
    assert_eq!(run_one("aten::sum.IntList_out", one), complexes(&[], &[(1., 2.)]));
    assert_eq!(run_one("aten::neg.out", args![x(), out::<Complex<f32>>(&[2, 2])]).values::<Complex<f32>>()[1].im, 4.0);
}

#[test]
fn products() {
    let a = complexes(&[1, 2], &[(1., 1.), (0., 2.)]);
    let b = complexes(&[2, 1], &[(2., 0.), (1., -1.)]);
    assert_eq!(run_one("aten::mm.out", args![a, b, out::<Complex<f32>>(&[1, 1])]), complexes(&[1, 1], &[(4., 4.)]));
}

#[cfg(feature = "fft")]
mod transforms {
    use super::*;

    fn assert_near(have: &Tensor, sizes: &[usize], want: &[Pair]) {
        assert_eq!(have.sizes, sizes);
        for (have, want) in have.values::<Complex<f32>>().iter().zip(want) {
            assert!((have.re - want.0).abs() < 1e-5 && (have.im - want.1).abs() < 1e-5, "{have:?} is not {want:?}");
        }
    }

    #[test]
    fn of_real_numbers() {
        let x = floats(&[5], &[1., 2., 3., 4., 5.]);
        let y = run_one("aten::_fft_r2c.out", args![x, [0], 0, true, out::<Complex<f32>>(&[3])]);
        assert_near(&y, &[3], &[(15., 0.), (-2.5, 3.440955), (-2.5, 0.8122992)]);
        let x = floats(&[2, 2], &[1., 2., 3., 5.]);
        let y = run_one("aten::_fft_r2c.out", args![x, [0, -1], 1, true, out::<Complex<f32>>(&[2, 2])]);
        assert_near(&y, &[2, 2], &[(5.5, 0.), (-1.5, 0.), (-2.5, 0.), (0.5, 0.)]);
        let empty = args![floats(&[0, 4], &[]), [1], 0, true, out::<Complex<f32>>(&[0, 3])];
        assert_eq!(run_one("aten::_fft_r2c.out", empty).sizes, [0, 3]);
    }

    #[test]
    fn to_real_numbers() {
        let x = || complexes(&[3], &[(1., 1.), (2., -1.), (3., 2.)]);
        let y = run_one("aten::_fft_c2r.out", args![x(), [0], 2, 4, out::<f32>(&[4])]);
        y.assert_close(&[4], &[2., 0., 0., -1.], 1e-6);
        let y = run_one("aten::_fft_c2r.out", args![x(), [0], 2, 5, out::<f32>(&[5])]);
        y.assert_close(&[5], &[2.2, -0.6134124, 0.9195661, -1.0723525, -0.4338013], 1e-6);
        let error = run("aten::_fft_c2r.out", args![x(), [0], 2, 9, out::<f32>(&[9])]).unwrap_err();
        assert!(error.contains("3 values cannot stand for the half of 9"), "{error}");
    }

    #[test]
    fn between_complex_numbers() {
        let x: Vec<Complex<f64>> =
            [(1., 1.), (2., 0.), (0., 0.), (0., 0.), (0., 1.), (4., 0.)].map(|(re, im)| Complex { re, im }).to_vec();
        let given = args![tensor(&[2, 3], &x), [0], 2, false, out::<Complex<f64>>(&[2, 3])];
        let y = run_one("aten::_fft_c2c.out", given).values::<Complex<f64>>();
        let want = [(0.5, 0.5), (1., 0.5), (2., 0.), (0.5, 0.5), (1., -0.5), (-2., 0.)];
        assert_eq!(y, want.map(|(re, im)| Complex { re, im }));
    }
}

#[test]
fn the_first_vector_of_a_product_is_conjugated() {
    let (a, b) = (complexes(&[2], &[(1., 2.), (0., -1.)]), complexes(&[2], &[(3., -1.), (2., 5.)]));
    // (1 - 2i)(3 - i) + i(2 + 5i)
    let product = run_one("aten::vdot.out", args![a, b, out::<Complex<f32>>(&[])]);
    assert_eq!(product, complexes(&[], &[(-4., -5.)]));
    let (a, b) = (complexes(&[2], &[(1., 2.), (0., -1.)]), complexes(&[1], &[(3., -1.)]));
    assert!(run("aten::vdot.out", args![a, b, out::<Complex<f32>>(&[])]).is_err());
}

#[test]
fn complex_numbers_are_compared_chosen_and_divided_by_zero() {
    let (a, b) =
        (|| complexes(&[3], &[(1., 2.), (0., 0.), (3., 1.)]), || complexes(&[3], &[(1., 2.), (0., 1.), (4., 1.)]));
    let answers = || out::<sconce_kernels::Bool>(&[3]);
    assert_eq!(run_one("aten::eq.Tensor_out", args![a(), b(), answers()]), bools(&[3], &[true, false, false]));
    assert_eq!(run_one("aten::ne.Scalar_out", args![a(), 0, answers()]), bools(&[3], &[true, false, true]));
    assert_eq!(run_one("aten::logical_not.out", args![b(), answers()]), bools(&[3], &[false, false, false]));
    let condition = bools(&[3], &[true, true, false]);
    let chosen = run_one("aten::where.self_out", args![condition, a(), b(), out::<Complex<f32>>(&[3])]);
    assert_eq!(chosen, complexes(&[3], &[(1., 2.), (0., 0.), (4., 1.)]));
    let quotient = run_one("aten::div.out", args![b(), 0.0, out::<Complex<f32>>(&[3])]);
    let values = quotient.values::<Complex<f32>>();
    assert!(values[0].re == f32::INFINITY && values[1].re.is_nan() && values[1].im == f32::INFINITY, "{values:?}");
}
