//! Weights in small integers: embeddings and products that widen them on the way.
//!
//! A weight is rows of integers, with one scale (and perhaps one zero point) per row or per group of columns of a row.
//! Four-bit integers lie two in a byte, the first in the high half; two-bit ones four in a byte, the first in the lowest
//! bits; both are stored plus half their range.
use crate::dense::{buffer_bytes, convert_scratch, converted, floats, reorder_scratch, row_major, store, wide_bytes};
use crate::elementwise::{Source, each2, run};
use crate::operands::{broadcast_sizes, misaligned};
use crate::ops;
use crate::quantized::rounding;
use crate::typed::for_dtype;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::gemm::{Epilogue, Gemm, Init, Matrix, gemm, gemm_scratch};
use sconce_kernels::view::view_mut;
use sconce_kernels::{Isa, Number, split};
use sconce_schema::Sizes;

/// Embeddings and products with quantised weights.
pub(crate) static OPS: &[Op] = ops! {
    "quantized_decomposed::embedding_byte.out" [8] writes [6] scratch embedding_scratch, => |call| embedding(call, 8, 6);
    "quantized_decomposed::embedding_byte.dtype_out" [9] writes [7] scratch embedding_scratch, => |call| embedding(call, 8, 7);
    "quantized_decomposed::embedding_4bit.out" [8] writes [6] scratch embedding_scratch, => |call| embedding(call, 4, 6);
    "quantized_decomposed::embedding_4bit.dtype_out" [9] writes [7] scratch embedding_scratch, => |call| embedding(call, 4, 7);
    "quantized_decomposed::embedding_2bit.out" [8] writes [6] scratch embedding_scratch, => |call| embedding(call, 2, 6);
    "quantized_decomposed::embedding_2bit.dtype_out" [9] writes [7] scratch embedding_scratch, => |call| embedding(call, 2, 7);
    "quantized_decomposed::mixed_mm.out" [6] writes [4] scratch |args| product_scratch(args, 4), => |call| product(call, false, 4);
    "quantized_decomposed::mixed_linear.out" [7] writes [5] scratch |args| product_scratch(args, 5), => |call| product(call, true, 5);
    "quantized_decomposed::add.out" [16] writes [14] => add;
};

/// A quantised matrix.
struct Weights<'c> {
    bits: usize,
    signed: bool,
    data: &'c [u8],
    rows: usize,
    columns: usize,
    groups: usize,
    scales: &'c [f32],
    zero_points: Option<&'c [f32]>,
    /// Rounds to the type of the scales, in which PyTorch computes.
    round: fn(f32) -> f32,
}

/// Room for a weight's scales and zero points as float32, given as arguments `first` and the next.
fn parameter_scratch(args: &Args<'_>, first: usize) -> usize {
    [first, first + 1].iter().map(|&argument| convert_scratch(args, argument, &[])).fold(0, usize::saturating_add)
}

impl<'c> Weights<'c> {
    /// From the weight, its scales and its zero points: argument `first` and the next two.
    fn new(call: &mut Call<'c>, first: usize, bits: usize) -> Result<Self, Fault> {
        let (weight, scales) = (call.tensor(first)?, call.tensor(first + 1)?);
        let zero_points = call.optional_tensor(first + 2)?;
        let (&[rows, bytes], signed) = (weight.sizes(), weight.dtype == ScalarType::Char) else {
            return Err(
                Fault::argument(first, "a matrix is needed here, not {} dimensions").with([weight.shape.rank()])
            );
        };
        if ![ScalarType::Byte, ScalarType::Char].contains(&weight.dtype) || !weight.shape.is_contiguous() {
            return Err(Fault::argument(first, "row-major bytes are needed here"));
        }
        let groups = match *scales.sizes() {
            [of] if of == rows => 1,
            [of, groups] if of == rows => groups,
            _ => return Err(Fault::argument(first + 1, "scales for each of {} rows are needed here").with([rows])),
        };
        let columns = bytes.saturating_mul(8 / bits);
        if groups == 0 || !columns.is_multiple_of(groups) || zero_points.is_some_and(|z| z.numel() != scales.numel()) {
            let text = "{} columns cannot have {} scales, with as many zero points";
            return Err(Fault::argument(first + 1, text).with([columns, groups]));
        }
        let round = rounding(scales.dtype);
        let scales = row_major(call, scales)?;
        let scales = converted(call, first + 1, scales)?;
        let zero_points = match zero_points {
            Some(tensor) => {
                let tensor = row_major(call, tensor)?;
                Some(converted(call, first + 2, tensor)?)
            }
            None => None,
        };
        Ok(Self { bits, signed, data: weight.data, rows, columns, groups, scales, zero_points, round })
    }

    fn integer(&self, at: usize) -> i16 {
        let byte = |per: usize| self.data.get(at / per).copied().unwrap_or(0);
        match self.bits {
            2 => i16::from(byte(4) >> (at % 4 * 2) & 3) - 2,
            4 => i16::from(byte(2) >> ((1 - at % 2) * 4) & 15) - 8,
            _ if self.signed => i16::from(byte(1) as i8),
            _ => i16::from(byte(1)),
        }
    }

    /// Widens a row.
    fn row(&self, row: usize, into: &mut [f32]) {
        let size = (self.columns / self.groups).max(1);
        for (group, into) in into.chunks_mut(size).enumerate() {
            let parameter = row * self.groups + group;
            let scale = self.scales.get(parameter).copied().unwrap_or(0.0);
            let zero_point = self.zero_points.and_then(|all| all.get(parameter)).copied().unwrap_or(0.0);
            for (i, into) in into.iter_mut().enumerate() {
                let integer = f32::from(self.integer(row * self.columns + group * size + i));
                *into = (self.round)((self.round)(integer - zero_point) * scale);
            }
        }
    }
}

