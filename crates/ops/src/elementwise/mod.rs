//! Element-wise operators: one engine, three compute types.
//!
//! ```text
//! operands (any type, any strides) ──load──▶ [C; CHUNK] ──f──▶ [O; CHUNK] ──store──▶ output (any type)
//! ```
//!
//! Compiling every operator for every combination of element types would be thousands of loops. Here only three types
//! compute: `f32` (also for half and bfloat16), `f64` and `i64` (for all integers and truth values). The output is walked
//! in memory order in short chunks; an operand that is contiguous and of the compute type is used where it is, any other
//! is converted into a chunk on the stack, which stays in the first-level cache. Where none is, a row is one chunk. So an
//! operator is compiled three times, conversions once per pair of types, and mixed types, broadcasting and layouts cost no
//! code. What is compiled per operator is the loop over a chunk and nothing else; everything around it calls that loop
//! through a pointer.
pub(crate) mod binary;
pub(crate) mod compare;
pub(crate) mod functions;
pub(crate) mod gated;
pub(crate) mod polynomials;
pub(crate) mod select;
pub(crate) mod unary;

use crate::operands::{meet, misaligned};
use crate::typed::{Typed, for_dtype};
use sconce_core::{Fault, Parallel, Scalar, ScalarType, Serial, Shape, Tensor, TensorMut};
use sconce_kernels::cast::cast_slice;
use sconce_kernels::map::Broadcast;
use sconce_kernels::view::{bytes_of, view, view_mut};
use sconce_kernels::{Isa, convert, split};
use sconce_schema::Operand;

/// Elements that are converted at a time.
pub(crate) const CHUNK: usize = 512;
/// Elements of a task, and from how many on threads pay.
pub(crate) const GRAIN: usize = 16 * 1024;

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
pub(crate) type Load<C> = fn(isa: Isa, data: &[u8], at: usize, step: usize, into: &mut [C]);

fn load<T: Typed, C: Typed>(isa: Isa, data: &[u8], at: usize, step: usize, into: &mut [C]) {
    let Some(from) = view::<T>(data).and_then(|from| from.get(at..)) else { return };
    match step {
        0 => into.fill(from.first().map_or(C::ZERO, |&value| convert(value))),
        1 => cast_slice(isa, from, into),
        _ => into.iter_mut().zip(from.iter().step_by(step)).for_each(|(into, &value)| *into = convert(value)),
    }
}

/// How elements of a type are read from `data`, which must be aligned for them.
pub(crate) fn loader<C: Typed>(argument: usize, dtype: ScalarType, data: &[u8]) -> Result<Load<C>, Fault> {
    for_dtype!(numbers, dtype, argument, T => {
        view::<T>(data).map(|_| load::<T, C> as Load<C>).ok_or(misaligned(argument))
    })
}

/// How elements of a type are written to `data`, which must be aligned for them.
pub(crate) fn storer<O: Typed>(argument: usize, dtype: ScalarType, data: &[u8]) -> Result<Store<O>, Fault> {
    for_dtype!(numbers, dtype, argument, T => {
        view::<T>(data).map(|_| store::<O, T> as Store<O>).ok_or(misaligned(argument))
    })
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
            Source::Tensor(tensor) => {
                let load = loader(argument, tensor.dtype, tensor.data)?;
                let direct = if tensor.dtype == C::DTYPE { view::<C>(tensor.data) } else { None };
                Ok(Self { data: tensor.data, load, direct })
            }
        }
    }
}

impl<'c, C: Typed> Reader<'c, C> {
    /// `count` elements, `step` apart from element `first` on, where they lie side by side in the compute type.
    fn in_place(&self, first: usize, step: usize, count: usize) -> Option<&'c [C]> {
        self.direct.filter(|_| step == 1).and_then(|all| all.get(first..first + count))
    }
}

/// What happens to a chunk: `[C]` operands become `[O]` results.
type Body<'f, C, O, const N: usize> = &'f (dyn Fn([&[C]; N], &mut [O]) + Sync);

/// Converts results into an output's bytes.
pub(crate) type Store<O> = fn(isa: Isa, results: &[O], into: &mut [u8]);

fn store<O: Typed, T: Typed>(isa: Isa, results: &[O], into: &mut [u8]) {
    if let Some(into) = view_mut::<T>(into) {
        cast_slice(isa, results, into);
    }
}

