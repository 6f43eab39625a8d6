//! Steps as values.
//!
//! What is chosen for a node is one of these, with all that its step needs to know. Until a plan is finished they are read and
//! rewritten as data; then each becomes the step that runs.

use super::{
    Affine, Any, ArgMaxPool, Attention, Bias, Combine, CombineKinds, Compare, Concat, Convert, Convolution,
    ConvolutionDynamic, ConvolutionInt8, DepthwiseConvolution, DepthwiseInt8, Fill, GateInt8, Gated, GroupNorm,
    LayerNorm, Map, MapInt8, MatMul, Not, Pad, Pixels, Pool, Rearrange, Reduce, ReduceInt8, ResizeBilinear,
    ResizeNearest, RmsNorm, Rows, Select, Softmax, Step, Strips, SumInt8, Winograd, WinogradInt8,
};
use std::fmt;

/// Declares the families, each as a variant around the step of its name.
macro_rules! choices {
    ($($name:ident)*) => {
        /// A step as a value.
        pub(crate) enum Choice {
            $($name(Box<$name>),)*
        }

        $(impl From<$name> for Choice {
            fn from(step: $name) -> Self {
                Self::$name(Box::new(step))
            }
        })*

        impl Choice {
            /// The step that runs.
            pub(crate) fn into_step(self) -> Box<dyn Step> {
                match self {
                    $(Self::$name(step) => step,)*
                }
            }

            /// The same, to be looked at.
            pub(super) fn as_step(&self) -> &dyn Step {
                match self {
                    $(Self::$name(step) => &**step,)*
                }
            }
        }
    };
}

choices! {
    Affine Any ArgMaxPool Attention Bias Combine CombineKinds Compare Concat Convert Convolution ConvolutionDynamic
    ConvolutionInt8 DepthwiseConvolution DepthwiseInt8 Fill GateInt8 Gated GroupNorm LayerNorm Map MapInt8 MatMul Not Pad
    Pool Rearrange Reduce ReduceInt8 ResizeBilinear ResizeNearest RmsNorm Select Softmax Strips SumInt8 Winograd
    WinogradInt8
}

impl Choice {
    /// As one that can compute some rows of its image.
    pub(crate) fn rows(&self) -> Option<&dyn Rows> {
        match self {
            Self::Convolution(step) => Some(&**step),
            Self::DepthwiseConvolution(step) => Some(&**step),
            Self::ConvolutionInt8(step) if !step.tail.adds() => Some(&**step),
            Self::DepthwiseInt8(step) if !step.tail.adds() => Some(&**step),
            _ => None,
        }
    }

    /// How far pixels are from each other in the images that it reads and writes.
    fn pixels(&self) -> Option<Pixels> {
        match self {
            Self::Convolution(step) => Some(step.pixels),
            Self::Gated(step) => Some(step.convolution.pixels),
            Self::Winograd(step) => Some(step.pixels),
            Self::DepthwiseConvolution(step) => Some(step.pixels),
            Self::ConvolutionInt8(step) => Some(step.pixels),
            Self::WinogradInt8(step) => Some(step.0.pixels),
            Self::DepthwiseInt8(step) => Some(step.pixels),
            Self::Pool(step) => Some(step.pixels),
            Self::ResizeNearest(step) => Some(step.pixels),
            _ => None,
        }
    }
}

/// The step in words, and how what it reads and writes lies in memory.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_step().describe())?;
        match self {
            Self::Concat(step) => write!(f, ", {step}"),
            Self::Rearrange(step) => write!(f, ", {step}"),
            _ => self.pixels().map_or(Ok(()), |Pixels { input, output }| write!(f, ", pixels {input} -> {output}")),
        }
    }
}
