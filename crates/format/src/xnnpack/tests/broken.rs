//! Payloads that must be refused, each for its reason.

use super::*;
use crate::builder::{Builder, Slot};

/// What a test needs to say about the parts of a graph that a model cannot get wrong.
struct Raw {
    identifier: [u8; 4],
    externs: u32,
    ids: [Vec<u32>; 2],
    /// Slots of one value's tensor, in the order of the fields.
    tensor: [Slot; 8],
    dims: Vec<u32>,
    /// Kind of value; parameters of a quantised one.
    kind: u8,
    parameters: Option<(u8, Option<Vec<Slot>>)>,
    /// Kind and slots of one node.
    node: Option<(u8, Option<Vec<Slot>>)>,
    /// Fields of the graph to leave out.
    left_out: Vec<usize>,
    buffers: Vec<usize>,
}

impl Default for Raw {
    fn default() -> Raw {
        let [none, zero] = [Slot::Absent, Slot::U32(0)];
        Raw {
            identifier: *b"XN00",
            externs: 1,
            ids: [vec![0], vec![]],
            tensor: [Slot::I16(1), Slot::U32(1), none, zero, zero, Slot::U32(1), zero, none],
            dims: vec![4],
            kind: 1,
            parameters: None,
            node: None,
            left_out: vec![],
            buffers: vec![0, 16],
        }
    }
}

impl Raw {
    /// A payload of the old form, without header.
    fn write(&self) -> Vec<u8> {
        let mut b = Builder::new();
        let mut tensor = self.tensor;
        tensor[2] = b.scalars(&self.dims);
        let mut content = b.table(&tensor);
        if let Some((kind, slots)) = &self.parameters {
            let parameters = slots.as_ref().map_or(Slot::Absent, |slots| b.table(slots));
            content = b.table(&[content, Slot::U8(*kind), parameters]);
        }
        let value = b.table(&[Slot::U8(self.kind), content]);
        let values = b.vector(&[value]);
        let nodes: Vec<_> = self
            .node
            .iter()
            .map(|(kind, slots)| {
                let node = slots.as_ref().map_or(Slot::Absent, |slots| b.table(slots));
                b.table(&[Slot::U8(*kind), node])
            })
            .collect();
        let nodes = b.vector(&nodes);
        let [inputs, outputs] = [0, 1].map(|i| b.scalars(&self.ids[i]));
        let buffers = b.tables(&self.buffers, |b, &size| {
            let storage = b.bytes(&vec![size as u8; size], 16);
            b.table(&[storage])
        });
        let mut slots = [Slot::Absent, nodes, values, Slot::U32(self.externs), inputs, outputs, buffers];
        self.left_out.iter().for_each(|&field| slots[field] = Slot::Absent);
        let root = b.table(&slots);
        b.finish(root, self.identifier)
    }

    fn error(&self) -> Option<Error> {
        File::parse(&self.write()).err()
    }
}

/// A sound payload of the old form: a node adds its output to itself.
pub(super) fn without_header() -> Vec<u8> {
    let mut raw = Raw { node: Some((1, Some(vec![]))), ..Raw::default() };
    raw.tensor[5] = Slot::U32(EXTERNAL_OUTPUT);
    raw.write()
}

#[test]
fn payloads_without_header() {
    let mut raw = Raw::default();
    (raw.tensor[3], raw.tensor[5]) = (Slot::U32(1), Slot::U32(0));
    for identifier in [*b"XN00", *b"XN01"] {
        raw.identifier = identifier;
        let payload = raw.write();
        let file = File::parse(&payload).unwrap();
        assert_eq!((file.constant_count(), file.constant(1)), (1, Some(Constant::Bytes(&[16; 16]))));
        assert_eq!((file.constant(0), file.constant(2)), (None, None));
        // Written again, it has a header.
        let graph = model::Graph::read(&payload).unwrap();
        let written = graph.write();
        assert_eq!(&written[4..8], b"XH00");
        assert_eq!(model::Graph::read(&written), Ok(graph.clone()));
        let old = graph.write_without_header();
        assert_eq!((&old[4..8], model::Graph::read(&old)), (&b"XN00"[..], Ok(graph.clone())));
    }
    let expected = FileKind::Xnnpack;
    raw.identifier = *b"XN02";
    assert_eq!(raw.error(), Some(Error::IncompatibleVersion { expected, found: *b"XN02" }));
    raw.identifier = *b"ET12";
    let foreign = Error::NotAProgram { expected, found: *b"ET12" };
    assert_eq!((raw.error(), Header::parse(&raw.write()).err()), (Some(foreign), Some(foreign)));
    // Five elements do not fit 16 bytes.
    raw.identifier = *b"XN00";
    raw.dims = vec![5];
    let (place, rule) = (Place::GraphValue(0), Rule::DataSize);
    assert_eq!(raw.error(), Some(Error::Invalid { place, rule, found: 16, limit: 20 }));
}

