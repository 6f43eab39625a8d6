//! Copies, views, joins and rearrangements against values of PyTorch.
mod support;
use support::*;

#[test]
fn x() {
    let y = run_one("aten::permute_copy.out", args![counting(&[2, 3]), [1, 0], out::<f32>(&[3, 2])]);
    assert_eq!(y, floats(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
}
