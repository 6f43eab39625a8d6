//! The language-model operators.
use crate::support::*;

/// The fractions `(i * 7 % 5 - 2) / 2`.
fn wave(sizes: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..sizes.iter().product::<usize>()).map(|i| ((i * 7 % 5) as f32 - 2.0) / 2.0).collect();
    floats(sizes, &values)
}

/// Counts from 0 in tenths.
fn ramp(sizes: &[usize]) -> Tensor {
    floats(sizes, &(0..sizes.iter().product::<usize>()).map(|i| i as f32 * 0.1).collect::<Vec<_>>())
}

fn shifted(x: &Tensor, by: f32) -> Tensor {
    floats(&x.sizes, &x.values::<f32>().iter().map(|x| x + by).collect::<Vec<_>>())
}

fn query_key_value() -> [Tensor; 3] {
    [wave(&[1, 2, 2, 2]), shifted(&wave(&[1, 4, 1, 2]), 0.25), ramp(&[1, 4, 1, 2])]
}

#[test]
fn attention_sees_what_came_before() {
    let [q, k, v] = query_key_value();
    let attend = |q: Tensor, mask: Arg, causal: bool, scale: Arg, start: i64, place: Arg| {
        let [_, k, v] = query_key_value();
        run("llama::custom_sdpa.out", args![q, k, v, start, mask, 0.0, causal, scale, place])
    };
    let one = |outputs: Result<Vec<Tensor>, String>| outputs.unwrap().remove(0);
    let place = || out::<f32>(&[1, 2, 2, 2]);
    one(attend(q.clone(), Arg::None, true, Arg::None, 1, place())).assert_close(
        &[1, 2, 2, 2],
        &[0.039114, 0.139114, 0.166151, 0.266151, 0.266714, 0.366714, 0.153816, 0.253816],
        1e-5,
    );
    one(attend(q.clone(), Arg::None, false, Arg::Double(1.0), 1, place())).assert_close(
        &[1, 2, 2, 2],
        &[0.085625, 0.185625, 0.271479, 0.371479, 0.284629, 0.384629, 0.135969, 0.235969],
        1e-5,
    );
    let infinity = f32::INFINITY;
    let mask = floats(&[2, 4], &[0., -1., -infinity, 2., -infinity, 0., 0., 0.5]);
    one(attend(q.clone(), mask.clone().into(), false, Arg::None, 0, place())).assert_close(
        &[1, 2, 2, 2],
        &[0.465665, 0.565665, 0.500792, 0.600792, 0.353807, 0.453807, 0.516395, 0.616395],
        1e-5,
    );
    let error = attend(q.clone(), Arg::None, true, Arg::None, 3, place()).unwrap_err();
    assert!(error.contains("5 keys are needed, there are 4"), "{error}");
    assert!(attend(q.clone(), Arg::None, true, Arg::None, -1, place()).unwrap_err().contains("negative"));
    assert!(attend(q.clone(), mask.into(), true, Arg::None, 0, place()).unwrap_err().contains("not both"));
    assert!(attend(wave(&[1, 2, 3, 2]), Arg::None, true, Arg::None, 0, out::<f32>(&[1, 2, 3, 2])).is_ok());
    // A query without positions, and types that compute in float32.
    let empty = attend(floats(&[1, 0, 2, 2], &[]), Arg::None, true, Arg::None, 0, out::<f32>(&[1, 1, 2, 2]));
    assert_eq!(one(empty).sizes, [1, 0, 2, 2]);
    let halves =
        |x: &Tensor| tensor(&x.sizes, &x.values::<f32>().iter().map(|&x| half::f16::from_f32(x)).collect::<Vec<_>>());
    let given = args![halves(&q), halves(&k), halves(&v), 1, (), 0.0, true, (), out::<half::f16>(&[1, 2, 2, 2])];
    let first = run_one("llama::custom_sdpa.out", given).values::<half::f16>()[0].to_f32();
    assert!((first - 0.039114).abs() < 1e-3, "{first}");
}

