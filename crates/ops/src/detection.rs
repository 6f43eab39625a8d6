//! What detectors do with boxes: choosing among them, bringing what is in them to one size, and convolution whose windows
//! are bent.
use crate::dense::{buffer_bytes, converted_row_major, converted_scratch, write_converted};
use crate::operands::{elements_mut, misaligned};
use crate::ops;
use crate::typed::for_floating;
use sconce_core::{Call, Fault, Op};
use sconce_kernels::boxes::{Suppression, suppress};
use sconce_kernels::deform::{Deform, columns};
use sconce_kernels::regions::{BOX, Points, Regions, align, largest, mean};
use sconce_kernels::view::view_mut;

/// Detection.
pub(crate) static OPS: &[Op] = ops! {
    "torchvision::nms.out" [5] writes [3] scratch |args| {
        let count = args.tensor_type(1).map_or(0, |(_, shape)| shape.numel().unwrap_or(0));
        let own = [4, 5 * 8, 1].map(|each| buffer_bytes(count.saturating_mul(each)));
        own.into_iter().fold(converted_scratch(args, &[0, 1]), usize::saturating_add)
    }, => choose;
    "torchvision::roi_align.out" [9] writes [7] scratch |args| converted_scratch(args, &[0, 1, 7]), => |call| {
        let points = Points { ratio: ratio(call, 5)?, aligned: call.bool(6)?, scattered: false };
        aligned(call, points, 7, None)
    };
    "torchvision::roi_pool.out" [8] writes [5, 6] scratch |args| converted_scratch(args, &[0, 1, 5]), => pooled_largest;
    "torchvision::ps_roi_align.out" [9] writes [6, 7] scratch |args| converted_scratch(args, &[0, 1, 6]), => |call| {
        let points = Points { ratio: ratio(call, 5)?, aligned: true, scattered: true };
        aligned(call, points, 6, Some(7))
    };
    "torchvision::ps_roi_pool.out" [8] writes [5, 6] scratch |args| converted_scratch(args, &[0, 1, 5]), => pooled_mean;
    "sconce::deform_columns.out" [9] writes [7] scratch |args| converted_scratch(args, &[0, 1, 2, 7]), => deform_columns;
};

/// Which boxes stay, by falling score.
fn choose(call: &mut Call<'_>) -> Result<(), Fault> {
    const OUT: usize = 3;
    let (boxes, scores, threshold) = (call.tensor(0)?, call.tensor(1)?, call.double(2)?);
    let count = scores.numel();
    if boxes.sizes() != [count, 4] || scores.shape.rank() != 1 || u32::try_from(count).is_err() {
        let text = "boxes of four numbers are needed, one for each of {} scores";
        return Err(Fault::argument(0, text).with([count]));
    }
    for_floating!(boxes.dtype, 0, C => {
        let (boxes, scores) = (converted_row_major::<C>(call, 0, boxes)?, converted_row_major::<C>(call, 1, scores)?);
        let order = view_mut::<u32>(call.scratch(count.saturating_mul(4))?).ok_or(misaligned(0))?;
        let sorted = view_mut::<C>(call.scratch(count.saturating_mul(5 * size_of::<C>()))?).ok_or(misaligned(0))?;
        let (sorted, _) = sorted.as_chunks_mut();
        let out = call.scratch(count)?;
        let kept = suppress(boxes, scores, threshold, Suppression { order, sorted, out });
        let kept = order.get(..kept).unwrap_or_default();
        let out = elements_mut::<i64>(OUT, call.out(OUT, &[kept.len()])?)?;
        out.iter_mut().zip(kept).for_each(|(slot, &number)| *slot = i64::from(number));
        Ok(())
    })
}

/// Points of a bin along each axis; not above zero stands for one for each pixel.
fn ratio(call: &Call<'_>, argument: usize) -> Result<Option<usize>, Fault> {
    const MOST: usize = 1 << 10;
    let ratio = usize::try_from(call.int(argument)?).unwrap_or(0);
    let text = "at most {} points along an axis of a bin are taken, not {}";
    if ratio > MOST {
        Err(Fault::argument(argument, text).with([MOST, ratio]))
    } else {
        Ok((ratio > 0).then_some(ratio))
    }
}

