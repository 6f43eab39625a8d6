//! A product for each group of rows: rows of one matrix lie by group, and each group has a matrix of its own.
use crate::dense::{buffer_bytes, convert_scratch, converted_row_major, reorder_scratch, row_major, write_row_major};
use crate::linear::{Product, fits, sizes};
use crate::ops;
use core::ops::Range;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::gemm::gemm_scratch;

/// Products by group.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_grouped_mm.out" [7] writes [5] scratch scratch, => grouped;
};

const OUT: usize = 5;

fn scratch(args: &Args<'_>) -> usize {
    let (Ok((dtype, rows)), Ok((_, own))) = (args.tensor_type(0), args.tensor_type(1)) else { return 0 };
    let last = |sizes: &[usize]| sizes.last().copied().unwrap_or(0);
    let (m, k, n) = (rows.sizes().first().copied().unwrap_or(0), last(rows.sizes()), last(own.sizes()));
    let floats = if dtype == ScalarType::Float { gemm_scratch(m, n, k, args.parallel().width()) } else { 0 };
    let moved = reorder_scratch(args, &[0, 1, 2, OUT]).saturating_add(convert_scratch(args, 2, &[ScalarType::Long]));
    moved.saturating_add(buffer_bytes(floats.saturating_mul(4)))
}

/// `[rows, k] @ [groups, k, n]`; argument 2 says before which row each group ends. Rows behind the last group are zeros.
fn grouped(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b, ends) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let ([m, k], [groups, rows, n]) = (sizes(0, &a.shape)?, sizes(1, &b.shape)?);
    fits(1, k, rows)?;
    if ends.sizes() != [groups] {
        return Err(Fault::argument(2, "the ends of {} groups are needed here").with([groups]));
    }
    if !call.is_none(3)? {
        return Err(Fault::argument(3, "a bias is not supported here"));
    }
    let (a, b) = (row_major(call, a)?, row_major(call, b)?);
    let ends = converted_row_major::<i64>(call, 2, ends)?;
    let floats = match a.dtype {
        ScalarType::Float => gemm_scratch(m, n, k, call.parallel().width()).saturating_mul(4),
        _ => 0,
    };
    let scratch = call.scratch(floats)?;
    let (out, parallel, size) = (call.out(OUT, &[m, n])?, call.parallel(), a.dtype.size());
    if out.dtype != a.dtype || b.dtype != a.dtype {
        return Err(Fault::argument(OUT, "matrices and result must have one element type"));
    }
    write_row_major(call, out, |out| {
        let mut start = 0;
        for (group, &end) in ends.iter().enumerate() {
            let fits = usize::try_from(end).ok().filter(|end| (start..=m).contains(end));
            let text = "group {} ends before row {}, which is not between {} and the last row";
            let values = [group as i64, end, start as i64];
            let end = fits.ok_or(Fault::argument(2, text).with_signed(values))?;
            let rows = part(a, start * k..end * k);
            let own = part(b, group * k * n..(group + 1) * k * n);
            let product =
                Product { batch: 1, m: end - start, n, k, a: rows, b: own, transposed: false, per_column: None };
            product.compute(parallel, out.get_mut(start * n * size..end * n * size).unwrap_or_default(), scratch)?;
            start = end;
        }
        out.get_mut(start * n * size..).unwrap_or_default().fill(0);
        Ok(())
    })
}

/// Some elements of a tensor, row by row.
fn part(tensor: Tensor<'_>, elements: Range<usize>) -> Tensor<'_> {
    let size = tensor.dtype.size();
    Tensor { data: tensor.data.get(elements.start * size..elements.end * size).unwrap_or_default(), ..tensor }
}
