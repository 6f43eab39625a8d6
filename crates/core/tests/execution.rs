//! The core by itself, as a machine without a heap would use it: blocks in arrays, kernels in a table.
use sconce_core::{
    Arena, Block, Bytes, Call, Code, CompileSpecs, Delegate, DelegateState, Environment, Error, Execution, Fault,
    Growth, InitContext, KernelId, NoData, Op, Owned, Program, Quiet, Regions, Registry, Scalar, ScalarType, Serial,
    Shape, Site, Step, Tables, Tensor, Value, writes,
};
use sconce_format::pte::model::{self, Dynamism, Instruction, Memory, Plan, Storage};

fn none(_: &sconce_core::Args<'_>) -> usize {
    0
}

/// `out = a + b`, bytewise.
fn add(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let out = call.out(2, a.sizes())?;
    out.data.iter_mut().zip(a.data.iter().zip(b.data)).for_each(|(out, (a, b))| *out = a.wrapping_add(*b));
    Ok(())
}

/// Every output of the list gets one element of the input, through scratch.
fn split(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let scratch = call.scratch(x.data.len())?;
    scratch.copy_from_slice(x.data);
    for (position, byte) in scratch.iter().enumerate() {
        call.out_in(1, position, &[1])?.data[0] = *byte;
    }
    Ok(())
}

fn view(call: &mut Call<'_>) -> Result<(), Fault> {
    let sizes = call.tensor_type(1)?.1;
    call.alias(1, 0, sizes.sizes())
}

fn increment(call: &mut Call<'_>) -> Result<(), Fault> {
    let count = call.int(0)?;
    call.set(0, Scalar::Int(count + 1))?;
    call.in_place(1)?.data.iter_mut().for_each(|byte| *byte += 1);
    Ok(())
}

/// Asks for what a kernel must not have.
fn greedy(call: &mut Call<'_>) -> Result<(), Fault> {
    assert!(call.out(0, &[4]).is_err(), "an input cannot be written");
    call.out(1, &[4])?;
    assert!(call.out(1, &[4]).is_err(), "an output is handed out once");
    assert!(call.scratch(1 << 40).is_err());
    assert!(call.tensor(9).is_err() && call.int(0).is_err() && call.str(0).is_err());
    Ok(())
}

static OPS: &[Op] = &[
    Op { name: "test::add", arity: 4, writes: writes(&[2]), scratch: none, run: add },
    Op {
        name: "test::split",
        arity: 3,
        writes: writes(&[1]),
        scratch: |args| args.capacity(0).unwrap_or(0),
        run: split,
    },
    Op { name: "test::view", arity: 2, writes: 0, scratch: none, run: view },
    Op { name: "test::increment", arity: 2, writes: writes(&[1]), scratch: none, run: increment },
    Op { name: "test::greedy", arity: 3, writes: writes(&[1]), scratch: none, run: greedy },
];

fn bytes(len: i32, offset: u64) -> model::Tensor {
    model::Tensor::new(ScalarType::Byte, [len], Storage::Planned(Memory { id: 1, offset }))
}

fn file(mut plan: Plan<'_>, inputs: &[u32], outputs: &[u32]) -> Vec<u8> {
    (plan.inputs, plan.outputs) = (inputs.to_vec(), outputs.to_vec());
    plan.buffer_sizes = vec![0, 64];
    model::Program { plans: vec![plan], ..Default::default() }.write()
}

/// Everything a method needs, in arrays.
struct Blocks {
    state: [u64; 256],
    arena: [u8; 64],
    scratch: [u64; 64],
    kernels: [KernelId; 5],
}

impl Blocks {
    fn new(file: &[u8], registry: &dyn Registry) -> Result<Self, Error> {
        let loader = Bytes(file);
        let program = Program::load(&loader, &NoData)?;
        let method = program.method("forward")?;
        let mut blocks = Self { state: [0; 256], arena: [0; 64], scratch: [0; 64], kernels: [KernelId::NONE; 5] };
        method.resolve(registry, &mut blocks.kernels)?;
        assert!(method.state_words() <= 256 && method.arena_bytes(1).unwrap() <= 64);
        method.init_state(&mut blocks.state)?;
        let words =
            method.scratch_words(&mut blocks.state, registry, &blocks.kernels, &[], Regions::default(), &Serial);
        assert!(words <= 64, "{words}");
        Ok(blocks)
    }

