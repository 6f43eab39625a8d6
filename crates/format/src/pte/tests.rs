use super::model::{
    BufferDevice, CompileSpec, Delegate, Dynamism, Frame, Instruction, Memory, NamedData, Options, Plan, Program,
    Storage, Tensor, Value,
};
use super::*;
use crate::builder::{Builder, Slot};
use crate::mutation::mutations;
use crate::{Place, Rule, ScalarType};
use std::borrow::Cow;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

fn planned(id: u32, offset: u64) -> Storage {
    Storage::Planned(Memory { id, offset })
}

fn tensor(sizes: &[i32], storage: Storage) -> Tensor {
    Tensor::new(ScalarType::Float, sizes, storage)
}

/// A program with something of everything.
fn sample() -> Program<'static> {
    let mut program = Program { initial_states: vec![Cow::Owned(vec![7; 12])], ..Program::default() };
    let first = program.constant(vec![1; 20]);
    let second = program.constant(vec![2; 24]);
    program.named_data = ["w", "same", "other"]
        .map(|key| NamedData { key: key.into(), data: vec![if key == "other" { 5 } else { 4 }; 10].into() })
        .into();
    let mut plan = Plan::new("forward");
    plan.input_encoding = Some("T1#1($)".into());
    plan.buffer_sizes = vec![0, 64, 32];
    plan.buffer_devices = vec![BufferDevice { buffer: 2, device: (1, 3) }];
    let memory = Memory { id: 2, offset: 8 };
    let mut external = tensor(&[2, 2], Storage::External(None));
    external.name = Some("l.weight".into());
    let mut external_planned = tensor(&[2], Storage::External(Some(memory)));
    external_planned.name = Some("l.bias".into());
    let mut dynamic = tensor(&[2, 3, 1, 1], planned(1, 1 << 33));
    (dynamic.dim_order, dynamic.dynamism, dynamic.device) = (vec![0, 2, 3, 1], Dynamism::Bound, (1, 2));
    plan.values = vec![
        tensor(&[5], first).into(),
        tensor(&[2, 3], second).into(),
        tensor(&[3], Storage::Initialised(memory, 0)).into(),
        tensor(&[], planned(1, 0)).into(),
        tensor(&[0, 4], Storage::Unplanned).into(),
        external.into(),
        external_planned.into(),
        dynamic.into(),
        Value::Null,
        Value::Int(i64::MIN),
        Value::Bool(true),
        Value::Double(-0.0),
        Value::String("text".into()),
        Value::IntList(vec![9, 9]),
        Value::DoubleList(vec![0.5, f64::INFINITY]),
        Value::BoolList(vec![true, false]),
        Value::TensorList(vec![0, 3]),
        Value::OptionalTensorList(vec![None, Some(8), Some(2)]),
    ];
    (plan.inputs, plan.outputs) = (vec![3, 4], vec![7]);
    plan.call("aten::add.out", [3, 0, 9, 7, 7]);
    plan.call("prim::nothing", []);
    plan.call("aten::add.out", [3, 3, 9, 7, 7]);
    plan.push(Instruction::Delegate { delegate: 1, args: vec![3, 7] });
    plan.push(Instruction::Move { from: 3, to: 4 });
    plan.push(Instruction::JumpFalse { condition: 10, target: 7 });
    plan.push(Instruction::Free { value: 7 });
    let frame = Frame { filename: Some("model.py".into()), line: 3, name: None, context: Some("x + y".into()) };
    plan.chains[0].stack_traces = vec![vec![frame], vec![]];
    let specs = vec![CompileSpec { key: "k".into(), value: vec![1, 2] }];
    let delegate = |byte, inline| Delegate {
        backend: "SomeBackend".into(),
        payload: vec![byte; 33].into(),
        inline,
        specs: specs.clone(),
    };
    plan.delegates = vec![delegate(1, true), delegate(2, false), delegate(2, false), delegate(1, true)];
    program.plans = vec![plan, Plan::new("empty")];
    program
}

fn parse(bytes: &[u8]) -> Result<File<'_>, Error> {
    let header = Header::parse(&bytes[..bytes.len().min(HEAD_BYTES)], bytes.len() as u64)?;
    File::parse(bytes, header, bytes.len() as u64)
}

