//! Products.

use super::{Answer, Table};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::{Site, place};
use crate::size::Size;

pub(super) const RULES: Table = &[
    ("aten::linear", linear),
    ("aten::matmul", matmul),
    ("aten::mv", |site| product(site, "self", "vec")),
    ("aten::dot", |site| product(site, "self", "tensor")),
    ("aten::vdot", |site| {
        let (left, right, ty) = (site.tensor("self")?, site.tensor("other")?, site.result(0));
        let left = site.conjugate(left);
        Ok(vec![site.matmul(left, right, ty)])
    }),
    ("aten::inner", inner),
    ("aten::outer", |site| outer(site, "self", "vec2").map(|product| vec![product])),
    ("aten::vecdot", vecdot),
    ("aten::addmm", |site| {
        let (left, right, ty) = (site.tensor("mat1")?, site.tensor("mat2")?, site.result(0));
        if !ty.dtype.is_complex() {
            return Ok(site.renamed("aten::addmm"));
        }
        let product = site.matmul(left, right, ty);
        added(site, product)
    }),
    ("aten::addmv", |site| {
        let (matrix, vector, ty) = (site.tensor("mat")?, site.tensor("vec")?, site.result(0));
        let product = site.matmul(matrix, vector, ty);
        added(site, product)
    }),
    ("aten::addr", |site| {
        let product = outer(site, "vec1", "vec2")?;
        added(site, product)
    }),
    ("aten::baddbmm", |site| {
        let product = batches(site)?;
        added(site, product)
    }),
    ("aten::addbmm", |site| {
        let product = batches(site)?;
        let sum = site.sum(product, &[0], false);
        added(site, sum)
    }),
    ("aten::chain_matmul", |site| chain(site, "matrices")),
    ("aten::linalg_multi_dot", |site| chain(site, "tensors")),
    ("aten::tensordot", tensordot),
    ("aten::kron", kron),
    ("aten::linalg_cross", cross),
    ("aten::cross", cross),
    ("aten::bilinear", bilinear),
    ("aten::einsum", super::einsum::einsum),
];

