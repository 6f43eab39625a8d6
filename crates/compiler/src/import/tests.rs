//! Exports written by hand, and the text of what they become.

use super::*;
use serde_json::{Map, Value, json};

/// A graph in the making. All tensors are of float32, and inputs are those of the caller.
#[derive(Default)]
struct Export {
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    nodes: Vec<Value>,
    tensors: Map<String, Value>,
    numbers: Map<String, Value>,
}

fn tensor(name: &str) -> Value {
    json!({"as_tensor": {"name": name}})
}

/// A size: a number, or a symbol as torch writes it.
fn size(size: &Value) -> Value {
    match size {
        Value::String(symbol) => json!({"as_expr": {"expr_str": symbol, "hint": null}}),
        number => json!({"as_int": number}),
    }
}

impl Export {
    /// Says of what sizes a tensor is.
    fn value(&mut self, name: &str, sizes: &Value) {
        let sizes: Vec<Value> = sizes.as_array().unwrap().iter().map(size).collect();
        let strides = vec![json!({"as_int": 1}); sizes.len()];
        let meta = json!({"dtype": 7, "sizes": sizes, "strides": strides, "storage_offset": {"as_int": 0}});
        self.tensors.insert(name.to_owned(), meta);
    }

    fn input(mut self, name: &str, sizes: Value) -> Self {
        self.value(name, &sizes);
        self.inputs.push(tensor(name));
        self
    }

    /// A node whose arguments are tensors by name, or what the schema says.
    fn node(mut self, target: &str, inputs: &[(&str, Value)], output: &str, sizes: Value) -> Self {
        self.value(output, &sizes);
        self.step(target, inputs, tensor(output))
    }

    fn step(mut self, target: &str, inputs: &[(&str, Value)], output: Value) -> Self {
        let arg = |(name, arg): &(&str, Value)| match arg {
            Value::String(own) => json!({"name": name, "arg": tensor(own)}),
            other => json!({"name": name, "arg": other}),
        };
        let inputs: Vec<Value> = inputs.iter().map(arg).collect();
        self.nodes.push(json!({"target": format!("torch.ops.{target}"), "inputs": inputs, "outputs": [output]}));
        self
    }

    fn output(mut self, name: &str) -> Self {
        self.outputs.push(tensor(name));
        self
    }

    fn graph(&self) -> Value {
        json!({"inputs": self.inputs, "outputs": self.outputs, "nodes": self.nodes, "tensor_values": self.tensors,
               "sym_int_values": self.numbers})
    }

    fn read(self) -> Result<Vec<String>, String> {
        let spec = |kind: &str, own: &Value| json!({kind: {"arg": own}});
        let inputs: Vec<Value> = self.inputs.iter().map(|own| spec("user_input", own)).collect();
        let outputs: Vec<Value> = self.outputs.iter().map(|own| spec("user_output", own)).collect();
        let signature = json!({"input_specs": inputs, "output_specs": outputs});
        let program = json!({"graph_module": {"graph": self.graph(), "signature": signature},
                             "range_constraints": {"s0": {"min_val": 2, "max_val": 8}},
                             "schema_version": {"major": 8, "minor": 1}});
        let model = Model::new("model", serde_json::from_value(program).unwrap());
        let program = import(&Archive { models: vec![model] }).map_err(|error| error.to_string())?;
        Ok(program.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect())
    }
}

#[test]
fn a_write_becomes_a_result_and_an_update() {
    let export = Export::default().input("x", json!([4])).input("y", json!([4]));
    let export = export.node("aten.add_.Tensor", &[("self", "x".into()), ("other", "y".into())], "add_", json!([4]));
    let expected = [
        "%0: float32[4] \"x\" = input",
        "%1: float32[4] \"y\" = input",
        "%2: float32[4] \"torch.ops.aten.add_.Tensor\" = aten::add.Tensor(self: %0, other: %1)",
        "update %0 = %2",
        "output %2 \"add_\"",
    ];
    assert_eq!(export.output("add_").read().unwrap(), expected);
}

/// `a = x[1:3]; b = x[2:4]; a.relu_(); return b`
#[test]
fn a_write_through_a_view_is_seen_through_others() {
    let slice = |start: i64, end: i64| {
        [
            ("self", "x".into()),
            ("dim", json!({"as_int": 0})),
            ("start", json!({"as_int": start})),
            ("end", json!({"as_int": end})),
        ]
    };
    let export = Export::default().input("x", json!([4]));
    let export = export.node("aten.slice.Tensor", &slice(1, 3), "a", json!([2]));
    let export = export.node("aten.slice.Tensor", &slice(2, 4), "b", json!([2]));
    let export = export.node("aten.relu_.default", &[("self", "a".into())], "relu_", json!([2])).output("b");
    let expected = [
        "%0: float32[4] \"x\" = input",
        "%1: float32[2] \"a\" = aten::slice.Tensor(self: %0, dim: 0, start: 1, end: 3)",
        "%2: float32[2] \"b\" = aten::slice.Tensor(self: %0, dim: 0, start: 2, end: 4)",
        "%3: float32[2] \"torch.ops.aten.relu_.default\" = aten::relu(self: %1)",
        "%4: float32[4] \"written\" = aten::slice_scatter(self: %0, src: %3, dim: 0, start: 1, end: 3)",
        "%5: float32[2] \"view\" = aten::slice.Tensor(self: %4, dim: 0, start: 2, end: 4)",
        "update %0 = %4",
        "output %5 \"b\"",
    ];
    assert_eq!(export.read().unwrap(), expected);
}

