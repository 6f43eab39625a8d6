//! Rare element-wise functions and shifts; values are PyTorch's.
use crate::support::{args, bools, floats, longs, out, run, run_one, tensor};
use half::bf16;
use std::f32::consts::LN_2;

#[test]
fn functions_of_one_number() {
    let x = floats(&[5], &[-2.5, -0.3, 0.0, 0.4, 3.7]);
    let table: &[(&str, [f32; 5])] = &[
        ("erfc", [1.999593, 1.3286268, 1.0, 0.57160765, 1.67151e-07]),
        ("exp2", [0.17677669, 0.8122524, 1.0, 1.319508, 12.996038]),
        ("lgamma", [-0.056243718, 1.46484, f32::INFINITY, 0.7966778, 1.4280723]),
        ("digamma", [1.1031567, 2.1133099, f32::NEG_INFINITY, -2.5613844, 1.1671537]),
        ("i0", [3.2898395, 1.0226269, 0.99999994, 1.0404019, 8.738619]),
        ("sinc", [0.12732396, 0.85839367, 1.0, 0.7568267, -0.069599435]),
        ("special_i0e", [0.27004647, 0.7575806, 0.99999994, 0.69740224, 0.21604946]),
        ("special_i1", [-2.516716, -0.15169387, 0.0, 0.20402676, 7.435746]),
        ("special_i1e", [-0.20658463, -0.11237757, 0.0, 0.13676322, 0.18383785]),
        ("special_bessel_j0", [-0.04838378, 0.9776262, 1.0, 0.96039826, -0.3992302]),
        ("special_bessel_j1", [-0.4970941, -0.14831881, 0.0, 0.19602656, 0.053833958]),
        ("special_bessel_y0", [f32::NAN, f32::NAN, f32::NEG_INFINITY, -0.6060245, 0.106074266]),
        ("special_bessel_y1", [f32::NAN, f32::NAN, f32::NEG_INFINITY, -1.780872, 0.41667432]),
        ("special_entr", [f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0, 0.3665163, -4.8408313]),
        ("special_erfcx", [1035.8148, 1.4537493, 1.0, 0.6707877, 0.147435]),
        ("special_ndtr", [0.0062096715, 0.38208857, 0.5, 0.65542173, 0.99989223]),
        ("special_log_ndtr", [-5.0816483, -0.9621028, -LN_2, -0.42247638, -0.00010780554]),
        ("silu", [-0.18964545, -0.12766725, 0.0, 0.23947507, 3.6107302]),
        ("mish", [-0.19681619, -0.15113318, 0.0, 0.28903052, 3.695695]),
        ("hardsigmoid", [0.083333336, 0.45000002, 0.5, 0.56666666, 1.0]),
        ("hardswish", [-0.20833333, -0.135, 0.0, 0.22666667, 3.7]),
        ("deg2rad", [-0.04363323, -0.0052359877, 0.0, 0.006981317, 0.064577185]),
        ("rad2deg", [-143.23946, -17.188734, 0.0, 22.918312, 211.99438]),
        ("frac", [-0.5, -0.3, 0.0, 0.4, 0.70000005]),
        ("square", [6.25, 0.09, 0.0, 0.16000001, 13.690001]),
        ("sgn", [-1.0, -1.0, 0.0, 1.0, 1.0]),
        ("selu", [-1.6137857, -0.45566735, 0.0, 0.42028043, 3.8875937]),
    ];
    for (name, want) in table {
        let tolerance = 1e-6 * want.iter().fold(1.0, |most, x| if x.is_finite() { x.abs().max(most) } else { most });
        let name = format!("aten::{name}.out");
        run_one(&name, args![x.clone(), out::<f32>(&[5])]).assert_close(&[5], want, tolerance);
    }
    let y = run_one("aten::erfinv.out", args![floats(&[4], &[-0.9, 0.0, 0.5, 1.0]), out::<f32>(&[4])]);
    y.assert_close(&[4], &[-1.1630871, 0.0, 0.47693628, f32::INFINITY], 1e-6);
    let y = run_one("aten::special_ndtri.out", args![floats(&[4], &[0.01, 0.5, 0.999, 0.0]), out::<f32>(&[4])]);
    y.assert_close(&[4], &[-2.3263478, 0.0, 3.0902362, f32::NEG_INFINITY], 1e-6);
    let y = run_one("aten::polygamma.out", args![2, floats(&[2], &[0.3, 2.5]), out::<f32>(&[2])]);
    y.assert_close(&[2], &[-75.27253, -0.23620406], 1e-5);
    assert!(run("aten::polygamma.out", args![-1, floats(&[1], &[0.3]), out::<f32>(&[1])]).is_err());
}

