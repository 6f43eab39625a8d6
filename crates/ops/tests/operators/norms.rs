//! Norms, logarithms of sums, counts, both extremes; values are PyTorch's.
use crate::support::{args, floats, longs, out, run, run_one, tensor};

#[test]
fn norms_of_every_order() {
    let x = || floats(&[2, 3], &[3.0, 0.0, -4.0, 1.0, 2.0, -2.0]);
    let table: &[(f64, [f32; 2])] = &[
        (0.0, [2.0, 3.0]),
        (1.0, [7.0, 5.0]),
        (2.0, [5.0, 3.0]),
        (3.0, [4.497_941_5, 2.571_281_7]),
        (f64::INFINITY, [4.0, 2.0]),
        (f64::NEG_INFINITY, [0.0, 1.0]),
    ];
    for &(order, want) in table {
        let y = run_one("aten::linalg_vector_norm.out", args![x(), order, [-1], true, (), out::<f32>(&[2, 1])]);
        y.assert_close(&[2, 1], &want, 1e-5);
    }
    let y = run_one("aten::norm.Scalar_out", args![x(), 2, out::<f32>(&[])]);
    y.assert_close(&[], &[5.830952], 1e-5);
    let empty = |order: f64| args![floats(&[2, 0], &[]), order, [1], false, (), out::<f32>(&[2])];
    assert_eq!(run_one("aten::linalg_vector_norm.out", empty(2.0)), floats(&[2], &[0.0, 0.0]));
    assert!(run("aten::linalg_vector_norm.out", empty(f64::INFINITY)).is_err());
}

#[test]
fn sums_in_logarithms_without_nan_and_counts() {
    let x = floats(&[2, 2], &[1000.0, 1000.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    let y = run_one("aten::logsumexp.out", args![x, [1], false, out::<f32>(&[2])]);
    y.assert_close(&[2], &[1000.6931, f32::NEG_INFINITY], 1e-3);
    let x = floats(&[2, 2], &[f32::NAN, 2.0, 3.0, 0.0]);
    let y = run_one("aten::nansum.out", args![x.clone(), [0], false, (), out::<f32>(&[2])]);
    assert_eq!(y, floats(&[2], &[3.0, 2.0]));
    let y = run_one("aten::count_nonzero.out", args![x, (), out::<i64>(&[])]);
    assert_eq!(y, longs(&[], &[3]));
    let y =
        run_one("aten::count_nonzero.dim_IntList_out", args![tensor(&[2, 2], &[0u8, 7, 0, 1]), [0], out::<i64>(&[2])]);
    assert_eq!(y, longs(&[2], &[0, 2]));
}

#[test]
fn both_extremes_at_once() {
    let x = tensor(&[2, 3], &[3i32, -1, 7, 0, 5, 5]);
    let y = run("aten::aminmax.out", args![x.clone(), 1, true, out::<i32>(&[2, 1]), out::<i32>(&[2, 1])]);
    assert_eq!(y.expect("two outputs"), [tensor(&[2, 1], &[-1i32, 0]), tensor(&[2, 1], &[7i32, 5])]);
    let y = run("aten::aminmax.out", args![x, (), false, out::<i32>(&[]), out::<i32>(&[])]);
    assert_eq!(y.expect("two outputs"), [tensor(&[], &[-1i32]), tensor(&[], &[7i32])]);
    let empty = args![floats(&[0], &[]), 0, false, out::<f32>(&[]), out::<f32>(&[])];
    assert!(run("aten::aminmax.out", empty).is_err());
}
