//! What training needs: statistics of batches, gradients, random draws.
use crate::support::*;

#[test]
fn batch_statistics_move_the_running_ones() {
    let x = || floats(&[2, 2, 2], &[1., 2., 0., 4., 3., 6., 2., 2.]);
    let (weight, bias) = (|| floats(&[2], &[2., 1.]), || floats(&[2], &[0., 1.]));
    let running = [Arg::InPlace(floats(&[2], &[1., 1.])), Arg::InPlace(floats(&[2], &[1., 2.]))];
    let outs = || args![out::<f32>(&[2, 2, 2]), out::<f32>(&[2]), out::<f32>(&[2])];
    let args = [args![x(), weight(), bias()], running.to_vec(), args![true, 0.5, 0.25], outs()].concat();
    let y = run("aten::_native_batch_norm_legit.out", args).unwrap();
    y[0].assert_close(&[2], &[2.0, 1.5], 1e-6);
    y[1].assert_close(&[2], &[2.833333, 2.333333], 1e-6);
    let normal = [-2.065591, -1.032796, -0.333333, 2.333333, 0.0, 3.098387, 1.0, 1.0];
    y[2].assert_close(&[2, 2, 2], &normal, 1e-5);
    y[3].assert_close(&[2], &[3.0, 2.0], 1e-6);
    y[4].assert_close(&[2], &[0.516398, 0.666667], 1e-6);
    let args = [args![x(), weight(), bias(), true, 0.5, 0.25], outs()].concat();
    run("aten::_native_batch_norm_legit.no_stats_out", args).unwrap()[0].assert_close(&[2, 2, 2], &normal, 1e-5);
    let args = [args![x(), (), (), false, 0.5, 0.25], outs()].concat();
    assert!(run("aten::_native_batch_norm_legit.no_stats_out", args).is_err());
}

#[test]
fn gradients_of_convolutions() {
    let weight = || floats(&[1, 1, 2], &[1., -1.]);
    let call = |gradient: Tensor, x: Tensor, stride: i64, transposed: bool| {
        let size = x.sizes[2];
        let geometry = args![[1], [stride], [0], [1], transposed, [0], 1];
        let mask = vec![Arg::Bools(vec![true; 3])];
        let outs = args![out::<f32>(&[1, 1, size]), out::<f32>(&[1, 1, 2]), out::<f32>(&[1])];
        run("aten::convolution_backward.out", [args![gradient, x, weight()], geometry, mask, outs].concat())
    };
    let y = call(floats(&[1, 1, 3], &[1., 2., 3.]), floats(&[1, 1, 4], &[1., 2., 3., 4.]), 1, false).unwrap();
    let expected = [floats(&[1, 1, 4], &[1., 1., 1., -3.]), floats(&[1, 1, 2], &[14., 20.]), floats(&[1], &[6.])];
    assert_eq!(y, expected);
    let y = call(floats(&[1, 1, 4], &[1., 2., 3., 4.]), floats(&[1, 1, 2], &[1., 2.]), 2, true).unwrap();
    assert_eq!(y, [floats(&[1, 1, 2], &[-1., -1.]), floats(&[1, 1, 2], &[7., 10.]), floats(&[1], &[10.])]);
    assert!(call(counting(&[1, 1, 5]), counting(&[1, 1, 4]), 1, false).is_err());
}

#[test]
fn dropout_keeps_the_mean() {
    let call = |p: f64, train: Arg| {
        let x = floats(&[100, 100], &[1.0; 10_000]);
        let outs = args![out::<f32>(&[100, 100]), out::<sconce_kernels::Bool>(&[100, 100])];
        run("aten::native_dropout.out", [args![x, p], vec![train], outs].concat())
    };
    let same = call(0.5, false.into()).unwrap();
    assert_eq!(same, [floats(&[100, 100], &[1.0; 10_000]), bools(&[100, 100], &[true; 10_000])]);
    let y = call(0.25, true.into()).unwrap();
    let (values, mask) = (y[0].values::<f32>(), y[1].values::<sconce_kernels::Bool>());
    assert!(values.iter().zip(&mask).all(|(&x, mask)| x == if mask.get() { 1.0 / 0.75 } else { 0.0 }));
    // The share of 10^4 elements deviates by 0.0043.
    let share = mask.iter().filter(|mask| mask.get()).count() as f32 / 1e4;
    assert!((share - 0.75).abs() < 0.02, "{share}");
    assert_eq!(call(1.0, Arg::None).unwrap()[0], zeros::<f32>(&[100, 100]));
    assert!(call(1.5, true.into()).is_err());
}

