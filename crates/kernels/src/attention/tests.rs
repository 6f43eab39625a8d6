use super::*;
use crate::testing::{Random, assert_close, pool};

/// Sizes: batch, heads, key heads, queries, keys, features, features of values.
type Sizes = [usize; 7];

/// The value of an operand, wherever it lies.
fn at(operand: &Operand<'_>, [batch, head, position, feature]: [usize; 4]) -> f64 {
    let row = batch * operand.strides[0] + head * operand.strides[1] + position * operand.strides[2];
    let index = row + feature;
    match operand.values {
        Values::F32(values) => values[index].into(),
        Values::F16(values) => values[index].to_f64(),
        Values::BF16(values) => values[index].to_f64(),
        Values::I8 { values, scales, zero_points } => {
            let row = row / operand.features;
            f64::from(scales[row]) * f64::from(i32::from(values[index]) - i32::from(zero_points[row]))
        }
    }
}

/// Attention from its definition, in `f64`.
fn naive(a: &Attention<'_>) -> Vec<f32> {
    let width = a.value.features;
    let mut out = vec![0.0; a.batch * a.heads * a.queries * width];
    for i in 0..a.batch * a.heads * a.queries {
        let (batch, head, query) = (i / a.queries / a.heads, i / a.queries % a.heads, i % a.queries);
        let key_head = head / (a.heads / a.key_heads);
        let score = |key: usize| {
            let dot = (0..a.query.features)
                .map(|d| at(&a.query, [batch, head, query, d]) * at(&a.key, [batch, key_head, key, d]))
                .sum::<f64>();
            let place = [batch, head, query, key].into_iter().zip(a.mask.map_or([0; 4], |mask| mask.strides));
            let place = place.map(|(i, stride)| i * stride).sum::<usize>();
            let added = match a.mask.map(|mask| mask.values) {
                None => 0.0,
                Some(MaskValues::Added(values)) => values[place].into(),
                Some(MaskValues::Seen(values)) if values[place].get() => 0.0,
                Some(MaskValues::Seen(_)) => f64::NEG_INFINITY,
            };
            let hidden = a.causal_from.is_some_and(|first| key > first + query);
            if hidden { f64::NEG_INFINITY } else { dot * f64::from(a.scale) + added }
        };
        let scores: Vec<f64> = (0..a.keys).map(score).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for d in 0..width {
            let total: f64 =
                weights.iter().enumerate().map(|(key, w)| w * at(&a.value, [batch, key_head, key, d])).sum();
            let to = match a.layout {
                Layout::HeadsFirst => i * width + d,
                Layout::PositionsFirst => ((batch * a.queries + query) * a.heads + head) * width + d,
            };
            out[to] = if largest == f64::NEG_INFINITY { a.unseen } else { (total / sum) as f32 };
        }
    }
    out
}

fn strides(layout: Layout, heads: usize, positions: usize, features: usize) -> [usize; 3] {
    match layout {
        Layout::HeadsFirst => [heads * positions * features, positions * features, features],
        Layout::PositionsFirst => [heads * positions * features, features, heads * features],
    }
}

fn check(a: &Attention<'_>, tolerance: f32) {
    let (pool, expected) = (pool(), naive(a));
    for isa in Isa::available() {
        let mut scratch = vec![f32::NAN; a.scratch(pool.width())];
        let mut out = vec![f32::NAN; expected.len()];
        attention(isa, &pool, a, &mut out, &mut scratch);
        assert_close(&out, &expected, tolerance, a);
    }
}

