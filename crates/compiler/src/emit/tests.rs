//! Methods as text, and the instructions that they become.

use super::*;
use crate::ir::parse;
use crate::memory::Smallest;
use sconce_format::pte::model::Dynamism;

/// The program that a text becomes.
fn emitted<T>(text: &str, see: impl FnOnce(&Emitted<'_>) -> T) -> Result<T, Error> {
    let program = parse(text).unwrap();
    emit(&program, &Smallest, Options::default()).map(|emitted| see(&emitted))
}

/// The instructions of the first method: operators without their namespaces, tensors as `t`, computed numbers as `n`, with
/// their places in the table of values, and known numbers as they are.
fn instructions(text: &str) -> Vec<String> {
    emitted(text, |emitted| {
        let plan = &emitted.program.plans[0];
        plan.chains[0].instructions.iter().map(|instruction| shown(plan, instruction)).collect()
    })
    .unwrap()
}

fn shown(plan: &Plan<'_>, instruction: &Instruction) -> String {
    let computed = |place: u32| {
        plan.chains[0].instructions.iter().any(|other| match other {
            Instruction::Kernel { args, .. } => args.last() == Some(&place),
            _ => false,
        })
    };
    let one = |place: &u32| match &plan.values[*place as usize] {
        Value::Tensor(_) => format!("t{place}"),
        Value::Int(_) | Value::Bool(_) | Value::Double(_) if computed(*place) => format!("n{place}"),
        Value::Int(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Double(number) => format!("{number:?}"),
        Value::IntList(_) | Value::TensorList(_) | Value::OptionalTensorList(_) => format!("list{place}"),
        Value::Null => "none".to_owned(),
        other => format!("{other:?}"),
    };
    let all = |args: &[u32]| args.iter().map(one).collect::<Vec<_>>().join(" ");
    match instruction {
        Instruction::Kernel { operator, args } => {
            let operator = &plan.operators[*operator as usize];
            let name = operator.name.rsplit("::").next().unwrap_or_default();
            format!("{name}.{} {}", operator.overload, all(args))
        }
        Instruction::Delegate { delegate, args } => format!("delegate {delegate}: {}", all(args)),
        Instruction::Move { from, to } => format!("move {} {}", one(from), one(to)),
        Instruction::JumpFalse { condition, target } => format!("jump to {target} unless {}", one(condition)),
        Instruction::Free { value } => format!("free {}", one(value)),
    }
}

/// Where each tensor of the first method lies, by its place in the table of values.
fn storages(text: &str) -> Vec<Storage> {
    emitted(text, |emitted| {
        let tensor = |value: &Value| if let Value::Tensor(tensor) = value { Some(tensor.storage) } else { None };
        emitted.program.plans[0].values.iter().filter_map(tensor).collect()
    })
    .unwrap()
}

#[test]
fn a_call_writes_into_a_given_tensor_and_missing_arguments_have_their_defaults() {
    let text =
        "method \"f\"\n%0: float32[4] = input\n%1: float32[4] = aten::add.Tensor(self: %0, other: %0)\noutput %1";
    assert_eq!(instructions(text), ["add.out t0 t0 1 t2 t2"]);
}

#[test]
fn all_operators_that_are_missing_are_named_at_once() {
    let text = "method \"f\"\n%0: float32[4] = input\n%1: float32[4] = my::b(self: %0)\n%2: float32[4] = my::a(self: %1)\n\
                output %2\nmethod \"g\"\n%0: int = python::my.number()\noutput %0";
    match emitted(text, |_| ()) {
        Err(Error::Operators { names, decomposed: false }) => assert_eq!(names, ["my.number", "my::a", "my::b"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_view_in_between_lies_where_its_base_does_and_an_output_does_not() {
    let view = "%2: float32[2, 2] = aten::view(self: %1, size: [2, 2])";
    let start = format!("method \"f\"\n%0: float32[4] = input\n%1: float32[4] = aten::abs(self: %0)\n{view}");
    let inside = format!("{start}\n%3: float32[2, 2] = aten::neg(self: %2)\noutput %3");
    assert_eq!(instructions(&inside), ["abs.out t0 t1 t1", "neg.out t2 t3 t3"]);
    let places = storages(&inside);
    assert_eq!(places[1], places[2]);
    let given = format!("{start}\noutput %2");
    assert_eq!(instructions(&given).len(), 2, "a copy");
}

#[test]
fn what_the_caller_passed_is_copied_before_it_is_given_back() {
    assert_eq!(instructions("method \"f\"\n%0: float32[4] = input\noutput %0"), ["clone.out t0 none t1 t1"]);
}

/// The first buffer begins as zeros, which need no bytes in the file; two that are exchanged are copied aside first.
#[test]
fn buffers_are_written_at_the_end() {
    let text = "@0 = [0, 0]\n@1 = [1, 2]\nmethod \"f\"\n%0: int8[2] = state @0\n%1: int8[2] = state @1\n\
                update %0 = %1\nupdate %1 = %0";
    let calls =
        ["clone.out t0 none t1 t1", "clone.out t3 none t4 t4", "copy_. t3 t1 false t3", "copy_. t0 t4 false t0"];
    assert_eq!(instructions(text), calls);
    let (planned, initialised) = (storages(text)[1], storages(text)[0]);
    assert!(matches!(planned, Storage::Planned(_)) && matches!(initialised, Storage::Initialised(_, 0)));
}

#[test]
fn a_size_is_computed_once_from_where_its_symbol_is_found() {
    let text = "method \"f\"\nsymbol s0 in 1..8 = size 0 of %0\n%0: float32[1 + 2*s0] = input\n\
                %1: float32[s0] = aten::full(size: [s0], fill_value: 1)\n%2: float32[s0] = aten::full(size: [s0], fill_value: 2)\n\
                %3: float32[s0] = aten::add.Tensor(self: %1, other: %2)\noutput %3\noutput 3*s0";
    let calls = instructions(text);
    let starts: Vec<&str> = calls.iter().map(|call| call.split(' ').next().unwrap()).collect();
    let expected = ["sym_size.int", "sub.Scalar", "floordiv.Scalar", "full.out", "full.out", "add.out", "mul.Scalar"];
    assert_eq!(starts, expected, "{calls:?}");
    assert!(calls[1].starts_with("sub.Scalar n2 1") && calls[6].starts_with("mul.Scalar 3"), "{calls:?}");
}

#[test]
fn a_symbol_that_nothing_tells_is_named() {
    let text = "method \"f\"\nsymbol u7 in 1..8\n%0: float32[u7] = aten::full(size: [u7], fill_value: 1)\noutput %0";
    assert!(emitted(text, |_| ()).unwrap_err().to_string().contains("the symbol u7, which no input or result tells"));
}

#[test]
fn a_branch_jumps_over_the_other_side() {
    let text = "method \"f\"\n%0: float32[4] = input\n%1: bool[] = input\n%2: float32[4] = cond(condition: %1, inputs: [%0])\n\
                block %3: float32[4]\n%4: float32[4] = aten::abs(self: %3)\ngive %4\n\
                block %5: float32[4]\n%6: float32[4] = aten::neg(self: %5)\ngive %6\noutput %2";
    let calls = instructions(text);
    let expected = [
        "jump to 4 unless t1",
        "abs.out t0 t2 t2",
        "move t2 t3",
        "jump to 6 unless false",
        "neg.out t0 t5 t5",
        "move t5 t3",
    ];
    assert_eq!(calls, expected);
}

/// What a loop reads again in its next turn keeps its memory until the loop's end.
#[test]
fn a_loop_keeps_what_its_next_turn_reads() {
    let text = "method \"f\"\n%0: float32[4] = input\n%1: float32[4] = aten::abs(self: %0)\n\
                %2: float32[4] = while(carry: [%0], further: [%1])\n\
                block %3: float32[4], %4: float32[4]\n%5: bool[] = aten::any(self: %3)\ngive %5\n\
                block %6: float32[4], %7: float32[4]\n%8: float32[4] = aten::mul.Tensor(self: %6, other: %7)\n\
                %9: float32[4] = aten::neg(self: %8)\ngive %9\noutput %2";
    let plan = emitted(text, |emitted| emitted.memory[0].clone()).unwrap();
    let calls = instructions(text);
    let jump = calls.iter().position(|call| call.contains("unless false")).unwrap();
    let abs = plan.wanted.iter().find(|wanted| wanted.first == 0 && wanted.role == memory::Role::Between).unwrap();
    assert!(abs.last > jump, "{} is not after the jump back at {jump}: {calls:?}", abs.last);
    assert!(calls[jump].starts_with("jump to 2 "), "{calls:?}");
}

#[test]
fn memory_has_room_for_what_a_backend_reads_beyond() {
    let text = |beyond: &str| {
        format!(
            "delegate 0 \"Mine\" [1]{beyond}\nmethod \"f\"\n%0: float32[4] = input\n\
             %1: float32[4] = delegate 0(inputs: [%0])\noutput %1"
        )
    };
    let sizes = |text: &str| emitted(text, |emitted| emitted.program.plans[0].buffer_sizes.clone()).unwrap();
    let (without, with) = (sizes(&text("")), sizes(&text(" beyond 64")));
    assert_eq!(with[1], without[1] + 64);
    assert_eq!(instructions(&text("")), ["delegate 0: t0 t1"]);
}

#[test]
fn sizes_say_how_tensors_can_change() {
    let text = "method \"f\"\nsymbol s0 in 1..8 = size 0 of %0\nsymbol s1 in 0.. = size 1 of %0\n\
                %0: float32[s0, s1] = input\n%1: float32[s0] = input\n%2: float32[4] = input\noutput 1";
    let dynamism = emitted(text, |emitted| {
        let values = emitted.program.plans[0].values.iter();
        values
            .filter_map(
                |value| if let Value::Tensor(own) = value { Some((own.dynamism, own.sizes.clone())) } else { None },
            )
            .collect::<Vec<_>>()
    });
    let expected: Vec<_> =
        vec![(Dynamism::Unbound, vec![8, 0]), (Dynamism::Bound, vec![8]), (Dynamism::Static, vec![4])];
    assert_eq!(dynamism.unwrap(), expected);
}

#[test]
fn tensors_of_the_module_can_be_kept_outside() {
    let text = "@0 = \"w\" [1, 2]\n@1 = [3, 4]\nmethod \"f\"\n%0: int8[2] = constant @0\n%1: int8[2] = constant @1\n\
                %2: int8[2] = aten::add.Tensor(self: %0, other: %1)\noutput %2";
    let program = parse(text).unwrap();
    let emitted = emit(&program, &Smallest, Options { external: true, ..Options::default() }).unwrap();
    let keys: Vec<&str> = emitted.data.entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!((keys, emitted.program.constants.len()), (vec!["w"], 1));
}