#[test]
fn models_survive_writing() {
    let program = sample();
    let file = program.write();
    assert_eq!(Program::read(&file), Ok(program.clone()));
    assert_eq!(program.write(), file);
    let options = Options { segment_alignment: 4096, constant_alignment: 64, always_header: true };
    assert_eq!(Program::read(&program.write_with(options)), Ok(program.clone()));
    let inline = Program { inline_constants: true, ..program };
    assert_eq!(Program::read(&inline.write()), Ok(inline));
}

#[test]
fn negative_zero_is_not_the_default() {
    let file = sample().write();
    let KernelTypes::Double(double) = parse(&file).unwrap().plan("forward").unwrap().values().get(11).unwrap().val()
    else {
        panic!("value 11 is a Double");
    };
    assert_eq!(double.double_val().to_bits(), (-0.0f64).to_bits());
}

#[test]
fn layout_of_a_file() {
    let file = sample().write();
    let view = parse(&file).unwrap();
    let bytes = |range: Range<u64>| &file[range.start as usize..range.end as usize];
    let header = view.header();
    assert_eq!(&file[..16][4..], b"ET12eh00\x20\0\0\0");
    assert_eq!(header.segment_base % 128, 0);
    assert_eq!(header.segment_base + header.segment_data_size, file.len() as u64);
    // Constants, states, one payload of two equal ones, two named buffers of three names.
    assert_eq!(view.program().segments().len(), 5);
    for index in 0..5 {
        assert_eq!(view.segment(index).unwrap().start % 128, 0);
    }
    assert_eq!(view.segment(5), None);
    let first = view.constant(1, 20).unwrap();
    let second = view.constant(2, 24).unwrap();
    assert_eq!((bytes(first.clone()), bytes(second.clone())), (&[1; 20][..], &[2; 24][..]));
    assert_eq!(second.start, first.start + 32);
    assert_eq!((view.constant(2, 25), view.constant(0, 1), view.constant(3, 1)), (None, None, None));
    assert_eq!(view.constant(1, u64::MAX), None);
    assert_eq!(bytes(view.mutable_initial(1, 12).unwrap()), [7; 12]);
    assert_eq!(view.mutable_initial(1, 13), None);
    assert_eq!(bytes(view.named_data("w").unwrap()), [4; 10]);
    assert_eq!(view.named_data("w"), view.named_data("same"));
    assert_eq!(view.named_data("nobody"), None);
    let delegates = view.plan("forward").unwrap().delegates();
    assert_eq!(view.program().backend_delegate_data().len(), 1);
    let Some(Payload::Inline(inline)) = view.delegate_payload(delegates.get(3).unwrap()) else { panic!("inline") };
    assert_eq!(inline, [1; 33]);
    assert_eq!((inline.as_ptr() as usize - file.as_ptr() as usize) % 16, 0);
    let Some(Payload::Segment(range)) = view.delegate_payload(delegates.get(2).unwrap()) else { panic!("segment") };
    assert_eq!(bytes(range), [2; 33]);
    assert!(view.plan("backward").is_none());
}

/// A list of delegates takes few bytes, whatever their payload is.
#[test]
fn payloads_are_shared_within_reason() {
    let program = |count: usize| {
        let delegate = Delegate { backend: "B".into(), payload: vec![7; 1 << 20].into(), inline: false, specs: vec![] };
        let plan = Plan { delegates: vec![delegate; count], ..Plan::new("f") };
        Program { plans: vec![plan], ..Program::default() }.write()
    };
    assert!(parse(&program(64)).is_ok());
    let expected = Error::invalid(Place::Method(0), Rule::PayloadsShared, 65 << 20, 64 << 20);
    assert_eq!(parse(&program(65)).err(), Some(expected));
}

/// A call takes few bytes, however long the lists are that it names.
#[test]
fn lists_are_shared_within_reason() {
    let program = |calls: u32| {
        let mut plan = Plan::new("f");
        plan.values = vec![Value::Int(1), Value::IntList(vec![0; 1 << 10])];
        (0..calls).for_each(|_| plan.call("a::b", [0, 1, 1]));
        Program { plans: vec![plan], ..Program::default() }.write()
    };
    assert!(parse(&program(512)).is_ok());
    let expected = Error::invalid(Place::Method(0), Rule::ListsShared, 513 << 11, 1 << 20);
    assert_eq!(parse(&program(513)).err(), Some(expected));
}

