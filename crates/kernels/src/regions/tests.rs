use super::*;
use crate::testing::{Random, assert_close, pool};
use sconce_parallel::Serial;

/// Geometries, with boxes that lie across the image's borders, inside out, and outside.
fn cases() -> impl Iterator<Item = (Regions, Vec<f32>, Vec<f32>)> {
    (0..60).map(|seed| {
        let mut random = Random::new(seed);
        let mut up_to = |most: usize| 1 + random.below(most);
        let (batch, input, bins) = (up_to(3), [up_to(9), up_to(9)], [up_to(3), up_to(4)]);
        let (channels, count) = (up_to(2) * bins[0] * bins[1], up_to(5));
        let regions = Regions { batch, channels, input, bins, scale: [1.0, 0.5, 0.3][seed as usize % 3] };
        let x = random.floats(batch * channels * input[0] * input[1]);
        let boxes = (0..count).flat_map(|_| {
            let mut own: Vec<f32> = random.floats(BOX).into_iter().map(|side| side * 24.0).collect();
            own[0] = random.below(batch) as f32;
            own
        });
        let boxes = boxes.collect();
        (regions, x, boxes)
    })
}

/// The plane that a bin of a channel reads, with what else tells where its pixels are.
fn planes<'a>(regions: &Regions, x: &'a [f32], own: &[f32], scattered: bool) -> Vec<(usize, &'a [f32])> {
    let (bins, plane) = (regions.bins(), regions.input[0] * regions.input[1]);
    let image = own[0] as usize * regions.channels;
    let all = (0..regions.outputs(scattered)).flat_map(|channel| (0..bins).map(move |bin| (channel, bin)));
    all.map(|(channel, bin)| {
        let from = image + if scattered { channel * bins + bin } else { channel };
        (bin, &x[from * plane..][..plane])
    })
    .collect()
}

/// A value between pixels: weights fall to zero over one pixel, and the border goes on for one pixel outside.
fn between(plane: &[f32], [height, width]: [usize; 2], y: f64, x: f64) -> f64 {
    if !(-1.0..=height as f64).contains(&y) || !(-1.0..=width as f64).contains(&x) {
        return 0.0;
    }
    let (y, x) = (y.clamp(0.0, height as f64 - 1.0), x.clamp(0.0, width as f64 - 1.0));
    let weight = |at: f64, pixel: usize| (1.0 - (at - pixel as f64).abs()).max(0.0);
    let all = plane.iter().enumerate();
    all.map(|(at, &value)| f64::from(value) * weight(y, at / width) * weight(x, at % width)).sum()
}

fn naive_align(regions: &Regions, points: Points, x: &[f32], boxes: &[f32]) -> Vec<f32> {
    let mut out = Vec::new();
    for own in boxes.chunks(BOX) {
        for (bin, plane) in planes(regions, x, own, points.scattered) {
            let axis = |side: usize, bins: usize| {
                let place = |side: usize| f64::from(own[side]) * regions.scale - if points.aligned { 0.5 } else { 0.0 };
                let length = place(side + 2) - place(side);
                let share = if points.aligned { length } else { length.max(1.0) } / bins as f64;
                (place(side), share, points.ratio.unwrap_or(share.ceil().max(0.0) as usize))
            };
            let (top, tall, rows) = axis(2, regions.bins[0]);
            let (left, wide, columns) = axis(1, regions.bins[1]);
            let (i, j) = ((bin / regions.bins[1]) as f64, (bin % regions.bins[1]) as f64);
            let mut sum = 0.0;
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let y = top + (i + (row as f64 + 0.5) / rows as f64) * tall;
                let x = left + (j + (column as f64 + 0.5) / columns as f64) * wide;
                sum += between(plane, regions.input, y, x);
            }
            let count = rows * columns;
            out.push((sum / if points.scattered { count } else { count.max(1) } as f64) as f32);
        }
    }
    out
}

