//! Factors of matrices, solutions, inverses, determinants; eigenvalues and singular values.
//!
//! All work on matrices in the last two dimensions, one after the other, in `f64` (see [`sconce_kernels::factor`]); results
//! are rounded once to the output's type and order. Signs of eigenvectors and singular vectors are not determined by their
//! definition and need not be PyTorch's; the same holds for the factors that determinants and solutions return beside
//! their result, which are of the matrix itself.
use crate::copies::assign;
use crate::dense::{buffer_bytes, converted_row_major, store_row_major, wide_bytes};
use crate::distance::own_item;
use crate::operands::{misaligned, shape_fault};
use crate::ops;
use crate::typed::{Typed, unsupported};
use sconce_core::{Args, Call, Code, Fault, Op, ScalarType, TensorMut};
use sconce_kernels::factor::{self, Triangle};
use sconce_kernels::view::view_mut;
use sconce_schema::{ShapeError, Sizes, shapes};

/// Factors and what follows from them.
pub(crate) static OPS: &[Op] = ops! {
    "aten::linalg_lu_factor_ex.out" [7] writes [3, 4, 5] scratch |args| scratch(args, &[0, 3, 4, 5]), => lu_factor;
    "aten::_linalg_det.result" [5] writes [1, 2, 3] scratch |args| scratch(args, &[0, 1, 2, 3]), => |call| {
        determinant(call, &[1], [2, 3], |sign, size| [sign * libm::exp(size), 0.0])
    };
    "aten::_linalg_slogdet.sign" [6] writes [1, 2, 3, 4] scratch |args| scratch(args, &[0, 1, 2, 3, 4]), => |call| {
        determinant(call, &[1, 2], [3, 4], |sign, size| [sign, size])
    };
    "aten::linalg_inv_ex.inverse" [5] writes [2, 3] scratch |args| scratch(args, &[0, 2, 3]), => inverse;
    "aten::_linalg_solve_ex.result" [9] writes [4, 5, 6, 7] scratch |args| scratch(args, &[0, 1, 4, 4, 5, 6, 7]), => solve;
    "aten::linalg_solve_triangular.out" [7] writes [5] scratch |args| scratch(args, &[0, 1, 5, 5]), => |call| {
        let left = call.bool(3)?;
        let triangle = Triangle { upper: call.bool(2)?, transposed: !left, unit: call.bool(4)? };
        solve_by(call, [0, 1], left, 5, |a, n, b, columns| factor::solve_triangular(a, n, triangle, b, columns))
    };
    "aten::triangular_solve.X" [8] writes [5, 6] scratch |args| scratch(args, &[0, 1, 5, 6]), => triangular_solve;
    "aten::cholesky_solve.out" [5] writes [3] scratch |args| scratch(args, &[0, 1, 3]), => |call| {
        let upper = call.bool(2)?;
        solve_by(call, [1, 0], true, 3, |a, n, b, columns| solve_cholesky(a, n, upper, b, columns))
    };
    "aten::cholesky_inverse.out" [4] writes [2] scratch |args| scratch(args, &[0, 2]), => cholesky_inverse;
    "aten::linalg_cholesky_ex.L" [6] writes [3, 4] scratch |args| scratch(args, &[0, 3, 4]), => cholesky;
    "aten::linalg_qr.out" [5] writes [2, 3] scratch |args| scratch(args, &[0, 2, 3]), => qr;
    "aten::_linalg_eigh.eigenvalues" [6] writes [3, 4] scratch |args| scratch(args, &[0, 3, 4]), => eigenvalues;
    "aten::_linalg_svd.U" [8] writes [4, 5, 6] scratch |args| scratch(args, &[0, 4, 5, 6]), => singular_values;
    "aten::linalg_pinv.atol_rtol_tensor_out" [6] writes [4] scratch |args| scratch(args, &[0, 1, 2, 4]), => pseudo_inverse;
    "aten::linalg_pinv.atol_rtol_float_out" [6] writes [4] scratch |args| scratch(args, &[0, 4]), => pseudo_inverse;
};

/// The arguments in `f64`, and four squares of the longest side for what is computed on the way.
fn scratch(args: &Args<'_>, arguments: &[usize]) -> usize {
    let longest = args.tensor_type(0).ok().and_then(|(_, shape)| shape.sizes().iter().rev().take(2).max().copied());
    let longest = longest.unwrap_or(1).max(1);
    let square = buffer_bytes(longest.saturating_mul(longest).saturating_mul(8)).saturating_mul(4);
    arguments.iter().map(|&argument| wide_bytes(args, argument)).fold(square, usize::saturating_add)
}

