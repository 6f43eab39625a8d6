//! Rules on methods written down as text: what they give is there in the official runtime, and sizes may be unknown.

use sconce_compiler::ir::{Call, Program, parse};
use sconce_compiler::{Error, lower, signature};

/// A method without its first line, lowered.
fn lowered(text: &str) -> Result<Program<'static>, Error> {
    let mut program = parse(&format!("method \"f\"\n{text}")).unwrap();
    let Program { functions, constants, .. } = &mut program;
    lower::lower(&mut functions[0], constants)?;
    Ok(program)
}

/// The operators that a method calls when it is lowered.
fn operators(text: &str) -> Vec<String> {
    let program = lowered(text).unwrap();
    let calls = program.functions[0].body.calls.iter();
    calls.filter_map(|call| call.operator().map(str::to_owned)).collect()
}

/// Why a method cannot be lowered.
fn refused(text: &str) -> String {
    lowered(text).unwrap_err().to_string()
}

/// Whether the official runtime has all that is called when a method is lowered; views need nothing.
fn is_official(text: &str) -> bool {
    let program = lowered(text).unwrap();
    let function = &program.functions[0];
    let known = |call: &Call| signature::find(call, function).is_some_and(|found| found.official);
    function.body.calls.iter().all(known)
}

#[test]
fn functions_of_each_element_are_official_whatever_the_sizes_are() {
    let operators = [
        "silu",
        "hardswish",
        "hardsigmoid",
        "mish",
        "selu",
        "celu",
        "softplus",
        "softshrink",
        "hardshrink",
        "log_sigmoid",
        "relu6",
        "square",
        "frac",
        "exp2",
        "absolute",
        "arctanh",
        "nan_to_num",
        "zeros_like",
        "clone",
        "detach",
        "alias_copy",
    ];
    for operator in operators {
        let text = format!(
            "symbol s0 in 1..8 = size 0 of %0\n%0: float32[s0, 4] = input\n\
             %1: float32[s0, 4] = aten::{operator}(self: %0)\noutput %1"
        );
        assert!(is_official(&text), "{operator}: {}", lowered(&text).unwrap());
    }
}

#[test]
fn a_pool_of_rows_is_a_pool_of_images_of_one_row() {
    let calls = operators(
        "%0: float32[2, 3, 8] = input\n%1: float32[2, 3, 4] = aten::max_pool1d(self: %0, kernel_size: [2])\noutput %1",
    );
    assert_eq!(calls, ["aten::view", "aten::max_pool2d_with_indices", "aten::view"]);
}

#[test]
fn a_pool_to_one_element_is_the_mean() {
    let calls = operators(
        "symbol s0 in 1..8 = size 2 of %0\nsymbol s1 in 1..8 = size 3 of %0\n%0: float32[1, 3, s0, s1] = input\n\
         %1: float32[1, 3, 1, 1] = aten::adaptive_avg_pool2d(self: %0, output_size: [1, 1])\noutput %1",
    );
    assert_eq!(calls, ["aten::mean.dim"]);
}

#[test]
fn a_recurrent_layer_multiplies_the_input_once() {
    let text = "%0: float32[5, 2, 3] = input\n%1: float32[1, 2, 4] = input\n%2: float32[12, 3] = input\n\
                %3: float32[12, 4] = input\n%4: float32[5, 2, 4], %5: float32[1, 2, 4] = aten::gru.input(input: %0, hx: %1, \
                params: [%2, %3], has_biases: false, num_layers: 1, dropout: 0.0, train: false, bidirectional: false, \
                batch_first: false)\noutput %4\noutput %5";
    assert_eq!(operators(text).iter().filter(|name| *name == "aten::linear").count(), 1 + 5);
    assert!(is_official(text));
}

#[test]
fn attention_over_sequences_of_unknown_length_is_official() {
    let ty = "float32[1, 2, s0, 8]";
    let text = format!(
        "symbol s0 in 1..8 = size 2 of %0\n%0: {ty} = input\n%1: {ty} = input\n%2: {ty} = input\n\
         %3: {ty} = aten::scaled_dot_product_attention(query: %0, key: %1, value: %2, is_causal: true)\noutput %3"
    );
    assert!(operators(&text).iter().any(|name| name == "aten::_softmax"));
    assert!(is_official(&text));
}

