//! The FlatBuffers tables of an XNNPACK payload.
//!
//! Forty-seven kinds of node share fifteen layouts. `node_rows!` lists each layout once: its fields, which of them are the
//! ids of values (in: required, then after a comma optional; out), and the nodes laid out so. The views are made from
//! these rows here, and the owned model from the same rows.

use super::Datatype;
use crate::flatbuf::{Scalars, Table, tables};

/// What an optional id says when there is no value. (Values that are not external say so of their external id too.)
pub const NONE: u32 = u32::MAX;

/// The value is an input of the graph.
pub const EXTERNAL_INPUT: u32 = 1;
/// The value is an output of the graph.
pub const EXTERNAL_OUTPUT: u32 = 2;

tables! {
    /// The root.
    table Graph {
        0 version: str,
        1 xnodes: [XNode],
        2 xvalues: [XValue],
        3 num_externs: u32,
        /// Ids of the values that are inputs; what binds them is their external id.
        4 input_ids: [u32],
        /// Ids of the values that are outputs; what binds them is their external id.
        5 output_ids: [u32],
        /// Constants of old payloads, which have no header.
        6 constant_buffer: [Buffer],
        7 mem_buffer_sizes: [u32],
        8 constant_data: [ConstantDataOffset],
    }

    /// A constant of an old payload.
    table Buffer { 0 storage: [u8] }
    /// Where a constant is: under a name, or without one at an offset in the constant data of the payload.
    table ConstantDataOffset { 0 offset: u64, 1 size: u64, 2 named_key: str }

    /// A value: what nodes read and write.
    table XValue { 0 xvalue_union: union ValueUnion }
    /// Plain or quantised.
    union ValueUnion { 1 TensorValue, 2 QuantizedTensorValue }
    /// A tensor. Its sizes are upper bounds if it depends on an input.
    table TensorValue {
        0 datatype: i16,
        1 num_dims: u32,
        2 dims: [u32],
        /// 0 for a value that is not constant.
        3 constant_buffer_idx: u32,
        /// Position among the arguments of the call, if `flags` says that the value is external.
        4 external_id: u32,
        5 flags: u32,
        /// The value's position in the list of values.
        6 id_out: u32,
        /// Only in old payloads: the type an input is quantised to on the way in.
        7 dq_datatype: i16,
    }
    /// A tensor with quantisation parameters.
    table QuantizedTensorValue { 0 tensor_value: TensorValue, 1 quant_params: union Quantization }
    /// How elements stand for numbers.
    union Quantization { 1 PerChannelQuant, 2 PerTensorQuant, 3 PerTokenDynamicQuant, 4 PerChannelGroupQuant }
    /// A scale per channel, either here or, if `scale_buffer_idx` is not 0, as fp32 in that constant.
    table PerChannelQuant { 0 scale: [f32], 1 channel_dim: i32, 2 scale_buffer_idx: u32, 3 num_scales: u32 }
    /// One scale and zero point.
    table PerTensorQuant { 0 scale: f32, 1 zero_point: i32 }
    /// Scale and zero point per row, found when the program runs.
    table PerTokenDynamicQuant { 0 num_nonbatch_dims: i32 }
    /// A scale per group of elements, either here or, if `scale_buffer_idx` is not 0, as bf16 in that constant.
    table PerChannelGroupQuant {
        0 scale: [f32],
        1 channel_dim: i32,
        2 group_size: i32,
        3 scale_bf16: [u16],
        4 scale_buffer_idx: u32,
        5 num_scales: u32,
    }

    /// A step of the graph.
    table XNode { 0 xnode_union: union Operation, 2 debug_handle: u32, 3 output_min_max: OutputMinMax }
    /// An activation fused into a node: limits of its output.
    table OutputMinMax { 0 output_min: f32, 1 output_max: f32 }
}

