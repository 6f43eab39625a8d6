//! Recurrent layers, step by step.
//!
//! The product with the input is computed for all steps at once; what is left for each step is the product with the
//! state and the cell itself. Sequences must have a known length.

use super::dropout::{dropped, probability};
use super::{Answer, Table};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;

pub(super) const RULES: Table = &[
    ("aten::lstm.input", |site| layers(site, 2, lstm)),
    ("aten::gru.input", |site| layers(site, 1, gru)),
    ("aten::rnn_tanh.input", |site| {
        layers(site, 1, |site, x, state, weights| plain(site, x, state, weights, "aten::tanh"))
    }),
    ("aten::rnn_relu.input", |site| {
        layers(site, 1, |site, x, state, weights| plain(site, x, state, weights, "aten::relu"))
    }),
    ("aten::lstm_cell", |site| single(site, 2, lstm)),
    ("aten::gru_cell", |site| single(site, 1, gru)),
    ("aten::rnn_tanh_cell", |site| {
        single(site, 1, |site, x, state, weights| plain(site, x, state, weights, "aten::tanh"))
    }),
    ("aten::rnn_relu_cell", |site| {
        single(site, 1, |site, x, state, weights| plain(site, x, state, weights, "aten::relu"))
    }),
];

/// The parameters of one layer in one direction. An LSTM may have a projection of its state.
struct Weights {
    input: ValueId,
    hidden: ValueId,
    biases: [Option<ValueId>; 2],
    projection: Option<ValueId>,
}

/// One step: from the input's product and the state, one tensor or two, the next state.
type Cell = fn(&mut Site<'_, '_>, ValueId, &[ValueId], &Weights) -> Vec<ValueId>;

fn lstm(site: &mut Site<'_, '_>, x: ValueId, state: &[ValueId], weights: &Weights) -> Vec<ValueId> {
    let (hidden, cell) = (state[0], state[1]);
    let ty = site.plain_type(cell);
    let sum = site.linear(hidden, weights.hidden, weights.biases[1]);
    let wide = site.plain_type(sum);
    let gates = site.binary("aten::add.Tensor", sum, x, &wide);
    let [input, forget, change, output] = parts(site, gates, &ty);
    let [input, forget, output] = [input, forget, output].map(|gate| site.unary("aten::sigmoid", gate));
    let change = site.unary("aten::tanh", change);
    let kept = site.binary("aten::mul.Tensor", forget, cell, &ty);
    let added = site.binary("aten::mul.Tensor", input, change, &ty);
    let cell = site.binary("aten::add.Tensor", kept, added, &ty);
    let bounded = site.unary("aten::tanh", cell);
    let mut hidden = site.binary("aten::mul.Tensor", output, bounded, &ty);
    if let Some(projection) = weights.projection {
        hidden = site.linear(hidden, projection, None);
    }
    vec![hidden, cell]
}

fn gru(site: &mut Site<'_, '_>, x: ValueId, state: &[ValueId], weights: &Weights) -> Vec<ValueId> {
    let hidden = state[0];
    let ty = site.plain_type(hidden);
    let product = site.linear(hidden, weights.hidden, weights.biases[1]);
    let [reset, update, new] = parts(site, x, &ty);
    let [own_reset, own_update, own_new] = parts(site, product, &ty);
    let [reset, update] = [(reset, own_reset), (update, own_update)].map(|(a, b)| {
        let sum = site.binary("aten::add.Tensor", a, b, &ty);
        site.unary("aten::sigmoid", sum)
    });
    let remembered = site.binary("aten::mul.Tensor", own_new, reset, &ty);
    let new = site.binary("aten::add.Tensor", new, remembered, &ty);
    let new = site.unary("aten::tanh", new);
    let way = site.binary("aten::sub.Tensor", hidden, new, &ty);
    let part = site.binary("aten::mul.Tensor", way, update, &ty);
    vec![site.binary("aten::add.Tensor", part, new, &ty)]
}

fn plain(
    site: &mut Site<'_, '_>,
    x: ValueId,
    state: &[ValueId],
    weights: &Weights,
    function: &'static str,
) -> Vec<ValueId> {
    let product = site.linear(state[0], weights.hidden, weights.biases[1]);
    let ty = site.plain_type(product);
    let sum = site.binary("aten::add.Tensor", product, x, &ty);
    vec![site.unary(function, sum)]
}

/// The gates, each as wide as the state of type `ty`.
fn parts<const N: usize>(site: &mut Site<'_, '_>, gates: ValueId, ty: &TensorType) -> [ValueId; N] {
    let dim = ty.rank().saturating_sub(1);
    let sizes = vec![ty.size(dim); N];
    let args = [("self", gates.into()), ("split_sizes", sizes.into()), ("dim", (dim as i64).into())];
    site.calls("aten::split_with_sizes", args, std::array::from_fn(|_| ty.clone()))
}

