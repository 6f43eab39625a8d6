//! Factors of matrices and what follows from them: whole-number results by arithmetic, others from PyTorch.
use crate::support::*;

/// A matrix of determinant 1.
fn a() -> Tensor {
    floats(&[3, 3], &[2.0, 1.0, 0.0, 1.0, 3.0, -1.0, 4.0, 0.0, 1.0])
}

fn b() -> Tensor {
    floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
}

/// `b` transposed.
fn wide() -> Tensor {
    floats(&[2, 3], &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0])
}

/// `a` times its transpose.
fn square() -> Tensor {
    floats(&[3, 3], &[5.0, 5.0, 8.0, 5.0, 11.0, 3.0, 8.0, 3.0, 17.0])
}

fn f(sizes: &[usize]) -> Arg {
    out::<f32>(sizes)
}

#[test]
fn factors_by_exchange() {
    let name = "aten::linalg_lu_factor_ex.out";
    let y = run(name, args![a(), true, false, f(&[3, 3]), out::<i32>(&[3]), out::<i32>(&[])]).unwrap();
    let expected = [4.0, 0.0, 1.0, 0.25, 3.0, -1.25, 0.5, 0.333_333_34, -0.083_333_336];
    y[0].assert_close(&[3, 3], &expected, 1e-6);
    assert_eq!((&y[1], &y[2]), (&tensor(&[3], &[3i32, 2, 3]), &tensor(&[], &[0i32])));
    let singular = floats(&[1, 2, 2], &[1.0, 2.0, 2.0, 4.0]);
    let outs = || (f(&[1, 2, 2]), out::<i32>(&[1, 2]), out::<i32>(&[1]));
    let (lu, pivots, info) = outs();
    assert_eq!(run(name, args![singular.clone(), true, false, lu, pivots, info]).unwrap()[2], tensor(&[1], &[2i32]));
    let (lu, pivots, info) = outs();
    assert!(run(name, args![singular, true, true, lu, pivots, info]).is_err());
}

#[test]
fn determinants() {
    let y = run("aten::_linalg_det.result", args![a(), f(&[]), f(&[3, 3]), out::<i32>(&[3])]).unwrap();
    y[0].assert_close(&[], &[1.0], 1e-6);
    let empty = floats(&[2, 0, 0], &[]);
    let y = run("aten::_linalg_det.result", args![empty, f(&[2]), f(&[2, 0, 0]), out::<i32>(&[2, 0])]).unwrap();
    assert_eq!(y[0], floats(&[2], &[1.0, 1.0]));
    let x = floats(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 1.0]);
    let y = run("aten::_linalg_slogdet.sign", args![x, f(&[2]), f(&[2]), f(&[2, 2, 2]), out::<i32>(&[2, 2])]).unwrap();
    y[0].assert_close(&[2], &[-1.0, 0.0], 0.0);
    y[1].assert_close(&[2], &[2f32.ln(), f32::NEG_INFINITY], 1e-6);
    assert!(run("aten::_linalg_det.result", args![b(), f(&[]), f(&[3, 3]), out::<i32>(&[3])]).is_err());
}

#[test]
fn solutions() {
    let y = run("aten::linalg_inv_ex.inverse", args![a(), false, f(&[3, 3]), out::<i32>(&[])]).unwrap();
    y[0].assert_close(&[3, 3], &[3.0, -1.0, -1.0, -5.0, 2.0, 2.0, -12.0, 4.0, 5.0], 1e-5);
    let solve = |b: Tensor, left: bool| {
        let outs = (f(&b.sizes), f(&[3, 3]), out::<i32>(&[3]), out::<i32>(&[]));
        run("aten::_linalg_solve_ex.result", args![a(), b, left, true, outs.0, outs.1, outs.2, outs.3])
            .unwrap()
            .remove(0)
    };
    solve(b(), true).assert_close(&[3, 2], &[-5.0, -4.0, 11.0, 10.0, 25.0, 22.0], 1e-4);
    solve(wide(), false).assert_close(&[2, 3], &[-72.0, 25.0, 30.0, -86.0, 30.0, 36.0], 1e-4);
    solve(floats(&[3], &[1.0, 3.0, 5.0]), true).assert_close(&[3], &[-5.0, 11.0, 25.0], 1e-4);
}

#[test]
fn solutions_with_triangles() {
    let name = "aten::linalg_solve_triangular.out";
    let lower = run_one(name, args![a(), b(), false, true, false, f(&[3, 2])]);
    lower.assert_close(&[3, 2], &[0.5, 1.0, 0.833_333_4, 1.0, 3.0, 2.0], 1e-6);
    let right = run_one(name, args![a(), wide(), true, false, true, f(&[2, 3])]);
    right.assert_close(&[2, 3], &[1.0, 2.0, 7.0, 2.0, 2.0, 8.0], 1e-6);
    let y = run("aten::triangular_solve.X", args![b(), a(), true, true, false, f(&[3, 2]), f(&[3, 3])]).unwrap();
    y[0].assert_close(&[3, 2], &[0.5, 1.0, 0.833_333_4, 1.0, 5.833_333_5, 7.0], 1e-6);
    assert_eq!(y[1], a());
}

