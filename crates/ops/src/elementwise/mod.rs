//! Element-wise operators: one engine, three compute types.
//!
//! ```text
//! operands (any type, any strides) ──load──▶ [C; CHUNK] ──f──▶ [O; CHUNK] ──store──▶ output (any type)
//! ```
//!
//! Compiling every operator for every combination of element types would be thousands of loops. Here only three types
//! compute: `f32` (also for half and bfloat16), `f64` and `i64` (for all integers and truth values). The output is walked
//! in memory order in short chunks; an operand that is contiguous and of the compute type is used where it is, any other
//! is converted into a chunk on the stack, which stays in the first-level cache. So an operator is compiled three times,
//! conversions once per pair of types, and mixed types, broadcasting and layouts cost no code.
pub(crate) mod binary;
pub(crate) mod compare;
pub(crate) mod select;
pub(crate) mod unary;

use crate::operands::{meet, misaligned};
use crate::typed::{Typed, for_dtype};
use sconce_core::{Fault, Parallel, Scalar, Serial, Shape, Tensor, TensorMut};
use sconce_kernels::map::Broadcast;
use sconce_kernels::view::{bytes_of, view, view_mut};
use sconce_kernels::{Isa, convert, split};
use sconce_schema::Operand;

/// Elements that are converted at a time.
const CHUNK: usize = 256;
/// Elements of a task, and from how many on threads pay.
const GRAIN: usize = 16 * 1024;

/// What an element-wise operator reads: a tensor, or a number that stands for a tensor without dimensions.
#[derive(Clone, Copy)]
pub(crate) enum Source<'c> {
    Tensor(Tensor<'c>),
    Scalar(Scalar),
}

impl Source<'_> {
    /// How the operand counts when types are promoted.
    pub(crate) fn operand(&self) -> Operand {
        use sconce_core::ScalarType::{Bool, Float, Long};
        match self {
            Source::Tensor(tensor) => Operand::tensor(tensor.dtype, tensor.shape.rank()),
            Source::Scalar(Scalar::Int(_)) => Operand::Scalar(Long),
            Source::Scalar(Scalar::Double(_)) => Operand::Scalar(Float),
            Source::Scalar(Scalar::Bool(_)) => Operand::Scalar(Bool),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self {
            Source::Tensor(tensor) => tensor.shape,
            Source::Scalar(_) => Shape::SCALAR,
        }
    }
}

/// Converts `into.len()` elements, `step` apart from element `at` on.
type Load<C> = fn(data: &[u8], at: usize, step: usize, into: &mut [C]);

fn load<T: Typed, C: Typed>(data: &[u8], at: usize, step: usize, into: &mut [C]) {
    let Some(from) = view::<T>(data).and_then(|from| from.get(at..)) else { return };
    match step {
        0 => into.fill(from.first().map_or(C::ZERO, |&value| convert(value))),
        1 => into.iter_mut().zip(from).for_each(|(into, &value)| *into = convert(value)),
        _ => into.iter_mut().zip(from.iter().step_by(step)).for_each(|(into, &value)| *into = convert(value)),
    }
}

/// An operand as the engine sees it.
struct Reader<'c, C> {
    data: &'c [u8],
    load: Load<C>,
    /// The elements themselves, where they are of the compute type.
    direct: Option<&'c [C]>,
}

impl<'c, C: Typed> Reader<'c, C> {
    fn new(argument: usize, source: &'c Source<'c>, scalar: &'c mut C) -> Result<Self, Fault> {
        match source {
            Source::Scalar(value) => {
                *scalar = if C::INTEGER { C::from_i64(value.to_i64()) } else { C::from_f64(value.to_f64()) };
                let direct = core::slice::from_ref(&*scalar);
                Ok(Self { data: bytes_of(direct), load: load::<C, C>, direct: Some(direct) })
            }
            Source::Tensor(tensor) => for_dtype!(numbers, tensor.dtype, argument, T => {
                view::<T>(tensor.data).ok_or(misaligned(argument))?;
                let direct = if tensor.dtype == C::DTYPE { view::<C>(tensor.data) } else { None };
                Ok(Self { data: tensor.data, load: load::<T, C>, direct })
            }),
        }
    }
}

