//! Commands over bytes, as a machine without a heap runs them: the delegate is in a `static`, all memory is in arrays.
use sconce_core::{
    Arena, Argument, Backend, Bytes, Code, Commands, CompileSpecs, Delegate, Environment, Error, Execution, Fault,
    InitContext, MOST_ARGUMENTS, Needs, NoData, Operands, Owned, Program, Quiet, Runner, ScalarType, Serial, Shape,
    Tables, Tensor, Value,
};
use sconce_format::pte::model::{self, Instruction, Memory, Plan, Storage};
use std::sync::Mutex;
use std::sync::atomic::AtomicPtr;

/// A payload `[inputs, n]` is the sum of that many inputs of `n` bytes, made in scratch.
#[derive(Clone, Copy)]
struct Sum;

impl Runner for Sum {
    fn backend(&self) -> &str {
        "Sum"
    }

    fn read(&self, payload: &[u8]) -> Result<Needs, Fault> {
        let &[inputs, n] = payload else {
            return Err(
                Fault::new(Code::DelegateInvalidCompatibility, "the payload has {} bytes").with([payload.len()])
            );
        };
        Ok(Needs { inputs: inputs.into(), outputs: 1, scratch: n.into() })
    }

    fn argument(&self, payload: &[u8], _: usize) -> Result<Argument, Fault> {
        let shape = Shape::contiguous(&[usize::from(payload[1])]).expect("one dimension");
        Ok(Argument { dtype: ScalarType::Byte, shape })
    }

    fn run(&self, _: &[u8], memory: Operands<'_, '_>) -> Result<(), Fault> {
        assert!(memory.scratch.as_ptr().addr().is_multiple_of(64));
        memory.scratch.fill(0);
        for input in memory.inputs {
            memory.scratch.iter_mut().zip(*input).for_each(|(sum, byte)| *sum += byte);
        }
        memory.outputs[0].copy_from_slice(memory.scratch);
        Ok(())
    }
}

/// Delegates that live for ever. (The test keeps boxes where a machine has a `static` for each.)
static MADE: Mutex<Vec<AtomicPtr<Commands<Sum>>>> = Mutex::new(Vec::new());

/// Makes delegates in such places.
struct InStatics;

impl Backend for InStatics {
    fn name(&self) -> &str {
        "Sum"
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        payload: &[u8],
        _: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        let made = Box::leak(Box::new(Commands::new(Sum, context, payload)?));
        MADE.lock().unwrap().push(AtomicPtr::new(made));
        Ok(Owned::from_static(made))
    }
}

/// What a program gives whose delegate has this payload and these arguments: type and size, the last one written. The inputs
/// hold 1, 2, 3 ... each.
fn run(payload: &[u8], inline: bool, arguments: &[(ScalarType, i32)]) -> Result<Vec<u8>, Error> {
    let mut plan = Plan::new("forward");
    let tensor = |(place, &(dtype, size)): (usize, &(ScalarType, i32))| {
        let storage = Storage::Planned(Memory { id: 1, offset: place as u64 * 16 });
        plan.value(model::Tensor::new(dtype, [size], storage))
    };
    let args: Vec<u32> = arguments.iter().enumerate().map(tensor).collect();
    let payload = payload.to_vec().into();
    plan.delegates.push(model::Delegate { backend: "Sum".into(), payload, inline, specs: vec![] });
    plan.push(Instruction::Delegate { delegate: 0, args: args.clone() });
    let (output, inputs) = args.split_last().unwrap();
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (inputs.to_vec(), vec![*output], vec![0, 64]);
    let file = model::Program { plans: vec![plan], ..model::Program::default() }.write();
    let (loader, registry) = (Bytes(&file), Tables { ops: &[], backends: &[&InStatics] });
    let program = Program::load(&loader, &NoData)?;
    let method = program.method("forward")?;
    let delegates = [method.init_delegate(0, &registry, &[], &Serial, &|_| ())?];
    let mut states = [delegates[0].new_state().unwrap()];
    let (mut state, mut arena, mut scratch) = ([0; 128], [0; 64], [0; 64]);
    method.init_state(&mut state)?;
    let environment = Environment { registry: &registry, parallel: &Serial, platform: &Quiet, instruction_limit: 10 };
    let mut arenas = [Arena::new(&mut []), Arena::new(&mut arena)];
    let mut execution =
        Execution::new(method, environment, &[], &delegates, &mut states, &mut state, &mut arenas, &mut scratch);
    let numbers: Vec<u8> = (1..=64).collect();
    let given = |&(dtype, size): &(ScalarType, i32)| {
        let shape = Shape::contiguous(&[size as usize]).unwrap();
        Value::Tensor(Tensor { dtype, shape, data: &numbers[..size as usize * dtype.size()] })
    };
    let inputs: Vec<Value<'_>> = arguments[..inputs.len()].iter().map(given).collect();
    execution.set_inputs(&inputs)?;
    execution.execute()?;
    match execution.output(0)? {
        Value::Tensor(tensor) => Ok(tensor.data.to_vec()),
        _ => panic!("a tensor"),
    }
}

const BYTES: (ScalarType, i32) = (ScalarType::Byte, 3);

#[test]
fn commands_run_over_the_bytes_of_a_call() {
    for inline in [false, true] {
        assert_eq!(run(&[2, 3], inline, &[BYTES; 3]).unwrap(), [2, 4, 6]);
        assert_eq!(run(&[0, 3], inline, &[BYTES]).unwrap(), [0, 0, 0]);
    }
}

#[test]
fn calls_are_checked_before_they_run() {
    let told =
        |payload: &[u8], arguments: &[(ScalarType, i32)]| run(payload, false, arguments).unwrap_err().to_string();
    let (chars, two) = ((ScalarType::Char, 3), (ScalarType::Byte, 2));
    for (arguments, expected) in [
        (&[BYTES, BYTES][..], "the delegate takes 3 arguments, the call passes 2"),
        (&[BYTES, chars, BYTES], "argument 1: the delegate has another element type here"),
        (&[BYTES, BYTES, chars], "argument 2: the delegate has another element type here"),
        (&[two, BYTES, BYTES], "argument 0: the delegate has 1 dimensions and 3 elements here, in other sizes"),
        (&[BYTES, BYTES, two], "argument 2: "),
    ] {
        let text = told(&[2, 3], arguments);
        assert!(text.contains(expected), "{text}");
    }
    assert!(told(&[2, 3, 4], &[BYTES; 3]).contains("the payload has 3 bytes"));
    let many = told(&[MOST_ARGUMENTS as u8 + 1, 3], &[BYTES; 3]);
    assert!(many.contains("the payload has 33 inputs and 1 outputs, more than 32"), "{many}");
}
