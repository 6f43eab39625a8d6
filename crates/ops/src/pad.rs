//! Padding: by a constant, by mirroring, by repeating the border.
//!
//! All are copies with a rule per dimension ([`crate::remap`]). Paddings are pairs (before, after) from the last
//! dimension on; negative ones cut off.
use crate::copies::rearrange::copy_by_rules;
use crate::fill::element_bytes;
use crate::operands::{shape_fault, signed};
use crate::ops;
use crate::remap::Rule;
use sconce_core::{Call, Fault, Op};
use sconce_schema::shapes;

/// Paddings.
pub(crate) static OPS: &[Op] = ops! {
    "aten::constant_pad_nd.out" [5] writes [3] => constant_pad;
    "aten::reflection_pad1d.out" [4] writes [2] => |call| border_pad(call, 1, Rule::Reflect);
    "aten::reflection_pad2d.out" [4] writes [2] => |call| border_pad(call, 2, Rule::Reflect);
    "aten::reflection_pad3d.out" [4] writes [2] => |call| border_pad(call, 3, Rule::Reflect);
    "aten::replication_pad1d.out" [4] writes [2] => |call| border_pad(call, 1, Rule::Replicate);
    "aten::replication_pad2d.out" [4] writes [2] => |call| border_pad(call, 2, Rule::Replicate);
    "aten::replication_pad3d.out" [4] writes [2] => |call| border_pad(call, 3, Rule::Replicate);
};

/// Copies argument 0 into padded sizes; `rule` makes a dimension's rule from the padding before it.
fn pad(call: &mut Call<'_>, out: usize, pads: &[i64], rule: fn(i64) -> Rule, fill: &[u8; 16]) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let sizes = shapes::pad(x.sizes(), pads).map_err(|error| shape_fault(error).at(1))?;
    let last = sizes.len();
    let rule = |dim: usize| match pads.chunks_exact(2).nth(last - 1 - dim) {
        Some(&[before, after]) if (before, after) != (0, 0) => rule(before),
        _ => Rule::Keep,
    };
    copy_by_rules(call, x, out, &sizes, rule, fill)
}

fn constant_pad(call: &mut Call<'_>) -> Result<(), Fault> {
    let pads = call.ints(1)?;
    let (dtype, shape) = call.tensor_type(0)?;
    let fill = element_bytes(0, dtype, call.scalar(2)?)?;
    for (&size, pair) in shape.sizes().iter().rev().zip(pads.chunks_exact(2)) {
        // What is cut off must be there before anything is added.
        let cut = pair.iter().fold(0i64, |cut, &pad| cut.saturating_add(pad.min(0)));
        if signed(size).saturating_add(cut) < 0 {
            let text = "a padding of {} cuts more than the {} elements there are";
            return Err(Fault::argument(1, text).with_signed([cut, signed(size)]));
        }
    }
    pad(call, 3, &pads, Rule::Constant, &fill)
}

/// Pads the last `spatial` dimensions of an input that has one or two more.
fn border_pad(call: &mut Call<'_>, spatial: usize, rule: fn(i64) -> Rule) -> Result<(), Fault> {
    let pads = call.ints(1)?;
    let (_, shape) = call.tensor_type(0)?;
    if pads.len() != 2 * spatial || !(spatial + 1..=spatial + 2).contains(&shape.rank()) {
        let text = "{} numbers of padding need an input of {} or {} dimensions";
        return Err(Fault::argument(0, text).with([2 * spatial, spatial + 1, spatial + 2]));
    }
    for (&size, pair) in shape.sizes().iter().rev().zip(pads.chunks_exact(2)) {
        let mirrored = rule(0) == Rule::Reflect(0);
        for &pad in pair {
            if mirrored && pad >= signed(size) {
                let text = "a padding of {} cannot be mirrored from {} elements: it must be less";
                return Err(Fault::argument(1, text).with_signed([pad, signed(size)]));
            }
        }
        if size == 0 {
            return Err(Fault::argument(0, "a dimension without elements has no border to pad with"));
        }
    }
    pad(call, 2, &pads, rule, &[0; 16])
}
