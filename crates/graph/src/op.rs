//! The operations: one table.
//!
//! A row names an operation as the text form does, says what it is, and lists its attributes. To add an operation, add a
//! row here and its sizes in [`infer`](mod@crate::infer); engines that lack it say so.

use crate::text::{Attribute, ParseError, Parser};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Declares an enum whose variants print as `name {attribute: value, ...}` and parse back, and are hashed by the same words.
macro_rules! rows {
    (
        $(#[$meta:meta])* $enum:ident $(+ $(#[$wide:meta])* $group:ident($inner:ident))*;
        $($(#[$doc:meta])* $text:literal $name:ident $({ $($(#[$note:meta])* $field:ident: $kind:ty),+ $(,)? })?;)*
    ) => {
        $(#[$meta])*
        pub enum $enum {
            $($(#[$wide])* $group($inner),)*
            $($(#[$doc])* $name $({ $($(#[$note])* $field: $kind),+ })?,)*
        }

        impl $enum {
            /// Its name in the text form.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$group(inner) => inner.name(),)*
                    $(Self::$name $({ $($field: _),+ })? => $text,)*
                }
            }

            /// Reads what follows a name; `None` if no row has it.
            pub(crate) fn parse(name: &str, parser: &mut Parser<'_>) -> Result<Option<Self>, ParseError> {
                let _ = &parser;
                Ok(Some(match name {
                    $($text => {
                        $(parser.expect("{")?;
                        $(let $field = parser.attribute(stringify!($field))?;)+
                        parser.expect("}")?;)?
                        Self::$name $({ $($field),+ })?
                    })*
                    _ => {
                        $(if let Some(inner) = $inner::parse(name, parser)? {
                            return Ok(Some(Self::$group(inner)));
                        })*
                        return Ok(None);
                    }
                }))
            }
        }

        impl Hash for $enum {
            fn hash<H: Hasher>(&self, state: &mut H) {
                match self {
                    $(Self::$group(inner) => inner.hash(state),)*
                    $(Self::$name $({ $($field),+ })? => {
                        $text.hash(state);
                        $($($field.digest(state);)+)?
                    })*
                }
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$group(inner) => inner.fmt(f),)*
                    $(Self::$name $({ $($field),+ })? => {
                        f.write_str($text)?;
                        $(let mut separator = " {";
                        $(
                            write!(f, "{separator}{}: ", stringify!($field))?;
                            $field.print(f)?;
                            separator = ", ";
                        )+
                        let _ = separator;
                        f.write_str("}")?;)?
                        Ok(())
                    })*
                }
            }
        }
    };
}

rows! {
    /// A function of one number.
    #[derive(Clone, Copy, Debug, PartialEq)]
    Function;
    /// The absolute value.
    "abs" Abs;
    /// The number with the other sign.
    "negate" Negate;
    /// The smallest whole number not below.
    "ceil" Ceil;
    /// The largest whole number not above.
    "floor" Floor;
    /// The nearest whole number; of two, the even one.
    "round" Round;
    /// `x * x`
    "square" Square;
    /// `1 / x`
    "reciprocal" Reciprocal;
    /// The square root.
    "square_root" SquareRoot;
    /// One divided by the square root.
    "reciprocal_square_root" ReciprocalSquareRoot;
    /// `e^x`
    "exp" Exp;
    /// The natural logarithm.
    "log" Log;
    /// The sine.
    "sin" Sin;
    /// The cosine.
    "cos" Cos;
    /// The hyperbolic tangent.
    "tanh" Tanh;
    /// `1 / (1 + e^-x)`
    "sigmoid" Sigmoid;
    /// `x * sigmoid(x)`
    "silu" Silu;
    /// The error function.
    "erf" Erf;
    /// The Gaussian error linear unit.
    "gelu" Gelu;
    /// The same, approximated by a hyperbolic tangent.
    "gelu_tanh" GeluTanh;
    /// `clamp(x + 3, 0, 6) / 6`
    "hard_sigmoid" HardSigmoid;
    /// `x * clamp(x + 3, 0, 6) / 6`
    "hard_swish" HardSwish;
    /// `alpha * (e^x - 1)` below zero.
    "elu" Elu {
        /// The factor.
        alpha: f32,
    };
    /// `slope * x` below zero.
    "leaky_relu" LeakyRelu {
        /// The factor.
        slope: f32,
    };
    /// Limits to `low..=high`; NaN stays.
    "clamp" Clamp {
        /// The lower limit.
        low: f32,
        /// The upper limit.
        high: f32,
    };
    /// `x + value`
    "plus" Plus {
        /// The summand.
        value: f32,
    };
    /// `x * value`
    "times" Times {
        /// The factor.
        value: f32,
    };
    /// `x / value`
    "over" Over {
        /// The divisor.
        value: f32,
    };
}

rows! {
    /// A function of two numbers, of operands that broadcast.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Combine;
    /// The sum.
    "add" Add;
    /// The difference.
    "subtract" Subtract;
    /// The product.
    "multiply" Multiply;
    /// The quotient.
    "divide" Divide;
    /// The larger one.
    "maximum" Maximum;
    /// The smaller one.
    "minimum" Minimum;
    /// The first one; if negative, times the second.
    "prelu" PRelu;
}

rows! {
    /// What a reduction computes of the numbers it meets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Reduction;
    /// Their sum.
    "sum" Sum;
    /// Their sum, divided by how many there are.
    "mean" Mean;
    /// The largest; NaN if there is one.
    "maximum" Maximum;
    /// The smallest; NaN if there is one.
    "minimum" Minimum;
}

rows! {
    /// How a number stands to another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Comparison;
    /// The same.
    "equal" Equal;
    /// Another one.
    "not_equal" NotEqual;
    /// Below it.
    "less" Less;
    /// Below it, or the same.
    "less_equal" LessEqual;
    /// Above it.
    "greater" Greater;
    /// Above it, or the same.
    "greater_equal" GreaterEqual;
}

rows! {
    /// How the rows of attention lie; without a batch, the first dimension is left out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Layout;
    /// `[batch, head, position, feature]`
    "heads_first" HeadsFirst;
    /// `[batch, position, head, feature]`
    "positions_first" PositionsFirst;
}

rows! {
    /// What a node computes.
    #[derive(Clone, Debug, PartialEq)]
    Op
    + /// A function of each element.
    Map(Function)
    + /// A function of two elements that meet.
    Combine(Combine);
    /// The same number as another type: quantises, dequantises, or quantises with scales found at run time, as the types
    /// of input and output say.
    "convert" Convert;
    /// The value itself.
    "copy" Copy;
    /// `[.., in] x [out, in] -> [.., out]`, plus a bias `[out]` if there is a third input. A fourth one, `[out]` too,
    /// multiplies the filter.
    "linear" Linear {
        /// Whether the filter is `[in, out]`.
        transposed: bool,
    };
    /// `[.., m, k] x [.., k, n] -> [.., m, n]`; the leading sizes broadcast.
    "matmul" MatMul;
    /// A convolution of `[n, h, w, in]` with `[out, kh, kw, in / groups]`, plus a bias `[out]` if there is a third input.
    /// A fourth one, `[out]` too, multiplies the filter.
    "conv2d" Conv2d {
        /// Steps down and to the right.
        stride: [usize; 2],
        /// Zeros above, left, below and right.
        padding: [usize; 4],
        /// Distance between taps.
        dilation: [usize; 2],
        /// Independent parts of the channels.
        groups: usize,
    };
    /// A convolution of each channel by itself, with a filter `[1, kh, kw, out]`: channel `c` of the output comes from
    /// channel `c * in / out` of the input. Bias and factors as for other convolutions.
    "depthwise_conv2d" DepthwiseConv2d {
        /// Steps down and to the right.
        stride: [usize; 2],
        /// Zeros above, left, below and right.
        padding: [usize; 4],
        /// Distance between taps.
        dilation: [usize; 2],
    };
    /// The transposed convolution, with filter `[out, kh, kw, in / groups]`.
    "conv_transpose2d" ConvTranspose2d {
        /// Steps down and to the right, in the output.
        stride: [usize; 2],
        /// Cut from the output above, left, below and right.
        padding: [usize; 4],
        /// Distance between taps.
        dilation: [usize; 2],
        /// Independent parts of the channels.
        groups: usize,
        /// Added to the output below and right.
        extra: [usize; 2],
    };
    /// The mean of the numbers under a window; what lies outside the image does not count.
    "avg_pool2d" AvgPool2d {
        /// Size of the window.
        kernel: [usize; 2],
        /// Steps down and to the right.
        stride: [usize; 2],
        /// Above, left, below and right.
        padding: [usize; 4],
    };
    /// The largest number under a window.
    "max_pool2d" MaxPool2d {
        /// Size of the window.
        kernel: [usize; 2],
        /// Steps down and to the right.
        stride: [usize; 2],
        /// Above, left, below and right.
        padding: [usize; 4],
        /// Distance between taps.
        dilation: [usize; 2],
    };
    /// The largest number of each window and, as a second output, its place there; windows lie side by side.
    "argmax_pool2d" ArgMaxPool2d {
        /// Size of the window.
        kernel: [usize; 2],
        /// Above, left, below and right.
        padding: [usize; 4],
    };
    /// The numbers along dimensions become one.
    "reduce" Reduce {
        /// What of them.
        of: Reduction,
        /// The dimensions, in rising order.
        axes: Vec<usize>,
        /// Whether they stay, with size one.
        keep: bool,
    };
    /// `x * factor + summand`, with the second and third input, `[c]`, along the last dimension of `[.., c]`.
    "affine" Affine;
    /// Less the mean, divided by the standard deviation, over the last dimensions; then times the second input and plus
    /// the third, if they are there.
    "layer_norm" LayerNorm {
        /// How many dimensions.
        dims: usize,
        /// Added to the variance.
        epsilon: f32,
    };
    /// The same for each group of channels of `[n, c, ..]`; the second and third input are `[c]`.
    "group_norm" GroupNorm {
        /// How many groups.
        groups: usize,
        /// Added to the variance.
        epsilon: f32,
    };
    /// Divided by the root of the mean square over the last dimensions; then times the second input, if it is there.
    "rms_norm" RmsNorm {
        /// How many dimensions.
        dims: usize,
        /// Added to the mean square.
        epsilon: f32,
    };
    /// `e^x`, divided by the sum along the last dimension.
    "softmax" Softmax;
    /// The logarithm of that.
    "log_softmax" LogSoftmax;
    /// The same, but rows of nothing but minus infinity become zeros.
    "safe_softmax" SafeSoftmax;
    /// `softmax(scale * Q Kᵀ + mask) V` for each batch and head, of queries, keys, values and perhaps a mask that
    /// broadcasts to `[batch, head, query, key]`.
    "attention" Attention {
        /// The factor of the products.
        scale: f32,
        /// Whether queries that see no key become zeros.
        safe: bool,
        /// How queries lie.
        query: Layout,
        /// How keys lie.
        key: Layout,
        /// How values lie.
        value: Layout,
        /// How results lie.
        result: Layout,
        /// Whether results have a dimension for the batch.
        batch: bool,
    };
    /// Whether each number stands so to `value`: bools.
    "compare" Compare {
        /// How.
        how: Comparison,
        /// To what.
        value: f32,
    };
    /// The bools that these are not.
    "not" Not;
    /// Whether any of the bools along the last dimension is true; the dimension stays, with size one.
    "any" Any;
    /// The second input where the first, of bools, is true; else the third. They broadcast.
    "select" Select;
    /// One number, in the sizes of the input.
    "fill" Fill {
        /// The number.
        value: f32,
    };
    /// Bilinear interpolation of `[n, h, w, c]`.
    "resize_bilinear" ResizeBilinear {
        /// The new height and width.
        size: [usize; 2],
        /// Whether corner pixels stay where they are; else pixel centres are half a pixel in.
        align_corners: bool,
    };
    /// Every pixel of `[n, h, w, c]` is that of the nearest position towards the first corner.
    "resize_nearest" ResizeNearest {
        /// The new height and width.
        size: [usize; 2],
    };
    /// The same elements in order, with other sizes; at most one of them, given as 0, follows from the others.
    "reshape" Reshape {
        /// The sizes.
        sizes: Vec<usize>,
    };
    /// Dimension `i` of the output is dimension `order[i]` of the input.
    "transpose" Transpose {
        /// The dimensions.
        order: Vec<usize>,
    };
    /// A box of the input.
    "slice" Slice {
        /// Where it starts.
        starts: Vec<usize>,
        /// Its sizes; 0 takes what there is.
        sizes: Vec<usize>,
    };
    /// The input with a border.
    "pad" Pad {
        /// How wide before the first element, per dimension.
        before: Vec<usize>,
        /// How wide after the last.
        after: Vec<usize>,
        /// What it holds.
        value: f32,
    };
    /// Inputs side by side.
    "concat" Concat {
        /// Along this dimension.
        axis: usize,
    };
}

impl Op {
    /// Whether it is a product with weights: a convolution or a linear layer. Inputs from the second on are filter, bias and
    /// factors.
    pub fn is_product(&self) -> bool {
        matches!(
            self,
            Self::Conv2d { .. } | Self::ConvTranspose2d { .. } | Self::DepthwiseConv2d { .. } | Self::Linear { .. }
        )
    }
}