#[test]
fn what_is_found_is_not_more_than_there_is() {
    let program = lowered(
        "symbol u0 in 0.. = size 0 of %1\n%0: float32[3, 5] = input\n%1: int64[u0, 2] = aten::nonzero(self: %0)\noutput %1",
    );
    assert!(program.unwrap().to_string().contains("symbol u0 in 0..15 = size 0 of"));
}

#[test]
fn a_number_may_come_first() {
    let calls = operators("%0: float32[4] = input\n%1: float32[4] = aten::sub.Tensor(self: 2, other: %0)\noutput %1");
    assert_eq!(calls, ["aten::full", "aten::sub.Tensor"]);
}

#[test]
fn training_is_told_from_use() {
    let inputs = "%1: float32[3] = input\n%2: float32[3] = input";
    for (sizes, operator, training) in
        [("2, 3", "batch_norm", "training"), ("2, 3, 4", "instance_norm", "use_input_stats")]
    {
        let error = refused(&format!(
            "%0: float32[{sizes}] = input\n{inputs}\n%3: float32[{sizes}] = aten::{operator}(input: %0, \
             running_mean: %1, running_var: %2, {training}: true)\noutput %3"
        ));
        assert!(error.contains("call eval() before the export"), "{error}");
    }
}

#[test]
fn a_dropout_draws_in_training_only() {
    let dropout = |operator: &str, p: f64, train: bool| {
        format!(
            "%0: float32[2, 3, 4] = input\n%1: float32[2, 3, 4] = aten::{operator}(input: %0, p: {p:?}, train: {train})\n\
             output %1"
        )
    };
    assert!(operators(&dropout("dropout", 0.5, false)).is_empty());
    assert!(operators(&dropout("feature_dropout", 0.0, true)).is_empty());
    assert_eq!(operators(&dropout("alpha_dropout", 1.0, true)), ["aten::mul.Scalar"]);
    assert_eq!(operators(&dropout("dropout", 0.5, true)), ["aten::native_dropout"]);
    let error = refused(&dropout("dropout", 1.5, true));
    assert!(error.contains("the probability 1.5"), "{error}");
}

/// An export may say anything of a result; a rule that believes it would make a view of other elements.
#[test]
fn a_result_that_the_operator_does_not_give_is_refused() {
    let error = refused(
        "%0: float32[1, 2, 3, 8] = input\n%1: float32[1, 2, 3, 800] = \
         aten::scaled_dot_product_attention(query: %0, key: %0, value: %0)\noutput %1",
    );
    assert!(error.contains("a type that aten::matmul does not give"), "{error}");
}

#[test]
fn fourier_transforms_that_torch_has_not_are_refused() {
    for (operator, arg, reason) in [
        ("fft_fft", "n: 0", "of 0 points"),
        ("fft_irfft", "n: 0", "to 0 points"),
        ("fft_fft", "norm: \"backwards\"", "\"backwards\""),
        ("fft_fft", "dim: 2", "does not have"),
        ("fft_fftn", "dim: [0, -2]", "twice"),
        ("fft_fft2", "s: [4]", "1 sizes along 2 dimensions"),
        ("istft", "n_fft: 16, hop_length: 0", "by 0 with"),
        ("istft", "n_fft: 16, win_length: 17", "a window of 17"),
        ("istft", "n_fft: 16, onesided: false", "other than 16 frequencies"),
        ("stft", "n_fft: 16, onesided: true", "half of the spectrum of complex"),
    ] {
        let error = refused(&format!(
            "%0: complex64[2, 9] = input\n%1: float32[2, 9] = aten::{operator}(self: %0, {arg})\noutput %1"
        ));
        assert!(error.contains(reason), "{operator} {arg}: {error}");
    }
}

/// The same of a size that nothing tells before the result is there.
#[test]
fn a_size_that_only_the_result_tells_is_refused() {
    let error = refused(
        "symbol u0 in 0..5 = size 0 of %1\n%0: float32[2, 3] = input\n\
         %1: float32[u0] = aten::reshape(self: %0, shape: [6])\noutput %1",
    );
    assert!(error.contains("aten::view with a size that only its result tells cannot be compiled"), "{error}");
}
