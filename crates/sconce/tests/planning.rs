//! Runs of kernel calls as one, and only where nobody can tell.
use sconce::core::{Event, Platform};
use sconce::format::pte::model::{Dynamism, Memory, Plan, Program, Storage, Tensor as TensorModel};
use sconce::{Module, Options, ScalarType, Tensor};
use std::sync::Mutex;

/// Remembers the instructions that really run.
#[derive(Default)]
struct Trace(Mutex<Vec<u32>>);

impl Platform for Trace {
    fn traces(&self) -> bool {
        true
    }

    fn trace(&self, event: Event) {
        self.0.lock().unwrap().push(event.instruction);
    }
}

/// Four floats at a place of the arena.
fn four(offset: u64) -> TensorModel {
    TensorModel::new(ScalarType::Float, [4], Storage::Planned(Memory { id: 1, offset }))
}

fn write(mut plan: Plan, inputs: Vec<u32>, outputs: Vec<u32>) -> Vec<u8> {
    let mut program = Program::default();
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (inputs, outputs, vec![0, 1024]);
    program.plans.push(plan);
    program.write()
}

const INPUT: [f32; 4] = [-2.0, -0.5, 0.5, 2.0];

/// The outputs of a program, twice, and the instructions of one run.
fn run(bytes: &Vec<u8>, plan: bool) -> (Vec<Vec<f32>>, Vec<u32>) {
    let module = Options::new().plan(plan).load(bytes).unwrap();
    let mut session = module.session().unwrap();
    let (x, trace) = (Tensor::from_slice(&INPUT, &[4]).unwrap(), Trace::default());
    session.run_traced(&[(&x).into()], &trace).unwrap();
    let outputs = session.run(&[(&x).into()]).unwrap();
    let floats = outputs.iter().map(|value| value.tensor().unwrap().as_slice::<f32>().unwrap().to_vec()).collect();
    (floats, trace.0.into_inner().unwrap())
}

#[test]
fn neighbours_run_as_one() {
    let mut plan = Plan::new("forward");
    let (x, a, b) = (plan.value(four(0)), plan.value(four(64)), plan.value(four(128)));
    plan.call("aten::relu.out", [x, a, a]);
    plan.call("aten::neg.out", [a, b, b]);
    let bytes = write(plan, vec![x], vec![b]);
    let expected = vec![vec![-0.0, -0.0, -0.5, -2.0]];
    assert_eq!(run(&bytes, true), (expected.clone(), vec![0]));
    assert_eq!(run(&bytes, false), (expected, vec![0, 1]));
    let planned = Module::load(&bytes).unwrap().planned_calls("forward").unwrap();
    assert_eq!((planned.len(), planned[0].calls, planned[0].instructions.clone()), (1, 2, 0..2));
}

#[test]
fn a_value_that_is_read_later_is_written() {
    let mut plan = Plan::new("forward");
    let (x, a, b) = (plan.value(four(0)), plan.value(four(64)), plan.value(four(128)));
    plan.call("aten::relu.out", [x, a, a]);
    plan.call("aten::neg.out", [a, b, b]);
    // No row of the engine: the sign of what the first call made.
    let sign = plan.value(four(192));
    plan.call("aten::sign.out", [a, sign, sign]);
    let bytes = write(plan, vec![x], vec![b, sign]);
    let (outputs, ran) = run(&bytes, true);
    assert_eq!(outputs, [[-0.0, -0.0, -0.5, -2.0], [0.0, 0.0, 1.0, 1.0]]);
    assert_eq!(ran, [0, 2]);
}

#[test]
fn values_are_what_was_last_written_at_their_address() {
    let mut plan = Plan::new("forward");
    let (x, a, view) = (plan.value(four(0)), plan.value(four(64)), plan.value(four(64)));
    let (b, reused, c) = (plan.value(four(128)), plan.value(four(64)), plan.value(four(192)));
    plan.call("aten::relu.out", [x, a, a]);
    plan.call("aten::neg.out", [view, b, b]);
    // The memory of the first result serves again.
    plan.call("aten::abs.out", [x, reused, reused]);
    plan.call("aten::neg.out", [a, c, c]);
    let bytes = write(plan, vec![x], vec![b, c]);
    let expected = vec![vec![-0.0, -0.0, -0.5, -2.0], vec![-2.0, -0.5, -0.5, -2.0]];
    assert_eq!(run(&bytes, true), (expected.clone(), vec![0]));
    assert_eq!(run(&bytes, false).0, expected);
}

#[test]
fn who_reads_across_an_edge_gets_what_lies_there() {
    let mut plan = Plan::new("forward");
    let (x, a) = (plan.value(four(0)), plan.value(four(64)));
    // Half of the first result, half of the second.
    let (b, across, c) = (plan.value(four(80)), plan.value(four(72)), plan.value(four(256)));
    plan.call("aten::neg.out", [x, a, a]);
    plan.call("aten::abs.out", [x, b, b]);
    plan.call("aten::relu.out", [across, c, c]);
    let bytes = write(plan, vec![x], vec![c]);
    let expected = vec![vec![0.0, 0.0, 2.0, 0.5]];
    assert_eq!(run(&bytes, false).0, expected);
    assert_eq!(run(&bytes, true).0, expected);
}

