//! Sizes of results from sizes of inputs.

use crate::graph::{Graph, Node, Origin};
use crate::op::{Layout, Op};
use sconce_schema::shapes;
use smallvec::{SmallVec, smallvec};

/// Sizes that are kept in place; more take memory of their own.
pub(crate) const FEW: usize = 6;
/// Known sizes of a tensor.
pub type Shape = SmallVec<[usize; FEW]>;
/// Those of the results of an operation.
pub type Shapes = SmallVec<[Shape; 2]>;

/// The sizes of what an operation reads.
pub(crate) type Operands<'a> = SmallVec<[&'a [usize]; 4]>;

/// The sizes of all values for inputs of these sizes, or a sentence about the node that cannot be. Values that are not
/// reached keep the sizes of their types.
pub fn infer(graph: &Graph, inputs: &[&[usize]]) -> Result<Vec<Shape>, String> {
    let mut sizes: Vec<Shape> = graph.values.iter().map(|value| value.ty.sizes()).collect();
    for (id, input) in graph.inputs.iter().zip(inputs) {
        sizes[id.index()] = Shape::from_slice(input);
    }
    for (place, node) in graph.nodes.iter().enumerate() {
        let inputs: Operands<'_> = node.inputs.iter().map(|id| &*sizes[id.index()]).collect();
        let results = result_shapes(&node.op, &inputs)
            .ok_or_else(|| format!("node {place}, {}, does not take inputs of sizes {inputs:?}", node.op.name()))?;
        check_steps(node, &results, &sizes).ok_or_else(|| {
            format!(
                "node {place}, {}, is followed by a step with a value that is not of size {results:?}",
                node.op.name()
            )
        })?;
        drop(inputs);
        for (id, result) in node.outputs.iter().zip(results) {
            sizes[id.index()] = result;
        }
    }
    debug_assert!(graph.values.iter().zip(&sizes).all(|(value, size)| match value.origin {
        Origin::Constant(_) => value.ty.sizes() == *size,
        Origin::Input | Origin::Node => true,
    }));
    Ok(sizes)
}

/// Steps after a node take values of the size of its result.
fn check_steps(node: &Node, results: &[Shape], sizes: &[Shape]) -> Option<()> {
    let further = node.reads().skip(node.inputs.len());
    let fits = |id: crate::ValueId| Some(&sizes[id.index()]) == results.first();
    further.into_iter().all(fits).then_some(())
}

