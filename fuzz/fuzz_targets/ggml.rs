//! Read a payload of the ggml delegate, place it and run it, with constants of zeros.
#![no_main]

use sconce_format::ggml::{Element, Graph, Role};
use sconce_ggml::{Model, Options};

/// Most bytes of anything.
const LIMIT: usize = 16 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(graph) = Graph::read(bytes) else { return };
    let zeros = vec![0; LIMIT];
    // Sizes that depend on inputs are two.
    let sizes = |place: u32| -> Vec<usize> {
        let tensor = &graph.tensors[place as usize];
        tensor.sizes.iter().map(|size| size.fixed().map_or(2, |size| usize::try_from(size).unwrap_or(0))).collect()
    };
    let room = |place: u32| {
        let element = graph.tensors[place as usize].element;
        element.bytes(&sizes(place)).filter(|&bytes| bytes <= LIMIT)
    };
    let named = |key: &str| {
        let is = |role: &Role| matches!(role, Role::Constant(own) | Role::State(Some(own)) if own == key);
        let place = graph.tensors.iter().position(|tensor| is(&tensor.role))?;
        Some(&zeros[..room(u32::try_from(place).ok()?)?])
    };
    let options = Options { device: Some("cpu".to_owned()), threads: Some(1), memory_limit: Some(LIMIT) };
    let Ok(model) = Model::new(graph.clone(), options, &named) else { return };
    let Ok(mut session) = model.session(1) else { return };
    let given: Vec<Vec<usize>> = graph.inputs().into_iter().map(sizes).collect();
    let given: Vec<&[usize]> = given.iter().map(Vec::as_slice).collect();
    let Some(inputs) = graph.inputs().into_iter().map(|place| Some(&zeros[..room(place)?])).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let Ok(made) = model.output_sizes(&mut session, &given) else { return };
    let element = |place: u32| graph.get(place).map_or(Element::F32, |tensor| tensor.element);
    let bytes = graph.outputs().into_iter().zip(&made).map(|(place, sizes)| element(place).bytes(sizes).unwrap_or(0));
    let mut outputs: Vec<Vec<u8>> = bytes.map(|bytes| vec![0; bytes]).collect();
    for _ in 0..2 {
        let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let _ = model.run(&mut session, &given, &inputs, &mut outputs);
    }
});
