//! Pools. Those along one dimension are pools of images of one row.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::avg_pool1d", avg_pool1d),
    ("aten::max_pool1d", max_pool1d),
    ("aten::max_pool1d_with_indices", max_pool1d),
    ("aten::max_pool2d", |site| largest(site, "aten::max_pool2d_with_indices")),
    ("aten::max_pool3d", |site| largest(site, "aten::max_pool3d_with_indices")),
    ("aten::adaptive_avg_pool1d", adaptive_avg_pool1d),
    ("aten::adaptive_avg_pool2d", |site| adaptive_avg_pool(site, 2, "aten::_adaptive_avg_pool2d")),
    ("aten::adaptive_avg_pool3d", |site| adaptive_avg_pool(site, 3, "aten::_adaptive_avg_pool3d")),
    ("aten::adaptive_max_pool1d", adaptive_max_pool1d),
    ("aten::adaptive_max_pool2d", adaptive_max_pool2d),
];

/// The tensor as images of one row.
fn one_row(site: &mut Site<'_, '_>) -> Result<ValueId, Error> {
    let x = subject(site)?;
    let place = site.ty(x).rank().saturating_sub(1);
    Ok(site.unsqueeze(x, place))
}

/// The sizes of a result with a row of its own.
fn with_row(ty: &TensorType) -> TensorType {
    let mut sizes = ty.sizes.clone();
    sizes.insert(sizes.len().saturating_sub(1), Size::from(1));
    ty.with_sizes(sizes)
}

/// An argument for one dimension as one for two; without any, none.
fn for_image(site: &Site<'_, '_>, name: &str, row: i64) -> Result<Arg, Error> {
    Ok(match site.ints(name, &[])?.first() {
        Some(&column) => vec![row, column].into(),
        None => Vec::<i64>::new().into(),
    })
}

fn avg_pool1d(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (one_row(site)?, site.result(0));
    let args = [
        ("self", x.into()),
        ("kernel_size", for_image(site, "kernel_size", 1)?),
        ("stride", for_image(site, "stride", 1)?),
        ("padding", site.each("padding", 0, 1).map(|padding| vec![0, padding[0]].into())?),
        ("ceil_mode", site.bool("ceil_mode", false).into()),
        ("count_include_pad", site.bool("count_include_pad", true).into()),
    ];
    let pool = site.call("aten::avg_pool2d", args, with_row(&ty));
    Ok(vec![site.view(pool, ty.sizes)])
}

fn max_pool1d(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (one_row(site)?, site.result(0));
    let args = [
        ("self", x.into()),
        ("kernel_size", for_image(site, "kernel_size", 1)?),
        ("stride", for_image(site, "stride", 1)?),
        ("padding", site.each("padding", 0, 1).map(|padding| vec![0, padding[0]].into())?),
        ("dilation", site.each("dilation", 1, 1).map(|dilation| vec![1, dilation[0]].into())?),
        ("ceil_mode", site.bool("ceil_mode", false).into()),
    ];
    let wide = with_row(&ty);
    let both = [wide.clone(), wide.with_dtype(ScalarType::Long)];
    let pools = site.calls("aten::max_pool2d_with_indices", args, both);
    Ok(pools[..site.call.outputs.len().min(2)].iter().map(|pool| site.view(*pool, ty.sizes.clone())).collect())
}

/// The operator that also gives indices, without them.
fn largest(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let ty = site.result(0);
    let args: Vec<(&'static str, Arg)> = ["self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"]
        .map(|name| (name, site.arg(name).clone()))
        .into_iter()
        .filter(|(_, arg)| *arg != Arg::None)
        .collect();
    let [values, _] = site.calls(operator, args, [ty.clone(), ty.with_dtype(ScalarType::Long)]);
    Ok(vec![values])
}

fn adaptive_avg_pool1d(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (one_row(site)?, site.ranked_result(0, 1)?);
    let columns = ty.sizes[ty.rank() - 1].clone();
    let size = vec![Size::from(1), columns];
    let pool =
        site.call("aten::adaptive_avg_pool2d", [("self", x.into()), ("output_size", size.into())], with_row(&ty));
    Ok(vec![site.view(pool, ty.sizes)])
}

/// A pool to a single element is the mean.
fn adaptive_avg_pool(site: &mut Site<'_, '_>, dims: usize, operator: &'static str) -> Answer {
    let (x, ty) = (subject(site)?, site.ranked_result(0, dims)?);
    let last: Vec<usize> = (ty.rank() - dims..ty.rank()).collect();
    if last.iter().all(|&dim| ty.sizes[dim].number() == Some(1)) {
        return Ok(vec![site.reduce("aten::mean.dim", x, &last, true, ty.dtype)]);
    }
    let size: Vec<Size> = last.iter().map(|&dim| ty.sizes[dim].clone()).collect();
    Ok(vec![site.call(operator, [("self", x.into()), ("output_size", size.into())], ty)])
}

fn adaptive_max_pool1d(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (one_row(site)?, site.ranked_result(0, 1)?);
    let size = vec![Size::from(1), ty.sizes[ty.rank() - 1].clone()];
    let wide = with_row(&ty);
    let both = [wide.clone(), wide.with_dtype(ScalarType::Long)];
    let pools = site.calls("aten::adaptive_max_pool2d", [("self", x.into()), ("output_size", size.into())], both);
    Ok(pools.iter().map(|pool| site.view(*pool, ty.sizes.clone())).collect())
}

/// Where the windows are all the same, an ordinary pool does it.
fn adaptive_max_pool2d(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let windows = |site: &Site<'_, '_>| -> Option<Vec<i64>> {
        let (from, to) = (site.ty(x).numbers()?, ty.numbers()?);
        let last = from.iter().zip(&to).skip(from.len().checked_sub(2)?).map(|(from, to)| (*from, *to));
        last.map(|(from, to)| (to > 0 && from % to == 0).then(|| from / to)).collect()
    };
    match windows(site) {
        Some(window) => {
            let both = [ty.clone(), ty.with_dtype(ScalarType::Long)];
            let args = [("self", x.into()), ("kernel_size", window.clone().into()), ("stride", window.into())];
            Ok(site.calls("aten::max_pool2d_with_indices", args, both).to_vec())
        }
        None => Ok(site.renamed("aten::adaptive_max_pool2d")),
    }
}
