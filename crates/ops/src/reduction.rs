//! Reductions: sums, means, extremes and questions along dimensions.
//!
//! Like element-wise operators, reductions compute in three types only; elements of other types are converted into
//! scratch first. Any set of dimensions in any memory order is reduced by walking what is kept and, for each, what is
//! reduced.
use crate::dense::{buffer_bytes, convert_scratch, converted, row_major, store, store_row_major, wide_bytes};
use crate::elementwise::compute;
use crate::operands::{elements, misaligned, same_type};
use crate::ops;
use crate::typed::Typed;
use sconce_core::{Args, Call, Fault, MAX_RANK, Op, ScalarType, Shape, Tensor, TensorMut};
use sconce_kernels::Isa;
use sconce_kernels::map::Broadcast;
use sconce_kernels::reduce::{self, All, Any, Axis, Max, Mean, Min, Prod, Reducer, Sum};
use sconce_kernels::view::view_mut;
use sconce_schema::{Sizes, normalize_dim, normalize_dims};

/// Reductions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::sum.IntList_out" [6] writes [4] scratch |args| total_scratch(args, 4), => sum;
    "aten::mean.out" [6] writes [4] scratch |args| mean_scratch(args, 4), => |call| mean(call, Some(1), 2, 4);
    "aten::mean.dtype_out" [4] writes [2] scratch |args| mean_scratch(args, 2), => |call| mean(call, None, 0, 2);
    "aten::prod.out" [4] writes [2] scratch |args| total_scratch(args, 2), => |call| prod(call, None, 2);
    "aten::prod.int_out" [6] writes [4] scratch |args| total_scratch(args, 4), => |call| prod(call, Some(1), 4);
    "aten::amax.out" [5] writes [3] scratch |args| scratch(args, &[3]), => |call| extreme(call, true, Some(1), 3);
    "aten::amin.out" [5] writes [3] scratch |args| scratch(args, &[3]), => |call| extreme(call, false, Some(1), 3);
    "aten::max.unary_out" [3] writes [1] scratch |args| scratch(args, &[1]), => |call| extreme(call, true, None, 1);
    "aten::min.unary_out" [3] writes [1] scratch |args| scratch(args, &[1]), => |call| extreme(call, false, None, 1);
    "aten::aminmax.out" [6] writes [3, 4] scratch both_scratch, => both_extremes;
    "aten::any.all_out" [3] writes [1] scratch |args| scratch(args, &[1]), => |call| any(call, None, 1);
    "aten::any.out" [5] writes [3] scratch |args| scratch(args, &[3]), => |call| any(call, Some(1), 3);
    "aten::any.dims_out" [5] writes [3] scratch |args| scratch(args, &[3]), => |call| any(call, Some(1), 3);
    "aten::all.all_out" [3] writes [1] scratch |args| scratch(args, &[1]), => |call| all(call, None, 1);
    "aten::all.out" [5] writes [3] scratch |args| scratch(args, &[3]), => |call| all(call, Some(1), 3);
    "aten::all.dims_out" [5] writes [3] scratch |args| scratch(args, &[3]), => |call| all(call, Some(1), 3);
    "aten::argmax.out" [5] writes [3] scratch |args| arg_scratch(args, &[3]), => |call| argument::<true>(call);
    "aten::argmin.out" [5] writes [3] scratch |args| arg_scratch(args, &[3]), => |call| argument::<false>(call);
    "aten::max.dim_max" [6] writes [3, 4] scratch |args| arg_scratch(args, &[3, 4]), => |call| extreme_of::<true>(call);
    "aten::min.dim_min" [6] writes [3, 4] scratch |args| arg_scratch(args, &[3, 4]), => |call| extreme_of::<false>(call);
    "aten::var.out" [6] writes [4] scratch |args| arg_scratch(args, &[4, 4]), => var;
    "aten::var.correction_out" [6] writes [4] scratch |args| arg_scratch(args, &[4, 4]), => |call| {
        corrected(call, false, None)
    };
    "aten::var_mean.correction_out" [7] writes [4, 5] scratch |args| arg_scratch(args, &[4, 5]), => |call| {
        corrected(call, false, Some(5))
    };
    "aten::std.correction_out" [6] writes [4] scratch |args| arg_scratch(args, &[4, 4]), => |call| {
        corrected(call, true, None)
    };
    "aten::std_mean.correction_out" [7] writes [4, 5] scratch |args| arg_scratch(args, &[4, 5]), => |call| {
        corrected(call, true, Some(5))
    };
};