fn embedding_scratch(args: &Args<'_>) -> usize {
    let row = args.tensor_type(0).map_or(0, |(_, shape)| shape.sizes().last().copied().unwrap_or(0));
    parameter_scratch(args, 1)
        .saturating_add(buffer_bytes(row.saturating_mul(4 * size_of::<f32>())))
        .saturating_add(reorder_scratch(args, &[1, 2, 5]))
        .saturating_add(convert_scratch(args, 5, &[ScalarType::Long]))
}

/// Rows of a weight, picked by indices.
fn embedding(call: &mut Call<'_>, bits: usize, out: usize) -> Result<(), Fault> {
    let weights = Weights::new(call, 0, bits)?;
    let indices = call.tensor(5)?;
    let indices = row_major(call, indices)?;
    if !indices.dtype.is_integral(false) {
        return Err(crate::typed::unsupported(5, indices.dtype));
    }
    let mut sizes = Sizes::new(indices.sizes()).unwrap_or(Sizes::SCALAR);
    sizes.push(weights.columns).ok_or(Fault::argument(5, "the tensor has too many dimensions"))?;
    let picked = converted::<i64>(call, 5, indices)?;
    let target = call.out(out, &sizes)?;
    if !target.shape.is_contiguous() {
        return Err(Fault::argument(out, "a row-major output is needed here"));
    }
    let row = floats(call, out, weights.columns)?;
    for_dtype!(floats, target.dtype, out, T => {
        let results = view_mut::<T>(target.data).ok_or(misaligned(out))?;
        for (&index, results) in picked.iter().zip(results.chunks_exact_mut(weights.columns.max(1))) {
            let at = usize::try_from(index).ok().filter(|&at| at < weights.rows);
            let text = "index {} is outside of an embedding with {} rows";
            let fault = Fault::argument(5, text).with_signed([index, crate::operands::signed(weights.rows)]);
            weights.row(at.ok_or(fault)?, row);
            results.iter_mut().zip(&*row).for_each(|(to, &x)| *to = T::from_f64(x.into()));
        }
        Ok(())
    })
}

fn product_scratch(args: &Args<'_>, out: usize) -> usize {
    let (Ok((_, weight)), Ok((_, shape))) = (args.tensor_type(1), args.tensor_type(out)) else { return 0 };
    let [rows, columns] = *shape.sizes() else { return 0 };
    let widened = weight.numel().unwrap_or(0);
    let k = widened.checked_div(columns).unwrap_or(0);
    let floats = widened.saturating_add(gemm_scratch(rows, columns, k, args.parallel().width()));
    buffer_bytes(floats.saturating_mul(size_of::<f32>()))
        .saturating_add(wide_bytes(args, out))
        .saturating_add(parameter_scratch(args, 2))
        .saturating_add(reorder_scratch(args, &[0, 2, 3]))
        .saturating_add(convert_scratch(args, 0, &[ScalarType::Float]))
}

/// A real matrix times a quantised one, which may be given transposed.
fn product(call: &mut Call<'_>, transposed: bool, out: usize) -> Result<(), Fault> {
    let weights = Weights::new(call, 1, 8)?;
    let x = call.tensor(0)?;
    let x: Tensor<'_> = row_major(call, x)?;
    let (k, n) = if transposed { (weights.columns, weights.rows) } else { (weights.rows, weights.columns) };
    let m = match *x.sizes() {
        [m, columns] if columns == k => m,
        _ => return Err(Fault::argument(0, "a matrix with {} columns is needed here").with([k])),
    };
    let left = converted::<f32>(call, 0, x)?;
    let target = call.out(out, &[m, n])?;
    if !target.shape.is_contiguous() {
        return Err(Fault::argument(out, "a row-major output is needed here"));
    }
    let widened = floats(call, out, k.saturating_mul(n))?;
    split::chunks(call.parallel(), widened, weights.columns, |row, into| weights.row(row, into));
    let right = if transposed { Matrix::transposed(&*widened, k) } else { Matrix::row_major(&*widened, n) };
    let a = Matrix::row_major(left, k);
    let product = Gemm { m, n, k, a, b: right, init: Init::Zero, epilogue: Epilogue::None };
    let scratch = floats(call, out, gemm_scratch(m, n, k, call.parallel().width()))?;
    let results = floats(call, out, m.saturating_mul(n))?;
    gemm(Isa::detect(), call.parallel(), &product, results, n, scratch);
    store(call, out, results, target)
}

/// The sum of two quantised tensors, quantised again.
fn add(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(0)?, call.tensor(5)?);
    let parameters = |first: usize| Ok::<_, Fault>((call.double(first)? as f32, call.int(first + 1)? as f32));
    let ((a_scale, a_zero), (b_scale, b_zero), (scale, zero)) = (parameters(1)?, parameters(6)?, parameters(10)?);
    let (low, high) = (call.int(12)? as f32, call.int(13)? as f32);
    if low > high {
        return Err(Fault::argument(12, "the lowest value is above the highest"));
    }
    let out = call.out(14, &broadcast_sizes([&a.shape, &b.shape])?)?;
    let inverse = 1.0 / scale;
    let sources = [Source::Tensor(a), Source::Tensor(b)];
    run(
        call.parallel(),
        sources,
        14,
        out,
        #[inline(always)]
        |x, out: &mut [f32]| {
            each2(
                x,
                out,
                #[inline(always)]
                |a: f32, b: f32| {
                    let sum = (a - a_zero) * a_scale + (b - b_zero) * b_scale;
                    (libm::rintf(sum * inverse) + zero).max(low).min(high)
                },
            );
        },
    )
}
