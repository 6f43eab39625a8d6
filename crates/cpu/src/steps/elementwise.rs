//! Functions of each element, and reductions along dimensions.

use super::{After, Context, Following, Step, elements, elements_mut};
use crate::memory::Buffers;
use sconce_graph::{Combine as Kind, Reduction};
use sconce_kernels::epilogue::{Function, finish};
use sconce_kernels::map::{self, Broadcast};
use sconce_kernels::reduce::{self, Axis};
use sconce_kernels::{Isa, softmax, split};

/// Elements that are computed, and what follows them, while they are in the nearest cache.
const PIECE: usize = 4 * 1024;
/// Elements that are computed together where nothing follows: every piece begins anew to fetch ahead.
const LONG_PIECE: usize = 16 * 1024;

/// `with_function!(kind, f => use of f)`, compiled for each function of two `float32`.
macro_rules! with_function {
    ($kind:expr, $f:ident => $use:expr) => {
        with_function!(rows $kind, $f, $use;
            Add |a, b| a + b;
            Subtract |a, b| a - b;
            Multiply |a, b| a * b;
            Divide |a, b| a / b;
            Maximum |a, b| if a > b || a.is_nan() { a } else { b };
            Minimum |a, b| if a < b || a.is_nan() { a } else { b };
            PRelu |a, b| if a < 0.0 { a * b } else { a };
        )
    };
    (rows $kind:expr, $f:ident, $use:expr; $($name:ident |$a:ident, $b:ident| $value:expr;)*) => {
        match $kind {
            $(Kind::$name => {
                #[inline(always)]
                fn $f($a: f32, $b: f32) -> f32 {
                    $value
                }
                $use
            })*
        }
    };
}

/// A function of each element.
pub(crate) struct Map {
    pub(crate) function: Function,
    pub(crate) after: Vec<After>,
}

impl Step for Map {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let input: &[f32] = elements(buffers.read(0));
        let len = if then.is_empty() { LONG_PIECE } else { PIECE };
        split::chunks(context.par, elements_mut(buffers.output), len, |piece, output| {
            self.function.apply_to(context.isa, &input[piece * len..], output);
            finish(context.isa, &then, piece * len, output);
        });
    }

    fn describe(&self) -> String {
        format!("{:?} of each element", self.function)
    }
}

/// A function of two elements that meet.
pub(crate) struct Combine {
    pub(crate) kind: Kind,
    pub(crate) shape: Broadcast<2>,
    pub(crate) after: Vec<After>,
}

impl Step for Combine {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let (a, b): (&[f32], &[f32]) = (elements(buffers.read(0)), elements(buffers.read(1)));
        let output: &mut [f32] = elements_mut(buffers.output);
        with_function!(self.kind, f => map::binary(context.isa, context.par, &self.shape, a, b, output, f));
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        format!("{} of elements that meet", self.kind)
    }
}

/// `a = f(a, b)` for elements side by side.
pub(super) fn combine(isa: Isa, kind: Kind, a: &mut [f32], b: &[f32]) {
    #[inline(always)]
    fn each(isa: Isa, a: &mut [f32], b: &[f32], f: impl Fn(f32, f32) -> f32) {
        isa.vectorize(
            #[inline(always)]
            || a.iter_mut().zip(b).for_each(|(a, b)| *a = f(*a, *b)),
        );
    }
    with_function!(kind, f => each(isa, a, b, f));
}

/// Softmax of rows.
pub(crate) struct Softmax {
    pub(crate) rows: Axis,
    /// Whether its logarithm is meant.
    pub(crate) log: bool,
    /// Whether rows of nothing but minus infinity become zeros.
    pub(crate) safe: bool,
    pub(crate) after: Vec<After>,
}

impl Step for Softmax {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let input: &[f32] = elements(buffers.read(0));
        let output: &mut [f32] = elements_mut(buffers.output);
        let softmax = if self.log { softmax::softmax::<f32, true> } else { softmax::softmax::<f32, false> };
        softmax(context.isa, context.par, self.rows, input, output);
        if self.safe {
            let rows = input.chunks_exact(self.rows.n.max(1)).zip(output.chunks_exact_mut(self.rows.n.max(1)));
            // What was minus infinity throughout is no number now; but not only that.
            for (input, output) in rows.filter(|(_, output)| output[0].is_nan()) {
                if input.iter().all(|x| *x == f32::NEG_INFINITY) {
                    output.fill(0.0);
                }
            }
        }
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        let what = if self.log { "logarithm of softmax" } else { "softmax" };
        format!("{what} of {} rows of {}", self.rows.outer, self.rows.n)
    }
}

/// The sum, mean, largest or smallest element along adjacent dimensions.
pub(crate) struct Reduce {
    pub(crate) of: Reduction,
    pub(crate) axis: Axis,
    pub(crate) after: Vec<After>,
}

impl Step for Reduce {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let input: &[f32] = elements(buffers.read(0));
        let output: &mut [f32] = elements_mut(buffers.output);
        let (isa, par, axis) = (context.isa, context.par, self.axis);
        match self.of {
            Reduction::Sum => reduce::reduce::<reduce::Total<f32>>(isa, par, axis, input, output),
            Reduction::Mean => reduce::reduce::<reduce::Mean<f32>>(isa, par, axis, input, output),
            Reduction::Maximum => reduce::reduce::<reduce::Max<f32>>(isa, par, axis, input, output),
            Reduction::Minimum => reduce::reduce::<reduce::Min<f32>>(isa, par, axis, input, output),
        }
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        format!("{} of {} elements", self.of, self.axis.n)
    }
}