    /// Runs once over the given bytes and shows the execution to `see`.
    fn run<R>(
        &mut self,
        file: &[u8],
        registry: &dyn Registry,
        input: &[u8],
        see: impl FnOnce(&mut Execution<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let loader = Bytes(file);
        let program = Program::load(&loader, &NoData)?;
        let environment = Environment { registry, parallel: &Serial, platform: &Quiet, instruction_limit: 100 };
        let shape = Shape::contiguous(&[input.len()]).unwrap();
        let inputs = [Value::Tensor(Tensor { dtype: ScalarType::Byte, shape, data: input })];
        let mut arenas = [Arena::new(&mut []), Arena::new(&mut self.arena)];
        let method = program.method("forward")?;
        let (state, scratch) = (&mut self.state, &mut self.scratch);
        let mut execution =
            Execution::new(method, environment, &self.kernels, &[], &mut [], state, &mut arenas, scratch);
        execution.set_inputs(&inputs)?;
        see(&mut execution)
    }
}

fn output(execution: &Execution<'_>, index: usize) -> Vec<u8> {
    match execution.output(index).unwrap() {
        Value::Tensor(tensor) => tensor.data.to_vec(),
        other => panic!("{other:?} is not a tensor"),
    }
}

/// Comparing each input with each output would keep whoever loads a small file busy for minutes.
#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of pairs take long to interpret, and hold nothing new")]
fn of_very_many_inputs_the_last_have_room_for_a_copy() {
    let words = |count: u64| {
        let mut plan = Plan::new("forward");
        let x = plan.value(bytes(1, 0));
        let mut list = |start: u64| {
            let parts = (start..start + count).map(|at| plan.value(bytes(1, at))).collect();
            plan.value(model::Value::TensorList(parts))
        };
        let (written, read) = (list(1), list(1 + count));
        plan.call("test::split", [x, written, read]);
        let (file, registry) = (file(plan, &[x], &[]), Tables { ops: &[OPS], backends: &[] });
        let loader = Bytes(&file);
        let method = Program::load(&loader, &NoData).unwrap().method("forward").unwrap();
        let (mut kernels, mut state) = ([KernelId::NONE; 1], vec![0; method.state_words()]);
        method.resolve(&registry, &mut kernels).unwrap();
        method.init_state(&mut state).unwrap();
        method.scratch_words(&mut state, &registry, &kernels, &[], Regions::default(), &Serial)
    };
    let claims = words(256) - words(128);
    assert_eq!(words(384) - words(256), claims);
    assert!(words(2048) - words(1024) > 8 * claims);
}

/// `out = a and a again`, through scratch.
fn twice(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let scratch = call.scratch(x.data.len())?;
    scratch.copy_from_slice(x.data);
    let out = call.out(1, &[2 * x.data.len()])?;
    out.data.chunks_exact_mut(scratch.len()).for_each(|half| half.copy_from_slice(scratch));
    Ok(())
}

/// A run over blocks that are exactly as large as it says, one after the other, until it ends.
#[test]
fn what_nothing_bounds_is_given_more_memory() {
    let mut plan = Plan::new("forward");
    let unbound = |storage| {
        let tensor = model::Tensor::new(ScalarType::Byte, [0], storage);
        model::Tensor { dynamism: Dynamism::Unbound, ..tensor }
    };
    let x = plan.value(unbound(Storage::Unplanned));
    let once = plan.value(unbound(Storage::Planned(Memory { id: 1, offset: 16 })));
    let result = plan.value(unbound(Storage::Unplanned));
    plan.call("test::twice", [x, once, once]);
    plan.call("test::twice", [once, result, result]);
    let file = file(plan, &[x], &[result]);
    let ops = &[Op { name: "test::twice", arity: 3, writes: writes(&[1]), scratch: none, run: twice }];
    let (tables, registry) = ([&ops[..]], |ops| Tables { ops, backends: &[] });
    let registry = registry(&tables);
    let loader = Bytes(&file);
    let program = Program::load(&loader, &NoData).unwrap();
    let method = program.method("forward").unwrap();
    // The last tensor has an arena of its own, which the file does not count.
    assert_eq!((method.arenas(), method.arena_bytes(1), method.arena_bytes(2)), (3, Some(16), Some(0)));
    let mut kernels = [KernelId::NONE];
    method.resolve(&registry, &mut kernels).unwrap();
    let mut state = vec![0; method.state_words()];
    method.init_state(&mut state).unwrap();
    let (mut memory, mut scratch) = ([vec![0u8; 0], vec![0; 16], vec![0; 0]], vec![0u64; 4]);
    let data: Vec<u8> = (0..100).collect();
    let shape = Shape::contiguous(&[data.len()]).unwrap();
    let inputs = [Value::Tensor(Tensor { dtype: ScalarType::Byte, shape, data: &data })];
    let mut asked = Vec::new();
    let result = loop {
        let environment =
            Environment { registry: &registry, parallel: &Serial, platform: &Quiet, instruction_limit: 100 };
        let mut arenas = memory.each_mut().map(|memory| Arena::new(memory));
        let mut execution =
            Execution::new(method, environment, &kernels, &[], &mut [], &mut state, &mut arenas, &mut scratch);
        if asked.is_empty() {
            execution.set_inputs(&inputs).unwrap()
        } else {
            execution.resume(&inputs)
        }
        match execution.execute() {
            Ok(()) => {
                let Value::Tensor(result) = execution.output(0).unwrap() else { panic!("a tensor is given") };
                break result.data.to_vec();
            }
            Err(Error::Growth(growth)) => asked.push(growth),
            Err(other) => panic!("{other}"),
        }
        let &Growth { block, bytes } = asked.last().unwrap();
        match block {
            Block::Arena(id) => memory[usize::from(id)].resize(bytes, 0),
            Block::Scratch => scratch.resize(bytes.div_ceil(8), 0),
        }
    };
    assert_eq!(result, data.repeat(4));
    let arenas: Vec<_> = asked.iter().filter(|growth| growth.block != Block::Scratch).copied().collect();
    let wanted = [Growth { block: Block::Arena(1), bytes: 216 }, Growth { block: Block::Arena(2), bytes: 400 }];
    assert_eq!(arenas, wanted);
    let text = Error::Growth(wanted[1]).to_string();
    assert!(text.contains("arena 2 must grow to 400 bytes") && text.contains("bound"), "{text}");
}

#[test]
fn overlaps_lists_views_and_updates_in_place() {
    let mut plan = Plan::new("forward");
    let x = plan.value(bytes(4, 0));
    let sum = plan.value(bytes(4, 2)); // shares two bytes with x
    let parts: Vec<u32> = (0..4).map(|i| plan.value(bytes(1, 16 + i))).collect();
    let list = plan.value(model::Value::TensorList(parts.clone()));
    let mut dynamic = bytes(4, 32);
    dynamic.dynamism = Dynamism::Bound;
    let alias = plan.value(dynamic);
    let count = plan.value(model::Value::Int(41));
    plan.call("test::add", [x, x, sum, sum]);
    plan.call("test::split", [sum, list, list]);
    plan.call("test::view", [sum, alias]);
    plan.call("test::increment", [count, parts[3]]);
    let file = file(plan, &[x], &[sum, alias, parts[3], count]);
    let registry = Tables { ops: &[OPS], backends: &[] };
    let mut blocks = Blocks::new(&file, &registry).unwrap();
    for round in 0..2 {
        let seen = blocks.run(&file, &registry, &[1, 2, 3, 4], |execution| {
            execution.execute()?;
            assert_eq!(output(execution, 0), [2, 4, 6, 8]);
            assert_eq!(output(execution, 1), [2, 4, 6, 8]);
            assert_eq!(output(execution, 2), [9]);
            execution.output(3).map(|value| matches!(value, Value::Int(n) if n == 42 + round))
        });
        assert_eq!(seen, Ok(true));
    }
}

#[test]
fn kernels_get_only_what_is_theirs() {
    let mut plan = Plan::new("forward");
    let (x, y) = (plan.value(bytes(4, 0)), plan.value(bytes(4, 4)));
    plan.call("test::greedy", [x, y, y]);
    let file = file(plan, &[x], &[y]);
    let registry = Tables { ops: &[OPS], backends: &[] };
    let mut blocks = Blocks::new(&file, &registry).unwrap();
    assert_eq!(blocks.run(&file, &registry, &[0; 4], |execution| execution.execute()), Ok(()));
}

#[test]
fn steps_go_on_where_they_stopped() {
    let mut plan = Plan::new("forward");
    let (x, y) = (plan.value(bytes(4, 0)), plan.value(bytes(4, 4)));
    plan.call("test::add", [x, x, y, y]);
    plan.call("test::add", [x, y, y, y]);
    let file = file(plan, &[x], &[y]);
    let registry = Tables { ops: &[OPS], backends: &[] };
    let mut blocks = Blocks::new(&file, &registry).unwrap();
    let steps = blocks.run(&file, &registry, &[1, 1, 2, 2], |execution| {
        assert_eq!(execution.step()?, Step::Ran);
        assert!(execution.execute().is_err(), "in the middle of a run");
        assert_eq!((execution.step()?, execution.step()?), (Step::Ran, Step::End));
        Ok(output(execution, 0))
    });
    assert_eq!(steps.unwrap(), [3, 3, 6, 6]);
}

#[test]
fn wrong_arity_missing_kernels_and_small_blocks_are_errors() {
    let mut plan = Plan::new("forward");
    let (x, y) = (plan.value(bytes(4, 0)), plan.value(bytes(4, 4)));
    plan.call("test::add", [x, x, y]);
    let bad = file(plan.clone(), &[x], &[y]);
    let registry = Tables { ops: &[OPS], backends: &[] };
    let error = Blocks::new(&bad, &registry)
        .unwrap()
        .run(&bad, &registry, &[0; 4], |execution| execution.execute())
        .unwrap_err();
    let site = Site::Instruction { chain: 0, index: 0 };
    assert!(matches!(error, Error::At { site: s, fault } if s == site && fault.code == Code::InvalidProgram));
    assert_eq!(Blocks::new(&bad, &Tables::default()).err(), Some(Error::MissingOperators { count: 1 }));
    let loader = Bytes(&bad);
    let method = Program::load(&loader, &NoData).unwrap().method("forward").unwrap();
    assert_eq!(method.init_state(&mut [0; 4]).unwrap_err().code(), Code::MemoryAllocationFailed);
    let program = Program::load(&loader, &NoData).unwrap();
    assert_eq!(program.method("backward").err(), Some(Error::MethodNotFound));
}

/// A backend that negates bytes and counts its runs in its state.
struct Negate;
struct Negated;

impl sconce_core::Backend for Negate {
    fn name(&self) -> &str {
        "Negate"
    }

