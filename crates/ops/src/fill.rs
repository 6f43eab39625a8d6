//! Tensors made from numbers: constants, ranges, random values.
//!
//! Random values come from a counter through a mixing function, so that every element is a pure function of a seed, the
//! call and the element's position: the same on every machine and with any number of threads, and not the values of
//! PyTorch's generators. [`seed_random`] starts the sequence of calls anew.
use crate::elementwise::{Source, compute, each1, run};
use crate::operands::misaligned;
use crate::ops;
use crate::strided::{Target, copy_element, offsets};
use crate::typed::{Typed, for_dtype};
use core::sync::atomic::{AtomicU32, Ordering};
use sconce_core::{Call, Code, Fault, Ints, MAX_RANK, Op, Parallel, Scalar, ScalarType, Serial, TensorMut};
use sconce_kernels::view::{bytes_of, view_mut};
use sconce_kernels::{Number, split};

/// Constants, ranges, random values.
pub(crate) static OPS: &[Op] = ops! {
    "aten::full.out" [4] writes [2] => |call| constant(call, 2, |call| call.scalar(1));
    "aten::zeros.out" [3] writes [1] => |call| constant(call, 1, |_| Ok(Scalar::Int(0)));
    "aten::ones.out" [3] writes [1] => |call| constant(call, 1, |_| Ok(Scalar::Int(1)));
    "aten::full_like.out" [5] writes [3] => |call| constant_like(call, 3);
    "aten::fill.Scalar_out" [4] writes [2] => |call| constant_like(call, 2);
    "aten::fill.Tensor_out" [4] writes [2] => fill_with_tensor;
    "aten::scalar_tensor.out" [3] writes [1] => scalar_tensor;
    "aten::empty.out" [4] writes [2] => |call| sized(call, 2).map(drop);
    "aten::empty_permuted.out" [4] writes [2] => |call| sized(call, 2).map(drop);
    "dim_order_ops::_empty_dim_order.out" [4] writes [2] => |call| sized(call, 2).map(drop);
    "aten::arange.out" [3] writes [1] => |call| arange(call, Scalar::Int(0), call.scalar(0)?, Scalar::Int(1), 1);
    "aten::arange.start_out" [5] writes [3] => |call| {
        arange(call, call.scalar(0)?, call.scalar(1)?, call.scalar(2)?, 3)
    };
    "aten::linspace.out" [5] writes [3] => |call| linspace(call, None, 3);
    "aten::logspace.out" [6] writes [4] => |call| linspace(call, Some(call.double(3)?), 4);
    "aten::eye.out" [3] writes [1] => |call| identity(call, 0, 1);
    "aten::eye.m_out" [4] writes [2] => |call| identity(call, 1, 2);
    "aten::rand.out" [3] writes [1] => |call| random(sized(call, 1)?, 1, Distribution::Uniform);
    "aten::randn.out" [3] writes [1] => |call| random(sized(call, 1)?, 1, Distribution::Normal);
    "aten::rand_like.out" [4] writes [2] => |call| random(alike(call, 2)?, 2, Distribution::Uniform);
    "aten::randn_like.out" [4] writes [2] => |call| random(alike(call, 2)?, 2, Distribution::Normal);
    "aten::randint.out" [4] writes [2] => |call| random_whole(call, None, 0, 2);
    "aten::randint.low_out" [5] writes [3] => |call| random_whole(call, Some(0), 1, 3);
    "aten::randint_like.out" [5] writes [3] => |call| random_whole(call, None, 1, 3);
    "aten::randint_like.low_dtype_out" [6] writes [4] => |call| random_whole(call, Some(1), 2, 4);
    "aten::randperm.out" [3] writes [1] => random_permutation;
    "aten::tril_indices.out" [5] writes [3] => |call| triangle(call, true);
    "aten::triu_indices.out" [5] writes [3] => |call| triangle(call, false);
};

/// Sizes that a program gives, if they can be.
fn sizes(ints: &Ints) -> Result<([usize; MAX_RANK], usize), Fault> {
    let mut sizes = [0; MAX_RANK];
    for (size, &int) in sizes.iter_mut().zip(ints.iter()) {
        *size = usize::try_from(int).map_err(|_| Fault::argument(0, "{} is not a size").with_signed([int]))?;
    }
    Ok((sizes, ints.len()))
}

/// The output with the sizes of list argument 0.
fn sized<'c>(call: &mut Call<'c>, out: usize) -> Result<TensorMut<'c>, Fault> {
    sized_by(call, 0, out)
}