#[test]
fn heads() {
    let payload = sample().write();
    let size = payload.len() as u64;
    let header = Header::parse(&payload).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut payload = payload.clone();
        payload[at..at + bytes.len()].copy_from_slice(bytes);
        File::parse(&payload).err()
    };
    assert_eq!(with(0, &[]), None);
    let truncated = |expected, actual| Some(Error::Truncated { expected, actual });
    for len in [0, 7, 9, 29] {
        assert_eq!(Header::parse(&payload[..len]).err(), truncated(30, len as u64));
    }
    assert_eq!(File::parse(&payload[..payload.len() - 1]).err(), truncated(size, size - 1));
    assert!(matches!(with(8, &[29]), Some(Error::Corrupt { offset: 8, .. })));
    assert!(matches!(with(10, &[29]), Some(Error::Corrupt { offset: 10, .. })));
    assert!(matches!(with(14, &7u32.to_le_bytes()), Some(Error::Corrupt { offset: 10, .. })));
    let before = (header.flatbuffer_offset + header.flatbuffer_size - 1) as u32;
    assert!(matches!(with(18, &before.to_le_bytes()), Some(Error::Corrupt { offset: 18, .. })));
    assert_eq!(with(22, &u64::MAX.to_le_bytes()), truncated(u64::MAX, size));
    let expected = FileKind::Xnnpack;
    assert_eq!(with(4, b"XH01"), Some(Error::IncompatibleVersion { expected, found: *b"XH01" }));
    assert_eq!(with(36, b"XN02"), Some(Error::IncompatibleVersion { expected, found: *b"XN02" }));
    assert_eq!(with(36, b"abcd"), Some(Error::NotAProgram { expected, found: *b"abcd" }));
    // Without constants, what counts is where the graph ends.
    let mut bare = model::Graph::default().write();
    let header = Header::parse(&bare).unwrap();
    bare.truncate((header.flatbuffer_offset + header.flatbuffer_size) as usize);
    assert!(File::parse(&bare).is_ok());
    bare.pop();
    let actual = bare.len() as u64;
    assert_eq!(File::parse(&bare).err(), truncated(actual + 1, actual));
    assert_eq!(
        Error::NotAProgram { expected, found: *b"PK\x03\x04" }.to_string(),
        "this is not an XNNPACK delegate payload: bytes 4..8 are 'PK..', expected 'XN01'"
    );
}

