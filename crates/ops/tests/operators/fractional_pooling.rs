//! Pooling by chance and histograms with edges, against PyTorch's values.
use crate::support::*;

fn remainders(sizes: &[usize], times: usize, modulus: usize) -> Tensor {
    let count = sizes.iter().product::<usize>();
    floats(sizes, &(0..count).map(|i| (i * times % modulus) as f32).collect::<Vec<_>>())
}

#[test]
fn windows_by_samples() {
    let name = "aten::fractional_max_pool2d.output";
    let x = || remainders(&[1, 2, 5, 6], 7, 31);
    let samples = || floats(&[1, 2, 2], &[0.3, 0.8, 0.9, 0.1]);
    let outs = || (out::<f32>(&[1, 2, 3, 2]), out::<i64>(&[1, 2, 3, 2]));
    let y = run(name, args![x(), [2, 3], [3, 2], samples(), outs().0, outs().1]).unwrap();
    let values = [25.0, 28.0, 29.0, 26.0, 27.0, 30.0, 24.0, 28.0, 29.0, 25.0, 26.0, 30.0];
    assert_eq!(y[0], floats(&[1, 2, 3, 2], &values));
    assert_eq!(y[1], longs(&[1, 2, 3, 2], &[8, 4, 13, 17, 26, 22, 0, 5, 14, 9, 18, 23]));
    assert!(run(name, args![x(), [2, 3], [5, 2], samples(), outs().0, outs().1]).is_err());
    let x = remainders(&[1, 4, 3, 4], 5, 17);
    let samples = floats(&[1, 1, 3], &[0.3, 0.8, 0.5]);
    let (values, indices) = (out::<f32>(&[1, 2, 2, 2]), out::<i64>(&[1, 2, 2, 2]));
    let y =
        run("aten::fractional_max_pool3d.output", args![x, [2, 1, 2], [2, 2, 2], samples, values, indices]).unwrap();
    assert_eq!(y[0], floats(&[1, 2, 2, 2], &[14.0, 15.0, 15.0, 16.0, 15.0, 16.0, 16.0, 14.0]));
    assert_eq!(y[1], longs(&[1, 2, 2, 2], &[13, 3, 20, 10, 37, 27, 44, 47]));
}

#[test]
fn samples_may_be_any_numbers() {
    let samples = floats(&[1, 2, 2], &[-0.3, 4.8, 0.9, -2.1]);
    let outs = (out::<f32>(&[1, 2, 4, 4]), out::<i64>(&[1, 2, 4, 4]));
    let x = remainders(&[1, 2, 5, 6], 7, 31);
    let y = run("aten::fractional_max_pool2d.output", args![x, [1, 2], [4, 4], samples, outs.0, outs.1]).unwrap();
    let places = [
        1, 1, 3, 4, 7, 7, 8, 11, 19, 19, 21, 22, 25, 25, 26, 29, 0, 2, 3, 5, 7, 8, 9, 11, 13, 14, 14, 17, 25, 26, 27,
        29,
    ];
    assert_eq!(y[1], longs(&[1, 2, 4, 4], &places));
}

#[test]
fn histograms_with_edges() {
    let x = || floats(&[2, 4], &[0.0, 1.0, 2.0, 3.0, 4.0, 1.5, -1.0, 9.0]);
    let count = |x: Tensor, bins: i64| {
        let outs = (out::<f32>(&[bins as usize]), out::<f32>(&[bins as usize + 1]));
        run("aten::histogram.bin_ct_out", args![x, bins, (), (), false, outs.0, outs.1])
    };
    let y = count(x(), 4).unwrap();
    assert_eq!(y, [floats(&[4], &[3.0, 3.0, 1.0, 1.0]), floats(&[5], &[-1.0, 1.5, 4.0, 6.5, 9.0])]);
    let y = count(floats(&[3], &[1.0; 3]), 2).unwrap();
    assert_eq!(y, [floats(&[2], &[0.0, 3.0]), floats(&[3], &[0.5, 1.0, 1.5])]);
    let y = count(floats(&[0], &[]), 2).unwrap();
    assert_eq!(y, [floats(&[2], &[0.0, 0.0]), floats(&[3], &[0.0, 0.5, 1.0])]);
    assert!(count(floats(&[1], &[f32::NAN]), 2).is_err());
    let edges = floats(&[3], &[0.0, 1.0, 4.0]);
    let outs = (out::<f32>(&[2]), out::<f32>(&[3]));
    let y = run("aten::histogram.bins_tensor_out", args![x(), edges.clone(), (), false, outs.0, outs.1]).unwrap();
    assert_eq!(y, [floats(&[2], &[1.0, 5.0]), edges.clone()]);
    let outs = (out::<f32>(&[2]), out::<f32>(&[3]));
    let weights = counting(&[2, 4]);
    let y = run("aten::histogram.bins_tensor_out", args![x(), edges, weights, true, outs.0, outs.1]).unwrap();
    // Weights 0 below 1; 1, 2, 3, 4 and 5 from there to 4.
    y[0].assert_close(&[2], &[0.0, 1.0 / 3.0], 1e-6);
}
