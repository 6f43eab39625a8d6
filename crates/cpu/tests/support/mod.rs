//! What the tests of plans share: constants by name, numbers that differ from place to place, and a run.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Graph, Source, parse};
use sconce_parallel::Parallel;

/// The bytes of constants by name. Those of the empty name are for all others, too.
pub struct Weights(pub Vec<(&'static str, Vec<u8>)>);

/// No constants.
pub const NOTHING: Weights = Weights(Vec::new());

impl Weights {
    /// The same for all names.
    pub fn all(bytes: Vec<u8>) -> Self {
        Self(vec![("", bytes)])
    }

    /// Those of int8 models: scales, biases and filters, and numbers for what has another name.
    pub fn mixed() -> Self {
        let scales = [0.01f32, 0.013, 0.007, 0.02].into_iter().cycle().take(200);
        let bias = (0..200).flat_map(|channel: i32| (channel * 37 - 1500).to_le_bytes());
        Self(vec![
            ("scales", scales.flat_map(f32::to_le_bytes).collect()),
            ("bias", bias.collect()),
            ("bytes", bytes(0, 100_000)),
            ("", to_bytes(&numbers(0, 600_000))),
        ])
    }

    /// The constant of a name.
    pub fn named(&self, name: &str) -> &[u8] {
        let found = self.0.iter().find(|(own, _)| *own == name || own.is_empty());
        found.map_or_else(|| panic!("no constant {name}"), |(_, bytes)| bytes)
    }
}

impl Constants for Weights {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        match source {
            Source::Named(name) if !self.0.is_empty() => Some(self.named(name)),
            Source::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

fn mixed(i: u32) -> u32 {
    i.wrapping_mul(2_654_435_761) >> 20
}

/// Numbers from -0.5 to 0.5 that differ from place to place.
pub fn numbers(start: u32, count: usize) -> Vec<f32> {
    (start..).take(count).map(|i| mixed(i) as f32 / 4096.0 - 0.5).collect()
}

/// Bytes that differ from place to place.
pub fn bytes(start: u32, count: usize) -> Vec<u8> {
    (start..).take(count).map(|i| mixed(i) as u8).collect()
}

/// Numbers as bytes.
pub fn to_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Bytes as numbers.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// The options with each instruction set that this machine has, and its name.
pub fn sets(options: Options) -> impl Iterator<Item = (&'static str, Options)> {
    let names = ["scalar", "avx2", "avx512", "vnni", "neon", "dotprod", "i8mm"];
    names.into_iter().filter_map(move |name| Some((name, options.with_instructions(name)?)))
}

/// A graph as text.
pub fn graph(text: &str) -> Graph {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The results of a graph, and what its steps are. Of each input the bytes that it needs are taken, from the first on.
pub fn run(
    graph: Graph,
    options: Options,
    weights: &dyn Constants,
    par: &dyn Parallel,
    inputs: &[&[u8]],
) -> (Vec<Vec<u8>>, Vec<String>) {
    let sizes: Vec<_> = graph.inputs.iter().map(|&input| graph.ty(input).sizes()).collect();
    let sizes: Vec<&[usize]> = sizes.iter().map(|sizes| &**sizes).collect();
    run_sizes(&Model::new(graph, options, weights).unwrap(), weights, par, &sizes, inputs).unwrap()
}

/// The same of a model for inputs of these sizes, or why it cannot be planned for them.
pub fn run_sizes(
    model: &Model,
    weights: &dyn Constants,
    par: &dyn Parallel,
    sizes: &[&[usize]],
    inputs: &[&[u8]],
) -> Result<(Vec<Vec<u8>>, Vec<String>), String> {
    let plan = model.plan(sizes, par.width()).map_err(|error| error.to_string())?;
    let (read, made) = plan.argument_bytes();
    let inputs: Vec<&[u8]> = inputs.iter().zip(read).map(|(input, &bytes)| &input[..bytes]).collect();
    let mut results: Vec<Vec<u8>> = made.iter().map(|&bytes| vec![7; bytes]).collect();
    let mut slices: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
    model.run(&plan, &mut Session::default(), par, weights, &inputs, &mut slices).unwrap();
    Ok((results, plan.steps().map(|step| step.what).collect()))
}
