//! Layers that share weights share what is packed of them, and compute what they would with weights of their own.
mod support;

use sconce_cpu::{Model, Options};
use sconce_parallel::Serial;
use support::{Weights, graph, run_sizes};

/// The result of three layers in a row with weights of these names, and the bytes that were packed.
fn run(names: [&str; 3]) -> (Vec<u8>, usize) {
    let numbers = (0..20 * 20).flat_map(|i: u32| ((i.wrapping_mul(2_654_435_761) >> 29) as f32 / 8.0).to_le_bytes());
    let weights = Weights::all(numbers.collect());
    let mut text = "%0: float32[2, 20] = input\n".to_owned();
    for (layer, name) in names.into_iter().enumerate() {
        let (filter, result) = (2 * layer + 1, 2 * layer + 2);
        text += &format!(
            "%{filter}: float32[20, 20] = constant \"{name}\"\n\
             %{result}: float32[2, 20] = linear %{}, %{filter} {{transposed: false}} then tanh\n",
            result - 2
        );
    }
    let model = Model::new(graph(&(text + "output %6\n")), Options::default(), &weights).unwrap();
    let input = 0.25f32.to_le_bytes().repeat(40);
    let (mut results, _) = run_sizes(&model, &weights, &Serial, &[&[2, 20]], &[&input]).unwrap();
    (results.swap_remove(0), model.packed_bytes())
}

#[test]
fn shared_weights_are_packed_once() {
    let [(own, thrice), (shared, once), (mixed, twice)] = [["a", "b", "c"], ["a", "a", "a"], ["a", "b", "a"]].map(run);
    assert!(once > 0 && (thrice, twice) == (3 * once, 2 * once), "{once}, {twice} and {thrice} bytes");
    assert!(own == shared && own == mixed);
}
