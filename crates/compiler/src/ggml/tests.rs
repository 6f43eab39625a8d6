//! Payloads of hand-made methods.

use super::*;
use crate::ir::{Arg, Input, Kind, Origin, Output, Program, TensorType};
use crate::partition::{Report, partition};
use crate::size::{Known, Size};
use sconce_format::ScalarType;
use sconce_format::ggml::{Extent, Graph, Op, Role};

/// A method in the making.
#[derive(Default)]
struct Method {
    program: Program<'static>,
    function: Function,
}

impl Method {
    fn input(&mut self, ty: TensorType) -> ValueId {
        let value = self.function.value(Kind::Tensor(ty), Origin::Input, "x");
        self.function.inputs.push(Input::Value(value));
        self.function.body.inputs.push(value);
        value
    }

    fn numbers(&mut self, sizes: &[i64]) -> ValueId {
        let count: i64 = sizes.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|number| (number as f32).to_le_bytes()).collect();
        let id = self.program.constants.add("w", bytes);
        self.function.value(Kind::Tensor(floats(sizes)), Origin::Constant(id), "w")
    }

    fn call(&mut self, operator: &'static str, args: Vec<(&'static str, Arg)>, ty: TensorType) -> ValueId {
        let value = self.function.value(Kind::Tensor(ty), Origin::Call, operator);
        self.function.body.calls.push(Call::new(operator, args, vec![value]));
        value
    }

    fn partitioned(mut self, result: ValueId, own: Ggml) -> (Program<'static>, Report) {
        self.function.outputs = vec![Output::Value(result)];
        self.function.body.outputs = vec![result];
        self.program.functions.push(self.function);
        let report = partition(&mut self.program, &[Box::new(own)], &|_, _| Ok(())).unwrap();
        (self.program, report)
    }

    /// The payload of a method of which all is delegated in one part.
    fn graph(self, result: ValueId) -> Graph {
        let (program, report) = self.partitioned(result, Ggml::default());
        assert_eq!(report.refused, []);
        assert_eq!(program.delegates.len(), 1);
        Graph::read(&program.delegates[0].payload).unwrap()
    }
}

fn floats(sizes: &[i64]) -> TensorType {
    TensorType::fixed(ScalarType::Float, sizes)
}

fn ops(graph: &Graph) -> Vec<&Op> {
    graph.tensors.iter().map(|tensor| &tensor.op).filter(|op| **op != Op::Leaf).collect()
}

#[test]
fn a_product_with_a_known_matrix_is_a_linear_layer() {
    let mut method = Method::default();
    let (x, bias, weight) = (method.input(floats(&[2, 4])), method.numbers(&[3]), method.numbers(&[4, 3]));
    let args = vec![("self", bias.into()), ("mat1", x.into()), ("mat2", weight.into())];
    let y = method.call("aten::addmm", args, floats(&[2, 3]));
    let z = method.call("aten::leaky_relu", vec![("self", y.into()), ("negative_slope", 0.5.into())], floats(&[2, 3]));
    let (program, report) = method.partitioned(z, Ggml::default());
    assert_eq!((report.refused.len(), program.delegates.len()), (0, 1));
    let graph = Graph::read(&program.delegates[0].payload).unwrap();
    assert_eq!(ops(&graph), [&Op::Linear, &Op::LeakyRelu { slope: 0.5 }]);
    // Rows and columns are exchanged: the first row is the first column.
    let Role::Constant(key) = &graph.tensors[1].role else { panic!("no constant") };
    let (_, data) = program.delegates[0].data.iter().find(|(own, _)| own == key).unwrap();
    let bytes = program.constants.data(data);
    let first: Vec<f32> = bytes.as_chunks().0.iter().take(4).map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!(first, [0.0, 3.0, 6.0, 9.0]);
}

#[test]
fn what_ggml_does_not_compute_is_refused_in_words() {
    let mut method = Method::default();
    let long = TensorType::fixed(ScalarType::Long, &[2]);
    let x = method.input(long.clone());
    let y = method.call("aten::add.Tensor", vec![("self", x.into()), ("other", x.into())], long);
    let (program, report) = method.partitioned(y, Ggml::default());
    assert!(program.delegates.is_empty());
    assert!(report.refused[0].to_string().contains("float32"), "{}", report.refused[0]);
}

