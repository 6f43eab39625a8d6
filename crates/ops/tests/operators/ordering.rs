//! Sorting, selection, search, running results, counts; values are PyTorch's.
use crate::support::{Tensor, args, floats, longs, out, run, run_one, tensor};
use half::f16;

/// Calls an operator with two outputs, values and positions.
#[track_caller]
fn pair(name: &str, args: Vec<crate::support::Arg>) -> (Tensor, Vec<i64>) {
    let mut outputs = run(name, args).unwrap_or_else(|error| panic!("{name}: {error}"));
    let indices = outputs.remove(1);
    (outputs.remove(0), indices.values())
}

#[test]
fn sorting_is_stable_and_puts_nan_last() {
    let x = floats(&[6], &[1.0, f32::NAN, -0.0, 3.0, 0.0, f32::NEG_INFINITY]);
    let (y, at) = pair("aten::sort.values", args![x.clone(), -1, false, out::<f32>(&[6]), out::<i64>(&[6])]);
    y.assert_close(&[6], &[f32::NEG_INFINITY, 0.0, 0.0, 1.0, 3.0, f32::NAN], 0.0);
    assert_eq!(at, [5, 2, 4, 0, 3, 1]);
    let (y, at) = pair("aten::sort.values_stable", args![x, true, 0, true, out::<f32>(&[6]), out::<i64>(&[6])]);
    y.assert_close(&[6], &[f32::NAN, 3.0, 1.0, 0.0, 0.0, f32::NEG_INFINITY], 0.0);
    assert_eq!(at, [1, 3, 0, 2, 4, 5]);
}

#[test]
fn sorting_along_any_dimension_of_any_type_and_layout() {
    let x = tensor(&[2, 3], &[3u8, 200, 7, 5, 1, 7]);
    let (y, at) = pair("aten::sort.values", args![x, 0, false, out::<u8>(&[2, 3]), out::<i64>(&[2, 3])]);
    assert_eq!((y, at), (tensor(&[2, 3], &[3u8, 1, 7, 5, 200, 7]), vec![0, 1, 0, 1, 0, 1]));
    let x = tensor(&[1, 2, 1, 3], &[3i64, 1, 2, 0, 5, 4]).order(&[0, 2, 3, 1]);
    let (y, at) = pair("aten::sort.values", args![x, 3, false, out::<i64>(&[1, 2, 1, 3]), out::<i64>(&[1, 2, 1, 3])]);
    assert_eq!((y, at), (longs(&[1, 2, 1, 3], &[1, 2, 3, 0, 4, 5]), vec![1, 2, 0, 0, 2, 1]));
    let (y, at) = pair("aten::sort.values", args![floats(&[], &[4.0]), 0, false, out::<f32>(&[]), out::<i64>(&[])]);
    assert_eq!((y, at), (floats(&[], &[4.0]), vec![0]));
    let (y, _) = pair("aten::sort.values", args![floats(&[0], &[]), 0, false, out::<f32>(&[0]), out::<i64>(&[0])]);
    assert_eq!(y.sizes, [0]);
}

#[test]
fn the_largest_and_the_smallest() {
    let x = tensor(&[5], &[1.0, f32::NAN, f32::NEG_INFINITY, 3.0, f32::INFINITY].map(f16::from_f32));
    let (y, at) = pair("aten::topk.values", args![x.clone(), 3, 0, true, true, out::<f16>(&[3]), out::<i64>(&[3])]);
    assert!(y.values::<f16>()[0].is_nan());
    assert_eq!(at, [1, 4, 3]);
    let (_, at) = pair("aten::topk.values", args![x.clone(), 4, 0, false, true, out::<f16>(&[4]), out::<i64>(&[4])]);
    assert_eq!(at, [2, 0, 3, 4]);
    assert!(run("aten::topk.values", args![x, 6, 0, true, true, out::<f16>(&[6]), out::<i64>(&[6])]).is_err());
}

