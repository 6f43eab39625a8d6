//! Resizing of images, in one to three dimensions.
use crate::convolution::{layout_of, spatial_sizes};
use crate::dense::{buffer_bytes, converted, in_order, store, wide_bytes};
use crate::operands::{elements, elements_mut, misaligned};
use crate::ops;
use crate::typed::{Typed, for_dtype, for_floating};
use sconce_core::{Args, Call, Fault, Op, ScalarType, Shape, Tensor};
use sconce_kernels::conv::Layout;
use sconce_kernels::resize::bytes::{self, Room};
use sconce_kernels::resize::{Axis, Filter, Resize, nearest, resample};
use sconce_kernels::view::view_mut;
use sconce_kernels::{Float, Isa};
use sconce_schema::Sizes;

/// Resizing. An operator comes in two forms: `.out` has a number per dimension as its factors, each of which may be
/// absent; `.vec_out` has a list, which may be absent.
pub(crate) static OPS: &[Op] = ops! {
    "aten::upsample_nearest1d.out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 1, NEAREST, 3);
    "aten::upsample_nearest2d.out" [6] writes [4] scratch |args| scratch(args, 4, None), => |call| upsample(call, 2, NEAREST, 4);
    "aten::upsample_nearest3d.out" [7] writes [5] scratch |args| scratch(args, 5, None), => |call| upsample(call, 3, NEAREST, 5);
    "aten::upsample_nearest1d.vec_out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 1, NEAREST, 3);
    "aten::upsample_nearest2d.vec_out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 2, NEAREST, 3);
    "aten::upsample_nearest3d.vec_out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 3, NEAREST, 3);
    "aten::_upsample_nearest_exact1d.out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 1, EXACT, 3);
    "aten::_upsample_nearest_exact2d.out" [6] writes [4] scratch |args| scratch(args, 4, None), => |call| upsample(call, 2, EXACT, 4);
    "aten::_upsample_nearest_exact3d.out" [7] writes [5] scratch |args| scratch(args, 5, None), => |call| upsample(call, 3, EXACT, 5);
    "aten::_upsample_nearest_exact1d.vec_out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 1, EXACT, 3);
    "aten::_upsample_nearest_exact2d.vec_out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 2, EXACT, 3);
    "aten::_upsample_nearest_exact3d.vec_out" [5] writes [3] scratch |args| scratch(args, 3, None), => |call| upsample(call, 3, EXACT, 3);
    "aten::upsample_linear1d.out" [6] writes [4] scratch |args| scratch(args, 4, Some(LINEAR)), => |call| upsample(call, 1, Kind::Weighted(LINEAR), 4);
    "aten::upsample_bilinear2d.out" [7] writes [5] scratch |args| scratch(args, 5, Some(LINEAR)), => |call| upsample(call, 2, Kind::Weighted(LINEAR), 5);
    "aten::upsample_trilinear3d.out" [8] writes [6] scratch |args| scratch(args, 6, Some(LINEAR)), => |call| upsample(call, 3, Kind::Weighted(LINEAR), 6);
    "aten::upsample_bicubic2d.out" [7] writes [5] scratch |args| scratch(args, 5, Some(CUBIC)), => |call| upsample(call, 2, Kind::Weighted(CUBIC), 5);
    "aten::upsample_linear1d.vec_out" [6] writes [4] scratch |args| scratch(args, 4, Some(LINEAR)), => |call| upsample(call, 1, Kind::Weighted(LINEAR), 4);
    "aten::upsample_bilinear2d.vec_out" [6] writes [4] scratch |args| scratch(args, 4, Some(LINEAR)), => |call| upsample(call, 2, Kind::Weighted(LINEAR), 4);
    "aten::upsample_trilinear3d.vec_out" [6] writes [4] scratch |args| scratch(args, 4, Some(LINEAR)), => |call| upsample(call, 3, Kind::Weighted(LINEAR), 4);
    "aten::upsample_bicubic2d.vec_out" [6] writes [4] scratch |args| scratch(args, 4, Some(CUBIC)), => |call| upsample(call, 2, Kind::Weighted(CUBIC), 4);
    "aten::_upsample_bilinear2d_aa.out" [7] writes [5] scratch |args| scratch(args, 5, Some(LINEAR_AA)), => |call| upsample(call, 2, Kind::Weighted(LINEAR_AA), 5);
    "aten::_upsample_bicubic2d_aa.out" [7] writes [5] scratch |args| scratch(args, 5, Some(CUBIC_AA)), => |call| upsample(call, 2, Kind::Weighted(CUBIC_AA), 5);
    "aten::_upsample_bilinear2d_aa.vec_out" [6] writes [4] scratch |args| scratch(args, 4, Some(LINEAR_AA)), => |call| upsample(call, 2, Kind::Weighted(LINEAR_AA), 4);
    "aten::_upsample_bicubic2d_aa.vec_out" [6] writes [4] scratch |args| scratch(args, 4, Some(CUBIC_AA)), => |call| upsample(call, 2, Kind::Weighted(CUBIC_AA), 4);
};

