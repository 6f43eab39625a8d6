//! Payloads without an identifier.
//!
//! The same tables, from an exporter that packs what operations need to know in another way and leaves some of it open.
//! What it leaves open is settled by the sizes that it declares; what contradicts them, or what cannot be known, is an
//! error, never a guess. Its tensors have up to four dimensions, the innermost first, and ids that are no positions.

use super::{Element, Extent, Graph, GraphTable, Op, Role, Tensor, TensorTable, at, sizes};
use std::borrow::ToOwned;
use std::collections::HashMap;
use std::string::{String, ToString};
use std::vec::Vec;

pub(super) fn read(table: GraphTable<'_>) -> Result<Graph, String> {
    let (mut graph, mut places) = (Graph::default(), HashMap::new());
    for (place, tensor) in (0..).zip(table.tensors().iter()) {
        let read = read_tensor(&graph, &places, tensor).map_err(|reason| at(place, &reason))?;
        graph.tensors.push(read);
        places.insert(tensor.id(), place);
    }
    Ok(graph)
}

fn read_tensor(graph: &Graph, places: &HashMap<i32, u32>, tensor: TensorTable<'_>) -> Result<Tensor, String> {
    let element =
        Element::of(tensor.element()).ok_or_else(|| std::format!("its elements are of type {}", tensor.element()))?;
    let source = |id: i32| {
        places
            .get(&id)
            .copied()
            .ok_or_else(|| std::format!("it is computed from tensor {id}, which does not come before it"))
    };
    let sources: Vec<u32> = tensor.src_ids().iter().map(source).collect::<Result<_, _>>()?;
    let key = tensor.data_key().map(ToString::to_string);
    let index =
        || u32::try_from(tensor.input_index()).map_err(|_| std::format!("it is argument {}", tensor.input_index()));
    let role = match (tensor.is_input(), tensor.is_output(), key) {
        (_, _, key) if tensor.is_mutable() => Role::State(key),
        (true, ..) => Role::Input(index()?),
        (_, true, _) => Role::Output(index()?),
        (_, _, Some(key)) => Role::Constant(key),
        _ => Role::Inside,
    };
    let sizes = sizes(tensor)?;
    let bytes = Bytes(tensor.op_params().bytes());
    let operand =
        |place: usize| sources.get(place).and_then(|&source| graph.get(source)).ok_or("an operand is missing");
    let rank = sizes.len();
    let op = op(tensor.op(), bytes, rank, &operand)?;
    Ok(Tensor { element, sizes, op, sources, role })
}

/// What an operation needs to know, by byte offsets.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn int(self, at: usize) -> Result<i32, String> {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| i32::from_le_bytes(*bytes)).ok_or_else(short)
    }

    fn long(self, at: usize) -> Result<i64, String> {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| i64::from_le_bytes(*bytes)).ok_or_else(short)
    }

    fn float(self, at: usize) -> Result<f32, String> {
        self.int(at).map(|bits| f32::from_bits(bits as u32))
    }

    fn natural(self, at: usize) -> Result<u32, String> {
        let number = self.int(at)?;
        u32::try_from(number).map_err(|_| std::format!("it needs {number} where a count belongs"))
    }

    /// A dimension, which may be counted from the last.
    fn dim(self, at: usize, rank: usize) -> Result<u32, String> {
        let dim = self.int(at)?;
        let rank = rank as i32;
        let place = if dim < 0 { dim.checked_add(rank) } else { Some(dim) };
        place
            .filter(|place| (0..rank).contains(place))
            .and_then(|place| u32::try_from(place).ok())
            .ok_or_else(|| std::format!("it works along dimension {dim} of {rank}"))
    }
}

fn short() -> String {
    "what its operation needs to know is incomplete".to_owned()
}

type Operand<'a> = &'a dyn Fn(usize) -> Result<&'a Tensor, &'static str>;

