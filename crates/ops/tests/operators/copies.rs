//! Copies, views, joins and rearrangements.
use crate::support::*;
use sconce_core::ScalarType;

const ROW_MAJOR: &[u8] = &[0, 1, 2, 3];
const CHANNELS_LAST: &[u8] = &[0, 2, 3, 1];
const MIXED: &[u8] = &[3, 1, 0, 2];

/// An output in an order of its own.
fn out_in(sizes: &[usize], order: &[u8]) -> Arg {
    Arg::Out(zeros::<f32>(sizes).order(order))
}

#[test]
fn views_of_counting_tensors() {
    let x = || counting(&[2, 3]);
    let table: Vec<(&str, Vec<Arg>, Tensor)> = vec![
        ("permute_copy.out", args![x(), [1, -2], out::<f32>(&[3, 2])], floats(&[3, 2], &[0., 3., 1., 4., 2., 5.])),
        ("transpose_copy.int_out", args![x(), 0, -1, out::<f32>(&[3, 2])], floats(&[3, 2], &[0., 3., 1., 4., 2., 5.])),
        ("t_copy.out", args![x(), out::<f32>(&[3, 2])], floats(&[3, 2], &[0., 3., 1., 4., 2., 5.])),
        ("select_copy.int_out", args![x(), 1, -1, out::<f32>(&[2])], floats(&[2], &[2., 5.])),
        (
            "slice_copy.Tensor_out",
            args![x(), 1, (), i64::MAX, 2, out::<f32>(&[2, 2])],
            floats(&[2, 2], &[0., 2., 3., 5.]),
        ),
        ("slice_copy.Tensor_out", args![x(), 1, -1, -2, 1, out::<f32>(&[2, 3])], floats(&[2, 0], &[])),
        ("narrow_copy.out", args![x(), 1, 1, 2, out::<f32>(&[2, 2])], floats(&[2, 2], &[1., 2., 4., 5.])),
        ("diagonal_copy.out", args![x(), 1, 0, 1, out::<f32>(&[2])], floats(&[2], &[1., 5.])),
        (
            "unfold_copy.out",
            args![x(), 1, 2, 1, out::<f32>(&[2, 2, 2])],
            floats(&[2, 2, 2], &[0., 1., 1., 2., 3., 4., 4., 5.]),
        ),
        ("as_strided_copy.out", args![x(), [2, 2], [1, 2], 1, out::<f32>(&[2, 2])], floats(&[2, 2], &[1., 3., 2., 4.])),
        ("view_copy.out", args![x(), [3, -1], out::<f32>(&[3, 2])], counting(&[3, 2])),
        ("unsqueeze_copy.out", args![x(), -1, out::<f32>(&[2, 3, 1])], counting(&[2, 3, 1])),
        ("squeeze_copy.dims_out", args![counting(&[1, 2, 1]), [0, 1], out::<f32>(&[2, 1])], counting(&[2, 1])),
        (
            "expand_copy.out",
            args![counting(&[2, 1]), [2, -1, 2], false, out::<f32>(&[2, 2, 2])],
            floats(&[2, 2, 2], &[0., 0., 1., 1., 0., 0., 1., 1.]),
        ),
    ];
    for (name, args, want) in table {
        assert_eq!(run_one(&format!("aten::{name}"), args), want, "{name}");
    }
}

#[test]
fn dimension_orders_change_places_and_not_values() {
    let x = counting(&[2, 3, 2, 2]);
    for (from, to) in [(ROW_MAJOR, CHANNELS_LAST), (CHANNELS_LAST, ROW_MAJOR), (CHANNELS_LAST, MIXED)] {
        let x = x.clone().order(from);
        assert_eq!(run_one("aten::clone.out", args![x.clone(), 0, out_in(&x.sizes, to)]), x);
        let copied =
            run_one("dim_order_ops::_to_dim_order_copy.out", args![x.clone(), false, (), out_in(&x.sizes, to)]);
        assert_eq!((copied.order.as_slice(), &copied), (to, &x));
        // A view counts in row-major order on both sides.
        let flat = run_one("aten::view_copy.out", args![x.clone(), [4, 3, 2, 1], out_in(&[4, 3, 2, 1], to)]);
        assert_eq!(flat, counting(&[4, 3, 2, 1]));
        let rolled = run_one("aten::roll.out", args![x.clone(), [-1], Arg::Ints(vec![]), out_in(&x.sizes, to)]);
        assert_eq!(rolled.values::<f32>(), (1..24).chain([0]).map(|i| i as f32).collect::<Vec<_>>());
    }
}