#[test]
fn kth_median_and_mode() {
    let x = || floats(&[2, 4], &[1.0, f32::NAN, 3.0, 2.0, 4.0, 2.0, 9.0, 1.0]);
    let (y, at) = pair("aten::kthvalue.values", args![x(), 2, 1, false, out::<f32>(&[2]), out::<i64>(&[2])]);
    assert_eq!((y, at), (floats(&[2], &[2.0, 2.0]), vec![3, 1]));
    assert!(run("aten::kthvalue.values", args![x(), 5, 1, false, out::<f32>(&[2]), out::<i64>(&[2])]).is_err());
    let (y, at) = pair("aten::median.dim_values", args![x(), -1, true, out::<f32>(&[2, 1]), out::<i64>(&[2, 1])]);
    y.assert_close(&[2, 1], &[f32::NAN, 2.0], 0.0);
    assert_eq!(at, [1, 1]);
    let (y, at) = pair("aten::nanmedian.dim_values", args![x(), 1, false, out::<f32>(&[2]), out::<i64>(&[2])]);
    assert_eq!((y, at), (floats(&[2], &[2.0, 2.0]), vec![3, 1]));
    run_one("aten::median.out", args![x(), out::<f32>(&[])]).assert_close(&[], &[f32::NAN], 0.0);
    run_one("aten::nanmedian.out", args![x(), out::<f32>(&[])]).assert_close(&[], &[2.0], 0.0);
    run_one("aten::median.out", args![floats(&[0], &[]), out::<f32>(&[])]).assert_close(&[], &[f32::NAN], 0.0);
    let x = longs(&[3, 5], &[3, 1, 3, 1, 2, 2, 2, 5, 1, 1, 4, 3, 2, 1, 0]);
    let (y, at) = pair("aten::mode.values", args![x, 1, false, out::<i64>(&[3]), out::<i64>(&[3])]);
    assert_eq!((y, at), (longs(&[3], &[1, 1, 0]), vec![3, 4, 4]));
}

#[test]
fn places_in_sorted_rows() {
    let (boundaries, x) = (floats(&[4], &[1.0, 3.0, 3.0, 5.0]), floats(&[2, 3], &[0.0, 3.0, f32::NAN, 5.0, 6.0, 3.5]));
    let y =
        run_one("aten::bucketize.Tensor_out", args![x.clone(), boundaries.clone(), false, false, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[0, 1, 4, 3, 4, 3]));
    let y = run_one("aten::bucketize.Scalar_out", args![3, boundaries.clone(), true, true, out::<i32>(&[])]);
    assert_eq!(y, tensor(&[], &[3i32]));
    let rows = floats(&[2, 3], &[1.0, 2.0, 3.0, 9.0, 8.0, 7.0]);
    let sorter = longs(&[2, 3], &[0, 1, 2, 2, 1, 0]);
    let search = |sorter: Tensor| {
        let x = floats(&[2, 2], &[2.0, 0.0, 8.0, 8.5]);
        run("aten::searchsorted.Tensor_out", args![rows.clone(), x, false, false, "right", sorter, out::<i64>(&[2, 2])])
    };
    assert_eq!(search(sorter).expect("a result")[0], longs(&[2, 2], &[2, 0, 2, 2]));
    assert!(search(longs(&[2, 3], &[0, 1, 3, 2, 1, 0])).is_err());
    let wrong = run("aten::searchsorted.Tensor_out", args![rows.clone(), x, false, false, (), (), out::<i64>(&[3, 3])]);
    assert_eq!(wrong.expect("rows agree")[0].sizes, [2, 3]);
    let wrong = args![rows, floats(&[3, 1], &[1.0, 2.0, 3.0]), false, false, (), (), out::<i64>(&[3, 1])];
    assert!(run("aten::searchsorted.Tensor_out", wrong).is_err());
}