#[test]
fn functions_of_whole_numbers_and_of_nothing() {
    let y = run_one("aten::exp2.out", args![longs(&[3], &[-1, 0, 5]), out::<f32>(&[3])]);
    y.assert_close(&[3], &[0.5, 1.0, 32.0], 0.0);
    let y = run_one("aten::lgamma.out", args![floats(&[0, 2], &[]), out::<f32>(&[0, 2])]);
    assert_eq!(y.sizes, [0, 2]);
    let y = run_one("aten::erfc.out", args![tensor(&[], &[bf16::from_f32(0.5)]), out::<bf16>(&[])]);
    assert_eq!(y.values::<bf16>(), [bf16::from_f32(0.4795001)]);
}

#[test]
fn functions_with_parameters() {
    let x = || floats(&[5], &[-2.5, -0.3, 0.0, 0.4, 3.7]);
    run_one("aten::softplus.out", args![x(), 2.0, 3.0, out::<f32>(&[5])]).assert_close(
        &[5],
        &[0.0033576742, 0.21874397, 0.3465736, 0.5855503, 3.7],
        1e-6,
    );
    let special = floats(&[4], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0]);
    let y = run_one("aten::nan_to_num.out", args![special.clone(), (), (), (), out::<f32>(&[4])]);
    assert_eq!(y, floats(&[4], &[0.0, f32::MAX, f32::MIN, 1.0]));
    let y = run_one("aten::nan_to_num.out", args![special, 1.5, 2.0, -3.0, out::<f32>(&[4])]);
    assert_eq!(y, floats(&[4], &[1.5, 2.0, -3.0, 1.0]));
    let y = run_one("aten::softshrink.out", args![x(), 0.5, out::<f32>(&[5])]);
    y.assert_close(&[5], &[-2.0, 0.0, 0.0, 0.0, 3.2], 1e-6);
    let y = run_one("aten::hardshrink.out", args![x(), 0.3, out::<f32>(&[5])]);
    assert_eq!(y, floats(&[5], &[-2.5, -0.3, 0.0, 0.4, 3.7]));
    let y = run_one("aten::threshold.out", args![longs(&[3], &[-4, 1, 2]), 1, 9, out::<i64>(&[3])]);
    assert_eq!(y, longs(&[3], &[9, 9, 2]));
    let y = run_one("aten::celu.out", args![floats(&[2], &[-1.0, 2.0]), 2.0, out::<f32>(&[2])]);
    y.assert_close(&[2], &[-0.78693867, 2.0], 1e-6);
    let y =
        run("aten::log_sigmoid_forward.output", args![floats(&[2], &[-40.0, 0.0]), out::<f32>(&[2]), out::<f32>(&[2])]);
    y.expect("two outputs")[0].assert_close(&[2], &[-40.0, -LN_2], 1e-6);
    let y = run_one("aten::round.decimals_out", args![floats(&[3], &[1.15, -2.675, 123.456]), 1, out::<f32>(&[3])]);
    y.assert_close(&[3], &[1.2, -2.7, 123.5], 1e-6);
    let y = run_one("aten::round.decimals_out", args![floats(&[3], &[1.15, -27.5, 123.456]), -1, out::<f32>(&[3])]);
    y.assert_close(&[3], &[0.0, -30.0, 120.0], 0.0);
}

