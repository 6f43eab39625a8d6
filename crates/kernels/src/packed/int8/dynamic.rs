//! Inputs that are quantised as they come: bytes with a scale and a zero of their own per row or image, results in `f32`.
use super::layout::{Kind, Layout};
use super::tile::Family;
use super::{Conv2d, Input, Line, Panel, convolve};
use crate::epilogue::{Function, Then, finish};
use crate::gemm::clamp;
use crate::isa::Isa;
use crate::math::ROUND;
use crate::split::{self, Block};
use sconce_parallel::Parallel;

/// What bytes stand for: `scale * (byte - zero)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Affine {
    /// The step from one byte to the next.
    pub scale: f32,
    /// The byte that stands for zero.
    pub zero: i32,
}

impl Affine {
    /// The whole range of bytes for numbers from `least` to `largest`, widened so that zero is among them, and how many
    /// bytes one is.
    fn spanning(least: f32, largest: f32) -> (Self, f32) {
        let (least, largest) = (least.min(0.0), largest.max(0.0));
        let per_unit = if least == largest { 1.0 } else { 255.0 / (largest - least) };
        let (low, high) = (least * per_unit, largest * per_unit);
        // Of the two places for zero, counted from either end, the one with the smaller error of rounding.
        let zero = if (low - 128.0) + (high + 127.0) > 0.0 { -128.0 - low } else { 127.0 - high };
        let zero = (clamp(zero, (-128.0, 127.0)) + ROUND).to_bits() as i8;
        (Self { scale: 1.0 / per_unit, zero: zero.into() }, per_unit)
    }
}

/// Elements below which threads cost more than they bring.
const WORTH_THREADS: usize = 16 * 1024;

/// Quantises rows of `row` elements, each by its own least and largest; `affine` says how.
pub fn quantize_rows(
    isa: Isa,
    par: &dyn Parallel,
    input: &[f32],
    row: usize,
    output: &mut [i8],
    affine: &mut [Affine],
) {
    let row = row.max(1);
    assert_eq!(input.len(), output.len(), "bytes of {} numbers", input.len());
    assert_eq!(input.len(), affine.len() * row, "{} rows of {row}", affine.len());
    let together = (WORTH_THREADS / row).max(1);
    split::chunks2(par, (output, together * row), (affine, together), |i, output, affine| {
        let input = &input[i * together * row..][..output.len()];
        for ((from, to), affine) in input.chunks_exact(row).zip(output.chunks_exact_mut(row)).zip(affine) {
            isa.vectorize(
                #[inline(always)]
                || *affine = quantize(from, to),
            );
        }
    });
}

#[inline(always)]
fn quantize(from: &[f32], to: &mut [i8]) -> Affine {
    const LANES: usize = 32;
    let (mut least, mut largest) = ([0f32; LANES], [0f32; LANES]);
    let (whole, rest) = from.as_chunks::<LANES>();
    for chunk in whole {
        for (i, x) in chunk.iter().enumerate() {
            least[i] = if *x < least[i] { *x } else { least[i] };
            largest[i] = if *x > largest[i] { *x } else { largest[i] };
        }
    }
    let least = least.iter().chain(rest).fold(0f32, |a, b| a.min(*b));
    let largest = largest.iter().chain(rest).fold(0f32, |a, b| a.max(*b));
    let (affine, per_unit) = Affine::spanning(least, largest);
    let limits = (-128.0 - affine.zero as f32, 127.0 - affine.zero as f32);
    for (to, x) in to.iter_mut().zip(from) {
        *to = ((clamp(x * per_unit, limits) + ROUND).to_bits() as i8).wrapping_add(affine.zero as i8);
    }
    affine
}

/// Packed weights for inputs that are quantised as they come.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// From [`super::pack`] with an input zero of 0, or from [`super::pack_nibbles`].
    pub packed: &'a [Line],
    /// How they are held.
    pub kind: Kind,
    /// The step from one weight to the next, per channel; empty if groups have their own.
    pub scale: &'a [f32],
    /// One summand per channel.
    pub bias: Option<&'a [f32]>,
}