/// The output with the sizes of a list argument.
pub(crate) fn sized_by<'c>(call: &mut Call<'c>, argument: usize, out: usize) -> Result<TensorMut<'c>, Fault> {
    let (sizes, rank) = sizes(&call.ints(argument)?).map_err(|fault| fault.at(argument))?;
    call.out(out, &sizes[..rank])
}

/// The output with the sizes of tensor argument 0.
fn alike<'c>(call: &mut Call<'c>, out: usize) -> Result<TensorMut<'c>, Fault> {
    let (_, shape) = call.tensor_type(0)?;
    call.out(out, shape.sizes())
}

/// The bytes of a number as an element of a type. A complex element has the number as its real part.
pub(crate) fn element_bytes(argument: usize, dtype: ScalarType, value: Scalar) -> Result<[u8; 16], Fault> {
    let mut bytes = [0; 16];
    for_dtype!(numbers, dtype.real(), argument, T => {
        let number = match value {
            Scalar::Double(value) => T::from_f64(value),
            whole => T::from_i64(whole.to_i64()),
        };
        bytes.iter_mut().zip(bytes_of(&[number])).for_each(|(byte, &value)| *byte = value);
        Ok(bytes)
    })
}

/// Elements of a task.
const GRAIN: usize = 32 * 1024;

/// Repeats an element all over.
fn fill(parallel: &dyn Parallel, data: &mut [u8], element: &[u8]) {
    fn sized<const N: usize>(parallel: &dyn Parallel, data: &mut [u8], element: &[u8]) {
        let data = data.as_chunks_mut::<N>().0;
        let Some(&element) = element.first_chunk::<N>() else { return };
        let parallel = if data.len() > 2 * GRAIN { parallel } else { &Serial };
        split::chunks(parallel, data, GRAIN, |_, data| data.fill(element));
    }
    match element.len() {
        1 => sized::<1>(parallel, data, element),
        2 => sized::<2>(parallel, data, element),
        4 => sized::<4>(parallel, data, element),
        8 => sized::<8>(parallel, data, element),
        _ => sized::<16>(parallel, data, element),
    }
}

fn fill_output(call: &Call<'_>, argument: usize, out: TensorMut<'_>, value: Scalar) -> Result<(), Fault> {
    let bytes = element_bytes(argument, out.dtype, value)?;
    fill(call.parallel(), out.data, &bytes[..out.dtype.size().min(16)]);
    Ok(())
}

