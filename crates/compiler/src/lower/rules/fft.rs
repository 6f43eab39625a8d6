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
    ("aten::fft_fftshift", |site| shift(site, |size| size.floor_div(&2.into()))),
    ("aten::fft_ifftshift", |site| shift(site, |size| size.plus(&1.into()).floor_div(&2.into()))),
];

/// The runtime's numbers for scales: none, by the root of the count, by the count.
fn scale(site: &Site<'_, '_>, forward: bool) -> i64 {
    match (site.text("norm", "backward"), forward) {
        ("ortho", _) => 1,
        ("forward", true) | ("backward", false) => 2,
        _ => 0,
    }
}

/// The dimensions, and the tensor cut or filled with zeros to the sizes that are asked for.
fn prepared(site: &mut Site<'_, '_>) -> Result<(ValueId, Vec<i64>), Error> {
    let mut x = subject(site)?;
    if site.ty(x).dtype.is_integral(true) {
        x = site.cast(x, ScalarType::Float);
    }
    let (rank, operator) = (site.ty(x).rank(), site.call.operator().unwrap_or(""));
    let sizes = site.sizes("n").or_else(|| site.sizes("s"));
    let default: Vec<i64> = match sizes.as_ref().map(Vec::len) {
        _ if operator.ends_with('2') => vec![-2, -1],
        _ if !operator.ends_with('n') => vec![-1],
        Some(count) => (-(count as i64)..0).collect(),
        None => (-(rank as i64)..0).collect(),
    };
    let named = if *site.arg("dim") == Arg::None { default } else { site.ints("dim", &[])? };
    let dims: Vec<usize> = named
        .iter()
        .map(|&dim| place(dim, rank).ok_or_else(|| Error::unsupported("a dimension that the tensor does not have")))
        .collect::<Result<_, _>>()?;
    for (&dim, size) in dims.iter().zip(sizes.iter().flatten()).filter(|(_, size)| size.number() != Some(-1)) {
        x = resized(site, x, dim, size)?;
    }
    Ok((x, dims.iter().map(|&dim| dim as i64).collect()))
}

fn resized(site: &mut Site<'_, '_>, x: ValueId, dim: usize, size: &Size) -> Result<ValueId, Error> {
    let ty = site.ranked(site.plain_type(x), dim + 1)?;
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

/// A transform to complex numbers; backwards, one of real numbers is the forward one's conjugate.
fn complex(site: &mut Site<'_, '_>, forward: bool) -> Answer {
    let (ty, scale) = (site.result(0), scale(site, forward));
    let (x, dims) = prepared(site)?;
    if site.ty(x).dtype.is_complex() {
        let args =
            [("self", x.into()), ("dim", dims.into()), ("normalization", scale.into()), ("forward", forward.into())];
        return Ok(vec![site.call("aten::_fft_c2c", args, ty)]);
    }
    let result = real(site, x, dims, scale, false, &ty);
    Ok(vec![if forward { result } else { site.unary("aten::_conj_physical", result) }])
}

fn real(site: &mut Site<'_, '_>, x: ValueId, dims: Vec<i64>, scale: i64, onesided: bool, ty: &TensorType) -> ValueId {
    let args =
        [("self", x.into()), ("dim", dims.into()), ("normalization", scale.into()), ("onesided", onesided.into())];
    site.call("aten::_fft_r2c", args, ty.clone())
}

/// A transform of real numbers, half of which says all.
fn from_real(site: &mut Site<'_, '_>) -> Answer {
    let (ty, scale) = (site.result(0), scale(site, true));
    let (x, dims) = prepared(site)?;
    Ok(vec![real(site, x, dims, scale, true, &ty)])
}

/// The zero in the middle, or back at the front.
fn shift(site: &mut Site<'_, '_>, by: fn(&Size) -> Size) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let dims = site.dims("dim", ty.rank())?;
    let shifts: Vec<Size> = dims.iter().map(|&dim| by(&ty.size(dim))).collect();
    let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
    Ok(vec![site.call("aten::roll", [("self", x.into()), ("shifts", shifts.into()), ("dims", dims.into())], ty)])
}
