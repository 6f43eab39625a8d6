//! Rules on functions made by hand: what they give is there in the official runtime, and sizes may be unknown.

use sconce_compiler::ir::{Arg, Call, Constants, Function, Kind, Origin, Output, TensorType, ValueId};
use sconce_compiler::size::{Known, Size};
use sconce_compiler::{Error, lower, signature};
use sconce_format::ScalarType;

/// A function of one call, whose first argument is a tensor of the first type.
struct Single {
    function: Function,
    constants: Constants<'static>,
}

impl Single {
    fn new() -> Self {
        Self { function: Function::default(), constants: Constants::default() }
    }

    fn input(&mut self, dtype: ScalarType, sizes: Vec<Size>) -> ValueId {
        let value = self.function.value(Kind::Tensor(TensorType::new(dtype, sizes)), Origin::Input, "input");
        self.function.body.inputs.push(value);
        value
    }

    fn symbol(&mut self, name: &str) -> Size {
        self.function.symbols.add(Known { name: name.to_owned(), least: 1, most: 8 }).into()
    }

    /// Lowers a call with these results and gives the names of the calls that came of it.
    fn lower(
        &mut self,
        operator: &'static str,
        args: Vec<(&'static str, Arg)>,
        results: Vec<TensorType>,
    ) -> Result<Vec<String>, Error> {
        let results: Vec<ValueId> =
            results.into_iter().map(|ty| self.function.value(Kind::Tensor(ty), Origin::Call, "result")).collect();
        self.function.body.outputs.clone_from(&results);
        self.function.outputs = results.iter().map(|value| Output::Value(*value)).collect();
        self.function.body.calls.push(Call::new(operator, args, results));
        lower::lower(&mut self.function, &mut self.constants)?;
        let calls = &self.function.body.calls;
        Ok(calls.iter().filter_map(|call| call.operator().map(str::to_owned)).collect())
    }

    /// Whether the official runtime has all that is called; views need nothing.
    fn is_official(&self) -> bool {
        let known = |call: &Call| signature::find(call, &self.function).is_some_and(|found| found.official);
        self.function.body.calls.iter().all(known)
    }
}

fn sizes(numbers: &[i64]) -> Vec<Size> {
    numbers.iter().map(|&number| number.into()).collect()
}

fn float(numbers: &[i64]) -> TensorType {
    TensorType::fixed(ScalarType::Float, numbers)
}

#[test]
fn functions_of_each_element_are_official_whatever_the_sizes_are() {
    let operators = [
        "aten::silu",
        "aten::hardswish",
        "aten::hardsigmoid",
        "aten::mish",
        "aten::selu",
        "aten::celu",
        "aten::softplus",
        "aten::softshrink",
        "aten::hardshrink",
        "aten::log_sigmoid",
        "aten::relu6",
        "aten::square",
        "aten::frac",
        "aten::exp2",
        "aten::absolute",
        "aten::arctanh",
        "aten::nan_to_num",
        "aten::zeros_like",
        "aten::clone",
        "aten::detach",
        "aten::alias_copy",
    ];
    for operator in operators {
        let mut single = Single::new();
        let ty = TensorType::new(ScalarType::Float, vec![single.symbol("s0"), 4.into()]);
        let x = single.input(ty.dtype, ty.sizes.clone());
        single.lower(operator, vec![("self", x.into())], vec![ty]).unwrap();
        assert!(single.is_official(), "{operator}: {:?}", single.function.body.calls);
    }
}

#[test]
fn a_pool_of_rows_is_a_pool_of_images_of_one_row() {
    let mut single = Single::new();
    let x = single.input(ScalarType::Float, sizes(&[2, 3, 8]));
    let args = vec![("self", x.into()), ("kernel_size", vec![2].into())];
    let calls = single.lower("aten::max_pool1d", args, vec![float(&[2, 3, 4])]).unwrap();
    assert_eq!(calls, ["aten::view", "aten::max_pool2d_with_indices", "aten::view"]);
}

#[test]
fn a_pool_to_one_element_is_the_mean() {
    let mut single = Single::new();
    let (height, width) = (single.symbol("s0"), single.symbol("s1"));
    let x = single.input(ScalarType::Float, vec![1.into(), 3.into(), height, width]);
    let args = vec![("self", x.into()), ("output_size", vec![1, 1].into())];
    let calls = single.lower("aten::adaptive_avg_pool2d", args, vec![float(&[1, 3, 1, 1])]).unwrap();
    assert_eq!(calls, ["aten::mean.dim"]);
}

#[test]
fn a_recurrent_layer_multiplies_the_input_once() {
    let mut single = Single::new();
    let x = single.input(ScalarType::Float, sizes(&[5, 2, 3]));
    let state = single.input(ScalarType::Float, sizes(&[1, 2, 4]));
    let weights = [[12, 3], [12, 4]].map(|shape| single.input(ScalarType::Float, sizes(&shape)));
    let args = vec![
        ("input", x.into()),
        ("hx", state.into()),
        ("params", weights.to_vec().into()),
        ("has_biases", false.into()),
        ("num_layers", 1.into()),
        ("dropout", 0.0.into()),
        ("train", false.into()),
        ("bidirectional", false.into()),
        ("batch_first", false.into()),
    ];
    let calls = single.lower("aten::gru.input", args, vec![float(&[5, 2, 4]), float(&[1, 2, 4])]).unwrap();
    assert_eq!(calls.iter().filter(|name| *name == "aten::linear").count(), 1 + 5);
    assert!(single.is_official());
}

#[test]
fn attention_over_sequences_of_unknown_length_is_official() {
    let mut single = Single::new();
    let ty = TensorType::new(ScalarType::Float, vec![1.into(), 2.into(), single.symbol("s0"), 8.into()]);
    let [q, k, v] = [0; 3].map(|_| single.input(ty.dtype, ty.sizes.clone()));
    let args = vec![("query", q.into()), ("key", k.into()), ("value", v.into()), ("is_causal", true.into())];
    let calls = single.lower("aten::scaled_dot_product_attention", args, vec![ty]).unwrap();
    assert!(calls.iter().any(|name| name == "aten::_softmax"), "{calls:?}");
    assert!(single.is_official());
}

#[test]
fn what_is_found_is_not_more_than_there_is() {
    let mut single = Single::new();
    let found = single.function.symbols.add(Known { name: "u0".to_owned(), least: 0, most: i64::MAX });
    let x = single.input(ScalarType::Float, sizes(&[3, 5]));
    let ty = TensorType::new(ScalarType::Long, vec![found.into(), 2.into()]);
    single.lower("aten::nonzero", vec![("self", x.into())], vec![ty]).unwrap();
    assert_eq!(single.function.symbols.most(&found.into()), 15);
}

#[test]
fn a_number_may_come_first() {
    let mut single = Single::new();
    let x = single.input(ScalarType::Float, sizes(&[4]));
    let calls = single.lower("aten::sub.Tensor", vec![("self", 2.into()), ("other", x.into())], vec![float(&[4])]);
    assert_eq!(calls.unwrap(), ["aten::full", "aten::sub.Tensor"]);
}

#[test]
fn training_is_told_from_use() {
    let mut single = Single::new();
    let x = single.input(ScalarType::Float, sizes(&[2, 3]));
    let [mean, variance] = [0; 2].map(|_| single.input(ScalarType::Float, sizes(&[3])));
    let args = vec![
        ("input", x.into()),
        ("running_mean", mean.into()),
        ("running_var", variance.into()),
        ("training", true.into()),
    ];
    let error = single.lower("aten::batch_norm", args, vec![float(&[2, 3])]).unwrap_err().to_string();
    assert!(error.contains("call eval() before the export"), "{error}");
}

#[test]
fn a_dropout_draws_in_training_only() {
    let dropout = |operator, p: f64, train: bool| {
        let mut single = Single::new();
        let x = single.input(ScalarType::Float, sizes(&[2, 3, 4]));
        let args = vec![("input", x.into()), ("p", p.into()), ("train", train.into())];
        single.lower(operator, args, vec![float(&[2, 3, 4])])
    };
    assert!(dropout("aten::dropout", 0.5, false).unwrap().is_empty());
    assert!(dropout("aten::feature_dropout", 0.0, true).unwrap().is_empty());
    assert_eq!(dropout("aten::alpha_dropout", 1.0, true).unwrap(), ["aten::mul.Scalar"]);
    assert_eq!(dropout("aten::dropout", 0.5, true).unwrap(), ["aten::native_dropout"]);
    let error = dropout("aten::dropout", 1.5, true).unwrap_err().to_string();
    assert!(error.contains("the probability 1.5"), "{error}");
}

#[test]
fn a_norm_that_tracks_statistics_in_training_is_refused() {
    let mut single = Single::new();
    let x = single.input(ScalarType::Float, sizes(&[2, 3, 4]));
    let [mean, variance] = [0; 2].map(|_| single.input(ScalarType::Float, sizes(&[3])));
    let args = vec![
        ("input", x.into()),
        ("running_mean", mean.into()),
        ("running_var", variance.into()),
        ("use_input_stats", true.into()),
    ];
    let error = single.lower("aten::instance_norm", args, vec![float(&[2, 3, 4])]).unwrap_err().to_string();
    assert!(error.contains("call eval() before the export"), "{error}");
}

/// What a rule of Fourier transforms says about an argument.
fn refused(operator: &'static str, name: &'static str, arg: Arg) -> String {
    let mut single = Single::new();
    let x = single.input(ScalarType::ComplexFloat, sizes(&[2, 9]));
    let args = vec![("self", x.into()), ("n_fft", 16.into()), (name, arg)];
    let args = args.into_iter().filter(|(own, _)| *own != "n_fft" || operator.ends_with("stft")).collect();
    single.lower(operator, args, vec![float(&[2, 9])]).unwrap_err().to_string()
}

#[test]
fn fourier_transforms_that_torch_has_not_are_refused() {
    for (operator, name, arg, reason) in [
        ("aten::fft_fft", "n", 0.into(), "of 0 points"),
        ("aten::fft_irfft", "n", 0.into(), "to 0 points"),
        ("aten::fft_fft", "norm", Arg::Text("backwards".to_owned()), "\"backwards\""),
        ("aten::fft_fft", "dim", 2.into(), "does not have"),
        ("aten::fft_fftn", "dim", vec![0, -2].into(), "twice"),
        ("aten::fft_fft2", "s", vec![4].into(), "1 sizes along 2 dimensions"),
        ("aten::istft", "hop_length", 0.into(), "by 0 with"),
        ("aten::istft", "win_length", 17.into(), "a window of 17"),
        ("aten::istft", "onesided", false.into(), "other than 16 frequencies"),
        ("aten::stft", "onesided", true.into(), "half of the spectrum of complex"),
    ] {
        let error = refused(operator, name, arg);
        assert!(error.contains(reason), "{operator} {name}: {error}");
    }
}