#[test]
fn copies_convert_elements() {
    let x = floats(&[2, 2], &[-1.5, 0.0, 2.9, 300.0]);
    assert_eq!(
        run_one("aten::_to_copy.out", args![x.clone(), false, (), out::<i32>(&[2, 2])]),
        tensor(&[2, 2], &[-1, 0, 2, 300])
    );
    assert_eq!(
        run_one("aten::_to_copy.out", args![x.clone(), false, (), out::<sconce_kernels::Bool>(&[2, 2])]),
        bools(&[2, 2], &[true, false, true, true])
    );
    let copied =
        run_one("aten::copy_", args![Arg::InPlace(longs(&[2, 2], &[9; 4])), floats(&[2], &[1.5, -7.0]), false]);
    assert_eq!(copied, longs(&[2, 2], &[1, -7, 1, -7]));
}

#[test]
fn zero_dimensional_copies() {
    let five = floats(&[], &[5.0]);
    let order = Arg::Ints(vec![]);
    assert_eq!(
        run_one("dim_order_ops::_to_dim_order_copy.out", args![five.clone(), false, order, out::<f64>(&[])]),
        tensor(&[], &[5.0f64])
    );
    assert_eq!(run_one("aten::squeeze_copy.dim_out", args![five.clone(), 0, out::<f32>(&[])]), five);
}

#[test]
fn joins_and_splits() {
    let (a, b) = (counting(&[2, 1]), floats(&[2, 2], &[7., 8., 9., 10.]));
    let joined = floats(&[2, 3], &[0., 7., 8., 1., 9., 10.]);
    let nothing = floats(&[0], &[]);
    assert_eq!(run_one("aten::cat.out", args![vec![a.clone(), nothing, b.clone()], -1, out::<f32>(&[2, 3])]), joined);
    let mixed = vec![longs(&[1], &[3]), floats(&[1], &[0.5])];
    assert_eq!(run_one("aten::cat.out", args![mixed, 0, out::<f32>(&[2])]), floats(&[2], &[3.0, 0.5]));
    let stacked =
        run_one("aten::stack.out", args![vec![counting(&[2]), floats(&[2], &[5., 6.])], 1, out_in(&[2, 2], &[1, 0])]);
    assert_eq!(stacked, floats(&[2, 2], &[0., 5., 1., 6.]));
    let outs = || Arg::Outs(vec![zeros::<f32>(&[2, 2]), zeros::<f32>(&[2, 1])]);
    let parts = [floats(&[2, 2], &[0., 7., 1., 9.]), floats(&[2, 1], &[8., 10.])];
    let args = args![joined.clone(), 2, 1, outs()];
    assert_eq!(run("aten::split_copy.Tensor_out", args).unwrap(), parts);
    let args = args![joined.clone(), [2, 1], -1, outs()];
    assert_eq!(run("aten::split_with_sizes_copy.out", args).unwrap(), parts);
    let rows = Arg::Outs(vec![zeros::<f32>(&[3]), zeros::<f32>(&[3])]);
    let rows = run("aten::unbind_copy.int_out", args![joined, 0, rows]).unwrap();
    assert_eq!(rows, [floats(&[3], &[0., 7., 8.]), floats(&[3], &[1., 9., 10.])]);
}

