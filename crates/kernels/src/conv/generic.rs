//! Convolution of every other kind of number: one output element after the other.
//!
//! Floats add up in their compute type, integers wrap in their own.
use super::{Conv, Layout, Operands};
use crate::element::{Number, convert};
use crate::gemm::generic::Product;
use crate::isa::Isa;
use crate::split;
use sconce_parallel::Parallel;

/// Convolves images of any kind of number and adds the bias.
pub fn conv<T: Product>(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv,
    layout: Layout,
    operands: Operands<'_, T>,
    out: &mut [T],
) {
    conv.check(operands.input.len(), operands.weight.len(), operands.bias.map(<[T]>::len), out.len());
    let size = conv.output().unwrap_or_default();
    let pixels: usize = size.iter().product();
    if out.is_empty() {
        return;
    }
    split::chunks(par, out, size[2], |chunk, out| {
        isa.vectorize(
            #[inline(always)]
            || {
                for (i, out) in out.iter_mut().enumerate() {
                    let index = chunk * size[2] + i;
                    let (image, channel, pixel) = match layout {
                        Layout::ChannelsFirst => {
                            (index / pixels / conv.out_channels, index / pixels % conv.out_channels, index % pixels)
                        }
                        Layout::ChannelsLast => {
                            let pixel = index / conv.out_channels;
                            (pixel / pixels, index % conv.out_channels, pixel % pixels)
                        }
                    };
                    let position = [pixel / size[2] / size[1], pixel / size[2] % size[1], pixel % size[2]];
                    let bias = operands.bias.map_or(T::Acc::ZERO, |bias| convert(bias[channel]));
                    *out = convert(bias.plus(element(conv, layout, &operands, image, channel, position)));
                }
            },
        );
    });
}

/// The sum over taps and input channels for one output element.
#[inline(always)]
fn element<T: Product>(
    conv: &Conv,
    layout: Layout,
    operands: &Operands<'_, T>,
    image: usize,
    channel: usize,
    position: [usize; 3],
) -> T::Acc {
    let axes = conv.axes();
    let (inputs, outputs, taps) = (conv.group_in(), conv.group_out(), conv.taps());
    let (group, within) = (channel / outputs, channel % outputs);
    let pixels: usize = conv.input.iter().product();
    let mut sum = T::Acc::ZERO;
    for tap in 0..taps {
        let [_, tall, wide] = conv.kernel;
        let z = axes[0].source(position[0], tap / wide / tall);
        let y = axes[1].source(position[1], tap / wide % tall);
        let x = axes[2].source(position[2], tap % wide);
        let (Some(z), Some(y), Some(x)) = (z, y, x) else { continue };
        let pixel = (z * conv.input[1] + y) * conv.input[2] + x;
        for ic in 0..inputs {
            let source = group * inputs + ic;
            let at = match layout {
                Layout::ChannelsFirst => (image * conv.in_channels + source) * pixels + pixel,
                Layout::ChannelsLast => (image * pixels + pixel) * conv.in_channels + source,
            };
            let weight = match conv.transposed {
                false => (channel * inputs + ic) * taps + tap,
                true => (source * outputs + within) * taps + tap,
            };
            let product = convert::<T, T::Acc>(operands.input[at]).times(convert(operands.weight[weight]));
            sum = sum.plus(product);
        }
    }
    sum
}
