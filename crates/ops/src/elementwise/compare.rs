//! Questions about two operands; answers are truth values.
use super::binary::two_of_type;
use super::{compute, each2, run};
use crate::complex;
use crate::ops;
use sconce_core::{Call, Fault, Op};
use sconce_kernels::{Bool, Number};

/// A comparison in the promoted type.
macro_rules! compare {
    (|$a:ident, $b:ident| $body:expr) => {
        |call| {
            let (sources, dtype, out) = two_of_type(call, [0, 1], 2)?;
            let parallel = call.parallel();
            compute!(dtype, 0, C => {
                run(parallel, sources, 2, out, #[inline(always)] |x, out| each2(x, out, #[inline(always)] |$a: C, $b: C| Bool::from($body)))
            })
        }
    };
}

/// A comparison in the promoted type that complex numbers allow too.
macro_rules! equality {
    (|$a:ident, $b:ident| $body:expr) => {
        |call| {
            if complex::is_among(call, [0, 1]) {
                let (sources, _, out) = two_of_type(call, [0, 1], 2)?;
                let f = |[$a, $b]: [complex::Number; 2]| complex::truth($body);
                return complex::combine(call.parallel(), sources, 2, out, f);
            }
            let real: fn(&mut Call<'_>) -> Result<(), Fault> = compare!(|$a, $b| $body);
            real(call)
        }
    };
}

/// Comparisons and logical connectives.
pub(crate) static OPS: &[Op] = ops! {
    "aten::eq.Tensor_out" [4] writes [2] => equality!(|a, b| a == b);
    "aten::eq.Scalar_out" [4] writes [2] => equality!(|a, b| a == b);
    "aten::ne.Tensor_out" [4] writes [2] => equality!(|a, b| a != b);
    "aten::ne.Scalar_out" [4] writes [2] => equality!(|a, b| a != b);
    "aten::lt.Tensor_out" [4] writes [2] => compare!(|a, b| a < b);
    "aten::lt.Scalar_out" [4] writes [2] => compare!(|a, b| a < b);
    "aten::le.Tensor_out" [4] writes [2] => compare!(|a, b| a <= b);
    "aten::le.Scalar_out" [4] writes [2] => compare!(|a, b| a <= b);
    "aten::gt.Tensor_out" [4] writes [2] => compare!(|a, b| a > b);
    "aten::gt.Scalar_out" [4] writes [2] => compare!(|a, b| a > b);
    "aten::ge.Tensor_out" [4] writes [2] => compare!(|a, b| a >= b);
    "aten::ge.Scalar_out" [4] writes [2] => compare!(|a, b| a >= b);
    "aten::logical_and.out" [4] writes [2] => |call| logical(call, |a, b| a & b);
    "aten::logical_or.out" [4] writes [2] => |call| logical(call, |a, b| a | b);
    "aten::logical_xor.out" [4] writes [2] => |call| logical(call, |a, b| a ^ b);
};

fn logical(call: &mut Call<'_>, f: fn(bool, bool) -> bool) -> Result<(), Fault> {
    let (sources, dtype, out) = two_of_type(call, [0, 1], 2)?;
    let parallel = call.parallel();
    if dtype.is_complex() {
        let some = |x: complex::Number| x != complex::Number::default();
        return complex::combine(parallel, sources, 2, out, |[a, b]| complex::truth(f(some(a), some(b))));
    }
    compute!(dtype, 0, C => {
        run(parallel, sources, 2, out, #[inline(always)] |x, out| {
            each2(x, out, #[inline(always)] |a: C, b: C| Bool::from(f(a != C::ZERO, b != C::ZERO)))
        })
    })
}
