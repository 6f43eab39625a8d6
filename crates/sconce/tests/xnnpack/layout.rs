//! Elements that move: exact for every kind.

use super::program::{Array, KINDS, Kind, Payload, check};
use sconce::format::xnnpack::model::{Concatenation, Operation, Padding, Reshaping, Slicing, Transposition};

/// A payload of one node from sizes to sizes, against where each element comes from.
fn moves(kind: Kind, from: &[usize], to: &[usize], operation: Operation, source: impl Fn(&Array, &[usize]) -> f64) {
    let mut payload = Payload::default();
    let (_, numbers) = payload.input(kind, from, -4.0..4.0);
    payload.output(kind, to);
    let whole = Array::new(to, |_| 0.0);
    let expected = Array::new(to, |place| source(&numbers, &whole.indices(place)));
    let what = operation.name();
    payload.node(operation, None);
    check(what, kind, &payload.run()[0], &expected, true);
}

#[test]
fn transposes_slices_and_reshapes() {
    for kind in KINDS {
        let turn = Transposition { num_dims: 3, perm: vec![2, 0, 1], input_id: 0, output_id: 1, flags: 0 };
        moves(kind, &[2, 3, 19], &[19, 2, 3], Operation::StaticTranspose(turn), |x, i| x.at(&[i[1], i[2], i[0]]));
        let (offsets, sizes) = (vec![0, 1, 3], vec![2, 2, 0]);
        let slice = Slicing { num_dims: 3, offsets, sizes, input_id: 0, output_id: 1, flags: 0 };
        moves(kind, &[2, 4, 21], &[2, 2, 18], Operation::StaticSlice(slice), |x, i| x.at(&[i[0], i[1] + 1, i[2] + 3]));
        let shape = Reshaping { num_dims: 2, new_shape: vec![0, 4], input_id: 0, output_id: 1, flags: 0 };
        moves(kind, &[2, 6, 2], &[6, 4], Operation::StaticReshape(shape), |x, i| x.numbers[i[0] * 4 + i[1]]);
    }
}

/// A border holds the element nearest to its number, also where that is out of reach.
#[test]
fn borders() {
    for kind in KINDS {
        for value in [0.0f32, 0.37, -2.0, 1e6, -1e6] {
            if kind == Kind::Fp16 && value.abs() > 1e5 {
                continue;
            }
            let (pre_paddings, post_paddings) = (vec![0, 2, 1], vec![1, 0, 3]);
            let pad =
                Padding { pre_paddings, post_paddings, padding_value: value, input_id: 0, output_id: 1, flags: 0 };
            moves(kind, &[2, 3, 4], &[3, 5, 8], Operation::StaticConstantPad(pad), |x, i| {
                let inside = i[0] < 2 && i[1] >= 2 && (1..5).contains(&i[2]);
                if inside { x.at(&[i[0], i[1] - 2, i[2] - 1]) } else { f64::from(value) }
            });
        }
    }
}

/// Bytes of one scale stay bytes.
#[test]
fn borders_of_bytes_are_one_step() {
    for kind in [Kind::Int8(0.04, 7), Kind::UInt8(0.04, 131)] {
        let mut payload = Payload::default();
        payload.input(kind, &[2, 9], -4.0..4.0);
        payload.output(kind, &[2, 11]);
        let (pre_paddings, post_paddings) = (vec![0, 1], vec![0, 1]);
        let pad = Padding { pre_paddings, post_paddings, padding_value: 1.0, input_id: 0, output_id: 1, flags: 0 };
        payload.node(Operation::StaticConstantPad(pad), None);
        let (plan, byte) = (payload.plan(), kind.byte(1.0));
        assert!(plan.contains("1 step") && plan.contains(&format!("border of byte {byte} ")), "{plan}");
    }
}

/// The same where the exporter writes the border around numbers: a conversion before it, and bytes as its result.
#[test]
fn borders_around_converted_bytes_are_one_step() {
    let kind = Kind::Int8(0.04, 7);
    let mut payload = Payload::default();
    let (input, numbers) = payload.input(kind, &[2, 9], -5.0..5.0);
    let input_id = payload.between(Kind::Fp32, &[2, 9]);
    payload.unary(Operation::Convert, input, input_id);
    let output_id = payload.output(kind, &[2, 10]);
    let (pre_paddings, post_paddings) = (vec![0, 1], vec![0, 0]);
    let pad = Padding { pre_paddings, post_paddings, padding_value: 0.5, input_id, output_id, flags: 0 };
    payload.node(Operation::StaticConstantPad(pad), None);
    let expected = Array::new(&[2, 10], |place| match place % 10 {
        0 => 0.5,
        column => numbers.at(&[place / 10, column - 1]),
    });
    check("border", kind, &payload.run()[0], &expected, true);
    let plan = payload.plan();
    assert!(plan.contains("1 step") && plan.contains("border of byte"), "{plan}");
}

/// Where input and output have other scales, a border goes with the rest.
#[test]
fn borders_between_scales() {
    let (from, to) = (Kind::Int8(0.04, 7), Kind::Int8(0.05, -3));
    let mut payload = Payload::default();
    let (input_id, numbers) = payload.input(from, &[2, 9], -4.0..4.0);
    let output_id = payload.output(to, &[2, 11]);
    let (pre_paddings, post_paddings) = (vec![0, 1], vec![0, 1]);
    let pad = Padding { pre_paddings, post_paddings, padding_value: 1.0, input_id, output_id, flags: 0 };
    payload.node(Operation::StaticConstantPad(pad), None);
    let expected = Array::new(&[2, 11], |place| match place % 11 {
        0 | 10 => 1.0,
        column => numbers.at(&[place / 11, column - 1]),
    });
    check("border", to, &payload.run()[0], &expected, false);
}

/// Two to five values, along each dimension; the last also into another scale.
#[test]
fn values_side_by_side() {
    let nodes: [fn(Concatenation) -> Operation; 4] =
        [Operation::Concatenate2, Operation::Concatenate3, Operation::Concatenate4, Operation::Concatenate5];
    for kind in KINDS {
        for (node, count) in nodes.into_iter().zip(2..) {
            for (axis, to) in [(0, kind), (1, kind), (2, kind), (2, kind.with(0.05, 1))] {
                let mut payload = Payload::default();
                let sizes = |size: usize| {
                    let mut sizes = [2, 3, 4];
                    sizes[axis] = size;
                    sizes
                };
                let inputs: Vec<(u32, Array)> =
                    (1..=count).map(|size| payload.input(kind, &sizes(size), -4.0..4.0)).collect();
                let whole = Array::new(&sizes(count * (count + 1) / 2), |_| 0.0);
                let output_id = payload.output(to, &whole.sizes);
                let id = |place: usize| inputs.get(place).map_or(0, |input| input.0);
                let [input1_id, input2_id, input3_id, input4_id, input5_id] = [0, 1, 2, 3, 4].map(id);
                let ids = Concatenation { input1_id, input2_id, input3_id, input4_id, input5_id, ..Default::default() };
                payload.node(node(Concatenation { axis: axis as u32, output_id, ..ids }), None);
                let expected = Array::new(&whole.sizes, |place| {
                    let mut indices = whole.indices(place);
                    let mut input = 0;
                    while indices[axis] > input {
                        indices[axis] -= input + 1;
                        input += 1;
                    }
                    inputs[input].1.at(&indices)
                });
                check(&format!("{count} along {axis}"), to, &payload.run()[0], &expected, to == kind);
            }
        }
    }
}