/// Room for converted elements and for results of the widest type.
fn scratch(args: &Args<'_>, outs: &[usize]) -> usize {
    let own = convert_scratch(args, 0, &[ScalarType::Float, ScalarType::Double, ScalarType::Long]);
    outs.iter().map(|&out| wide_bytes(args, out)).fold(own, usize::saturating_add)
}

/// The same for sums and products, whose elements are converted to a whole result's type first.
fn total_scratch(args: &Args<'_>, out: usize) -> usize {
    match args.tensor_type(out) {
        Ok((dtype, _)) if dtype.is_integral(true) => wide_bytes(args, 0).saturating_add(wide_bytes(args, out)),
        // A complex number is two.
        Ok((ScalarType::ComplexFloat | ScalarType::ComplexDouble, _)) => scratch(args, &[out, out]),
        _ => scratch(args, &[out]),
    }
}

/// The type in which sums and products are computed.
fn total_type(call: &Call<'_>, x: &Tensor<'_>, out: usize) -> Result<ScalarType, Fault> {
    let whole = call.tensor_type(out)?.0.is_integral(true) && x.dtype.is_floating();
    Ok(if whole { ScalarType::Long } else { x.dtype })
}

/// The same for means, for which integers become floating-point numbers.
fn mean_scratch(args: &Args<'_>, out: usize) -> usize {
    convert_scratch(args, 0, &[ScalarType::Float, ScalarType::Double]).saturating_add(wide_bytes(args, out))
}

/// The same where the input must be row-major with its last dimensions reduced.
fn arg_scratch(args: &Args<'_>, outs: &[usize]) -> usize {
    let moved = buffer_bytes(args.capacity(0).unwrap_or(0));
    scratch(args, outs).saturating_add(moved)
}

/// Which dimensions are reduced, and what is left.
#[derive(Clone, Copy)]
pub(crate) struct Dims {
    /// A bit per dimension.
    reduced: u32,
    /// The sizes of the result.
    pub(crate) sizes: Sizes,
}

impl Dims {
    /// From an argument that is a list of dimensions, one dimension, or absent: none means all.
    pub(crate) fn new(call: &Call<'_>, x: &Tensor<'_>, dims: Option<usize>, keep: bool) -> Result<Self, Fault> {
        let rank = x.shape.rank();
        let all = (1u32 << rank) - 1;
        let reduced = match dims {
            None => all,
            Some(argument) => {
                let missing = Fault::argument(argument, "a dimension does not exist or is named twice");
                match (call.is_none(argument)?, call.int(argument)) {
                    (true, _) => all,
                    (_, Ok(dim)) => 1 << normalize_dim(dim, rank).ok_or(missing)?,
                    _ => match normalize_dims(&call.ints(argument)?, rank).ok_or(missing)? {
                        0 => all,
                        set => set,
                    },
                }
            }
        };
        let mut sizes = Sizes::SCALAR;
        for (dim, &size) in x.sizes().iter().enumerate() {
            match reduced >> dim & 1 == 0 {
                true => sizes.push(size),
                false if keep => sizes.push(1),
                false => Some(()),
            };
        }
        Ok(Self { reduced, sizes })
    }

    fn is_reduced(&self, dim: usize) -> bool {
        self.reduced >> dim & 1 != 0
    }

    /// Number of elements behind each result.
    pub(crate) fn count(&self, x: &Tensor<'_>) -> usize {
        x.sizes().iter().enumerate().filter(|(dim, _)| self.is_reduced(*dim)).map(|(_, &size)| size).product()
    }
}

/// Reduces with `R` into an output of any type.
fn reduce<'c, R>(call: &mut Call<'c>, x: Tensor<'c>, dims: Dims, out_argument: usize) -> Result<(), Fault>
where
    R: Reducer<In: Typed, Out: Typed>,
{
    let data = converted::<R::In>(call, 0, x)?;
    let out = call.out(out_argument, &dims.sizes)?;
    let results = call.scratch(out.numel().saturating_mul(size_of::<R::Out>()))?;
    let results = view_mut::<R::Out>(results).ok_or(misaligned(out_argument))?;
    reduce_into::<R>(call, &x, data, dims, &out, results);
    store(call, out_argument, results, out)
}