#[test]
fn inline_constants_are_found() {
    let file = Program { inline_constants: true, ..sample() }.write();
    let view = parse(&file).unwrap();
    assert_eq!(view.inline_constant(1), Some(&[1; 20][..]));
    assert_eq!((view.inline_constant(0), view.inline_constant(3)), (None, None));
    assert_eq!(view.constant(1, 20), None);
}

#[test]
fn without_segments_there_is_no_header() {
    let program = Program { plans: vec![Plan::new("f")], ..Program::default() };
    let file = program.write();
    let header = Header::parse(&file, file.len() as u64).unwrap();
    assert_eq!(header, Header { program_size: file.len() as u64, segment_base: 0, segment_data_size: 0 });
    assert_eq!(Program::read(&file).as_ref(), Ok(&program));
    let with = program.write_with(Options { always_header: true, ..Options::default() });
    assert_eq!(with.len(), file.len() + 32);
    assert_eq!(Program::read(&with), Ok(program));
}

#[test]
fn heads() {
    let file = sample().write();
    let size = file.len() as u64;
    let mut other = file.clone();
    other[6..8].copy_from_slice(b"99");
    let (expected, found) = (FileKind::Program, *b"ET99");
    assert_eq!(Header::parse(&other, size), Err(Error::IncompatibleVersion { expected, found }));
    other[4..8].copy_from_slice(b"PK\x03\x04");
    assert!(matches!(Header::parse(&other, size), Err(Error::NotAProgram { .. })));
    assert_eq!(Header::parse(b"ET12", 4), Err(Error::Truncated { expected: 8, actual: 4 }));
    assert_eq!(Header::parse(&file, size - 1), Err(Error::Truncated { expected: size, actual: size - 1 }));
    let mut short = file.clone();
    short[12] = 23;
    assert!(matches!(Header::parse(&short, size), Err(Error::Corrupt { offset: 12, .. })));
    // A header of 24 bytes does not say how large the segments are.
    short[12] = 24;
    let header = Header::parse(&short, size).unwrap();
    assert_eq!(header.segment_data_size, 0);
    assert!(File::parse(&short, header, size).is_ok());
    // Then it takes the segments themselves to find that the file was cut.
    let cut = header.segment_base + 1;
    let error = File::parse(&short, header, cut).err();
    assert!(matches!(error, Some(Error::Invalid { place: Place::Segment(0), rule: Rule::SegmentOutside, .. })));
    // Such a header may point anywhere as long as there is nothing to find.
    let program = Program { plans: vec![Plan::new("f")], ..Program::default() };
    let mut nowhere = program.write_with(Options { always_header: true, ..Options::default() });
    nowhere[12] = 24;
    nowhere[24..32].copy_from_slice(&(1u64 << 40).to_le_bytes());
    assert_eq!(parse(&nowhere).unwrap().segment(0), Some(0..0));
    let mut endless = file;
    endless[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(Header::parse(&endless, size), Err(Error::Corrupt { offset: 24, .. })));
}

