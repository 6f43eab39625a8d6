//! Fourier transforms: sizes, scales and dimensions as `torch.fft` names them, for the three transforms of the runtime.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::{Site, place};
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::fft_fft", |site| complex(site, true)),
    ("aten::fft_fft2", |site| complex(site, true)),
    ("aten::fft_fftn", |site| complex(site, true)),
    ("aten::fft_ifft", |site| complex(site, false)),
    ("aten::fft_ifft2", |site| complex(site, false)),
    ("aten::fft_ifftn", |site| complex(site, false)),
    ("aten::fft_rfft", from_real),
    ("aten::fft_rfft2", from_real),
    ("aten::fft_rfftn", from_real),
    ("aten::fft_irfft", |site| to_real(site, false)),
    ("aten::fft_irfft2", |site| to_real(site, false)),
    ("aten::fft_irfftn", |site| to_real(site, false)),
    ("aten::fft_hfft", |site| to_real(site, true)),
    ("aten::fft_hfft2", |site| to_real(site, true)),
    ("aten::fft_hfftn", |site| to_real(site, true)),
    ("aten::fft_ihfft", to_half),
    ("aten::fft_ihfft2", to_half),
    ("aten::fft_ihfftn", to_half),
    ("aten::fft_fftshift", |site| shift(site, |size| size.floor_div(&2.into()))),
    ("aten::fft_ifftshift", |site| shift(site, |size| size.plus(&1.into()).floor_div(&2.into()))),
    ("aten::fft_fftfreq", |site| frequencies(site, |index, n| if index < n - n / 2 { index } else { index - n })),
    ("aten::fft_rfftfreq", |site| frequencies(site, |index, _| index)),
];

/// The runtime's numbers for scales.
pub(super) const UNSCALED: i64 = 0;
pub(super) const BY_ROOT: i64 = 1;
pub(super) const BY_COUNT: i64 = 2;

fn scale(site: &Site<'_, '_>, forward: bool) -> Result<i64, Error> {
    match (site.text("norm", "backward"), forward) {
        ("ortho", _) => Ok(BY_ROOT),
        ("forward", true) | ("backward", false) => Ok(BY_COUNT),
        ("forward" | "backward", _) => Ok(UNSCALED),
        (other, _) => Err(Error::unsupported(format!("a Fourier transform scaled by {other:?}"))),
    }
}

/// The dimensions that are transformed, and the sizes that are asked for along them.
struct Along {
    dims: Vec<usize>,
    sizes: Vec<Option<Size>>,
}

impl Along {
    fn of(site: &Site<'_, '_>, x: ValueId) -> Result<Self, Error> {
        let (rank, operator) = (site.ty(x).rank(), site.call.operator().unwrap_or(""));
        let named = site.sizes("n").or_else(|| site.sizes("s"));
        let default: Vec<i64> = match named.as_ref().map(Vec::len) {
            _ if operator.ends_with('2') => vec![-2, -1],
            _ if !operator.ends_with('n') => vec![-1],
            Some(count) => (-(count as i64)..0).collect(),
            None => (-(rank as i64)..0).collect(),
        };
        let dims = if *site.arg("dim") == Arg::None { default } else { site.ints("dim", &[])? };
        let missing = || Error::unsupported("a Fourier transform along a dimension that the tensor does not have");
        let dims: Vec<usize> = dims
            .iter()
            .map(|&dim| place(dim, rank).filter(|&dim| dim < rank).ok_or_else(missing))
            .collect::<Result<_, _>>()?;
        if dims.iter().enumerate().any(|(index, dim)| dims[..index].contains(dim)) {
            return Err(Error::unsupported("a Fourier transform along a dimension twice"));
        }
        let sizes = match named {
            None => vec![None; dims.len()],
            Some(sizes) if sizes.len() == dims.len() => {
                sizes.into_iter().map(|size| Some(size).filter(|size| size.number() != Some(-1))).collect()
            }
            Some(sizes) => {
                let what = format!("a Fourier transform of {} sizes along {} dimensions", sizes.len(), dims.len());
                return Err(Error::unsupported(what));
            }
        };
        Ok(Self { dims, sizes })
    }