macro_rules! node_rows {
    ($then:ident) => {
        $then! {
            /// One value in, one out.
            Unary { 0 input_id: u32, 1 output_id: u32, 2 flags: u32 }
                : (input_id => output_id)
                3 Softmax, 4 Sigmoid, 6 Clamp, 17 Floor, 18 Convert, 19 GlobalAvgPooling2d, 22 SquareRoot, 23 Ceiling,
                24 Hardswish, 27 Negate, 28 Square, 30 Abs, 40 ReciprocalSquareRoot, 41 Log, 42 Gelu, 43 Tanh, 44 Exp,
                45 Sin, 46 Copy, 47 Cos;

            /// Two values in, one out.
            Binary { 0 input1_id: u32, 1 input2_id: u32, 2 output_id: u32, 3 flags: u32 }
                : (input1_id input2_id => output_id)
                1 Add, 8 Div, 12 Minimum, 15 Multiply, 16 Subtract, 26 Maximum, 31 PReLU, 37 BatchMatrixMultiply;

            /// A linear layer.
            FullyConnected { 0 input1_id: u32, 1 filter_id: u32, 2 bias_id: u32, 3 output_id: u32, 4 flags: u32 }
                : (input1_id filter_id, bias_id => output_id)
                2 FullyConnected;

            /// A convolution, also depthwise or transposed.
            Convolution {
                0 padding_top: u32, 1 padding_right: u32, 2 padding_bottom: u32, 3 padding_left: u32,
                4 kernel_height: u32, 5 kernel_width: u32, 6 subsampling_height: u32, 7 subsampling_width: u32,
                8 dilation_height: u32, 9 dilation_width: u32, 10 group_input_channels: u32,
                11 group_output_channels: u32, 12 groups: u32, 13 adjustment_height: u32, 14 adjustment_width: u32,
                15 input1_id: u32, 16 filter_id: u32, 17 bias_id: u32, 18 output_id: u32, 19 flags: u32,
            }
                : (input1_id filter_id, bias_id => output_id)
                7 Conv2d, 13 DepthwiseConv2d, 39 ConvTranspose2d;

            /// A pooling window.
            Pooling {
                0 padding_top: u32, 1 padding_right: u32, 2 padding_bottom: u32, 3 padding_left: u32,
                4 pooling_height: u32, 5 pooling_width: u32, 6 stride_height: u32, 7 stride_width: u32,
                8 dilation_height: u32, 9 dilation_width: u32, 10 input_id: u32, 11 output_id: u32, 12 flags: u32,
            }
                : (input_id => output_id)
                11 AvgPooling2d, 14 MaxPooling2d;

            /// The largest element of each window, and where it was.
            ArgMaxPooling {
                0 padding_top: u32, 1 padding_right: u32, 2 padding_bottom: u32, 3 padding_left: u32,
                4 pooling_height: u32, 5 pooling_width: u32, 6 input_id: u32, 7 output_value_id: u32,
                8 output_index_id: u32, 9 flags: u32,
            }
                : (input_id => output_value_id output_index_id)
                21 ArgMaxPooling2d;

            /// Two to five values, one after the other along an axis.
            Concatenation {
                0 axis: u32, 1 input1_id: u32, 2 input2_id: u32, 3 input3_id: u32, 4 input4_id: u32, 5 output_id: u32,
                6 flags: u32, 7 input5_id: u32,
            }
                : (input1_id input2_id => output_id) 32 Concatenate2;
                : (input1_id input2_id input3_id => output_id) 33 Concatenate3;
                : (input1_id input2_id input3_id input4_id => output_id) 34 Concatenate4;
                : (input1_id input2_id input3_id input4_id input5_id => output_id) 38 Concatenate5;

            /// Dimensions in another order.
            Transposition { 0 num_dims: u32, 1 perm: [u32], 2 input_id: u32, 3 output_id: u32, 4 flags: u32 }
                : (input_id => output_id)
                5 StaticTranspose;

            /// The same elements in another shape, where one size may be 0: what is left.
            Reshaping { 0 num_dims: u32, 1 new_shape: [u32], 2 input_id: u32, 3 output_id: u32, 4 flags: u32 }
                : (input_id => output_id)
                20 StaticReshape;

            /// A part of every dimension.
            Slicing {
                0 num_dims: u32, 1 offsets: [u32], 2 sizes: [u32], 3 input_id: u32, 4 output_id: u32, 5 flags: u32,
            }
                : (input_id => output_id)
                35 StaticSlice;

            /// An image in another size.
            Resizing { 0 new_height: u32, 1 new_width: u32, 2 input_id: u32, 3 output_id: u32, 4 flags: u32 }
                : (input_id => output_id)
                9 StaticResizeBilinear2D;

            /// A border around every dimension.
            Padding {
                0 pre_paddings: [u32], 1 post_paddings: [u32], 2 padding_value: f32, 3 input_id: u32, 4 output_id: u32,
                5 flags: u32,
            }
                : (input_id => output_id)
                10 StaticConstantPad;

            /// Exponential below zero.
            ExponentialUnit { 0 alpha: f32, 1 input_id: u32, 2 output_id: u32, 3 flags: u32 }
                : (input_id => output_id)
                29 ELU;

            /// A slope below zero.
            LeakyUnit { 0 negative_slope: f32, 1 input_id: u32, 2 output_id: u32, 3 flags: u32 }
                : (input_id => output_id)
                25 LeakyReLU;

            /// Attention; no runtime supports this node.
            Attention {
                0 query_id: u32, 1 key_id: u32, 2 value_id: u32, 3 scale_id: u32, 4 mask_id: u32, 5 output_id: u32,
                6 flags: u32,
            }
                : (query_id key_id value_id scale_id mask_id => output_id)
                36 ScaledDotProductAttention;
        }
    };
}