/// The geometry of images in argument 0 and boxes in argument 1, and how many boxes there are.
fn regions(call: &Call<'_>, scattered: bool) -> Result<(Regions, usize), Fault> {
    let ((_, x), (_, boxes)) = (call.tensor_type(0)?, call.tensor_type(1)?);
    let &[batch, channels, height, width] = x.sizes() else {
        return Err(Fault::argument(0, "images of 4 dimensions are needed here, not of {}").with([x.rank()]));
    };
    let &[count, BOX] = boxes.sizes() else {
        return Err(Fault::argument(1, "boxes of {} numbers are needed here").with([BOX]));
    };
    let bins = |argument: usize| -> Result<usize, Fault> {
        let bins = usize::try_from(call.int(argument)?).ok().filter(|bins| (1..1 << 15).contains(bins));
        bins.ok_or(Fault::argument(argument, "there must be at least one bin, and not too many"))
    };
    let regions =
        Regions { batch, channels, input: [height, width], bins: [bins(3)?, bins(4)?], scale: call.double(2)? };
    if batch == 0 && count > 0 {
        return Err(Fault::argument(0, "there are {} boxes and no image").with([count]));
    }
    if scattered && !channels.is_multiple_of(regions.bins[0] * regions.bins[1]) {
        let text = "{} channels are not as many for each of {} bins";
        return Err(Fault::argument(0, text).with([channels, regions.bins[0] * regions.bins[1]]));
    }
    Ok((regions, count))
}

/// The same with all boxes on images that there are.
fn with_images<C: sconce_kernels::Compute>(boxes: &[C], batch: usize) -> Result<(), Fault> {
    let is_there = |own: &[C]| usize::try_from(own[0].to_i64()).is_ok_and(|image| image < batch);
    match boxes.chunks_exact(BOX).position(|own| !is_there(own)) {
        Some(index) => Err(Fault::argument(1, "box {} is on none of the {} images").with([index, batch])),
        None => Ok(()),
    }
}

fn sizes(regions: &Regions, count: usize, scattered: bool) -> [usize; 4] {
    [count, regions.outputs(scattered), regions.bins[0], regions.bins[1]]
}

/// Means of points between pixels.
fn aligned(call: &mut Call<'_>, points: Points, out: usize, channels: Option<usize>) -> Result<(), Fault> {
    let (regions, count) = regions(call, points.scattered)?;
    let (x, boxes) = (call.tensor(0)?, call.tensor(1)?);
    let (sizes, parallel) = (sizes(&regions, count, points.scattered), call.parallel());
    for_floating!(x.dtype, 0, C => {
        let (x, boxes) = (converted_row_major::<C>(call, 0, x)?, converted_row_major::<C>(call, 1, boxes)?);
        with_images(boxes, regions.batch)?;
        let given = call.out(out, &sizes)?;
        write_converted::<C>(call, out, given, |out| {
            align(parallel, &regions, points, x, boxes, out);
            Ok(())
        })
    })?;
    channels.map_or(Ok(()), |channels| write_channels(call, &regions, channels, &sizes))
}

/// Which channel of the image each bin of a scattered result comes from.
fn write_channels(call: &mut Call<'_>, regions: &Regions, out: usize, sizes: &[usize]) -> Result<(), Fault> {
    let channels = elements_mut::<i32>(out, call.out(out, sizes)?)?;
    let count = regions.channels.max(1);
    channels.iter_mut().enumerate().for_each(|(place, slot)| *slot = i32::try_from(place % count).unwrap_or(i32::MAX));
    Ok(())
}

