//! Operators whose inputs say where elements are.
use crate::support::*;

#[test]
fn rows_by_index() {
    let table = || counting(&[3, 2]);
    let picked = run_one(
        "aten::embedding.out",
        args![table(), longs(&[2, 1], &[2, 0]), -1, false, false, out::<f32>(&[2, 1, 2])],
    );
    assert_eq!(picked, floats(&[2, 1, 2], &[4., 5., 0., 1.]));
    let columns = run_one(
        "aten::index_select.out",
        args![table().order(&[1, 0]), 1, tensor(&[3], &[1i32, 1, 0]), out::<f32>(&[3, 3])],
    );
    assert_eq!(columns, floats(&[3, 3], &[1., 1., 0., 3., 3., 2., 5., 5., 4.]));
    for index in [3, -1, i64::MIN] {
        let args = args![table(), longs(&[1], &[index]), -1, false, false, out::<f32>(&[1, 2])];
        let error = run("aten::embedding.out", args).unwrap_err();
        assert!(error.contains(&format!("index {index} is outside of a dimension of size 3")), "{error}");
    }
}

#[test]
fn picked_dimensions_stand_where_the_indexed_ones_did() {
    let x = || counting(&[2, 3, 4]);
    let (rows, columns) = (longs(&[2], &[1, 0]), longs(&[2], &[-1, 2]));
    let index = |indices: Vec<Option<Tensor>>, sizes: &[usize]| {
        run_one("aten::index.Tensor_out", args![x(), indices, out::<f32>(sizes)])
    };
    // x[rows, columns]: neighbours, in place.
    let picked = index(vec![Some(rows.clone()), Some(columns.clone())], &[2, 4]);
    assert_eq!(picked, floats(&[2, 4], &[20., 21., 22., 23., 8., 9., 10., 11.]));
    // x[:, columns]
    let picked = index(vec![None, Some(longs(&[1], &[-1]))], &[2, 1, 4]);
    assert_eq!(picked, floats(&[2, 1, 4], &[8., 9., 10., 11., 20., 21., 22., 23.]));
    // x[rows, :, columns]: apart, so in front.
    let picked = index(vec![Some(rows), None, Some(columns)], &[2, 3]);
    assert_eq!(picked, floats(&[2, 3], &[15., 19., 23., 2., 6., 10.]));
    // x[mask over the first two dimensions]
    let picked = index(vec![Some(bools(&[2, 3], &[false, true, false, false, false, true]))], &[6, 4]);
    assert_eq!(picked, floats(&[2, 4], &[4., 5., 6., 7., 20., 21., 22., 23.]));
    // x[[[0], [1]], [2, 0], 3]: indices broadcast.
    let picked =
        index(vec![Some(longs(&[2, 1], &[0, 1])), Some(longs(&[2], &[2, 0])), Some(longs(&[], &[3]))], &[2, 2]);
    assert_eq!(picked, floats(&[2, 2], &[11., 3., 23., 15.]));
}

#[test]
fn replacing_and_adding() {
    let x = || counting(&[2, 2]);
    let twice = || vec![Some(longs(&[3], &[0, 0, -1]))];
    let added = run_one(
        "aten::index_put.out",
        args![x(), twice(), floats(&[2], &[10., 20.]), true, Arg::Out(zeros::<f32>(&[2, 2]).order(&[1, 0]))],
    );
    assert_eq!(added, floats(&[2, 2], &[20., 41., 12., 23.]));
    let masked = vec![Some(bools(&[2, 2], &[true, false, false, true]))];
    let args = args![Arg::InPlace(x()), masked, floats(&[2], &[7., 8.]), false];
    assert_eq!(run_one("aten::index_put_", args), floats(&[2, 2], &[7., 1., 2., 8.]));
    let error = run(
        "aten::index_put.out",
        args![x(), vec![Some(longs(&[1], &[2]))], floats(&[], &[0.]), false, out::<f32>(&[2, 2])],
    )
    .unwrap_err();
    assert!(error.contains("index 2 is outside of a dimension of size 2"), "{error}");
}

#[test]
fn along_a_dimension() {
    let x = || counting(&[2, 3]);
    let gathered =
        run_one("aten::gather.out", args![x(), -1, longs(&[2, 2], &[2, 0, 1, 1]), false, out::<f32>(&[2, 2])]);
    assert_eq!(gathered, floats(&[2, 2], &[2., 0., 4., 4.]));
    let index = || longs(&[1, 3], &[1, 0, 1]);
    let source = || floats(&[2, 3], &[10., 20., 30., 0., 0., 0.]);
    let replaced = run_one("aten::scatter.src_out", args![x(), 0, index(), source(), out::<f32>(&[2, 3])]);
    assert_eq!(replaced, floats(&[2, 3], &[0., 20., 2., 10., 4., 30.]));
    let filled = run_one("aten::scatter.value_out", args![x(), 0, index(), -1.0, out::<f32>(&[2, 3])]);
    assert_eq!(filled, floats(&[2, 3], &[0., -1., 2., -1., 4., -1.]));
    let added =
        run_one("aten::scatter_add.out", args![x(), 1, longs(&[1, 3], &[1, 1, 1]), source(), out::<f32>(&[2, 3])]);
    assert_eq!(added, floats(&[2, 3], &[0., 61., 2., 3., 4., 5.]));
    let error = run("aten::gather.out", args![x(), 1, longs(&[1, 1], &[-1]), false, out::<f32>(&[1, 1])]).unwrap_err();
    assert!(error.contains("index -1 is outside"), "{error}");
}

#[test]
fn masks_and_counts() {
    let x = || counting(&[2, 2]);
    let mask = || bools(&[2], &[false, true]);
    assert_eq!(run_one("aten::masked_select.out", args![x(), mask(), out::<f32>(&[4])]), floats(&[2], &[1., 3.]));
    let source = floats(&[3], &[7., 8., 9.]);
    let scattered = run_one("aten::masked_scatter.out", args![x().order(&[1, 0]), mask(), source, out::<f32>(&[2, 2])]);
    assert_eq!(scattered, floats(&[2, 2], &[0., 7., 2., 8.]));
    assert!(run("aten::masked_scatter.out", args![x(), mask(), floats(&[1], &[7.]), out::<f32>(&[2, 2])]).is_err());
    // Not a number is not zero, and minus zero is.
    let values = floats(&[2, 2], &[f32::NAN, -0.0, 0.0, 2.0]);
    let places = Arg::Out(zeros::<i64>(&[4, 2]).order(&[1, 0]));
    assert_eq!(run_one("aten::nonzero.out", args![values, places]), longs(&[2, 2], &[0, 0, 1, 1]));
    assert_eq!(run_one("aten::nonzero.out", args![longs(&[], &[3]), out::<i64>(&[1, 0])]), longs(&[1, 0], &[]));
    let repeats = longs(&[3], &[2, 0, 1]);
    assert_eq!(
        run_one("aten::repeat_interleave.Tensor_out", args![repeats.clone(), 3, out::<i64>(&[3])]),
        longs(&[3], &[0, 0, 2])
    );
    assert!(run("aten::repeat_interleave.Tensor_out", args![repeats, 4, out::<i64>(&[4])]).is_err());
    assert!(run("aten::repeat_interleave.Tensor_out", args![longs(&[1], &[-1]), (), out::<i64>(&[4])]).is_err());
}