/// Runs `f` over operands and output. `f` gets slices of equal length; it is compiled for every instruction set.
pub(crate) fn run<C: Typed, O: Typed, const N: usize>(
    parallel: &dyn Parallel,
    sources: [Source<'_>; N],
    out_argument: usize,
    out: TensorMut<'_>,
    f: impl Fn([&[C]; N], &mut [O]) + Sync,
) -> Result<(), Fault> {
    let isa = Isa::detect();
    let body = |operands: [&[C]; N], results: &mut [O]| {
        isa.vectorize(
            #[inline(always)]
            || f(operands, results),
        )
    };
    run_body(isa, parallel, sources, out_argument, out, &body)
}

/// [`run`], compiled once for all operators.
fn run_body<C: Typed, O: Typed, const N: usize>(
    isa: Isa,
    parallel: &dyn Parallel,
    sources: [Source<'_>; N],
    out_argument: usize,
    out: TensorMut<'_>,
    body: Body<'_, C, O, N>,
) -> Result<(), Fault> {
    let shapes = sources.map(|source| source.shape());
    let walk = meet(&out.shape, shapes.each_ref())?;
    let mut scalars = [C::ZERO; N];
    let mut readers: [Option<Reader<'_, C>>; N] = [const { None }; N];
    for (argument, ((reader, source), scalar)) in readers.iter_mut().zip(&sources).zip(&mut scalars).enumerate() {
        *reader = Some(Reader::new(argument, source, scalar)?);
    }
    let store = storer(out_argument, out.dtype, out.data)?;
    let engine =
        Engine { isa, readers: readers.each_ref().map(Option::as_ref), store, direct: out.dtype == O::DTYPE, body };
    let parallel = if walk.len() > 2 * GRAIN { parallel } else { &Serial };
    let size = out.dtype.size();
    split::chunks(parallel, out.data, GRAIN * size, |task, target| engine.task(&walk, task * GRAIN, size, target));
    Ok(())
}

/// Everything a task needs.
struct Engine<'e, C, O, const N: usize> {
    isa: Isa,
    readers: [Option<&'e Reader<'e, C>>; N],
    store: Store<O>,
    /// Whether the output is of the result type.
    direct: bool,
    body: Body<'e, C, O, N>,
}

impl<C: Typed, O: Typed, const N: usize> Engine<'_, C, O, N> {
    /// Walks one task's part of the output, chunk by chunk.
    fn task(&self, walk: &Broadcast<N>, start: usize, size: usize, target: &mut [u8]) {
        let (mut buffers, mut results) = (None, None);
        walk.rows(start..start + target.len() / size, |row, len, offsets, steps| {
            let in_place: [Option<&[C]>; N] =
                core::array::from_fn(|n| self.readers[n].and_then(|reader| reader.in_place(offsets[n], steps[n], len)));
            // Operands that need a buffer share all there are; where none does a row need not be cut.
            let (buffer, room): (&mut [C], usize) = match in_place.iter().filter(|operand| operand.is_none()).count() {
                0 => (&mut [], len.max(1)),
                count => (buffers.get_or_insert([[C::ZERO; CHUNK]; N]).as_flattened_mut(), N * CHUNK / count),
            };
            let stretch = if self.direct { room } else { room.min(CHUNK) };
            for at in (0..len).step_by(stretch) {
                let count = (len - at).min(stretch);
                let mut parts = buffer.chunks_exact_mut(stretch);
                let slices: [&[C]; N] = core::array::from_fn(|n| match (in_place[n], self.readers[n]) {
                    (Some(row), _) => &row[at..at + count],
                    (None, Some(reader)) => {
                        let part = parts.next().map_or(&mut [][..], |part| &mut part[..count]);
                        // A repeated element is in the buffer already where the row has begun.
                        if steps[n] > 0 || at == 0 {
                            (reader.load)(self.isa, reader.data, offsets[n] + at * steps[n], steps[n], part);
                        }
                        part
                    }
                    (None, None) => &[],
                });
                let chunk = &mut target[(row + at) * size..(row + at + count) * size];
                match view_mut::<O>(chunk).filter(|_| self.direct) {
                    Some(direct) => (self.body)(slices, direct),
                    None => {
                        let chunk = &mut target[(row + at) * size..(row + at + count) * size];
                        let results = &mut results.get_or_insert([O::ZERO; CHUNK])[..count];
                        (self.body)(slices, results);
                        (self.store)(self.isa, results, chunk);
                    }
                }
            }
        });
    }
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
    for (out, &x) in out.iter_mut().zip(x) {
        *out = f(x);
    }
}

/// Applies a function of two numbers to all pairs.
#[inline(always)]
pub(crate) fn each2<C: Copy, O>([a, b]: [&[C]; 2], out: &mut [O], f: impl Fn(C, C) -> O) {
    for (out, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
        *out = f(a, b);
    }
}

/// Applies a function of three numbers to all triples.
#[inline(always)]
pub(crate) fn each3<C: Copy, O>([a, b, c]: [&[C]; 3], out: &mut [O], f: impl Fn(C, C, C) -> O) {
    for (out, ((&a, &b), &c)) in out.iter_mut().zip(a.iter().zip(b).zip(c)) {
        *out = f(a, b, c);
    }
}
