//! What the five instructions do, on small programs made for the purpose.
use sconce::format::pte::model::{
    Instruction, Memory, Plan, Program, Storage, Tensor as TensorModel, Value as ValueModel,
};
use sconce::{Error, Module, Options, ScalarType, Tensor, Value};

/// A float tensor of two elements at an offset of arena 1.
fn pair(offset: u64) -> TensorModel {
    TensorModel::new(ScalarType::Float, [2], Storage::Planned(Memory { id: 1, offset }))
}

fn finish(mut plan: Plan<'_>, inputs: &[u32], outputs: &[u32]) -> Vec<u8> {
    (plan.inputs, plan.outputs) = (inputs.to_vec(), outputs.to_vec());
    plan.buffer_sizes = vec![0, 256];
    Program { plans: vec![plan], ..Program::default() }.write()
}

fn run(session: &mut sconce::Session, x: &[f32]) -> Result<Vec<Value>, Error> {
    let x = Tensor::from_slice(x, &[x.len()])?;
    session.run(&[(&x).into()])
}

fn floats(value: &Value) -> Vec<f32> {
    value.tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn a_jump_chooses_a_branch_and_a_move_its_result() {
    let mut plan = Plan::new("forward");
    let x = plan.value(pair(0));
    let (negated, absolute, result) = (plan.value(pair(16)), plan.value(pair(32)), plan.value(pair(48)));
    let condition = plan.value(TensorModel::new(ScalarType::Bool, [2], Storage::Planned(Memory { id: 1, offset: 64 })));
    let zero = plan.value(ValueModel::Int(0));
    let never = plan.value(ValueModel::Bool(false));
    plan.call("aten::gt.Scalar_out", [x, zero, condition, condition]);
    plan.push(Instruction::JumpFalse { condition, target: 5 });
    plan.call("aten::neg.out", [x, negated, negated]);
    plan.push(Instruction::Move { from: negated, to: result });
    plan.push(Instruction::JumpFalse { condition: never, target: 7 });
    plan.call("aten::abs.out", [x, absolute, absolute]);
    plan.push(Instruction::Move { from: absolute, to: result });
    let module = Module::load(&finish(plan, &[x], &[result])).unwrap();
    let mut session = module.session().unwrap();
    for _ in 0..2 {
        assert_eq!(floats(&run(&mut session, &[1.0, 2.0]).unwrap()[0]), [-1.0, -2.0]);
        assert_eq!(floats(&run(&mut session, &[-1.0, 2.0]).unwrap()[0]), [1.0, 2.0], "one false element decides");
    }
}

/// Counts to `n` with prim operators, doubling the input each time.
fn counting(n: i64) -> Vec<u8> {
    let mut plan = Plan::new("forward");
    let (x, doubled) = (plan.value(pair(0)), plan.value(pair(16)));
    let (count, one, end, alpha) = (
        plan.value(ValueModel::Int(0)),
        plan.value(ValueModel::Int(1)),
        plan.value(ValueModel::Int(n)),
        plan.value(ValueModel::Int(1)),
    );
    let done = plan.value(ValueModel::Bool(false));
    let false_ = plan.value(ValueModel::Bool(false));
    plan.call("aten::add.out", [x, x, alpha, doubled, doubled]);
    plan.call("aten::copy_", [x, doubled, false_, x]);
    plan.call("executorch_prim::add.Scalar", [count, one, count]);
    plan.call("executorch_prim::eq.Scalar", [count, end, done]);
    plan.push(Instruction::JumpFalse { condition: done, target: 0 });
    plan.call("executorch_prim::sub.Scalar", [count, end, count]);
    finish(plan, &[x], &[doubled, count])
}

#[test]
fn loops_run_and_can_run_again() {
    let module = Module::load(&counting(4)).unwrap();
    let mut session = module.session().unwrap();
    for _ in 0..3 {
        let outputs = run(&mut session, &[1.0, 3.0]).unwrap();
        assert_eq!(floats(&outputs[0]), [16.0, 48.0]);
        assert!(matches!(outputs[1], Value::Int(0)));
    }
}

#[test]
fn endless_loops_are_stopped() {
    let module = Options::new().instruction_limit(1000).load(&counting(-1)).unwrap();
    let mut session = module.session().unwrap();
    let error = run(&mut session, &[1.0, 1.0]).unwrap_err().to_string();
    assert!(error.contains("stopped after 1000 instructions"), "{error}");
    let again = run(&mut session, &[1.0, 1.0]).unwrap_err().to_string();
    assert_eq!(error, again, "the session is usable after an error");
}

#[test]
fn freed_tensors_have_no_data_until_the_next_run() {
    let mut plan = Plan::new("forward");
    let (x, y, z) = (plan.value(pair(0)), plan.value(pair(16)), plan.value(pair(32)));
    plan.call("aten::neg.out", [x, y, y]);
    plan.call("aten::neg.out", [y, z, z]);
    plan.push(Instruction::Free { value: y });
    let module = Module::load(&finish(plan.clone(), &[x], &[z])).unwrap();
    let mut session = module.session().unwrap();
    for _ in 0..2 {
        assert_eq!(floats(&run(&mut session, &[1.0, 2.0]).unwrap()[0]), [1.0, 2.0]);
    }
    plan.call("aten::neg.out", [y, z, z]);
    let mut session = Module::load(&finish(plan, &[x], &[z])).unwrap().session().unwrap();
    let error = run(&mut session, &[1.0, 2.0]).unwrap_err().to_string();
    assert!(error.contains("instruction 3, aten::neg.out: argument 0: the tensor has no data"), "{error}");
}

#[test]
fn outputs_that_share_memory_with_inputs_are_computed_from_a_copy() {
    let mut plan = Plan::new("forward");
    let alpha = plan.value(ValueModel::Int(1));
    let x = plan.value(TensorModel::new(ScalarType::Float, [4], Storage::Planned(Memory { id: 1, offset: 0 })));
    // The second half of x and one element more.
    let shifted = plan.value(TensorModel::new(ScalarType::Float, [4], Storage::Planned(Memory { id: 1, offset: 4 })));
    plan.call("aten::add.out", [x, x, alpha, shifted, shifted]);
    let mut session = Module::load(&finish(plan, &[x], &[shifted])).unwrap().session().unwrap();
    assert_eq!(floats(&run(&mut session, &[1.0, 2.0, 3.0, 4.0]).unwrap()[0]), [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn outputs_that_share_memory_with_each_other_are_refused() {
    let mut plan = Plan::new("forward");
    let x = plan.value(pair(0));
    let dim = plan.value(ValueModel::Int(0));
    let keep = plan.value(ValueModel::Bool(true));
    let single = |dtype| TensorModel::new(dtype, [1], Storage::Planned(Memory { id: 1, offset: 16 }));
    let (largest, index) = (plan.value(single(ScalarType::Float)), plan.value(single(ScalarType::Long)));
    let both = plan.value(ValueModel::TensorList(vec![largest, index]));
    plan.call("aten::max.dim_max", [x, dim, keep, largest, index, both]);
    let mut session = Module::load(&finish(plan, &[x], &[largest])).unwrap().session().unwrap();
    let error = run(&mut session, &[1.0, 2.0]).unwrap_err().to_string();
    assert!(error.contains("two outputs of one instruction share memory"), "{error}");
}

#[test]
fn constants_cannot_be_written() {
    let mut program = Program::default();
    let constant = program.constant(vec![0; 8]);
    let mut plan = Plan::new("forward");
    let x = plan.value(pair(0));
    let y = plan.value(TensorModel::new(ScalarType::Float, [2], constant));
    plan.call("aten::neg.out", [x, y, y]);
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![y], vec![0, 8]);
    program.plans.push(plan);
    let mut session = Module::load(&program.write()).unwrap().session().unwrap();
    let error = run(&mut session, &[1.0, 2.0]).unwrap_err().to_string();
    assert!(error.contains("would write to a constant"), "{error}");
}

#[test]
fn stepping_counts_instructions_and_can_stop() {
    let module = Module::load(&counting(4)).unwrap();
    let mut session = module.session().unwrap();
    let x = Tensor::from_slice(&[1.0f32, 1.0], &[2]).unwrap();
    assert_eq!(session.step_through(&[(&x).into()], |_| true).unwrap(), 4 * 5 + 1);
    assert_eq!(session.step_through(&[(&x).into()], |ran| ran < 7).unwrap(), 7);
}

#[test]
fn wrong_inputs_are_told_in_words() {
    let module = Module::load(&counting(1)).unwrap();
    let mut session = module.session().unwrap();
    let text = |result: Result<Vec<Value>, Error>| result.unwrap_err().to_string();
    assert_eq!(text(session.run(&[])), "`forward` takes 1 input(s), 0 were given");
    let three = Tensor::from_slice(&[1.0f32; 3], &[3]).unwrap();
    let error = text(session.run(&[(&three).into()]));
    assert!(error.starts_with("input 0 of `forward` must be float32 [2], but float32 [3] was given"), "{error}");
    let ints = Tensor::from_slice(&[1i64, 2], &[2]).unwrap();
    let error = text(session.run(&[(&ints).into()]));
    assert!(error.contains("float32 [2], but int64 [2] was given"), "{error}");
    assert!(text(session.run(&[1i64.into()])).contains("the integer 1"));
}

#[test]
fn memory_beyond_the_limit_is_refused_before_it_is_taken() {
    let mut plan = Plan::new("forward");
    let far = Storage::Planned(Memory { id: 1, offset: 1 << 45 });
    let x = plan.value(TensorModel::new(ScalarType::Float, [2], far));
    let error = Module::load(&finish(plan, &[x], &[x])).unwrap().session().unwrap_err();
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
}

#[test]
fn missing_operators_are_told_all_at_once() {
    let mut plan = Plan::new("forward");
    let x = plan.value(pair(0));
    plan.call("mine::first.out", [x, x]);
    plan.call("aten::neg.out", [x, x, x]);
    plan.call("mine::second", [x, x]);
    let error = Module::load(&finish(plan, &[x], &[x])).unwrap_err();
    let Error::MissingOperators { names } = &error else { panic!("{error}") };
    assert_eq!(names, &["mine::first.out", "mine::second"]);
    assert!(error.to_string().contains("mine::first.out, mine::second"), "{error}");
}