/// Matrices in the last two dimensions of an argument.
#[derive(Clone, Copy)]
struct Matrices<'c> {
    data: &'c [f64],
    batch: Sizes,
    rows: usize,
    columns: usize,
}

impl<'c> Matrices<'c> {
    fn new(call: &mut Call<'c>, argument: usize) -> Result<Self, Fault> {
        let tensor = call.tensor(argument)?;
        if !matches!(tensor.dtype, ScalarType::Float | ScalarType::Double) {
            return Err(unsupported(argument, tensor.dtype));
        }
        let rank = tensor.shape.rank();
        let &[ref batch @ .., rows, columns] = tensor.sizes() else {
            return Err(Fault::argument(argument, "a matrix is needed here, not {} dimensions").with([rank]));
        };
        let batch = Sizes::new(batch).unwrap_or(Sizes::SCALAR);
        Ok(Self { data: converted_row_major::<f64>(call, argument, tensor)?, batch, rows, columns })
    }

    /// Square ones.
    fn square(call: &mut Call<'c>, argument: usize) -> Result<Self, Fault> {
        let matrices = Self::new(call, argument)?;
        let (rows, columns) = (matrices.rows, matrices.columns);
        let text = "a square matrix is needed here, not {} rows of {}";
        if rows == columns { Ok(matrices) } else { Err(Fault::argument(argument, text).with([rows, columns])) }
    }

    fn count(&self) -> usize {
        self.batch.numel().unwrap_or(0)
    }

    /// One of them.
    fn get(&self, item: usize) -> &'c [f64] {
        let len = self.rows * self.columns;
        self.data.get(item * len..).and_then(|data| data.get(..len)).unwrap_or(&[])
    }

    /// The one that stands for an item of a batch to which these broadcast.
    fn of(&self, item: usize, batch: &Sizes) -> &'c [f64] {
        self.get(own_item(item, batch, &self.batch))
    }
}

/// Results of one output, in row-major order, before they are stored.
struct Results<'c, T> {
    argument: usize,
    target: TensorMut<'c>,
    data: &'c mut [T],
    /// Elements for each matrix.
    each: usize,
}

impl<'c, T: Typed> Results<'c, T> {
    /// Room for an output of these sizes for each matrix of a batch.
    fn new(call: &mut Call<'c>, argument: usize, batch: &Sizes, own: &[usize]) -> Result<Self, Fault> {
        let mut sizes = *batch;
        let room = own.iter().try_for_each(|&size| sizes.push(size));
        room.ok_or(shape_fault(ShapeError::Rank(batch.len() + own.len())).at(argument))?;
        let target = call.out(argument, &sizes)?;
        let data = view_mut(call.scratch(target.numel().saturating_mul(8))?).ok_or(misaligned(argument))?;
        let data: &mut [T] = data;
        let len = target.numel().min(data.len());
        Ok(Self { argument, target, data: &mut data[..len], each: own.iter().product() })
    }

    fn get(&mut self, item: usize) -> &mut [T] {
        self.data.get_mut(item * self.each..).and_then(|data| data.get_mut(..self.each)).unwrap_or_default()
    }

    fn store(self, call: &Call<'_>) -> Result<(), Fault> {
        store_row_major(call, self.argument, self.data, self.target)
    }
}

/// Room for `len` numbers.
fn room<'c>(call: &mut Call<'c>, len: usize) -> Result<&'c mut [f64], Fault> {
    view_mut(call.scratch(len.saturating_mul(8))?).ok_or(misaligned(0))
}

fn transpose(from: &[f64], [rows, columns]: [usize; 2], to: &mut [f64]) {
    for (place, to) in to.iter_mut().enumerate().take(rows * columns) {
        *to = from[place % rows * columns + place / rows];
    }
}

/// A fault for the first matrix that has no factors, where the program asks for it.
fn checked(call: &Call<'_>, argument: usize, info: &[i64]) -> Result<(), Fault> {
    match info.iter().find(|&&info| info != 0) {
        Some(&info) if call.bool(argument)? => {
            let text = "a matrix has no such factors: row {} is where it fails";
            Err(Fault::new(Code::InvalidArgument, text).with_signed([info]))
        }
        _ => Ok(()),
    }
}