#[test]
fn rearrangements() {
    let x = || counting(&[2, 3]);
    assert_eq!(
        run_one("aten::flip.out", args![x(), [0, -1], out::<f32>(&[2, 3])]),
        floats(&[2, 3], &[5., 4., 3., 2., 1., 0.])
    );
    assert_eq!(
        run_one("aten::roll.out", args![x(), [1, -1], [1, 0], out::<f32>(&[2, 3])]),
        floats(&[2, 3], &[5., 3., 4., 2., 0., 1.])
    );
    let repeated = run_one("aten::repeat.out", args![counting(&[2]), [2, 2], out::<f32>(&[2, 4])]);
    assert_eq!(repeated, floats(&[2, 4], &[0., 1., 0., 1., 0., 1., 0., 1.]));
    assert_eq!(
        run_one("aten::tril.out", args![x(), -1, out_in(&[2, 3], &[1, 0])]),
        floats(&[2, 3], &[0., 0., 0., 3., 0., 0.])
    );
    let shuffled = run_one(
        "aten::pixel_shuffle.out",
        args![counting(&[1, 4, 1, 2]).order(CHANNELS_LAST), 2, out::<f32>(&[1, 1, 2, 4])],
    );
    assert_eq!(shuffled, floats(&[1, 1, 2, 4], &[0., 2., 1., 3., 4., 6., 5., 7.]));
    assert_eq!(
        run_one("aten::pixel_unshuffle.out", args![shuffled, 2, out_in(&[1, 4, 1, 2], CHANNELS_LAST)]),
        counting(&[1, 4, 1, 2])
    );
    let sliced = run_one(
        "aten::slice_scatter.out",
        args![x(), floats(&[2, 1], &[8., 9.]), 1, 1, 2, 1, out_in(&[2, 3], &[1, 0])],
    );
    assert_eq!(sliced, floats(&[2, 3], &[0., 8., 2., 3., 9., 5.]));
    let selected =
        run_one("aten::select_scatter.out", args![x(), floats(&[3], &[7., 8., 9.]), 0, -1, out::<f32>(&[2, 3])]);
    assert_eq!(selected, floats(&[2, 3], &[0., 1., 2., 7., 8., 9.]));
    // x * sigmoid(1) with sigmoid(1) = 0.7310586
    let gated = run_one("aten::glu.out", args![floats(&[2, 2], &[2., 1., 4., 1.]), -1, out::<f32>(&[2, 1])]);
    gated.assert_close(&[2, 1], &[1.462_117, 2.924_234], 1e-5);
}

#[test]
fn complex_numbers_move_whole_and_as_pairs() {
    let mut x = floats(&[2, 2], &[1., 2., 3., 4.]);
    (x.dtype, x.sizes, x.order) = (ScalarType::ComplexFloat, vec![2], vec![0]);
    assert_eq!(
        run_one("aten::view_as_real_copy.out", args![x.clone(), out_in(&[2, 2], &[1, 0])]),
        floats(&[2, 2], &[1., 2., 3., 4.])
    );
    let place = Arg::Out(Tensor { data: vec![0; 16], ..x.clone() });
    let flipped = run_one("aten::flip.out", args![x, [0], place]);
    assert_eq!(flipped.data, floats(&[4], &[3., 4., 1., 2.]).data);
}

#[test]
fn what_does_not_exist_is_told() {
    let x = || counting(&[2, 3]);
    let table: Vec<(&str, Vec<Arg>, &str)> = vec![
        ("select_copy.int_out", args![x(), 1, 3, out::<f32>(&[2])], "position 3 is outside of a dimension of size 3"),
        ("permute_copy.out", args![x(), [0, 0], out::<f32>(&[2, 2])], "different ones of the 2"),
        ("slice_copy.Tensor_out", args![x(), 0, (), (), 0, out::<f32>(&[2, 3])], "step or padding of 0"),
        ("as_strided_copy.out", args![x(), [2, 2], [3, 3], 0, out::<f32>(&[2, 2])], "outside of the tensor"),
        ("as_strided_copy.out", args![x(), [2], [i64::MAX], i64::MAX, out::<f32>(&[2])], "outside of the tensor"),
        ("view_copy.out", args![x(), [4, -1], out::<f32>(&[4, 1])], "as many elements"),
        ("repeat.out", args![x(), [i64::MAX, 2], out::<f32>(&[2, 3])], "more than the 6"),
        ("cat.out", args![vec![x(), counting(&[3, 3])], 1, out::<f32>(&[2, 6])], "must be equal"),
    ];
    for (name, args, text) in table {
        let error = run(&format!("aten::{name}"), args).unwrap_err();
        assert!(error.contains(text), "{name}: {error}");
    }
}
