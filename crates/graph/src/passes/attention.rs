//! Finds attention, `softmax(scale * Q Kᵀ + mask) V`, which programs write as two products with a softmax in between.
//!
//! As one operation it need not hold all scores at once, and it reads queries, keys and values where they lie: transposes
//! that only bring heads before positions, or features of keys before positions, are left out, and numbers that multiply
//! queries and keys become a part of the scale. A score that others read, too, leaves everything as it is; so do keys that
//! are not transposed, since their features are no neighbours.

use super::around::{Around, function_of};
use crate::graph::{Graph, Node, Origin, ValueId};
use crate::op::{Combine, Function, Layout, Op};
use crate::types::{Dim, Type};
use sconce_format::ScalarType;

const ONE: Dim = Dim::Fixed(1);

/// Most nodes that are passed over between those of a pattern.
const FAR: usize = 32;

/// Makes one operation of each; answers how many.
pub fn find_attention(graph: &mut Graph) -> usize {
    let mut links = Links::of(graph);
    let mut count = 0;
    for place in 0..graph.nodes.len() {
        let around = Around { graph, makers: &links.makers, counts: &links.counts };
        if let Some(found) = around.attention(place, &links.readers) {
            found.put(graph, &mut links);
            count += 1;
        }
    }
    super::remove_dead(graph);
    count
}

/// Who makes and reads the values of a graph, while its nodes change and stay where they are.
struct Links {
    makers: Vec<Option<usize>>,
    counts: Vec<usize>,
    /// The place of the last reader that was added.
    readers: Vec<usize>,
}

impl Links {
    fn of(graph: &Graph) -> Self {
        let mut readers = vec![0; graph.values.len()];
        for (place, node) in graph.nodes.iter().enumerate() {
            node.reads().for_each(|value| readers[value.index()] = place);
        }
        Self { makers: graph.makers(), counts: graph.read_counts(), readers }
    }

    /// Puts a node in the place of another.
    fn exchange(&mut self, graph: &mut Graph, place: usize, node: Node) {
        for values in [&mut self.counts, &mut self.readers] {
            values.resize(graph.values.len(), 0);
        }
        self.makers.resize(graph.values.len(), None);
        for read in node.reads() {
            self.counts[read.index()] += 1;
            self.readers[read.index()] = place;
        }
        node.outputs.iter().for_each(|made| self.makers[made.index()] = Some(place));
        let before = std::mem::replace(&mut graph.nodes[place], node);
        before.reads().for_each(|read| self.counts[read.index()] -= 1);
    }
}

/// An attention, and what is left out for it.
struct Found {
    op: Op,
    inputs: Vec<ValueId>,
    /// The sizes of its result.
    dims: Vec<Dim>,
    /// The place of the second product.
    place: usize,
    result: Made,
}

/// What becomes of the second product.
struct Made {
    value: ValueId,
    layout: Layout,
    batch: bool,
    /// The sizes of the value, if it is a reshape.
    reshape: Option<Vec<usize>>,
    /// Places of nodes that are left out.
    without: Vec<usize>,
}

/// Queries, keys or values.
struct Rows {
    value: ValueId,
    layout: Layout,
    /// A number that multiplies them.
    scale: f32,
}

/// A product of queries and keys that is multiplied by a number, and perhaps a mask that is added.
struct Scores<'a> {
    product: &'a Node,
    scale: f32,
    /// The mask and the sum.
    mask: Option<(ValueId, ValueId)>,
}

impl Found {
    /// Puts the operation in the place of the second product, and nodes that make nothing in the place of what is left out.
    fn put(self, graph: &mut Graph, links: &mut Links) {
        let Made { value, reshape, mut without, .. } = self.result;
        let mut made = value;
        if let Some(sizes) = reshape
            && let Some(place) = without.pop()
        {
            let element = graph.ty(value).element.clone();
            made = graph.value(Type { element, dims: self.dims }, Origin::Node);
            links.exchange(graph, place, Node::new(Op::Reshape { sizes }, vec![made], vec![value]));
        }
        for place in without {
            links.exchange(graph, place, Node::new(Op::Copy, Vec::new(), Vec::new()));
        }
        links.exchange(graph, self.place, Node::new(self.op, self.inputs, vec![made]));
    }
}

