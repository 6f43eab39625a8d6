//! Scattering with a reduction, along one index, into parts; values are PyTorch's.
use crate::support::{args, floats, longs, out, run, run_one, tensor};

#[test]
fn scattered_elements_are_joined() {
    let (x, index) = (|| floats(&[3], &[1.0, 2.0, 3.0]), || longs(&[5], &[0, 0, 2, 0, 2]));
    let source = || floats(&[5], &[4.0, -1.0, 5.0, 0.5, -6.0]);
    let table: &[(&str, bool, [f32; 3])] = &[
        ("sum", true, [4.5, 2.0, 2.0]),
        ("sum", false, [3.5, 2.0, -1.0]),
        ("prod", true, [-2.0, 2.0, -90.0]),
        ("prod", false, [-2.0, 2.0, -30.0]),
        ("mean", true, [1.125, 2.0, 0.6666667]),
        ("mean", false, [1.1666666, 2.0, -0.5]),
        ("amax", true, [4.0, 2.0, 5.0]),
        ("amin", false, [-1.0, 2.0, -6.0]),
    ];
    for &(reduce, include_self, want) in table {
        let args = args![x(), 0, index(), source(), reduce, include_self, out::<f32>(&[3])];
        run_one("aten::scatter_reduce.two_out", args).assert_close(&[3], &want, 1e-6);
        if reduce != "sum" {
            let args = args![x(), -1, index(), source(), reduce, include_self, out::<f32>(&[3])];
            run_one("aten::index_reduce.out", args).assert_close(&[3], &want, 1e-6);
        }
    }
    let y = run_one("aten::scatter.reduce_out", args![x(), 0, index(), source(), "add", out::<f32>(&[3])]);
    y.assert_close(&[3], &[4.5, 2.0, 2.0], 0.0);
    let y = run_one("aten::scatter.value_reduce_out", args![x(), 0, index(), 2.0, "multiply", out::<f32>(&[3])]);
    y.assert_close(&[3], &[8.0, 2.0, 12.0], 0.0);
    assert!(run("aten::scatter.reduce_out", args![x(), 0, index(), source(), "median", out::<f32>(&[3])]).is_err());
}

#[test]
fn means_of_whole_numbers_are_floored_and_nan_wins() {
    let (x, index) = (longs(&[1], &[-4]), longs(&[2], &[0, 0]));
    let y = run_one(
        "aten::scatter_reduce.two_out",
        args![x, 0, index, longs(&[2], &[1, 1]), "mean", true, out::<i64>(&[1])],
    );
    assert_eq!(y, longs(&[1], &[-1]));
    let source = floats(&[3], &[f32::NAN, 1.0, 9.0]);
    let args = args![floats(&[2], &[0.0; 2]), 0, longs(&[3], &[0, 0, 1]), source, "amax", true, out::<f32>(&[2])];
    run_one("aten::scatter_reduce.two_out", args).assert_close(&[2], &[f32::NAN, 9.0], 0.0);
}

