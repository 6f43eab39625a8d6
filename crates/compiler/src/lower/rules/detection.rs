//! What detectors do with boxes.

use super::{Answer, Table};
use crate::ir::Arg;
use crate::lower::Site;
use crate::size::Size;

pub(super) const RULES: Table = &[("torchvision::nms", nms), ("torchvision::deform_conv2d", deform_conv)];

/// How many boxes stay nobody knows, but not more than there are.
fn nms(site: &mut Site<'_, '_>) -> Answer {
    let scores = site.tensor("scores")?;
    let (kept, all) = (site.ranked_result(0, 1)?.size(0), site.ty(scores).count());
    site.limit(&kept, &all);
    Ok(site.renamed("torchvision::nms"))
}

/// What the bent windows read, times the weights.
fn deform_conv(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.ranked_result(0, 4)?;
    let [input, weight, offset, mask, bias] =
        ["input", "weight", "offset", "mask", "bias"].map(|name| site.tensor(name));
    let (input, weight, offset, mask, bias) = (input?, weight?, offset?, mask?, bias?);
    let (images, filter) = (site.ranked(site.ty(input), 4)?, site.ranked(site.ty(weight), 4)?);
    let groups: Size = site.int("groups", 1)?.max(1).into();
    let pair = |site: &Site<'_, '_>, name: [&str; 2], default: i64| -> Result<Arg, crate::Error> {
        Ok(vec![site.int(name[0], default)?, site.int(name[1], default)?].into())
    };
    let stride = pair(site, ["stride_h", "stride_w"], 1)?;
    let padding = pair(site, ["pad_h", "pad_w"], 0)?;
    let dilation = pair(site, ["dilation_h", "dilation_w"], 1)?;
    let (taps, windows) = (filter.size(2).times(&filter.size(3)), ty.size(2).times(&ty.size(3)));
    let mut args = vec![
        ("input", input.into()),
        ("offset", offset.into()),
        ("kernel_size", filter.sizes[2..].to_vec().into()),
        ("stride", stride),
        ("padding", padding),
        ("dilation", dilation),
    ];
    args.push(("mask", if site.bool("use_mask", false) { mask.into() } else { Arg::None }));
    let (batch, rows) = (images.size(0), images.size(1).times(&taps));
    let all = ty.with_sizes([batch.clone(), rows.clone(), windows.clone()]);
    let columns = site.call("sconce::deform_columns", args, all);
    let (own, filters) = (rows.floor_div(&groups), filter.size(0).floor_div(&groups));
    let columns = site.view(columns, vec![batch.clone(), groups.clone(), own.clone(), windows.clone()]);
    let weight = site.view(weight, vec![1.into(), groups.clone(), filters.clone(), own]);
    let product = ty.with_sizes([batch, groups, filters, windows]);
    let product = site.matmul(weight, columns, product);
    let product = site.view(product, ty.sizes.clone());
    let bias = site.view(bias, vec![1.into(), filter.size(0), 1.into(), 1.into()]);
    Ok(vec![site.binary("aten::add.Tensor", product, bias, &ty)])
}