    /// The last dimension, and the size that is asked for along it.
    fn last(&self) -> Result<(usize, Option<Size>), Error> {
        let none = || Error::unsupported("a Fourier transform along no dimension");
        Ok((*self.dims.last().ok_or_else(none)?, self.sizes.last().cloned().flatten()))
    }

    /// The tensor cut or filled with zeros to the sizes that are asked for.
    fn resized(&self, site: &mut Site<'_, '_>, mut x: ValueId) -> Result<ValueId, Error> {
        for (&dim, size) in self.dims.iter().zip(&self.sizes) {
            if let Some(size) = size {
                x = resized(site, x, dim, size)?;
            }
        }
        Ok(x)
    }
}

pub(super) fn numbers(dims: &[usize]) -> Arg {
    dims.iter().map(|&dim| dim as i64).collect::<Vec<_>>().into()
}

fn resized(site: &mut Site<'_, '_>, x: ValueId, dim: usize, size: &Size) -> Result<ValueId, Error> {
    let ty = site.ranked(site.plain_type(x), dim + 1)?;
    if let Some(count) = size.number().filter(|&count| count < 1) {
        return Err(Error::unsupported(format!("a Fourier transform of {count} points")));
    }
    let more = size.minus(&ty.sizes[dim]).number();
    match more.ok_or_else(|| Error::unsupported("a Fourier transform of a size unknown before"))? {
        0 => Ok(x),
        more if more < 0 => Ok(site.slice(x, dim, 0.into(), size.clone())),
        more => {
            let mut pads = vec![0i64; 2 * (ty.rank() - dim)];
            if let Some(last) = pads.last_mut() {
                *last = more;
            }
            let mut sizes = ty.sizes.clone();
            sizes[dim] = size.clone();
            let args = [("self", x.into()), ("pad", pads.into())];
            Ok(site.call("aten::constant_pad_nd", args, ty.with_sizes(sizes)))
        }
    }
}

/// What is transformed; integers become float32.
fn floating(site: &mut Site<'_, '_>) -> Result<ValueId, Error> {
    let x = subject(site)?;
    Ok(if site.ty(x).dtype.is_integral(true) { site.cast(x, ScalarType::Float) } else { x })
}

/// A transform to complex numbers; backwards, one of real numbers is the forward one's conjugate.
fn complex(site: &mut Site<'_, '_>, forward: bool) -> Answer {
    let (ty, scale) = (site.result(0), scale(site, forward)?);
    let x = floating(site)?;
    let along = Along::of(site, x)?;
    let x = along.resized(site, x)?;
    if site.ty(x).dtype.is_complex() {
        return Ok(vec![between_complex(site, x, &along.dims, scale, forward)]);
    }
    let result = real(site, x, &along.dims, scale, false, &ty);
    Ok(vec![if forward { result } else { site.conjugate(result) }])
}

pub(super) fn between_complex(
    site: &mut Site<'_, '_>,
    x: ValueId,
    dims: &[usize],
    scale: i64,
    forward: bool,
) -> ValueId {
    let ty = site.plain_type(x);
    let args =
        [("self", x.into()), ("dim", numbers(dims)), ("normalization", scale.into()), ("forward", forward.into())];
    site.call("aten::_fft_c2c", args, ty)
}

pub(super) fn real(
    site: &mut Site<'_, '_>,
    x: ValueId,
    dims: &[usize],
    scale: i64,
    onesided: bool,
    ty: &TensorType,
) -> ValueId {
    let args =
        [("self", x.into()), ("dim", numbers(dims)), ("normalization", scale.into()), ("onesided", onesided.into())];
    site.call("aten::_fft_r2c", args, ty.clone())
}

/// A transform of real numbers, half of which says all.
fn from_real(site: &mut Site<'_, '_>) -> Answer {
    let (ty, scale) = (site.result(0), scale(site, true)?);
    let x = floating(site)?;
    let along = Along::of(site, x)?;
    let x = along.resized(site, x)?;
    Ok(vec![real(site, x, &along.dims, scale, true, &ty)])
}

