//! The gated delta rule over a state per head.
use crate::dense::{reorder_scratch, row_major};
use crate::operands::{elements, elements_mut};
use crate::ops;
use sconce_core::{Args, Call, Fault, Op};
use sconce_kernels::Isa;
use sconce_kernels::delta_rule::{DeltaRule, delta_rule};

/// The rule, under its present and its former name.
pub(crate) static OPS: &[Op] = ops! {
    "llama::gated_delta_rule.out" [9] writes [6, 7] scratch scratch, => run;
    "llama::channelwise_gated_delta_rule.out" [9] writes [6, 7] scratch scratch, => run;
};

fn scratch(args: &Args<'_>) -> usize {
    reorder_scratch(args, &[0, 1, 2, 3, 4, 5])
}

fn run(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut inputs =
        [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?, call.tensor(3)?, call.tensor(4)?, call.tensor(5)?];
    for input in &mut inputs {
        *input = row_major(call, *input)?;
    }
    let [query, key, value, decay, beta, state] = inputs;
    let (&[batch, heads, tokens, features], &[_, state_heads, _, _], &[_, _, _, width]) =
        (query.sizes(), key.sizes(), value.sizes())
    else {
        return Err(Fault::argument(0, "query, key and value must have 4 dimensions"));
    };
    if state_heads == 0 || !heads.is_multiple_of(state_heads) {
        return Err(Fault::argument(1, "{} heads of queries cannot share {} states").with([heads, state_heads]));
    }
    let expected: [(usize, &[usize]); 4] = [
        (1, &[batch, state_heads, tokens, features]),
        (2, &[batch, state_heads, tokens, width]),
        (4, &[batch, state_heads, tokens]),
        (5, &[batch, state_heads, features, width]),
    ];
    for (argument, sizes) in expected {
        if inputs[argument].sizes() != sizes {
            return Err(Fault::argument(argument, "the sizes do not fit those of query, key and value"));
        }
    }
    if decay.sizes() != key.sizes() && decay.sizes() != beta.sizes() {
        return Err(Fault::argument(3, "a decay for each feature of a key, or for each token, is needed here"));
    }
    let (out, last) = (call.out(6, &[batch, heads, tokens, width])?, call.out(7, state.sizes())?);
    if !out.shape.is_contiguous() || !last.shape.is_contiguous() {
        return Err(Fault::argument(6, "row-major outputs are needed here"));
    }
    let rule = DeltaRule {
        group: heads / state_heads,
        tokens,
        features,
        width,
        query: elements(0, &query)?,
        key: elements(1, &key)?,
        value: elements(2, &value)?,
        decay: elements(3, &decay)?,
        beta: elements(4, &beta)?,
    };
    let states = elements_mut::<f32>(7, last)?;
    states.copy_from_slice(elements(5, &state)?);
    delta_rule(Isa::detect(), call.parallel(), &rule, states, elements_mut(6, out)?);
    Ok(())
}
