//! Layers that share weights share what is packed of them, and compute what they would with weights of their own.
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Source, parse};
use sconce_parallel::Serial;

struct Weights(Vec<u8>);

impl Constants for Weights {
    fn bytes<'a>(&'a self, _: &'a Source) -> Option<&'a [u8]> {
        Some(&self.0)
    }
}

/// The result of three layers in a row with weights of these names, and the bytes that were packed.
fn run(names: [&str; 3]) -> (Vec<u8>, usize) {
    let numbers = (0..20 * 20).flat_map(|i: u32| ((i.wrapping_mul(2_654_435_761) >> 29) as f32 / 8.0).to_le_bytes());
    let weights = Weights(numbers.collect());
    let mut text = "%0: float32[2, 20] = input\n".to_owned();
    for (layer, name) in names.into_iter().enumerate() {
        let (filter, result) = (2 * layer + 1, 2 * layer + 2);
        text += &format!(
            "%{filter}: float32[20, 20] = constant \"{name}\"\n\
             %{result}: float32[2, 20] = linear %{}, %{filter} {{transposed: false}} then tanh\n",
            result - 2
        );
    }
    let model = Model::new(parse(&(text + "output %6\n")).unwrap(), Options::default(), &weights).unwrap();
    let plan = model.plan(&[&[2, 20]], 1).unwrap();
    let (input, mut output) = (0.25f32.to_le_bytes().repeat(40), vec![0; 160]);
    model.run(&plan, &mut Session::default(), &Serial, &weights, &[&input], &mut [&mut output]).unwrap();
    (output, model.packed_bytes())
}

#[test]
fn shared_weights_are_packed_once() {
    let [(own, thrice), (shared, once), (mixed, twice)] = [["a", "b", "c"], ["a", "a", "a"], ["a", "b", "a"]].map(run);
    assert!(once > 0 && (thrice, twice) == (3 * once, 2 * once), "{once}, {twice} and {thrice} bytes");
    assert!(own == shared && own == mixed);
}
