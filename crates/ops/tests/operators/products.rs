//! Products with vectors and sums, and distances.
use crate::support::*;

#[test]
fn matrices_meet_vectors() {
    let matrix = || counting(&[2, 3]);
    let vector = || floats(&[3], &[1., 2., 3.]);
    assert_eq!(run_one("aten::mv.out", args![matrix(), vector(), out::<f32>(&[2])]), floats(&[2], &[8., 26.]));
    let given = args![floats(&[1], &[f32::NAN]), matrix(), vector(), 0, 2, out::<f32>(&[2])];
    assert_eq!(run_one("aten::addmv.out", given), floats(&[2], &[16., 52.]));
    assert_eq!(run_one("aten::dot.out", args![vector(), vector(), out::<f32>(&[])]), floats(&[], &[14.]));
    let longs_dot = args![longs(&[2], &[3, -4]), longs(&[2], &[5, 6]), out::<i64>(&[])];
    assert_eq!(run_one("aten::vdot.out", longs_dot), longs(&[], &[-9]));
    let none = args![floats(&[0], &[]), floats(&[0], &[]), out::<f32>(&[])];
    assert_eq!(run_one("aten::dot.out", none), floats(&[], &[0.]));
    let outer = floats(&[2, 3], &[1., 2., 3., -1., -2., -3.]);
    let given = || args![floats(&[2], &[1., -1.]), vector(), out::<f32>(&[2, 3])];
    assert_eq!(run_one("aten::outer.out", given()), outer);
    assert_eq!(run_one("aten::ger.out", given()), outer);
    let given = args![counting(&[2, 3]), floats(&[2], &[1., -1.]), vector(), 10, 2, out::<f32>(&[2, 3])];
    assert_eq!(run_one("aten::addr.out", given), floats(&[2, 3], &[2., 14., 26., 28., 36., 44.]));
    let error = run("aten::mv.out", args![matrix(), floats(&[2], &[0.0; 2]), out::<f32>(&[2])]).unwrap_err();
    assert!(error.contains("3 columns meet 2 rows"), "{error}");
}

#[test]
fn batches_are_added_to_something() {
    let (a, b) = (|| counting(&[2, 1, 2]), || counting(&[2, 2, 1]));
    let given = args![floats(&[1, 1], &[1.]), a(), b(), 10, 1, out::<f32>(&[2, 1, 1])];
    assert_eq!(run_one("aten::baddbmm.out", given), floats(&[2, 1, 1], &[11., 23.]));
    let given = args![floats(&[1], &[1.]), a(), b(), 10, 2, out::<f32>(&[1, 1])];
    assert_eq!(run_one("aten::addbmm.out", given), floats(&[1, 1], &[38.]));
    let given = args![longs(&[1], &[7]), longs(&[2, 1, 0], &[]), longs(&[2, 0, 2], &[]), 2, 1, out::<i64>(&[1, 2])];
    assert_eq!(run_one("aten::addbmm.out", given), longs(&[1, 2], &[14, 14]));
}

#[test]
fn distances() {
    let (a, b) = (|| floats(&[2, 2], &[0., 0., 3., 4.]), || floats(&[2, 1, 2], &[0., 0., 1., 1.]));
    let between = |p: f64| run_one("aten::_cdist_forward.out", args![a(), b(), p, (), out::<f32>(&[2, 2, 1])]);
    assert_eq!(between(2.0), floats(&[2, 2, 1], &[0., 5., 2f32.sqrt(), 13f32.sqrt()]));
    assert_eq!(between(1.0), floats(&[2, 2, 1], &[0., 7., 2., 5.]));
    assert_eq!(between(0.0), floats(&[2, 2, 1], &[0., 2., 2., 2.]));
    assert_eq!(between(f64::INFINITY), floats(&[2, 2, 1], &[0., 4., 1., 3.]));
    between(3.0).assert_close(&[2, 2, 1], &[0., 91f32.cbrt(), 2f32.cbrt(), 35f32.cbrt()], 1e-5);
    let x = tensor::<f64>(&[3, 1], &[0., 1., 5.]);
    let within = run_one("aten::_pdist_forward.out", args![x, 2.0, out::<f64>(&[3])]);
    assert_eq!(within, tensor::<f64>(&[3], &[1., 5., 4.]));
    let one = args![floats(&[1, 2], &[0.0; 2]), 2.0, out::<f32>(&[0])];
    assert_eq!(run_one("aten::_pdist_forward.out", one).sizes, [0]);
}