#[test]
fn cholesky() {
    let factor = |x: Tensor, upper: bool| {
        run("aten::linalg_cholesky_ex.L", args![x, upper, false, f(&[3, 3]), out::<i32>(&[])]).unwrap()
    };
    let lower = [2.236_068, 0.0, 0.0, 2.236_068, 2.449_489_8, 0.0, 3.577_708_7, -2.041_241_4, 0.182_574_19];
    let upper = [2.236_068, 2.236_068, 3.577_708_7, 0.0, 2.449_489_8, -2.041_241_4, 0.0, 0.0, 0.182_574_19];
    factor(square(), false)[0].assert_close(&[3, 3], &lower, 1e-6);
    factor(square(), true)[0].assert_close(&[3, 3], &upper, 1e-6);
    assert_eq!(factor(a(), false)[1], tensor(&[], &[3i32]), "where the lower triangle is not positive");
    let solution = run_one("aten::cholesky_solve.out", args![b(), floats(&[3, 3], &lower), false, f(&[3, 2])]);
    solution.assert_close(&[3, 2], &[-370.0, -326.0, 127.0, 112.0, 152.0, 134.0], 0.02);
    let inverse = run_one("aten::cholesky_inverse.out", args![floats(&[3, 3], &upper), true, f(&[3, 3])]);
    inverse.assert_close(&[3, 3], &[178.0, -61.0, -73.0, -61.0, 21.0, 25.0, -73.0, 25.0, 30.0], 0.02);
}

#[test]
fn orthogonal_factors() {
    let y = run("aten::linalg_qr.out", args![a(), "reduced", f(&[3, 3]), f(&[3, 3])]).unwrap();
    let r = [-4.582_575_3, -1.091_089_5, -0.654_653_7, 0.0, -2.968_084, 1.251_408_3, 0.0, 0.0, 0.073_521_46];
    y[1].assert_close(&[3, 3], &r, 1e-5);
    let y = run("aten::linalg_qr.out", args![b(), "complete", f(&[3, 3]), f(&[3, 2])]).unwrap();
    let q =
        [-0.169_030_9, 0.897_085_7, 0.408_248, -0.507_092_6, 0.276_026, -0.816_497, -0.845_154, -0.345_033, 0.408_248];
    y[0].assert_close(&[3, 3], &q, 1e-5);
    y[1].assert_close(&[3, 2], &[-5.916_079_5, -7.437_359, 0.0, 0.828_078_7, 0.0, 0.0], 1e-5);
    let y = run("aten::linalg_qr.out", args![wide(), "r", f(&[0]), f(&[2, 3])]).unwrap();
    y[1].assert_close(&[2, 3], &[-2.236_068, -4.919_349, -7.602_630_6, 0.0, -0.894_427_3, -1.788_854_1], 1e-5);
}

#[test]
fn eigenvalues_and_singular_values() {
    let y = run("aten::_linalg_eigh.eigenvalues", args![square(), "L", false, f(&[3]), f(&[0])]).unwrap();
    y[0].assert_close(&[3], &[0.004_369_5, 9.915_863, 23.079_768], 1e-5);
    // The second is a diagonal matrix, whose vectors are known up to signs.
    let diagonal = floats(&[2, 2], &[3.0, 9.0, 0.0, -1.0]);
    let y = run("aten::_linalg_eigh.eigenvalues", args![diagonal, "L", true, f(&[2]), f(&[2, 2])]).unwrap();
    y[0].assert_close(&[2], &[-1.0, 3.0], 0.0);
    y[1].assert_close(&[2, 2], &[0.0, 1.0, 1.0, 0.0], 0.0);
    let y = run("aten::_linalg_svd.U", args![b(), false, false, (), f(&[0]), f(&[2]), f(&[0])]).unwrap();
    y[1].assert_close(&[2], &[9.525_519, 0.514_300_6], 1e-5);
    let y = run("aten::_linalg_svd.U", args![wide(), true, true, (), f(&[2, 2]), f(&[2]), f(&[3, 3])]).unwrap();
    let sizes = |y: &Tensor| y.values::<f32>().iter().map(|x| x.abs()).collect::<Vec<_>>();
    assert_eq!((&*y[0].sizes, &*y[2].sizes), (&[2, 2][..], &[3, 3][..]));
    let v = [0.229_848, 0.524_745, 0.819_642, 0.883_461, 0.240_782, 0.401_896, 0.408_248, 0.816_497, 0.408_248];
    floats(&[3, 3], &sizes(&y[2])).assert_close(&[3, 3], &v, 1e-5);
}

#[test]
fn pseudo_inverses() {
    let name = "aten::linalg_pinv.atol_rtol_tensor_out";
    let y = run_one(name, args![b(), (), (), false, f(&[2, 3])]);
    y.assert_close(&[2, 3], &[-1.333_333_4, -0.333_333_3, 0.666_666_7, 1.083_333_4, 0.333_333_3, -0.416_666_7], 1e-5);
    let singular = floats(&[2, 2], &[1.0, 2.0, 2.0, 4.0]);
    let y = run_one(name, args![singular.clone(), (), (), false, f(&[2, 2])]);
    y.assert_close(&[2, 2], &[0.04, 0.08, 0.08, 0.16], 1e-6);
    let y = run_one("aten::linalg_pinv.atol_rtol_float_out", args![singular, 6.0, (), false, f(&[2, 2])]);
    y.assert_close(&[2, 2], &[0.0; 4], 0.0);
    // The inverse of [[2, 1], [1, 1]]: what is above the diagonal does not count.
    let y = run_one(name, args![floats(&[2, 2], &[2.0, 9.0, 1.0, 1.0]), (), (), true, f(&[2, 2])]);
    y.assert_close(&[2, 2], &[1.0, -1.0, -1.0, 2.0], 1e-5);
}
