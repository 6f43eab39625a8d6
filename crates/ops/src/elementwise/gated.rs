//! Halves of a tensor that gate each other.
use super::GRAIN;
use crate::operands::misaligned;
use crate::ops;
use crate::real::Real;
use crate::typed::{Typed, for_dtype};
use sconce_core::{Call, Fault, MAX_RANK, Op, Serial};
use sconce_kernels::map::Broadcast;
use sconce_kernels::view::{view, view_mut};
use sconce_kernels::{Float, split};
use sconce_schema::{Sizes, normalize_dim};

/// Gated linear units.
pub(crate) static OPS: &[Op] = ops! {
    "aten::glu.out" [4] writes [2] => glu;
};

/// `first * sigmoid(second)` for the halves of a dimension.
fn glu(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let axis = normalize_dim(call.int(1)?, x.shape.rank()).filter(|&axis| axis < x.shape.rank());
    let axis = axis.ok_or(Fault::argument(1, "there is no such dimension"))?;
    let size = x.sizes()[axis];
    if size % 2 != 0 {
        return Err(Fault::argument(0, "dimension {} has size {} and cannot be halved").with([axis, size]));
    }
    let sizes = Sizes::from_fn(x.shape.rank(), |dim| if dim == axis { size / 2 } else { x.sizes()[dim] });
    let out = call.out(2, &sizes.unwrap_or(Sizes::SCALAR))?;
    if out.data.is_empty() {
        return Ok(());
    }
    let strides = x.shape.strides();
    let (mut walked, mut steps) = ([0; MAX_RANK], [0; MAX_RANK]);
    for (i, &dim) in out.shape.order().iter().enumerate() {
        (walked[i], steps[i]) = (out.sizes()[usize::from(dim)], strides[usize::from(dim)]);
    }
    let rank = out.shape.rank();
    let walk = Broadcast::new(&walked[..rank], [&steps[..rank]]);
    let parallel = if out.numel() > 2 * GRAIN { call.parallel() } else { &Serial };
    let half = size / 2 * strides[axis];
    for_dtype!(floats, x.dtype, 0, T => {
        let (x, out) = (view::<T>(x.data).ok_or(misaligned(0))?, view_mut::<T>(out.data).ok_or(misaligned(2))?);
        split::chunks(parallel, out, GRAIN, |task, out| gate(&walk, task * GRAIN, x, half, out));
        Ok(())
    })
}

/// Computes a part of the output, from element `start` on; the second half is `half` elements behind the first.
fn gate<T: Typed + Float<Compute: Real>>(walk: &Broadcast<1>, start: usize, x: &[T], half: usize, out: &mut [T]) {
    walk.rows(start..start + out.len(), |at, len, [first], [step]| {
        for (i, out) in out[at..at + len].iter_mut().enumerate() {
            let place = first + i * step;
            *out = T::narrow(x[place].widen() * x[place + half].widen().sigmoid());
        }
    });
}