/// The sizes of the results of one operation; `None` if the inputs do not suit it.
pub fn result_shapes(op: &Op, inputs: &[&[usize]]) -> Option<Shapes> {
    let first = *inputs.first()?;
    let one = |shape: Shape| Some(smallvec![shape]);
    let same = || smallvec![Shape::from_slice(first)];
    match op {
        Op::Map(_) | Op::Convert | Op::Copy | Op::Compare { .. } | Op::Not | Op::Fill { .. } if inputs.len() == 1 => {
            Some(same())
        }
        Op::Softmax | Op::LogSoftmax | Op::SafeSoftmax if inputs.len() == 1 && !first.is_empty() => Some(same()),
        Op::Any if inputs.len() == 1 => one(reduced(first, &[first.len().checked_sub(1)?], true)?),
        Op::Select if inputs.len() == 3 => one(Shape::from_slice(&shapes::broadcast(inputs.iter().copied()).ok()?)),
        Op::Attention { query, key, value, result, batch, .. } => {
            one(attended(inputs, [*query, *key, *value], (*result, *batch))?)
        }
        Op::Affine => {
            let along = first.last()?;
            (inputs.len() == 3 && inputs[1..].iter().all(|sizes| *sizes == [*along])).then(same)
        }
        Op::LayerNorm { dims, .. } | Op::RmsNorm { dims, .. } => {
            let row = first.get(first.len().checked_sub(*dims)?..)?;
            let most = if matches!(op, Op::RmsNorm { .. }) { 2 } else { 3 };
            let fits = inputs.len() <= most && inputs.iter().skip(1).all(|sizes| *sizes == row);
            fits.then(same)
        }
        Op::GroupNorm { groups, .. } => {
            let channels = first.get(1)?;
            let fits = inputs.len() <= 3 && inputs.iter().skip(1).all(|sizes| *sizes == [*channels]);
            (fits && *groups > 0 && channels.is_multiple_of(*groups)).then(same)
        }
        Op::Combine(_) if inputs.len() == 2 => one(Shape::from_slice(&shapes::broadcast(inputs.iter().copied()).ok()?)),
        Op::Linear { transposed } => one(linear(inputs, *transposed)?),
        Op::MatMul => one(matmul(inputs)?),
        Op::Conv2d { stride, padding, dilation, groups } => {
            let [n, h, w, _] = convolved(inputs, *groups)?;
            let [out, kh, kw, _] = <[usize; 4]>::try_from(*inputs.get(1)?).ok()?;
            let size = windows([h, w], [kh, kw], *stride, *padding, *dilation)?;
            one(smallvec![n, size[0], size[1], out])
        }
        Op::DepthwiseConv2d { stride, padding, dilation } => {
            let [n, h, w, channels]: [usize; 4] = first.try_into().ok()?;
            let [1, kh, kw, out] = <[usize; 4]>::try_from(*inputs.get(1)?).ok()? else { return None };
            let size = windows([h, w], [kh, kw], *stride, *padding, *dilation)?;
            (per_channel(inputs, out) && channels > 0 && out.is_multiple_of(channels))
                .then(|| smallvec![smallvec![n, size[0], size[1], out]])
        }
        Op::ConvTranspose2d { stride, padding, dilation, groups, extra } => {
            let [n, h, w, _] = convolved(inputs, *groups)?;
            let [out, kh, kw, _] = <[usize; 4]>::try_from(*inputs.get(1)?).ok()?;
            let spread = |axis: usize, size: usize, kernel: usize| {
                let reach = kernel.checked_sub(1)?.checked_mul(dilation[axis])?;
                let end = size.checked_sub(1)?.checked_mul(stride[axis])?.checked_add(reach)?;
                let end = end.checked_add(1)?.checked_add(extra[axis])?;
                end.checked_sub(padding[axis])?.checked_sub(padding[axis + 2])
            };
            one(smallvec![n, spread(0, h, kh)?, spread(1, w, kw)?, out])
        }
        Op::AvgPool2d { kernel, stride, padding } => {
            let [n, h, w, c] = image(inputs)?;
            let size = windows([h, w], *kernel, *stride, *padding, [1, 1])?;
            one(smallvec![n, size[0], size[1], c])
        }
        Op::MaxPool2d { kernel, stride, padding, dilation } => {
            let [n, h, w, c] = image(inputs)?;
            let size = windows([h, w], *kernel, *stride, *padding, *dilation)?;
            one(smallvec![n, size[0], size[1], c])
        }
        Op::ArgMaxPool2d { kernel, padding } => {
            let [n, h, w, c] = image(inputs)?;
            let size = windows([h, w], *kernel, *kernel, *padding, [1, 1])?;
            let shape: Shape = smallvec![n, size[0], size[1], c];
            Some(smallvec![shape.clone(), shape])
        }
        Op::Reduce { axes, keep, .. } => one(reduced(first, axes, *keep)?),
        Op::ResizeBilinear { size, .. } | Op::ResizeNearest { size } => {
            let [n, _, _, c] = image(inputs)?;
            one(smallvec![n, size[0], size[1], c])
        }
        Op::Reshape { sizes } => one(reshaped(first, sizes)?),
        Op::Transpose { order } => {
            let mut seen: Vec<usize> = order.clone();
            seen.sort_unstable();
            let whole = seen.iter().copied().eq(0..first.len());
            whole.then(|| smallvec![order.iter().map(|&dim| first[dim]).collect()])
        }
        Op::Slice { starts, sizes } => one(sliced(first, starts, sizes)?),
        Op::Pad { before, after, .. } => {
            let alike = before.len() == first.len() && after.len() == first.len();
            let sum =
                |((size, before), after): ((&usize, &usize), &usize)| size.checked_add(*before)?.checked_add(*after);
            one(first.iter().zip(before).zip(after).map(sum).collect::<Option<_>>().filter(|_| alike)?)
        }
        Op::Concat { axis } => one(concatenated(inputs, *axis)?),
        _ => None,
    }
}

fn image(inputs: &[&[usize]]) -> Option<[usize; 4]> {
    match inputs {
        [image] => (*image).try_into().ok(),
        _ => None,
    }
}

/// The sizes of a convolved image, if filter and bias suit it.
fn convolved(inputs: &[&[usize]], groups: usize) -> Option<[usize; 4]> {
    let image: [usize; 4] = (*inputs.first()?).try_into().ok()?;
    let [out, _, _, group_in]: [usize; 4] = (*inputs.get(1)?).try_into().ok()?;
    let whole = groups > 0 && out.is_multiple_of(groups) && group_in.checked_mul(groups) == Some(image[3]);
    (whole && per_channel(inputs, out)).then_some(image)
}

/// Whether what follows image and filter, at most bias and factors, is for n channels.
fn per_channel(inputs: &[&[usize]], out: usize) -> bool {
    inputs.len() <= 4 && inputs.iter().skip(2).all(|sizes| *sizes == [out])
}

/// How many windows fit an image.
fn windows(
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 4],
    dilation: [usize; 2],
) -> Option<[usize; 2]> {
    if dilation.contains(&0) {
        return None;
    }
    let along = |axis: usize| {
        let reach = kernel[axis].checked_sub(1)?.checked_mul(dilation[axis])?;
        let room = size[axis].checked_add(padding[axis])?.checked_add(padding[axis + 2])?;
        room.checked_sub(reach)?.checked_sub(1)?.checked_div(stride[axis])?.checked_add(1)
    };
    Some([along(0)?, along(1)?])
}

