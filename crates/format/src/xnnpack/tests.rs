use super::model::{self, Quantization as Parameters, Scales as ModelScales, Storage};
use super::schema::node_rows;
use super::*;
use crate::mutation::mutations;
use crate::{Place, Rule, pte};
use std::path::{Path, PathBuf};
use std::string::ToString;
use std::vec;
use std::vec::Vec;

mod broken;

/// The XNNPACK payloads of a program file, in order.
fn payloads(program: &[u8]) -> Vec<Vec<u8>> {
    let size = program.len() as u64;
    let header = pte::Header::parse(&program[..pte::HEAD_BYTES], size).unwrap();
    let file = pte::File::parse(program, header, size).unwrap();
    let delegates = file.program().execution_plan().iter().flat_map(|plan| plan.delegates().iter().collect::<Vec<_>>());
    let ours = delegates.filter(|delegate| delegate.id() == Some(BACKEND));
    ours.map(|delegate| match file.delegate_payload(delegate).unwrap() {
        pte::Payload::Inline(bytes) => bytes.to_vec(),
        pte::Payload::Segment(range) => program[range.start as usize..range.end as usize].to_vec(),
    })
    .collect()
}

fn golden(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/xnnpack").join(name);
    payloads(&std::fs::read(path).unwrap())
}

/// A convolution of 3 to 8 channels, limited to 0..6, and max pooling on a 1x3x8x8 image, computed in channels-last.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn exported_convolution() {
    let [payload] = &golden("xnnpack_conv.pte")[..] else { panic!("one payload") };
    let file = File::parse(payload).unwrap();
    let names: Vec<_> = file.nodes().iter().map(|node| node.xnode_union().name()).collect();
    assert_eq!(names, ["StaticTranspose", "Conv2d", "MaxPooling2d", "StaticTranspose"]);
    let nodes: Vec<_> = file.nodes().iter().collect();
    assert_eq!(nodes[1].output_range(), (0.0, 6.0));
    assert_eq!(nodes[2].output_range(), (f32::NEG_INFINITY, f32::INFINITY));
    let Operation::Conv2d(conv) = nodes[1].xnode_union() else { panic!("a convolution") };
    let operands: Vec<_> = nodes[1].xnode_union().inputs().collect();
    assert_eq!(operands, [conv.input1_id(), conv.filter_id(), conv.bias_id()]);
    assert_eq!(nodes[1].xnode_union().outputs().collect::<Vec<_>>(), [conv.output_id()]);
    let filter = file.value(conv.filter_id()).unwrap().tensor();
    assert_eq!(filter.dims().iter().collect::<Vec<_>>(), [8, 3, 3, 3]);
    assert_eq!((filter.dtype(), filter.numel(), filter.nbytes()), (Datatype::Fp32, 216, 864));
    assert!(matches!(file.constant(filter.constant().unwrap()), Some(Constant::Named(key)) if key.len() == 64));
    let externs: Vec<_> = file.externs().map(|(_, tensor)| (tensor.external(), tensor.is_input())).collect();
    assert!(externs.contains(&(Some(0), true)) && externs.contains(&(Some(1), false)) && externs.len() == 2);
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn exported_payloads_survive_writing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/xnnpack");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let programs = files.filter(|path| path.extension().is_some_and(|extension| extension == "pte"));
    let payloads_of = |path: PathBuf| {
        payloads(&std::fs::read(&path).unwrap()).into_iter().map(move |payload| (path.clone(), payload))
    };
    let all: Vec<_> = programs.flat_map(payloads_of).collect();
    assert!(!all.is_empty(), "there are exported payloads");
    for (path, payload) in &all {
        let graph = model::Graph::read(payload).unwrap();
        let written = graph.write();
        assert_eq!(model::Graph::read(&written).as_ref(), Ok(&graph));
        // What the model leaves out follows from the rest, where the exporter marked all of it.
        let (before, after) = (File::parse(payload).unwrap().graph(), File::parse(&written).unwrap().graph());
        let marked = graph.values.iter().filter(|value| matches!(value.storage, Storage::External { .. })).count();
        assert_eq!(after.num_externs() as usize, marked);
        assert!(before.num_externs() as usize == marked || path.ends_with("xnnpack_unmarked.pte"), "{path:?}");
        let ids = |graph: Graph<'_>| [graph.input_ids(), graph.output_ids()].map(|ids| ids.iter().collect::<Vec<_>>());
        assert_eq!(ids(after), ids(before));
    }
}

