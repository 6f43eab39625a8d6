//! Factors of small dense matrices, row-major in `f64`.
//!
//! LU by exchanging rows, Cholesky, QR by Householder's reflections, eigenvalues of symmetric matrices and singular values
//! by Jacobi's rotations, which are simple and accurate. Matrices are slices whose lengths the caller has made right;
//! factors replace them in place. Nothing here fails: a zero pivot is told by its position from 1 on, and 0 means none.
use libm::{hypot, sqrt};

/// Sweeps of rotations; they converge in a handful, and NaN never does.
const SWEEPS: usize = 60;

/// `L` below the diagonal, with ones on it, and `U` from the diagonal on. Row `k` was exchanged with row `pivots[k]`, which
/// counts from 1.
pub fn lu(a: &mut [f64], [rows, columns]: [usize; 2], exchange: bool, pivots: &mut [i64]) -> usize {
    let mut first_zero = 0;
    for k in 0..rows.min(columns) {
        let larger = |best: usize, row: usize| {
            if a[row * columns + k].abs() > a[best * columns + k].abs() { row } else { best }
        };
        let best = if exchange { (k..rows).fold(k, larger) } else { k };
        pivots[k] = best as i64 + 1;
        (0..columns).for_each(|column| a.swap(k * columns + column, best * columns + column));
        let pivot = a[k * columns + k];
        if pivot == 0.0 {
            first_zero = if first_zero == 0 { k + 1 } else { first_zero };
            continue;
        }
        let (above, below) = a.split_at_mut((k + 1) * columns);
        for row in below.chunks_exact_mut(columns) {
            row[k] /= pivot;
            let factor = row[k];
            row[k + 1..].iter_mut().zip(&above[k * columns + k + 1..]).for_each(|(x, y)| *x -= factor * y);
        }
    }
    first_zero
}

/// The sign of the determinant and the logarithm of its size, from factors of [`lu()`].
pub fn determinant(lu: &[f64], n: usize, pivots: &[i64]) -> (f64, f64) {
    let exchanged = pivots.iter().zip(1i64..).filter(|&(&pivot, k)| pivot != k).count();
    let sign = if exchanged % 2 == 0 { 1.0 } else { -1.0 };
    let diagonal = (0..n).map(|k| lu[k * n + k]);
    diagonal.fold((sign, 0.0), |(sign, size), x| {
        let direction = if x == 0.0 { 0.0 } else { f64::copysign(1.0, x) };
        (if x.is_nan() { x } else { sign * direction }, size + libm::log(x.abs()))
    })
}

/// A triangle of a square matrix, perhaps of its transpose, perhaps with ones for its diagonal.
#[derive(Clone, Copy)]
pub struct Triangle {
    /// Whether it is the part from the diagonal on, before transposition.
    pub upper: bool,
    /// Whether rows and columns change places.
    pub transposed: bool,
    /// Whether the diagonal counts as ones.
    pub unit: bool,
}

/// Replaces the `columns` columns of `b` by the solutions of `A x = b`.
pub fn solve_triangular(a: &[f64], n: usize, triangle: Triangle, b: &mut [f64], columns: usize) {
    let at = |i: usize, j: usize| if triangle.transposed { a[j * n + i] } else { a[i * n + j] };
    let backwards = triangle.upper != triangle.transposed;
    for step in 0..n {
        let i = if backwards { n - 1 - step } else { step };
        let solved = if backwards { i + 1..n } else { 0..i };
        for column in 0..columns {
            let known: f64 = solved.clone().map(|j| at(i, j) * b[j * columns + column]).sum();
            let rest = b[i * columns + column] - known;
            b[i * columns + column] = if triangle.unit { rest } else { rest / at(i, i) };
        }
    }
}

/// Replaces the columns of `b` by the solutions of `A x = b`, from factors of [`lu()`].
pub fn solve_lu(lu: &[f64], n: usize, pivots: &[i64], b: &mut [f64], columns: usize) {
    for (k, &pivot) in pivots.iter().enumerate() {
        let other = usize::try_from(pivot - 1).unwrap_or(k).min(n - 1);
        (0..columns).for_each(|column| b.swap(k * columns + column, other * columns + column));
    }
    solve_triangular(lu, n, Triangle { upper: false, transposed: false, unit: true }, b, columns);
    solve_triangular(lu, n, Triangle { upper: true, transposed: false, unit: false }, b, columns);
}