/// Rules that a model can break: what to do to the sample, and what must come of it.
#[test]
fn broken_rules() {
    use model::{Binary, Operation, Unary, Value};
    type Graph = model::Graph<'static>;
    fn scales(value: &mut Value, new: ModelScales) {
        match &mut value.quantization {
            Parameters::PerChannel { scales, .. } | Parameters::PerChannelGroup { scales, .. } => *scales = new,
            other => panic!("{other:?}"),
        }
    }
    fn group(graph: &mut Graph, channel_dim: i32, group_size: i32) {
        let scales = ModelScales::Constant { index: 3, count: 8 };
        graph.values[6].quantization = Parameters::PerChannelGroup { channel_dim, group_size, scales };
    }
    fn token(graph: &mut Graph, num_nonbatch_dims: i32) {
        graph.values[3].quantization = Parameters::PerToken { num_nonbatch_dims };
    }
    fn point(graph: &mut Graph, dtype: Datatype, scale: f32, zero_point: i32) {
        (graph.values[5].dtype, graph.values[5].quantization) = (dtype, Parameters::PerTensor { scale, zero_point });
    }
    fn unary(graph: &mut Graph, input_id: u32, output_id: u32) {
        graph.node(Operation::Tanh(Unary { input_id, output_id, flags: 0 }), None);
    }
    fn turn(graph: &mut Graph, num_dims: u32, perm: Vec<u32>) {
        let node = model::Transposition { num_dims, perm, input_id: 4, output_id: 5, flags: 0 };
        graph.nodes[2].operation = Operation::StaticTranspose(node);
    }
    type Change = fn(&mut Graph);
    let (at, node) = (Place::GraphValue, Place::GraphNode);
    let none = i64::from(NONE);
    let rows: &[(Change, Place, Rule, i64, i64)] = &[
        (
            |g| g.values[4].storage = Storage::External { id: 4096, input: false, output: true },
            Place::File,
            Rule::ExternCount,
            4097,
            4096,
        ),
        (|g| g.values[4].storage = INPUT, at(4), Rule::ExternalIdTwice, 0, 0),
        (|g| g.values[0].dims = vec![1; 7], at(0), Rule::RankTooLarge, 7, 6),
        (|g| g.values[0].dims = vec![u32::MAX; 2], at(0), Rule::TensorTooLarge, 0, 0),
        (|g| g.values[9].dims = vec![0, u32::MAX, u32::MAX], at(9), Rule::TensorTooLarge, 0, 0),
        (|g| g.values[0].dtype = Datatype::Invalid, at(0), Rule::DtypeUnknown, 0, 14),
        (|g| g.values[2].storage = Storage::Constant(7), at(2), Rule::ConstantIndex, 8, 7),
        (|g| g.constants[0] = bytes(191), at(1), Rule::DataSize, 191, 192),
        (|g| g.constants[4] = bytes(8), at(7), Rule::DataSize, 8, 9),
        (|g| g.constants[3] = bytes(15), at(6), Rule::DataSize, 15, 16),
        (|g| g.constants[5] = bytes(11), at(7), Rule::DataSize, 11, 12),
        (|g| g.values[0].dtype = Datatype::QInt8, at(0), Rule::QuantizationKind, 0, 3),
        (|g| g.values[5].dtype = Datatype::Fp32, at(5), Rule::QuantizationKind, 2, 1),
        (|g| g.values[1].dtype = Datatype::QBInt4, at(1), Rule::QuantizationKind, 1, 10),
        (|g| point(g, Datatype::QInt8, 1.0, -129), at(5), Rule::ZeroPoint, -129, 3),
        (|g| point(g, Datatype::QInt8, 1.0, 128), at(5), Rule::ZeroPoint, 128, 3),
        (|g| point(g, Datatype::QUInt8, 1.0, -1), at(5), Rule::ZeroPoint, -1, 4),
        (|g| point(g, Datatype::QUInt8, 1.0, 256), at(5), Rule::ZeroPoint, 256, 4),
        (|g| point(g, Datatype::QInt32, 1.0, 1), at(5), Rule::ZeroPoint, 1, 5),
        (|g| point(g, Datatype::QInt8, 0.0, 0), at(5), Rule::ScaleInvalid, 0, 0),
        (|g| point(g, Datatype::QInt8, -1.0, 0), at(5), Rule::ScaleInvalid, 0, 0),
        (|g| point(g, Datatype::QInt8, f32::NAN, 0), at(5), Rule::ScaleInvalid, 0, 0),
        (|g| scales(&mut g.values[1], ModelScales::Fp32(vec![1.0; 2])), at(1), Rule::ScaleCount, 2, 3),
        (
            |g| scales(&mut g.values[1], ModelScales::Fp32(vec![1.0, f32::INFINITY, 1.0])),
            at(1),
            Rule::ScaleInvalid,
            0,
            0,
        ),
        (|g| scales(&mut g.values[1], ModelScales::Constant { index: 7, count: 3 }), at(1), Rule::ScaleConstant, 8, 7),
        (|g| scales(&mut g.values[7], ModelScales::Constant { index: 5, count: 4 }), at(7), Rule::ScaleCount, 4, 3),
        (|g| scales(&mut g.values[6], ModelScales::Fp32(vec![1.0; 9])), at(6), Rule::ScaleCount, 9, 8),
        (|g| scales(&mut g.values[8], ModelScales::Bf16(vec![0x7f80])), at(8), Rule::ScaleInvalid, 0, 0),
        (|g| group(g, 1, 32), at(6), Rule::GroupDimension, 1, 0),
        (|g| group(g, 0, 0), at(6), Rule::GroupSize, 0, 64),
        (
            |g| {
                group(g, 0, 0);
                g.values[6].dims = vec![4, 0];
            },
            at(6),
            Rule::GroupSize,
            0,
            0,
        ),
        (|g| group(g, 0, -32), at(6), Rule::GroupSize, -32, 64),
        (|g| group(g, 0, 16), at(6), Rule::GroupSize, 16, 64),
        (|g| group(g, 0, 96), at(6), Rule::GroupSize, 96, 64),
        (|g| g.values[6].dims = vec![4, 4, 4], at(6), Rule::GroupRank, 3, 2),
        (|g| token(g, 3), at(3), Rule::TokenDimensions, 3, 2),
        (|g| token(g, -1), at(3), Rule::TokenDimensions, -1, 2),
        (|g| unary(g, 10, 5), node(6), Rule::ArgumentIndex, 10, 10),
        (|g| unary(g, 0, 10), node(6), Rule::ArgumentIndex, 10, 10),
        (|g| unary(g, NONE, 5), node(6), Rule::ArgumentIndex, none, 10),
        (|g| unary(g, 4, 0), node(6), Rule::OutputFixed, 0, 0),
        (|g| unary(g, 4, 1), node(6), Rule::OutputFixed, 1, 0),
        (
            |g| g.node(Operation::Add(Binary { input1_id: 0, input2_id: NONE, output_id: 5, flags: 0 }), None),
            node(6),
            Rule::ArgumentIndex,
            none,
            10,
        ),
        (|g| g.nodes[0].output_range = Some((1.0, 0.5)), node(0), Rule::OutputRange, 0, 0),
        (|g| g.nodes[0].output_range = Some((f32::NAN, 0.5)), node(0), Rule::OutputRange, 0, 0),
        (|g| turn(g, 7, vec![0; 7]), node(2), Rule::RankTooLarge, 7, 6),
        (|g| turn(g, 2, vec![0]), node(2), Rule::DimensionCount, 1, 2),
        (|g| turn(g, 2, vec![0, 0]), node(2), Rule::DimOrderEntry, 0, 2),
        (|g| turn(g, 2, vec![0, 2]), node(2), Rule::DimOrderEntry, 2, 2),
        (
            |g| {
                let Operation::StaticSlice(slice) = &mut g.nodes[3].operation else { panic!("a slice") };
                slice.sizes.push(1);
            },
            node(3),
            Rule::DimensionCount,
            3,
            2,
        ),
        (
            |g| {
                let Operation::StaticSlice(slice) = &mut g.nodes[3].operation else { panic!("a slice") };
                slice.offsets.clear();
            },
            node(3),
            Rule::DimensionCount,
            0,
            2,
        ),
        (
            |g| {
                let Operation::StaticReshape(reshape) = &mut g.nodes[4].operation else { panic!("a reshape") };
                reshape.num_dims = 3;
            },
            node(4),
            Rule::DimensionCount,
            2,
            3,
        ),
        (
            |g| {
                let Operation::StaticConstantPad(pad) = &mut g.nodes[5].operation else { panic!("a pad") };
                pad.post_paddings.pop();
            },
            node(5),
            Rule::DimensionCount,
            1,
            2,
        ),
    ];
    assert_eq!(File::parse(&sample().write()).err(), None);
    for (i, &(change, place, rule, found, limit)) in rows.iter().enumerate() {
        let mut graph = sample();
        change(&mut graph);
        assert_eq!(File::parse(&graph.write()).err(), Some(Error::Invalid { place, rule, found, limit }), "row {i}");
    }
    // The dimension of channels decides how many scales there are.
    let mut graph = sample();
    for (channel_dim, rule, found, limit) in
        [(2, Rule::ChannelDimension, 2, 2), (-1, Rule::ChannelDimension, -1, 2), (1, Rule::ScaleCount, 3, 64)]
    {
        let scales = ModelScales::Fp32(vec![1.0; 3]);
        graph.values[1].quantization = Parameters::PerChannel { channel_dim, scales };
        let error = Error::Invalid { place: at(1), rule, found, limit };
        assert_eq!(File::parse(&graph.write()).err(), Some(error));
    }
}

