//! Cutting hand-made methods into parts.

use super::*;
use crate::ir::{Input, Output, TensorType};
use sconce_format::ScalarType;
use std::borrow::Cow;

/// Takes calls of operators that begin with `my::`, and lets `follow::` follow.
struct Mine;

impl Partitioner for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn keeps(&self, operator: &str) -> bool {
        operator.starts_with("my::")
    }

    fn select(&self, function: &Function, _constants: &Constants<'_>) -> Vec<Choice> {
        let choose = |call: &Call| match call.operator() {
            Some(name) if name.starts_with("my::") => Choice::Take,
            Some(name) if name.starts_with("follow::") => Choice::Follow,
            _ => Choice::Refuse("it is not mine".to_owned()),
        };
        function.body.calls.iter().map(choose).collect()
    }

    fn lower(&self, part: &Part<'_>) -> Result<Delegate, Error> {
        let names = part.calls.iter().filter_map(|call| call.operator());
        let payload = names.collect::<Vec<_>>().join(" ").into_bytes();
        Ok(Delegate { backend: "Mine".to_owned(), payload, ..Delegate::default() })
    }
}

/// A method whose calls read values by name; `x` is the input, `w` a constant, the last call's result the output.
fn method(calls: &[(&'static str, &[&str], &'static str)]) -> Program<'static> {
    let mut program = Program::default();
    let constant = program.constants.add("w", vec![0; 4]);
    let mut function = Function { name: "forward".to_owned(), ..Function::default() };
    let ty = || Kind::Tensor(TensorType::fixed(ScalarType::Float, &[1]));
    let x = function.value(ty(), Origin::Input, "x");
    let w = function.value(ty(), Origin::Constant(constant), "w");
    let mut names = HashMap::from([("x", x), ("w", w)]);
    for &(operator, reads, result) in calls {
        let output = function.value(ty(), Origin::Call, result);
        let args = ["self", "other"].into_iter().zip(reads);
        let args = args.map(|(name, read)| (Cow::from(name), Arg::Value(names[read]))).collect();
        let target = Target::Operator(operator.into());
        function.body.calls.push(Call { target, args, blocks: Vec::new(), outputs: vec![output], source: None });
        names.insert(result, output);
    }
    let last = function.body.calls.last().map(|call| call.outputs[0]).unwrap_or(x);
    function.inputs = vec![Input::Value(x)];
    function.outputs = vec![Output::Value(last)];
    (function.body.inputs, function.body.outputs) = (vec![x], vec![last]);
    program.functions.push(function);
    program
}

/// What the calls are after partitioning: operators, or the payload and the names of inputs and outputs.
fn cut(calls: &[(&'static str, &[&str], &'static str)]) -> (Vec<String>, Report) {
    let mut program = method(calls);
    let report = partition(&mut program, &[Box::new(Mine)], &|_, _| Ok(())).unwrap();
    let function = &program.functions[0];
    let names =
        |values: &[ValueId]| values.iter().map(|value| function.get(*value).name.clone()).collect::<Vec<_>>().join(",");
    let show = |call: &Call| match &call.target {
        Target::Delegate(index) => {
            let payload = String::from_utf8(program.delegates[*index as usize].payload.clone()).unwrap();
            let Arg::Values(inputs) = call.arg("inputs") else { panic!("a delegate without inputs") };
            let inputs: Vec<ValueId> = inputs.iter().flatten().copied().collect();
            format!("{payload} ({}) -> {}", names(&inputs), names(&call.outputs))
        }
        _ => call.operator().unwrap_or("").to_owned(),
    };
    (function.body.calls.iter().map(show).collect(), report)
}

#[test]
fn a_part_is_as_large_as_it_can_be() {
    let (calls, report) = cut(&[
        ("my::a", &["x"], "a"),
        ("other::b", &["a"], "b"),
        ("my::c", &["a"], "c"),
        ("my::d", &["b", "c"], "d"),
        ("my::e", &["d"], "e"),
    ]);
    assert_eq!(calls, ["my::a (x) -> a", "other::b", "my::c my::d my::e (a,b) -> e"]);
    assert_eq!(report.by_backend(), [("mine", 2, 4)]);
    assert_eq!(report.refused.len(), 1);
    assert_eq!(report.refused[0].to_string(), "mine: other::b stays: it is not mine");
}

#[test]
fn what_follows_goes_into_each_part_that_reads_it() {
    let (calls, _) = cut(&[
        ("follow::w", &["w"], "v"),
        ("my::a", &["x", "v"], "a"),
        ("other::b", &["a"], "b"),
        ("my::c", &["b", "v"], "c"),
    ]);
    assert_eq!(calls, ["follow::w my::a (x) -> a", "other::b", "follow::w my::c (b) -> c"]);
}

#[test]
fn what_follows_stays_where_others_read_it() {
    let (calls, _) = cut(&[("follow::w", &["w"], "v"), ("my::a", &["x", "v"], "a"), ("other::b", &["a", "v"], "b")]);
    assert_eq!(calls, ["follow::w", "follow::w my::a (x) -> a", "other::b"]);
}

#[test]
fn what_reads_more_than_constants_does_not_follow() {
    let (calls, _) = cut(&[("follow::x", &["x"], "v"), ("my::a", &["v"], "a")]);
    assert_eq!(calls, ["follow::x my::a (x) -> a"]);
}

#[test]
fn an_output_that_is_read_inside_too_is_an_output() {
    let mut program = method(&[("my::a", &["x"], "a"), ("my::b", &["a"], "b")]);
    let first = program.functions[0].body.calls[0].outputs[0];
    program.functions[0].body.outputs.push(first);
    program.functions[0].outputs.push(Output::Value(first));
    partition(&mut program, &[Box::new(Mine)], &|_, _| Ok(())).unwrap();
    let calls = &program.functions[0].body.calls;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].outputs.len(), 2);
}
