//! The operations: one table.
//!
//! They mean what torch's operators of the same names mean. Dimensions are counted from the outermost, sizes of results
//! are those that the payload says. Numbers up to 127 are those of payloads without an identifier.

use super::extent::Extent;
use std::string::String;
use std::vec::Vec;

/// What operations need to know, packed one after the other.
trait Parameter: Sized {
    fn put(&self, bytes: &mut Vec<u8>);
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! plain {
    ($($kind:ty)*) => {$(
        impl Parameter for $kind {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (number, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*number))
            }
        }
    )*};
}

plain! { u32 i64 f32 }

impl Parameter for bool {
    fn put(&self, bytes: &mut Vec<u8>) {
        u32::from(*self).put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match u32::take(bytes)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Parameter for [u32; 2] {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|number| number.put(bytes));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some([u32::take(bytes)?, u32::take(bytes)?])
    }
}

impl Parameter for Vec<u32> {
    fn put(&self, bytes: &mut Vec<u8>) {
        (self.len() as u32).put(bytes);
        self.iter().for_each(|number| number.put(bytes));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let count = usize::try_from(u32::take(bytes)?).ok().filter(|&count| count <= bytes.len() / 4)?;
        (0..count).map(|_| u32::take(bytes)).collect()
    }
}

impl Parameter for Extent {
    fn put(&self, bytes: &mut Vec<u8>) {
        let code = self.bytes();
        (code.len() as u32).put(bytes);
        match self {
            Self::Fixed(number) => number.put(bytes),
            Self::Code(_) => bytes.extend(code),
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match usize::try_from(u32::take(bytes)?).ok()? {
            0 => i64::take(bytes).map(Self::Fixed),
            length => {
                let (code, rest) = bytes.split_at_checked(length)?;
                *bytes = rest;
                Self::read(code).ok()
            }
        }
    }
}

macro_rules! ops {
    ($($(#[$doc:meta])* $code:literal $name:ident($sources:pat) $({ $($(#[$note:meta])* $field:ident: $kind:ty),+ $(,)? })?;)*) => {
        /// How a tensor is computed.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op { $($(#[$doc])* $name $({ $($(#[$note])* $field: $kind),+ })?,)* }

        impl Op {
            /// Its number in payloads.
            pub fn code(&self) -> i32 {
                match self { $(Self::$name $({ $($field: _),+ })? => $code,)* }
            }

            /// Its name, for messages.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name $({ $($field: _),+ })? => stringify!($name),)* }
            }

            /// Whether it is computed from `count` tensors.
            pub fn takes(&self, count: usize) -> bool {
                match self { $(Self::$name $({ $($field: _),+ })? => matches!(count, $sources),)* }
            }

            /// What it needs to know, packed.
            pub(super) fn parameters(&self) -> Vec<u8> {
                #[allow(unused_mut, reason = "most operations need to know nothing")]
                let mut bytes = Vec::new();
                match self { $(Self::$name $({ $($field),+ })? => { $($($field.put(&mut bytes);)+)? })* }
                bytes
            }

            /// The operation of a number with what it needs to know.
            pub(super) fn read(code: i32, mut bytes: &[u8]) -> Result<Self, String> {
                let op = match code {
                    $($code => Self::read_parameters(stringify!($name), || {
                        Some(Self::$name $({ $($field: <$kind>::take(&mut bytes)?),+ })?)
                    })?,)*
                    _ => return Err(std::format!("operation {code} is unknown")),
                };
                if bytes.is_empty() { Ok(op) } else { Err(std::format!("{} has {} bytes too many", op.name(), bytes.len())) }
            }
        }
    };
}

ops! {
    /// Not computed: an input, a constant or a state.
    0 Leaf(0);
    /// The sum, as torch broadcasts.
    1 Add(2);
    /// The difference.
    12 Subtract(2);
    /// The product.
    10 Multiply(2);
    /// The quotient.
    28 Divide(2);
    /// The opposite.
    11 Negate(1);
    /// One over the square root.
    30 ReciprocalSquareRoot(1);
    /// e to the power.
    92 Exp(1);
    /// The cosine.
    15 Cos(1);
    /// The sine.
    16 Sin(1);
    /// The logistic function.
    18 Sigmoid(1);
    /// x times its sigmoid.
    22 Silu(1);
    /// What is above zero.
    23 Relu(1);
    /// The hyperbolic tangent.
    24 Tanh(1);
    /// x times the normal distribution function.
    75 Gelu(1);
    /// The same by a hyperbolic tangent.
    128 GeluTanh(1);
    /// The absolute value.
    129 Abs(1);
    /// The square root.
    130 SquareRoot(1);
    /// The square.
    131 Square(1);
    /// The natural logarithm.
    132 Log(1);
    /// x times its hard sigmoid.
    133 HardSwish(1);
    /// A sigmoid of straight lines.
    134 HardSigmoid(1);
    /// Rounds down.
    135 Floor(1);
    /// Rounds up.
    136 Ceil(1);
    /// Rounds towards zero.
    137 Trunc(1);
    /// e to the power, less one.
    139 ExpMinusOne(1);
    /// x above zero, e to the power less one below.
    140 Elu(1);
    /// x, times the slope below zero.
    3 LeakyRelu(1) {
        /// Below zero.
        slope: f32,
    };
    /// Nothing below or above the limits.
    94 Clamp(1) {
        /// The lower limit.
        low: f32,
        /// The upper limit.
        high: f32,
    };
    /// A straight line.
    141 Scale(1) {
        /// The factor.
        by: f32,
        /// What is added.
        plus: f32,
    };
    /// A linear layer: `[x, weight, bias]`, the weight `[out, in]`.
    20 Linear(2 | 3);
    /// The products of the matrices in the last two dimensions.
    17 MatMul(2);
    /// Rows of a table by their numbers: `[table, numbers]`.
    21 Embedding(2);
    /// The softmax along a dimension.
    19 Softmax(1) {
        /// Along which dimension.
        dim: u32,
    };
    /// Zero mean and unit variance over the last `dims` dimensions: `[x, weight, bias]`.
    25 LayerNorm(1..=3) {
        /// Which, or how many.
        dims: u32,
        /// What keeps the divisor from zero.
        epsilon: f32,
        /// Whether there is one.
        weight: bool,
        /// Whether there is one.
        bias: bool,
    };
    /// Unit mean square over the last dimension: `[x, weight]`.
    76 RmsNorm(1 | 2) {
        /// What keeps the divisor from zero.
        epsilon: f32,
    };
    /// Zero mean and unit variance over groups of channels; weights are further multiplications.
    144 GroupNorm(1) {
        /// Groups of channels.
        groups: u32,
        /// What keeps the divisor from zero.
        epsilon: f32,
    };
    /// A convolution of images `[n, c, h, w]`: `[x, weight, bias]`.
    4 Conv2d(2 | 3) {
        /// Rows, columns.
        stride: [u32; 2],
        /// Above and below, left and right.
        padding: [u32; 2],
        /// Rows, columns.
        dilation: [u32; 2],
        /// Groups of channels.
        groups: u32,
    };
    /// The largest value in a window.
    142 MaxPool2d(1) {
        /// Rows, columns.
        kernel: [u32; 2],
        /// Rows, columns.
        stride: [u32; 2],
        /// Above and below, left and right.
        padding: [u32; 2],
    };
    /// The mean of a window.
    143 AvgPool2d(1) {
        /// Rows, columns.
        kernel: [u32; 2],
        /// Rows, columns.
        stride: [u32; 2],
    };
    /// The mean over dimensions.
    7 Mean(1) {
        /// Which, or how many.
        dims: Vec<u32>,
    };
    /// The sum over dimensions.
    93 Sum(1) {
        /// Which, or how many.
        dims: Vec<u32>,
    };
    /// The sums of what comes first along a dimension.
    53 CumulativeSum(1) {
        /// Along which dimension.
        dim: u32,
    };
    /// The same elements in other sizes.
    8 View(1);
    /// Dimensions in another order: entry `i` is where dimension `i` of the result comes from.
    9 Permute(1) {
        /// Where each dimension comes from.
        order: Vec<u32>,
    };
    /// Every `step`-th index from `start`.
    41 Slice(1) {
        /// Along which dimension.
        dim: u32,
        /// The first index.
        start: Extent,
        /// From one index to the next.
        step: u32,
    };
    /// One after the other along a dimension.
    42 Concat(1..=256) {
        /// Along which dimension.
        dim: u32,
    };
    /// Dimensions of size 1 repeated, as torch broadcasts.
    46 Expand(1);
    /// Zeros around: before and after each dimension, the outermost first.
    82 Pad(1) {
        /// Before and after each dimension.
        around: Vec<u32>,
    };
    /// Slices along a dimension by their numbers: `[x, numbers]`.
    44 Select(2) {
        /// Along which dimension.
        dim: u32,
    };
    /// `[x, values, numbers]`: x with other slices along a dimension. If x is a state, the state changes.
    45 Put(3) {
        /// Along which dimension.
        dim: u32,
    };
    /// Attention of `[query, key, value, mask]`; the mask is added to the scores, or says which count.
    60 Attention(3 | 4) {
        /// What scores are multiplied by.
        scale: f32,
        /// Whether a query sees only the keys up to its own place.
        causal: bool,
    };
    /// Turns pairs of elements by angles that follow from positions: `[x, positions]`, x `[.., position, head, element]`.
    83 Rope(2) {
        /// Which, or how many.
        dims: u32,
        /// How elements are paired: 0 for neighbours, 2 for halves.
        mode: u32,
        /// What angles are powers of.
        base: f32,
    };
    /// Other elements.
    48 Convert(1);
}

impl Op {
    fn read_parameters(name: &str, read: impl FnOnce() -> Option<Self>) -> Result<Self, String> {
        read().ok_or_else(|| std::format!("what {name} needs to know is incomplete"))
    }
}
