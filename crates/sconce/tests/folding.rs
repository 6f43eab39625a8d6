//! Operators over constants run once, and only where nothing else looks at their memory.
use sconce::core::{Event, Platform};
use sconce::format::pte::model::{Memory, Plan, Program, Storage, Tensor as TensorModel, Value as ValueModel};
use sconce::{Options, ScalarType, Session, Tensor};
use std::sync::Mutex;

/// Counts the instructions that really run.
#[derive(Default)]
struct Count(Mutex<Vec<u32>>);

impl Platform for Count {
    fn traces(&self) -> bool {
        true
    }

    fn trace(&self, event: Event) {
        self.0.lock().unwrap().push(event.instruction);
    }
}

fn planned(sizes: &[i32], offset: u64) -> TensorModel {
    TensorModel::new(ScalarType::Float, sizes, Storage::Planned(Memory { id: 1, offset }))
}

/// `x + w.T`, where the sum reads the transpose or, with `viewed`, another value at its address.
fn program(viewed: bool) -> Vec<u8> {
    let mut program = Program::default();
    let weights: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let constant = program.constant(weights);
    let mut plan = Plan::new("forward");
    let (zero, one) = (plan.value(ValueModel::Int(0)), plan.value(ValueModel::Int(1)));
    let dims = plan.value(ValueModel::IntList(vec![one, zero]));
    let x = plan.value(planned(&[3, 2], 0));
    let w = plan.value(TensorModel::new(ScalarType::Float, [2, 3], constant));
    let transposed = plan.value(planned(&[3, 2], 64));
    let view = plan.value(planned(&[3, 2], if viewed { 64 } else { 192 }));
    let sum = plan.value(planned(&[3, 2], 128));
    plan.call("aten::permute_copy.out", [w, dims, transposed, transposed]);
    plan.call("aten::add.out", [x, if viewed { view } else { transposed }, one, sum, sum]);
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![sum], vec![0, 256]);
    program.plans.push(plan);
    program.write()
}

/// The sum, and which instructions ran for it.
fn run(session: &mut Session) -> (Vec<f32>, Vec<u32>) {
    let x = Tensor::from_slice(&[10.0f32; 6], &[3, 2]).unwrap();
    let count = Count::default();
    session.run_traced(&[(&x).into()], &count).unwrap();
    let outputs = session.run(&[(&x).into()]).unwrap();
    (outputs[0].tensor().unwrap().as_slice::<f32>().unwrap().to_vec(), count.0.into_inner().unwrap())
}

const SUM: [f32; 6] = [11.0, 14.0, 12.0, 15.0, 13.0, 16.0];

#[test]
fn a_transposed_weight_is_computed_once_for_all_sessions() {
    let module = Options::new().plan(false).load(&program(false)).unwrap();
    for _ in 0..2 {
        let mut session = module.session().unwrap();
        assert_eq!(run(&mut session), (SUM.to_vec(), vec![1]));
        assert_eq!(run(&mut session), (SUM.to_vec(), vec![1]));
    }
}

#[test]
fn folding_can_be_turned_off() {
    let module = Options::new().plan(false).fold(false).load(&program(false)).unwrap();
    assert_eq!(run(&mut module.session().unwrap()), (SUM.to_vec(), vec![0, 1]));
}

#[test]
fn a_result_that_is_seen_through_another_value_is_computed_in_every_run() {
    let module = Options::new().plan(false).load(&program(true)).unwrap();
    assert_eq!(run(&mut module.session().unwrap()), (SUM.to_vec(), vec![0, 1]));
}