/// Reduces elements in `x`'s order into results in the output's.
pub(crate) fn reduce_into<R: Reducer>(
    call: &Call<'_>,
    x: &Tensor<'_>,
    data: &[R::In],
    dims: Dims,
    out: &TensorMut<'_>,
    results: &mut [R::Out],
) {
    let rank = x.shape.rank();
    let first = dims.reduced.trailing_zeros() as usize;
    let last = u32::BITS as usize - dims.reduced.leading_zeros() as usize;
    let consecutive = dims.reduced.count_ones() as usize == last.saturating_sub(first);
    if rank > 0 && x.shape.is_contiguous() && out.shape.is_contiguous() && consecutive {
        return reduce::reduce::<R>(Isa::detect(), call.parallel(), Axis::of(x.sizes(), first..last), data, results);
    }
    let strides = x.shape.strides();
    let keeps = out.shape.rank() == rank;
    // Kept dimensions in the output's memory order.
    let mut kept = Walk::default();
    for &dim in out.shape.order() {
        let dim = usize::from(dim);
        let source = if keeps { dim } else { nth_kept(dims, rank, dim) };
        if !dims.is_reduced(source) {
            kept.push(x.sizes()[source], strides[source]);
        }
    }
    let mut reduced = Walk::default();
    for dim in (0..rank).filter(|&dim| dims.is_reduced(dim)) {
        reduced.push(x.sizes()[dim], strides[dim]);
    }
    reduce::reduce_strided::<R>(call.parallel(), &kept.broadcast(), &reduced.broadcast(), data, results);
}

/// The dimension of the input behind dimension `n` of an output without the reduced ones.
fn nth_kept(dims: Dims, rank: usize, n: usize) -> usize {
    (0..rank).filter(|&dim| !dims.is_reduced(dim)).nth(n).unwrap_or(0)
}

/// Sizes and strides that are collected one by one.
#[derive(Default)]
struct Walk {
    rank: usize,
    sizes: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

impl Walk {
    fn push(&mut self, size: usize, stride: usize) {
        (self.sizes[self.rank], self.strides[self.rank]) = (size, stride);
        self.rank += 1;
    }