#[test]
fn rows_are_added_copied_and_filled() {
    let x = || longs(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let (index, source) = (tensor(&[2], &[2i32, 0]), longs(&[2, 2], &[10, 20, 30, 40]));
    let y = run_one("aten::index_add.out", args![x(), 1, index.clone(), source.clone(), 2, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[41, 2, 23, 84, 5, 66]));
    let y = run_one("aten::index_copy.out", args![x(), -1, index.clone(), source.clone(), out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[20, 2, 10, 40, 5, 30]));
    let y = run_one("aten::index_fill.int_Scalar_out", args![x(), 1, index.clone(), 7, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[7, 2, 7, 7, 5, 7]));
    let y = run_one(
        "aten::index_fill.int_Tensor_out",
        args![x(), 0, longs(&[], &[1]), longs(&[], &[9]), out::<i64>(&[2, 3])],
    );
    assert_eq!(y, longs(&[2, 3], &[1, 2, 3, 9, 9, 9]));
    let outside = args![x(), 0, index, longs(&[2, 3], &[0; 6]), 1, out::<i64>(&[2, 3])];
    assert!(run("aten::index_add.out", outside).unwrap_err().contains("index 2 is outside of a dimension of size 2"));
    let narrow = args![x(), 1, longs(&[1], &[0]), source, out::<i64>(&[2, 3])];
    assert!(run("aten::index_copy.out", narrow).is_err());
}

#[test]
fn elements_of_the_whole_tensor() {
    let x = || longs(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let index = || longs(&[2, 2], &[0, -1, 0, 4]);
    let y = run_one("aten::take.out", args![x(), index(), out::<i64>(&[2, 2])]);
    assert_eq!(y, longs(&[2, 2], &[1, 6, 1, 5]));
    let y = run_one("aten::put.out", args![x(), index(), longs(&[4], &[10, 20, 30, 40]), true, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[41, 2, 3, 4, 45, 26]));
    let y = run_one("aten::put.out", args![x(), index(), longs(&[4], &[10, 20, 30, 40]), false, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[30, 2, 3, 4, 40, 20]));
    assert!(run("aten::take.out", args![x(), longs(&[1], &[6]), out::<i64>(&[1])]).is_err());
}

#[test]
fn diagonals_and_steps_are_replaced() {
    let x = || longs(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let y = run_one("aten::diagonal_scatter.out", args![x(), longs(&[2], &[7, 8]), 1, 0, 1, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[1, 7, 3, 4, 5, 8]));
    let strided = |offset: i64| args![x(), longs(&[2, 2], &[7, 8, 9, 10]), [2, 2], [1, 2], offset, out::<i64>(&[2, 3])];
    assert_eq!(run_one("aten::as_strided_scatter.out", strided(1)), longs(&[2, 3], &[1, 7, 9, 8, 10, 6]));
    assert!(run("aten::as_strided_scatter.out", strided(3)).is_err());
}

#[test]
fn triangles() {
    let y = run_one("aten::triu.out", args![longs(&[2, 3], &[1, 2, 3, 4, 5, 6]), 1, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[0, 2, 3, 0, 0, 6]));
    let y = run_one("aten::tril_indices.out", args![3, 2, 0, out::<i64>(&[2, 5])]);
    assert_eq!(y, longs(&[2, 5], &[0, 1, 1, 2, 2, 0, 0, 1, 0, 1]));
    let y = run_one("aten::triu_indices.out", args![2, 3, 1, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[0, 0, 1, 1, 2, 2]));
    let y = run_one("aten::tril_indices.out", args![2, 3, -5, out::<i64>(&[2, 3])]);
    assert_eq!(y.sizes, [2, 0]);
}

#[test]
fn random_whole_numbers_are_in_range_and_permutations_complete() {
    let y = run_one("aten::randint.low_out", args![-2, 3, [200], out::<i64>(&[200])]).values::<i64>();
    assert!((-2..3).all(|value| y.contains(&value)) && y.iter().all(|value| (-2..3).contains(value)));
    let y =
        run_one("aten::randint_like.out", args![floats(&[50], &[0.0; 50]), 2, (), out::<f32>(&[50])]).values::<f32>();
    assert!(y.contains(&0.0) && y.contains(&1.0) && y.iter().all(|&value| value == 0.0 || value == 1.0));
    assert!(run("aten::randint.out", args![0, [4], out::<i64>(&[4])]).is_err());
    let mut y = run_one("aten::randperm.out", args![40, out::<i64>(&[40])]).values::<i64>();
    assert!(y.windows(2).any(|pair| pair[0] > pair[1]));
    y.sort_unstable();
    assert!(y.iter().copied().eq(0..40));
    let y = run_one("aten::rand_like.out", args![floats(&[9], &[2.0; 9]), (), out::<f32>(&[9])]).values::<f32>();
    assert!(y.iter().all(|value| (0.0..1.0).contains(value)));
}

#[test]
fn spaces_and_identities() {
    let y = run_one("aten::linspace.out", args![3.0, -7.0, 5, out::<f32>(&[5])]);
    assert_eq!(y, floats(&[5], &[3.0, 0.5, -2.0, -4.5, -7.0]));
    let y = run_one("aten::logspace.out", args![0, 2, 3, 10.0, out::<f32>(&[3])]);
    y.assert_close(&[3], &[1.0, 10.0, 100.0], 1e-5);
    let y = run_one("aten::eye.m_out", args![2, 3, out::<i64>(&[2, 3])]);
    assert_eq!(y, longs(&[2, 3], &[1, 0, 0, 0, 1, 0]));
}

#[test]
fn bags_of_embeddings() {
    let table = || floats(&[6, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    let call = |mode: i64, weights: Option<crate::support::Tensor>, starts: &[i64], last: bool, padding: i64| {
        let indices = longs(&[6], &[1, 2, 4, 5, 4, 3]);
        let starts = longs(&[starts.len()], starts);
        let by_products = [(); 3].map(|()| out::<i64>(&[3]));
        let mut args = args![table(), indices, starts, false, mode, false, weights, last, padding, out::<f32>(&[3, 2])];
        args.extend(by_products);
        run("aten::_embedding_bag_forward_only.out", args).map(|mut outputs| outputs.remove(0))
    };
    let sum = call(0, None, &[0, 3, 3], false, -1).expect("sums");
    assert_eq!(sum, floats(&[3, 2], &[14.0, 17.0, 0.0, 0.0, 24.0, 27.0]));
    let mean = call(1, None, &[0, 3, 3, 6], true, 4).expect("means");
    assert_eq!(mean, floats(&[3, 2], &[3.0, 4.0, 0.0, 0.0, 8.0, 9.0]));
    let largest = call(2, None, &[0, 3, 3], false, 4).expect("largest");
    assert_eq!(largest, floats(&[3, 2], &[4.0, 5.0, 0.0, 0.0, 10.0, 11.0]));
    let weighted = call(0, Some(floats(&[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), &[0, 3, 3], false, -1);
    assert_eq!(weighted.expect("sums"), floats(&[3, 2], &[34.0, 40.0, 0.0, 0.0, 116.0, 131.0]));
    assert!(call(0, None, &[0, 7, 3], false, -1).is_err());
    assert!(call(3, None, &[0, 3, 3], false, -1).is_err());
}

#[test]
fn deviations() {
    let x = floats(&[2, 3], &[1.0, 2.0, 4.0, 0.0, 0.0, 3.0]);
    let y = run_one("aten::std.correction_out", args![x.clone(), [1], (), true, out::<f32>(&[2, 1])]);
    y.assert_close(&[2, 1], &[1.5275252, 1.7320508], 1e-6);
    let y = run("aten::std_mean.correction_out", args![x, [0], 0, false, out::<f32>(&[3]), out::<f32>(&[3])]);
    let y = y.expect("two outputs");
    y[0].assert_close(&[3], &[0.5, 1.0, 0.5], 1e-6);
    y[1].assert_close(&[3], &[0.5, 1.0, 3.5], 1e-6);
}
