//! Pads.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, ValueId};
use crate::lower::Site;
use crate::size::Size;

pub(super) const RULES: Table = &[
    ("aten::pad", pad),
    ("aten::_pad_enum", pad),
    ("aten::_pad_circular", |site| {
        let x = subject(site)?;
        circular(site, x)
    }),
];

/// Pads by the mode's name, or by its number.
fn pad(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty, pads) = (subject(site)?, site.result(0), site.sizes("pad").unwrap_or_default());
    let named = ["constant", "reflect", "replicate", "circular"];
    let mode = match site.arg("mode") {
        Arg::Int(number) => number.number().and_then(|number| named.get(usize::try_from(number).ok()?).copied()),
        _ => named.into_iter().find(|name| *name == site.text("mode", "constant")),
    };
    let operator = match (mode, pads.len()) {
        (Some("constant"), _) => {
            let args = [("self", x.into()), ("pad", pads.into()), ("value", site.scalar("value", 0))];
            return Ok(vec![site.call("aten::constant_pad_nd", args, ty)]);
        }
        (Some("circular"), _) => return circular(site, x),
        (Some("reflect"), 2) => "aten::reflection_pad1d",
        (Some("reflect"), 4) => "aten::reflection_pad2d",
        (Some("reflect"), 6) => "aten::reflection_pad3d",
        (Some("replicate"), 2) => "aten::replication_pad1d",
        (Some("replicate"), 4) => "aten::replication_pad2d",
        (Some("replicate"), 6) => "aten::replication_pad3d",
        _ => return Err(Error::unsupported("a pad of this mode")),
    };
    Ok(vec![site.call(operator, [("self", x.into()), ("padding", pads.into())], ty)])
}

/// Each dimension goes on where it ends: what lies at one end is also put before the other. A negative pad cuts.
fn circular(site: &mut Site<'_, '_>, mut x: ValueId) -> Answer {
    let pads = site.ints("pad", &[])?;
    let rank = site.ranked(site.ty(x), pads.len() / 2)?.rank();
    for (index, pair) in pads.chunks_exact(2).enumerate() {
        let dim = rank - 1 - index;
        let (before, after) = (pair[0], pair[1]);
        let size = site.ty(x).sizes[dim].clone();
        let kept = site.slice(x, dim, before.saturating_neg().max(0).into(), size.plus(&after.min(0).into()));
        let mut parts = vec![kept];
        if before > 0 {
            let end = size.plus(&after.min(0).into());
            parts.insert(0, site.slice(x, dim, end.minus(&before.into()), end));
        }
        if after > 0 {
            let start = Size::from(before.saturating_neg().max(0));
            parts.push(site.slice(x, dim, start.clone(), start.plus(&after.into())));
        }
        x = site.cat(&parts, dim);
    }
    Ok(vec![x])
}