/// What an output pixel is.
#[derive(Clone, Copy)]
enum Kind {
    /// A copy of the nearest input pixel; exactly, or as older versions rounded.
    Nearest { exact: bool },
    /// A sum of input pixels. The operator then has an argument 2 that says whether corners are aligned.
    Weighted(Filter),
}

const NEAREST: Kind = Kind::Nearest { exact: false };
const EXACT: Kind = Kind::Nearest { exact: true };
const LINEAR: Filter = Filter { cubic: false, antialias: false };
const CUBIC: Filter = Filter { cubic: true, antialias: false };
const LINEAR_AA: Filter = Filter { cubic: false, antialias: true };
const CUBIC_AA: Filter = Filter { cubic: true, antialias: true };

/// Room for the input in the output's order and in the type that computes, for the output likewise, and for the taps.
fn scratch(args: &Args<'_>, out: usize, filter: Option<Filter>) -> usize {
    let (Ok((dtype, x)), Ok((_, target))) = (args.tensor_type(0), args.tensor_type(out)) else { return 0 };
    let same = layout_of(&x) == layout_of(&target);
    let moved = if same && x.is_contiguous() == target.is_contiguous() {
        0
    } else {
        buffer_bytes(args.capacity(0).unwrap_or(0))
    };
    let Some(filter) = filter else { return moved };
    let computes = matches!(dtype, ScalarType::Float | ScalarType::Double);
    let converted = match dtype {
        _ if computes => 0,
        ScalarType::Byte => middle_bytes(&x, &target),
        _ => wide_bytes(args, 0).saturating_add(wide_bytes(args, out)),
    };
    // An antialiased axis has, all in all, eight taps at most per input position and seven per output position.
    let sizes = |shape: &Shape| shape.sizes().iter().skip(2).fold(1, |sum: usize, &size| sum.saturating_add(size));
    let entries = sizes(&target).saturating_mul(if filter.antialias { 7 } else { 4 });
    let entries = if filter.antialias { entries.saturating_add(sizes(&x).saturating_mul(8)) } else { entries };
    let table = [4, 8, 2].map(|each| buffer_bytes(entries.saturating_mul(each)));
    table.into_iter().fold(moved.saturating_add(converted), usize::saturating_add)
}

/// Room for an image of bytes that has its width already, but not its height.
fn middle_bytes(x: &Shape, target: &Shape) -> usize {
    let width = |shape: &Shape| shape.sizes().last().copied().unwrap_or(1);
    let rows = x.numel().unwrap_or(0) / width(x).max(1);
    buffer_bytes(rows.saturating_mul(width(target)))
}

/// Resizes the last `dims` dimensions to given sizes or by given factors.
fn upsample(call: &mut Call<'_>, dims: usize, kind: Kind, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (rank, input) = spatial_sizes(0, &x.shape)?;
    if rank != dims {
        let text = "an image of {} dimensions is needed here, this tensor has {}";
        return Err(Fault::argument(0, text).with([dims + 2, rank + 2]));
    }
    let (align_corners, after_size) = match kind {
        Kind::Nearest { .. } => (false, 2),
        Kind::Weighted(_) => (call.bool(2)?, 3),
    };
    let factors = factors(call, after_size, out - after_size, dims)?;
    let output = output_size(call, dims, input, factors)?;
    if input.contains(&0) || output.contains(&0) {
        return Err(Fault::argument(0, "the image has no pixels, or would have none"));
    }
    let (_, out_shape) = call.tensor_type(out)?;
    let layout = layout_of(&out_shape);
    let wanted = match layout {
        Layout::ChannelsLast => out_shape.resized(x.sizes()),
        Layout::ChannelsFirst => Shape::contiguous(x.sizes()),
    };
    let x = in_order(call, x, &wanted.unwrap_or(x.shape))?;
    let (batch, channels) = (x.sizes()[0], x.sizes()[1]);
    let (planes, inner) = match layout {
        Layout::ChannelsFirst => (batch * channels, 1),
        Layout::ChannelsLast => (batch, channels),
    };
    let axis = |d: usize| match d + dims < 3 {
        true => Axis::NONE,
        false => Axis { input: input[d], output: output[d], align_corners, factor: factors[d] },
    };
    let resize = Resize { planes, axes: [axis(0), axis(1), axis(2)], inner };
    let mut sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    sizes.iter_mut().rev().zip(output.iter().rev().take(dims)).for_each(|(size, &output)| *size = output);
    match kind {
        Kind::Nearest { exact } => {
            let target = call.out(out, &sizes)?;
            for_dtype!(numbers, x.dtype, 0, T => {
                nearest(call.parallel(), &resize, exact, elements::<T>(0, &x)?, (elements_mut(out, target)?, inner));
                Ok(())
            })
        }
        Kind::Weighted(filter) if x.dtype == ScalarType::Byte && dims == 2 => {
            weigh_bytes(call, x, &resize, filter, &sizes, out)
        }
        Kind::Weighted(filter) => {
            for_floating!(x.dtype, 0, C => weigh::<C>(call, x, &resize, filter, &sizes, out))
        }
    }
}

