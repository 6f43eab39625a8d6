//! Products and convolutions.

use super::Table;
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
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
    ("aten::matmul", matmul),
];

/// A convolution of `dims` dimensions; an image without a batch gets one.
fn convolution(site: &mut Site<'_, '_>, dims: usize) -> Result<Vec<ValueId>, Error> {
    let weight = site.tensor("weight")?;
    let kernel = site.ty(weight).numbers().unwrap_or_default();
    let (stride, dilation) = (site.each("stride", 1, dims)?, site.each("dilation", 1, dims)?);
    let padding = match site.arg("padding") {
        Arg::Text(word) if word == "same" => {
            let whole = |dim: usize| dilation[dim] * (kernel.get(dim + 2).copied().unwrap_or(1) - 1);
            if (0..dims).any(|dim| whole(dim) % 2 == 1) {
                return Err(Error::unsupported("padding=\"same\" with an even kernel"));
            }
            (0..dims).map(|dim| whole(dim) / 2).collect()
        }
        Arg::Text(_) => vec![0; dims],
        _ => site.each("padding", 0, dims)?,
    };
    let further = [("transposed", Arg::Bool(false)), ("output_padding", vec![0i64; dims].into())];
    general(site, dims, [stride, padding, dilation], further)
}

/// A transposed convolution of `dims` dimensions.
fn transposed(site: &mut Site<'_, '_>, dims: usize) -> Result<Vec<ValueId>, Error> {
    let stride = site.each("stride", 1, dims)?;
    let (padding, dilation) = (site.each("padding", 0, dims)?, site.each("dilation", 1, dims)?);
    let extra = site.each("output_padding", 0, dims)?;
    general(site, dims, [stride, padding, dilation], [("transposed", true.into()), ("output_padding", extra.into())])
}

fn general(
    site: &mut Site<'_, '_>,
    dims: usize,
    [stride, padding, dilation]: [Vec<i64>; 3],
    further: [(&'static str, Arg); 2],
) -> Result<Vec<ValueId>, Error> {
    let (mut input, weight, bias) = (site.tensor("input")?, site.tensor("weight")?, site.optional_tensor("bias"));
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

/// A product of vectors, matrices or stacks of matrices.
fn matmul(site: &mut Site<'_, '_>) -> Result<Vec<ValueId>, Error> {
    let (left, right) = (site.tensor("self")?, site.tensor("other")?);
    let (a, b, ty) = (site.ty(left), site.ty(right), site.result(0));
    let one = || Size::from(1);
    // Vectors become matrices of one row, or of one column.
    let left = if a.rank() == 1 { site.view(left, vec![one(), a.sizes[0].clone()]) } else { left };
    let right = if b.rank() == 1 { site.view(right, vec![b.sizes[0].clone(), one()]) } else { right };
    let (a, b) = (site.ty(left), site.ty(right));
    let rows = a.sizes[a.rank() - 2].clone();
    let (inner, columns) = (a.sizes[a.rank() - 1].clone(), b.sizes[b.rank() - 1].clone());
    if b.rank() == 2 {
        // One matrix for all: the stack's rows are rows of one tall matrix.
        let height = a.sizes[..a.rank() - 1].iter().fold(one(), |height, size| height.times(size));
        let tall = site.view(left, vec![height.clone(), inner]);
        let product_type = TensorType::new(ty.dtype, vec![height, columns]);
        let product = site.call("aten::mm", [("self", tall.into()), ("mat2", right.into())], product_type);
        return Ok(vec![site.view(product, ty.sizes)]);
    }
    let rank = a.rank().max(b.rank());
    let size =
        |ty: &TensorType, dim: usize| (dim + ty.rank()).checked_sub(rank).map_or_else(one, |own| ty.sizes[own].clone());
    let batch: Vec<Size> = (0..rank - 2)
        .map(|dim| Some(size(&a, dim)).filter(|size| size.number() != Some(1)).unwrap_or_else(|| size(&b, dim)))
        .collect();
    let count = batch.iter().fold(one(), |count, size| count.times(size));
    let mut stack = |value: ValueId, sizes: [Size; 2]| {
        let own = site.ty(value);
        let wide = [&batch[..], &sizes].concat();
        let value = if own.sizes == wide {
            value
        } else {
            site.call("aten::expand", [("self", value.into()), ("size", wide.clone().into())], own.with_sizes(wide))
        };
        site.view(value, [std::slice::from_ref(&count), &sizes[..]].concat())
    };
    let left = stack(left, [rows.clone(), inner.clone()]);
    let right = stack(right, [inner, columns.clone()]);
    let product_type = TensorType::new(ty.dtype, vec![count, rows, columns]);
    let product = site.call("aten::bmm", [("self", left.into()), ("mat2", right.into())], product_type);
    Ok(vec![site.view(product, ty.sizes)])
}