#[test]
fn parts_of_numbers() {
    let y = run("aten::frexp.Tensor_out", args![floats(&[3], &[5.0, -0.1, 0.0]), out::<f32>(&[3]), out::<i32>(&[3])]);
    let y = y.expect("two outputs");
    y[0].assert_close(&[3], &[0.625, -0.8, 0.0], 1e-7);
    assert_eq!(y[1], tensor(&[3], &[3, -3, 0]));
    let x = floats(&[5], &[-0.0, 0.0, -2.0, f32::INFINITY, f32::NEG_INFINITY]);
    let questions = [
        ("aten::signbit.out", [true, false, true, false, true]),
        ("aten::isposinf.out", [false, false, false, true, false]),
        ("aten::isneginf.out", [false, false, false, false, true]),
    ];
    for (name, want) in questions {
        assert_eq!(run_one(name, args![x.clone(), out::<sconce_kernels::Bool>(&[5])]), bools(&[5], &want), "{name}");
    }
}

#[test]
fn functions_of_two_numbers() {
    let (a, b) = (floats(&[4], &[-2.5, 0.0, 3.0, f32::NAN]), floats(&[4], &[1.5, -0.0, -3.0, 1.0]));
    let table: &[(&str, [f32; 4])] = &[
        ("hypot.out", [2.9154758, 0.0, 4.2426405, f32::NAN]),
        ("ldexp.out", [-7.071068, 0.0, 0.375, f32::NAN]),
        ("logaddexp.out", [1.51815, LN_2, 3.0024757, f32::NAN]),
        ("logaddexp2.out", [1.5874628, 1.0, 3.0223677, f32::NAN]),
        ("xlogy.OutTensor", [-1.0136627, 0.0, f32::NAN, f32::NAN]),
        ("special_xlog1py.out", [-2.290727, 0.0, f32::NAN, f32::NAN]),
        ("fmax.out", [1.5, 0.0, 3.0, 1.0]),
        ("fmin.out", [-2.5, 0.0, -3.0, 1.0]),
        ("heaviside.out", [0.0, 0.0, 1.0, 0.0]),
        ("_prelu_kernel.out", [-3.75, 0.0, 3.0, f32::NAN]),
    ];
    for (name, want) in table {
        let name = format!("aten::{name}");
        run_one(&name, args![a.clone(), b.clone(), out::<f32>(&[4])]).assert_close(&[4], want, 1e-6);
    }
    let y = run_one("aten::copysign.out", args![a.clone(), b.clone(), out::<f32>(&[4])]).values::<f32>();
    assert_eq!(y[..3].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [2.5f32, -0.0, -3.0].map(f32::to_bits));
    let y = run_one("aten::lerp.Scalar_out", args![a.clone(), b.clone(), 0.25, out::<f32>(&[4])]);
    y.assert_close(&[4], &[-1.5, 0.0, 1.5, f32::NAN], 1e-6);
    let y = run_one("aten::addcmul.out", args![a.clone(), a.clone(), b.clone(), 0.5, out::<f32>(&[4])]);
    y.assert_close(&[4], &[-4.375, 0.0, -1.5, f32::NAN], 1e-6);
    let zeta = run_one("aten::special_zeta.other_scalar_out", args![floats(&[2], &[2.0, 1.0]), 1.0, out::<f32>(&[2])]);
    zeta.assert_close(&[2], &[1.644_934, f32::INFINITY], 1e-6);
}

#[test]
fn the_next_number_depends_on_the_type() {
    let y = run_one("aten::nextafter.out", args![floats(&[2], &[1.0, 0.0]), floats(&[], &[-1.0]), out::<f32>(&[2])]);
    assert_eq!(y, floats(&[2], &[0.99999994, -f32::from_bits(1)]));
    let (one, two) = (tensor(&[1], &[bf16::ONE]), tensor(&[1], &[bf16::from_f32(2.0)]));
    let y = run_one("aten::nextafter.out", args![one, two, out::<bf16>(&[1])]);
    assert_eq!(y.values::<bf16>(), [bf16::from_f32(1.0078125)]);
}

#[test]
fn divisors_and_multiples() {
    let (a, b) = (longs(&[4], &[-12, 0, 7, 0]), longs(&[4], &[18, 5, 0, 0]));
    let y = run_one("aten::gcd.out", args![a.clone(), b.clone(), out::<i64>(&[4])]);
    assert_eq!(y, longs(&[4], &[6, 5, 7, 0]));
    let y = run_one("aten::lcm.out", args![a, b, out::<i64>(&[4])]);
    assert_eq!(y, longs(&[4], &[36, 0, 0, 0]));
    assert!(run("aten::gcd.out", args![floats(&[1], &[4.0]), floats(&[1], &[2.0]), out::<f32>(&[1])]).is_err());
}

