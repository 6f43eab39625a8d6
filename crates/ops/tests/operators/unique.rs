//! Different elements and slices, against PyTorch's values.
use crate::support::*;

fn unique(name: &str, mut arguments: Vec<Arg>, sizes: [&[usize]; 3], real: bool) -> Vec<Tensor> {
    let first = if real { out::<f32>(sizes[0]) } else { out::<i64>(sizes[0]) };
    arguments.extend([first, out::<i64>(sizes[1]), out::<i64>(sizes[2])]);
    run(name, arguments).unwrap()
}

#[test]
fn elements() {
    let nan = f32::NAN;
    let x = floats(&[2, 3], &[3.0, 1.0, nan, 1.0, nan, 3.0]);
    let y = unique("aten::_unique2.out", args![x.order(&[1, 0]), true, true, true], [&[6], &[2, 3], &[6]], true);
    y[0].assert_close(&[4], &[1.0, 3.0, nan, nan], 0.0);
    assert_eq!(y[1], longs(&[2, 3], &[1, 0, 2, 0, 3, 1]));
    assert_eq!(y[2], longs(&[4], &[2, 2, 1, 1]));
    let y = unique("aten::_unique2.out", args![longs(&[3], &[3, 1, 1]), true, false, false], [&[3], &[3], &[3]], false);
    assert_eq!(y, [longs(&[2], &[1, 3]), longs(&[0], &[]), longs(&[0], &[])]);
    let empty = floats(&[0, 3], &[]);
    let y = unique("aten::_unique2.out", args![empty, true, true, true], [&[0], &[0, 3], &[0]], true);
    assert_eq!(y, [floats(&[0], &[]), longs(&[0, 3], &[]), longs(&[0], &[])]);
}

#[test]
fn slices() {
    let x = longs(&[2, 3], &[3, 1, 3, 2, 2, 2]);
    let y = unique("aten::unique_dim.out", args![x, -1, true, true, true], [&[2, 3], &[3], &[3]], false);
    assert_eq!(y, [longs(&[2, 2], &[1, 3, 2, 2]), longs(&[3], &[1, 0, 1]), longs(&[2], &[1, 2])]);
}

#[test]
fn neighbours() {
    let x = || longs(&[3, 2], &[3, 1, 3, 1, 2, 2]);
    let name = "aten::unique_consecutive.out";
    let y = unique(name, args![x(), false, false, 0], [&[3, 2], &[3], &[3]], false);
    assert_eq!(y, [longs(&[2, 2], &[3, 1, 2, 2]), longs(&[3], &[0, 0, 1]), longs(&[2], &[2, 1])]);
    let y = unique(name, args![x(), false, false, ()], [&[6], &[6], &[6]], false);
    assert_eq!(y, [longs(&[5], &[3, 1, 3, 1, 2]), longs(&[0], &[]), longs(&[0], &[])]);
    let x = longs(&[2, 2], &[3, 1, 1, 2]);
    let y = unique(name, args![x, true, true, ()], [&[4], &[2, 2], &[4]], false);
    assert_eq!(y, [longs(&[3], &[3, 1, 2]), longs(&[2, 2], &[0, 1, 1, 2]), longs(&[3], &[1, 2, 1])]);
}