#[test]
fn pytorch_attention_with_a_mask_of_truth_values() {
    let [q, k, v] = query_key_value();
    // One head of keys: only the queries' heads and positions change places.
    let q: Vec<f32> = q.values();
    let q = floats(&[1, 2, 2, 2], &[q[0], q[1], q[4], q[5], q[2], q[3], q[6], q[7]]);
    let (k, v) = (floats(&[1, 1, 4, 2], &k.values::<f32>()), floats(&[1, 1, 4, 2], &v.values::<f32>()));
    let mask = bools(&[2, 4], &[true, false, true, true, false, false, false, false]);
    let place = out::<f32>(&[1, 2, 2, 2]);
    run_one("aten::scaled_dot_product_attention.out", args![q, k, v, mask, 0.0, false, (), true, place]).assert_close(
        &[1, 2, 2, 2],
        &[0.23614, 0.33614, 0.0, 0.0, 0.382382, 0.482382, 0.0, 0.0],
        1e-5,
    );
}

#[test]
fn caches_are_filled_before_they_are_read() {
    let cache = |first: f32| {
        let mut values = [0.0; 8];
        values[..2].fill(first);
        Arg::InPlace(floats(&[1, 4, 1, 2], &values))
    };
    let [q, ..] = query_key_value();
    let mut given = args![q, wave(&[1, 2, 1, 2]), ramp(&[1, 2, 1, 2]), cache(1.0), cache(3.0)];
    given.extend(args![1, 2, (), 0.0, true, (), out::<f32>(&[1, 2, 2, 2])]);
    let outputs = run("llama::sdpa_with_kv_cache.out", given).unwrap();
    assert_eq!(outputs[0], floats(&[1, 4, 1, 2], &[1., 1., -1., 0., 1., -0.5, 0., 0.]));
    outputs[1].assert_close(&[1, 4, 1, 2], &[3., 3., 0., 0.1, 0.2, 0.3, 0., 0.], 1e-6);
    let expected = [0.586711, 0.667154, 2.22845, 2.254168, 0.731885, 0.811428, 1.668707, 1.714338];
    outputs[2].assert_close(&[1, 2, 2, 2], &expected, 1e-5);
}

#[test]
fn cache_updates() {
    let cache = || Arg::InPlace(floats(&[2, 3, 1, 1], &[0.0; 6]));
    let value = || floats(&[2, 2, 1, 1], &[1., 2., 3., 4.]);
    let updated = run("llama::update_cache.out", args![value(), cache(), 1, out::<f32>(&[1])]).unwrap();
    assert_eq!(updated[0], floats(&[2, 3, 1, 1], &[0., 1., 2., 0., 3., 4.]));
    assert_eq!(run_one("llama::update_cache", args![value(), cache(), 1]), updated[0]);
    let places = longs(&[2, 2], &[2, 0, 1, 2]);
    let given = args![value(), cache(), 0, places, out::<f32>(&[1])];
    let updated = run("llama::update_cache_with_indices.out", given).unwrap();
    assert_eq!(updated[0], floats(&[2, 3, 1, 1], &[2., 0., 1., 0., 3., 4.]));
    let error = run("llama::update_cache.out", args![value(), cache(), 2, out::<f32>(&[1])]).unwrap_err();
    assert!(error.contains("room for 3 positions only"), "{error}");
    let places = longs(&[2, 2], &[0, 1, -1, 2]);
    assert!(run("llama::update_cache_with_indices.out", args![value(), cache(), 0, places, out::<f32>(&[1])]).is_err());
}

