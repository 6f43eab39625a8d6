//! Constants, ranges, random values.
use crate::support::*;

#[test]
fn constants() {
    assert_eq!(run_one("aten::full.out", args![[2, 2], 1.5, out::<f32>(&[2, 2])]), floats(&[2, 2], &[1.5; 4]));
    assert_eq!(run_one("aten::full.out", args![[0, 2], 1.5, out::<f32>(&[4, 2])]), floats(&[0, 2], &[]));
    assert_eq!(run_one("aten::zeros.out", args![[3], out::<i64>(&[3])]), longs(&[3], &[0; 3]));
    assert_eq!(run_one("aten::ones.out", args![[3], out::<u8>(&[3])]), tensor(&[3], &[1u8; 3]));
    assert_eq!(
        run_one("aten::full_like.out", args![longs(&[2], &[0; 2]), true, (), out::<i64>(&[2])]),
        longs(&[2], &[1; 2])
    );
    assert_eq!(
        run_one("aten::fill.Tensor_out", args![counting(&[2]), longs(&[], &[7]), out::<f32>(&[2])]),
        floats(&[2], &[7.0; 2])
    );
    assert_eq!(run_one("aten::scalar_tensor.out", args![2.5, out::<f64>(&[])]), tensor(&[], &[2.5f64]));
    assert!(run("aten::full.out", args![[-1], 1, out::<f32>(&[3])]).unwrap_err().contains("-1 is not a size"));
}

#[test]
fn ranges() {
    assert_eq!(run_one("aten::arange.out", args![3, out::<i64>(&[3])]), longs(&[3], &[0, 1, 2]));
    assert_eq!(run_one("aten::arange.start_out", args![5, 0, -2, out::<i64>(&[3])]), longs(&[3], &[5, 3, 1]));
    assert_eq!(
        run_one("aten::arange.start_out", args![0.0, 1.0, 0.4, out::<f32>(&[3])]),
        floats(&[3], &[0.0, 0.4, 0.8])
    );
    assert_eq!(run_one("aten::arange.start_out", args![2, 2, 1, out::<i64>(&[3])]), longs(&[0], &[]));
    for (start, end, step) in [(0, 5, 0), (0, 5, -1), (i64::MIN, i64::MAX, 1), (1, 0, 2)] {
        assert!(
            run("aten::arange.start_out", args![start, end, step, out::<i64>(&[8])]).is_err(),
            "{start} {end} {step}"
        );
    }
    assert!(run("aten::arange.start_out", args![0.0, f64::NAN, 1.0, out::<f32>(&[8])]).is_err());
}

#[test]
fn random_values_follow_seed_and_distribution() {
    let draw = |name: &str, order: &[u8]| {
        let place = Arg::Out(zeros::<f32>(&[100, 100]).order(order));
        run_one(name, args![[100, 100], place]).values::<f32>()
    };
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
    sconce_ops::seed_random(7);
    let uniform = draw("aten::rand.out", &[0, 1]);
    assert_ne!(uniform, draw("aten::rand.out", &[0, 1]), "calls draw different values");
    sconce_ops::seed_random(7);
    assert_eq!(uniform, draw("aten::rand.out", &[1, 0]), "the memory order does not matter");
    assert!(uniform.iter().all(|value| (0.0..1.0).contains(value)));
    // The mean of 10^4 uniform values deviates by 0.003, of normal values by 0.01.
    assert!((mean(&uniform) - 0.5).abs() < 0.015);
    let normal = draw("aten::randn.out", &[0, 1]);
    assert!(mean(&normal).abs() < 0.05);
    assert!((mean(&normal.iter().map(|value| value * value).collect::<Vec<_>>()) - 1.0).abs() < 0.07);
}