/// Its inverse with the signs of a backward transform: that along the last dimension is its conjugate.
fn to_half(site: &mut Site<'_, '_>) -> Answer {
    let (ty, scale) = (site.result(0), scale(site, false)?);
    let x = floating(site)?;
    let along = Along::of(site, x)?;
    let x = along.resized(site, x)?;
    let (last, _) = along.last()?;
    let half = real(site, x, &[last], scale, true, &ty);
    let half = site.conjugate(half);
    let rest = &along.dims[..along.dims.len() - 1];
    Ok(vec![if rest.is_empty() { half } else { between_complex(site, half, rest, scale, false) }])
}

/// A transform to real numbers of what has, by symmetry, half of the values.
fn to_real(site: &mut Site<'_, '_>, forward: bool) -> Answer {
    let (ty, scale) = (site.result(0), scale(site, forward)?);
    let x = floating(site)?;
    let complex = if ty.dtype == ScalarType::Double { ScalarType::ComplexDouble } else { ScalarType::ComplexFloat };
    let x = site.cast(x, complex);
    let mut along = Along::of(site, x)?;
    let (last, asked) = along.last()?;
    let count = match asked {
        Some(count) => {
            let half = count.floor_div(&2.into()).plus(&1.into());
            along.sizes.pop();
            along.sizes.push(Some(half));
            count
        }
        None => site.ty(x).size(last).minus(&1.into()).times(&2.into()),
    };
    if let Some(count) = count.number().filter(|&count| count < 1) {
        return Err(Error::unsupported(format!("a Fourier transform to {count} points")));
    }
    let mut x = along.resized(site, x)?;
    if !forward {
        return Ok(vec![halves(site, x, &along.dims, scale, count, &ty)]);
    }
    let rest = &along.dims[..along.dims.len() - 1];
    if !rest.is_empty() {
        x = between_complex(site, x, rest, scale, true);
    }
    let x = site.conjugate(x);
    Ok(vec![halves(site, x, &[last], scale, count, &ty)])
}

/// The transform back of halves that stand for `count` values.
pub(super) fn halves(
    site: &mut Site<'_, '_>,
    x: ValueId,
    dims: &[usize],
    scale: i64,
    count: Size,
    ty: &TensorType,
) -> ValueId {
    let args =
        [("self", x.into()), ("dim", numbers(dims)), ("normalization", scale.into()), ("last_dim_size", count.into())];
    site.call("aten::_fft_c2r", args, ty.clone())
}

/// The zero in the middle, or back at the front.
fn shift(site: &mut Site<'_, '_>, by: fn(&Size) -> Size) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let dims = site.dims("dim", ty.rank())?;
    let shifts: Vec<Size> = dims.iter().map(|&dim| by(&ty.size(dim))).collect();
    Ok(vec![site.call("aten::roll", [("self", x.into()), ("shifts", shifts.into()), ("dims", numbers(&dims))], ty)])
}

/// The frequencies of a transform's results: known integers by the length of all samples, in the type's precision.
fn frequencies(site: &mut Site<'_, '_>, at: fn(i64, i64) -> i64) -> Answer {
    let (ty, n, distance) = (site.result(0), site.int("n", 0)?, site.float("d", 1.0)?);
    let count = ty.numbers().and_then(|sizes| sizes.first().copied());
    let count = count.ok_or_else(|| Error::unsupported("frequencies of an unknown number"))?;
    if n < 1 {
        return Err(Error::unsupported(format!("frequencies of {n} points")));
    }
    site.small(&[count])?;
    let factor = 1.0 / (n as f64 * distance);
    let indices = (0..count).map(|index| at(index, n));
    let bytes = match ty.dtype {
        ScalarType::Float => indices.flat_map(|index| (index as f32 * factor as f32).to_le_bytes()).collect(),
        ScalarType::Double => indices.flat_map(|index| (index as f64 * factor).to_le_bytes()).collect(),
        other => return Err(Error::unsupported(format!("frequencies in {}", other.name()))),
    };
    Ok(vec![site.constant(ty, bytes)])
}