const INPUT: Storage = Storage::External { id: 0, input: true, output: false };
const OUTPUT: Storage = Storage::External { id: 1, input: false, output: true };

fn bytes(len: usize) -> model::Constant<'static> {
    model::Constant::Bytes(vec![len as u8; len].into())
}

fn named(key: &str, size: u64) -> model::Constant<'static> {
    model::Constant::Named { key: key.into(), size }
}

/// A graph with something of everything that is not a node.
fn sample() -> model::Graph<'static> {
    let constants =
        vec![bytes(192), named("bias", 12), bytes(128), bytes(16), bytes(9), named("scale_w", 12), bytes(16)];
    let mut graph = model::Graph { constants, ..model::Graph::default() };
    let channels = |scales| Parameters::PerChannel { channel_dim: 0, scales };
    let groups = |scales| Parameters::PerChannelGroup { channel_dim: 0, group_size: 32, scales };
    let constant = |index, count| ModelScales::Constant { index, count };
    let plain = Parameters::None;
    let rows: [(Datatype, &[u32], Storage, Parameters); 10] = [
        (Datatype::Fp32, &[2, 64], INPUT, plain.clone()),
        (Datatype::QCInt8, &[3, 64], Storage::Constant(0), channels(ModelScales::Fp32(vec![0.5, 1.0, 2.0]))),
        (Datatype::Fp32, &[3], Storage::Constant(1), plain.clone()),
        (Datatype::QDInt8, &[2, 64], Storage::Internal, Parameters::PerToken { num_nonbatch_dims: 1 }),
        (Datatype::Fp32, &[2, 3], OUTPUT, plain.clone()),
        (Datatype::QInt8, &[2, 3], Storage::Internal, Parameters::PerTensor { scale: 0.25, zero_point: -128 }),
        (Datatype::QBInt4, &[4, 64], Storage::Constant(2), groups(constant(3, 8))),
        (Datatype::QCInt4, &[3, 5], Storage::Constant(4), channels(constant(5, 3))),
        (Datatype::QBInt4, &[1, 32], Storage::Constant(6), groups(ModelScales::Bf16(vec![0x3f80]))),
        (Datatype::BF16, &[1, 1, 1, 1, 1, 0], Storage::Internal, plain),
    ];
    for (dtype, dims, storage, quantization) in rows {
        graph.value(dtype, dims, storage, quantization);
    }
    graph.node(model::Operation::Convert(model::Unary { input_id: 0, output_id: 3, flags: 0 }), None);
    let linear = model::FullyConnected { input1_id: 3, filter_id: 1, bias_id: 2, output_id: 4, flags: 1 };
    graph.node(model::Operation::FullyConnected(linear), Some((-1.5, f32::INFINITY)));
    let turn = model::Transposition { num_dims: 3, perm: vec![2, 0, 1], input_id: 4, output_id: 5, flags: 0 };
    graph.node(model::Operation::StaticTranspose(turn), None);
    let (offsets, sizes) = (vec![1, 0], vec![1, 2]);
    let slice = model::Slicing { num_dims: 2, offsets, sizes, input_id: 4, output_id: 5, flags: 0 };
    graph.node(model::Operation::StaticSlice(slice), None);
    let reshape = model::Reshaping { num_dims: 2, new_shape: vec![0, 3], input_id: 4, output_id: 5, flags: 0 };
    graph.node(model::Operation::StaticReshape(reshape), None);
    let (pre_paddings, post_paddings, padding_value) = (vec![0, 1], vec![2, 0], -0.0);
    let pad = model::Padding { pre_paddings, post_paddings, padding_value, input_id: 4, output_id: 5, flags: 0 };
    graph.node(model::Operation::StaticConstantPad(pad), None);
    graph
}

#[test]
fn models_survive_writing() {
    let graph = sample();
    let payload = graph.write();
    assert_eq!(model::Graph::read(&payload).as_ref(), Ok(&graph));
    assert_eq!(graph.write(), payload);
    let empty = model::Graph::default();
    assert_eq!(model::Graph::read(&empty.write()), Ok(empty));
    let mut both = sample();
    both.values[4].storage = Storage::External { id: 4095, input: true, output: true };
    both.nodes.clear();
    assert_eq!(model::Graph::read(&both.write()), Ok(both));
}

/// A field's content that shows where it was written.
trait Example {
    fn example(id: u8) -> Self;
}
impl Example for u32 {
    fn example(id: u8) -> u32 {
        id.into()
    }
}
impl Example for f32 {
    fn example(id: u8) -> f32 {
        f32::from(id) + 0.5
    }
}
impl Example for Vec<u32> {
    fn example(_: u8) -> Vec<u32> {
        vec![]
    }
}