fn constant(
    call: &mut Call<'_>,
    out: usize,
    value: impl FnOnce(&Call<'_>) -> Result<Scalar, Fault>,
) -> Result<(), Fault> {
    let value = value(call)?;
    let target = sized(call, out)?;
    fill_output(call, out, target, value)
}

/// Argument 1 in the sizes of tensor argument 0.
fn constant_like(call: &mut Call<'_>, out: usize) -> Result<(), Fault> {
    let ((_, shape), value) = (call.tensor_type(0)?, call.scalar(1)?);
    let target = call.out(out, shape.sizes())?;
    fill_output(call, out, target, value)
}

fn fill_with_tensor(call: &mut Call<'_>) -> Result<(), Fault> {
    let ((_, shape), value) = (call.tensor_type(0)?, call.tensor(1)?);
    if value.shape.rank() > 0 {
        return Err(Fault::argument(1, "the value must be a tensor without dimensions"));
    }
    let target = call.out(2, shape.sizes())?;
    compute!(value.dtype, 1, C => {
        run(call.parallel(), [Source::Tensor(value)], 2, target, #[inline(always)] |x, out| each1(x, out, #[inline(always)] |x: C| x))
    })
}

/// A number as a tensor without dimensions.
fn scalar_tensor(call: &mut Call<'_>) -> Result<(), Fault> {
    let value = call.scalar(0)?;
    let target = call.out(1, &[])?;
    fill_output(call, 1, target, value)
}

/// `start, start + step, ...` before `end`. Integers stay exact; anything else is counted in double precision.
fn arange(call: &mut Call<'_>, start: Scalar, end: Scalar, step: Scalar, out: usize) -> Result<(), Fault> {
    let no_range = Fault::new(Code::InvalidArgument, "the range has no end, or more elements than can be counted");
    let integers = [start, end, step].iter().all(|scalar| matches!(scalar, Scalar::Int(_)));
    let (first, last, by) = (start.to_f64(), end.to_f64(), step.to_f64());
    if (last < first && by > 0.0) || (last > first && by < 0.0) {
        return Err(Fault::new(Code::InvalidArgument, "the range's step leads away from its end"));
    }
    let count = if integers {
        let span = i128::from(end.to_i64()) - i128::from(start.to_i64());
        let by = i128::from(step.to_i64());
        let count = span.checked_div(by).ok_or(no_range)?;
        usize::try_from(count + i128::from(count * by != span)).map_err(|_| no_range)?
    } else {
        let count = libm::ceil((last - first) / by);
        // Beyond 2^53 elements nothing would fit, and counts are not exact.
        if !(0.0..9e15).contains(&count) {
            return Err(no_range);
        }
        usize::try_from(count as u64).map_err(|_| no_range)?
    };
    let target = call.out(out, &[count])?;
    for_dtype!(numbers, target.dtype, out, T => {
        let elements = view_mut::<T>(target.data).ok_or(misaligned(out))?;
        if integers {
            let (start, step) = (start.to_i64(), step.to_i64());
            each(elements, |i| T::from_i64(start.wrapping_add(step.wrapping_mul(i as i64))));
        } else {
            each(elements, |i| T::from_f64(first + by * i as f64));
        }
        Ok(())
    })
}

/// Numbers at equal distances from argument 0 to argument 1, both included; with a base, its powers.
fn linspace(call: &mut Call<'_>, base: Option<f64>, out: usize) -> Result<(), Fault> {
    let (first, last, count) = (call.scalar(0)?.to_f64(), call.scalar(1)?.to_f64(), call.int(2)?);
    let len =
        usize::try_from(count).map_err(|_| Fault::argument(2, "{} is not a number of steps").with_signed([count]))?;
    let target = call.out(out, &[len])?;
    let step = if len > 1 { (last - first) / (len - 1) as f64 } else { 0.0 };
    // From both ends, so that the last is exact too.
    let at =
        |i: usize| if i < len / 2 || len == 1 { first + step * i as f64 } else { last - step * (len - 1 - i) as f64 };
    for_dtype!(numbers, target.dtype, out, T => {
        let elements = view_mut::<T>(target.data).ok_or(misaligned(out))?;
        each(elements, |i| T::from_f64(base.map_or(at(i), |base| libm::pow(base, at(i)))));
        Ok(())
    })
}

/// Ones on the diagonal of a matrix, zeros elsewhere; as many rows as argument 0 and columns as argument `columns` say.
fn identity(call: &mut Call<'_>, columns: usize, out: usize) -> Result<(), Fault> {
    let natural = |argument| {
        let size = call.int(argument)?;
        usize::try_from(size).map_err(|_| Fault::argument(argument, "{} is not a size").with_signed([size]))
    };
    let sizes = [natural(0)?, natural(columns)?];
    let target = Target::from(call.out(out, &sizes)?);
    target.data.fill(0);
    let (one, size) = (element_bytes(out, target.dtype, Scalar::Int(1))?, target.dtype.size());
    let next = target.layout.strides().iter().sum::<usize>();
    for i in 0..sizes[0].min(sizes[1]) {
        copy_element(size, &one, 0, target.data, i * next);
    }
    Ok(())
}

fn each<T: Typed>(elements: &mut [T], f: impl Fn(usize) -> T) {
    elements.iter_mut().enumerate().for_each(|(i, element)| *element = f(i));
}

/// Names the next call's random values.
static STREAM: AtomicU32 = AtomicU32::new(0);

/// Starts the sequence of random calls anew: the same seed gives the same values, for every session of the process.
pub fn seed_random(seed: u32) {
    STREAM.store(seed, Ordering::Relaxed);
}

/// The stream of a call that draws; the next call has another.
pub(crate) fn next_stream() -> u32 {
    // Not an atomic addition, which small processors lack; two calls at once may then draw the same values.
    let stream = STREAM.load(Ordering::Relaxed);
    STREAM.store(stream.wrapping_add(0x9e37_79b9), Ordering::Relaxed);
    stream
}

/// Uniform in [0, 1), for an element of a call.
pub(crate) fn uniform(stream: u32, index: u64) -> f64 {
    bits(stream, index) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Normal with mean 0 and deviation 1, for an element of a call, by the Box-Muller transform.
pub(crate) fn normal(stream: u32, index: u64) -> f64 {
    let (radius, angle) = (uniform(stream, 2 * index), uniform(stream, 2 * index + 1));
    libm::sqrt(-2.0 * libm::log(1.0 - radius)) * libm::cos(core::f64::consts::TAU * angle)
}

/// 53 random bits for an element, by the finaliser of the SplitMix64 generator.
fn bits(stream: u32, index: u64) -> u64 {
    let mut x = (u64::from(stream) << 32).wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) >> 11
}

/// What random values are like.
#[derive(Clone, Copy, PartialEq)]
enum Distribution {
    /// Uniform in [0, 1).
    Uniform,
    /// Normal with mean 0 and deviation 1.
    Normal,
}

impl Distribution {
    fn draw(self, stream: u32, index: u64) -> f64 {
        match self {
            Distribution::Uniform => uniform(stream, index),
            Distribution::Normal => normal(stream, index),
        }
    }
}

fn random(target: TensorMut<'_>, out: usize, distribution: Distribution) -> Result<(), Fault> {
    let stream = next_stream();
    let target = Target::from(target);
    for_dtype!(floats, target.dtype, out, T => {
        let elements = view_mut::<T>(target.data).ok_or(misaligned(out))?;
        for (index, place) in offsets(&target.layout).enumerate() {
            let mut value = T::from_f64(distribution.draw(stream, index as u64));
            // Rounding to a short type must not reach the end that uniform values exclude.
            if distribution == Distribution::Uniform && value >= T::ONE {
                value = T::ZERO;
            }
            elements.get_mut(place).into_iter().for_each(|element| *element = value);
        }
        Ok(())
    })
}

/// Whole numbers from a low one (0 if absent) up to and without a high one. Sizes are those of the argument behind the
/// high one, or of tensor argument 0.
fn random_whole(call: &mut Call<'_>, low: Option<usize>, high: usize, out: usize) -> Result<(), Fault> {
    let low = low.map_or(Ok(0), |argument| call.int(argument))?;
    let limit = call.int(high)?;
    let range = u64::try_from(i128::from(limit) - i128::from(low)).ok().filter(|&range| range > 0);
    let range =
        range.ok_or(Fault::argument(high, "there are no numbers from {} to below {}").with_signed([low, limit]))?;
    let target = match call.tensor_type(0) {
        Ok(_) => alike(call, out)?,
        Err(_) => sized_by(call, high + 1, out)?,
    };
    let stream = next_stream();
    let target = Target::from(target);
    for_dtype!(numbers, target.dtype, out, T => {
        let elements = view_mut::<T>(target.data).ok_or(misaligned(out))?;
        for (index, place) in offsets(&target.layout).enumerate() {
            let value = low.wrapping_add_unsigned(bits(stream, index as u64) % range);
            elements.get_mut(place).into_iter().for_each(|element| *element = T::from_i64(value));
        }
        Ok(())
    })
}

/// The numbers below argument 0 in random order, by Fisher's and Yates' exchanges.
fn random_permutation(call: &mut Call<'_>) -> Result<(), Fault> {
    let count = call.int(0)?;
    let len = usize::try_from(count).map_err(|_| Fault::argument(0, "{} is not a number").with_signed([count]))?;
    let target = call.out(1, &[len])?;
    let stream = next_stream();
    for_dtype!(numbers, target.dtype, 1, T => {
        let elements = view_mut::<T>(target.data).ok_or(misaligned(1))?;
        each(elements, |i| T::from_i64(i as i64));
        for last in (1..len).rev() {
            let other = bits(stream, last as u64) % (last as u64 + 1);
            elements.swap(last, other as usize);
        }
        Ok(())
    })
}

/// The places of a triangle of a matrix, row by row: row numbers, then column numbers. The lower one ends at a diagonal,
/// the upper one begins there.
fn triangle(call: &mut Call<'_>, lower: bool) -> Result<(), Fault> {
    let natural = |argument| {
        let value = call.int(argument)?;
        u32::try_from(value).map_err(|_| Fault::argument(argument, "{} is not a size").with_signed([value]))
    };
    let (rows, columns, diagonal) = (i64::from(natural(0)?), i64::from(natural(1)?), call.int(2)?);
    let span = |row: i64| {
        let at = row.saturating_add(diagonal);
        if lower { 0..at.saturating_add(1).clamp(0, columns) } else { at.clamp(0, columns)..columns }
    };
    // The rows that have a part in it.
    let rows = match (columns, lower) {
        (0, _) => 0..0,
        (_, true) => diagonal.saturating_neg().clamp(0, rows)..rows,
        (_, false) => 0..columns.saturating_sub(diagonal).clamp(0, rows),
    };
    let count = |row| span(row).end - span(row).start;
    let total = usize::try_from(rows.clone().map(count).fold(0, i64::saturating_add)).unwrap_or(usize::MAX);
    let target = Target::from(call.out(3, &[2, total])?);
    let &[down, right] = target.layout.strides() else { return Ok(()) };
    let places = rows.flat_map(|row| span(row).map(move |column| (row, column)));
    for_dtype!(numbers, target.dtype, 3, T => {
        let elements = view_mut::<T>(target.data).ok_or(misaligned(3))?;
        for (i, (row, column)) in places.enumerate() {
            elements[i * right] = T::from_i64(row);
            elements[i * right + down] = T::from_i64(column);
        }
        Ok(())
    })
}
