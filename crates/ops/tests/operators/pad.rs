//! Paddings.
use crate::support::*;

#[test]
fn constant_padding_adds_and_cuts() {
    let x = || counting(&[2, 2]);
    let padded = run_one("aten::constant_pad_nd.out", args![x(), [1, 0, 0, 1], 9.0, out::<f32>(&[3, 3])]);
    assert_eq!(padded, floats(&[3, 3], &[9., 0., 1., 9., 2., 3., 9., 9., 9.]));
    let cut = run_one("aten::constant_pad_nd.out", args![x(), [-1, 1], 9.0, out::<f32>(&[2, 2])]);
    assert_eq!(cut, floats(&[2, 2], &[1., 9., 3., 9.]));
    let same = run_one("aten::constant_pad_nd.out", args![x(), Arg::Ints(vec![]), 0, out::<f32>(&[2, 2])]);
    assert_eq!(same, x());
    let all = run_one("aten::constant_pad_nd.out", args![floats(&[0], &[]), [1, 1], 4, out::<f32>(&[2])]);
    assert_eq!(all, floats(&[2], &[4., 4.]));
    assert!(run("aten::constant_pad_nd.out", args![x(), [2, -3], 0, out::<f32>(&[2, 2])]).is_err());
}

#[test]
fn borders_are_mirrored_or_repeated() {
    let x = || counting(&[1, 4]);
    let reflected = run_one("aten::reflection_pad1d.out", args![x(), [2, 3], out::<f32>(&[1, 9])]);
    assert_eq!(reflected, floats(&[1, 9], &[2., 1., 0., 1., 2., 3., 2., 1., 0.]));
    let replicated = run_one("aten::replication_pad1d.out", args![x(), [2, -1], out::<f32>(&[1, 5])]);
    assert_eq!(replicated, floats(&[1, 5], &[0., 0., 0., 1., 2.]));
    let plane = counting(&[1, 1, 2, 2]).order(&[0, 2, 3, 1]);
    let place = Arg::Out(zeros::<f32>(&[1, 1, 3, 3]).order(&[0, 2, 3, 1]));
    let reflected = run_one("aten::reflection_pad2d.out", args![plane, [0, 1, 1, 0], place]);
    assert_eq!(reflected, floats(&[1, 1, 3, 3], &[2., 3., 2., 0., 1., 0., 2., 3., 2.]));
    let error = run("aten::reflection_pad1d.out", args![x(), [4, 0], out::<f32>(&[1, 8])]).unwrap_err();
    assert!(error.contains("a padding of 4 cannot be mirrored from 4 elements"), "{error}");
}
