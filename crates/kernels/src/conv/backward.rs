//! The gradients of a convolution, one product after the other.
use super::Conv;
use crate::element::Float;

/// What a gradient is computed for; absent ones are not.
#[derive(Debug)]
pub struct Gradients<'a, C> {
    /// Of the input.
    pub input: Option<&'a mut [C]>,
    /// Of the weight.
    pub weight: Option<&'a mut [C]>,
    /// Of the bias.
    pub bias: Option<&'a mut [C]>,
}

/// Adds to the gradients what follows from the `output` gradients; images are channels first.
pub fn conv_backward<T: Float>(
    conv: &Conv,
    input: &[T],
    weight: &[T],
    output: &[T],
    gradients: Gradients<'_, T::Compute>,
) {
    let Gradients { input: mut to_input, weight: mut to_weight, bias: to_bias } = gradients;
    conv.check(input.len(), weight.len(), to_bias.as_ref().map(|bias| bias.len()), output.len());
    assert!(to_input.as_ref().is_none_or(|to| to.len() == input.len()), "a gradient per input element");
    assert!(to_weight.as_ref().is_none_or(|to| to.len() == weight.len()), "a gradient per weight element");
    let size = conv.output().unwrap_or_default();
    let (pixels, taps) = (size.iter().product::<usize>(), conv.taps());
    if let Some(to_bias) = to_bias {
        for (plane, output) in output.chunks_exact(pixels.max(1)).enumerate() {
            output.iter().for_each(|gradient| to_bias[plane % conv.out_channels] += gradient.widen());
        }
    }
    let (inputs, outputs) = (conv.group_in(), conv.group_out());
    let (axes, [_, tall, wide]) = (conv.axes(), conv.kernel);
    for (index, gradient) in output.iter().enumerate() {
        let (image, channel, pixel) =
            (index / pixels / conv.out_channels, index / pixels % conv.out_channels, index % pixels);
        let gradient = gradient.widen();
        for tap in 0..taps {
            let z = axes[0].source(pixel / size[2] / size[1], tap / wide / tall);
            let y = axes[1].source(pixel / size[2] % size[1], tap / wide % tall);
            let x = axes[2].source(pixel % size[2], tap % wide);
            let (Some(z), Some(y), Some(x)) = (z, y, x) else { continue };
            let source = (z * conv.input[1] + y) * conv.input[2] + x;
            for ic in 0..inputs {
                let from = channel / outputs * inputs + ic;
                let at = (image * conv.in_channels + from) * conv.input.iter().product::<usize>() + source;
                let by = match conv.transposed {
                    false => (channel * inputs + ic) * taps + tap,
                    true => (from * outputs + channel % outputs) * taps + tap,
                };
                if let Some(to_input) = &mut to_input {
                    to_input[at] += weight[by].widen() * gradient;
                }
                if let Some(to_weight) = &mut to_weight {
                    to_weight[by] += input[at].widen() * gradient;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::{Layout, Operands, generic};
    use crate::testing::{Random, assert_close};
    use crate::{Isa, Serial};

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// A convolution is linear in its input and in its weight, so that `<gradient, conv(x, w)>` is both
    /// `<input gradient, x>` and `<weight gradient, w>`, whatever other `x` or `w` is put in.
    #[test]
    fn gradients_are_adjoint() {
        let mut random = Random::new(61);
        for (groups, transposed, stride) in [(1, false, 1), (2, false, 2), (1, true, 2), (2, true, 1)] {
            let conv = Conv {
                batch: 2,
                in_channels: 4,
                input: [2, 4, 5],
                out_channels: 6,
                kernel: [1, 2, 3],
                stride: [1, stride, 2],
                padding: [0, 1, 1],
                dilation: [1, 1, 2],
                groups,
                output_padding: [0; 3],
                transposed,
            };
            let (input, weight, output) = conv.lengths();
            let (x, w, gradient) = (random.floats(2 * input), random.floats(weight), random.floats(2 * output));
            let (other_x, other_w) = (random.floats(x.len()), random.floats(w.len()));
            let (mut to_input, mut to_weight, mut to_bias) = (vec![0.0; x.len()], vec![0.0; w.len()], vec![0.0; 6]);
            let to = Gradients { input: Some(&mut to_input), weight: Some(&mut to_weight), bias: Some(&mut to_bias) };
            conv_backward(&conv, &x, &w, &gradient, to);
            let forward = |input: &[f32], weight: &[f32]| {
                let mut out = vec![0.0; gradient.len()];
                let operands = Operands { input, weight, bias: None };
                generic::conv(Isa::detect(), &Serial, &conv, Layout::ChannelsFirst, operands, &mut out);
                dot(&gradient, &out)
            };
            let have = [dot(&to_input, &other_x), dot(&to_weight, &other_w), to_bias.iter().sum()];
            let want = [forward(&other_x, &w), forward(&x, &other_w), gradient.iter().sum()];
            assert_close(&have, &want, 1e-3, &conv);
        }
    }
}
