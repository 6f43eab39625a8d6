//! Images of bytes, as PyTorch resizes them: along the rows, then down the columns, each time a sum with whole weights that
//! is rounded to a byte. Weights have as many bits behind the point as leave the largest below `2^15`. A dimension that
//! keeps its size is left as it is.
use super::{ABSENT, Axis, Filter, Resize};
use crate::map::worth;
use crate::split;
use sconce_parallel::Parallel;

/// Scratch: each of the first three has [`Resize::table_len`] elements, the last [`Resize::middle_len`].
pub struct Room<'a> {
    /// Input positions.
    pub indices: &'a mut [u32],
    /// Their weights.
    pub weights: &'a mut [f64],
    /// The same as whole numbers.
    pub whole: &'a mut [i16],
    /// The image between the two steps.
    pub middle: &'a mut [u8],
}

/// The taps of one axis.
struct Taps<'a> {
    count: usize,
    indices: &'a [u32],
    whole: &'a [i16],
    bits: u32,
}

impl<'a> Taps<'a> {
    /// Fills the front of the tables and takes it away.
    fn take(axis: &Axis, filter: Filter, room: &mut Room<'a>) -> Self {
        let count = axis.taps(filter);
        let len = count * axis.output;
        let indices = room.indices.split_off_mut(..len).expect("indices of all taps");
        let weights = room.weights.split_off_mut(..len).expect("weights of all taps");
        let whole = room.whole.split_off_mut(..len).expect("whole weights of all taps");
        for (at, (indices, weights)) in indices.chunks_mut(count).zip(weights.chunks_mut(count)).enumerate() {
            axis.fill::<f64>(filter, at, indices, weights);
            gather(indices, weights);
        }
        let largest = weights.iter().fold(0.0, |largest: f64, &weight| largest.max(weight));
        let below = |bits: &u32| (largest * f64::from(1u32 << bits) + 0.5) < f64::from(1u32 << 15);
        let bits = (1..=22).take_while(below).last().unwrap_or(1);
        for (whole, &weight) in whole.iter_mut().zip(&*weights) {
            *whole = (weight * f64::from(1u32 << bits) + if weight < 0.0 { -0.5 } else { 0.5 }) as i16;
        }
        Self { count, indices, whole, bits }
    }

    /// The byte at an output position, given that at each input position.
    #[inline(always)]
    fn sum(&self, position: usize, input: impl Fn(usize) -> u8) -> u8 {
        let range = position * self.count..(position + 1) * self.count;
        let present = self.indices[range.clone()].iter().take_while(|&&index| index != ABSENT);
        let product = |(&index, &weight): (&u32, &i16)| i32::from(weight) * i32::from(input(index as usize));
        let sum: i32 = present.zip(&self.whole[range]).map(product).sum();
        ((sum + (1 << (self.bits - 1))) >> self.bits).clamp(0, 255) as u8
    }
}

/// Adds the weights of taps at one position, which are neighbours, to the first of them; unused ones are zeros.
fn gather(indices: &[u32], weights: &mut [f64]) {
    let mut first = 0;
    for at in 0..indices.len() {
        if indices[at] == ABSENT {
            weights[at] = 0.0;
        } else if at > 0 && indices[at] == indices[first] {
            weights[first] += core::mem::take(&mut weights[at]);
        } else {
            first = at;
        }
    }
}

impl Resize {
    /// Bytes of the image after the first step.
    pub fn middle_len(&self) -> usize {
        let [_, height, width] = self.axes;
        [self.planes, height.input, width.output, self.inner].into_iter().fold(1, usize::saturating_mul)
    }
}