impl<'a> Around<'a> {
    /// The attention of which the node at a place is the second product.
    fn attention(&self, place: usize, readers: &[usize]) -> Option<Found> {
        let node = &self.graph.nodes[place];
        let &[weights, value] = node.inputs.as_slice() else { return None };
        let (softmax, safe) = self.softmax(weights).filter(|_| node.op == Op::MatMul && node.then.is_empty())?;
        let Scores { product, scale, mask } = self.scores(softmax.inputs[0])?;
        let &[query, key] = product.inputs.as_slice() else { return None };
        let (query, key) = (self.rows(query, Layout::HeadsFirst, true), self.keys(key)?);
        let value = self.rows(value, Layout::HeadsFirst, false);
        let [batch, heads, queries, features] = self.sizes(&query)?;
        let [value_batch, value_heads, keys, width] = self.sizes(&value)?;
        let fits = self.sizes(&key)? == [batch.clone(), heads.clone(), keys, features]
            && [&value_batch, &value_heads] == [&batch, &heads]
            && mask.is_none_or(|(mask, sum)| self.broadcasts(mask, sum, [&batch, &heads]));
        let scale = scale * query.scale * key.scale;
        let result = self.made(node.outputs[0], [&batch, &heads], readers)?;
        let inputs: Vec<_> =
            [query.value, key.value, value.value].into_iter().chain(mask.map(|(mask, _)| mask)).collect();
        let floats = inputs.iter().chain(&node.outputs).all(|&id| self.graph.ty(id).is(ScalarType::Float));
        let Made { layout, batch: with_batch, .. } = result;
        let (query, key, value) = (query.layout, key.layout, value.layout);
        let op = Op::Attention { scale, safe, query, key, value, result: layout, batch: with_batch };
        let dims = layout.turned([batch, heads, queries, width])[usize::from(!with_batch)..].to_vec();
        (fits && floats && scale.is_finite()).then_some(Found { op, inputs, dims, place, result })
    }

    /// The softmax that makes weights for nobody else, and whether it is a safe one.
    fn softmax(&self, mut weights: ValueId) -> Option<(&'a Node, bool)> {
        for _ in 0..FAR {
            let node = self.alone(weights)?;
            match node.op {
                Op::Softmax => return Some((node, false)),
                Op::SafeSoftmax => return Some((node, true)),
                _ => weights = self.before(node, weights)?,
            }
        }
        None
    }

    /// What a copy, or a reshape that leaves the last two dimensions as they are, is made of.
    fn before(&self, node: &Node, value: ValueId) -> Option<ValueId> {
        let from = *node.inputs.first()?;
        let last = |value: ValueId| self.graph.ty(value).dims.last_chunk::<2>();
        let alike = matches!(node.op, Op::Copy | Op::Reshape { .. }) && last(from).is_some();
        (alike && last(from) == last(value)).then_some(from)
    }

    /// The same, but leading dimensions may only become one, or get or lose a first one of size one.
    fn regrouped(&self, node: &Node, value: ValueId) -> Option<ValueId> {
        let from = self.before(node, value)?;
        let [dims, from_dims] = [value, from].map(|value| &self.graph.ty(value).dims);
        let simple = match (from_dims.len(), dims.len()) {
            (4, 3) => true,
            (3, 4) => dims[0] == ONE,
            _ => from_dims == dims,
        };
        simple.then_some(from)
    }