/// The ids in a table of one row: what is read and what is written.
macro_rules! operands {
    ($table:ident ($($input:ident)* $(, $optional:ident)* => $($output:ident)*)) => {
        (ids(&[$($table.$input()),*], &[$($table.$optional()),*]), ids(&[$($table.$output()),*], &[]))
    };
}

macro_rules! views {
    ($($(#[$meta:meta])* $layout:ident { $($fields:tt)* } $(: $operands:tt $($number:literal $name:ident),+;)+)*) => {
        tables! {
            $($(#[$meta])* table $layout { $($fields)* })*

            /// What a node does.
            union Operation { $($($($number $name as $layout,)+)+)* }
        }

        impl Operation<'_> {
            /// The name of the node, empty for none.
            pub fn name(self) -> &'static str {
                match self {
                    Operation::None => "",
                    $($($(Operation::$name(_) => stringify!($name),)+)+)*
                }
            }

            /// What it reads and what it writes.
            fn operands(self) -> (Ids, Ids) {
                match self {
                    Operation::None => (ids(&[], &[]), ids(&[], &[])),
                    $($($(Operation::$name(table) => operands!(table $operands),)+)+)*
                }
            }
        }
    };
}

node_rows!(views);
#[cfg(feature = "write")]
pub(super) use node_rows;

/// The ids of values on one side of a node.
type Ids = [Option<u32>; 5];

fn ids(required: &[u32], optional: &[u32]) -> Ids {
    let mut ids = Ids::default();
    let present = required.iter().chain(optional.iter().filter(|id| **id != NONE));
    ids.iter_mut().zip(present).for_each(|(slot, id)| *slot = Some(*id));
    ids
}

impl Operation<'_> {
    /// Ids of the values it reads, without optional ones that are left out.
    pub fn inputs(self) -> impl Iterator<Item = u32> {
        self.operands().0.into_iter().flatten()
    }

    /// Ids of the values it writes.
    pub fn outputs(self) -> impl Iterator<Item = u32> {
        self.operands().1.into_iter().flatten()
    }
}

impl XNode<'_> {
    /// Limits of the output, infinite where there are none.
    pub fn output_range(self) -> (f32, f32) {
        let limits = self.output_min_max().map(|limits| (limits.output_min(), limits.output_max()));
        limits.unwrap_or((f32::NEG_INFINITY, f32::INFINITY))
    }
}