/// A run that cannot be planned whole is planned as far as it can be.
#[test]
fn the_longest_part_that_can_be_planned_is() {
    let mut plan = Plan::new("forward");
    let (x, p, q, r) = (plan.value(four(0)), plan.value(four(128)), plan.value(four(192)), plan.value(four(256)));
    let (a, b, across, c) = (plan.value(four(64)), plan.value(four(80)), plan.value(four(72)), plan.value(four(320)));
    plan.call("aten::relu.out", [x, p, p]);
    plan.call("aten::neg.out", [p, q, q]);
    plan.call("aten::abs.out", [q, r, r]);
    // What follows reads half of one result and half of the other.
    plan.call("aten::neg.out", [x, a, a]);
    plan.call("aten::abs.out", [x, b, b]);
    plan.call("aten::sign.out", [across, c, c]);
    let bytes = write(plan, vec![x], vec![r, c]);
    let expected = vec![vec![0.0, 0.0, 0.5, 2.0], vec![-1.0, -1.0, 1.0, 1.0]];
    assert_eq!(run(&bytes, true), (expected.clone(), vec![0, 3, 4, 5]));
    assert_eq!(run(&bytes, false).0, expected);
    let module = Module::load(&bytes).unwrap();
    let reason = module.unplanned_reason("forward").unwrap();
    let said = "aten::sign.out, instruction 5, is an operator that plans have no word for";
    assert_eq!((module.planned_calls("forward").unwrap()[0].calls, reason.as_deref()), (3, Some(said)));
}

/// Tensors whose sizes change are not planned, and that is said.
#[test]
fn sizes_that_change_are_named() {
    let mut plan = Plan::new("forward");
    let dynamic = |offset| TensorModel { dynamism: Dynamism::Bound, ..four(offset) };
    let (x, a, b) = (plan.value(dynamic(0)), plan.value(dynamic(64)), plan.value(dynamic(128)));
    plan.call("aten::relu.out", [x, a, a]);
    plan.call("aten::neg.out", [a, b, b]);
    let module = Module::load(&write(plan, vec![x], vec![b])).unwrap();
    let reason = module.unplanned_reason("forward").unwrap();
    assert!(module.planned_calls("forward").unwrap().is_empty());
    assert_eq!(reason.as_deref(), Some("aten::relu.out, instruction 0, has tensors whose sizes change"));
}

#[test]
fn an_own_kernel_is_not_planned_away() {
    use sconce::core::{Call, Code, Fault, Kernel};

    /// Answers 7, whatever the name says.
    struct Seven;

    impl Kernel for Seven {
        fn arity(&self) -> usize {
            3
        }

        fn writes(&self) -> u32 {
            1 << 1
        }

        fn run(&self, call: &mut Call<'_>) -> Result<(), Fault> {
            let x = call.tensor(0)?;
            let out = call.out(1, x.sizes())?;
            let floats = sconce::view::view_mut::<f32>(out.data);
            floats.ok_or(Fault::new(Code::InvalidArgument, "floats are aligned"))?.fill(7.0);
            Ok(())
        }
    }

    let mut plan = Plan::new("forward");
    let (x, a, b) = (plan.value(four(0)), plan.value(four(64)), plan.value(four(128)));
    plan.call("aten::relu.out", [x, a, a]);
    plan.call("aten::neg.out", [a, b, b]);
    let bytes = write(plan, vec![x], vec![b]);
    let mut registry = sconce::Registry::with_defaults();
    registry.add_kernel("aten::relu.out", Seven);
    let module = Options::new().registry(registry).load(&bytes).unwrap();
    let x = Tensor::from_slice(&INPUT, &[4]).unwrap();
    let outputs = module.forward(&[(&x).into()]).unwrap();
    assert_eq!(outputs[0].tensor().unwrap().as_slice::<f32>().unwrap(), [-7.0; 4]);
}

/// Two delegates with an enlarged image between them are planned as one run of four calls; by themselves they are not made.
#[test]
fn delegates_that_join_a_plan_are_not_made() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/xnnpack/xnnpack_enlarged.pte");
    let planned = Module::load(path).unwrap();
    let calls: Vec<usize> = planned.planned_calls("forward").unwrap().iter().map(|run| run.calls).collect();
    assert_eq!((calls, planned.delegate_plans("forward").unwrap()), (vec![4], vec![String::new(); 2]));
    let alone = Options::new().plan(false).load(path).unwrap();
    assert!(alone.delegate_plans("forward").unwrap().iter().all(|plan| plan.contains("steps")));
}
