//! Small programs, and who touches what in them.

use super::{Accesses, Bytes, Callee, Step, Target};
use sconce_core::{Bytes as InMemory, NoData, Program as Loaded};
use sconce_format::ScalarType;
use sconce_format::pte::model::{Dynamism, Instruction, Memory, Plan, Program, Storage, Tensor, Value};
use std::ops::Range;

/// Bytes of a tensor of four numbers.
const WHOLE: u64 = 16;

/// A tensor of n numbers that is planned at an offset.
fn planned(plan: &mut Plan<'_>, offset: u64, count: i32) -> u32 {
    plan.value(Tensor::new(ScalarType::Float, [count], Storage::Planned(Memory { id: 1, offset })))
}

/// Tensors of four numbers, each in bytes of its own.
fn apart<const N: usize>(plan: &mut Plan<'_>) -> [u32; N] {
    std::array::from_fn(|place| planned(plan, place as u64 * WHOLE, 4))
}

/// What the operators of these tests write: `name.out` the argument before the last one, whole, as the result that is the
/// last; `name_` the first argument, with what it held in mind.
fn writes(name: &str, args: u32) -> u32 {
    match name {
        _ if name.ends_with(".out") => 1 << (args - 2),
        _ if name.ends_with('_') => 1,
        _ => 0,
    }
}

/// Looks at a program of one method.
struct Look {
    folded: Vec<u32>,
    /// How many outputs every delegate has, if that is known.
    outputs: Option<usize>,
    is_standard: bool,
}

const LOOK: Look = Look { folded: Vec::new(), outputs: None, is_standard: true };

impl Look {
    /// What `then` makes of the accesses of a method, if it can be followed.
    fn at<R>(&self, mut plan: Plan<'_>, then: impl FnOnce(&Accesses<'_>) -> R) -> Option<R> {
        let counts: Vec<(u32, u32)> = plan.chains[0]
            .instructions
            .iter()
            .filter_map(|instruction| match instruction {
                Instruction::Kernel { operator, args } => Some((*operator, args.len() as u32)),
                _ => None,
            })
            .collect();
        plan.buffer_sizes = vec![0, 1 << 20];
        let states = vec![vec![0; 4].into(), vec![1; WHOLE as usize].into()];
        let constants = vec![vec![0; 4].into(), vec![1; WHOLE as usize].into()];
        let file = Program { plans: vec![plan], initial_states: states, constants, ..Program::default() }.write();
        let loader = InMemory(&file);
        let program = Loaded::load(&loader, &NoData).unwrap();
        let method = program.method("forward").unwrap();
        let callee = |op: usize| {
            let name = method.plan().operators().get(op)?.to_string();
            let (_, args) = counts.iter().find(|(operator, _)| *operator as usize == op)?;
            Some(Callee { writes: writes(&name, *args), standard: self.is_standard })
        };
        let is_folded = |instruction: u32| self.folded.contains(&instruction);
        Accesses::new(method, &callee, &is_folded, &|_| self.outputs).as_ref().map(then)
    }

    /// What the steps read, write whole, and change.
    fn steps(&self, plan: Plan<'_>) -> Vec<[Vec<u32>; 3]> {
        let touched = |step: &Step| [step.reads.clone(), step.writes.clone(), step.changes.clone()];
        self.at(plan, |accesses| accesses.steps.iter().map(touched).collect()).unwrap()
    }

    /// Which of these values are read after instructions, as far as they lie in bytes of the first.
    fn read_after(&self, plan: Plan<'_>, bytes_of: u32, steps: Range<usize>) -> Vec<Bytes> {
        let found = self.at(plan, |accesses| accesses.reads_after(accesses.bytes(bytes_of).unwrap(), steps));
        found.unwrap()
    }
}

/// Bytes of planned memory.
fn bytes(range: Range<u64>) -> Bytes {
    Bytes { id: 1, range }
}

#[test]
fn calls_read_their_arguments_and_write_their_outputs() {
    let mut plan = Plan::new("forward");
    let [x, y, z] = apart(&mut plan);
    let number = plan.value(Value::Int(1));
    plan.call("test::add.out", [x, y, number, z, z]);
    plan.call("test::add_", [x, y, x]);
    plan.call("test::size", [x, number]);
    // The last argument is the result: the output once more, or a number that is set.
    let expected =
        [[vec![x, y, number], vec![z], vec![z]], [vec![x, y], vec![], vec![x, x]], [vec![x], vec![], vec![number]]];
    assert_eq!(LOOK.steps(plan), expected);
}