#[test]
fn attention_over_eight_bits() {
    let rows = |n: usize| {
        let zero_points: Vec<i8> = (0..n).map(|i| (i % 3) as i8 - 1).collect();
        (zero_points, (0..n).map(|i| i as f32 * 0.01 + 0.02).collect::<Vec<f32>>())
    };
    let (qz, qs) = rows(4);
    let (kz, ks) = rows(3);
    let given = args![
        tensor::<i8>(&[1, 2, 2, 2], &[-20, 17, 13, 9, 5, 1, -3, -7]),
        tensor::<i8>(&[1, 3, 1, 2], &[-15, 14, 12, 10, 8, 6]),
        tensor::<i8>(&[1, 3, 1, 2], &[0, 11, 9, 7, 5, 3]),
        1,
        (),
        0.0,
        true,
        (),
        tensor(&[1, 2, 2, 1], &qz),
        floats(&[1, 2, 2, 1], &qs),
        tensor(&[1, 3, 1, 1], &kz),
        floats(&[1, 3, 1, 1], &ks),
        tensor(&[1, 3, 1, 1], &kz),
        floats(&[1, 3, 1, 1], &ks),
        false,
        out::<f32>(&[1, 2, 2, 2]),
    ];
    run_one("llama::custom_quantized_sdpa.out", given).assert_close(
        &[1, 2, 2, 2],
        &[0.134278, 0.226287, 0.156002, 0.22368, 0.153078, 0.17545, 0.148131, 0.176764],
        1e-5,
    );
}

#[test]
fn hadamard_transforms() {
    let name = "llama::fast_hadamard_transform.out";
    let x = floats(&[2, 4], &[1., 2., 3., 4., 0., -1., 5., 0.5]);
    run_one(name, args![x, out::<f32>(&[2, 4])]).assert_close(
        &[2, 4],
        &[5., -1., -2., 0., 2.25, 2.75, -3.25, -1.75],
        0.0,
    );
    let mut x = [0.0; 28];
    (x[0], x[8], x[27]) = (1.0, 2.0, -1.0);
    let expected = [
        4., 2., 0., -4., -2., -2., -4., -2., 0., 0., 0., -2., 0., -4., -2., 2., -4., -2., 2., 2., 0., 2., 0., 4., -2.,
        2., 4., -2.,
    ];
    run_one(name, args![floats(&[28], &x), out::<f32>(&[28])]).assert_close(&[28], &expected, 0.0);
    assert_eq!(run_one(name, args![floats(&[2, 0], &[]), out::<f32>(&[2, 0])]).sizes, [2, 0]);
    assert!(run(name, args![floats(&[3], &[0.0; 3]), out::<f32>(&[3])]).unwrap_err().contains("power of two"));
}

#[test]
fn the_delta_rule_corrects_its_state() {
    let half_wave = floats(&[1, 1, 2, 2], &wave(&[4]).values::<f32>().iter().map(|x| x / 2.0).collect::<Vec<_>>());
    let ones = || floats(&[1, 1, 2, 3], &[1.0; 6]);
    let beta = || floats(&[1, 1, 2], &[1.0, 0.5]);
    let answer = |name: &str, decay: Tensor| {
        let mut given = args![wave(&[1, 2, 2, 2]), half_wave.clone(), ramp(&[1, 1, 2, 3]), decay, beta(), ones()];
        given.extend([out::<f32>(&[1, 2, 2, 3]), out::<f32>(&[1, 1, 2, 3])]);
        run(name, given)
    };
    let outputs = answer("llama::gated_delta_rule.out", floats(&[1, 1, 2], &[0.5; 2])).unwrap();
    let expected =
        [-0.375, -0.325, -0.275, 0.146484, 0.156641, 0.166797, -0.3125, -0.3375, -0.3625, 0.216406, 0.202344, 0.188281];
    outputs[0].assert_close(&[1, 2, 2, 3], &expected, 1e-5);
    outputs[1].assert_close(&[1, 1, 2, 3], &[0.254687, 0.257812, 0.260938, 0.216406, 0.202344, 0.188281], 1e-5);
    let decay = floats(&[1, 1, 2, 2], &[0.5, 0.25, 1.0, 0.75]);
    let outputs = answer("llama::channelwise_gated_delta_rule.out", decay).unwrap();
    let expected =
        [-0.375, -0.325, -0.275, 0.331055, 0.320117, 0.30918, -0.0625, -0.0875, -0.1125, 0.167578, 0.151953, 0.136328];
    outputs[0].assert_close(&[1, 2, 2, 3], &expected, 1e-5);
    outputs[1].assert_close(&[1, 1, 2, 3], &[0.414844, 0.396094, 0.377344, 0.167578, 0.151953, 0.136328], 1e-5);
    assert!(answer("llama::gated_delta_rule.out", floats(&[1, 1, 3], &[0.5; 3])).unwrap_err().contains("decay"));
}