/// Convolves bytes to numbers; `then` follows. As many consecutive output pixels as `affine` says, all of an image or
/// each by itself, have their scale and zero. What is outside an image counts as its zero.
///
/// `scratch` has [`super::scratch_len`] bytes.
pub fn conv2d_dynamic(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    (input, affine): (&[i8], &[Affine]),
    weights: Weights<'_>,
    then: &[Then<'_>],
    output: &mut [f32],
    scratch: &mut [u8],
) {
    let Weights { packed, kind, scale, bias } = weights;
    let grouped = matches!(kind, Kind::Groups(_));
    assert_eq!(scale.len(), if grouped { 0 } else { conv.out_channels }, "scales of {conv:?}");
    assert!(bias.is_none_or(|bias| bias.len() == conv.out_channels), "bias of {conv:?}");
    assert!(then.iter().all(|then| match then {
        Then::Add(other) | Then::Multiply(other) => other.len() == output.len(),
        Then::Apply(_) => true,
    }));
    if output.is_empty() {
        return;
    }
    let (pixels, outside) = (output.len() / conv.out_channels, conv.padding != [0; 4] || conv.transposed);
    let fits = !affine.is_empty() && pixels.is_multiple_of(affine.len()) && (!outside || affine.len() == conv.batch);
    assert!(fits, "{} scales for {pixels} pixels of {conv:?}", affine.len());
    let (limits, then) = match then {
        [Then::Apply(Function::Clamp(low, high)), rest @ ..] => ((*low, *high), rest),
        all => ((f32::NEG_INFINITY, f32::INFINITY), all),
    };
    let family = Family::of(isa, kind);
    let layout = Layout::of(&family, conv, kind);
    let unit = if kind == Kind::Bytes { 1.0 } else { 1.0 / 16.0 };
    let padding = |image: usize| affine[image.min(affine.len() - 1)].zero as i8;
    let finish = |panel: Panel<'_>, block: &mut Block<'_, f32>| {
        let piece = panel.sums();
        let bias = bias.map(|bias| &bias[piece.channels()]);
        let bias = |c: usize| bias.map_or(0.0, |bias| bias[c]);
        let scale = if grouped { scale } else { &scale[piece.channels()] };
        piece.each_row(
            isa,
            block,
            #[inline(always)]
            |row, sums, totals, out| {
                let affine = affine[row / (pixels / affine.len())];
                let (factor, zero) = (affine.scale * unit, affine.zero);
                if grouped {
                    let offset = (zero + i32::from(family.flip)) as f32;
                    for (c, ((to, sum), total)) in out.iter_mut().zip(sums).zip(totals).enumerate() {
                        let [sum, total] = [sum, total].map(|bits| f32::from_bits(bits.cast_unsigned()));
                        *to = clamp((sum - offset * total) * factor + bias(c), limits);
                    }
                } else {
                    for (c, (((to, sum), total), scale)) in out.iter_mut().zip(sums).zip(totals).zip(scale).enumerate()
                    {
                        *to = clamp(
                            sum.wrapping_sub(zero.wrapping_mul(*total)) as f32 * (factor * scale) + bias(c),
                            limits,
                        );
                    }
                }
            },
        );
        if !then.is_empty() {
            let (channels, columns) = (piece.channels(), piece.place(block));
            for row in piece.rows.clone() {
                let at = row * conv.out_channels + channels.start;
                finish(isa, then, at, &mut block.row(row)[columns.clone()]);
            }
        }
    };
    convolve(
        isa,
        par,
        conv,
        Input::Signed(input, &padding),
        (layout, packed),
        (output, conv.out_channels),
        scratch,
        (finish, |_, _, _: &mut _| ()),
    );
}