impl<'a> XValue<'a> {
    /// The tensor, quantised or not.
    pub fn tensor(self) -> TensorValue<'a> {
        let tensor = match self.xvalue_union() {
            ValueUnion::None => None,
            ValueUnion::TensorValue(tensor) => Some(tensor),
            ValueUnion::QuantizedTensorValue(value) => value.tensor_value(),
        };
        tensor.unwrap_or(TensorValue(Table::ABSENT))
    }

    /// The quantisation parameters, if there are any.
    pub fn quantization(self) -> Quantization<'a> {
        match self.xvalue_union() {
            ValueUnion::QuantizedTensorValue(value) => value.quant_params(),
            _ => Quantization::None,
        }
    }
}

impl TensorValue<'_> {
    /// The element type. (`Invalid`, the format's default, on bytes that were not checked.)
    pub fn dtype(self) -> Datatype {
        Datatype::from_i16(self.datatype()).unwrap_or(Datatype::Invalid)
    }

    /// Number of dimensions.
    pub fn rank(self) -> usize {
        self.dims().len()
    }

    /// Number of elements; what overflows counts as the largest number.
    pub fn numel(self) -> u64 {
        let dims = self.dims();
        if dims.iter().any(|size| size == 0) {
            return 0;
        }
        dims.iter().fold(1, |all: u64, size| all.saturating_mul(u64::from(size)))
    }

    /// Bytes of all elements, with the same limit as [`TensorValue::numel`]. Rows of 4-bit elements end at whole bytes.
    pub fn nbytes(self) -> u64 {
        let bits = u64::from(self.dtype().bits());
        if bits >= 8 {
            return self.numel().saturating_mul(bits / 8);
        }
        let row = self.dims().iter().next_back().map_or(1, u64::from);
        let rows = self.numel().checked_div(row).unwrap_or(0);
        rows.saturating_mul(row.saturating_mul(bits).div_ceil(8))
    }

    /// Index of the constant that holds the elements, if they are constant.
    pub fn constant(self) -> Option<u32> {
        Some(self.constant_buffer_idx()).filter(|&index| index != 0)
    }

    /// Position among the arguments of the call, for inputs and outputs of the graph.
    pub fn external(self) -> Option<u32> {
        (self.is_input() || self.is_output()).then(|| self.external_id())
    }

    /// Whether the value is an input of the graph.
    pub fn is_input(self) -> bool {
        self.flags() & EXTERNAL_INPUT != 0
    }

    /// Whether the value is an output of the graph.
    pub fn is_output(self) -> bool {
        self.flags() & EXTERNAL_OUTPUT != 0
    }
}

/// Where the scales of channels or groups are.
#[derive(Clone, Copy, Debug)]
pub enum Scales<'a> {
    /// Here.
    Fp32(Scalars<'a, f32>),
    /// Here, as the bits of bf16.
    Bf16(Scalars<'a, u16>),
    /// In a constant: fp32 for channels, bf16 for groups.
    Constant {
        /// Which constant.
        index: u32,
        /// How many scales.
        count: u32,
    },
}

impl Scales<'_> {
    /// Number of scales.
    pub fn count(&self) -> u64 {
        match self {
            Scales::Fp32(scales) => u64::try_from(scales.len()).unwrap_or(u64::MAX),
            Scales::Bf16(scales) => u64::try_from(scales.len()).unwrap_or(u64::MAX),
            Scales::Constant { count, .. } => u64::from(*count),
        }
    }
}

impl<'a> PerChannelQuant<'a> {
    /// The scales, one per channel.
    pub fn scales(self) -> Scales<'a> {
        match self.scale_buffer_idx() {
            0 => Scales::Fp32(self.scale()),
            index => Scales::Constant { index, count: self.num_scales() },
        }
    }
}

impl<'a> PerChannelGroupQuant<'a> {
    /// The scales, channel after channel.
    pub fn scales(self) -> Scales<'a> {
        match self.scale_buffer_idx() {
            0 if self.scale_bf16().is_empty() => Scales::Fp32(self.scale()),
            0 => Scales::Bf16(self.scale_bf16()),
            index => Scales::Constant { index, count: self.num_scales() },
        }
    }
}