/// Rules that a model can break: what to do to the sample's first plan, and what must come of it.
#[test]
fn broken_rules() {
    fn value(plan: &mut Plan<'static>, index: usize, change: impl Fn(&mut Tensor)) {
        let Value::Tensor(tensor) = &mut plan.values[index] else { panic!("value {index} is a tensor") };
        change(tensor);
    }
    type Change = fn(&mut Plan<'static>);
    let at = |value| Place::Value { method: 0, value };
    let step = |instruction| Place::Instruction { method: 0, chain: 0, instruction };
    let method = Place::Method(0);
    let rows: &[(Change, Place, Rule, i64, i64)] = &[
        (|p| p.chains.clear(), method, Rule::ChainsMissing, 0, 0),
        (|p| p.inputs.push(18), method, Rule::InputIndex, 18, 18),
        (|p| p.outputs.push(u32::MAX), method, Rule::OutputIndex, -1, 18),
        (|p| p.buffer_sizes[1] = u64::MAX, method, Rule::BufferSizeNegative, -1, 0),
        (|p| value(p, 3, |t| t.sizes = vec![1; 17]), at(3), Rule::RankTooLarge, 17, 16),
        (|p| value(p, 3, |t| t.sizes = vec![1; 2]), at(3), Rule::DimOrderLength, 0, 2),
        (|p| value(p, 1, |t| t.dim_order = vec![1, 1]), at(1), Rule::DimOrderEntry, 1, 2),
        (|p| value(p, 1, |t| t.dim_order = vec![0, 200]), at(1), Rule::DimOrderEntry, 200, 2),
        (|p| value(p, 1, |t| t.sizes[0] = -2), at(1), Rule::SizeNegative, -2, 0),
        (|p| value(p, 1, |t| t.sizes = vec![i32::MAX; 2]), at(1), Rule::TensorTooLarge, 0, 0),
        (|p| value(p, 3, |t| t.storage = planned(0, 0)), at(3), Rule::MemoryId, 0, 3),
        (|p| value(p, 3, |t| t.storage = planned(3, 0)), at(3), Rule::MemoryId, 3, 3),
        (|p| value(p, 3, |t| t.storage = planned(1, 1 << 63)), at(3), Rule::AllocationTooLarge, i64::MAX, 4),
        (|p| value(p, 1, |t| t.sizes = vec![7, 1]), at(1), Rule::ConstantMissing, 2, 28),
        (|p| value(p, 1, |t| t.storage = Storage::Constant(2)), at(1), Rule::ConstantMissing, 3, 24),
        (|p| value(p, 2, |t| t.sizes = vec![4]), at(2), Rule::InitialStateMissing, 1, 16),
        (|p| value(p, 5, |t| t.name = None), at(5), Rule::ExternalNameMissing, 0, 0),
        (|p| p.values[13] = Value::IntList(vec![18]), at(13), Rule::ListIndex, 18, 18),
        (|p| p.values[16] = Value::TensorList(vec![18]), at(16), Rule::ListIndex, 18, 18),
        (|p| p.values[16] = Value::TensorList(vec![9]), at(16), Rule::ListItemKind, 2, 5),
        (|p| p.values[16] = Value::TensorList(vec![8]), at(16), Rule::ListItemKind, 1, 5),
        (|p| p.values[0] = Value::TensorList(vec![1]), at(0), Rule::ListOrder, 1, 0),
        (|p| p.values[17] = Value::OptionalTensorList(vec![Some(9)]), at(17), Rule::ListItemKind, 2, 5),
        (|p| p.operators.truncate(1), step(1), Rule::OperatorIndex, 1, 1),
        (|p| p.delegates.truncate(1), step(3), Rule::DelegateIndex, 1, 1),
        (|p| p.call("a::b", [18]), step(7), Rule::ArgumentIndex, 18, 18),
        (|p| p.push(Instruction::Move { from: 0, to: 18 }), step(7), Rule::ArgumentIndex, 18, 18),
        (|p| p.push(Instruction::Free { value: 18 }), step(7), Rule::ArgumentIndex, 18, 18),
        (|p| p.push(Instruction::JumpFalse { condition: 0, target: 9 }), step(7), Rule::JumpTarget, 9, 8),
    ];
    for (i, &(change, place, rule, found, limit)) in rows.iter().enumerate() {
        let mut program = sample();
        change(&mut program.plans[0]);
        let file = program.write();
        assert_eq!(parse(&file).err(), Some(Error::Invalid { place, rule, found, limit }), "row {i}");
    }
}

/// Fields a plan cannot be without, each left out in turn.
#[test]
fn missing_fields() {
    let rules = [
        (0, Rule::NameMissing),
        (2, Rule::ValuesMissing),
        (3, Rule::InputsMissing),
        (4, Rule::OutputsMissing),
        (5, Rule::ChainsMissing),
        (7, Rule::DelegatesMissing),
        (8, Rule::BufferSizesMissing),
    ];
    for (left_out, rule) in rules {
        let mut b = Builder::new();
        let name = b.string("f");
        let chain = b.table(&[]);
        let (none, chains, zeros) = (b.vector(&[]), b.vector(&[chain]), b.scalars(&[0i64]));
        let mut slots = [name, Slot::Absent, none, none, none, chains, none, none, zeros];
        slots[left_out] = Slot::Absent;
        let plan = b.table(&slots);
        let plans = b.vector(&[plan]);
        let root = b.table(&[Slot::Absent, plans]);
        let file = b.finish(root, *b"ET12");
        assert_eq!(parse(&file).err(), Some(Error::broken(Place::Method(0), rule)));
    }
    let mut b = Builder::new();
    let root = b.table(&[]);
    let file = b.finish(root, *b"ET12");
    assert_eq!(parse(&file).err(), Some(Error::broken(Place::File, Rule::PlansMissing)));
}

/// One value, made of the slots of its table.
fn with_value(kind: u8, slots: impl Fn(&mut Builder) -> Option<Vec<Slot>>) -> Vec<u8> {
    let mut b = Builder::new();
    let content = slots(&mut b).map_or(Slot::Absent, |slots| b.table(&slots));
    let value = b.table(&[Slot::U8(kind), content]);
    let name = b.string("f");
    let chain = b.table(&[]);
    let (none, values, chains, sizes) = (b.vector(&[]), b.vector(&[value]), b.vector(&[chain]), b.scalars(&[0i64]));
    let plan = b.table(&[name, Slot::Absent, values, none, none, chains, none, none, sizes]);
    let plans = b.vector(&[plan]);
    let root = b.table(&[Slot::Absent, plans]);
    b.finish(root, *b"ET12")
}

#[test]
fn broken_values() {
    let error = |file: Vec<u8>| match parse(&file).err() {
        Some(Error::Invalid { place: Place::Value { method: 0, value: 0 }, rule, found, .. }) => Some((rule, found)),
        None => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(error(with_value(1, |_| None)), None);
    assert_eq!(error(with_value(2, |_| None)), Some((Rule::PayloadMissing, 2)));
    assert_eq!(error(with_value(0, |_| Some(vec![]))), Some((Rule::PayloadMissing, 0)));
    // Slots of a tensor: type, storage offset, sizes, and at 8 dynamism.
    let tensor = |dtype: i8, offset: i32, dynamism: i8| {
        with_value(5, |b| {
            let sizes = b.scalars(&[1i32]);
            let order = b.scalars(&[0u8]);
            let mut slots = vec![Slot::I8(dtype), Slot::I32(offset), sizes, order];
            slots.extend([Slot::Absent; 4]);
            slots.push(Slot::I8(dynamism));
            Some(slots)
        })
    };
    assert_eq!(error(tensor(29, 0, 1)), None);
    assert_eq!(error(tensor(30, 0, 0)), Some((Rule::DtypeUnknown, 30)));
    assert_eq!(error(tensor(-1, 0, 0)), Some((Rule::DtypeUnknown, -1)));
    assert_eq!(error(tensor(6, 4, 0)), Some((Rule::StorageOffset, 4)));
    assert_eq!(error(tensor(6, 0, 2)), None);
    assert_eq!(error(tensor(6, 0, 3)), Some((Rule::DynamismUnknown, 3)));
    assert_eq!(error(with_value(5, |_| Some(vec![Slot::I8(6)]))), Some((Rule::SizesMissing, 0)));
}

#[test]
fn segments_and_references() {
    let program = |segments: &[(u64, u64)], constants: Option<u32>, delegate: Option<(i8, u32)>, named: Option<u32>| {
        let mut b = Builder::new();
        let segments = b.tables(segments, |b, &(offset, size)| b.table(&[Slot::U64(offset), Slot::U64(size)]));
        let offsets = b.scalars(&[0u64, 0]);
        let constants = constants.map_or(Slot::Absent, |segment| b.table(&[Slot::U32(segment), offsets]));
        let key = b.string("key");
        let named: Vec<_> = named.iter().map(|&segment| b.table(&[key, Slot::U32(segment)])).collect();
        let named = b.vector(&named);
        let delegates: Vec<_> = delegate
            .iter()
            .map(|&(location, index)| {
                let reference = b.table(&[Slot::I8(location), Slot::U32(index)]);
                b.table(&[key, reference])
            })
            .collect();
        let chain = b.table(&[]);
        let (none, chains, delegates) = (b.vector(&[]), b.vector(&[chain]), b.vector(&delegates));
        let sizes = b.scalars(&[0i64]);
        let plan = b.table(&[key, Slot::Absent, none, none, none, chains, none, delegates, sizes]);
        let plans = b.vector(&[plan]);
        let root = b.table(&[Slot::Absent, plans, none, none, segments, constants, Slot::Absent, named]);
        let file = b.finish(root, *b"ET12");
        parse(&file).err()
    };
    let delegate = Place::Delegate { method: 0, delegate: 0 };
    assert_eq!(program(&[(0, 0)], Some(0), Some((1, 0)), Some(0)), None);
    let expect = |place, rule, found: i64, limit: i64| Some(Error::Invalid { place, rule, found, limit });
    assert_eq!(program(&[(0, 4)], None, None, None), expect(Place::Segment(0), Rule::SegmentUnreachable, 4, 0));
    assert_eq!(program(&[], Some(0), None, None), expect(Place::File, Rule::SegmentIndex, 0, 0));
    assert_eq!(program(&[], None, None, Some(3)), expect(Place::NamedData(0), Rule::SegmentIndex, 3, 0));
    assert_eq!(program(&[], None, Some((0, 0)), None), expect(delegate, Rule::InlinePayload, 0, 0));
    assert_eq!(program(&[], None, Some((1, 2)), None), expect(delegate, Rule::SegmentIndex, 2, 0));
    assert_eq!(program(&[], None, Some((2, 0)), None), expect(delegate, Rule::LocationUnknown, 2, 1));
}

#[test]
fn tensors_know_their_size() {
    let file = with_value(5, |b| {
        let sizes = b.scalars(&[3i32, 5]);
        let order = b.scalars(&[0u8, 1]);
        Some(vec![Slot::I8(7), Slot::Absent, sizes, order])
    });
    let tensor_of = |file: &[u8]| match Program::read(file).map(|p| p.plans[0].values[0].clone()) {
        Ok(Value::Tensor(tensor)) => tensor,
        other => panic!("{other:?}"),
    };
    assert_eq!(tensor_of(&file).dtype, ScalarType::Double);
    let KernelTypes::Tensor(tensor) = parse(&file).unwrap().plan("f").unwrap().values().get(0).unwrap().val() else {
        panic!("a tensor")
    };
    assert_eq!((tensor.rank(), tensor.numel(), tensor.nbytes()), (2, 15, 120));
}

#[test]
fn operator_names() {
    let file = sample().write();
    let operators = parse(&file).unwrap().plan("forward").unwrap().operators();
    let (add, nothing) = (operators.get(0).unwrap(), operators.get(1).unwrap());
    assert_eq!((add.to_string().as_str(), nothing.to_string().as_str()), ("aten::add.out", "prim::nothing"));
    let (add, nothing) = (add.full_name(), nothing.full_name());
    assert!(add == *"aten::add.out" && nothing == *"prim::nothing");
    for other in ["aten::add", "aten::add.", "aten::add.ou", "aten::add.outx", "aten::addout", "", "aten::ad"] {
        assert!(add != *other, "{other}");
    }
    assert!(nothing != *"prim::nothing." && nothing != *"prim::nothing.out");
}

/// Reads everything the file offers.
fn walk(file: &File<'_>) -> usize {
    let program = file.program();
    let mut seen = std::format!("{:?}", file.header()).len();
    for index in 0..program.segments().len() as u32 + 2 {
        seen += [file.segment(index), file.constant(index, 8), file.mutable_initial(index, 8)].iter().flatten().count();
        seen += file.inline_constant(index).map_or(0, <[u8]>::len);
    }
    for plan in program.execution_plan().iter() {
        seen += plan.values().iter().map(|value| std::format!("{value:?}{:?}", value.val()).len()).sum::<usize>();
        for value in plan.values().iter() {
            if let KernelTypes::Tensor(tensor) = value.val() {
                seen += usize::from(tensor.is_external()) + tensor.sizes().len() + tensor.dim_order().len();
                seen +=
                    (tensor.nbytes() % 7) as usize + tensor.allocation_info().map_or(0, |a| a.offset() as usize % 7);
            }
        }
        seen += plan.delegates().iter().filter_map(|delegate| file.delegate_payload(delegate)).count();
        seen += plan.operators().iter().map(|operator| operator.to_string().len()).sum::<usize>();
    }
    seen
}

#[test]
fn no_bytes_can_harm() {
    let sample = sample();
    let inline = Program { inline_constants: true, ..sample.clone() };
    for file in [sample.write(), inline.write()] {
        let (mut good, mut bad) = (0, 0);
        mutations(&file, 4000, |bytes| {
            let header = Header { program_size: bytes.len() as u64, segment_base: 0, segment_data_size: 0 };
            walk(&File::reopen(bytes, header));
            match parse(bytes) {
                Ok(view) => {
                    good += 1;
                    walk(&view);
                    // What reads can be written and read again.
                    let model = Program::read(bytes).unwrap();
                    let rewritten = model.write();
                    let again = Program::read(&rewritten).unwrap();
                    assert_eq!(std::format!("{again:?}"), std::format!("{model:?}"));
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
