//! The patches of a deformable convolution: every tap of every window reads beside its place, as far as an offset says, and
//! what it reads may be weighted.
use crate::element::Compute;
use crate::map::worth;
use crate::math::Math;
use crate::split;
use sconce_parallel::Parallel;

/// The geometry; sizes are given as height, width.
#[derive(Clone, Copy, Debug)]
pub struct Deform {
    /// Images.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Size of an image.
    pub input: [usize; 2],
    /// Windows.
    pub output: [usize; 2],
    /// Taps of a window.
    pub kernel: [usize; 2],
    /// Pixels from window to window.
    pub stride: [usize; 2],
    /// Rows and columns around the image.
    pub padding: [usize; 2],
    /// Pixels from tap to tap.
    pub dilation: [usize; 2],
    /// Groups of channels with offsets of their own.
    pub groups: usize,
}

/// What the windows read, `[batch, channels, taps, windows]`. `offsets` is `[batch, groups, taps, 2, windows]` with the rows
/// before the columns, `weights` is `[batch, groups, taps, windows]`.
pub fn columns<C: Compute>(
    par: &dyn Parallel,
    deform: &Deform,
    x: &[C],
    offsets: &[C],
    weights: Option<&[C]>,
    out: &mut [C],
) {
    let Deform { batch, channels, groups, input, .. } = *deform;
    let (pixels, windows) = (input[0] * input[1], deform.output[0] * deform.output[1]);
    let taps = deform.kernel[0] * deform.kernel[1];
    assert_eq!(x.len(), batch * channels * pixels, "input elements of {deform:?}");
    assert_eq!(offsets.len(), batch * groups * taps * 2 * windows, "offsets of {deform:?}");
    assert!(weights.is_none_or(|own| own.len() == batch * groups * taps * windows), "weights of {deform:?}");
    assert_eq!(out.len(), batch * channels * taps * windows, "output elements of {deform:?}");
    split::chunks(worth(par, out.len()), out, windows, |row, out| {
        let (tap, plane) = (row % taps, row / taps);
        let (image, channel) = (plane / channels, plane % channels);
        let own = (image * groups + channel * groups / channels) * taps + tap;
        let (down, right) = offsets[own * 2 * windows..][..2 * windows].split_at(windows);
        let weights = weights.map(|weights| &weights[own * windows..][..windows]);
        let x = &x[plane * pixels..][..pixels];
        let tap = [tap / deform.kernel[1], tap % deform.kernel[1]];
        let place = |axis: usize, window: usize| {
            let at = window * deform.stride[axis] + tap[axis] * deform.dilation[axis];
            C::from_i64(at as i64 - deform.padding[axis] as i64)
        };
        for (window, out) in out.iter_mut().enumerate() {
            let (i, j) = (window / deform.output[1], window % deform.output[1]);
            let value = between(x, input, [place(0, i) + down[window], place(1, j) + right[window]]);
            *out = weights.map_or(value, |weights| weights[window] * value);
        }
    });
}

/// A value between pixels; outside of the image there are zeros.
fn between<C: Compute>(x: &[C], [height, width]: [usize; 2], [row, column]: [C; 2]) -> C {
    let inside = |at: C, size: usize| at > -C::ONE && at < C::from_i64(size as i64);
    if !(inside(row, height) && inside(column, width)) {
        return C::ZERO;
    }
    let sides = |at: C| {
        let low = Math::floor(at);
        let share = at - low;
        [(low.to_i64(), C::ONE - share), (low.to_i64() + 1, share)]
    };
    let pixel = |row: i64, column: i64| {
        let at = |place: i64, size: usize| usize::try_from(place).ok().filter(|&place| place < size);
        at(row, height).zip(at(column, width)).map_or(C::ZERO, |(row, column)| x[row * width + column])
    };
    let [[a, b], [c, d]] = sides(row).map(|(y, deep)| sides(column).map(|(x, wide)| deep * wide * pixel(y, x)));
    a + b + c + d
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, assert_close, pool};

    /// Each tap as a sum over all pixels, whose weights fall to zero over one pixel.
    fn naive(deform: &Deform, x: &[f32], offsets: &[f32], weights: Option<&[f32]>) -> Vec<f32> {
        let [height, width] = deform.input;
        let (windows, taps) = (deform.output[0] * deform.output[1], deform.kernel[0] * deform.kernel[1]);
        let mut out = Vec::new();
        for (image, channel) in (0..deform.batch).flat_map(|image| (0..deform.channels).map(move |own| (image, own))) {
            let group = image * deform.groups + channel / (deform.channels / deform.groups);
            let plane = &x[(image * deform.channels + channel) * height * width..][..height * width];
            for (tap, window) in (0..taps).flat_map(|tap| (0..windows).map(move |window| (tap, window))) {
                let own = group * taps + tap;
                let (i, j) = (window / deform.output[1], window % deform.output[1]);
                let (a, b) = (tap / deform.kernel[1], tap % deform.kernel[1]);
                let at = |axis: usize, window: usize, tap: usize| {
                    (window * deform.stride[axis] + tap * deform.dilation[axis]) as f32 - deform.padding[axis] as f32
                };
                let y = at(0, i, a) + offsets[own * 2 * windows + window];
                let x = at(1, j, b) + offsets[(own * 2 + 1) * windows + window];
                let weight = |at: f32, pixel: usize| (1.0 - (at - pixel as f32).abs()).max(0.0);
                let sum: f32 = plane
                    .iter()
                    .enumerate()
                    .map(|(at, value)| value * weight(y, at / width) * weight(x, at % width))
                    .sum();
                out.push(sum * weights.map_or(1.0, |weights| weights[own * windows + window]));
            }
        }
        out
    }

    #[test]
    fn every_tap_reads_beside_its_place() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut up_to = |most: usize| 1 + random.below(most);
            let groups = up_to(2);
            let deform = Deform {
                batch: up_to(2),
                channels: groups * up_to(2),
                input: [up_to(5), up_to(6)],
                output: [up_to(4), up_to(4)],
                kernel: [up_to(3), up_to(2)],
                stride: [up_to(2), up_to(2)],
                padding: [up_to(2) - 1, up_to(2) - 1],
                dilation: [up_to(2), up_to(2)],
                groups,
            };
            let places = deform.batch * groups * deform.kernel.iter().chain(&deform.output).product::<usize>();
            let x = random.floats(deform.batch * deform.channels * deform.input[0] * deform.input[1]);
            let offsets: Vec<f32> = random.floats(places * 2).iter().map(|offset| offset * 3.0).collect();
            let own = random.floats(places);
            let weights = (seed % 2 == 0).then_some(&own[..]);
            let mut out = vec![9.0; places / groups * deform.channels];
            columns(&pool(), &deform, &x, &offsets, weights, &mut out);
            assert_close(&out, &naive(&deform, &x, &offsets, weights), 1e-5, &deform);
        }
    }
}
