//! What a process registers for all its modules, and what a run tells of its instructions.
use sconce::core::{Call, Event, Fault, Kernel, Platform, writes};
use sconce::format::pte::model::{Memory, Plan, Program, Storage, Tensor as TensorModel};
use sconce::view::{view, view_mut};
use sconce::{Buffer, Error, Module, Options, ScalarType, Tensor};
use std::sync::Mutex;

/// A program that calls `audio::twice.out` and then relu and neg.
fn program() -> Buffer {
    let four = |offset| TensorModel::new(ScalarType::Float, [4], Storage::Planned(Memory { id: 1, offset }));
    let mut plan = Plan::new("forward");
    let [x, a, b, c] = [0, 64, 128, 192].map(|offset| plan.value(four(offset)));
    plan.call("audio::twice.out", [x, a, a]);
    plan.call("aten::relu.out", [a, b, b]);
    plan.call("aten::neg.out", [b, c, c]);
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![c], vec![0, 256]);
    let bytes = Program { plans: vec![plan], ..Program::default() }.write();
    Buffer::copy_of(&bytes).unwrap()
}

/// `audio::twice.out(Tensor x, *, Tensor(a!) out)`.
struct Twice;

impl Kernel for Twice {
    fn arity(&self) -> usize {
        3
    }

    fn writes(&self) -> u32 {
        writes(&[1])
    }

    fn run(&self, call: &mut Call<'_>) -> Result<(), Fault> {
        let x = call.tensor(0)?;
        let out = call.out(1, x.sizes())?;
        let unaligned = Fault::argument(0, "the tensor is not aligned to its elements");
        let (x, out) = (view::<f32>(x.data).ok_or(unaligned)?, view_mut::<f32>(out.data).ok_or(unaligned)?);
        out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
        Ok(())
    }
}

/// Remembers the instructions that run.
#[derive(Default)]
struct Trace(Mutex<Vec<(u32, u32)>>);

impl Platform for Trace {
    fn traces(&self) -> bool {
        true
    }

    fn trace(&self, event: Event) {
        self.0.lock().unwrap().push((event.chain, event.instruction));
    }
}

#[test]
fn kernels_of_the_process_are_found_by_later_modules() {
    let missing = Module::load(program()).unwrap_err();
    assert!(matches!(&missing, Error::MissingOperators { names } if names == &["audio::twice.out"]), "{missing}");
    sconce::register_kernel("audio::twice.out", Twice);
    let x = Tensor::from_slice(&[-1.0f32, 0.0, 1.0, 2.0], &[4]).unwrap();
    for plan in [true, false] {
        let mut session = Options::new().plan(plan).load(program()).unwrap().session().unwrap();
        let trace = Trace::default();
        let seen = session.run_on(&[(&x).into()], &trace, |outputs| match outputs.get(0) {
            Ok(sconce::core::Value::Tensor(tensor)) => view::<f32>(tensor.data).unwrap().to_vec(),
            other => panic!("{other:?}"),
        });
        assert_eq!(seen.unwrap(), [-0.0, -0.0, -2.0, -4.0]);
        let names: Vec<_> =
            trace.0.into_inner().unwrap().into_iter().map(|(chain, index)| session.callee(chain, index)).collect();
        let expected: &[_] = match plan && cfg!(feature = "engine") {
            true => &["audio::twice.out", "aten::relu.out and 1 more, planned as one"],
            false => &["audio::twice.out", "aten::relu.out", "aten::neg.out"],
        };
        assert_eq!(names, expected);
        assert_eq!(session.callee(0, 99), "control flow");
    }
}
