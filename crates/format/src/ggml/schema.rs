//! The FlatBuffers tables of a ggml payload.

use crate::flatbuf::tables;

tables! {
    /// The root.
    table GraphTable {
        /// Every tensor after those that it is computed from.
        0 tensors: [TensorTable],
        1 n_threads: i32 = 1,
        /// Branches; only in payloads without an identifier.
        2 subgraphs: [SubgraphTable],
        /// The version of the rules, in payloads with an identifier.
        3 version: u32,
    }

    /// A branch of a condition.
    table SubgraphTable { 0 tensors: [TensorTable], 1 input_tensor_ids: [i32], 2 output_tensor_ids: [i32] }

    /// A tensor and how it is computed.
    table TensorTable {
        0 id: i32,
        1 element: i32,
        /// Sizes, the innermost first; the largest ones where they depend on inputs.
        2 ne: [i64],
        3 op: i32,
        /// Ids of the tensors it is computed from.
        4 src_ids: [i32],
        /// What the operation needs to know, packed.
        5 op_params: [u8],
        /// The name of its bytes among the named data.
        6 data_key: str,
        7 is_input: bool,
        8 is_output: bool,
        /// Which input or output it is.
        9 input_index: i32 = -1,
        /// For each size: -1 if it is fixed, the number of a symbol, or -2 for an expression.
        10 sym_dim_ids: [i32],
        /// For each size the length of its expression (two bytes) and its code.
        11 sym_dim_exprs: [u8],
        /// Bytes of an element in torch.
        12 elem_size: u8,
        13 is_mutable: bool,
        14 subgraph_ids: [i32],
        15 cond_operand_ids: [i32],
    }
}
