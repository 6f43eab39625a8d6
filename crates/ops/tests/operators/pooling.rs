//! Poolings.
use crate::support::*;

#[test]
fn largest_of_cubes_with_their_places() {
    let x = || counting(&[1, 1, 2, 2, 4]);
    let places = args![x(), [2, 2, 2], Arg::Ints(vec![]), [0], [1], false, out::<f32>(&[1, 1, 1, 1, 2])];
    let y = run("aten::max_pool3d_with_indices.out", [places, args![out::<i64>(&[1, 1, 1, 1, 2])]].concat()).unwrap();
    assert_eq!(y, [floats(&[1, 1, 1, 1, 2], &[13., 15.]), longs(&[1, 1, 1, 1, 2], &[13, 15])]);
    let cells = args![x(), [1, 1, 3], out::<f32>(&[1, 1, 1, 1, 3]), out::<i64>(&[1, 1, 1, 1, 3])];
    let y = run("aten::adaptive_max_pool3d.out", cells).unwrap();
    assert_eq!(y[1], longs(&[1, 1, 1, 1, 3], &[13, 14, 15]));
}

#[test]
fn means_of_windows() {
    let cube = counting(&[1, 2, 2, 2, 2]).order(&[0, 2, 3, 4, 1]);
    let place = Arg::Out(zeros::<f32>(&[1, 2, 1, 1, 1]).order(&[0, 2, 3, 4, 1]));
    let y = run_one("aten::avg_pool3d.out", args![cube, [2, 2, 2], Arg::Ints(vec![]), [0], false, true, (), place]);
    assert_eq!(y, floats(&[1, 2, 1, 1, 1], &[3.5, 11.5]));
    // The last window reaches beyond the end: of 4 and 5, and without padding in the divisor.
    let row = floats(&[1, 5], &[1., 2., 3., 4., 5.]);
    let y = run_one("aten::avg_pool1d.out", args![row, [3], [2], [1], true, false, out::<f32>(&[1, 3])]);
    assert_eq!(y, floats(&[1, 3], &[1.5, 3.0, 4.5]));
    // A window larger than the image, when rounding up.
    let row = floats(&[1, 1, 2], &[1., 3.]);
    let y = run_one("aten::avg_pool1d.out", args![row, [3], [2], [0], true, true, out::<f32>(&[1, 1, 1])]);
    assert_eq!(y, floats(&[1, 1, 1], &[2.0]));
    let whole = longs(&[1, 2, 2], &[-3, 2, -4, 0]);
    let y = run_one("aten::avg_pool2d.out", args![whole, [2], [2], [0], false, true, (), out::<i64>(&[1, 1, 1])]);
    assert_eq!(y, longs(&[1, 1, 1], &[-1]));
    let y =
        run_one("aten::_adaptive_avg_pool3d.out", args![counting(&[1, 1, 1, 5]), [1, 1, 2], out::<f32>(&[1, 1, 1, 2])]);
    assert_eq!(y, floats(&[1, 1, 1, 2], &[1.0, 3.0]));
}

#[test]
fn a_nan_is_the_largest() {
    let x = floats(&[1, 2, 2], &[1.0, f32::NAN, f32::NEG_INFINITY, 3.0]);
    let y =
        run("aten::adaptive_max_pool2d.out", args![x, [1, 1], out::<f32>(&[1, 1, 1]), out::<i64>(&[1, 1, 1])]).unwrap();
    assert!(y[0].values::<f32>()[0].is_nan());
    assert_eq!(y[1], longs(&[1, 1, 1], &[1]));
}

#[test]
fn gradients_go_to_the_largest() {
    let call = |index: i64| {
        let (gradients, x) = (floats(&[1, 1, 2], &[1.0, 2.0]), counting(&[1, 2, 3]));
        let indices = longs(&[1, 1, 2], &[4, index]);
        let place = out::<f32>(&[1, 2, 3]);
        run(
            "aten::max_pool2d_with_indices_backward.grad_input",
            args![gradients, x, [2, 2], [1], [0], [1], false, indices, place],
        )
    };
    assert_eq!(call(4).unwrap(), [floats(&[1, 2, 3], &[0., 0., 0., 0., 3., 0.])]);
    assert!(call(6).unwrap_err().contains("index 6 is outside of a plane of 6 elements"));
}

#[test]
fn images_without_pixels_are_refused() {
    let x = floats(&[1, 0, 2], &[]);
    let error =
        run("aten::avg_pool2d.out", args![x, [2], [2], [1], false, true, (), out::<f32>(&[1, 1, 2])]).unwrap_err();
    assert!(error.contains("no pixels"), "{error}");
}
