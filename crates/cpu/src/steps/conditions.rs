//! Bools: what makes them, what is made of them, and what they choose.

use super::{After, Context, Following, Step, elements, elements_mut};
use crate::memory::Buffers;
use sconce_graph::Comparison;
use sconce_kernels::element::Bool;
use sconce_kernels::map::{self, Broadcast};
use sconce_kernels::split;

/// How each element compares with a number.
pub(crate) struct Compare {
    pub(crate) how: Comparison,
    pub(crate) value: f32,
}

impl Step for Compare {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (x, output) = (elements::<f32>(buffers.read(0)), elements_mut::<Bool>(buffers.output));
        let value = self.value;
        macro_rules! compared {
            ($holds:tt) => {
                map::unary(
                    context.isa,
                    context.par,
                    x,
                    output,
                    #[inline(always)]
                    |x: f32| Bool::from(x $holds value),
                )
            };
        }
        match self.how {
            Comparison::Equal => compared!(==),
            Comparison::NotEqual => compared!(!=),
            Comparison::Less => compared!(<),
            Comparison::LessEqual => compared!(<=),
            Comparison::Greater => compared!(>),
            Comparison::GreaterEqual => compared!(>=),
        }
    }

    fn describe(&self) -> String {
        format!("whether each element is {} to {}", self.how, self.value)
    }
}

/// The bools that these are not.
pub(crate) struct Not;

impl Step for Not {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (x, output) = (elements::<Bool>(buffers.read(0)), elements_mut::<Bool>(buffers.output));
        map::unary(
            context.isa,
            context.par,
            x,
            output,
            #[inline(always)]
            |x: Bool| Bool::from(!x.get()),
        );
    }

    fn describe(&self) -> String {
        "not, of each element".to_owned()
    }
}

/// Whether any of the bools of a row is true.
pub(crate) struct Any {
    /// Elements of a row.
    pub(crate) n: usize,
}

impl Step for Any {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        const PIECE: usize = 256;
        let x: &[Bool] = elements(buffers.read(0));
        let n = self.n;
        split::chunks(context.par, elements_mut::<Bool>(buffers.output), PIECE, |piece, output| {
            context.isa.vectorize(
                #[inline(always)]
                || {
                    for (row, output) in output.iter_mut().enumerate() {
                        let row = &x[(piece * PIECE + row) * n..][..n];
                        *output = Bool::from(row.iter().fold(0, |any, x| any | x.0) != 0);
                    }
                },
            );
        });
    }

    fn describe(&self) -> String {
        format!("whether any of {} elements is true", self.n)
    }
}

/// One of two elements, as a bool says.
pub(crate) struct Select {
    pub(crate) shape: Broadcast<3>,
    pub(crate) after: Vec<After>,
}

impl Step for Select {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let condition: &[Bool] = elements(buffers.read(0));
        let (a, b): (&[f32], &[f32]) = (elements(buffers.read(1)), elements(buffers.read(2)));
        let output: &mut [f32] = elements_mut(buffers.output);
        map::ternary(
            context.isa,
            context.par,
            &self.shape,
            condition,
            a,
            b,
            output,
            #[inline(always)]
            |condition: Bool, a, b| if condition.get() { a } else { b },
        );
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        "one of two elements".to_owned()
    }
}

/// One number everywhere.
pub(crate) struct Fill {
    pub(crate) value: f32,
}

impl Step for Fill {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        const PIECE: usize = 16 * 1024;
        split::chunks(context.par, elements_mut::<f32>(buffers.output), PIECE, |_, output| output.fill(self.value));
    }

    fn describe(&self) -> String {
        format!("{} everywhere", self.value)
    }
}