#[test]
fn sizes_follow_those_of_inputs() {
    let mut method = Method::default();
    let symbol = method.function.symbols.add(Known { name: "s0".to_owned(), least: 1, most: 8 });
    let size = Size::from(symbol);
    let x = method.input(TensorType::new(ScalarType::Float, vec![size.clone(), 4.into()]));
    method.function.definitions.insert(symbol, crate::ir::Definition::SizeOf(x, 0));
    let flat = TensorType::new(ScalarType::Float, vec![size.times(&4.into())]);
    let y = method.call("aten::view", vec![("self", x.into()), ("size", vec![Size::from(-1)].into())], flat);
    let graph = method.graph(y);
    assert_eq!(graph.tensors[0].sizes, [Extent::symbol(0), Extent::Fixed(4)]);
    assert_eq!(graph.bind(&[&[3, 4]]).unwrap().sizes[1], [12]);
}

#[test]
fn a_buffer_that_one_call_writes_stays_with_the_backend() {
    let mut method = Method::default();
    let id = method.program.constants.add("cache", vec![0; 4 * 8 * 2]);
    let cache = method.function.value(Kind::Tensor(floats(&[8, 2])), Origin::State(id), "cache");
    let (x, place) = (method.input(floats(&[1, 2])), method.input(TensorType::fixed(ScalarType::Long, &[1])));
    let args = vec![("self", cache.into()), ("indices", Arg::Values(vec![Some(place)])), ("values", x.into())];
    let next = method.call("aten::index_put", args, floats(&[8, 2]));
    let y = method.call("aten::relu", vec![("self", next.into())], floats(&[8, 2]));
    method.function.updates.push((cache, next));
    let (program, _) = method.partitioned(y, Ggml::default());
    assert!(program.functions[0].updates.is_empty());
    let graph = Graph::read(&program.delegates[0].payload).unwrap();
    let states = graph.tensors.iter().filter(|tensor| tensor.role == Role::State(None)).count();
    assert_eq!((states, graph.inputs().len(), graph.outputs().len()), (1, 2, 1));
}

#[test]
fn a_buffer_that_is_read_before_it_is_written_stays_with_the_program() {
    let mut method = Method::default();
    let id = method.program.constants.add("cache", vec![0; 4 * 8 * 2]);
    let cache = method.function.value(Kind::Tensor(floats(&[8, 2])), Origin::State(id), "cache");
    let (x, place) = (method.input(floats(&[1, 2])), method.input(TensorType::fixed(ScalarType::Long, &[1])));
    let args = vec![("self", cache.into()), ("indices", Arg::Values(vec![Some(place)])), ("values", x.into())];
    let next = method.call("aten::index_put", args, floats(&[8, 2]));
    let y = method.call("aten::relu", vec![("self", cache.into())], floats(&[8, 2]));
    method.function.updates.push((cache, next));
    let (program, _) = method.partitioned(y, Ggml::default());
    assert_eq!(program.functions[0].updates.len(), 1);
}

#[test]
fn weights_become_blocks_where_rows_are_whole_blocks() {
    fn quantizer(element: Element, row: usize, numbers: &[f32]) -> Result<Vec<u8>, String> {
        assert_eq!(numbers.len() % row, 0);
        let (block, bytes) = element.block();
        Ok(vec![0; numbers.len() / block * bytes])
    }
    for (columns, expected) in [(256, Element::Q4K), (96, Element::Q8_0), (100, Element::F32)] {
        let mut method = Method::default();
        let (x, weight) = (method.input(floats(&[1, columns])), method.numbers(&[16, columns]));
        let y = method.call("aten::linear", vec![("input", x.into()), ("weight", weight.into())], floats(&[1, 16]));
        let own = Ggml { blocks: Some(Blocks { element: Element::Q4K, quantizer }), weights: None };
        let (program, _) = method.partitioned(y, own);
        let graph = Graph::read(&program.delegates[0].payload).unwrap();
        assert_eq!(graph.tensors[1].element, expected);
    }
}