fn linear(inputs: &[&[usize]], transposed: bool) -> Option<Shape> {
    let (&features, leading) = inputs.first()?.split_last()?;
    let &[rows, columns]: &[usize; 2] = (*inputs.get(1)?).try_into().ok()?;
    let (out, within) = if transposed { (columns, rows) } else { (rows, columns) };
    (features == within && per_channel(inputs, out)).then(|| leading.iter().copied().chain([out]).collect())
}

fn matmul(inputs: &[&[usize]]) -> Option<Shape> {
    let [a, b] = inputs else { return None };
    let (leading, &[m, k]) = a.split_last_chunk()?;
    let (b_leading, &[b_k, n]) = b.split_last_chunk()?;
    let batch = shapes::broadcast([leading, b_leading]).ok()?;
    (k == b_k).then(|| batch.iter().copied().chain([m, n]).collect())
}

impl Layout {
    /// Heads and positions in each other's place, if positions come first.
    pub(crate) fn turned<T>(self, [batch, one, other, features]: [T; 4]) -> [T; 4] {
        match self {
            Self::HeadsFirst => [batch, one, other, features],
            Self::PositionsFirst => [batch, other, one, features],
        }
    }

    /// Batch, heads, positions and features of queries, keys or values of these sizes; without a batch, it is `one`.
    pub fn rows<T: Clone>(self, sizes: &[T], one: T) -> Option<[T; 4]> {
        let whole: Vec<T> = match sizes.len() {
            3 => [one].iter().chain(sizes).cloned().collect(),
            _ => sizes.to_vec(),
        };
        whole.try_into().ok().map(|sizes| self.turned(sizes))
    }
}

fn attended(inputs: &[&[usize]], layouts: [Layout; 3], (layout, with_batch): (Layout, bool)) -> Option<Shape> {
    let ([query, key, value], mask) = inputs.split_first_chunk()?;
    let [batch, heads, queries, features] = layouts[0].rows(query, 1)?;
    let [value_batch, value_heads, keys, width] = layouts[2].rows(value, 1)?;
    let fits = layouts[1].rows(key, 1)? == [batch, heads, keys, features]
        && [value_batch, value_heads] == [batch, heads]
        && (with_batch || batch == 1);
    let scores = [batch, heads, queries, keys];
    let masked = match mask {
        [] => true,
        [mask] => shapes::broadcast([&scores[..], mask]).is_ok_and(|sizes| *sizes == scores),
        _ => false,
    };
    let sizes = layout.turned([batch, heads, queries, width]);
    (fits && masked).then(|| Shape::from_slice(&sizes[usize::from(!with_batch)..]))
}

fn reduced(first: &[usize], axes: &[usize], keep: bool) -> Option<Shape> {
    let valid = axes.iter().all(|&axis| axis < first.len()) && axes.is_sorted_by(|a, b| a < b);
    let sizes = first.iter().enumerate().filter_map(|(dim, &size)| match axes.contains(&dim) {
        true => keep.then_some(1),
        false => Some(size),
    });
    valid.then(|| sizes.collect())
}

fn reshaped(first: &[usize], sizes: &[usize]) -> Option<Shape> {
    let total = first.iter().try_fold(1usize, |total, size| total.checked_mul(*size))?;
    let known = sizes.iter().filter(|size| **size != 0).try_fold(1usize, |total, size| total.checked_mul(*size))?;
    let open = sizes.iter().filter(|size| **size == 0).count();
    let rest = total.checked_div(known)?;
    let fits = rest.checked_mul(known) == Some(total) && (open == 1 || open == 0 && rest == 1);
    fits.then(|| sizes.iter().map(|&size| if size == 0 { rest } else { size }).collect())
}

fn sliced(first: &[usize], starts: &[usize], sizes: &[usize]) -> Option<Shape> {
    if starts.len() != first.len() || sizes.len() != first.len() {
        return None;
    }
    let part = |((&whole, &start), &size): ((&usize, &usize), &usize)| match size {
        0 => whole.checked_sub(start),
        _ => (start.checked_add(size)? <= whole).then_some(size),
    };
    first.iter().zip(starts).zip(sizes).map(part).collect()
}

fn concatenated(inputs: &[&[usize]], axis: usize) -> Option<Shape> {
    let mut result = Shape::from_slice(inputs.first()?);
    for input in inputs.iter().skip(1) {
        let alike = input.len() == result.len()
            && input.iter().zip(&result).enumerate().all(|(dim, (a, b))| dim == axis || a == b);
        let sum = result.get(axis).filter(|_| alike)?.checked_add(*input.get(axis)?)?;
        result[axis] = sum;
    }
    (axis < result.len()).then_some(result)
}