/// Layers upon each other, each in one direction or in both.
fn layers(site: &mut Site<'_, '_>, tensors: usize, cell: Cell) -> Answer {
    let dropout = if site.bool("train", false) { probability(site, "dropout", 0.0)? } else { 0.0 };
    let batch_first = site.bool("batch_first", false);
    let states = states(site, tensors, 3)?;
    let directions = if site.bool("bidirectional", false) { 2 } else { 1 };
    let mut input = site.tensor("input")?;
    if site.ty(input).rank() != 3 {
        return Err(Error::unsupported("a recurrent layer whose input has not three dimensions"));
    }
    if batch_first {
        input = site.transposed(input, 0, 1);
    }
    let weights = weights(site, states.len() == 2)?;
    let mut last: Vec<Vec<ValueId>> = vec![Vec::new(); states.len()];
    for (layer, pair) in weights.chunks(directions).enumerate() {
        if layer > 0 {
            input = dropped(site, input, dropout);
        }
        let mut outputs = Vec::new();
        for (direction, own) in pair.iter().enumerate() {
            let place = Size::from((layer * directions + direction) as i64);
            let first: Vec<ValueId> = states.iter().map(|state| site.select(*state, 0, place.clone())).collect();
            let (output, end) = sequence(site, cell, input, first, own, direction == 1)?;
            outputs.push(output);
            for (all, state) in last.iter_mut().zip(end) {
                all.push(site.unsqueeze(state, 0));
            }
        }
        input = site.cat(&outputs, 2);
    }
    if batch_first {
        input = site.transposed(input, 0, 1);
    }
    let last = last.iter().map(|states| site.cat(states, 0)).collect::<Vec<_>>();
    Ok([vec![input], last].concat())
}

/// One layer in one direction: all its outputs and the last state.
fn sequence(
    site: &mut Site<'_, '_>,
    cell: Cell,
    input: ValueId,
    mut state: Vec<ValueId>,
    weights: &Weights,
    backwards: bool,
) -> Result<(ValueId, Vec<ValueId>), Error> {
    let products = site.linear(input, weights.input, weights.biases[0]);
    let steps = site.ty(input).size(0).number();
    let steps = steps.ok_or_else(|| Error::unsupported("a recurrent layer over sequences of unknown length"))?;
    let steps = site.few(steps, "steps of a recurrent layer")?;
    if steps == 0 {
        return Err(Error::unsupported("a recurrent layer over empty sequences"));
    }
    let mut outputs = Vec::new();
    for step in 0..steps {
        let step = if backwards { steps - 1 - step } else { step };
        let product = site.select(products, 0, step.into());
        state = cell(site, product, &state, weights);
        outputs.push(site.unsqueeze(state[0], 0));
    }
    if backwards {
        outputs.reverse();
    }
    Ok((site.cat(&outputs, 0), state))
}

/// The parameters as they follow each other.
fn weights(site: &Site<'_, '_>, projected: bool) -> Result<Vec<Weights>, Error> {
    let all = site.tensors("params")?;
    let biases = site.bool("has_biases", true);
    let layers = site.int("num_layers", 1)?.saturating_mul(if site.bool("bidirectional", false) { 2 } else { 1 });
    let each = all.len().checked_div(usize::try_from(layers).unwrap_or(0)).unwrap_or(0);
    let least = if biases { 4 } else { 2 };
    if each < least || (each > least && !projected) {
        return Err(Error::unsupported(format!("a recurrent layer with {each} parameters")));
    }
    let own = |part: &[ValueId]| Weights {
        input: part[0],
        hidden: part[1],
        biases: if biases { [Some(part[2]), Some(part[3])] } else { [None, None] },
        projection: part.get(least).copied(),
    };
    Ok(all.chunks_exact(each).map(own).collect())
}

/// The initial state: `tensors` tensors of rank `rank`.
fn states(site: &Site<'_, '_>, tensors: usize, rank: usize) -> Result<Vec<ValueId>, Error> {
    let states = match site.arg("hx") {
        Arg::Value(state) => vec![*state],
        _ => site.tensors("hx")?,
    };
    if states.len() != tensors || states.iter().any(|state| site.ty(*state).rank() != rank) {
        return Err(Error::unsupported("a recurrent layer with such a state"));
    }
    Ok(states)
}

/// A single step.
fn single(site: &mut Site<'_, '_>, tensors: usize, cell: Cell) -> Answer {
    let state = states(site, tensors, 2)?;
    let weights = Weights {
        input: site.tensor("w_ih")?,
        hidden: site.tensor("w_hh")?,
        biases: ["b_ih", "b_hh"].map(|name| site.optional_tensor(name)),
        projection: None,
    };
    let product = site.tensor("input")?;
    let product = site.linear(product, weights.input, weights.biases[0]);
    Ok(cell(site, product, &state, &weights))
}
