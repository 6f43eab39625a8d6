//! Softmax and its logarithm along one dimension.
use crate::dense::{reorder_scratch, row_major, write_row_major};
use crate::operands::{elements, misaligned};
use crate::ops;
use crate::typed::{for_dtype, unsupported};
use sconce_core::{Args, Call, Fault, Op, ScalarType};
use sconce_kernels::Isa;
use sconce_kernels::reduce::Axis;
use sconce_kernels::softmax::softmax as kernel;
use sconce_kernels::view::view_mut;
use sconce_schema::normalize_dim;

/// Softmax and log-softmax.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_softmax.out" [5] writes [3] scratch scratch, => |call| softmax::<false>(call);
    "aten::_log_softmax.out" [5] writes [3] scratch scratch, => |call| softmax::<true>(call);
};

fn scratch(args: &Args<'_>) -> usize {
    let doubled = match args.tensor_type(0) {
        // Half precision that is to become single precision is converted first.
        Ok((ScalarType::Half | ScalarType::BFloat16, _)) => args.capacity(0).unwrap_or(0).saturating_mul(2),
        _ => 0,
    };
    reorder_scratch(args, &[0, 3]).saturating_add(crate::dense::buffer_bytes(doubled))
}

fn softmax<const LOG: bool>(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let dim = normalize_dim(call.int(1)?, x.shape.rank());
    let dim = dim.ok_or(Fault::argument(1, "there is no such dimension"))?;
    let axis = if x.shape.rank() == 0 { Axis::rows(1, 1) } else { Axis::of(x.sizes(), dim..dim + 1) };
    let x = row_major(call, x)?;
    let out = call.out(3, x.sizes())?;
    let parallel = call.parallel();
    if out.dtype == ScalarType::Float && x.dtype != ScalarType::Float {
        let x = crate::dense::converted::<f32>(call, 0, x)?;
        return write_row_major(call, out, |bytes| {
            let out = view_mut::<f32>(bytes).ok_or(misaligned(3))?;
            kernel::<f32, LOG>(Isa::detect(), parallel, axis, x, out);
            Ok(())
        });
    }
    if out.dtype != x.dtype {
        return Err(unsupported(3, out.dtype));
    }
    write_row_major(call, out, |bytes| {
        for_dtype!(floats, x.dtype, 0, T => {
            let out = view_mut::<T>(bytes).ok_or(misaligned(3))?;
            kernel::<T, LOG>(Isa::detect(), parallel, axis, elements(0, &x)?, out);
            Ok(())
        })
    })
}
