//! Resizing and sampling.
use crate::support::*;

fn squares() -> Tensor {
    floats(&[1, 1, 3, 3], &[0., 1., 4., 9., 16., 25., 36., 49., 64.])
}

#[test]
fn nearest_in_one_and_three_dimensions() {
    let y =
        run_one("aten::_upsample_nearest_exact1d.out", args![counting(&[1, 1, 6]), [4], (), out::<f32>(&[1, 1, 4])]);
    assert_eq!(y, floats(&[1, 1, 4], &[0., 2., 3., 5.]));
    let cube = tensor(&[1, 1, 1, 2, 2], &[0u8, 1, 2, 3]);
    let place = out::<u8>(&[1, 1, 2, 2, 3]);
    let y = run_one("aten::upsample_nearest3d.out", args![cube, [2, 2, 3], (), (), (), place]);
    assert_eq!(y, tensor(&[1, 1, 2, 2, 3], &[0u8, 0, 1, 2, 2, 3, 0, 0, 1, 2, 2, 3]));
}

#[test]
fn linear_in_one_to_three_dimensions() {
    let call = |align: bool| {
        run_one("aten::upsample_linear1d.out", args![counting(&[1, 1, 4]), [6], align, (), out::<f32>(&[1, 1, 6])])
    };
    call(false).assert_close(&[1, 1, 6], &[0.0, 0.5, 1.166667, 1.833333, 2.5, 3.0], 1e-6);
    call(true).assert_close(&[1, 1, 6], &[0.0, 0.6, 1.2, 1.8, 2.4, 3.0], 1e-6);
    let cube = counting(&[1, 1, 2, 2, 2]).order(&[0, 2, 3, 4, 1]);
    let place = out::<f32>(&[1, 1, 1, 2, 3]);
    let y = run_one("aten::upsample_trilinear3d.out", args![cube, [1, 2, 3], false, (), (), (), place]);
    y.assert_close(&[1, 1, 1, 2, 3], &[2.0, 2.5, 3.0, 4.0, 4.5, 5.0], 1e-6);
    let halves = tensor(&[1, 1, 1, 2], &[0.0, 1.0].map(half::f16::from_f32));
    let place = out::<half::f16>(&[1, 1, 1, 4]);
    let y = run_one("aten::upsample_bilinear2d.out", args![halves, [1, 4], false, (), (), place]);
    assert_eq!(y, tensor(&[1, 1, 1, 4], &[0.0, 0.25, 0.75, 1.0].map(half::f16::from_f32)));
}

#[test]
fn cubic_and_antialiased() {
    let call = |name: &str, size: [i64; 2], place: [usize; 4]| {
        run_one(name, args![squares(), size, false, (), (), out::<f32>(&place)])
    };
    let y = call("aten::upsample_bicubic2d.out", [2, 4], [1, 1, 2, 4]);
    let expected = [0.935635, 2.008327, 4.969212, 7.684483, 29.3485, 36.2583, 48.3443, 56.8966];
    y.assert_close(&[1, 1, 2, 4], &expected, 1e-4);
    let y = call("aten::_upsample_bicubic2d_aa.out", [2, 2], [1, 1, 2, 2]);
    y.assert_close(&[1, 1, 2, 2], &[2.871166, 8.197848, 30.2845, 47.0445], 1e-4);
    let y = call("aten::_upsample_bilinear2d_aa.out", [2, 2], [1, 1, 2, 2]);
    y.assert_close(&[1, 1, 2, 2], &[4.59375, 9.90625, 29.90625, 44.59375], 1e-4);
}

#[test]
fn images_of_other_ranks_are_refused() {
    let error = run("aten::upsample_nearest1d.out", args![squares(), [4], (), out::<f32>(&[1, 1, 4])]).unwrap_err();
    assert!(error.contains("an image of 3 dimensions is needed here, this tensor has 4"), "{error}");
}

#[test]
fn grids_of_points() {
    let grid = || floats(&[1, 1, 4, 2], &[-1.0, -1.0, 0.25, 0.5, 1.2, 0.0, 0.0, -1.6]);
    let expected: [[[f32; 4]; 3]; 3] = [
        [[0.0, 45.8125, 5.0, 0.0], [0.0, 45.8125, 25.0, 1.0], [0.0, 45.8125, 25.0, 7.0]],
        [[0.0, 49.0, 0.0, 0.0], [0.0, 49.0, 25.0, 1.0], [0.0, 49.0, 25.0, 1.0]],
        [
            [-0.416016, 58.3629, 4.615996, -0.108],
            [-0.884766, 48.3443, 25.2160, 1.0],
            [-1.664062, 48.3443, 26.0800, 4.444],
        ],
    ];
    for (mode, by_padding) in expected.iter().enumerate() {
        for (padding, expected) in by_padding.iter().enumerate() {
            let place = out::<f32>(&[1, 1, 1, 4]);
            let args = args![squares(), grid(), mode as i64, padding as i64, false, place];
            run_one("aten::grid_sampler_2d.out", args).assert_close(&[1, 1, 1, 4], expected, 1e-4);
        }
    }
    let points = floats(&[1, 1, 1, 2, 3], &[0.0, 0.0, 0.0, 0.5, -1.5, 0.0]);
    let place = out::<f32>(&[1, 1, 1, 1, 2]);
    let y = run_one("aten::grid_sampler_3d.out", args![counting(&[1, 1, 2, 2, 2]), points, 0, 0, true, place]);
    y.assert_close(&[1, 1, 1, 1, 2], &[3.5, 2.0625], 1e-6);
    let wrong = args![squares(), floats(&[1, 1, 1, 3], &[0.0; 3]), 0, 0, false, out::<f32>(&[1, 1, 1, 1])];
    assert!(run("aten::grid_sampler_2d.out", wrong).is_err());
}
