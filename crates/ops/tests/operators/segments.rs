//! Segments, tables with short rows, distances of whole tensors, diagonals, products of three, against PyTorch's values.
use crate::support::*;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

fn rows() -> Tensor {
    floats(&[4, 2], &[1.0, 2.0, 3.0, 4.0, NAN, 6.0, 7.0, 8.0])
}

#[test]
fn segments_by_length() {
    let expected = [
        ("sum", [4.0, 6.0, 0.0, 0.0, NAN, 6.0, 7.0, 8.0]),
        ("mean", [2.0, 3.0, NAN, NAN, NAN, 6.0, 7.0, 8.0]),
        ("prod", [3.0, 8.0, 1.0, 1.0, NAN, 6.0, 7.0, 8.0]),
        ("max", [3.0, 4.0, -INF, -INF, NAN, 6.0, 7.0, 8.0]),
        ("min", [1.0, 2.0, INF, INF, NAN, 6.0, 7.0, 8.0]),
    ];
    for (name, values) in expected {
        let lengths = longs(&[4], &[2, 0, 1, 1]);
        let arguments = args![rows(), name, lengths, (), (), 0, false, (), out::<f32>(&[4, 2])];
        run_one("aten::segment_reduce.out", arguments).assert_close(&[4, 2], &values, 0.0);
    }
    let initial = args![rows(), "mean", longs(&[3], &[2, 0, 2]), (), (), 0, false, 1.5, out::<f32>(&[3, 2])];
    run_one("aten::segment_reduce.out", initial).assert_close(&[3, 2], &[2.75, 3.75, 1.5, 1.5, NAN, 7.75], 0.0);
}

#[test]
fn segments_by_offset_and_their_faults() {
    let reduce = |offsets: &[i64]| {
        let offsets = longs(&[2, 3], offsets);
        let arguments = args![counting(&[2, 4]), "sum", (), (), offsets, 1, false, (), out::<f32>(&[2, 2])];
        run("aten::segment_reduce.out", arguments)
    };
    assert_eq!(reduce(&[0, 1, 4, 0, 4, 4]).unwrap()[0], floats(&[2, 2], &[0.0, 6.0, 22.0, 0.0]));
    assert!(reduce(&[0, 1, 5, 0, 4, 4]).unwrap_err().contains("from 1 to 5 is not within a dimension of size 4"));
    assert!(reduce(&[0, -1, 4, 0, 4, 4]).is_err());
}

#[test]
fn rows_of_a_table_become_short() {
    let renormalize = |order: f64, indices: &[i64]| {
        let table = floats(&[3, 2], &[3.0, 4.0, 1.0, 0.0, 6.0, 8.0]);
        run("aten::embedding_renorm.out", args![table, longs(&[3], indices), 5.0, order, out::<f32>(&[3, 2])])
    };
    let short = [2.142857, 2.857143, 1.0, 0.0, 2.142857, 2.857143];
    renormalize(1.0, &[2, 0, 2]).unwrap()[0].assert_close(&[3, 2], &short, 1e-6);
    renormalize(2.0, &[2, 0, 2]).unwrap()[0].assert_close(&[3, 2], &[3.0, 4.0, 1.0, 0.0, 3.0, 4.0], 1e-6);
    assert!(renormalize(2.0, &[2, 0, 3]).unwrap_err().contains("index 3 is outside of a dimension of size 3"));
}

#[test]
fn distances_of_whole_tensors() {
    let orders =
        [(0.0, 6.0), (1.0, 13.0), (2.0, 6.244998), (3.0, 5.325074), (f64::INFINITY, 5.0), (-f64::INFINITY, 1.0)];
    for (order, expected) in orders {
        let other = floats(&[3], &[1.0, -1.0, 4.0]);
        let distance = run_one("aten::dist.out", args![counting(&[2, 3]), other, order, out::<f32>(&[])]);
        distance.assert_close(&[], &[expected], 1e-6);
    }
}

#[test]
fn diagonals_and_traces() {
    let embed = |offset: i64, first: i64, second: i64, sizes: &[usize]| {
        let x = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        run("aten::diag_embed.out", args![x, offset, first, second, out::<f32>(sizes)])
    };
    let last = [0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0];
    assert_eq!(embed(1, -2, -1, &[2, 3, 3]).unwrap()[0], floats(&[2, 3, 3], &last));
    let outer = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 4.0, 0.0];
    assert_eq!(embed(-1, 0, 2, &[3, 2, 3]).unwrap()[0], floats(&[3, 2, 3], &outer));
    assert!(embed(0, 1, -2, &[2, 2, 2]).is_err(), "the same dimension twice");
    let bytes = tensor(&[2, 3], &[0u8, 1, 2, 3, 255, 5]).order(&[1, 0]);
    assert_eq!(run_one("aten::trace.out", args![bytes, out::<i64>(&[])]), longs(&[], &[255]));
    assert_eq!(run_one("aten::trace.out", args![floats(&[0, 3], &[]), out::<f32>(&[])]), floats(&[], &[0.0]));
    assert!(run("aten::trace.out", args![counting(&[3]), out::<f32>(&[])]).is_err());
}

#[test]
fn products_of_three() {
    // As `torch.nn.functional.bilinear` leaves it.
    let (left, right) = (floats(&[2, 2], &[1.0, 2.0, 3.0, -1.0]), floats(&[2, 3], &[1.0, 0.0, 2.0, 0.5, 1.0, -1.0]));
    let weight = floats(&[2, 2, 3], &core::array::from_fn::<f32, 12, _>(|i| i as f32 - 4.0));
    let arguments = args![left, weight, right, [1, 3], [0], [1, 2], [2, 3], 1, out::<f32>(&[2, 2])];
    assert_eq!(run_one("aten::_trilinear.out", arguments), floats(&[2, 2], &[-6.0, 48.0, -7.5, -1.5]));
}

#[test]
fn positions_in_a_fixed_number_of_rows() {
    let places = |rows: i64, filler: i64| {
        let x = floats(&[2, 2], &[0.0, 1.0, 2.0, 3.0]);
        run("aten::nonzero_static.out", args![x, rows, filler, out::<i64>(&[4, 2])])
    };
    assert_eq!(places(2, -1).unwrap()[0], longs(&[2, 2], &[0, 1, 1, 0]));
    assert_eq!(places(4, -7).unwrap()[0], longs(&[4, 2], &[0, 1, 1, 0, 1, 1, -7, -7]));
    assert!(places(-1, 0).unwrap_err().contains("-1 is not a size"));
}

#[test]
fn no_positions_are_of_any_type() {
    let none = tensor::<u8>(&[0], &[]);
    let gathered = run_one("aten::gather.out", args![counting(&[2]), 0, none, false, out::<f32>(&[0])]);
    assert_eq!(gathered, floats(&[0], &[]));
}