/// Runs `f` over operands and output. `f` gets slices of equal length.
pub(crate) fn run<C: Typed, O: Typed, const N: usize>(
    parallel: &dyn Parallel,
    sources: [Source<'_>; N],
    out_argument: usize,
    out: TensorMut<'_>,
    f: impl Fn([&[C]; N], &mut [O]) + Sync,
) -> Result<(), Fault> {
    let shapes = sources.map(|source| source.shape());
    let walk = meet(&out.shape, shapes.each_ref())?;
    let mut scalars = [C::ZERO; N];
    let mut readers: [Option<Reader<'_, C>>; N] = [const { None }; N];
    for (argument, ((reader, source), scalar)) in readers.iter_mut().zip(&sources).zip(&mut scalars).enumerate() {
        *reader = Some(Reader::new(argument, source, scalar)?);
    }
    let readers = readers.each_ref().map(|reader| reader.as_ref());
    let parallel = if walk.len() > 2 * GRAIN { parallel } else { &Serial };
    for_dtype!(numbers, out.dtype, out_argument, T => {
        let target = view_mut::<T>(out.data).ok_or(misaligned(out_argument))?;
        let isa = Isa::detect();
        split::chunks(parallel, target, GRAIN, |task, target| {
            isa.vectorize(#[inline(always)] || walk_chunks(&walk, &readers, task * GRAIN, target, &f));
        });
        Ok(())
    })
}

/// Walks one task's part of the output, chunk by chunk.
#[inline(always)]
fn walk_chunks<C: Typed, O: Typed, T: Typed, const N: usize>(
    walk: &Broadcast<N>,
    readers: &[Option<&Reader<'_, C>>; N],
    start: usize,
    target: &mut [T],
    f: &impl Fn([&[C]; N], &mut [O]),
) {
    let mut buffers = [[C::ZERO; CHUNK]; N];
    let mut results = [O::ZERO; CHUNK];
    walk.rows(start..start + target.len(), |row, len, offsets, steps| {
        let mut at = 0;
        while at < len {
            let count = (len - at).min(CHUNK);
            let mut slices: [&[C]; N] = [&[]; N];
            for (n, ((slice, buffer), reader)) in slices.iter_mut().zip(&mut buffers).zip(readers).enumerate() {
                let Some(reader) = reader else { continue };
                let first = offsets[n] + at * steps[n];
                let direct = reader.direct.filter(|_| steps[n] == 1).and_then(|all| all.get(first..first + count));
                *slice = match direct {
                    Some(slice) => slice,
                    None => {
                        (reader.load)(reader.data, first, steps[n], &mut buffer[..count]);
                        &buffer[..count]
                    }
                };
            }
            let chunk = &mut target[row + at..row + at + count];
            match view_mut::<O>(sconce_kernels::view::bytes_of_mut(&mut *chunk)).filter(|_| T::DTYPE == O::DTYPE) {
                Some(direct) => f(slices, direct),
                None => {
                    f(slices, &mut results[..count]);
                    chunk.iter_mut().zip(&results).for_each(|(chunk, &result)| *chunk = convert(result));
                }
            }
            at += count;
        }
    });
}

/// Runs an expression with `$C` standing for the type in which elements of a type compute.
macro_rules! compute {
    ($dtype:expr, $argument:expr, $C:ident => $body:expr) => {
        match $dtype {
            sconce_core::ScalarType::Double => {
                type $C = f64;
                $body
            }
            dtype if dtype.is_floating() => {
                type $C = f32;
                $body
            }
            dtype if dtype.is_integral(true) => {
                type $C = i64;
                $body
            }
            other => Err(crate::typed::unsupported($argument, other)),
        }
    };
}
pub(crate) use compute;

/// Applies a function of one number to all.
#[inline(always)]
pub(crate) fn each1<C: Copy, O>([x]: [&[C]; 1], out: &mut [O], f: impl Fn(C) -> O) {
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = f(x));
}

/// Applies a function of two numbers to all pairs.
#[inline(always)]
pub(crate) fn each2<C: Copy, O>([a, b]: [&[C]; 2], out: &mut [O], f: impl Fn(C, C) -> O) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (&a, &b))| *out = f(a, b));
}

/// Applies a function of three numbers to all triples.
#[inline(always)]
pub(crate) fn each3<C: Copy, O>([a, b, c]: [&[C]; 3], out: &mut [O], f: impl Fn(C, C, C) -> O) {
    out.iter_mut().zip(a.iter().zip(b).zip(c)).for_each(|(out, ((&a, &b), &c))| *out = f(a, b, c));
}