/// Writes weighted sums, computed as `C`.
fn weigh<'c, C: Typed + Float<Compute = C>>(
    call: &mut Call<'c>,
    x: Tensor<'c>,
    resize: &Resize,
    filter: Filter,
    sizes: &Sizes,
    out: usize,
) -> Result<(), Fault> {
    let entries = resize.table_len(filter);
    let indices = view_mut::<u32>(call.scratch(entries.saturating_mul(4))?).ok_or(misaligned(0))?;
    let weights = view_mut::<C>(call.scratch(entries.saturating_mul(size_of::<C>()))?).ok_or(misaligned(0))?;
    let x = converted::<C>(call, 0, x)?;
    let target = call.out(out, sizes)?;
    let (isa, parallel, table) = (Isa::detect(), call.parallel(), (indices, weights));
    if target.dtype == C::DTYPE {
        resample(isa, parallel, resize, filter, x, table, elements_mut(out, target)?);
        return Ok(());
    }
    let results = call.scratch(target.numel().saturating_mul(size_of::<C>()))?;
    let results = view_mut::<C>(results).ok_or(misaligned(out))?;
    resample(isa, parallel, resize, filter, x, table, results);
    store(call, out, results, target)
}

/// Writes weighted sums of bytes.
fn weigh_bytes<'c>(
    call: &mut Call<'c>,
    x: Tensor<'c>,
    resize: &Resize,
    filter: Filter,
    sizes: &Sizes,
    out: usize,
) -> Result<(), Fault> {
    let entries = resize.table_len(filter);
    let indices = view_mut::<u32>(call.scratch(entries.saturating_mul(4))?).ok_or(misaligned(0))?;
    let weights = view_mut::<f64>(call.scratch(entries.saturating_mul(8))?).ok_or(misaligned(0))?;
    let whole = view_mut::<i16>(call.scratch(entries.saturating_mul(2))?).ok_or(misaligned(0))?;
    let middle = call.scratch(resize.middle_len())?;
    let (target, parallel) = (elements_mut::<u8>(out, call.out(out, sizes)?)?, call.parallel());
    bytes::resample(parallel, resize, filter, x.data, Room { indices, weights, whole, middle }, target);
    Ok(())
}

/// The factors as depth, height, width: `count` arguments from `first` on, or one that is a list.
fn factors(call: &Call<'_>, first: usize, count: usize, dims: usize) -> Result<[Option<f64>; 3], Fault> {
    let mut factors = [None; 3];
    for (d, factor) in factors.iter_mut().skip(3 - dims).enumerate() {
        *factor = match call.list_len(first) {
            Ok(_) => Some(call.double_in(first, d)?),
            Err(_) if d < count => call.optional(first + d, |args, i| args.double(i))?,
            Err(_) => None,
        };
    }
    Ok(factors)
}

fn output_size(
    call: &Call<'_>,
    dims: usize,
    input: [usize; 3],
    factors: [Option<f64>; 3],
) -> Result<[usize; 3], Fault> {
    if !call.is_none(1)? {
        return crate::convolution::spatial(1, &call.ints(1)?, dims, 1);
    }
    let wrong = Fault::argument(1, "either {} sizes or {} positive factors are needed").with([dims, dims]);
    let mut output = [1; 3];
    for d in 3 - dims..3 {
        let size = factors[d].ok_or(wrong)? * input[d] as f64;
        output[d] = if (0.0..4e9).contains(&size) { size as usize } else { return Err(wrong) };
    }
    Ok(output)
}