/// The largest pixel of each bin, and where it is.
fn pooled_largest(call: &mut Call<'_>) -> Result<(), Fault> {
    let (regions, count) = regions(call, false)?;
    let (x, boxes) = (call.tensor(0)?, call.tensor(1)?);
    let (sizes, parallel) = (sizes(&regions, count, false), call.parallel());
    for_floating!(x.dtype, 0, C => {
        let (x, boxes) = (converted_row_major::<C>(call, 0, x)?, converted_row_major::<C>(call, 1, boxes)?);
        with_images(boxes, regions.batch)?;
        let (values, places) = (call.out(5, &sizes)?, elements_mut::<i32>(6, call.out(6, &sizes)?)?);
        write_converted::<C>(call, 5, values, |values| {
            largest(parallel, &regions, x, boxes, values, places);
            Ok(())
        })
    })
}

/// Means of the pixels of each bin.
fn pooled_mean(call: &mut Call<'_>) -> Result<(), Fault> {
    let (regions, count) = regions(call, true)?;
    let (x, boxes) = (call.tensor(0)?, call.tensor(1)?);
    let (sizes, parallel) = (sizes(&regions, count, true), call.parallel());
    for_floating!(x.dtype, 0, C => {
        let (x, boxes) = (converted_row_major::<C>(call, 0, x)?, converted_row_major::<C>(call, 1, boxes)?);
        with_images(boxes, regions.batch)?;
        let out = call.out(5, &sizes)?;
        write_converted::<C>(call, 5, out, |out| {
            mean(parallel, &regions, x, boxes, out);
            Ok(())
        })
    })?;
    write_channels(call, &regions, 6, &sizes)
}

/// The geometry of a deformable convolution.
fn deform(call: &Call<'_>) -> Result<Deform, Fault> {
    let ((_, x), (_, offsets)) = (call.tensor_type(0)?, call.tensor_type(1)?);
    let (&[batch, channels, height, width], &[images, places, rows, columns]) = (x.sizes(), offsets.sizes()) else {
        return Err(Fault::argument(0, "images and offsets of 4 dimensions are needed here"));
    };
    let pair = |argument: usize, least: usize| -> Result<[usize; 2], Fault> {
        crate::convolution::spatial(argument, &call.ints(argument)?, 2, 1)
            .ok()
            .map(|[_, down, right]| [down, right])
            .filter(|pair| pair.iter().all(|&size| (least..1 << 24).contains(&size)))
            .ok_or(Fault::argument(argument, "two numbers from {} on are needed here").with([least]))
    };
    let (kernel, stride, padding, dilation) = (pair(3, 1)?, pair(4, 1)?, pair(5, 0)?, pair(6, 1)?);
    let taps = kernel[0].saturating_mul(kernel[1]);
    let groups = places / taps.saturating_mul(2);
    if images != batch || groups == 0 || groups.saturating_mul(taps * 2) != places || !channels.is_multiple_of(groups) {
        let text = "offsets with {} channels do not fit to {} taps and {} channels of the image";
        return Err(Fault::argument(1, text).with([places, taps, channels]));
    }
    let weights = call.optional(2, |args, argument| args.tensor_type(argument))?;
    if weights.is_some_and(|(_, shape)| shape.sizes() != [batch, groups * taps, rows, columns]) {
        return Err(Fault::argument(2, "a weight is needed for each of {} taps").with([groups * taps]));
    }
    let (input, output) = ([height, width], [rows, columns]);
    Ok(Deform { batch, channels, input, output, kernel, stride, padding, dilation, groups })
}

fn deform_columns(call: &mut Call<'_>) -> Result<(), Fault> {
    let deform = deform(call)?;
    let (x, offsets, weights) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2)?);
    let (windows, parallel) = (deform.output[0] * deform.output[1], call.parallel());
    let rows = deform.channels.saturating_mul(deform.kernel[0] * deform.kernel[1]);
    for_floating!(x.dtype, 0, C => {
        let (x, offsets) = (converted_row_major::<C>(call, 0, x)?, converted_row_major::<C>(call, 1, offsets)?);
        let weights = weights.map(|weights| converted_row_major::<C>(call, 2, weights)).transpose()?;
        let out = call.out(7, &[deform.batch, rows, windows])?;
        write_converted::<C>(call, 7, out, |out| {
            columns(parallel, &deform, x, offsets, weights, out);
            Ok(())
        })
    })
}
