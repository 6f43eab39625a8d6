//! Decompositions of matrices, by operators that give more than is asked for.

use super::norm::matrix_dims;
use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::linalg_inv", |site| {
        let a = matrix(site)?;
        Ok(vec![inverse(site, a)])
    }),
    ("aten::linalg_det", |site| first(site, "aten::_linalg_det", &[Further::Matrix, Further::Pivots], [])),
    ("aten::linalg_slogdet", |site| first(site, "aten::_linalg_slogdet", &[Further::Matrix, Further::Pivots], [])),
    ("aten::logdet", logdet),
    ("aten::linalg_cholesky", cholesky),
    ("aten::linalg_lu_factor", |site| first(site, "aten::linalg_lu_factor_ex", &[Further::Info], [])),
    ("aten::linalg_solve", solve),
    ("aten::linalg_solve_ex", solve),
    ("aten::linalg_eigh", |site| first(site, "aten::_linalg_eigh", &[], [])),
    ("aten::linalg_eigvalsh", |site| first(site, "aten::_linalg_eigh", &[Further::Matrix], [])),
    ("aten::linalg_svd", |site| {
        // What is called instead has another default.
        let full = site.bool("full_matrices", true);
        first(site, "aten::_linalg_svd", &[], [("full_matrices", full.into())])
    }),
    ("aten::linalg_svdvals", |site| {
        let a = matrix(site)?;
        Ok(vec![singular_values(site, a)])
    }),
    ("aten::svd", svd),
    ("aten::linalg_matrix_power", power),
    ("aten::pinverse", |site| {
        let (a, ty, rtol) = (subject(site)?, site.result(0), site.float("rcond", 1e-15)?);
        Ok(vec![site.call("aten::linalg_pinv.atol_rtol_float", [("self", a.into()), ("rtol", rtol.into())], ty)])
    }),
    ("aten::linalg_diagonal", |site| {
        let (a, ty) = (matrix(site)?, site.result(0));
        let dims = [("dim1", site.int("dim1", -2)?.into()), ("dim2", site.int("dim2", -1)?.into())];
        let args = [("self", a.into()), ("offset", site.int("offset", 0)?.into())];
        Ok(vec![site.call("aten::diagonal", args.into_iter().chain(dims), ty)])
    }),
];

/// The matrices that a call is about; they have two dimensions at least.
fn matrix(site: &Site<'_, '_>) -> Result<ValueId, Error> {
    let value = site.optional_tensor("A").map_or_else(|| subject(site), Ok)?;
    site.ranked(site.ty(value), 2).map(|_| value)
}

/// A result that nobody asked for.
enum Further {
    /// As large as the argument.
    Matrix,
    /// A row's place for each row.
    Pivots,
    /// Whether it went well, for each matrix.
    Info,
}