/// The lower factor `L` of `L L'`, from the lower triangle; zeros above. Stops where the matrix is not positive.
pub fn cholesky(a: &mut [f64], n: usize) -> usize {
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| a[i * n + k] * a[j * n + k]).sum();
            let rest = a[i * n + j] - known;
            if i == j && (rest.is_nan() || rest <= 0.0) {
                return i + 1;
            }
            a[i * n + j] = if i == j { sqrt(rest) } else { rest / a[j * n + j] };
        }
        a[i * n + i + 1..(i + 1) * n].fill(0.0);
    }
    0
}

/// `R` in the upper triangle of `a`, zeros below; `q` (`rows` times `width`) gets the first columns of `Q`.
pub fn qr(a: &mut [f64], [rows, columns]: [usize; 2], q: &mut [f64], width: usize, scales: &mut [f64]) {
    let steps = rows.min(columns);
    for k in 0..steps {
        let tail = (k + 1..rows).fold(0.0, |norm, row| hypot(norm, a[row * columns + k]));
        let first = a[k * columns + k];
        if tail == 0.0 {
            scales[k] = 0.0;
            continue;
        }
        let diagonal = -f64::copysign(hypot(first, tail), first);
        scales[k] = (diagonal - first) / diagonal;
        (k + 1..rows).for_each(|row| a[row * columns + k] /= first - diagonal);
        a[k * columns + k] = diagonal;
        for column in k + 1..columns {
            reflect(scales[k], k, rows, |row| row * columns + k, |row| row * columns + column, Side::Same(a));
        }
    }
    q.fill(0.0);
    (0..width.min(rows)).for_each(|k| q[k * width + k] = 1.0);
    for k in (0..steps).rev() {
        for column in 0..width {
            reflect(scales[k], k, rows, |row| row * columns + k, |row| row * width + column, Side::Other(a, q));
        }
    }
    for row in 1..rows {
        a[row * columns..][..row.min(columns)].fill(0.0);
    }
}

/// Where the reflected column lies: beside the reflection's vector or in another matrix.
enum Side<'a> {
    Same(&'a mut [f64]),
    Other(&'a [f64], &'a mut [f64]),
}

/// Applies `I - scale v v'` to a column; `v` has a one at `k` and its elements below.
fn reflect(
    scale: f64,
    k: usize,
    rows: usize,
    vector: impl Fn(usize) -> usize,
    place: impl Fn(usize) -> usize,
    mut side: Side<'_>,
) {
    let v = |side: &Side<'_>, row: usize| match side {
        _ if row == k => 1.0,
        Side::Same(a) => a[vector(row)],
        Side::Other(a, _) => a[vector(row)],
    };
    let x = |side: &Side<'_>, row: usize| match side {
        Side::Same(a) => a[place(row)],
        Side::Other(_, q) => q[place(row)],
    };
    let along: f64 = (k..rows).map(|row| v(&side, row) * x(&side, row)).sum();
    for row in k..rows {
        let change = scale * along * v(&side, row);
        match &mut side {
            Side::Same(a) => a[place(row)] -= change,
            Side::Other(_, q) => q[place(row)] -= change,
        }
    }
}

/// Turns two rows of a matrix by an angle of this cosine and sine.
fn rotate(a: &mut [f64], width: usize, [i, j]: [usize; 2], cosine: f64, sine: f64) {
    for k in 0..width {
        let (x, y) = (a[i * width + k], a[j * width + k]);
        (a[i * width + k], a[j * width + k]) = (cosine * x - sine * y, sine * x + cosine * y);
    }
}

/// Cosine and sine of the rotation that makes `[[a, c], [c, b]]` diagonal.
fn rotation(a: f64, b: f64, c: f64) -> (f64, f64) {
    let slope = (b - a) / (2.0 * c);
    let tangent = f64::copysign(1.0, slope) / (slope.abs() + hypot(1.0, slope));
    let cosine = 1.0 / hypot(1.0, tangent);
    (cosine, tangent * cosine)
}

fn exchange_rows(a: &mut [f64], width: usize, i: usize, j: usize) {
    (0..width).for_each(|k| a.swap(i * width + k, j * width + k));
}