/// A product of vectors, matrices or stacks of matrices.
fn matmul(site: &mut Site<'_, '_>) -> Answer {
    let (left, right) = (site.tensor("self")?, site.tensor("other")?);
    let (a, b, ty) = (site.ty(left), site.ty(right), site.result(0));
    let one = || Size::from(1);
    // Vectors become matrices of one row, or of one column.
    let left = if a.rank() == 1 { site.view(left, vec![one(), a.sizes[0].clone()]) } else { left };
    let right = if b.rank() == 1 { site.view(right, vec![b.sizes[0].clone(), one()]) } else { right };
    let (a, b) = (site.ty(left), site.ty(right));
    if a.rank() < 2 || b.rank() < 2 {
        return Err(Error::unsupported("a product with a tensor of no dimensions"));
    }
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

/// The runtime takes matrices: a weight or an input of one dimension is a vector.
fn linear(site: &mut Site<'_, '_>) -> Answer {
    let (input, weight, ty) = (site.tensor("input")?, site.tensor("weight")?, site.result(0));
    if ty.dtype.is_complex() && site.ty(weight).rank() == 2 {
        let columns = site.transposed(weight, 0, 1);
        let product = site.matmul(input, columns, ty.clone());
        return Ok(vec![with_bias(site, product, &ty)]);
    }
    if site.ty(weight).rank() != 1 && site.ty(input).rank() > 1 {
        return Ok(site.renamed("aten::linear"));
    }
    if site.ty(weight).rank() != 1 {
        let row = site.unsqueeze(input, 0);
        let product = site.linear(row, weight, site.optional_tensor("bias"));
        return Ok(vec![site.view(product, ty.sizes)]);
    }
    let product = site.matmul(input, weight, ty.clone());
    Ok(vec![with_bias(site, product, &ty)])
}

fn with_bias(site: &mut Site<'_, '_>, product: ValueId, ty: &TensorType) -> ValueId {
    match site.optional_tensor("bias") {
        Some(bias) => site.binary("aten::add.Tensor", product, bias, ty),
        None => product,
    }
}

/// The product of two arguments by the rules of `torch.matmul`.
fn product(site: &mut Site<'_, '_>, left: &str, right: &str) -> Answer {
    let (left, right, ty) = (site.tensor(left)?, site.tensor(right)?, site.result(0));
    Ok(vec![site.matmul(left, right, ty)])
}

/// Products along the last dimensions of both.
fn inner(site: &mut Site<'_, '_>) -> Answer {
    let (left, right, ty) = (site.tensor("self")?, site.tensor("other")?, site.result(0));
    let (a, b) = (site.ty(left), site.ty(right));
    if a.rank() == 0 || b.rank() == 0 {
        return Ok(vec![site.binary("aten::mul.Tensor", left, right, &ty)]);
    }
    Ok(vec![contracted(site, left, right, &[a.rank() - 1], &[b.rank() - 1])])
}

/// Sums of products along some dimensions of each: both become matrices.
fn contracted(site: &mut Site<'_, '_>, left: ValueId, right: ValueId, first: &[usize], second: &[usize]) -> ValueId {
    let (a, b) = (site.ty(left), site.ty(right));
    let rest =
        |ty: &TensorType, dims: &[usize]| -> Vec<usize> { (0..ty.rank()).filter(|dim| !dims.contains(dim)).collect() };
    let sizes = |ty: &TensorType, dims: &[usize]| -> Vec<Size> { dims.iter().map(|&dim| ty.size(dim)).collect() };
    let count = |sizes: &[Size]| sizes.iter().fold(Size::from(1), |count, size| count.times(size));
    let (outer, further) = (rest(&a, first), rest(&b, second));
    let (rows, shared, columns) = (sizes(&a, &outer), count(&sizes(&a, first)), sizes(&b, &further));
    let left = site.permute(left, &[&outer[..], first].concat());
    let left = site.view(left, vec![count(&rows), shared.clone()]);
    let right = site.permute(right, &[second, &further[..]].concat());
    let right = site.view(right, vec![shared, count(&columns)]);
    let ty = TensorType::new(a.dtype, vec![count(&rows), count(&columns)]);
    let product = site.call("aten::mm", [("self", left.into()), ("mat2", right.into())], ty);
    site.view(product, [rows, columns].concat())
}

fn tensordot(site: &mut Site<'_, '_>) -> Answer {
    let (mut left, mut right) = (site.tensor("self")?, site.tensor("other")?);
    let dims = |site: &Site<'_, '_>, name: &str, value: ValueId| -> Result<Vec<usize>, Error> {
        let rank = site.ty(value).rank();
        let all = site.ints(name, &[])?.into_iter().map(|dim| place(dim, rank));
        all.collect::<Option<_>>().ok_or_else(|| Error::unsupported("dimensions that a tensor does not have"))
    };
    let (first, second) = (dims(site, "dims_self", left)?, dims(site, "dims_other", right)?);
    // A dimension of one element meets the sum of the other's.
    for (&a, &b) in first.iter().zip(&second) {
        let [x, y] = [(left, a), (right, b)].map(|(value, dim)| site.ty(value).size(dim).number() == Some(1));
        match (x, y) {
            (true, false) => right = site.sum(right, &[b], true),
            (false, true) => left = site.sum(left, &[a], true),
            _ => {}
        }
    }
    Ok(vec![contracted(site, left, right, &first, &second)])
}

/// Every element of one vector with every one of another.
fn outer(site: &mut Site<'_, '_>, left: &str, right: &str) -> Result<ValueId, Error> {
    let (left, right) = (site.tensor(left)?, site.tensor(right)?);
    let ty = site.result(0);
    let sizes = [left, right].map(|value| site.ty(value).sizes.first().cloned().unwrap_or_default());
    let column = site.unsqueeze(left, 1);
    Ok(site.binary("aten::mul.Tensor", column, right, &ty.with_sizes(sizes)))
}

fn vecdot(site: &mut Site<'_, '_>) -> Answer {
    let (left, right, ty) = (site.tensor("x")?, site.tensor("y")?, site.result(0));
    let left = site.conjugate(left);
    let sizes = crate::lower::calls::broadcast(&site.ty(left).sizes, &site.ty(right).sizes);
    let dim = site.dim("dim", -1, sizes.len())?;
    let product = site.binary("aten::mul.Tensor", left, right, &ty.with_sizes(sizes));
    Ok(vec![site.sum(product, &[dim], false)])
}

fn batches(site: &mut Site<'_, '_>) -> Result<ValueId, Error> {
    let (left, right) = (site.tensor("batch1")?, site.tensor("batch2")?);
    let (a, b) = (site.ranked(site.ty(left), 3)?, site.ranked(site.ty(right), 3)?);
    let ty = a.with_sizes([a.sizes[0].clone(), a.sizes[1].clone(), b.sizes[2].clone()]);
    Ok(site.call("aten::bmm", [("self", left.into()), ("mat2", right.into())], ty))
}

/// `beta * self + alpha * product`; without `self` where `beta` is zero.
fn added(site: &mut Site<'_, '_>, product: ValueId) -> Answer {
    let (mut value, ty) = (site.tensor("self")?, site.result(0));
    let is = |arg: &Arg, number: f64| match arg {
        Arg::Int(own) => own.number().is_some_and(|own| own as f64 == number),
        Arg::Float(own) => *own == number,
        Arg::Bool(own) => f64::from(u8::from(*own)) == number,
        _ => false,
    };
    // Factors of integers are integers.
    let factor = |name: &str| match site.scalar(name, 1) {
        Arg::Float(number) if ty.dtype.is_integral(true) => Arg::from(number as i64),
        other => other,
    };
    let (beta, alpha) = (factor("beta"), factor("alpha"));
    if is(&beta, 0.0) {
        let scaled = if is(&alpha, 1.0) { product } else { site.scalar_call("aten::mul.Scalar", product, alpha) };
        return Ok(vec![site.expand(scaled, &ty.sizes)]);
    }
    if !is(&beta, 1.0) {
        value = site.scalar_call("aten::mul.Scalar", value, beta);
    }
    Ok(vec![site.call("aten::add.Tensor", [("self", value.into()), ("other", product.into()), ("alpha", alpha)], ty)])
}

/// A product of several matrices; the first and the last may be vectors.
fn chain(site: &mut Site<'_, '_>, name: &str) -> Answer {
    let (values, ty) = (site.tensors(name)?, site.result(0));
    let [first, rest @ ..] = &values[..] else { return Err(Error::unsupported("a product of nothing")) };
    let mut product = *first;
    for value in rest {
        let (a, b) = (site.ranked(site.ty(product), 1)?, site.ranked(site.ty(*value), 1)?);
        let sizes = [&a.sizes[..a.rank() - 1], &b.sizes[1..]].concat();
        product = site.matmul(product, *value, ty.with_sizes(sizes));
    }
    Ok(vec![product])
}

/// Each element of one tensor times all of another.
fn kron(site: &mut Site<'_, '_>) -> Answer {
    let (left, right, ty) = (site.tensor("self")?, site.tensor("other")?, site.result(0));
    let own = |site: &Site<'_, '_>, value: ValueId| {
        let sizes = site.ty(value).sizes;
        [vec![Size::from(1); ty.rank().saturating_sub(sizes.len())], sizes].concat()
    };
    let (a, b) = (own(site, left), own(site, right));
    let rank = a.len().min(b.len());
    let weave = |first: bool| -> Vec<Size> {
        let pair = |dim: usize| if first { [a[dim].clone(), 1.into()] } else { [1.into(), b[dim].clone()] };
        (0..rank).flat_map(pair).collect()
    };
    let left = site.view(left, weave(true));
    let right = site.view(right, weave(false));
    let wide = (0..rank).flat_map(|dim| [a[dim].clone(), b[dim].clone()]).collect::<Vec<_>>();
    let product = site.binary("aten::mul.Tensor", left, right, &ty.with_sizes(wide));
    Ok(vec![site.view(product, ty.sizes)])
}

/// The cross product of vectors of three elements along a dimension.
fn cross(site: &mut Site<'_, '_>) -> Answer {
    let (left, right, ty) = (site.tensor("self")?, site.tensor("other")?, site.result(0));
    // Without a dimension it is the first of the left tensor that has three elements.
    let three = site.ty(left).sizes.iter().position(|size| size.number() == Some(3));
    let dim = match (site.arg("dim"), three) {
        (Arg::None, Some(dim)) if site.call.operator() == Some("aten::cross") => dim,
        _ => site.dim("dim", -1, ty.rank())?,
    };
    let (left, right) = (site.expand(left, &ty.sizes), site.expand(right, &ty.sizes));
    let mut rolled = |value: ValueId, by: i64| {
        let args = [("self", value.into()), ("shifts", vec![by].into()), ("dims", vec![dim as i64].into())];
        site.call("aten::roll", args, ty.clone())
    };
    let (a, b, c, d) = (rolled(left, -1), rolled(right, -2), rolled(left, -2), rolled(right, -1));
    let first = site.binary("aten::mul.Tensor", a, b, &ty);
    let second = site.binary("aten::mul.Tensor", c, d, &ty);
    Ok(vec![site.binary("aten::sub.Tensor", first, second, &ty)])
}

/// `x1 W x2` for each of the matrices `W`.
fn bilinear(site: &mut Site<'_, '_>) -> Answer {
    let (a, b, weight, ty) =
        (site.tensor("input1")?, site.tensor("input2")?, site.tensor("weight")?, site.ranked_result(0, 1)?);
    let (rank, w) = (ty.rank(), site.ranked(site.ty(weight), 3)?);
    let batch = ty.sizes[..rank - 1].iter().fold(Size::from(1), |count, size| count.times(size));
    let (out, first, second) = (w.sizes[0].clone(), w.sizes[1].clone(), w.sizes[2].clone());
    let a = site.view(a, vec![batch.clone(), first.clone()]);
    let b = site.view(b, vec![batch.clone(), 1.into(), second.clone()]);
    // Rows of all matrices side by side: one product gives `x1 W` for all of them.
    let sides = site.permute(weight, &[1, 0, 2]);
    let sides = site.view(sides, vec![first, out.times(&second)]);
    let wide = ty.with_sizes([batch.clone(), out.times(&second)]);
    let rows = site.call("aten::mm", [("self", a.into()), ("mat2", sides.into())], wide);
    let stacked = ty.with_sizes([batch.clone(), out.clone(), second.clone()]);
    let rows = site.view(rows, stacked.sizes.clone());
    let products = site.binary("aten::mul.Tensor", rows, b, &stacked);
    let sum = site.sum(products, &[2], false);
    let mut sum = site.view(sum, ty.sizes.clone());
    if let Some(bias) = site.optional_tensor("bias") {
        sum = site.binary("aten::add.Tensor", sum, bias, &ty);
    }
    Ok(vec![sum])
}