#[test]
fn lists_are_opened() {
    let mut plan = Plan::new("forward");
    let [x, y, z] = apart(&mut plan);
    let number = plan.value(Value::Int(1));
    let list = plan.value(Value::TensorList(vec![x, y]));
    let gaps = plan.value(Value::OptionalTensorList(vec![None, Some(y)]));
    let numbers = plan.value(Value::IntList(vec![number, number]));
    let outputs = plan.value(Value::TensorList(vec![z, y]));
    plan.call("test::cat.out", [list, gaps, numbers, z, z]);
    plan.call("test::split.out", [x, outputs, outputs]);
    let expected = [[vec![x, y, y, number, number], vec![z], vec![z]], [vec![x], vec![z, y], vec![z, y]]];
    assert_eq!(LOOK.steps(plan), expected);
}

#[test]
fn delegates_write_their_last_arguments_if_it_is_known_how_many() {
    let plan = || {
        let mut plan = Plan::new("forward");
        let [x, y, z] = apart(&mut plan);
        let payload = vec![0].into();
        plan.delegates.push(sconce_format::pte::model::Delegate {
            backend: "TestBackend".to_owned(),
            payload,
            inline: true,
            specs: Vec::new(),
        });
        plan.push(Instruction::Delegate { delegate: 0, args: vec![x, y, z] });
        plan
    };
    let known = Look { outputs: Some(2), ..LOOK };
    assert_eq!(known.steps(plan()), [[vec![0], vec![1, 2], vec![]]]);
    assert_eq!(LOOK.steps(plan()), [[vec![0, 1, 2], vec![], vec![0, 1, 2]]]);
    let call = |look: &Look| look.at(plan(), |accesses| accesses.steps[0].call.clone()).unwrap();
    assert_eq!(call(&known), Some((Target::Delegate(0), vec![0, 1, 2])));
    assert_eq!(call(&LOOK), None);
    // More outputs than arguments: a program that is broken.
    assert_eq!(call(&Look { outputs: Some(4), ..LOOK }), None);
}

#[test]
fn calls_of_an_application_do_not_join_but_count() {
    let plan = || {
        let mut plan = Plan::new("forward");
        let [x, y] = apart(&mut plan);
        plan.call("test::abs.out", [x, y, y]);
        plan
    };
    let own = Look { is_standard: false, ..LOOK };
    assert_eq!(own.steps(plan()), LOOK.steps(plan()));
    assert!(own.at(plan(), |accesses| accesses.steps[0].call.is_none()).unwrap());
    assert!(LOOK.at(plan(), |accesses| accesses.steps[0].call.is_some()).unwrap());
}

#[test]
fn what_stands_for_other_bytes_at_other_times_has_none_of_its_own() {
    let mut plan = Plan::new("forward");
    let [x, y, z, view] = apart(&mut plan);
    let sizes = plan.value(Value::IntList(Vec::new()));
    plan.call("executorch_prim::et_view.default", [x, sizes, view]);
    plan.push(Instruction::Move { from: y, to: z });
    plan.push(Instruction::Free { value: z });
    let expected = [[vec![x], vec![], vec![view]], [vec![y], vec![], vec![z]], [vec![], vec![], vec![z]]];
    assert_eq!(LOOK.steps(plan.clone()), expected);
    let known = LOOK.at(plan, |accesses| [x, y, z, view].map(|value| accesses.bytes(value).is_some()));
    assert_eq!(known.unwrap(), [false; 4]);
}

#[test]
fn bytes_are_those_of_the_plan_or_of_the_tensor_alone() {
    let mut plan = Plan::new("forward");
    let (whole, second) = (planned(&mut plan, 0, 4), planned(&mut plan, 8, 2));
    let unplanned = || Tensor::new(ScalarType::Float, [4], Storage::Unplanned);
    let (one, other) = (plan.value(unplanned()), plan.value(unplanned()));
    let number = plan.value(Value::Int(0));
    plan.call("test::abs.out", [whole, one, one]);
    LOOK.at(plan, |accesses| {
        let of = |value: u32| accesses.bytes(value).unwrap();
        assert_eq!((of(whole), of(second)), (&bytes(0..16), &bytes(8..16)));
        assert!(of(whole).overlaps(of(second)) && of(whole).covers(of(second)) && !of(second).covers(of(whole)));
        assert!(!of(one).overlaps(of(other)) && !of(one).overlaps(of(whole)) && of(one).covers(of(one)));
        assert_eq!((accesses.bytes(number), accesses.bytes(99)), (None, None));
    })
    .unwrap();
}