    fn broadcast(&self) -> Broadcast<1> {
        Broadcast::new(&self.sizes[..self.rank], [&self.strides[..self.rank]])
    }
}

fn sum(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let dims = Dims::new(call, &x, Some(1), call.bool(2)?)?;
    match x.dtype {
        ScalarType::ComplexFloat => sum_pairs::<f32>(call, x, dims),
        ScalarType::ComplexDouble => sum_pairs::<f64>(call, x, dims),
        _ => compute!(total_type(call, &x, 4)?, 0, C => reduce::<Sum<C>>(call, x, dims, 4)),
    }
}

/// Sums complex numbers: pairs of real ones, along a last dimension that stays.
fn sum_pairs<T: Typed>(call: &mut Call<'_>, x: Tensor<'_>, dims: Dims) -> Result<(), Fault>
where
    Sum<T>: Reducer<In = T, Out: Typed>,
{
    let target = call.out(4, &dims.sizes)?;
    same_type(4, target.dtype, x.dtype)?;
    if x.shape.rank() == 0 {
        target.data.copy_from_slice(x.data);
        return Ok(());
    }
    let too_many = Fault::argument(0, "the tensor has too many dimensions");
    let x = Tensor { dtype: T::DTYPE, shape: pairs(&x.shape).ok_or(too_many)?, data: x.data };
    let out = TensorMut { dtype: T::DTYPE, shape: pairs(&target.shape).ok_or(too_many)?, data: target.data };
    let results = call.scratch(out.numel().saturating_mul(size_of::<<Sum<T> as Reducer>::Out>()))?;
    let results = view_mut(results).ok_or(misaligned(4))?;
    reduce_into::<Sum<T>>(call, &x, elements(0, &x)?, dims, &out, results);
    store(call, 4, results, out)
}

/// The shape of complex numbers seen as pairs.
fn pairs(shape: &Shape) -> Option<Shape> {
    let (rank, mut sizes) = (shape.rank(), Sizes::new(shape.sizes())?);
    sizes.push(2)?;
    let mut order = [0; MAX_RANK];
    order.get_mut(..rank)?.copy_from_slice(shape.order());
    *order.get_mut(rank)? = u8::try_from(rank).ok()?;
    Shape::new(&sizes, order.get(..=rank)?)
}

fn mean(call: &mut Call<'_>, dims: Option<usize>, keep: usize, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let keep = dims.is_some() && call.bool(keep)?;
    let dims = Dims::new(call, &x, dims, keep)?;
    match x.dtype {
        ScalarType::Float | ScalarType::Half | ScalarType::BFloat16 => reduce::<Mean<f32>>(call, x, dims, out),
        _ => reduce::<Mean<f64>>(call, x, dims, out),
    }
}

fn prod(call: &mut Call<'_>, dims: Option<usize>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let keep = dims.is_some() && call.bool(2)?;
    let dims = Dims::new(call, &x, dims, keep)?;
    compute!(total_type(call, &x, out)?, 0, C => reduce::<Prod<C>>(call, x, dims, out))
}

fn extreme(call: &mut Call<'_>, max: bool, dims: Option<usize>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let keep = dims.is_some() && call.bool(2)?;
    let dims = Dims::new(call, &x, dims, keep)?;
    if dims.count(&x) == 0 && dims.sizes.numel() != Some(0) {
        return Err(Fault::argument(0, "the largest or smallest of no elements does not exist"));
    }
    compute!(x.dtype, 0, C => {
        if max { reduce::<Max<C>>(call, x, dims, out) } else { reduce::<Min<C>>(call, x, dims, out) }
    })
}

/// Smallest and largest, each reduced by itself.
fn both_scratch(args: &Args<'_>) -> usize {
    scratch(args, &[3]).saturating_add(scratch(args, &[4]))
}

fn both_extremes(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let dims = Dims::new(call, &x, Some(1), call.bool(2)?)?;
    if dims.count(&x) == 0 && dims.sizes.numel() != Some(0) {
        return Err(Fault::argument(0, "the largest or smallest of no elements does not exist"));
    }
    compute!(x.dtype, 0, C => {
        reduce::<Min<C>>(call, x, dims, 3)?;
        reduce::<Max<C>>(call, x, dims, 4)
    })
}

fn any(call: &mut Call<'_>, dims: Option<usize>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let keep = dims.is_some() && call.bool(2)?;
    let dims = Dims::new(call, &x, dims, keep)?;
    compute!(x.dtype, 0, C => reduce::<Any<C>>(call, x, dims, out))
}

fn all(call: &mut Call<'_>, dims: Option<usize>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let keep = dims.is_some() && call.bool(2)?;
    let dims = Dims::new(call, &x, dims, keep)?;
    compute!(x.dtype, 0, C => reduce::<All<C>>(call, x, dims, out))
}

/// The dimension of argument `argument`, with the elements before and after it in row-major order.
fn axis(call: &Call<'_>, x: &Tensor<'_>, argument: usize) -> Result<(usize, Axis), Fault> {
    let rank = x.shape.rank();
    let dim =
        normalize_dim(call.int(argument)?, rank).ok_or(Fault::argument(argument, "there is no such dimension"))?;
    Ok((dim, if rank == 0 { Axis::rows(1, 1) } else { Axis::of(x.sizes(), dim..dim + 1) }))
}

fn argument<const MAX: bool>(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let keep = call.bool(2)?;
    let dims = Dims::new(call, &x, Some(1), keep)?;
    let axis = if call.is_none(1)? { Axis::rows(1, x.numel()) } else { axis(call, &x, 1)?.1 };
    let x = row_major(call, x)?;
    compute!(x.dtype, 0, C => {
        let data = converted::<C>(call, 0, x)?;
        let out = call.out(3, &dims.sizes)?;
        if axis.n == 0 && out.numel() > 0 {
            return Err(Fault::argument(0, "the largest or smallest of no elements does not exist"));
        }
        let indices = call.scratch(out.numel().saturating_mul(8))?;
        let indices = view_mut::<i64>(indices).ok_or(misaligned(3))?;
        reduce::arg_reduce::<C, MAX>(Isa::detect(), call.parallel(), axis, data, indices, None);
        store_row_major(call, 3, indices, out)
    })
}

fn extreme_of<const MAX: bool>(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let dims = Dims::new(call, &x, Some(1), call.bool(2)?)?;
    let (_, axis) = axis(call, &x, 1)?;
    let x = row_major(call, x)?;
    compute!(x.dtype, 0, C => {
        let data = converted::<C>(call, 0, x)?;
        let (out, index_out) = (call.out(3, &dims.sizes)?, call.out(4, &dims.sizes)?);
        if axis.n == 0 && out.numel() > 0 {
            return Err(Fault::argument(0, "the largest or smallest of no elements does not exist"));
        }
        let values = call.scratch(out.numel().saturating_mul(size_of::<C>()))?;
        let indices = call.scratch(out.numel().saturating_mul(8))?;
        let values = view_mut::<C>(values).ok_or(misaligned(3))?;
        let indices = view_mut::<i64>(indices).ok_or(misaligned(4))?;
        reduce::arg_reduce::<C, MAX>(Isa::detect(), call.parallel(), axis, data, indices, Some(&mut *values));
        store_row_major(call, 3, values, out)?;
        store_row_major(call, 4, indices, index_out)
    })
}

/// Which spread of elements is wanted.
#[derive(Clone, Copy)]
struct Spread {
    /// How many less than the elements the sum of squares is divided by.
    correction: f64,
    /// Whether the root is taken: the deviation, not the variance.
    root: bool,
    /// The output for the mean, where it is wanted too.
    mean: Option<usize>,
}

fn var(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let dims = Dims::new(call, &x, Some(1), call.bool(3)?)?;
    spread(call, x, dims, Spread { correction: f64::from(u8::from(call.bool(2)?)), root: false, mean: None })
}

/// With the correction in argument 2, 1 if absent.
fn corrected(call: &mut Call<'_>, root: bool, mean: Option<usize>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let dims = Dims::new(call, &x, Some(1), call.bool(3)?)?;
    let correction = call.optional(2, |args, i| args.scalar(i))?.map_or(1.0, |scalar| scalar.to_f64());
    spread(call, x, dims, Spread { correction, root, mean })
}

/// The spread into argument 4, over elements gathered so that what is reduced comes last.
fn spread<'c>(call: &mut Call<'c>, x: Tensor<'c>, dims: Dims, wanted: Spread) -> Result<(), Fault> {
    let axis = Axis::rows(dims.sizes.numel().unwrap_or(0), dims.count(&x));
    let gathered = reduced_last(call, x, dims)?;
    match x.dtype {
        ScalarType::Float | ScalarType::Half | ScalarType::BFloat16 => {
            spread_in::<f32>(call, gathered, axis, dims, wanted)
        }
        ScalarType::Double => spread_in::<f64>(call, gathered, axis, dims, wanted),
        other => Err(crate::typed::unsupported(0, other)),
    }
}