/// An attention over random numbers, handed to `body`.
fn with_random(sizes: Sizes, layout: Layout, body: impl FnOnce(Attention<'_>, &mut Random)) {
    let [batch, heads, key_heads, queries, keys, features, width] = sizes;
    let mut random = Random::new(sizes.iter().sum::<usize>() as u64);
    let q = random.floats(batch * heads * queries * features);
    let k = random.floats(batch * key_heads * keys * features);
    let v = random.floats(batch * key_heads * keys * width);
    let operand = |values, heads, positions, features| Operand {
        values: Values::F32(values),
        features,
        strides: strides(layout, heads, positions, features),
    };
    let (query, key) = (operand(&q, heads, queries, features), operand(&k, key_heads, keys, features));
    let value = operand(&v, key_heads, keys, width);
    let a = Attention {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        query,
        key,
        value,
        scale: 2.5,
        causal_from: None,
        mask: None,
        unseen: 0.0,
        layout,
    };
    body(a, &mut random);
}

const SIZES: [Sizes; 12] = [
    [1, 1, 1, 1, 1, 1, 1],
    [2, 4, 2, 1, 300, 16, 16],
    [1, 2, 2, 5, 7, 3, 5],
    [2, 6, 2, 70, 70, 8, 8],
    [1, 3, 1, 33, 257, 20, 12],
    [3, 2, 1, 65, 513, 9, 17],
    [1, 80, 1, 2, 10, 4, 4],
    [2, 1, 1, 257, 33, 4, 4],
    [1, 20, 20, 301, 31, 4, 4],
    [2, 2, 2, 3, 0, 4, 4],
    [1, 2, 2, 0, 3, 4, 4],
    [1, 2, 1, 3, 4, 0, 4],
];

#[test]
fn agrees_with_the_definition() {
    for sizes in SIZES {
        for layout in [Layout::HeadsFirst, Layout::PositionsFirst] {
            with_random(sizes, layout, |a, random| {
                check(&a, 1e-5);
                check(&Attention { causal_from: Some(0), ..a }, 1e-5);
                check(&Attention { causal_from: Some(a.keys.saturating_sub(a.queries)), ..a }, 1e-5);
                let mut added = random.floats(a.heads * a.queries * a.keys);
                let hidden = (a.queries / 2 * a.keys).min(added.len());
                added[..hidden].fill(f32::NEG_INFINITY);
                let strides = [0, a.queries * a.keys, a.keys, 1];
                check(&Attention { mask: Some(Mask { values: MaskValues::Added(&added), strides }), ..a }, 1e-5);
                let seen: Vec<Bool> = (0..a.batch * a.keys).map(|_| Bool(random.below(3) as u8)).collect();
                let mask = Mask { values: MaskValues::Seen(&seen), strides: [a.keys, 0, 0, 1] };
                check(&Attention { mask: Some(mask), ..a }, 1e-5);
            });
        }
    }
}

#[test]
fn other_kinds_are_widened() {
    let sizes = [2, 4, 2, 6, 300, 8, 8];
    with_random(sizes, Layout::PositionsFirst, |a, random| {
        let Values::F32(k) = a.key.values else { unreachable!() };
        let (f16s, bf16s): (Vec<_>, Vec<_>) = k.iter().map(|&x| (f16::from_f32(x), bf16::from_f32(x))).unzip();
        let values: Vec<i8> = k.iter().map(|x| (x * 100.0) as i8).collect();
        let scales: Vec<f32> = random.floats(k.len() / 8).iter().map(|x| x.abs() / 50.0).collect();
        let zero_points: Vec<i8> = (0..k.len() / 8).map(|_| random.below(40) as i8 - 20).collect();
        let quantised = Values::I8 { values: &values, scales: &scales, zero_points: &zero_points };
        for values in [Values::F16(&f16s), Values::BF16(&bf16s), quantised] {
            let operand = Operand { values, ..a.key };
            check(&Attention { key: operand, ..a }, 1e-5);
            check(&Attention { value: operand, causal_from: Some(290), ..a }, 1e-5);
        }
        let mut out = vec![bf16::ZERO; naive(&a).len()];
        attention(Isa::detect(), &Serial, &a, &mut out, &mut vec![0.0; a.scratch(1)]);
        let out: Vec<f32> = out.iter().map(|x| x.to_f32()).collect();
        assert_close(&out, &naive(&a), 1e-2, &"bfloat16 results");
    });
}

#[test]
fn not_a_number_stays() {
    with_random([1, 1, 1, 2, 3, 2, 2], Layout::HeadsFirst, |a, _| {
        let q = [f32::NAN, 1.0, 2.0, 3.0];
        let a = Attention { query: Operand { values: Values::F32(&q), ..a.query }, ..a };
        let mut out = [0.0f32; 4];
        attention(Isa::detect(), &Serial, &a, &mut out, &mut vec![0.0; a.scratch(1)]);
        assert!(out[0].is_nan() && out[1].is_nan() && !out[2].is_nan() && !out[3].is_nan(), "{out:?}");
    });
}

#[test]
fn rows_without_keys_are_zero_or_not_numbers() {
    with_random([1, 1, 1, 2, 3, 2, 2], Layout::HeadsFirst, |a, _| {
        let mask = [f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0, 0.0, 0.0];
        let mask = Some(Mask { values: MaskValues::Added(&mask), strides: [0, 0, 3, 1] });
        for unseen in [0.0, f32::NAN] {
            let a = Attention { mask, unseen, ..a };
            let mut out = [1.0f32; 4];
            attention(Isa::detect(), &Serial, &a, &mut out, &mut vec![0.0; a.scratch(1)]);
            assert!(out[..2].iter().all(|x| *x == unseen || x.is_nan() && unseen.is_nan()), "{out:?}");
            assert!(out[2..].iter().all(|x| x.is_finite()), "{out:?}");
        }
    });
}

#[test]
fn heads_that_do_not_fit_need_no_scratch() {
    for layout in [Layout::HeadsFirst, Layout::PositionsFirst] {
        with_random([1, 2, 2, 3, 4, 4, 4], layout, |a, _| {
            assert_eq!(Attention { heads: 1, ..a }.scratch(2), 0);
            assert_eq!(Attention { key_heads: 0, ..a }.scratch(2), 0);
        });
    }
}