/// Rules that no model can break.
#[test]
fn broken_graphs() {
    let value = Place::GraphValue(0);
    let expect = |place, rule, found: i64, limit: i64| Some(Error::Invalid { place, rule, found, limit });
    let tensor = |field: usize, slot| {
        let mut raw = Raw::default();
        raw.tensor[field] = slot;
        raw.error()
    };
    assert_eq!(Raw::default().error(), None);
    for (field, rule) in [(1, Rule::NodesMissing), (2, Rule::ValuesMissing)] {
        let raw = Raw { left_out: vec![field], ..Raw::default() };
        assert_eq!(raw.error(), expect(Place::File, rule, 0, 0));
    }
    let ids = |inputs, outputs| Raw { ids: [inputs, outputs], ..Raw::default() }.error();
    assert_eq!(ids(vec![0, 1], vec![]), expect(Place::File, Rule::InputIndex, 1, 1));
    assert_eq!(ids(vec![], vec![NONE]), expect(Place::File, Rule::OutputIndex, i64::from(NONE), 1));
    assert_eq!(tensor(4, Slot::U32(1)), expect(value, Rule::ExternalId, 1, 1));
    assert_eq!(tensor(4, Slot::U32(NONE)), expect(value, Rule::ExternalId, i64::from(NONE), 1));
    assert_eq!(tensor(0, Slot::I16(15)), expect(value, Rule::DtypeUnknown, 15, 14));
    assert_eq!(tensor(0, Slot::I16(-1)), expect(value, Rule::DtypeUnknown, -1, 14));
    assert_eq!(tensor(1, Slot::U32(2)), expect(value, Rule::DimensionCount, 1, 2));
    assert_eq!(tensor(3, Slot::U32(1)), expect(value, Rule::ConstantExternal, 0, 0));
    assert_eq!(tensor(5, Slot::U32(5)), expect(value, Rule::ValueFlags, 5, 3));
    assert_eq!(tensor(6, Slot::U32(1)), expect(value, Rule::ValueId, 1, 0));
    assert_eq!(tensor(7, Slot::I16(3)), expect(value, Rule::DynamicInput, 3, 0));
    assert_eq!(Raw { kind: 0, ..Raw::default() }.error(), expect(value, Rule::PayloadMissing, 0, 0));
    let node = |kind, slots| Raw { node: Some((kind, slots)), ..Raw::default() }.error();
    assert_eq!(node(0, None), expect(Place::GraphNode(0), Rule::InstructionEmpty, 0, 0));
    assert_eq!(node(1, None), expect(Place::GraphNode(0), Rule::InstructionEmpty, 1, 0));
    assert!(matches!(node(48, Some(vec![])), Some(Error::Corrupt { .. })));
    let mut raw = Raw { kind: 2, parameters: Some((2, Some(vec![Slot::F32(1.0)]))), ..Raw::default() };
    raw.tensor[0] = Slot::I16(3);
    assert_eq!(raw.error(), None);
    raw.parameters = Some((1, Some(vec![])));
    assert_eq!(raw.error(), expect(value, Rule::QuantizationKind, 1, 3));
    raw.parameters = Some((0, None));
    assert_eq!(raw.error(), expect(value, Rule::QuantizationKind, 0, 3));
    raw.parameters = Some((2, None));
    assert_eq!(raw.error(), expect(value, Rule::PayloadMissing, 2, 0));
}

/// A constant that reaches past the end of the data; its size in the payload is found by its value.
#[test]
fn constants_outside() {
    let constants = vec![bytes(32), bytes(1000)];
    let payload = model::Graph { constants, ..model::Graph::default() }.write();
    let at = payload.windows(8).position(|window| window == 1000u64.to_le_bytes()).unwrap();
    for (size, end) in [(1001, 32 + 1001), (u64::MAX, i64::MAX)] {
        let mut longer = payload.clone();
        longer[at..at + 8].copy_from_slice(&size.to_le_bytes());
        let (place, rule) = (Place::GraphConstant(2), Rule::ConstantOutside);
        assert_eq!(File::parse(&longer).err(), Some(Error::Invalid { place, rule, found: end, limit: 1032 }));
    }
}
