//! Convolutions against a twin that scatters.
use super::*;
use crate::testing::{Random, assert_close, pool};

/// Every input element times every tap, added where it lands (forward: found by search).
fn naive(conv: &Conv, layout: Layout, operands: Operands<'_>) -> Vec<f32> {
    let size = conv.output().unwrap();
    let place = |size: [usize; 3], channels: usize, image: usize, c: usize, [z, y, x]: [usize; 3]| match layout {
        Layout::ChannelsFirst => (((image * channels + c) * size[0] + z) * size[1] + y) * size[2] + x,
        Layout::ChannelsLast => (((image * size[0] + z) * size[1] + y) * size[2] + x) * channels + c,
    };
    let cells = |size: [usize; 3]| {
        (0..size.iter().product()).map(move |i: usize| [i / size[2] / size[1], i / size[2] % size[1], i % size[2]])
    };
    let (group_in, group_out) = (conv.group_in(), conv.group_out());
    let mut out = vec![0f64; conv.batch * conv.out_channels * size.iter().product::<usize>()];
    for (image, oc) in (0..conv.batch).flat_map(|b| (0..conv.out_channels).map(move |c| (b, c))) {
        for at in cells(size) {
            out[place(size, conv.out_channels, image, oc, at)] = operands.bias.map_or(0.0, |b| f64::from(b[oc]));
        }
        for ic in (0..conv.in_channels).filter(|ic| ic / group_in == oc / group_out) {
            for (from, tap) in cells(conv.input).flat_map(|from| cells(conv.kernel).map(move |tap| (from, tap))) {
                // Where this element lands under this tap.
                let mut at = [0; 3];
                let lands = (0..3).all(|d| {
                    let (i, t) = (from[d] as isize, (tap[d] * conv.dilation[d]) as isize);
                    let (stride, padding) = (conv.stride[d] as isize, conv.padding[d] as isize);
                    let o = if conv.transposed { i * stride + t - padding } else { i + padding - t };
                    let step = if conv.transposed { 1 } else { stride };
                    at[d] = (o / step) as usize;
                    o >= 0 && o % step == 0 && at[d] < size[d]
                });
                if lands {
                    let tap = (tap[0] * conv.kernel[1] + tap[1]) * conv.kernel[2] + tap[2];
                    let weight = match conv.transposed {
                        false => (oc * group_in + ic % group_in) * conv.taps() + tap,
                        true => (ic * group_out + oc % group_out) * conv.taps() + tap,
                    };
                    let x = operands.input[place(conv.input, conv.in_channels, image, ic, from)];
                    out[place(size, conv.out_channels, image, oc, at)] +=
                        f64::from(x) * f64::from(operands.weight[weight]);
                }
            }
        }
    }
    out.into_iter().map(|x| x as f32).collect()
}

fn check(random: &mut Random, geometry: &Conv) {
    let Some(size) = geometry.output() else { return };
    let (input, weight, _) = geometry.lengths();
    let (input, weight) = (random.floats(geometry.batch * input), random.floats(weight));
    let bias = random.floats(geometry.out_channels);
    let bias = (random.below(3) > 0).then_some(&bias[..]);
    let operands = Operands { input: &input, weight: &weight, bias };
    let pool = pool();
    for layout in [Layout::ChannelsFirst, Layout::ChannelsLast] {
        let expected = naive(geometry, layout, operands);
        for isa in Isa::available() {
            for par in [&Serial as &dyn Parallel, &pool] {
                let mut out = vec![f32::NAN; expected.len()];
                let mut scratch = vec![f32::NAN; conv_scratch(geometry, layout, par.width())];
                conv(isa, par, geometry, layout, operands, Epilogue::None, &mut out, &mut scratch);
                assert_close(&out, &expected, 1e-4, &(isa, layout, geometry, size));
                conv(isa, par, geometry, layout, operands, Epilogue::Relu, &mut out, &mut scratch);
                let positive: Vec<_> = expected.iter().map(|x| x.max(0.0)).collect();
                assert_close(&out, &positive, 1e-4, &(isa, layout, geometry, size));
            }
        }
        let mut out = vec![f32::NAN; expected.len()];
        generic::conv(Isa::detect(), &pool, geometry, layout, operands, &mut out);
        assert_close(&out, &expected, 1e-4, &("generic", layout, geometry));
    }
}

fn random_geometry(random: &mut Random, transposed: bool) -> Conv {
    let groups = [1, 1, 2, 3][random.below(4)];
    let flat = random.below(3);
    let mut axis =
        |limit: usize| -> [usize; 3] { core::array::from_fn(|d| if d < flat { 1 } else { 1 + random.below(limit) }) };
    let (input, kernel, stride, dilation) = (axis(9), axis(4), axis(3), axis(2));
    let padding = core::array::from_fn(|d| if d < flat { 0 } else { random.below(3) });
    let output_padding =
        core::array::from_fn(|d| if transposed && stride[d] > 1 { random.below(stride[d]) } else { 0 });
    Conv {
        batch: 1 + random.below(2),
        in_channels: groups * (1 + random.below(3)),
        input,
        out_channels: groups * (1 + random.below(7)),
        kernel,
        stride,
        padding,
        dilation,
        groups,
        output_padding,
        transposed,
    }
}

#[test]
fn forward_of_every_shape() {
    let mut random = Random::new(21);
    for _ in 0..250 {
        let geometry = random_geometry(&mut random, false);
        check(&mut random, &geometry);
    }
}

#[test]
fn transposed_of_every_shape() {
    let mut random = Random::new(22);
    for _ in 0..150 {
        let geometry = random_geometry(&mut random, true);
        check(&mut random, &geometry);
    }
}

/// A two-dimensional layer of a usual network.
pub(crate) fn layer(channels: (usize, usize), size: usize, kernel: usize, stride: usize, groups: usize) -> Conv {
    Conv {
        batch: 1,
        in_channels: channels.0,
        input: [1, size, size],
        out_channels: channels.1,
        kernel: [1, kernel, kernel],
        stride: [1, stride, stride],
        padding: [0, kernel / 2, kernel / 2],
        dilation: [1; 3],
        groups,
        output_padding: [0; 3],
        transposed: false,
    }
}

#[test]
fn layers_larger_than_a_block() {
    let mut random = Random::new(23);
    for geometry in [
        layer((40, 30), 17, 3, 1, 1),
        layer((3, 16), 40, 7, 2, 1),
        layer((64, 20), 12, 1, 1, 1),
        layer((48, 48), 20, 3, 1, 48),
        layer((48, 48), 21, 5, 2, 48),
        layer((16, 64), 9, 3, 1, 16),
    ] {
        check(&mut random, &geometry);
    }
}