fn lu_factor(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, exchange) = (Matrices::new(call, 0)?, call.bool(1)?);
    let mut factors = Results::<f64>::new(call, 3, &a.batch, &[a.rows, a.columns])?;
    let mut pivots = Results::<i64>::new(call, 4, &a.batch, &[a.rows.min(a.columns)])?;
    let mut info = Results::<i64>::new(call, 5, &a.batch, &[])?;
    for item in 0..a.count() {
        factors.get(item).copy_from_slice(a.get(item));
        let zero = factor::lu(factors.get(item), [a.rows, a.columns], exchange, pivots.get(item));
        info.get(item).fill(zero as i64);
    }
    checked(call, 2, info.data)?;
    factors.store(call)?;
    pivots.store(call)?;
    info.store(call)
}

/// Writes what `results` makes of the determinant's sign and the logarithm of its size, and the factors.
fn determinant(
    call: &mut Call<'_>,
    outs: &[usize],
    [factors, pivots]: [usize; 2],
    results: impl Fn(f64, f64) -> [f64; 2],
) -> Result<(), Fault> {
    let a = Matrices::square(call, 0)?;
    let mut factors = Results::<f64>::new(call, factors, &a.batch, &[a.rows, a.rows])?;
    let mut pivots = Results::<i64>::new(call, pivots, &a.batch, &[a.rows])?;
    for item in 0..a.count() {
        factors.get(item).copy_from_slice(a.get(item));
        factor::lu(factors.get(item), [a.rows; 2], true, pivots.get(item));
    }
    for (place, &out) in outs.iter().enumerate() {
        let mut values = Results::<f64>::new(call, out, &a.batch, &[])?;
        for item in 0..a.count() {
            let (sign, size) = factor::determinant(factors.get(item), a.rows, pivots.get(item));
            values.get(item).fill(results(sign, size)[place.min(1)]);
        }
        values.store(call)?;
    }
    factors.store(call)?;
    pivots.store(call)
}

fn inverse(call: &mut Call<'_>) -> Result<(), Fault> {
    let a = Matrices::square(call, 0)?;
    let n = a.rows;
    let mut inverse = Results::<f64>::new(call, 2, &a.batch, &[n, n])?;
    let mut info = Results::<i64>::new(call, 3, &a.batch, &[])?;
    let factors = room(call, n * n)?;
    let pivots = view_mut::<i64>(call.scratch(n.saturating_mul(8))?).ok_or(misaligned(0))?;
    for item in 0..a.count() {
        factors.copy_from_slice(a.get(item));
        info.get(item).fill(factor::lu(factors, [n, n], true, &mut pivots[..n]) as i64);
        let target = inverse.get(item);
        target.fill(0.0);
        (0..n).for_each(|i| target[i * n + i] = 1.0);
        factor::solve_lu(factors, n, &pivots[..n], target, n);
    }
    checked(call, 1, info.data)?;
    inverse.store(call)?;
    info.store(call)
}

/// Solves `A X = B` or, on the right, `X A = B`. `B` may be vectors: a dimension fewer, with the sizes of all but the last
/// of `A`.
fn solve(call: &mut Call<'_>) -> Result<(), Fault> {
    let a = Matrices::square(call, 0)?;
    let (n, left) = (a.rows, call.bool(2)?);
    let (_, shape) = call.tensor_type(1)?;
    let (_, a_shape) = call.tensor_type(0)?;
    let vectors =
        shape.rank() == 1 || (shape.rank() + 1 == a_shape.rank() && shape.sizes() == &a_shape.sizes()[..shape.rank()]);
    let tensor = call.tensor(1)?;
    let b = match (vectors, tensor.sizes()) {
        (true, &[ref batch @ .., last]) => {
            let batch = Sizes::new(batch).unwrap_or(Sizes::SCALAR);
            let (rows, columns) = if left { (last, 1) } else { (1, last) };
            Matrices { data: converted_row_major::<f64>(call, 1, tensor)?, batch, rows, columns }
        }
        _ => Matrices::new(call, 1)?,
    };
    let batch = shapes::broadcast([&*a.batch, &*b.batch]).map_err(shape_fault)?;
    let sizes = if vectors { &[n][..] } else { &[b.rows, b.columns] };
    let mut x = Results::<f64>::new(call, 4, &batch, sizes)?;
    let mut factors = Results::<f64>::new(call, 5, &a.batch, &[n, n])?;
    let mut pivots = Results::<i64>::new(call, 6, &a.batch, &[n])?;
    let mut info = Results::<i64>::new(call, 7, &a.batch, &[])?;
    if (if left { b.rows } else { b.columns }) != n {
        return Err(Fault::argument(1, "the sides do not fit a matrix of {} rows").with([n]));
    }
    for item in 0..a.count() {
        transpose_unless(left, a.get(item), [n, n], factors.get(item));
        info.get(item).fill(factor::lu(factors.get(item), [n, n], true, pivots.get(item)) as i64);
    }
    checked(call, 3, info.data)?;
    let (turned, own) = (room(call, b.rows * b.columns)?, b.rows * b.columns);
    for item in 0..batch.numel().unwrap_or(0) {
        let matrix = own_item(item, &batch, &a.batch);
        transpose_unless(left, b.of(item, &batch), [b.rows, b.columns], turned);
        let columns = own.checked_div(n).unwrap_or(0);
        if n > 0 {
            factor::solve_lu(factors.get(matrix), n, pivots.get(matrix), &mut turned[..own], columns);
        }
        transpose_unless(left, turned, [b.columns, b.rows], x.get(item));
    }
    x.store(call)?;
    factors.store(call)?;
    pivots.store(call)?;
    info.store(call)
}

