//! Convolutions in strips give the numbers that they give one after the other.
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Graph, Source, parse};
use sconce_parallel::{Parallel, Pool, Serial};

/// Constants by name: small numbers that differ from place to place.
struct Weights(Vec<u8>);

impl Weights {
    fn new() -> Self {
        let number = |i: u32| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 4096.0 - 0.5;
        Self((0..200_000).flat_map(|i| number(i).to_le_bytes()).collect())
    }
}

impl Constants for Weights {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        matches!(source, Source::Named(_)).then_some(&self.0)
    }
}

/// Expand, filter, project and add, with a height that no strip divides.
const BLOCK: &str = "%0: float32[1, 61, 70, 8] = input
%1: float32[48, 3, 3, 8] = constant \"a\"
%2: float32[48] = constant \"b\"
%3: float32[1, 61, 70, 48] = conv2d %0, %1, %2 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then hard_swish
%4: float32[1, 5, 5, 48] = constant \"c\"
%5: float32[1, STEP] = depthwise_conv2d %3, %4 {stride: [STRIDE], padding: [2, 2, 2, 2], dilation: [1, 1]} then clamp {low: -3, high: 3}
%6: float32[40, 1, 1, 48] = constant \"d\"
%7: float32[1, LAST] = conv2d %5, %6 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}
%8: float32[1, LAST] = input
%9: float32[1, LAST] = add %7, %8
";

fn graph(stride: usize, outputs: &str) -> Graph {
    let (height, width) = (61usize.div_ceil(stride), 70usize.div_ceil(stride));
    let text = BLOCK.replace("STRIDE", &format!("{stride}, {stride}"));
    let text = text.replace("STEP", &format!("{height}, {width}, 48"));
    parse(&format!("{}output {outputs}\n", text.replace("LAST", &format!("{height}, {width}, 40")))).unwrap()
}

/// The last output, and how many steps made it.
fn run(graph: Graph, par: &dyn Parallel) -> (Vec<u8>, usize) {
    let (weights, sizes) = (Weights::new(), |i: usize| graph.ty(graph.inputs[i]).sizes());
    let shapes = [sizes(0), sizes(1)];
    let shapes = [&*shapes[0], &*shapes[1]];
    let model = Model::new(graph.clone(), Options { exact: true, ..Options::default() }, &weights).unwrap();
    let plan = model.plan(&shapes, par.width()).unwrap();
    let (inputs, outputs) = plan.argument_bytes();
    let inputs: Vec<&[u8]> = inputs.iter().map(|&bytes| &weights.0[weights.0.len() - bytes..]).collect();
    let mut results: Vec<Vec<u8>> = outputs.iter().map(|&bytes| vec![0; bytes]).collect();
    let mut slices: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
    model.run(&plan, &mut Session::default(), par, &weights, &inputs, &mut slices).unwrap();
    (results.pop().unwrap(), plan.steps().len())
}

#[test]
fn strips_are_the_whole() {
    // With a stride, the filtered image is too small to be worth it.
    for (stride, steps) in [(1, 1), (2, 2)] {
        // Values that are returned cannot be left out.
        let (expected, apart) = run(graph(stride, "%3, %5, %9"), &Serial);
        assert_eq!(apart, 3);
        let (found, together) = run(graph(stride, "%9"), &Serial);
        assert_eq!(together, steps, "stride {stride}");
        assert!(found == expected, "stride {stride}");
        for threads in [2, 3] {
            let (found, _) = run(graph(stride, "%9"), &Pool::new(threads));
            assert!(found == expected, "stride {stride}, {threads} threads");
        }
    }
}