fn spread_in<'c, T: Typed + sconce_kernels::Float + sconce_kernels::math::Math>(
    call: &mut Call<'c>,
    x: Tensor<'c>,
    axis: Axis,
    dims: Dims,
    wanted: Spread,
) -> Result<(), Fault> {
    let data = converted::<T>(call, 0, x)?;
    let bytes = axis.outer.saturating_mul(size_of::<T>());
    let variances = view_mut::<T>(call.scratch(bytes)?).ok_or(misaligned(4))?;
    let means = view_mut::<T>(call.scratch(bytes)?).ok_or(misaligned(4))?;
    reduce::variance(Isa::detect(), call.parallel(), axis, wanted.correction, data, variances, Some(&mut *means));
    if wanted.root {
        variances.iter_mut().for_each(|variance| *variance = T::from_f64(libm::sqrt(variance.to_f64())));
    }
    let target = call.out(4, &dims.sizes)?;
    store_row_major(call, 4, variances, target)?;
    if let Some(mean) = wanted.mean {
        let target = call.out(mean, &dims.sizes)?;
        store_row_major(call, mean, means, target)?;
    }
    Ok(())
}

/// A copy of the tensor, row-major, with the reduced dimensions last; the tensor itself where it is so already.
pub(crate) fn reduced_last<'c>(call: &mut Call<'c>, x: Tensor<'c>, dims: Dims) -> Result<Tensor<'c>, Fault> {
    let rank = x.shape.rank();
    let mut walk = Walk::default();
    let strides = x.shape.strides();
    let order = (0..rank).filter(|&dim| !dims.is_reduced(dim)).chain((0..rank).filter(|&dim| dims.is_reduced(dim)));
    for dim in order {
        walk.push(x.sizes()[dim], strides[dim]);
    }
    let target = sconce_core::Shape::contiguous(&walk.sizes[..rank]).unwrap_or(x.shape);
    if walk.strides[..rank] == target.strides()[..rank] {
        return Ok(Tensor { shape: target, ..x });
    }
    let scratch = call.scratch(x.data.len())?;
    let to = target.strides();
    let copy = sconce_kernels::copy::Copy {
        shape: &walk.sizes[..rank],
        from_strides: &walk.strides[..rank],
        to_strides: &to[..rank],
    };
    sconce_kernels::copy::copy(Isa::detect(), call.parallel(), x.dtype.size(), &copy, x.data, scratch);
    Ok(Tensor { dtype: x.dtype, shape: target, data: scratch })
}