fn transpose_unless(plain: bool, from: &[f64], sizes: [usize; 2], to: &mut [f64]) {
    match plain {
        true => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        false => transpose(from, sizes, to),
    }
}

/// Solves with a function that replaces columns by solutions; matrices and right sides broadcast. On the right, `X A = B`
/// is solved as the transposes.
fn solve_by(
    call: &mut Call<'_>,
    [matrix, side]: [usize; 2],
    left: bool,
    out: usize,
    solve: impl Fn(&[f64], usize, &mut [f64], usize),
) -> Result<(), Fault> {
    let (a, b) = (Matrices::square(call, matrix)?, Matrices::new(call, side)?);
    let n = a.rows;
    if (if left { b.rows } else { b.columns }) != n {
        return Err(Fault::argument(side, "the sides do not fit a matrix of {} rows").with([n]));
    }
    let batch = shapes::broadcast([&*a.batch, &*b.batch]).map_err(shape_fault)?;
    let mut x = Results::<f64>::new(call, out, &batch, &[b.rows, b.columns])?;
    let turned = room(call, if left { 0 } else { x.each })?;
    for item in 0..batch.numel().unwrap_or(0) {
        if left {
            x.get(item).copy_from_slice(b.of(item, &batch));
            solve(a.of(item, &batch), n, x.get(item), b.columns);
        } else {
            transpose(b.of(item, &batch), [b.rows, b.columns], turned);
            solve(a.of(item, &batch), n, turned, b.rows);
            transpose(turned, [b.columns, b.rows], x.get(item));
        }
    }
    x.store(call)
}

/// Solves with a triangle of argument 1, of which the second output is a copy.
fn triangular_solve(call: &mut Call<'_>) -> Result<(), Fault> {
    let triangle = Triangle { upper: call.bool(2)?, transposed: call.bool(3)?, unit: call.bool(4)? };
    solve_by(call, [1, 0], true, 5, |a, n, b, columns| factor::solve_triangular(a, n, triangle, b, columns))?;
    let (_, x) = call.tensor_type(5)?;
    let (_, own) = call.tensor_type(1)?;
    let a = call.tensor(1)?;
    // Both are matrices, or there would be no solution.
    let mut sizes = Sizes::new(&x.sizes()[..x.rank() - 2]).unwrap_or(Sizes::SCALAR);
    let room = own.sizes().iter().skip(own.rank() - 2).try_for_each(|&size| sizes.push(size));
    room.ok_or(shape_fault(ShapeError::Rank(x.rank())))?;
    let copy = call.out(6, &sizes)?;
    assign(call, a, 6, copy)
}

/// Solves with a factor of Cholesky's.
fn solve_cholesky(a: &[f64], n: usize, upper: bool, b: &mut [f64], columns: usize) {
    factor::solve_triangular(a, n, Triangle { upper, transposed: upper, unit: false }, b, columns);
    factor::solve_triangular(a, n, Triangle { upper, transposed: !upper, unit: false }, b, columns);
}

