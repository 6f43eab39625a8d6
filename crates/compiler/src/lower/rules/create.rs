//! New tensors.

use super::{Answer, Table};
use crate::ir::{Arg, TensorType};
use crate::lower::Site;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::zeros", |site| filled(site, 0)),
    ("aten::zeros_like", |site| filled(site, 0)),
    ("aten::new_zeros", |site| filled(site, 0)),
    ("aten::zero", |site| filled(site, 0)),
    ("aten::ones", |site| filled(site, 1)),
    ("aten::ones_like", |site| filled(site, 1)),
    ("aten::new_ones", |site| filled(site, 1)),
    ("aten::empty.memory_format", |site| filled(site, 0)),
    ("aten::empty_like", |site| filled(site, 0)),
    ("aten::empty_permuted", |site| filled(site, 0)),
    ("aten::empty_strided", |site| filled(site, 0)),
    ("aten::new_empty", |site| filled(site, 0)),
    ("aten::new_empty_strided", |site| filled(site, 0)),
    ("aten::full", |site| filled_with(site, "fill_value")),
    ("aten::full_like", |site| filled_with(site, "fill_value")),
    ("aten::new_full", |site| filled_with(site, "fill_value")),
    ("aten::fill.Scalar", |site| filled_with(site, "value")),
    ("aten::scalar_tensor", |site| filled_with(site, "s")),
    ("aten::fill.Tensor", |site| spread(site, "value")),
    ("aten::copy", |site| spread(site, "src")),
    ("aten::rand_like", |site| random(site, "aten::rand")),
    ("aten::randn_like", |site| random(site, "aten::randn")),
    ("aten::bernoulli.Tensor", |site| {
        // The runtime takes a probability for each element.
        let (x, p, ty) = (site.tensor("self")?, site.tensor("p")?, site.result(0));
        let p = site.expand(p, &ty.sizes);
        Ok(vec![site.call("aten::bernoulli.Tensor", [("self", x.into()), ("p", p.into())], ty)])
    }),
    ("aten::arange", arange),
    ("aten::arange.start", arange),
    ("aten::linspace", linspace),
    ("aten::eye", eye),
    ("aten::eye.m", eye),
    ("aten::tril_indices", |site| triangle(site, |row, column, offset| column - row <= offset)),
    ("aten::triu_indices", |site| triangle(site, |row, column, offset| column - row >= offset)),
];

/// One number everywhere.
fn filled(site: &mut Site<'_, '_>, number: i64) -> Answer {
    let ty = site.result(0);
    Ok(vec![full(site, &ty, number.into())])
}

fn filled_with(site: &mut Site<'_, '_>, name: &str) -> Answer {
    if site.optional_tensor(name).is_some() {
        return spread(site, name);
    }
    let (ty, number) = (site.result(0), site.scalar(name, 0));
    Ok(vec![full(site, &ty, number)])
}

/// A number of the kind that the tensor holds.
fn full(site: &mut Site<'_, '_>, ty: &TensorType, number: Arg) -> crate::ir::ValueId {
    let number = match (&number, ty.dtype) {
        (Arg::Int(size), ScalarType::Bool) if size.number().is_some() => Arg::Bool(size.number() != Some(0)),
        (Arg::Bool(truth), dtype) if dtype != ScalarType::Bool => i64::from(*truth).into(),
        (Arg::Float(number), ScalarType::Bool) => Arg::Bool(*number != 0.0),
        (Arg::Float(number), dtype) if dtype.is_integral(true) => Arg::from(*number as i64),
        _ => number,
    };
    site.full(ty, number)
}

/// A tensor's elements in all places that they are wanted at.
fn spread(site: &mut Site<'_, '_>, name: &str) -> Answer {
    let (value, ty) = (site.tensor(name)?, site.result(0));
    let value = site.cast(value, ty.dtype);
    Ok(vec![site.expand(value, &ty.sizes)])
}

fn random(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let ty = site.result(0);
    Ok(vec![site.call(operator, [("size", ty.sizes.clone().into())], ty)])
}

/// The kernel counts in the type of its result, from and to whole numbers where that is an integer.
fn arange(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    let own = site.call.operator().unwrap_or_default().to_owned();
    let mut args = Vec::new();
    for name in ["start", "end"] {
        if *site.arg(name) != Arg::None {
            args.push((name, site.arg(name).clone()));
        }
    }
    Ok(vec![site.call(own, args, ty)])
}

/// Known numbers as a tensor of a type that rules fold.
fn folded(site: &mut Site<'_, '_>, ty: &TensorType, numbers: impl Iterator<Item = f64>) -> Option<crate::ir::ValueId> {
    let bytes = match ty.dtype {
        ScalarType::Float => numbers.flat_map(|number| (number as f32).to_le_bytes()).collect(),
        ScalarType::Double => numbers.flat_map(f64::to_le_bytes).collect(),
        ScalarType::Long => numbers.flat_map(|number| (number as i64).to_le_bytes()).collect(),
        ScalarType::Int => numbers.flat_map(|number| (number as i32).to_le_bytes()).collect(),
        ScalarType::Bool => numbers.map(|number| u8::from(number != 0.0)).collect(),
        _ => return None,
    };
    Some(site.constant(ty.clone(), bytes))
}

/// Single-precision numbers at equal distances, counted from the nearer end as torch does.
fn linspace(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    let known = ty.numbers().filter(|_| ty.dtype == ScalarType::Float).and_then(|sizes| {
        Some((site.float("start", 0.0).ok()? as f32, site.float("end", 0.0).ok()? as f32, *sizes.first()?))
    });
    let Some((start, end, steps)) = known else { return Ok(site.renamed("aten::linspace")) };
    site.small(&[steps])?;
    let step = (end - start) / steps.saturating_sub(1).max(1) as f32;
    let at = |index: i64| {
        if index < steps / 2 { step.mul_add(index as f32, start) } else { end - step * (steps - index - 1) as f32 }
    };
    let numbers: Vec<f64> = (0..steps).map(|index| if steps == 1 { start } else { at(index) }.into()).collect();
    let own = site.call.operator().unwrap_or_default().to_owned();
    Ok(folded(site, &ty, numbers.into_iter()).map_or_else(|| site.renamed(own), |value| vec![value]))
}

fn eye(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    let own = site.call.operator().unwrap_or_default().to_owned();
    let Some([rows, columns]) = ty.numbers().and_then(|sizes| <[i64; 2]>::try_from(sizes).ok()) else {
        return Ok(site.renamed(own));
    };
    site.small(&[rows, columns])?;
    let numbers = (0..rows).flat_map(|row| (0..columns).map(move |column| f64::from(u8::from(row == column))));
    Ok(folded(site, &ty, numbers).map_or_else(|| site.renamed(own), |value| vec![value]))
}

/// The rows and columns of a triangle's elements.
fn triangle(site: &mut Site<'_, '_>, inside: fn(i64, i64, i64) -> bool) -> Answer {
    let ty = site.result(0);
    let (rows, columns, offset) = (site.int("row", 0)?, site.int("col", 0)?, site.int("offset", 0)?);
    site.small(&[rows, columns, 2])?;
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let places: Vec<(i64, i64)> = places.filter(|&(row, column)| inside(row, column, offset)).collect();
    let numbers = places.iter().map(|place| place.0).chain(places.iter().map(|place| place.1));
    let own = site.call.operator().unwrap_or_default().to_owned();
    let value = folded(site, &ty, numbers.map(|number| number as f64).collect::<Vec<_>>().into_iter());
    Ok(value.map_or_else(|| site.renamed(own), |value| vec![value]))
}