#[test]
fn memory_is_kept_where_it_begins_with_something_or_nobody_writes_it() {
    let mut plan = Plan::new("forward");
    let [input, read, written, never] = apart(&mut plan);
    // Half of what is written, under another name.
    let view = planned(&mut plan, 2 * WHOLE + 8, 2);
    let begins =
        plan.value(Tensor::new(ScalarType::Float, [4], Storage::Initialised(Memory { id: 1, offset: 4 * WHOLE }, 1)));
    plan.call("test::add.out", [input, read, view, written, written]);
    plan.call("test::add_", [begins, read, begins]);
    plan.inputs = vec![input];
    let kept = LOOK.at(plan, |accesses| {
        [input, read, written, never, view, begins].map(|value| accesses.is_kept(accesses.bytes(value).unwrap()))
    });
    assert_eq!(kept.unwrap(), [false, true, false, true, false, true]);
}

/// `a` is written by the first step; what the others do with it is what counts.
fn after(others: impl FnOnce(&mut Plan<'static>, u32, u32)) -> Plan<'static> {
    let mut plan = Plan::new("forward");
    let [a, x] = apart(&mut plan);
    plan.call("test::abs.out", [x, a, a]);
    plan.inputs = vec![x];
    others(&mut plan, a, x);
    plan
}

#[test]
fn what_is_read_later_is_found_until_it_is_overwritten() {
    // Nobody reads it.
    assert_eq!(LOOK.read_after(after(|_, _, _| {}), 0, 0..1), []);
    // One does, and another one after it was overwritten.
    let plan = after(|plan, a, x| {
        let other = planned(plan, 4 * WHOLE, 4);
        plan.call("test::neg.out", [a, other, other]);
        plan.call("test::abs.out", [x, a, a]);
        plan.call("test::neg.out", [a, other, other]);
        plan.outputs = vec![a];
    });
    assert_eq!(LOOK.read_after(plan.clone(), 0, 0..1), [bytes(0..16)]);
    // Within the steps that are asked about, reads do not count.
    assert_eq!(LOOK.read_after(plan.clone(), 0, 0..2), []);
    assert_eq!(LOOK.read_after(plan, 0, 2..3), [bytes(0..16), bytes(0..16)]);
}

#[test]
fn what_is_returned_is_read() {
    let returned = |plan: &mut Plan<'static>, a| plan.outputs = vec![a];
    assert_eq!(LOOK.read_after(after(|plan, a, _| returned(plan, a)), 0, 0..1), [bytes(0..16)]);
    let plan = after(|plan, a, x| {
        plan.call("test::abs.out", [x, a, a]);
        returned(plan, a);
    });
    assert_eq!(LOOK.read_after(plan, 0, 0..1), []);
}

#[test]
fn bytes_are_read_under_other_names() {
    // The second half of `a` is another tensor, and so are all bytes from its middle on.
    let plan = |written: bool| {
        after(move |plan, _, x| {
            let (half, beyond) = (planned(plan, 8, 2), planned(plan, 8, 6));
            let other = planned(plan, 8 * WHOLE, 4);
            if written {
                plan.call("test::abs.out", [x, half, half]);
            }
            plan.call("test::neg.out", [half, other, other]);
            plan.call("test::neg.out", [beyond, other, other]);
        })
    };
    assert_eq!(LOOK.read_after(plan(false), 0, 0..1), [bytes(8..16), bytes(8..32)]);
    // Overwriting a half does away with reads of that half only.
    assert_eq!(LOOK.read_after(plan(true), 0, 0..1), [bytes(8..32)]);
}

#[test]
fn a_change_in_place_is_a_read_and_overwrites_nothing() {
    let plan = after(|plan, a, x| {
        plan.call("test::add_", [a, x, a]);
        plan.call("test::add_", [a, x, a]);
    });
    assert_eq!(LOOK.read_after(plan, 0, 0..1), [bytes(0..16), bytes(0..16)]);
}

#[test]
fn views_read_what_they_view() {
    let plan = after(|plan, a, _| {
        let (view, other) = (planned(plan, 4 * WHOLE, 4), planned(plan, 8 * WHOLE, 4));
        let sizes = plan.value(Value::IntList(Vec::new()));
        // Both stand for bytes that are asked about under a third name.
        planned(plan, 0, 4);
        plan.call("executorch_prim::et_view.default", [a, sizes, view]);
        plan.call("test::neg.out", [view, other, other]);
    });
    let third = 5;
    assert_eq!(LOOK.read_after(plan, third, 0..1), [bytes(0..16), bytes(0..16)]);
}

/// Where there are jumps, what comes before may run after, and nothing is known to be overwritten.
#[test]
fn with_jumps_all_other_steps_count() {
    let mut plan = Plan::new("forward");
    let [a, x, other] = apart(&mut plan);
    let condition = plan.value(Value::Bool(false));
    plan.call("test::neg.out", [a, other, other]);
    plan.call("test::abs.out", [x, a, a]);
    plan.call("test::abs.out", [x, a, a]);
    plan.push(Instruction::JumpFalse { condition, target: 0 });
    plan.inputs = vec![x];
    assert_eq!(LOOK.read_after(plan.clone(), a, 1..2), [bytes(0..16)]);
    assert_eq!(LOOK.read_after(plan.clone(), a, 0..1), []);
    let targets = LOOK.at(plan.clone(), |accesses| [0, 1, 4, 5].map(|step| accesses.is_target(step)));
    // Where nothing is known, a jump may lead.
    assert_eq!(targets.unwrap(), [true, false, false, true]);
    assert_eq!(LOOK.steps(plan)[3], [vec![condition], vec![], vec![]]);
}

#[test]
fn folded_steps_touch_nothing_and_their_results_are_elsewhere() {
    let plan = || {
        after(|plan, a, x| {
            // A folded result lies where `a` does, and is read from where it was kept.
            let (folded, other) = (planned(plan, 0, 4), planned(plan, 4 * WHOLE, 4));
            plan.call("test::exp.out", [x, folded, folded]);
            plan.call("test::neg.out", [folded, other, other]);
            plan.outputs = vec![a];
        })
    };
    let look = Look { folded: vec![1], ..LOOK };
    assert_eq!(look.steps(plan())[1], [vec![], vec![], vec![]]);
    assert!(look.at(plan(), |accesses| accesses.steps[1].is_folded).unwrap());
    // Without the fold, the second step overwrites `a`, and the third reads the same bytes, but not what `a` was.
    assert_eq!(LOOK.read_after(plan(), 0, 0..1), []);
    assert_eq!(look.read_after(plan(), 0, 0..1), [bytes(0..16)]);
}

#[test]
fn sizes_change_of_dynamic_tensors_and_of_lists_with_one() {
    let mut plan = Plan::new("forward");
    let [fixed] = apart(&mut plan);
    let storage = Storage::Planned(Memory { id: 1, offset: 4 * WHOLE });
    let dynamic = plan.value(Tensor { dynamism: Dynamism::Bound, ..Tensor::new(ScalarType::Float, [4], storage) });
    let list = plan.value(Value::TensorList(vec![fixed, dynamic]));
    let number = plan.value(Value::Int(0));
    let resized = LOOK.at(plan, |accesses| [fixed, dynamic, list, number].map(|value| accesses.is_resized(value)));
    assert_eq!(resized.unwrap(), [false, true, true, false]);
}

#[test]
fn what_would_take_too_long_is_not_followed() {
    let follows = |plan: Plan<'_>| LOOK.at(plan, |_| ()).is_some();
    let many = |frees: usize| {
        let mut plan = Plan::new("forward");
        let [x] = apart(&mut plan);
        (0..frees).for_each(|_| plan.push(Instruction::Free { value: x }));
        plan
    };
    assert!(follows(many(super::MOST_STEPS)) && !follows(many(super::MOST_STEPS + 1)));
    let lists = |calls: usize| {
        let mut plan = Plan::new("forward");
        let [x, y] = apart(&mut plan);
        let list = plan.value(Value::TensorList(vec![x; 10_000]));
        (0..calls).for_each(|_| plan.call("test::cat.out", [list, y, y]));
        plan
    };
    assert!(follows(lists(90)) && !follows(lists(102)));
    let mut two = many(1);
    two.chains.push(two.chains[0].clone());
    assert!(!follows(two));
}