#[test]
fn draws_follow_their_probabilities() {
    let coins = run_one("aten::bernoulli.out", args![floats(&[3], &[0., 1., 0.]), (), out::<f32>(&[3])]);
    assert_eq!(coins, floats(&[3], &[0., 1., 0.]));
    let coins = run_one("aten::bernoulli.float_out", args![longs(&[1000], &[0; 1000]), 0.5, (), out::<i64>(&[1000])]);
    assert!((400..600).contains(&coins.values::<i64>().iter().sum::<i64>()));
    let weights = || floats(&[2, 3], &[0., 3., 1., 0., 0., 5.]);
    let drawn =
        run_one("aten::multinomial.out", args![weights(), 1000, true, (), out::<i64>(&[2, 1000])]).values::<i64>();
    let ones = drawn[..1000].iter().filter(|&&at| at == 1).count();
    assert!((690..810).contains(&ones) && drawn[..1000].iter().all(|&at| at > 0), "{ones}");
    assert!(drawn[1000..].iter().all(|&at| at == 2));
    let row = floats(&[4], &[1., 2., 3., 4.]);
    let mut all = run_one("aten::multinomial.out", args![row, 4, false, (), out::<i64>(&[4])]).values::<i64>();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    assert!(run("aten::multinomial.out", args![weights(), 4, false, (), out::<i64>(&[2, 4])]).is_err());
    let bad = floats(&[2], &[1.0, f32::NAN]);
    assert!(run("aten::multinomial.out", args![bad, 1, true, (), out::<i64>(&[1])]).is_err());
}

/// Inputs of a short type with parameters in float32; the row 1, 3 has mean 2 and deviation 1.
#[test]
fn norms_of_mixed_types() {
    let short = |sizes: &[usize], values: &[f32]| {
        tensor(sizes, &values.iter().map(|&value| half::bf16::from_f32(value)).collect::<Vec<_>>())
    };
    let (x, weight, bias) = (|| short(&[1, 2], &[1., 3.]), || floats(&[2], &[0.5, 2.]), || floats(&[2], &[0., 1.]));
    let outs = |kept: &[usize]| args![out::<half::bf16>(&[1, 2]), out::<f32>(kept), out::<f32>(kept)];
    let layer = [args![x(), [2], weight(), bias(), 0.0], outs(&[1, 1])].concat();
    let y = run("aten::native_layer_norm.out", layer).unwrap();
    assert_eq!(y, [short(&[1, 2], &[-0.5, 3.0]), floats(&[1, 1], &[2.0]), floats(&[1, 1], &[1.0])]);
    let group = [args![x(), weight(), bias(), 1, 2, 1, 1, 0.0], outs(&[1, 1])].concat();
    assert_eq!(run("aten::native_group_norm.out", group).unwrap()[0], short(&[1, 2], &[-0.5, 3.0]));
    let (mean, variance) = (floats(&[2], &[0., 1.]), floats(&[2], &[1., 4.]));
    let batch = [args![x(), weight(), bias(), mean, variance, 0.1, 0.0], outs(&[0])].concat();
    let y = run("aten::_native_batch_norm_legit_no_training.out", batch).unwrap();
    assert_eq!(y, [short(&[1, 2], &[0.5, 3.0]), floats(&[0], &[]), floats(&[0], &[])]);
    let empty =
        args![floats(&[2, 0], &[]), [0], (), (), 0.0, out::<f32>(&[2, 0]), out::<f32>(&[2, 1]), out::<f32>(&[2, 1])];
    let y = run("aten::native_layer_norm.out", empty).unwrap();
    assert_eq!(y[1], floats(&[2, 1], &[0., 0.]));
    assert!(y[2].values::<f32>().iter().all(|scale| scale.is_nan()));
}

#[test]
fn a_stride_of_zero_is_refused() {
    let geometry = args![[0], [0], [1], true, [0], 1, out::<f32>(&[1, 1, 2])];
    let operands = args![counting(&[1, 1, 4]), counting(&[1, 1, 2]), ()];
    let error = run("aten::convolution.out", [operands, geometry].concat()).unwrap_err();
    assert!(error.contains("the stride must be positive"), "{error}");
}