/// The first results of another operator with the same arguments, and `given` ones; `further` are those after them.
fn first<const N: usize>(
    site: &mut Site<'_, '_>,
    operator: &'static str,
    further: &[Further],
    given: [(&'static str, Arg); N],
) -> Answer {
    let a = matrix(site)?;
    let own = site.plain_type(a);
    let mut types: Vec<TensorType> = (0..site.call.outputs.len()).map(|index| site.result(index)).collect();
    let rows = own.rank() - 1;
    types.extend(further.iter().map(|kind| match kind {
        Further::Matrix => own.clone(),
        Further::Pivots => TensorType::new(ScalarType::Int, &own.sizes[..rows]),
        Further::Info => TensorType::new(ScalarType::Int, &own.sizes[..rows - 1]),
    }));
    let mut args = vec![("A", Arg::from(a))];
    args.extend(given);
    for name in ["UPLO", "driver", "pivot"] {
        if *site.arg(name) != Arg::None {
            args.push((name, site.arg(name).clone()));
        }
    }
    let mut results = site.call_many(operator, args, types);
    results.truncate(site.call.outputs.len());
    Ok(results)
}

fn info(ty: &TensorType) -> TensorType {
    TensorType::new(ScalarType::Int, &ty.sizes[..ty.rank() - 2])
}

fn inverse(site: &mut Site<'_, '_>, a: ValueId) -> ValueId {
    let ty = site.plain_type(a);
    let info = info(&ty);
    let [inverse, _] = site.calls("aten::linalg_inv_ex", [("A", a.into())], [ty, info]);
    inverse
}

fn cholesky(site: &mut Site<'_, '_>) -> Answer {
    let (a, ty) = (matrix(site)?, site.ranked_result(0, 2)?);
    let args = [("self", a.into()), ("upper", site.bool("upper", false).into())];
    let [factor, _] = site.calls("aten::linalg_cholesky_ex", args, [ty.clone(), info(&ty)]);
    Ok(vec![factor])
}

/// Not a number where the determinant is negative.
fn logdet(site: &mut Site<'_, '_>) -> Answer {
    let (a, ty) = (matrix(site)?, site.result(0));
    let own = site.plain_type(a);
    let pivots = TensorType::new(ScalarType::Int, &own.sizes[..own.rank() - 1]);
    let types = [ty.clone(), ty, own, pivots];
    let [sign, size, ..] = site.calls("aten::_linalg_slogdet", [("A", a.into())], types);
    let negative = site.compare("aten::lt.Scalar", sign, 0);
    Ok(vec![site.fill_where(size, negative, f64::NAN)])
}

fn solve(site: &mut Site<'_, '_>) -> Answer {
    let (a, b, ty) = (matrix(site)?, site.tensor("B")?, site.result(0));
    let own = site.plain_type(a);
    let pivots = TensorType::new(ScalarType::Int, &own.sizes[..own.rank() - 1]);
    let info = info(&own);
    let args = [("A", a.into()), ("B", b.into()), ("left", site.bool("left", true).into())];
    let [result, _, _, info] = site.calls("aten::_linalg_solve_ex", args, [ty, own, pivots, info]);
    Ok([result, info][..site.call.outputs.len().min(2)].to_vec())
}

/// The types of `U`, the singular values and `V` of matrices, as small as they can be.
fn factors(ty: &TensorType) -> [TensorType; 3] {
    let (batch, last) = ty.sizes.split_at(ty.rank() - 2);
    let short = Size::min(&last[0], &last[1]);
    [vec![last[0].clone(), short.clone()], vec![short.clone()], vec![short, last[1].clone()]]
        .map(|sizes| ty.with_sizes([batch, &sizes].concat()))
}

pub(super) fn singular_values(site: &mut Site<'_, '_>, a: ValueId) -> ValueId {
    let ty = site.plain_type(a);
    let [u, values, v] = factors(&ty);
    let types = [u, values.with_dtype(ty.dtype.real()), v];
    let [_, values, _] = site.calls("aten::_linalg_svd", [("A", a.into())], types);
    values
}

/// The older form gives `V`, not its transpose.
fn svd(site: &mut Site<'_, '_>) -> Answer {
    let a = matrix(site)?;
    if !site.bool("some", true) || !site.bool("compute_uv", true) {
        return Err(Error::unsupported("svd with all or without singular vectors: use torch.linalg.svd"));
    }
    let types = factors(&site.plain_type(a));
    let [u, values, v] = site.calls("aten::_linalg_svd", [("A", a.into())], types);
    let rank = site.ty(v).rank();
    let v = site.conjugate(v);
    Ok(vec![u, values, site.transposed(v, rank - 2, rank - 1)])
}

/// Products of a matrix with itself.
fn power(site: &mut Site<'_, '_>) -> Answer {
    let (mut a, ty, n) = (matrix(site)?, site.ranked_result(0, 2)?, site.int("n", 1)?);
    if n < 0 {
        a = inverse(site, a);
    }
    if n == 0 {
        let size = ty.sizes[ty.rank() - 1].clone();
        let one = ty.with_sizes([size.clone(), size.clone()]);
        let one = site.call("aten::eye", [("n", size.into())], one);
        return Ok(vec![site.expand(one, &ty.sizes)]);
    }
    let mut product = a;
    for _ in 1..site.few(n.saturating_abs(), "products")? {
        product = site.matmul(product, a, ty.clone());
    }
    Ok(vec![product])
}

/// A norm of the singular values of matrices: their sum, the largest or the smallest.
pub(super) fn spectral(site: &mut Site<'_, '_>, a: ValueId, operator: &'static str) -> Answer {
    let (ty, [rows, columns]) = (site.result(0), matrix_dims(site, a)?);
    if site.ty(a).dtype.is_complex() {
        return Err(Error::unsupported("a norm of the singular values of complex matrices"));
    }
    let rank = site.ranked(site.ty(a), 2)?.rank();
    let rest = (0..rank).filter(|dim| *dim != rows && *dim != columns);
    let order: Vec<usize> = rest.chain([rows, columns]).collect();
    let a = site.permute(a, &order);
    let values = singular_values(site, a);
    let norm = site.reduce(operator, values, &[rank - 2], false, ty.dtype);
    Ok(vec![site.view(norm, ty.sizes)])
}
