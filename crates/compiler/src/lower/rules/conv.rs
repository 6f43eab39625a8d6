//! Convolutions.

use super::{Answer, Table};
use crate::Error;
use crate::ir::{Arg, ValueId};
use crate::lower::Site;
use crate::size::Size;

pub(super) const RULES: Table = &[
    ("aten::conv1d", |site| convolution(site, 1)),
    ("aten::conv2d", |site| convolution(site, 2)),
    ("aten::conv3d", |site| convolution(site, 3)),
    ("aten::conv1d.padding", |site| convolution(site, 1)),
    ("aten::conv2d.padding", |site| convolution(site, 2)),
    ("aten::conv3d.padding", |site| convolution(site, 3)),
    ("aten::conv_transpose1d", |site| transposed(site, 1)),
    ("aten::conv_transpose2d.input", |site| transposed(site, 2)),
    ("aten::conv_transpose3d.input", |site| transposed(site, 3)),
    ("aten::_convolution", |site| Ok(site.renamed("aten::convolution"))),
];

/// A convolution of `dims` dimensions; an image without a batch gets one.
fn convolution(site: &mut Site<'_, '_>, dims: usize) -> Answer {
    let (mut input, weight) = (site.tensor("input")?, site.tensor("weight")?);
    let (stride, dilation) = (site.each("stride", 1, dims)?, site.each("dilation", 1, dims)?);
    let padding = match site.arg("padding") {
        Arg::Text(word) if word == "same" => {
            let kernel = site.ranked(site.ty(weight), dims + 2)?.numbers();
            let kernel = kernel.ok_or_else(|| Error::unsupported("a padding for a kernel of unknown size"))?;
            let whole: Vec<i64> =
                (0..dims).map(|dim| dilation[dim].saturating_mul(kernel[dim + 2].saturating_sub(1))).collect();
            // What cannot be the same on both sides is one more behind.
            let more: Vec<i64> = whole.iter().rev().flat_map(|all| [0, all % 2]).collect();
            if more.contains(&1) {
                input = behind(site, input, more);
            }
            whole.iter().map(|all| all / 2).collect()
        }
        Arg::Text(word) if word == "valid" => vec![0; dims],
        _ => site.each("padding", 0, dims)?,
    };
    let further = [("transposed", Arg::Bool(false)), ("output_padding", vec![0i64; dims].into())];
    general(site, input, dims, [stride, padding, dilation], further)
}

/// A transposed convolution of `dims` dimensions.
fn transposed(site: &mut Site<'_, '_>, dims: usize) -> Answer {
    let (input, stride) = (site.tensor("input")?, site.each("stride", 1, dims)?);
    let (padding, dilation) = (site.each("padding", 0, dims)?, site.each("dilation", 1, dims)?);
    let extra = site.each("output_padding", 0, dims)?;
    general(
        site,
        input,
        dims,
        [stride, padding, dilation],
        [("transposed", true.into()), ("output_padding", extra.into())],
    )
}

fn general(
    site: &mut Site<'_, '_>,
    mut input: ValueId,
    dims: usize,
    [stride, padding, dilation]: [Vec<i64>; 3],
    further: [(&'static str, Arg); 2],
) -> Answer {
    let (weight, bias) = (site.tensor("weight")?, site.optional_tensor("bias"));
    let (ty, groups) = (site.result(0), site.int("groups", 1)?);
    let batch = site.ty(input).rank() == dims + 2;
    let with_batch = |sizes: &[Size]| [&[Size::from(1)], sizes].concat();
    if !batch {
        let sizes = with_batch(&site.ty(input).sizes);
        input = site.view(input, sizes);
    }
    let whole = if batch { ty.clone() } else { ty.with_sizes(with_batch(&ty.sizes)) };
    let args = [
        ("input", input.into()),
        ("weight", weight.into()),
        ("bias", bias.into()),
        ("stride", stride.into()),
        ("padding", padding.into()),
        ("dilation", dilation.into()),
        ("groups", groups.into()),
    ];
    let result = site.call("aten::convolution", args.into_iter().chain(further), whole);
    Ok(vec![site.view(result, ty.sizes)])
}

/// The tensor with zeros around its last dimensions: before and behind the last, then the one before it, and so on.
fn behind(site: &mut Site<'_, '_>, input: ValueId, pads: Vec<i64>) -> ValueId {
    let ty = site.plain_type(input);
    let mut sizes = ty.sizes.clone();
    for (pair, size) in pads.chunks_exact(2).zip(sizes.iter_mut().rev()) {
        *size = size.plus(&(pair[0] + pair[1]).into());
    }
    site.call("aten::constant_pad_nd", [("self", input.into()), ("pad", pads.into())], ty.with_sizes(sizes))
}
