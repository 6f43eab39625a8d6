//! Choosing between operands.
use super::binary::source;
use super::{Source, compute, each3, run};
use crate::complex;
use crate::operands::broadcast_sizes;
use crate::ops;
use sconce_core::{Call, Code, Fault, Op};
use sconce_kernels::Number;
use sconce_schema::promote;

/// Choices by a condition or by bounds that are tensors.
pub(crate) static OPS: &[Op] = ops! {
    "aten::where.self_out" [5] writes [3] => |call| choose(call, [0, 1, 2], false);
    "aten::masked_fill.Scalar_out" [5] writes [3] => |call| choose(call, [1, 2, 0], true);
    "aten::masked_fill.Tensor_out" [5] writes [3] => |call| choose(call, [1, 2, 0], true);
    "aten::clamp.Tensor_out" [5] writes [3] => clamp;
};

/// `condition ? yes : no`, with the arguments given by index; `masked` if the type is that of `no`.
fn choose(call: &mut Call<'_>, [condition, yes, no]: [usize; 3], masked: bool) -> Result<(), Fault> {
    let condition = Source::Tensor(call.tensor(condition)?);
    let (yes, no) = (source(call, yes)?, source(call, no)?);
    let dtype = if masked { promote(&[no.operand()]) } else { promote(&[yes.operand(), no.operand()]) };
    let dtype = dtype.ok_or(Fault::new(Code::NotSupported, "the types of the operands have no common type"))?;
    let sizes = broadcast_sizes([condition, yes, no].map(|source| source.shape()).each_ref())?;
    let target = call.out(3, &sizes)?;
    let parallel = call.parallel();
    if dtype.is_complex() {
        let chosen = |[condition, yes, no]: [complex::Number; 3]| if condition.re != 0.0 { yes } else { no };
        return complex::combine(parallel, [condition, yes, no], 3, target, chosen);
    }
    compute!(dtype, 0, C => {
        run(parallel, [condition, yes, no], 3, target, #[inline(always)] |x, out| {
            each3(x, out, #[inline(always)] |condition: C, yes: C, no: C| if condition != C::ZERO { yes } else { no })
        })
    })
}

/// Limits to tensors, either of which may be absent.
fn clamp(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = Source::Tensor(call.tensor(0)?);
    let low = call.optional_tensor(1)?.map(Source::Tensor);
    let high = call.optional_tensor(2)?.map(Source::Tensor);
    // An absent bound is the operand itself, which limits nothing.
    let sources = [x, low.unwrap_or(x), high.unwrap_or(x)];
    let dtype = promote(&sources.map(|source| source.operand()));
    let dtype = dtype.ok_or(Fault::new(Code::NotSupported, "the types of the operands have no common type"))?;
    let sizes = broadcast_sizes(sources.map(|source| source.shape()).each_ref())?;
    let target = call.out(3, &sizes)?;
    let (parallel, open) = (call.parallel(), [low.is_none(), high.is_none()]);
    compute!(dtype, 0, C => {
        run(parallel, sources, 3, target, #[inline(always)] |x, out| each3(x, out, #[inline(always)] |x: C, low: C, high: C| {
            let raise = !open[0] && !x.is_nan() && (low.is_nan() || x < low);
            let raised = if raise { low } else { x };
            let lower = !open[1] && !raised.is_nan() && (high.is_nan() || raised > high);
            if lower { high } else { raised }
        }))
    })
}