#[test]
fn aligned_means() {
    for (number, (regions, x, boxes)) in cases().enumerate() {
        let ratio = [None, Some(1), Some(3)][number % 3];
        for (aligned, scattered) in [(false, false), (true, false), (true, true)] {
            // Of scattered bins without points the mean is no number.
            let points = Points { ratio: ratio.or(scattered.then_some(2)), aligned, scattered };
            let mut out = vec![9.0; boxes.len() / BOX * regions.outputs(scattered) * regions.bins()];
            align(&pool(), &regions, points, &x, &boxes, &mut out);
            // A point that rounds to the other side of the image's edge is nothing instead of the edge.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-3;
            let expected = naive_align(&regions, points, &x, &boxes);
            let far = out.iter().zip(&expected).filter(|&pair| !near(pair)).count();
            assert!(far * 50 <= out.len(), "{far} of {} differ for {regions:?} {points:?}", out.len());
        }
    }
}

fn naive_pixels(regions: &Regions, own: &[f32], bin: usize, last: f32, lost: usize) -> Vec<usize> {
    let bounds = |side: usize, bins: usize, bin: usize| {
        let place = |side: usize| (own[side] * regions.scale as f32).round();
        let share = (place(side + 2) - place(side) + last).max(1.0) / bins as f32;
        let start = place(side);
        start + (bin as f32 * share).floor()..start + ((bin + 1) as f32 * share).ceil()
    };
    let rows = bounds(2, regions.bins[0], bin / regions.bins[1]);
    let columns = bounds(1, regions.bins[1], bin % regions.bins[1]);
    let [height, width] = regions.input;
    let inside = |at: &usize| {
        let (y, x) = (at / width, at % width);
        y + lost < height && x + lost < width && rows.contains(&(y as f32)) && columns.contains(&(x as f32))
    };
    (0..height * width).filter(inside).collect()
}

#[test]
fn largest_and_mean_of_pixels() {
    for (regions, x, boxes) in cases() {
        let count = boxes.len() / BOX * regions.bins();
        let (mut values, mut places) = (vec![9.0; count * regions.channels], vec![9; count * regions.channels]);
        largest(&pool(), &regions, &x, &boxes, &mut values, &mut places);
        let mut sums = vec![9.0; count * regions.outputs(true)];
        mean(&pool(), &regions, &x, &boxes, &mut sums);
        let (mut best, mut means) = (Vec::new(), Vec::new());
        for own in boxes.chunks(BOX) {
            for (bin, plane) in planes(&regions, &x, own, false) {
                let pixels = naive_pixels(&regions, own, bin, 1.0, 0);
                let better = |best: Option<usize>, at: usize| match best {
                    Some(best) if plane[best] >= plane[at] => Some(best),
                    _ => Some(at),
                };
                let found = pixels.into_iter().fold(None, better);
                best.push(found.map_or((0.0, -1), |at| (plane[at], at as i32)));
            }
            for (bin, plane) in planes(&regions, &x, own, true) {
                let pixels = naive_pixels(&regions, own, bin, 0.0, 1);
                let sum: f32 = pixels.iter().map(|&at| plane[at]).sum();
                means.push(if pixels.is_empty() { 0.0 } else { sum / pixels.len() as f32 });
            }
        }
        let found: Vec<(f32, i32)> = values.into_iter().zip(places).collect();
        assert_eq!(found, best, "{regions:?}");
        assert_close(&sums, &means, 1e-5, &regions);
    }
}

#[test]
fn boxes_of_any_numbers_end() {
    let regions = Regions { batch: 1, channels: 1, input: [3, 4], bins: [1, 1], scale: 1.0 };
    let odd = [0.0, -1.0, 1e38, -1e38, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e9, 3.0];
    let mut random = Random::new(7);
    let boxes: Vec<f32> = (0..BOX * 400).map(|_| odd[random.below(odd.len())]).collect();
    let x = random.floats(12);
    for (aligned, scattered) in [(false, false), (true, false), (true, true)] {
        let points = Points { ratio: None, aligned, scattered };
        align(&Serial, &regions, points, &x, &boxes, &mut [0.0; 400]);
    }
    largest(&Serial, &regions, &x, &boxes, &mut [0.0; 400], &mut [0; 400]);
    mean(&Serial, &regions, &x, &boxes, &mut [0.0; 400]);
}