macro_rules! examples {
    ($(
        $(#[$meta:meta])* $layout:ident { $($id:literal $field:ident : $kind:tt),* $(,)? }
        $(: $operands:tt $($number:literal $name:ident),+;)+
    )*) => {
        $(impl Example for model::$layout {
            fn example(_: u8) -> Self {
                model::$layout { $($field: Example::example($id)),* }
            }
        })*

        /// Every node by its name.
        fn examples() -> Vec<(&'static str, model::Operation)> {
            vec![$($($((stringify!($name), model::Operation::$name(Example::example(0))),)+)+)*]
        }
    };
}
node_rows!(examples);

#[test]
fn every_node() {
    // In the order of their numbers.
    let names = "Add FullyConnected Softmax Sigmoid StaticTranspose Clamp Conv2d Div StaticResizeBilinear2D \
        StaticConstantPad AvgPooling2d Minimum DepthwiseConv2d MaxPooling2d Multiply Subtract Floor Convert \
        GlobalAvgPooling2d StaticReshape ArgMaxPooling2d SquareRoot Ceiling Hardswish LeakyReLU Maximum Negate Square \
        ELU Abs PReLU Concatenate2 Concatenate3 Concatenate4 StaticSlice ScaledDotProductAttention BatchMatrixMultiply \
        Concatenate5 ConvTranspose2d ReciprocalSquareRoot Log Gelu Tanh Exp Sin Copy Cos";
    let names: Vec<_> = names.split_whitespace().collect();
    let examples = examples();
    assert_eq!((names.len(), examples.len()), (47, 47));
    let mut graph = model::Graph::default();
    for _ in 0..20 {
        graph.value(Datatype::Fp32, &[1], Storage::Internal, Parameters::None);
    }
    for (name, operation) in examples {
        graph.nodes.clear();
        graph.node(operation, None);
        let payload = graph.write();
        if name == "ScaledDotProductAttention" {
            let refused = Error::broken(Place::GraphNode(0), Rule::AttentionNode);
            assert_eq!(File::parse(&payload).err(), Some(refused));
            continue;
        }
        assert_eq!(model::Graph::read(&payload).as_ref(), Ok(&graph), "{name}");
        let operation = File::parse(&payload).unwrap().nodes().get(0).unwrap().xnode_union();
        assert_eq!((operation.name(), names[usize::from(operation.code()) - 1]), (name, name));
    }
}

/// The example's fields hold their own ids, so that operands can be read off the format's tables.
#[test]
fn operands() {
    let mut graph = model::Graph::default();
    for _ in 0..20 {
        graph.value(Datatype::Fp32, &[1], Storage::Internal, Parameters::None);
    }
    for (_, operation) in examples().into_iter().filter(|row| row.0 != "ScaledDotProductAttention") {
        graph.node(operation, None);
    }
    let payload = graph.write();
    let nodes = File::parse(&payload).unwrap().nodes();
    let find = |name: &str| nodes.iter().map(|node| node.xnode_union()).find(|node| node.name() == name).unwrap();
    let of = |name| (find(name).inputs().collect::<Vec<_>>(), find(name).outputs().collect::<Vec<_>>());
    assert_eq!(of("Softmax"), (vec![0], vec![1]));
    assert_eq!(of("PReLU"), (vec![0, 1], vec![2]));
    assert_eq!(of("FullyConnected"), (vec![0, 1, 2], vec![3]));
    assert_eq!(of("ConvTranspose2d"), (vec![15, 16, 17], vec![18]));
    assert_eq!(of("MaxPooling2d"), (vec![10], vec![11]));
    assert_eq!(of("ArgMaxPooling2d"), (vec![6], vec![7, 8]));
    assert_eq!(of("Concatenate2"), (vec![1, 2], vec![5]));
    assert_eq!(of("Concatenate3"), (vec![1, 2, 3], vec![5]));
    assert_eq!(of("Concatenate4"), (vec![1, 2, 3, 4], vec![5]));
    assert_eq!(of("Concatenate5"), (vec![1, 2, 3, 4, 7], vec![5]));
    assert_eq!(of("StaticTranspose"), (vec![2], vec![3]));
    assert_eq!(of("StaticSlice"), (vec![3], vec![4]));
    assert_eq!(of("ELU"), (vec![1], vec![2]));

    let unbiased = model::FullyConnected { input1_id: 5, filter_id: 6, bias_id: NONE, output_id: 7, flags: 0 };
    graph.nodes.clear();
    graph.node(model::Operation::FullyConnected(unbiased), None);
    let payload = graph.write();
    let node = File::parse(&payload).unwrap().nodes().get(0).unwrap();
    assert_eq!(node.xnode_union().inputs().collect::<Vec<_>>(), [5, 6]);
}

#[test]
fn layout_of_a_payload() {
    let mut graph = sample();
    graph.constants.push(bytes(128));
    let payload = graph.write();
    let file = File::parse(&payload).unwrap();
    let header = file.header();
    assert_eq!(payload[..14], *b"\0\0\0\0XH00\x1e\0\x20\0\0\0");
    assert_eq!(payload[36..40], *b"XN01");
    assert_eq!(header.constant_data_offset % 16, 0);
    // 192, 128, 16, 9 and padding, 16: the second 128 and the second 16 are shared.
    assert_eq!(header.constant_data_size, 192 + 128 + 16 + 9);
    assert_eq!(header.constant_data_offset + header.constant_data_size, payload.len() as u64);
    assert_eq!(file.constant_count(), 8);
    assert_eq!(file.constant(1), Some(Constant::Bytes(&[192; 192])));
    assert_eq!(file.constant(2), Some(Constant::Named("bias")));
    assert_eq!(file.constant(5), Some(Constant::Bytes(&[9; 9])));
    assert_eq!(file.constant(8), file.constant(3));
    assert_eq!((file.constant(0), file.constant(9), file.constant(NONE)), (None, None, None));
    let externs: Vec<_> = file.externs().map(|(id, tensor)| (id, tensor.external(), tensor.is_output())).collect();
    assert_eq!(externs, [(0, Some(0), false), (4, Some(1), true)]);
    assert!(file.value(10).is_none() && file.value(NONE).is_none());
    // Two elements to a byte, each row by itself: 3 rows of 5 and 4 rows of 64.
    let nbytes = |id| file.value(id).unwrap().tensor().nbytes();
    assert_eq!((nbytes(7), nbytes(6), nbytes(0), nbytes(9)), (9, 128, 512, 0));
}

/// Reads everything the payload offers.
fn walk(file: &File<'_>) -> usize {
    let mut seen = std::format!("{:?}", file.header()).len() + file.externs().count();
    for index in 0..file.constant_count() as u32 + 2 {
        seen += file.constant(index).map_or(0, |constant| match constant {
            Constant::Bytes(bytes) => bytes.len(),
            Constant::Named(key) => key.len(),
        });
    }
    for value in file.values().iter() {
        let tensor = value.tensor();
        seen += tensor.rank() + (tensor.nbytes() % 7) as usize;
        seen += match value.quantization() {
            Quantization::PerChannelQuant(parameters) => parameters.scales().count() as usize % 7,
            Quantization::PerChannelGroupQuant(parameters) => parameters.scales().count() as usize % 7,
            other => usize::from(other.code()),
        };
    }
    for node in file.nodes().iter() {
        let operation = node.xnode_union();
        let values = operation.inputs().chain(operation.outputs()).filter_map(|id| file.value(id)).count();
        seen += values + operation.name().len() + usize::from(node.output_range().0 > 0.0);
    }
    seen
}

#[test]
fn no_bytes_can_harm() {
    for payload in [sample().write(), broken::without_header()] {
        assert_eq!(File::parse(&payload).err(), None);
        let (mut good, mut bad) = (0, 0);
        mutations(&payload, 4000, |bytes| {
            let header = Header { flatbuffer_size: bytes.len() as u64, ..Header::parse(&payload).unwrap() };
            walk(&File::reopen(bytes, header));
            walk(&File::reopen(bytes, Header { flatbuffer_offset: 0, ..header }));
            match File::parse(bytes) {
                Ok(file) => {
                    good += 1;
                    walk(&file);
                    let operands = file.nodes().iter().flat_map(|node| {
                        let operation = node.xnode_union();
                        operation.inputs().chain(operation.outputs()).collect::<Vec<_>>()
                    });
                    assert!(operands.into_iter().all(|id| file.value(id).is_some()));
                    // What reads can be written and read again.
                    let graph = model::Graph::read(bytes).unwrap();
                    let rewritten = graph.write();
                    let again = model::Graph::read(&rewritten).unwrap();
                    assert_eq!(std::format!("{again:?}"), std::format!("{graph:?}"));
                }
                Err(error) => {
                    bad += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        });
        assert!(good > 0 && bad > 0, "{good} accepted, {bad} refused");
    }
}
