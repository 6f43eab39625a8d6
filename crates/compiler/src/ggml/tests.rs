//! Payloads of hand-made methods.

use super::*;
use crate::ir::{Arg, Input, Kind, Origin, Output, Program, TensorType, parse};
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
        self.named("w", sizes)
    }

    fn named(&mut self, name: &str, sizes: &[i64]) -> ValueId {
        let count: i64 = sizes.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|number| (number as f32).to_le_bytes()).collect();
        let id = self.program.constants.add(name, bytes);
        self.function.value(Kind::Tensor(floats(sizes)), Origin::Constant(id), "w")
    }

    fn call(&mut self, operator: &'static str, args: Vec<(&'static str, Arg)>, ty: TensorType) -> ValueId {
        let value = self.function.value(Kind::Tensor(ty), Origin::Call, operator);
        self.function.body.calls.push(Call::new(operator, args, vec![value]));
        value
    }

    fn partitioned(self, result: ValueId, own: Ggml) -> (Program<'static>, Report) {
        self.attempted(result, own).unwrap()
    }

    fn attempted(mut self, result: ValueId, own: Ggml) -> Result<(Program<'static>, Report), Error> {
        self.function.outputs = vec![Output::Value(result)];
        self.function.body.outputs = vec![result];
        self.program.functions.push(self.function);
        let report = partition(&mut self.program, &[Box::new(own)], &|_, _| Ok(()))?;
        Ok((self.program, report))
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

/// Nothing can see such a buffer, so there is nothing to run.
#[test]
fn a_part_that_only_writes_a_buffer_is_left_out() {
    let text = "@0 = \"cache\" 64 bytes\nmethod \"f\"\n%0: float32[1, 2] = input\n%1: int64[1] = input\n\
                %2: float32[8, 2] = state @0\n%3: float32[8, 2] = aten::index_put(self: %2, indices: [%1], values: %0)\n\
                %4: float32[1, 2] = my::other(self: %0)\nupdate %2 = %3\noutput %4";
    let mut program = parse(text).unwrap();
    let report = partition(&mut program, &[Box::new(Ggml::default())], &|_, _| Ok(())).unwrap();
    assert_eq!((report.delegated.len(), program.delegates.len()), (0, 0));
    let text = program.functions[0].to_string();
    assert!(!text.contains("update") && !text.contains("delegate"), "{text}");
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

/// A GGUF file of the llama family with 2 heads, and with these tensors: sizes innermost first, and type. All data are the
/// same zeros.
fn weights(tensors: &[(&str, &[u64], u32)]) -> Weights {
    fn text(file: &mut Vec<u8>, text: &str) {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    }
    let mut file = Vec::from(*b"GGUF\x03\0\0\0");
    file.extend([tensors.len() as u64, 2].map(u64::to_le_bytes).concat());
    text(&mut file, "general.architecture");
    file.extend(8u32.to_le_bytes());
    text(&mut file, "llama");
    text(&mut file, "llama.attention.head_count");
    file.extend([4u32, 2].map(u32::to_le_bytes).concat());
    for (name, sizes, kind) in tensors {
        text(&mut file, name);
        file.extend((sizes.len() as u32).to_le_bytes());
        file.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        file.extend(kind.to_le_bytes());
        file.extend(0u64.to_le_bytes());
    }
    file.resize(file.len() + 8192, 0);
    Weights::read(&file).unwrap()
}

/// A table, a norm, the keys of a layer, and the head.
fn language_model(method: &mut Method) -> ValueId {
    let ids = method.input(TensorType::fixed(ScalarType::Long, &[3]));
    let table = method.named("model.embed_tokens.weight", &[8, 32]);
    let rows = floats(&[3, 32]);
    let x = method.call("aten::embedding", vec![("weight", table.into()), ("indices", ids.into())], rows.clone());
    let scale = method.named("model.norm.weight", &[32]);
    let args = vec![("input", x.into()), ("normalized_shape", vec![Size::from(32)].into()), ("weight", scale.into())];
    let x = method.call("aten::rms_norm", args, rows.clone());
    let keys = method.named("model.layers.0.self_attn.k_proj.weight", &[32, 32]);
    let x = method.call("aten::linear", vec![("input", x.into()), ("weight", keys.into())], rows);
    let head = method.named("lm_head.weight", &[8, 32]);
    method.call("aten::linear", vec![("input", x.into()), ("weight", head.into())], floats(&[3, 8]))
}

/// Types of ggml.
const F32: u32 = 0;
const F16: u32 = 1;
const Q8_0: u32 = 8;

#[test]
fn weights_stay_in_their_file() {
    let mut method = Method::default();
    let y = language_model(&mut method);
    let stored = weights(&[
        ("token_embd.weight", &[32, 8], Q8_0),
        ("output_norm.weight", &[32], F32),
        ("blk.0.attn_k.weight", &[32, 32], F16),
    ]);
    let (program, report) = method.partitioned(y, Ggml { blocks: None, weights: Some(stored) });
    assert_eq!(report.refused, []);
    assert_eq!(program.delegates[0].data, []);
    let graph = Graph::read(&program.delegates[0].payload).unwrap();
    let constants: Vec<_> = graph
        .tensors
        .iter()
        .filter_map(|tensor| match &tensor.role {
            Role::Constant(key) => Some((&key[..], tensor.element, tensor.sizes.len())),
            _ => None,
        })
        .collect();
    // The head is the table: they are tied, and one tensor.
    let expected = [
        ("token_embd.weight", Element::Q8_0, 2),
        ("output_norm.weight", Element::F32, 1),
        ("blk.0.attn_k.weight", Element::F16, 2),
    ];
    assert_eq!(constants, expected);
    // Keys of two heads of 16: pairs become halves.
    let halves = Op::Permute { order: vec![0, 2, 1] };
    let expected = [&Op::Embedding, &Op::RmsNorm { epsilon: f32::EPSILON }, &Op::Linear, &Op::View, &halves, &Op::View];
    assert_eq!(ops(&graph)[..6], expected);
    assert!(graph.tensors.iter().any(|tensor| tensor.sizes == [6, 8, 2].map(Extent::Fixed)));
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let refused = |tensors: &[(&str, &[u64], u32)]| {
        let mut method = Method::default();
        let y = language_model(&mut method);
        let own = Ggml { blocks: None, weights: Some(weights(tensors)) };
        method.attempted(y, own).unwrap_err().to_string()
    };
    let sizes = refused(&[("token_embd.weight", &[32, 9], F32)]);
    assert!(sizes.contains("model.embed_tokens.weight has the sizes [8, 32]"), "{sizes}");
    assert!(sizes.contains("token_embd.weight in the file of weights [9, 32]"), "{sizes}");
    let element = refused(&[("output_norm.weight", &[32], F16)]);
    assert!(element.contains("model.norm.weight is output_norm.weight"), "{element}");
    assert!(element.contains("cannot be f16"), "{element}");
    let unknown = refused(&[("token_embd.weight", &[32, 8], 20)]);
    assert!(unknown.contains("of ggml's type 20"), "{unknown}");
}

#[test]
fn what_the_file_has_not_stays_in_the_program() {
    let mut method = Method::default();
    let y = language_model(&mut method);
    let stored = weights(&[("output_norm.weight", &[32], F32)]);
    let (program, _) = method.partitioned(y, Ggml { blocks: None, weights: Some(stored) });
    // The table and the head have the same numbers.
    assert_eq!(program.delegates[0].data.len(), 2);
}