#[test]
fn running_results() {
    let x = floats(&[5], &[1.0, 3.0, 3.0, f32::NAN, 2.0]);
    let (y, at) = pair("aten::cummax.out", args![x.clone(), 0, out::<f32>(&[5]), out::<i64>(&[5])]);
    y.assert_close(&[5], &[1.0, 3.0, 3.0, f32::NAN, f32::NAN], 0.0);
    assert_eq!(at, [0, 1, 2, 3, 3]);
    let (y, at) = pair("aten::cummin.out", args![x, 0, out::<f32>(&[5]), out::<i64>(&[5])]);
    y.assert_close(&[5], &[1.0, 1.0, 1.0, f32::NAN, f32::NAN], 0.0);
    assert_eq!(at, [0, 0, 0, 3, 3]);
    let x = tensor(&[2, 3], &[2i32, 3, 4, -1, 5, 6]);
    let y = run_one("aten::cumprod.out", args![x.clone(), -1, (), out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[2, 6, 24, -1, -5, -30]));
    let y = run_one("aten::cumsum.out", args![x, 0, (), out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[2, 3, 4, 1, 8, 10]));
    let y = run_one("aten::logcumsumexp.out", args![floats(&[3], &[f32::NEG_INFINITY, 1.0, 2.0]), 0, out::<f32>(&[3])]);
    y.assert_close(&[3], &[f32::NEG_INFINITY, 1.0, 2.3132617], 1e-6);
    let channels_last = counting_channels_last();
    let y = run_one("aten::cumsum.out", args![channels_last, 1, (), crate::support::Arg::Out(zeros_channels_last())]);
    assert_eq!(y, floats(&[1, 2, 1, 2], &[0.0, 1.0, 2.0, 4.0]));
}

fn counting_channels_last() -> Tensor {
    floats(&[1, 2, 1, 2], &[0.0, 1.0, 2.0, 3.0]).order(&[0, 2, 3, 1])
}

fn zeros_channels_last() -> Tensor {
    floats(&[1, 2, 1, 2], &[0.0; 4]).order(&[0, 2, 3, 1])
}

#[test]
fn counts() {
    let x = floats(&[2, 3], &[1.0, 2.0, 1.0, 4.0, -1.0, 3.0]);
    let y = run_one("aten::histc.out", args![x.clone(), 4, 0, 3, out::<f32>(&[4])]);
    assert_eq!(y, floats(&[4], &[0.0, 2.0, 1.0, 1.0]));
    let y = run_one("aten::histc.out", args![x.clone(), 5, 0, 0, out::<f32>(&[5])]);
    assert_eq!(y, floats(&[5], &[1.0, 0.0, 2.0, 1.0, 2.0]));
    assert!(run("aten::histc.out", args![x, 0, 0, 0, out::<f32>(&[1])]).is_err());
    // On an edge the rounding of the element type decides: 0.7 and 0.9 are a little below seven and nine tenths.
    let tenths = floats(&[5], &[0.1, 0.3, 0.6, 0.7, 0.9]);
    let y = run_one("aten::histc.out", args![tenths, 10, 0, 1, out::<f32>(&[10])]);
    assert_eq!(y, floats(&[10], &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]));
    let small = floats(&[4], &[0.0, 5e-6, 1e-5, 1.2e-5]);
    let y = run_one("aten::histc.out", args![small, 1000, 0.0, 1e-5, out::<f32>(&[1000])]);
    let counted: Vec<_> = y.values::<f32>().iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(i, _)| i).collect();
    assert_eq!(counted, [0, 500, 999]);
    let x = longs(&[4], &[1, 4, 1, 0]);
    let y = run_one("aten::bincount.out", args![x.clone(), (), 0, out::<i64>(&[9])]);
    assert_eq!(y, longs(&[5], &[1, 2, 0, 0, 1]));
    let weights = tensor(&[4], &[1.0f64, 0.5, 2.0, 3.0]);
    let y = run_one("aten::bincount.out", args![x, weights, 6, out::<f64>(&[9])]);
    assert_eq!(y, tensor(&[6], &[3.0f64, 3.0, 0.0, 0.0, 0.5, 0.0]));
    assert!(run("aten::bincount.out", args![longs(&[1], &[-1]), (), 0, out::<i64>(&[9])]).is_err());
}