    fn scores(&self, mut value: ValueId) -> Option<Scores<'a>> {
        for _ in 0..FAR {
            if let Some((product, scale)) = self.scaled(value) {
                return Some(Scores { product, scale, mask: None });
            }
            let node = self.alone(value)?;
            if let (Op::Combine(Combine::Add), &[a, b]) = (&node.op, node.inputs.as_slice()) {
                let alike = |own: ValueId| self.graph.ty(own).dims == self.graph.ty(value).dims;
                let mut found = [(a, b), (b, a)].into_iter().filter(|(own, _)| alike(*own));
                let (mask, (product, scale)) = found.find_map(|(own, mask)| Some((mask, self.scaled(own)?)))?;
                return Some(Scores { product, scale, mask: Some((mask, value)) });
            }
            value = self.before(node, value)?;
        }
        None
    }

    /// A product that nobody else reads, and the number that multiplies it.
    fn scaled(&self, mut value: ValueId) -> Option<(&'a Node, f32)> {
        let mut scale = 1.0;
        for _ in 0..FAR {
            let node = self.alone(value)?;
            if node.op == Op::MatMul {
                return Some((node, scale));
            }
            value = match factor(node) {
                Some((number, x)) => {
                    scale *= number;
                    x
                }
                None => self.before(node, value)?,
            };
        }
        None
    }

    /// Rows of features from where they lie; with what multiplies them, if `numbers` is true.
    fn rows(&self, mut value: ValueId, mut layout: Layout, numbers: bool) -> Rows {
        let mut scale = 1.0;
        for _ in 0..FAR {
            let Some(node) = self.maker(value) else { break };
            let heads_first = layout == Layout::HeadsFirst;
            value = match (&node.op, factor(node)) {
                (_, Some((number, x))) if numbers => {
                    scale *= number;
                    x
                }
                (Op::Transpose { order }, _) if heads_first && matches!(order[..], [0, 2, 1, 3] | [1, 0, 2]) => {
                    layout = Layout::PositionsFirst;
                    node.inputs[0]
                }
                _ => match self.regrouped(node, value).filter(|_| heads_first) {
                    Some(from) => from,
                    None => break,
                },
            };
        }
        Rows { value, layout, scale }
    }

    /// Keys from where they lie, given the right operand of their product with queries.
    fn keys(&self, mut value: ValueId) -> Option<Rows> {
        let mut scale = 1.0;
        for _ in 0..FAR {
            let node = self.maker(value)?;
            if let Op::Transpose { order } = &node.op {
                let layout = match order[..] {
                    [0, 1, 3, 2] | [0, 2, 1] => Layout::HeadsFirst,
                    [0, 2, 3, 1] | [1, 2, 0] => Layout::PositionsFirst,
                    _ => return None,
                };
                let rows = self.rows(node.inputs[0], layout, true);
                return Some(Rows { scale: scale * rows.scale, ..rows });
            }
            value = match factor(node) {
                Some((number, x)) => {
                    scale *= number;
                    x
                }
                None => self.regrouped(node, value)?,
            };
        }
        None
    }

    /// Batch, heads, positions and features.
    fn sizes(&self, rows: &Rows) -> Option<[Dim; 4]> {
        rows.layout.rows(&self.graph.ty(rows.value).dims, ONE)
    }

    /// Whether a mask that is added with this sum is one for `[batch, head, query, key]`.
    fn broadcasts(&self, mask: ValueId, sum: ValueId, batch_and_heads: [&Dim; 2]) -> bool {
        let leading =
            |value: ValueId| self.graph.ty(value).dims.split_last_chunk::<2>().map_or(&[][..], |(dims, _)| dims);
        let same = match leading(sum) {
            [heads] => batch_and_heads == [&ONE, heads],
            [batch, heads] => batch_and_heads == [batch, heads],
            _ => false,
        };
        let few = self.graph.ty(mask).dims.len() <= 4;
        few && (same || leading(mask).iter().all(|dim| *dim == ONE))
    }

    /// What becomes of the second product, as far as attention can make it at once.
    fn made(&self, product: ValueId, [batch, heads]: [&Dim; 2], readers: &[usize]) -> Option<Made> {
        let dims = |value: ValueId| &self.graph.ty(value).dims;
        let mut made = Made {
            value: product,
            layout: Layout::HeadsFirst,
            batch: dims(product).len() == 4,
            reshape: None,
            without: Vec::new(),
        };
        let mut named = None;
        while made.layout == Layout::HeadsFirst
            && made.without.len() < FAR
            && let Some((place, node)) = self.reader(made.value, readers)
        {
            let output = node.outputs[0];
            match &node.op {
                Op::Copy | Op::Reshape { .. } if dims(output) == dims(made.value) => {}
                Op::Reshape { sizes } if !made.batch && self.before(node, output).is_some() => {
                    if !matches!(&dims(output)[..], [b, h, _, _] if [b, h] == [batch, heads]) {
                        break;
                    }
                    (made.batch, named) = (true, Some(sizes));
                }
                Op::Transpose { order } => match (&order[..], named) {
                    ([0, 2, 1, 3] | [1, 0, 2], _) => made.layout = Layout::PositionsFirst,
                    // The batch, which is one, comes later.
                    ([2, 0, 1, 3], Some(sizes)) if *batch == ONE && sizes.len() == 4 => {
                        made.layout = Layout::PositionsFirst;
                        made.reshape = Some(order.iter().map(|&dim| sizes[dim]).collect());
                    }
                    _ => break,
                },
                _ => break,
            }
            made.without.push(place);
            made.value = output;
        }
        (made.batch || *batch == ONE).then_some(made)
    }

    /// The only node that reads a value, if it does nothing more to its result.
    fn reader(&self, value: ValueId, readers: &[usize]) -> Option<(usize, &'a Node)> {
        let place = readers[value.index()];
        let node = self.graph.nodes.get(place).filter(|_| self.counts[value.index()] == 1)?;
        let reads = node.then.is_empty() && node.inputs.contains(&value);
        reads.then_some((place, node))
    }
}

/// The number by which a node multiplies a value.
fn factor(node: &Node) -> Option<(f32, ValueId)> {
    match function_of(node)? {
        (Function::Times { value }, x) => Some((value, x)),
        (Function::Over { value }, x) => Some((1.0 / value, x)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
