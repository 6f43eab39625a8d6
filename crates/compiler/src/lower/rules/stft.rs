//! Short-time Fourier transforms: signals in frames that overlap, each of them transformed, and back.

use super::fft::{BY_COUNT, BY_ROOT, UNSCALED, between_complex, halves, real};
use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::stft", |site| {
        let x = signal(site)?;
        stft(site, x)
    }),
    ("aten::stft.center", |site| {
        let mut x = signal(site)?;
        if site.bool("center", true) {
            x = centred(site, x)?;
        }
        stft(site, x)
    }),
    ("aten::istft", istft),
];

/// Frames of `points` samples, each `hop` samples after the one before.
struct Frames {
    points: i64,
    hop: i64,
    /// How many samples in the middle of a frame the window covers.
    width: i64,
}

impl Frames {
    fn of(site: &Site<'_, '_>) -> Result<Self, Error> {
        let points = site.int("n_fft", 0)?;
        let (hop, width) = (site.int("hop_length", points / 4)?, site.int("win_length", points)?);
        let most = i64::from(i32::MAX);
        if !(1..=most).contains(&points) || !(1..=most).contains(&hop) || !(1..=points).contains(&width) {
            let what = format!("frames of {points} samples by {hop} with a window of {width}");
            return Err(Error::unsupported(what));
        }
        Ok(Self { points, hop, width })
    }

    /// The factors for the samples of a frame: a given window, or ones, with zeros on both sides.
    fn window(&self, site: &mut Site<'_, '_>, dtype: ScalarType) -> Result<ValueId, Error> {
        let own = TensorType::fixed(dtype, &[self.width]);
        let window = match site.optional_tensor("window") {
            Some(window) if site.ty(window).sizes == own.sizes => site.cast(window, dtype),
            Some(_) => return Err(Error::unsupported(format!("a window that has not {} samples", self.width))),
            None => site.full(&own, 1),
        };
        let before = (self.points - self.width) / 2;
        let pads: [i64; 2] = [before, self.points - self.width - before];
        Ok(padded(site, window, &pads))
    }

    /// Frames `[batch, frames, points]` added where they overlap: `[batch, size]`.
    ///
    /// Each frame is cut into parts as long as a hop; the parts of the same place follow each other without overlap.
    fn added(&self, site: &mut Site<'_, '_>, frames: ValueId, size: &Size) -> Result<ValueId, Error> {
        let parts = site.few((self.points + self.hop - 1) / self.hop, "frames over a sample")?;
        let frames = padded(site, frames, &[0, parts * self.hop - self.points]);
        let own = site.ranked(site.plain_type(frames), 2)?;
        let (batch, count) = (own.sizes[0].clone(), own.sizes[1].clone());
        let grid = site.view(frames, vec![batch.clone(), count.clone(), parts.into(), self.hop.into()]);
        let rows = count.plus(&(parts - 1).into());
        let wide = own.with_sizes([batch.clone(), rows.clone(), self.hop.into()]);
        let mut sum = None;
        for part in 0..parts {
            let rows = site.select(grid, 2, part.into());
            let rows = padded(site, rows, &[0, 0, part, parts - 1 - part]);
            sum = Some(sum.map_or(rows, |sum| site.binary("aten::add.Tensor", sum, rows, &wide)));
        }
        let sum = site.view(sum.unwrap_or(frames), vec![batch, rows.times(&self.hop.into())]);
        Ok(site.slice(sum, 1, 0.into(), size.clone()))
    }
}

/// The tensor with zeros around its last dimensions: before and behind the last, then the one before it, and so on.
fn padded(site: &mut Site<'_, '_>, x: ValueId, pads: &[i64]) -> ValueId {
    if pads.iter().all(|&pad| pad == 0) {
        return x;
    }
    let ty = site.plain_type(x);
    let mut sizes = ty.sizes.clone();
    for (pair, size) in pads.chunks_exact(2).zip(sizes.iter_mut().rev()) {
        *size = size.plus(&(pair[0] + pair[1]).into());
    }
    site.call("aten::constant_pad_nd", [("self", x.into()), ("pad", pads.to_vec().into())], ty.with_sizes(sizes))
}

/// The signals, in a batch.
fn signal(site: &mut Site<'_, '_>) -> Result<ValueId, Error> {
    let x = subject(site)?;
    match site.ty(x).rank() {
        1 => Ok(site.unsqueeze(x, 0)),
        2 => Ok(x),
        rank => Err(Error::unsupported(format!("stft of a tensor of {rank} dimensions"))),
    }
}

/// Signals with half a frame more on both sides, so that frames lie around their places.
fn centred(site: &mut Site<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let half = Frames::of(site)?.points / 2;
    let image = site.unsqueeze(x, 0);
    let mut ty = site.plain_type(image);
    ty.sizes[2] = ty.sizes[2].plus(&(2 * half).into());
    let mode = Arg::Text(site.text("pad_mode", "reflect").to_owned());
    let (args, sizes) = ([("self", image.into()), ("pad", vec![half, half].into()), ("mode", mode)], ty.sizes.clone());
    let wide = site.call("aten::pad", args, ty);
    Ok(site.view(wide, sizes[1..].to_vec()))
}