    fn init(&self, _: &InitContext<'_>, payload: &[u8], _: CompileSpecs<'_>) -> Result<Owned<dyn Delegate>, Fault> {
        assert_eq!(payload, b"payload");
        Ok(Owned::from_box(Box::new(Negated)))
    }
}

impl Delegate for Negated {
    fn outputs(&self) -> usize {
        1
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        Ok(Owned::from_box(Box::new(0u8)))
    }

    fn execute(&self, state: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
        let runs = state.downcast::<u8>().unwrap();
        *runs += 1;
        let x = call.tensor(0)?;
        let out = call.out(1, x.sizes())?;
        out.data.iter_mut().zip(x.data).for_each(|(out, x)| *out = x.wrapping_neg().wrapping_add(*runs));
        Ok(())
    }
}

#[test]
fn delegates_run_with_their_state() {
    let mut plan = Plan::new("forward");
    let (x, y) = (plan.value(bytes(2, 0)), plan.value(bytes(2, 4)));
    let payload = b"payload"[..].into();
    plan.delegates.push(model::Delegate { backend: "Negate".into(), payload, inline: false, specs: vec![] });
    plan.push(Instruction::Delegate { delegate: 0, args: vec![x, y] });
    let file = file(plan, &[x], &[y]);
    let registry = Tables { ops: &[], backends: &[&Negate] };
    let loader = Bytes(&file);
    let program = Program::load(&loader, &NoData).unwrap();
    let method = program.method("forward").unwrap();
    assert_eq!(
        method.init_delegate(0, &Tables::default(), &[], &Serial, &|_| ()).err(),
        Some(Error::BackendNotFound { delegate: 0 })
    );
    let delegates = [method.init_delegate(0, &registry, &[], &Serial, &|_| ()).unwrap()];
    let mut states = [delegates[0].new_state().unwrap()];
    let (mut state, mut arena, mut scratch) = ([0; 64], [0; 64], [0; 16]);
    method.init_state(&mut state).unwrap();
    for run in 1..=2u8 {
        let shape = Shape::contiguous(&[2]).unwrap();
        let inputs = [Value::Tensor(Tensor { dtype: ScalarType::Byte, shape, data: &[1, 2] })];
        let environment =
            Environment { registry: &registry, parallel: &Serial, platform: &Quiet, instruction_limit: 10 };
        let mut arenas = [Arena::new(&mut []), Arena::new(&mut arena)];
        let mut execution =
            Execution::new(method, environment, &[], &delegates, &mut states, &mut state, &mut arenas, &mut scratch);
        execution.set_inputs(&inputs).unwrap();
        execution.execute().unwrap();
        assert_eq!(output(&execution, 0), [255u8.wrapping_add(run), 254u8.wrapping_add(run)]);
    }
}