/// Eigenvalues of a symmetric matrix, ascending; row `i` of `vectors` is the eigenvector of the `i`-th. Destroys `a`.
pub fn eigen(a: &mut [f64], n: usize, values: &mut [f64], vectors: &mut [f64]) {
    vectors.fill(0.0);
    (0..n).for_each(|i| vectors[i * n + i] = 1.0);
    for _ in 0..SWEEPS {
        let mut turned = false;
        for i in 0..n {
            for j in i + 1..n {
                let (x, y, c) = (a[i * n + i], a[j * n + j], a[i * n + j]);
                if c == 0.0 || c.abs() <= f64::EPSILON * 0.01 * sqrt(x.abs() * y.abs()) {
                    continue;
                }
                turned = true;
                let (cosine, sine) = rotation(x, y, c);
                rotate(a, n, [i, j], cosine, sine);
                for row in a.chunks_exact_mut(n) {
                    (row[i], row[j]) = (cosine * row[i] - sine * row[j], sine * row[i] + cosine * row[j]);
                }
                rotate(vectors, n, [i, j], cosine, sine);
                (a[i * n + j], a[j * n + i]) = (0.0, 0.0);
            }
        }
        if !turned {
            break;
        }
    }
    (0..n).for_each(|i| values[i] = a[i * n + i]);
    for i in 0..n {
        let least = (i..n).fold(i, |least, j| if values[j] < values[least] { j } else { least });
        values.swap(i, least);
        exchange_rows(vectors, n, i, least);
    }
}

/// Singular values, descending, of the matrix whose columns are the first `short` rows of `long_vectors` (each of `long`
/// elements, at least as many as `short`). These rows become the left singular vectors, and all further rows complete them
/// to a basis; the rows of `short_vectors` become the right ones.
pub fn singular_values(
    [long, short]: [usize; 2],
    long_vectors: &mut [f64],
    values: &mut [f64],
    short_vectors: &mut [f64],
) {
    short_vectors.fill(0.0);
    (0..short).for_each(|i| short_vectors[i * short + i] = 1.0);
    let dot = |a: &[f64], i: usize, j: usize| -> f64 {
        a[i * long..][..long].iter().zip(&a[j * long..][..long]).map(|(x, y)| x * y).sum()
    };
    for _ in 0..SWEEPS {
        let mut turned = false;
        for i in 0..short {
            for j in i + 1..short {
                let (x, y, c) = (dot(long_vectors, i, i), dot(long_vectors, j, j), dot(long_vectors, i, j));
                if c == 0.0 || c.abs() <= f64::EPSILON * sqrt(x * y) {
                    continue;
                }
                turned = true;
                let (cosine, sine) = rotation(x, y, c);
                rotate(long_vectors, long, [i, j], cosine, sine);
                rotate(short_vectors, short, [i, j], cosine, sine);
            }
        }
        if !turned {
            break;
        }
    }
    (0..short).for_each(|i| values[i] = sqrt(dot(long_vectors, i, i)));
    for i in 0..short {
        let most = (i..short).fold(i, |most, j| if values[j] > values[most] { j } else { most });
        values.swap(i, most);
        exchange_rows(long_vectors, long, i, most);
        exchange_rows(short_vectors, short, i, most);
    }
    let smallest = values.first().map_or(0.0, |largest| largest * f64::EPSILON * long as f64);
    let rank = values.iter().take_while(|&&value| value.is_nan() || value > smallest).count();
    for (row, value) in long_vectors.chunks_exact_mut(long.max(1)).zip(&values[..rank]) {
        row.iter_mut().for_each(|x| *x /= value);
    }
    complete(long_vectors, long, rank);
}

/// Replaces the rows from `known` on by ones that are orthogonal to all before, of length one.
fn complete(rows: &mut [f64], width: usize, known: usize) {
    let count = rows.len().checked_div(width).unwrap_or(0);
    // Of all unit vectors, one at least is this far from any space that is not everything.
    let far = 0.5 / sqrt(width as f64);
    let mut candidate = 0;
    for next in known..count {
        let (before, rest) = rows.split_at_mut(next * width);
        let row = &mut rest[..width];
        while candidate < width {
            row.fill(0.0);
            row[candidate] = 1.0;
            candidate += 1;
            for other in before.chunks_exact(width).chain(before.chunks_exact(width)) {
                let along: f64 = other.iter().zip(&*row).map(|(x, y)| x * y).sum();
                row.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
            let length = sqrt(row.iter().map(|x| x * x).sum());
            if length > far {
                row.iter_mut().for_each(|x| *x /= length);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
