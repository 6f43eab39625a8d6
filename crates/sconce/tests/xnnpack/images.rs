//! Pools, means and other sizes of images.

use super::naive::windows;
use super::program::{Array, KINDS, Kind, Payload, check};
use sconce::format::xnnpack::model::{ArgMaxPooling, Operation, Pooling, Resizing, Unary};

/// Keeps the dimensions that are reduced.
const KEEP: u32 = 0x40;

/// Sizes of an image, window, steps, padding (top, right, bottom, left) and distance of taps.
type Row = ([usize; 4], [u32; 2], [u32; 2], [u32; 4], [u32; 2]);

const WINDOWS: [Row; 4] = [
    ([1, 7, 8, 5], [3, 3], [2, 2], [1, 1, 1, 1], [1, 1]),
    ([2, 9, 9, 17], [2, 3], [1, 2], [0, 1, 1, 0], [1, 1]),
    ([1, 9, 9, 33], [3, 3], [1, 1], [2, 3, 2, 1], [2, 2]),
    ([1, 5, 5, 4], [3, 3], [2, 2], [0, 2, 2, 0], [1, 1]),
];

fn pooling((_, window, step, padding, apart): Row) -> Pooling {
    let ([pooling_height, pooling_width], [stride_height, stride_width]) = (window, step);
    let [padding_top, padding_right, padding_bottom, padding_left] = padding;
    let [dilation_height, dilation_width] = apart;
    Pooling {
        padding_top,
        padding_right,
        padding_bottom,
        padding_left,
        pooling_height,
        pooling_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        input_id: 0,
        output_id: 1,
        flags: KEEP,
    }
}

fn largest(window: &[(usize, f64)]) -> f64 {
    window.iter().map(|tap| tap.1).fold(f64::NEG_INFINITY, f64::max)
}

fn mean(window: &[(usize, f64)]) -> f64 {
    window.iter().map(|tap| tap.1).sum::<f64>() / window.len() as f64
}

/// What is made of a window.
type Of = fn(&[(usize, f64)]) -> f64;

/// Means count what is inside the image only.
#[test]
fn pools() {
    for row in WINDOWS {
        for kind in KINDS {
            let limits = (kind == Kind::Fp32).then_some((-1.0, 0.5));
            let run = |operation: Operation, of: Of, exact: bool| {
                let mut payload = Payload::default();
                let (_, image) = payload.input(kind, &row.0, -4.0..4.0);
                let mut expected = windows(&image, &pooling(row), of);
                payload.output(kind, &expected.sizes);
                let what = operation.name();
                payload.node(operation, limits);
                if let Some((low, high)) = limits {
                    expected = expected.map(|x| x.clamp(f64::from(low), f64::from(high)));
                }
                check(&format!("{what} {row:?}"), kind, &payload.run()[0], &expected, exact);
            };
            run(Operation::MaxPooling2d(pooling(row)), largest, true);
            if row.4 == [1, 1] {
                run(Operation::AvgPooling2d(pooling(row)), mean, false);
            }
        }
    }
}

/// The first of the largest counts. Indices are words, or wider where the program wants them so.
#[test]
fn largest_elements_and_their_places() {
    for kind in [Kind::Fp32, Kind::Fp16, Kind::Bf16] {
        for index in [Kind::Int32, Kind::Int64] {
            for padding in [[0, 0, 0, 0], [1, 0, 1, 0]] {
                let row = ([2, 6, 9, 5], [2, 3], [2, 3], padding, [1, 1]);
                let mut payload = Payload::default();
                let (input_id, image) = payload.input(kind, &row.0, -4.0..4.0);
                let values = windows(&image, &pooling(row), largest);
                let places = windows(&image, &pooling(row), |window| {
                    window.iter().find(|tap| tap.1 == largest(window)).map_or(0.0, |tap| tap.0 as f64)
                });
                let output_value_id = payload.output(kind, &values.sizes);
                let output_index_id = payload.output(index, &places.sizes);
                let [padding_top, padding_right, padding_bottom, padding_left] = padding;
                let node = ArgMaxPooling {
                    padding_top,
                    padding_right,
                    padding_bottom,
                    padding_left,
                    pooling_height: 2,
                    pooling_width: 3,
                    input_id,
                    output_value_id,
                    output_index_id,
                    flags: 0,
                };
                payload.node(Operation::ArgMaxPooling2d(node), None);
                let found = payload.run();
                check("largest", kind, &found[0], &values, true);
                check("their places", index, &found[1], &places, true);
            }
        }
    }
}

#[test]
fn means_of_whole_images() {
    for kind in KINDS {
        for flags in [0, KEEP] {
            let mut payload = Payload::default();
            let (input_id, image) = payload.input(kind, &[2, 5, 7, 35], -4.0..4.0);
            let to = kind.with(0.005, -10);
            let sizes: &[usize] = if flags == KEEP { &[2, 1, 1, 35] } else { &[2, 35] };
            let output_id = payload.output(to, sizes);
            payload.node(Operation::GlobalAvgPooling2d(Unary { input_id, output_id, flags }), None);
            let expected = Array::new(sizes, |place| {
                let pixel = |i: usize| image.numbers[(place / 35 * 35 + i) * 35 + place % 35];
                (0..35).map(pixel).sum::<f64>() / 35.0
            });
            check("mean", to, &payload.run()[0], &expected, false);
        }
    }
}

/// Where a row of the result lies in the image: two neighbours and how far it is to the second.
fn between(at: usize, to: usize, from: usize, corners: bool) -> (usize, usize, f64) {
    let place = match corners {
        true if to == 1 => 0.0,
        true => at as f64 * (from - 1) as f64 / (to - 1) as f64,
        false => ((at as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0),
    };
    let first = (place.floor() as usize).min(from - 1);
    (first, (first + 1).min(from - 1), place - first as f64)
}

#[test]
fn images_in_other_sizes() {
    for kind in KINDS {
        for (height, width) in [(9, 3), (1, 1), (10, 14), (5, 7)] {
            for flags in [0, 8] {
                let mut payload = Payload::default();
                let (input_id, image) = payload.input(kind, &[2, 5, 7, 3], -4.0..4.0);
                let sizes = [2, height, width, 3];
                let output_id = payload.output(kind, &sizes);
                let (new_height, new_width) = (height as u32, width as u32);
                let resize = Resizing { new_height, new_width, input_id, output_id, flags };
                payload.node(Operation::StaticResizeBilinear2D(resize), None);
                let whole = Array::new(&sizes, |_| 0.0);
                let expected = Array::new(&sizes, |place| {
                    let &[b, y, x, c] = &whole.indices(place)[..] else { return 0.0 };
                    let (top, bottom, down) = between(y, height, 5, flags == 8);
                    let (left, right, along) = between(x, width, 7, flags == 8);
                    let row = |y| image.at(&[b, y, left, c]) * (1.0 - along) + image.at(&[b, y, right, c]) * along;
                    row(top) * (1.0 - down) + row(bottom) * down
                });
                check(&format!("{sizes:?}, flags {flags}"), kind, &payload.run()[0], &expected, false);
            }
        }
    }
}