#[test]
fn shifts_end_at_the_width_of_the_type() {
    let (x, by) = (tensor(&[3], &[-8i8, 3, 127]), tensor(&[3], &[1i8, -1, 8]));
    let y = run_one("aten::bitwise_left_shift.Tensor_out", args![x.clone(), by.clone(), out::<i8>(&[3])]);
    assert_eq!(y, tensor(&[3], &[-16i8, 0, 0]));
    let y = run_one("aten::bitwise_right_shift.Tensor_out", args![x.clone(), by, out::<i8>(&[3])]);
    assert_eq!(y, tensor(&[3], &[-4i8, 0, 0]));
    let y = run_one("aten::bitwise_right_shift.Tensor_Scalar_out", args![x, 40, out::<i8>(&[3])]);
    assert_eq!(y, tensor(&[3], &[-1i8, 0, 0]));
    let y = run_one("aten::bitwise_right_shift.Scalar_Tensor_out", args![-1, tensor(&[2], &[1u8, 7]), out::<u8>(&[2])]);
    assert_eq!(y, tensor(&[2], &[127u8, 1]));
    let y = run_one("aten::bitwise_left_shift.Tensor_Scalar_out", args![longs(&[2], &[1, -1]), 63, out::<i64>(&[2])]);
    assert_eq!(y, longs(&[2], &[i64::MIN, i64::MIN]));
    let y = run_one("aten::__rshift__.Scalar_out", args![longs(&[2], &[9, -9]), 2, out::<i64>(&[2])]);
    assert_eq!(y, longs(&[2], &[2, -3]));
}

#[test]
fn numbers_wrap_to_the_type_of_the_tensor() {
    let x = tensor(&[2], &[253u8, 100]);
    let y = run_one("aten::eq.Scalar_out", args![x.clone(), -3, out::<sconce_kernels::Bool>(&[2])]);
    assert_eq!(y, bools(&[2], &[true, false]));
    let y = run_one("aten::remainder.Scalar_out", args![x, 300, out::<u8>(&[2])]);
    assert_eq!(y, tensor(&[2], &[33u8, 12]));
}

#[test]
fn bounds_and_signs() {
    let x = floats(&[4], &[-2.0, 0.5, f32::NAN, 3.0]);
    let y = run_one("aten::clamp_min.out", args![x.clone(), 1, out::<f32>(&[4])]);
    y.assert_close(&[4], &[1.0, 1.0, f32::NAN, 3.0], 0.0);
    let y = run_one("aten::clamp_max.Tensor_out", args![x.clone(), floats(&[], &[1.0]), out::<f32>(&[4])]);
    y.assert_close(&[4], &[-2.0, 0.5, f32::NAN, 1.0], 0.0);
    run_one("aten::sign.out", args![x, out::<f32>(&[4])]).assert_close(&[4], &[-1.0, 1.0, 0.0, 1.0], 0.0);
}

#[test]
fn sums_of_whole_type_cut_their_elements_first() {
    let x = floats(&[4], &[0.875, 0.375, -0.375, -2.125]);
    let y = run_one("aten::sum.IntList_out", args![x, [0], false, (), out::<i32>(&[])]);
    assert_eq!(y, tensor(&[], &[-2i32]));
    let truths = bools(&[2, 2], &[true, true, true, false]);
    let y = run_one("aten::all.out", args![truths, 1, false, out::<sconce_kernels::Bool>(&[2])]);
    assert_eq!(y, bools(&[2], &[true, false]));
}

/// The limits of `logit` cross from 0.5 on; the lower one comes first. NaN stays.
#[test]
fn logits_between_limits_that_cross() {
    let x = floats(&[6], &[0.0, 0.3, 0.59, 0.61, 1.0, f32::NAN]);
    let y = run_one("aten::logit.out", args![x, 0.6, out::<f32>(&[6])]);
    let (low, high) = (1.5f32.ln(), -(1.5f32.ln()));
    for (y, expected) in y.values::<f32>().iter().zip([low, low, low, high, high]) {
        assert!((y - expected).abs() < 1e-5, "{y} instead of {expected}");
    }
    assert!(y.values::<f32>()[5].is_nan());
}