fn stft(site: &mut Site<'_, '_>, x: ValueId) -> Answer {
    let (frames, ty) = (Frames::of(site)?, site.result(0));
    if site.bool("align_to_window", false) {
        return Err(Error::unsupported("stft with frames aligned to the window"));
    }
    let window = site.optional_tensor("window");
    let complex = [Some(x), window].into_iter().flatten().any(|value| site.ty(value).dtype.is_complex());
    let parts = ty.dtype.real();
    let whole = if parts == ScalarType::Double { ScalarType::ComplexDouble } else { ScalarType::ComplexFloat };
    let dtype = if complex { whole } else { parts };
    let x = site.cast(x, dtype);
    let own = site.plain_type(x);
    let count = own.sizes[1].minus(&frames.points.into()).floor_div(&frames.hop.into()).plus(&1.into());
    let cut = own.with_sizes([own.sizes[0].clone(), count, frames.points.into()]);
    let step = [("dimension", 1.into()), ("size", frames.points.into()), ("step", frames.hop.into())];
    let mut all = site.call("aten::unfold", [("self", x.into())].into_iter().chain(step), cut.clone());
    if window.is_some() || frames.width < frames.points {
        let window = frames.window(site, dtype)?;
        all = site.binary("aten::mul.Tensor", all, window, &cut);
    }
    let scale = if site.bool("normalized", false) { BY_ROOT } else { UNSCALED };
    let onesided = site.bool("onesided", !complex);
    let spectrum = match (complex, onesided) {
        (true, true) => return Err(Error::unsupported("half of the spectrum of complex numbers")),
        (true, false) => between_complex(site, all, &[2], scale, true),
        (false, _) => {
            let kept = if onesided { frames.points / 2 + 1 } else { frames.points };
            let sizes = [cut.sizes[0].clone(), cut.sizes[1].clone(), kept.into()];
            real(site, all, &[2], scale, onesided, &TensorType::new(whole, sizes))
        }
    };
    let mut turned = site.transposed(spectrum, 1, 2);
    if !ty.dtype.is_complex() {
        turned = site.pairs(turned);
    }
    Ok(vec![site.view(turned, ty.sizes)])
}

/// Frames transformed back and added where they overlap, by the sum of the squared windows there.
fn istft(site: &mut Site<'_, '_>) -> Answer {
    let (x, frames, ty) = (subject(site)?, Frames::of(site)?, site.result(0));
    let own = site.ranked(site.ty(x), 2)?;
    let rank = own.rank();
    if !own.dtype.is_complex() || rank > 3 {
        return Err(Error::unsupported(format!("istft of {} of {rank} dimensions", own.dtype.name())));
    }
    let x = if rank == 2 { site.unsqueeze(x, 0) } else { x };
    let spectrum = site.transposed(x, 1, 2);
    let scale = if site.bool("normalized", false) { BY_ROOT } else { BY_COUNT };
    let all = back(site, spectrum, &frames, scale)?;
    let wide = site.plain_type(all);
    let window = frames.window(site, wide.dtype)?;
    let all = site.binary("aten::mul.Tensor", all, window, &wide);
    let length = wide.sizes[1].minus(&1.into()).times(&frames.hop.into()).plus(&frames.points.into());
    let sum = frames.added(site, all, &length)?;
    let squares = site.plain_type(window);
    let squares = site.binary("aten::mul.Tensor", window, window, &squares);
    let squares = site.expand(squares, &[1.into(), wide.sizes[1].clone(), frames.points.into()]);
    let weights = frames.added(site, squares, &length)?;
    let (start, end) = range(site, &frames, &length)?;
    let [sum, weights] = [sum, weights].map(|value| site.slice(value, 1, start.clone(), end.clone()));
    let plain = site.plain_type(sum);
    let y = site.binary("aten::div.Tensor", sum, weights, &plain);
    // What is asked for beyond the last frame is silence.
    let missing = ty.sizes.last().map(|size| size.minus(&plain.sizes[1]));
    let missing =
        missing.and_then(|size| size.number()).ok_or_else(|| Error::unsupported("istft of unknown length"))?;
    let y = padded(site, y, &[0, missing]);
    Ok(vec![site.view(y, ty.sizes)])
}

/// The samples of each frame.
fn back(site: &mut Site<'_, '_>, spectrum: ValueId, frames: &Frames, scale: i64) -> Result<ValueId, Error> {
    let own = site.plain_type(spectrum);
    let half = frames.points / 2 + 1;
    let onesided = site.bool("onesided", own.sizes[2] != frames.points.into());
    let kept = if onesided { half } else { frames.points };
    if own.sizes[2] != kept.into() {
        return Err(Error::unsupported(format!("istft of other than {kept} frequencies for {} points", frames.points)));
    }
    if site.bool("return_complex", false) {
        return Ok(between_complex(site, spectrum, &[2], scale, false));
    }
    let spectrum = if onesided { spectrum } else { site.slice(spectrum, 2, 0.into(), half.into()) };
    let sizes = [own.sizes[0].clone(), own.sizes[1].clone(), frames.points.into()];
    let ty = TensorType::new(own.dtype.real(), sizes);
    Ok(halves(site, spectrum, &[2], scale, frames.points.into(), &ty))
}

/// Which samples of `length` are asked for.
fn range(site: &Site<'_, '_>, frames: &Frames, length: &Size) -> Result<(Size, Size), Error> {
    let margin = if site.bool("center", true) { frames.points / 2 } else { 0 };
    let end = match site.size("length") {
        Some(asked) => Size::min(&asked.plus(&margin.into()), length),
        None => length.minus(&margin.into()),
    };
    Ok((margin.into(), end))
}