fn cholesky_inverse(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, upper) = (Matrices::square(call, 0)?, call.bool(1)?);
    let n = a.rows;
    let mut inverse = Results::<f64>::new(call, 2, &a.batch, &[n, n])?;
    for item in 0..a.count() {
        let target = inverse.get(item);
        target.fill(0.0);
        (0..n).for_each(|i| target[i * n + i] = 1.0);
        solve_cholesky(a.get(item), n, upper, target, n);
    }
    inverse.store(call)
}

fn cholesky(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, upper) = (Matrices::square(call, 0)?, call.bool(1)?);
    let n = a.rows;
    let mut factors = Results::<f64>::new(call, 3, &a.batch, &[n, n])?;
    let mut info = Results::<i64>::new(call, 4, &a.batch, &[])?;
    let turned = room(call, n * n)?;
    for item in 0..a.count() {
        transpose_unless(!upper, a.get(item), [n, n], turned);
        info.get(item).fill(factor::cholesky(turned, n) as i64);
        transpose_unless(!upper, turned, [n, n], factors.get(item));
    }
    checked(call, 2, info.data)?;
    factors.store(call)?;
    info.store(call)
}

fn qr(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, mode) = (Matrices::new(call, 0)?, call.str(1)?);
    let (rows, columns) = (a.rows, a.columns);
    let inner = match mode {
        "reduced" | "r" => rows.min(columns),
        "complete" => rows,
        _ => return Err(Fault::argument(1, "reduced, complete and r are the modes")),
    };
    let mut q = if mode == "r" {
        Results::<f64>::new(call, 2, &Sizes::SCALAR, &[0])?
    } else {
        Results::<f64>::new(call, 2, &a.batch, &[rows, inner])?
    };
    let mut r = Results::<f64>::new(call, 3, &a.batch, &[inner, columns])?;
    let (work, scales) = (room(call, rows * columns)?, room(call, rows.min(columns))?);
    for item in 0..a.count() {
        work.copy_from_slice(a.get(item));
        let width = if mode == "r" { 0 } else { inner };
        factor::qr(work, [rows, columns], if width > 0 { q.get(item) } else { &mut [] }, width, scales);
        r.get(item).copy_from_slice(&work[..inner * columns]);
    }
    q.store(call)?;
    r.store(call)
}

/// Eigenvalues of symmetric matrices, of which one triangle is read, and eigenvectors as columns.
fn eigenvalues(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, lower, wanted) = (Matrices::square(call, 0)?, matches!(call.str(1)?, "L" | "l"), call.bool(2)?);
    let n = a.rows;
    let mut values = Results::<f64>::new(call, 3, &a.batch, &[n])?;
    let mut vectors = if wanted {
        Results::<f64>::new(call, 4, &a.batch, &[n, n])?
    } else {
        Results::<f64>::new(call, 4, &Sizes::SCALAR, &[0])?
    };
    let (work, rows) = (room(call, n * n)?, room(call, n * n)?);
    for item in 0..a.count() {
        mirror(a.get(item), n, lower, work);
        factor::eigen(work, n, values.get(item), rows);
        if wanted {
            transpose(rows, [n, n], vectors.get(item));
        }
    }
    values.store(call)?;
    vectors.store(call)
}

/// The symmetric matrix of which one triangle of `matrix` is given; nobody looks at the other one.
fn mirror(matrix: &[f64], n: usize, lower: bool, into: &mut [f64]) {
    for (place, x) in into.iter_mut().enumerate() {
        let (i, j) = (place / n, place % n);
        *x = if (i >= j) == lower { matrix[place] } else { matrix[j * n + i] };
    }
}

/// The longer side of a matrix and the shorter, and room for the vectors of both.
struct Decomposition<'c> {
    long: usize,
    short: usize,
    long_vectors: &'c mut [f64],
    short_vectors: &'c mut [f64],
    /// Whether the vectors of the long side are the right ones.
    wide: bool,
}

impl<'c> Decomposition<'c> {
    /// With as many vectors of the long side as there are of the short, or with all.
    fn new(call: &mut Call<'c>, a: &Matrices<'_>, full: bool) -> Result<Self, Fault> {
        let (long, short) = (a.rows.max(a.columns), a.rows.min(a.columns));
        let long_vectors = room(call, long * if full { long } else { short })?;
        let short_vectors = room(call, short * short)?;
        Ok(Self { long, short, long_vectors, short_vectors, wide: a.columns > a.rows })
    }

