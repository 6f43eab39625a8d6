//! Images of other sizes.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;

pub(super) const RULES: Table = &[
    ("aten::upsample_nearest1d.vec", |site| one_row(site, "aten::upsample_nearest2d.vec")),
    ("aten::upsample_linear1d.vec", |site| one_row(site, "aten::upsample_bilinear2d.vec")),
    ("aten::upsample_nearest2d", |site| without_scales(site, "aten::upsample_nearest2d.vec")),
    ("aten::upsample_bilinear2d", |site| without_scales(site, "aten::upsample_bilinear2d.vec")),
    ("aten::_upsample_bilinear2d_aa.vec", antialiased),
    ("aten::channel_shuffle", channel_shuffle),
    ("aten::native_channel_shuffle", channel_shuffle),
    ("aten::grid_sampler", grid_sampler),
    ("aten::affine_grid_generator", affine_grid),
];

/// Rows of elements as images of one row; its height keeps the scale one.
fn one_row(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let (x, ty) = (site.tensor("input")?, site.ranked_result(0, 3)?);
    let image = site.unsqueeze(x, 2);
    let mut args = vec![("input", Arg::from(image)), ("output_size", Arg::None), ("scale_factors", Arg::None)];
    match site.arg("scale_factors") {
        Arg::Floats(scales) => args[2].1 = Arg::Floats([&[1.0], &scales[..]].concat()),
        _ => args[1].1 = vec![Size::from(1), ty.sizes[2].clone()].into(),
    }
    if let Arg::Bool(aligned) = site.arg("align_corners") {
        args.insert(2, ("align_corners", (*aligned).into()));
    }
    let mut sizes = ty.sizes.clone();
    sizes.insert(2, 1.into());
    let resized = site.call(operator, args, ty.with_sizes(sizes));
    Ok(vec![site.view(resized, ty.sizes)])
}

/// Sizes alone say what scales do, if there are none.
fn without_scales(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let (x, ty) = (subject(site)?, site.ranked_result(0, 2)?);
    if *site.arg("scales_h") != Arg::None || *site.arg("scales_w") != Arg::None {
        let own = site.call.operator().unwrap_or_default().to_owned();
        return Ok(site.renamed(own));
    }
    let mut args = vec![("input", Arg::from(x)), ("output_size", ty.sizes[2..].to_vec().into())];
    if let Arg::Bool(aligned) = site.arg("align_corners") {
        args.push(("align_corners", (*aligned).into()));
    }
    args.push(("scale_factors", Arg::None));
    Ok(vec![site.call(operator, args, ty)])
}

/// The runtime takes the scales one by one.
fn antialiased(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (site.tensor("input")?, site.ranked_result(0, 2)?);
    let mut args = vec![("self", Arg::from(x)), ("output_size", ty.sizes[2..].to_vec().into())];
    args.push(("align_corners", site.bool("align_corners", false).into()));
    if let Arg::Floats(scales) = site.arg("scale_factors")
        && let [high, wide] = scales[..]
    {
        args.extend([("scales_h", high.into()), ("scales_w", wide.into())]);
    }
    Ok(vec![site.call("aten::_upsample_bilinear2d_aa", args, ty)])
}

/// Channels in groups, the first of each group first.
fn channel_shuffle(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.ranked_result(0, 2)?);
    let groups = Size::from(site.int("groups", 1)?);
    let each = ty.sizes[1].floor_div(&groups);
    let inner = ty.sizes[2..].iter().fold(Size::from(1), |product, size| product.times(size));
    let grouped = site.view(x, vec![ty.sizes[0].clone(), groups, each, inner]);
    let swapped = site.permute(grouped, &[0, 2, 1, 3]);
    Ok(vec![site.view(swapped, ty.sizes)])
}

fn grid_sampler(site: &mut Site<'_, '_>) -> Answer {
    let rank = site.ty(site.tensor("input")?).rank();
    Ok(site.renamed(if rank == 5 { "aten::grid_sampler_3d" } else { "aten::grid_sampler_2d" }))
}

/// The places that affine maps send the places of images to: known places, with a one, times the maps.
fn affine_grid(site: &mut Site<'_, '_>) -> Answer {
    let (theta, ty) = (site.tensor("theta")?, site.ranked_result(0, 2)?);
    let numbers = ty.numbers().ok_or_else(|| Error::unsupported("affine_grid_generator with sizes unknown before"))?;
    let inner = &numbers[1..numbers.len() - 1];
    let dims = inner.len() as i64;
    site.small(&[inner, &[dims + 1]].concat())?;
    let count = inner.iter().product::<i64>();
    let base = base_places(site, inner, site.bool("align_corners", false), &ty);
    let base = site.expand(base, &[numbers[0], count, dims + 1].map(Size::from));
    let maps = site.transposed(theta, 1, 2);
    let product = TensorType::fixed(ty.dtype, &[numbers[0], count, dims]);
    let places = site.call("aten::bmm", [("self", base.into()), ("mat2", maps.into())], product);
    Ok(vec![site.view(places, ty.sizes)])
}

/// For each place of an image its coordinates from -1 to 1, the last dimension's first, and a one.
fn base_places(site: &mut Site<'_, '_>, sizes: &[i64], aligned: bool, ty: &TensorType) -> ValueId {
    let at = |index: i64, size: i64| {
        let (index, size) = (index as f32, size as f32);
        match aligned {
            true if size <= 1.0 => 0.0,
            true => 2.0 * index / (size - 1.0) - 1.0,
            false => (2.0 * index + 1.0) / size - 1.0,
        }
    };
    let count: i64 = sizes.iter().product();
    let mut bytes = Vec::new();
    for place in 0..count {
        let mut rest = place;
        for &size in sizes.iter().rev() {
            bytes.extend(at(rest % size, size).to_le_bytes());
            rest /= size;
        }
        bytes.extend(1f32.to_le_bytes());
    }
    let own = TensorType::fixed(sconce_format::ScalarType::Float, &[1, count, sizes.len() as i64 + 1]);
    let base = site.constant(own, bytes);
    site.cast(base, ty.dtype)
}