#[test]
fn a_write_through_repeated_elements_is_refused() {
    let export = Export::default().input("x", json!([1]));
    let size = json!({"as_ints": [4]});
    let export = export.node("aten.expand.default", &[("self", "x".into()), ("size", size)], "e", json!([4]));
    let export = export.node("aten.relu_.default", &[("self", "e".into())], "relu_", json!([4])).output("relu_");
    let error = export.read().unwrap_err();
    assert!(error.contains("writing through expand cannot be compiled"), "{error}");
}

#[test]
fn operators_that_write_may_have_other_overloads_than_those_that_do_not() {
    let args = [("self", "x".into()), ("other", json!({"as_float": 2.0}))];
    let export = Export::default().input("x", json!([4])).node("aten.pow_.Scalar", &args, "pow_", json!([4]));
    let lines = export.output("pow_").read().unwrap();
    assert!(lines[1].ends_with("= aten::pow.Tensor_Scalar(self: %0, other: 2.0)"), "{}", lines[1]);
}

/// Arithmetic on sizes leaves no calls: sizes are expressions of symbols.
#[test]
fn sizes_are_expressions() {
    let mut export = Export::default().input("x", json!(["s0", 4]));
    for (name, expression) in [("rows", "s0"), ("twice", "2*s0")] {
        export.numbers.insert(name.to_owned(), size(&json!(expression)));
    }
    let number = |name: &str| json!({"as_sym_int": {"as_name": name}});
    let export =
        export.step("aten.sym_size.int", &[("self", "x".into()), ("dim", json!({"as_int": 0}))], number("rows"));
    let export = export.step("aten.sym_numel.default", &[("self", "x".into())], number("twice"));
    let sizes = json!({"as_sym_ints": [{"as_name": "twice"}, {"as_int": 2}]});
    let export = export.node("aten.view.default", &[("self", "x".into()), ("size", sizes)], "v", json!(["2*s0", 2]));
    let expected = [
        "symbol s0 in 2..8 = size 0 of %0",
        "%0: float32[s0, 4] \"x\" = input",
        "%1: float32[2*s0, 2] \"v\" = aten::view(self: %0, size: [2*s0, 2])",
        "output %1 \"v\"",
    ];
    assert_eq!(export.output("v").read().unwrap(), expected);
}

/// A branch whose one side gives a tensor of these sizes.
fn branch(sizes: Value) -> Result<Vec<String>, String> {
    let side = |operator: &str| {
        let side = Export::default().input("x", json!([4]));
        side.node(operator, &[("self", "x".into())], "y", json!([4])).output("y").graph()
    };
    let graph = |graph: Value| json!({"as_graph": {"name": "side", "graph": graph}});
    let passed = json!({"as_tensors": [{"name": "x"}]});
    let args = [
        ("", json!({"as_bool": true})),
        ("", graph(side("aten.abs.default"))),
        ("", graph(side("aten.neg.default"))),
        ("", passed),
    ];
    Export::default().input("x", json!([4])).node("higher_order.cond", &args, "c", sizes).output("c").read()
}

#[test]
fn branches_are_blocks() {
    let expected = [
        "%0: float32[4] \"x\" = input",
        "%5: float32[4] \"c\" = cond(condition: true, inputs: [%0])",
        "block %1: float32[4] \"x\"",
        "%2: float32[4] \"y\" = aten::abs(self: %1)",
        "give %2",
        "block %3: float32[4] \"x\"",
        "%4: float32[4] \"y\" = aten::neg(self: %3)",
        "give %4",
        "output %5 \"c\"",
    ];
    assert_eq!(branch(json!([4])).unwrap(), expected);
}

/// A file may say anything; what it says of itself must agree.
#[test]
fn a_branch_gives_what_the_file_says() {
    let error = branch(json!([5])).unwrap_err();
    let wrong = "cond gives %2: float32[4] \"y\" for %5: float32[5] \"c\"";
    assert!(
        error.starts_with("a graph that is not one (in the method \"forward\" ") && error.contains(wrong),
        "{error}"
    );
}

#[test]
fn names_that_nothing_has_are_named() {
    let export = Export::default().input("x", json!([4]));
    let error =
        export.node("aten.abs.default", &[("self", "y".into())], "a", json!([4])).output("a").read().unwrap_err();
    assert!(error.contains("the export mentions \"y\""), "{error}");
}