fn op(code: i32, bytes: Bytes<'_>, rank: usize, operand: Operand<'_>) -> Result<Op, String> {
    Ok(match code {
        0 => Op::Leaf,
        1 => Op::Add,
        12 => Op::Subtract,
        10 => Op::Multiply,
        28 if bytes.0.is_empty() || bytes.int(0)? == 0 => Op::Divide,
        13 => Op::Scale { by: bytes.float(0)?, plus: 0.0 },
        11 => Op::Negate,
        30 => Op::ReciprocalSquareRoot,
        14 => match bytes.float(0)? {
            2.0 => Op::Square,
            0.5 => Op::SquareRoot,
            -0.5 => Op::ReciprocalSquareRoot,
            exponent => return Err(std::format!("a power of {exponent} is not supported")),
        },
        92 => Op::Exp,
        15 => Op::Cos,
        16 => Op::Sin,
        18 => Op::Sigmoid,
        22 => Op::Silu,
        23 => Op::Relu,
        24 => Op::Tanh,
        75 => Op::GeluTanh,
        3 => Op::LeakyRelu { slope: bytes.float(0)? },
        6 | 94 => Op::Clamp { low: bytes.float(0)?, high: bytes.float(4)? },
        2 => return Err("which of its operands is transposed is not said: export the model again".to_owned()),
        17 => Op::MatMul,
        20 => Op::Linear,
        21 => Op::Embedding,
        19 => Op::Softmax { dim: bytes.dim(0, rank)? },
        25 => Op::LayerNorm { dims: 1, epsilon: bytes.float(0)?, weight: bytes.int(4)? != 0, bias: bytes.int(8)? != 0 },
        76 => Op::RmsNorm { epsilon: bytes.float(0)? },
        4 | 5 => Op::Conv2d {
            stride: [bytes.natural(0)?, bytes.natural(4)?],
            padding: [bytes.natural(8)?, bytes.natural(12)?],
            dilation: [bytes.natural(16)?, bytes.natural(20)?],
            groups: bytes.natural(24)?,
        },
        7 => {
            let count = usize::try_from(bytes.int(0)?).ok().filter(|&count| count <= 4).ok_or_else(short)?;
            let operand = operand(0)?.sizes.len();
            Op::Mean { dims: (0..count).map(|place| bytes.dim(4 + 4 * place, operand)).collect::<Result<_, _>>()? }
        }
        93 => Op::Sum { dims: Vec::from([bytes.dim(0, operand(0)?.sizes.len())?]) },
        53 => Op::CumulativeSum { dim: bytes.dim(0, rank)? },
        8 | 31 => Op::View,
        9 => {
            let count = usize::try_from(bytes.int(0)?).ok().filter(|&count| count == rank).ok_or_else(short)?;
            Op::Permute { order: (0..count).map(|place| bytes.dim(4 + 4 * place, rank)).collect::<Result<_, _>>()? }
        }
        40 => {
            let mut order: Vec<u32> = (0..rank as u32).collect();
            order.swap(bytes.dim(0, rank)? as usize, bytes.dim(4, rank)? as usize);
            Op::Permute { order }
        }
        41 => slice(bytes, rank, operand(0)?)?,
        42 => {
            let inner = bytes.dim(0, rank)?;
            Op::Concat { dim: rank as u32 - 1 - inner }
        }
        46 => Op::Expand,
        44 => Op::Select { dim: 0 },
        74 => Op::Put { dim: bytes.dim(0, rank)? },
        48 => Op::Convert,
        83 => Op::Rope { dims: bytes.natural(0)?, mode: bytes.natural(4)?, base: bytes.float(8)? },
        60 => {
            let head = operand(0)?.sizes.last().and_then(Extent::fixed).filter(|&size| size > 0);
            let head = head.ok_or("the size of the heads is not known")?;
            Op::Attention { scale: 1.0 / (head as f32).sqrt(), causal: bytes.int(0)? != 0 }
        }
        100 => return Err("conditions inside of the delegate are not supported: export the model again".to_owned()),
        _ => return Err(std::format!("operation {code} is not supported")),
    })
}

fn slice(bytes: Bytes<'_>, rank: usize, of: &Tensor) -> Result<Op, String> {
    let dim = bytes.dim(0, rank)?;
    let (start, step) = (bytes.long(4)?, bytes.long(20)?);
    let size = of.sizes.get(dim as usize).and_then(Extent::fixed);
    let start = match (start, size) {
        (0.., _) => start,
        (_, Some(size)) => start.checked_add(size).filter(|&start| start >= 0).unwrap_or(0),
        _ => return Err("a slice is counted from an end that is not known".to_owned()),
    };
    let step = u32::try_from(step).ok().filter(|&step| step > 0);
    let step = step.ok_or("a slice does not step forward")?;
    Ok(Op::Slice { dim, start: start.into(), step })
}