    /// Decomposes a matrix into singular values and vectors, which are rows.
    fn run(&mut self, a: &[f64], values: &mut [f64]) {
        let columns = &mut self.long_vectors[..self.short * self.long];
        transpose_unless(self.wide, a, [self.long, self.short], columns);
        factor::singular_values([self.long, self.short], self.long_vectors, values, self.short_vectors);
    }

    /// The left vectors, as rows, and how long they are; then the right ones.
    fn vectors(&self) -> [(&[f64], usize); 2] {
        let (long, short) = ((&*self.long_vectors, self.long), (&*self.short_vectors, self.short));
        if self.wide { [short, long] } else { [long, short] }
    }
}

fn singular_values(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, full, wanted) = (Matrices::new(call, 0)?, call.bool(1)?, call.bool(2)?);
    let short = a.rows.min(a.columns);
    let (left, right) = if full { (a.rows, a.columns) } else { (short, short) };
    let mut output = |argument, sizes: &[usize]| match wanted {
        true => Results::<f64>::new(call, argument, &a.batch, sizes),
        false => Results::<f64>::new(call, argument, &Sizes::SCALAR, &[0]),
    };
    let (mut u, mut vh) = (output(4, &[a.rows, left])?, output(6, &[right, a.columns])?);
    let mut values = Results::<f64>::new(call, 5, &a.batch, &[short])?;
    let mut parts = Decomposition::new(call, &a, full && wanted)?;
    for item in 0..a.count() {
        parts.run(a.get(item), values.get(item));
        if wanted {
            let [(left_rows, _), (right_rows, _)] = parts.vectors();
            transpose(left_rows, [left, a.rows], u.get(item));
            vh.get(item).copy_from_slice(right_rows);
        }
    }
    u.store(call)?;
    values.store(call)?;
    vh.store(call)
}

/// A tolerance per matrix: a number, a tensor that broadcasts to the batch, or nothing.
fn tolerance<'c>(call: &mut Call<'c>, argument: usize) -> Result<Option<(&'c [f64], Sizes)>, Fault> {
    if call.is_none(argument)? {
        return Ok(None);
    }
    if let Ok(number) = call.double(argument) {
        let place = room(call, 1)?;
        place.fill(number);
        return Ok(Some((place, Sizes::SCALAR)));
    }
    let tensor = call.tensor(argument)?;
    let sizes = Sizes::new(tensor.sizes()).unwrap_or(Sizes::SCALAR);
    Ok(Some((converted_row_major::<f64>(call, argument, tensor)?, sizes)))
}

/// The inverse of what singular values above a tolerance leave of a matrix. Of one that is said to be symmetric the lower
/// triangle counts.
fn pseudo_inverse(call: &mut Call<'_>) -> Result<(), Fault> {
    let symmetric = call.bool(3)?;
    let a = if symmetric { Matrices::square(call, 0)? } else { Matrices::new(call, 0)? };
    let double = call.tensor_type(0)?.0 == ScalarType::Double;
    let epsilon = if double { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let (absolute, relative) = (tolerance(call, 1)?, tolerance(call, 2)?);
    let mut out = Results::<f64>::new(call, 4, &a.batch, &[a.columns, a.rows])?;
    let mut parts = Decomposition::new(call, &a, false)?;
    let (short, long) = (parts.short, parts.long);
    let values = room(call, short)?;
    let whole = room(call, if symmetric { a.rows * a.rows } else { 0 })?;
    for item in 0..a.count() {
        let own = |given: &Option<(&[f64], Sizes)>| {
            given.as_ref().and_then(|(values, sizes)| values.get(own_item(item, &a.batch, sizes)).copied())
        };
        let absolute = own(&absolute).unwrap_or(0.0);
        let usual = if absolute > 0.0 { 0.0 } else { epsilon * long as f64 };
        let matrix = if symmetric {
            mirror(a.get(item), a.rows, true, whole);
            &*whole
        } else {
            a.get(item)
        };
        parts.run(matrix, values);
        let limit = f64::max(absolute, own(&relative).unwrap_or(usual) * values.first().copied().unwrap_or(0.0));
        let [(left, rows), (right, columns)] = parts.vectors();
        for (place, out) in out.get(item).iter_mut().enumerate() {
            let (i, j) = (place / rows, place % rows);
            let terms = (0..short).filter(|&k| values[k] > limit);
            *out = terms.map(|k| right[k * columns + i] * left[k * rows + j] / values[k]).sum();
        }
    }
    out.store(call)
}