/// Rows of integers in the packed layout of experts, eight bits each, with one group and these scales.
fn pack(rows: &[[i8; 16]], scale: f32) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    for eight in rows.chunks(8) {
        let row = |j: usize| eight.get(j).copied().unwrap_or([0; 16]);
        for half in [0, 8] {
            (0..8).for_each(|j| bytes.extend(row(j)[half..half + 8].iter().map(|&x| x as u8)));
        }
        (0..8).for_each(|_| bytes.extend(scale.to_le_bytes()));
        bytes.extend([0; 32]);
    }
    bytes
}

#[test]
fn tokens_go_through_the_experts_they_chose() {
    // Expert e has w1 = w3 = (e + 1) * identity and w2 = identity: y = silu((e + 1) x) * (e + 1) x.
    let diagonal =
        |by: i8| -> Vec<[i8; 16]> { (0..16).map(|i| core::array::from_fn(|j| if i == j { by } else { 0 })).collect() };
    let first: Vec<u8> = (1..=2).flat_map(|by| pack(&[diagonal(by), diagonal(by)].concat(), 1.0)).collect();
    let second: Vec<u8> = (1..=2).flat_map(|_| pack(&diagonal(2), 0.5)).collect();
    // The first token prefers expert 0, the second expert 1.
    let mut router = [0.0; 32];
    (router[0], router[16 + 1]) = (1.0, 1.0);
    let mut x = [0.0; 32];
    (x[0], x[16 + 1]) = (3.0, -1.0);
    x[16] = -2.0;
    let given = |function: &str| {
        args![
            floats(&[2, 16], &x),
            floats(&[2, 16], &router),
            floats(&[0], &[]),
            tensor::<u8>(&[2, first.len() / 2], &first),
            tensor::<u8>(&[2, second.len() / 2], &second),
            1,
            2,
            16,
            16,
            16,
            8,
            function,
            2.0,
            out::<f32>(&[2, 16]),
        ]
    };
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let mut expected = [0.0; 32];
    expected[0] = silu(3.0) * 3.0;
    // -1 against -2: expert 1.
    (expected[16], expected[17]) = (silu(-4.0) * -4.0, silu(-2.0) * -2.0);
    let name = "llama::quantized_moe_ffn.out";
    run_one(name, given("softmax")).assert_close(&[2, 16], &expected, 1e-5);
    // A single chosen score is normalised to one, then scaled.
    run_one(name, given("sigmoid")).assert_close(&[2, 16], &expected.map(|x| x * 2.0), 1e-5);
    let mut short = given("softmax");
    short[3] = tensor::<u8>(&[2, 64], &[0; 128]).into();
    assert!(run(name, short).unwrap_err().contains("bytes of 2 experts"));
}

#[test]
fn tiles_and_fallbacks_are_copies() {
    let tiles = run_one("preprocess::tile_crop.out", args![counting(&[1, 2, 4]), 2, out::<f32>(&[2, 1, 2, 2])]);
    assert_eq!(tiles, floats(&[2, 1, 2, 2], &[0., 1., 4., 5., 2., 3., 6., 7.]));
    assert!(run("preprocess::tile_crop.out", args![counting(&[1, 2, 4]), 3, out::<f32>(&[2, 1, 2, 2])]).is_err());
    let x = longs(&[2], &[5, -1]);
    assert_eq!(run_one("llama::fallback.out", args![x.clone(), out::<i64>(&[2])]), x);
}
