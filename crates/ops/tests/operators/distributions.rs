//! Values drawn from distributions with parameters.
use crate::support::*;

const COUNT: usize = 10_000;

/// Draws in the sizes of a tensor, with these parameters.
fn draw(name: &str, parameters: &[f64]) -> Vec<f32> {
    let mut arguments = args![counting(&[100, 100])];
    arguments.extend(parameters.iter().map(|&parameter| Arg::Double(parameter)));
    arguments.extend(args![(), out::<f32>(&[100, 100])]);
    run_one(name, arguments).values()
}

fn mean(values: impl IntoIterator<Item = f32>) -> f64 {
    values.into_iter().map(f64::from).sum::<f64>() / COUNT as f64
}

/// The share of values that are not above a limit.
fn share(values: &[f32], limit: f32) -> f64 {
    values.iter().filter(|&&value| value <= limit).count() as f64 / COUNT as f64
}

#[test]
fn distributions_have_their_quantiles() {
    // A share of 10^4 values deviates by 0.005; five times that is never reached.
    let close = |have: f64, want: f64| assert!((have - want).abs() < 0.025, "{have} is not {want}");
    let uniform = draw("aten::uniform.out", &[-1.0, 3.0]);
    assert!(uniform.iter().all(|value| (-1.0..3.0).contains(value)));
    close(share(&uniform, 0.0), 0.25);
    for name in ["aten::normal.out", "aten::normal_functional.out"] {
        let normal = draw(name, &[5.0, 2.0]);
        close(share(&normal, 5.0), 0.5);
        close(share(&normal, 7.0), 0.8413);
    }
    close(share(&draw("aten::log_normal.out", &[1.0, 0.5]), core::f32::consts::E), 0.5);
    let cauchy = draw("aten::cauchy.out", &[2.0, 3.0]);
    close(share(&cauchy, 2.0), 0.5);
    close(share(&cauchy, 5.0), 0.75);
    let exponential = draw("aten::exponential.out", &[2.0]);
    assert!(exponential.iter().all(|&value| value >= 0.0));
    close(share(&exponential, 0.5), 1.0 - (-1f64).exp());
    let geometric = draw("aten::geometric.out", &[0.25]);
    assert!(geometric.iter().all(|&value| value >= 1.0 && value.fract() == 0.0));
    close(share(&geometric, 1.0), 0.25);
    close(share(&geometric, 2.0), 0.4375);
}

#[test]
fn normal_values_take_means_and_deviations_of_tensors() {
    let sized = run_one("aten::normal.float_float_out", args![1.0, 0.0, [2, 3], (), out::<f32>(&[2, 3])]);
    assert_eq!(sized, floats(&[2, 3], &[1.0; 6]));
    let means = floats(&[2, 1], &[10.0, -10.0]);
    let (none, place) = (floats(&[3], &[0.0; 3]), || out::<f32>(&[2, 3]));
    let exact = run_one("aten::normal.Tensor_Tensor_out", args![means, none, (), place()]);
    assert_eq!(exact, floats(&[2, 3], &[10.0, 10.0, 10.0, -10.0, -10.0, -10.0]));
    let about_three = floats(&[COUNT], &[3.0; COUNT]);
    let drawn = run_one("aten::normal.Tensor_float_out", args![about_three.clone(), 2.0, (), out::<f32>(&[COUNT])]);
    assert!((mean(drawn.values::<f32>()) - 3.0).abs() < 0.1);
    let wide = run_one("aten::normal.float_Tensor_out", args![0.0, about_three, (), out::<f32>(&[COUNT])]);
    assert!((mean(wide.values::<f32>().into_iter().map(|x| x * x)) - 9.0).abs() < 0.7);
}

#[test]
fn impossible_parameters_are_faults() {
    let one = || counting(&[1]);
    assert!(run("aten::uniform.out", args![one(), 1.0, 0.0, (), out::<f32>(&[1])]).is_err());
    assert!(run("aten::exponential.out", args![one(), 0.0, (), out::<f32>(&[1])]).is_err());
    assert!(run("aten::geometric.out", args![one(), 1.0, (), out::<f32>(&[1])]).is_err());
    let negative = floats(&[1], &[-1.0]);
    assert!(run("aten::normal.Tensor_Tensor_out", args![one(), negative, (), out::<f32>(&[1])]).is_err());
}