/// Every output byte is a weighted sum of input bytes, of images with two dimensions.
pub fn resample(par: &dyn Parallel, resize: &Resize, filter: Filter, x: &[u8], mut room: Room<'_>, out: &mut [u8]) {
    resize.check(x.len(), (out.len(), resize.inner));
    let ([depth, height, width], inner) = (resize.axes, resize.inner);
    assert!(depth.input == 1 && depth.output == 1, "{resize:?} has a depth");
    if out.is_empty() {
        return;
    }
    let middle = core::mem::take(&mut room.middle);
    let (rows, columns) = (Taps::take(&height, filter, &mut room), Taps::take(&width, filter, &mut room));
    let along = |from: &[u8], to: &mut [u8]| {
        split::chunks(worth(par, to.len()), to, width.output * inner, |row, to| {
            let from = &from[row * width.input * inner..][..width.input * inner];
            for (at, to) in to.iter_mut().enumerate() {
                *to = columns.sum(at / inner, |index| from[index * inner + at % inner]);
            }
        });
    };
    let down = |from: &[u8], to: &mut [u8]| {
        let len = width.output * inner;
        split::chunks(worth(par, to.len()), to, len, |row, to| {
            let from = &from[row / height.output * height.input * len..][..height.input * len];
            for (at, to) in to.iter_mut().enumerate() {
                *to = rows.sum(row % height.output, |index| from[index * len + at]);
            }
        });
    };
    match (width.input == width.output, height.input == height.output) {
        (true, true) => out.copy_from_slice(x),
        (true, false) => down(x, out),
        (false, true) => along(x, out),
        (false, false) => {
            let middle = &mut middle[..resize.middle_len()];
            along(x, middle);
            down(middle, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, pool};

    fn resized(resize: &Resize, filter: Filter, x: &[u8]) -> Vec<u8> {
        let entries = resize.table_len(filter);
        let (mut indices, mut weights, mut whole) = (vec![0; entries], vec![0.0; entries], vec![0; entries]);
        let mut middle = vec![0; resize.middle_len()];
        let room = Room { indices: &mut indices, weights: &mut weights, whole: &mut whole, middle: &mut middle };
        let count = resize.axes.iter().map(|axis| axis.output).product::<usize>();
        let mut out = vec![0; count * resize.planes * resize.inner];
        resample(&pool(), resize, filter, x, room, &mut out);
        out
    }

    /// Cubic, antialiased, and the bytes of two rows of five pixels.
    const GOLDEN: [(bool, bool, [u8; 10]); 4] = [
        (false, false, [23, 39, 58, 76, 92, 161, 177, 196, 214, 230]),
        (false, true, [35, 51, 70, 88, 104, 150, 166, 185, 203, 219]),
        (true, false, [17, 32, 53, 73, 88, 165, 180, 201, 221, 236]),
        (true, true, [28, 44, 64, 83, 99, 154, 170, 190, 209, 225]),
    ];

    /// Bytes that PyTorch gives (`F.interpolate` of `torch.arange(12, dtype=torch.uint8).reshape(1, 1, 3, 4) * 23`).
    #[test]
    fn bytes_of_pytorch() {
        let x: Vec<u8> = (0..12).map(|i| i * 23).collect();
        let axis = |input, output| Axis { input, output, align_corners: false, factor: None };
        let resize = Resize { planes: 1, axes: [Axis::NONE, axis(3, 2), axis(4, 5)], inner: 1 };
        for (cubic, antialias, expected) in GOLDEN {
            assert_eq!(resized(&resize, Filter { cubic, antialias }, &x), expected, "cubic: {cubic}, {antialias}");
        }
    }

    /// A sum in floating point, rounded once for each step, is not farther away than one.
    #[test]
    fn near_plain_sums() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let mut axis = || Axis {
                input: 1 + random.below(12),
                output: 1 + random.below(12),
                align_corners: seed % 3 == 0,
                factor: None,
            };
            let (axes, filter) =
                ([Axis::NONE, axis(), axis()], Filter { cubic: seed % 2 == 1, antialias: seed % 4 > 1 });
            let resize = Resize { planes: 2, axes, inner: 1 + random.below(3) };
            let count = resize.axes.iter().map(|axis| axis.input).product::<usize>() * 2 * resize.inner;
            let x: Vec<u8> = (0..count).map(|_| random.below(256) as u8).collect();
            let one = |axes: [Axis; 3], x: &[u8]| {
                let resize = Resize { axes, ..resize };
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                let entries = resize.table_len(filter);
                let count = resize.axes.iter().map(|axis| axis.output).product::<usize>() * 2 * resize.inner;
                let (mut out, mut table) = (vec![0.0; count], (vec![0; entries], vec![0.0; entries]));
                let (isa, table) = (crate::Isa::detect(), (&mut table.0[..], &mut table.1[..]));
                super::super::resample(isa, &pool(), &resize, filter, &wide, table, &mut out);
                out.iter().map(|x| (x + 0.5).clamp(0.0, 255.0) as u8).collect::<Vec<u8>>()
            };
            let [_, height, width] = axes;
            let same = |axis: Axis| Axis { output: axis.input, align_corners: false, ..axis };
            let done = |axis: Axis| Axis { input: axis.output, ..same(axis) };
            let done = |axis: Axis| Axis { output: axis.output, ..done(axis) };
            let row = if width.input == width.output { x.clone() } else { one([Axis::NONE, same(height), width], &x) };
            let all = if height.input == height.output { row } else { one([Axis::NONE, height, done(width)], &row) };
            let near = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 1;
            let out = resized(&resize, filter, &x);
            assert!(out.len() == all.len() && out.iter().zip(&all).all(near), "{resize:?} {filter:?}");
        }
    }
}
