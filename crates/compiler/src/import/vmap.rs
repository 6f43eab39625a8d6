//! `torch.vmap`: nodes that know nothing of a batch, between two that open and close it.
//!
//! Inside, `_add_batch_dim` hides a dimension of a tensor and `_remove_batch_dim` shows it again; the nodes in between
//! have the sizes of a single element of the batch. If all of these only meet element by element, or multiply matrices,
//! they run on whole batches: hidden dimensions lie in front, one for each level, the outermost first. Anything else
//! becomes a loop over the batch.

use super::graph::Scope;
use super::{Importer, Slot};
use crate::Error;
use crate::ir::{Arg, Block, Call, Kind, Origin, Target, TensorType, ValueId};
use crate::size::Size;
use sconce_pt2::schema::{Argument, Graph, Node};
use std::collections::{BTreeMap, HashMap, HashSet};

const PREFIX: &str = "torch._functorch.predispatch.";

/// Nodes that only tell torch itself something.
pub(super) fn is_without_effect(target: &str) -> bool {
    target == "torch._functorch.predispatch.lazy_load_decompositions"
}

/// Operators of torch that work element by element, and products of matrices: batches may lie in front.
const BATCHED: &[&str] = &[
    "__and__",
    "__or__",
    "__xor__",
    "_to_copy",
    "abs",
    "acos",
    "acosh",
    "add",
    "addcdiv",
    "addcmul",
    "alias",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bmm",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "contiguous",
    "copysign",
    "cos",
    "cosh",
    "detach",
    "div",
    "elu",
    "eq",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "ge",
    "gelu",
    "gt",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "leaky_relu",
    "lerp",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "masked_fill",
    "matmul",
    "maximum",
    "minimum",
    "mish",
    "mm",
    "mul",
    "ne",
    "neg",
    "pow",
    "reciprocal",
    "relu",
    "relu6",
    "remainder",
    "round",
    "rsqrt",
    "rsub",
    "sgn",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
    "threshold",
    "to",
    "trunc",
    "where",
    "xlogy",
];

/// What a node does to a batch.
fn step(node: &Node) -> &str {
    node.target.strip_prefix(PREFIX).unwrap_or("")
}

/// How many nodes belong to the `vmap` that the first one opens, if it opens one.
pub(super) fn extent(nodes: &[&Node]) -> Option<usize> {
    let mut depth = 0usize;
    for (index, node) in nodes.iter().enumerate() {
        match step(node) {
            "_vmap_increment_nesting" => depth += 1,
            "_vmap_decrement_nesting" => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (depth, index) {
            (0, 0) => return None,
            (0, _) => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// Hidden dimensions of a tensor: their sizes by level.
type Levels = BTreeMap<i64, Size>;

/// The base name of an operator of torch; empty for others.
fn base(node: &Node) -> &str {
    let name = node.target.strip_prefix("torch.ops.aten.").unwrap_or("");
    name.split('.').next().unwrap_or("")
}

/// Whether a node of a graph can run on whole batches. Some overloads want tensors without dimensions, or vectors.
fn runs_on_batches(node: &Node, graph: &Graph) -> bool {
    let rank = |argument: &Argument| match argument {
        Argument::Tensor(tensor) => graph.tensor_values.get(&tensor.name).map_or(0, |meta| meta.sizes.len()),
        _ => usize::MAX,
    };
    match (step(node), node.target.as_str()) {
        ("", "torch.ops.aten.where.default" | "torch.ops.aten.masked_fill.Tensor") => false,
        ("", "torch.ops.aten.matmul.default") => node.inputs.iter().all(|input| rank(&input.arg) >= 2),
        ("", _) => BATCHED.contains(&base(node)),
        _ => true,
    }
}

/// An argument by its place.
fn argument(node: &Node, place: usize) -> Result<&Argument, Error> {
    let input = node.inputs.get(place).map(|input| &input.arg);
    input.ok_or_else(|| Error::unsupported("a step of vmap without its arguments"))
}

fn int(node: &Node, place: usize) -> Result<i64, Error> {
    match argument(node, place)? {
        Argument::Int(number) => Ok(*number),
        _ => Err(Error::unsupported("a dimension of vmap that is no number")),
    }
}

fn name(argument: &Argument) -> Result<&str, Error> {
    match argument {
        Argument::Tensor(tensor) => Ok(&tensor.name),
        _ => Err(Error::unsupported("a vmap over other things than tensors")),
    }
}

fn output(node: &Node) -> Result<&str, Error> {
    let first = node.outputs.first();
    first.map_or_else(|| Err(Error::unsupported("a step of vmap without a result")), name)
}

/// A dimension counted from the front.
fn place(dim: i64, rank: usize) -> Result<usize, Error> {
    crate::lower::place(dim, rank).ok_or_else(|| Error::unsupported(format!("dimension {dim} of {rank} in vmap")))
}

impl<'m> Importer<'m, '_> {
    /// All nodes of a `vmap`.
    pub(super) fn vmap(&mut self, nodes: &[&'m Node], scope: &mut Scope<'m>) -> Result<(), Error> {
        if nodes.iter().all(|node| runs_on_batches(node, scope.graph)) {
            self.batched(nodes, scope)
        } else {
            self.looped(nodes, scope)
        }
    }

    /// The size of the batch that a node opens or shows again.
    fn batch(&mut self, node: &Node, place: usize, scope: &mut Scope<'m>) -> Result<Size, Error> {
        match self.arg(argument(node, place)?, scope)? {
            Arg::Int(size) => Ok(size),
            _ => Err(Error::unsupported("a vmap over a batch whose size is no number")),
        }
    }

    fn bind(&mut self, name: &'m str, value: ValueId, scope: &mut Scope<'m>) {
        self.define(value);
        let slot = self.aliases.fresh(value);
        scope.names.insert(name, Slot::Tensor(slot));
    }

    fn plain(&self, value: ValueId) -> Result<TensorType, Error> {
        self.function.tensor(value).cloned().ok_or_else(|| Error::unsupported("a vmap over other things than tensors"))
    }

    /// Dimension `i` of the result is dimension `order[i]`.
    fn turned(&mut self, value: ValueId, order: &[usize], scope: &mut Scope<'m>) -> Result<ValueId, Error> {
        if order.is_sorted() {
            return Ok(value);
        }
        let ty = self.plain(value)?;
        let sizes: Vec<Size> = order.iter().map(|&dim| ty.size(dim)).collect();
        let dims: Vec<i64> = order.iter().map(|&dim| dim as i64).collect();
        Ok(self.emit("aten::permute", vec![("dims".into(), dims.into())], value, ty.with_sizes(sizes), scope))
    }

    /// One dimension moved to another place.
    fn moved(&mut self, value: ValueId, from: usize, to: usize, scope: &mut Scope<'m>) -> Result<ValueId, Error> {
        let rank = self.plain(value)?.rank();
        let mut order: Vec<usize> = (0..rank).filter(|&dim| dim != from).collect();
        order.insert(to.min(order.len()), from);
        self.turned(value, &order, scope)
    }

    /// The same elements with other sizes.
    fn seen(&mut self, value: ValueId, sizes: Vec<Size>, scope: &mut Scope<'m>) -> Result<ValueId, Error> {
        let ty = self.plain(value)?;
        if ty.sizes == sizes {
            return Ok(value);
        }
        let arg = Arg::Ints(sizes.clone());
        Ok(self.emit("aten::view", vec![("size".into(), arg)], value, ty.with_sizes(sizes), scope))
    }
}

/// On whole batches.
impl<'m> Importer<'m, '_> {
    fn batched(&mut self, nodes: &[&'m Node], scope: &mut Scope<'m>) -> Result<(), Error> {
        let mut levels: HashMap<&'m str, Levels> = HashMap::new();
        for node in nodes {
            let (start, level) = (scope.calls.len(), |place: usize| int(node, place));
            match step(node) {
                "_add_batch_dim" => {
                    let own = name(argument(node, 0)?)?;
                    let (value, mut hidden) = (self.tensor(own, scope)?, levels.get(own).cloned().unwrap_or_default());
                    let (ty, front) = (self.plain(value)?, hidden.len());
                    let dim = front + place(int(node, 1)?, ty.rank() - front)?;
                    hidden.insert(level(2)?, ty.size(dim));
                    let at = hidden.range(..level(2)?).count();
                    let value = self.moved(value, dim, at, scope)?;
                    levels.insert(output(node)?, hidden);
                    self.bind(output(node)?, value, scope);
                }
                "_remove_batch_dim" => {
                    let own = name(argument(node, 0)?)?;
                    let (mut value, mut hidden) =
                        (self.tensor(own, scope)?, levels.get(own).cloned().unwrap_or_default());
                    let (level, batch) = (level(1)?, self.batch(node, 2, scope)?);
                    if !hidden.contains_key(&level) {
                        value = self.repeated(value, hidden.len(), &batch, scope)?;
                        hidden.insert(level, batch);
                        let at = hidden.range(..level).count();
                        value = self.moved(value, hidden.len() - 1, at, scope)?;
                    }
                    let at = hidden.range(..level).count();
                    hidden.remove(&level);
                    let shown = self.plain(value)?.rank() - hidden.len();
                    let to = hidden.len() + place(int(node, 3)?, shown)?;
                    let value = self.moved(value, at, to, scope)?;
                    levels.insert(output(node)?, hidden);
                    self.bind(output(node)?, value, scope);
                }
                "" => self.on_batches(node, &mut levels, scope)?,
                _ => {}
            }
            self.came_from(node, start, scope);
        }
        Ok(())
    }

    /// The tensor with a new dimension, along which it repeats.
    fn repeated(&mut self, value: ValueId, at: usize, batch: &Size, scope: &mut Scope<'m>) -> Result<ValueId, Error> {
        let mut sizes = self.plain(value)?.sizes;
        sizes.insert(at, 1.into());
        let value = self.seen(value, sizes.clone(), scope)?;
        sizes[at] = batch.clone();
        let ty = self.plain(value)?.with_sizes(sizes.clone());
        Ok(self.emit("aten::expand", vec![("size".into(), Arg::Ints(sizes))], value, ty, scope))
    }

    /// A call whose arguments all have the same hidden dimensions, in front of dimensions that meet from behind.
    fn on_batches(
        &mut self,
        node: &'m Node,
        levels: &mut HashMap<&'m str, Levels>,
        scope: &mut Scope<'m>,
    ) -> Result<(), Error> {
        let hidden = |argument: &Argument| match argument {
            Argument::Tensor(tensor) => levels.get(tensor.name.as_str()).cloned().unwrap_or_default(),
            _ => Levels::default(),
        };
        let own: Vec<Levels> = node.inputs.iter().map(|input| hidden(&input.arg)).collect();
        let all: Levels = own.iter().flatten().map(|(level, size)| (*level, size.clone())).collect();
        if all.is_empty() {
            node.outputs.iter().filter_map(|output| name(output).ok()).for_each(|name| _ = levels.remove(name));
            return self.node(node, scope);
        }
        let mut args = self.args(node, scope)?;
        let rank = |arg: &Arg, own: &Levels| match arg {
            Arg::Value(value) => self.function.tensor(*value).map_or(0, |ty| ty.rank().saturating_sub(own.len())),
            _ => 0,
        };
        let widest = args.iter().zip(&own).map(|((_, arg), own)| rank(arg, own)).max().unwrap_or(0);
        for ((_, arg), own) in args.iter_mut().zip(&own).filter(|(_, own)| !own.is_empty()) {
            let Arg::Value(value) = *arg else { continue };
            let ty = self.plain(value)?;
            let fewer = || Error::unsupported("a batch of tensors with fewer dimensions than batches");
            let shown = ty.sizes.get(own.len()..).ok_or_else(fewer)?;
            let front = all.keys().map(|level| own.get(level).cloned().unwrap_or_else(|| 1.into()));
            let between = std::iter::repeat_n(Size::from(1), widest - shown.len());
            let sizes = front.chain(between).chain(shown.iter().cloned()).collect();
            *arg = self.seen(value, sizes, scope)?.into();
        }
        let (names, kinds) = self.results(node, scope)?;
        let mut outputs = Vec::new();
        for (name, kind) in names.iter().zip(kinds) {
            let Kind::Tensor(ty) = kind else { return Err(Error::unsupported("a number for each element of a batch")) };
            let sizes: Vec<Size> = all.values().chain(&ty.sizes).cloned().collect();
            outputs.push(self.function.value(Kind::Tensor(ty.with_sizes(sizes)), Origin::Call, *name));
            levels.insert(name, all.clone());
        }
        let mut target = node.target.trim_start_matches("torch.ops.").replacen('.', "::", 1);
        target = target.strip_suffix(".default").unwrap_or(&target).to_owned();
        if matches!(base(node), "mm" | "bmm" | "matmul") {
            target = "aten::matmul".to_owned();
            args.iter_mut().filter(|(name, _)| name == "mat2").for_each(|(name, _)| *name = "other".into());
        }
        let target = Target::Operator(target.into());
        scope.calls.push(Call { target, args, blocks: Vec::new(), outputs: outputs.clone(), source: None });
        names.into_iter().zip(outputs).for_each(|(name, value)| self.bind(name, value, scope));
        Ok(())
    }
}

/// As a loop.
impl<'m> Importer<'m, '_> {
    fn looped(&mut self, nodes: &[&'m Node], scope: &mut Scope<'m>) -> Result<(), Error> {
        let [open, inner @ .., _] = nodes else { return Ok(()) };
        let batch = self.batch(open, 0, scope)?;
        // Those of a `vmap` within this one belong to it.
        let (mut own, mut depth) = (Vec::new(), 0usize);
        for node in inner {
            depth += usize::from(step(node) == "_vmap_increment_nesting");
            let is_own = depth == 0 && matches!(step(node), "_add_batch_dim" | "_remove_batch_dim");
            own.push(is_own.then(|| step(node)));
            depth -= usize::from(step(node) == "_vmap_decrement_nesting").min(depth);
        }
        let steps = |wanted: &str| {
            let found = inner.iter().zip(&own).filter(move |(_, own)| **own == Some(wanted));
            found.map(|(node, _)| *node).collect::<Vec<&'m Node>>()
        };
        let (hides, shows) = (steps("_add_batch_dim"), steps("_remove_batch_dim"));
        if batch.number() == Some(0) {
            return self.empty(&shows, scope);
        }
        let rest: Vec<&'m Node> =
            inner.iter().zip(&own).filter(|(_, own)| own.is_none()).map(|(node, _)| *node).collect();
        let mut within = Scope { graph: scope.graph, names: scope.names.clone(), calls: Vec::new() };
        let (mut block, mut inputs) = (Block::default(), Vec::new());
        for node in hides {
            let value = self.tensor(name(argument(node, 0)?)?, scope)?;
            let dim = place(int(node, 1)?, self.plain(value)?.rank())?;
            inputs.push(self.moved(value, dim, 0, scope)?);
            block.inputs.push(self.given(output(node)?, &mut within)?);
        }
        let further = self.captured(&rest, &shows, &mut block, scope, &mut within)?;
        let given: Vec<usize> = block.inputs.iter().filter_map(|value| self.aliases.of(*value)).collect();
        self.some(&rest, &mut within)?;
        if given.into_iter().any(|slot| self.aliases.is_written(slot)) {
            return Err(Error::unsupported("a vmap that writes to what it is given"));
        }
        let mut outputs = Vec::new();
        for node in &shows {
            let value = self.tensor(name(argument(node, 0)?)?, &mut within)?;
            block.outputs.push(value);
            let ty = self.plain(value)?;
            let sizes = [std::slice::from_ref(&batch), &ty.sizes].concat();
            outputs.push(self.function.value(Kind::Tensor(ty.with_sizes(sizes)), Origin::Call, output(node)?));
        }
        block.calls = within.calls;
        let args = vec![("inputs".into(), Arg::from(inputs)), ("further".into(), Arg::from(further))];
        scope.calls.push(Call {
            target: Target::Map,
            args,
            blocks: vec![block],
            outputs: outputs.clone(),
            source: None,
        });
        for (node, value) in shows.into_iter().zip(outputs) {
            let to = place(int(node, 3)?, self.plain(value)?.rank())?;
            let value = self.moved(value, 0, to, scope)?;
            self.bind(output(node)?, value, scope);
        }
        Ok(())
    }

    /// An input of a loop's body that has the type of a name of the graph.
    fn given(&mut self, name: &'m str, within: &mut Scope<'m>) -> Result<ValueId, Error> {
        let ty = self.tensor_type(within, name, false)?;
        let value = self.function.value(Kind::Tensor(ty), Origin::Block, name);
        self.bind(name, value, within);
        Ok(value)
    }

    /// Tensors from outside that nodes read, which become further inputs of the loop's body.
    fn captured(
        &mut self,
        nodes: &[&'m Node],
        shows: &[&'m Node],
        block: &mut Block,
        scope: &mut Scope<'m>,
        within: &mut Scope<'m>,
    ) -> Result<Vec<ValueId>, Error> {
        let (mut known, mut further): (HashSet<&str>, _) = (HashSet::new(), Vec::new());
        let tensors = |argument: &'m Argument| -> Vec<&'m str> {
            match argument {
                Argument::Tensor(tensor) => vec![&tensor.name],
                Argument::Tensors(tensors) => tensors.iter().map(|tensor| tensor.name.as_str()).collect(),
                _ => Vec::new(),
            }
        };
        let shown = shows.iter().filter_map(|node| node.inputs.first());
        for name in nodes.iter().flat_map(|node| &node.inputs).chain(shown).flat_map(|input| tensors(&input.arg)) {
            let is_outside = matches!(scope.names.get(name), Some(Slot::Tensor(_))) && known.insert(name);
            if !is_outside {
                continue;
            }
            let value = self.tensor(name, scope)?;
            let inner = self.function.value(Kind::Tensor(self.plain(value)?), Origin::Block, name);
            further.push(value);
            block.inputs.push(inner);
            self.bind(name, inner, within);
        }
        Ok(further)
    }

    /// The results of a `vmap` over nothing.
    fn empty(&mut self, shows: &[&'m Node], scope: &mut Scope<'m>) -> Result<(), Error> {
        for node in shows {
            let ty = self.tensor_type(scope, output(node)?, false)?;
            let value = self.function.value(Kind::Tensor(ty.clone()), Origin::Call, output(node)?);
            let args = [("size", Arg::Ints(ty.sizes)), ("fill_value", 0.into())];
            scope.calls.push(Call::new("aten::full", args, vec![value]));
            self.bind(output(node)?, value, scope);
        }
        Ok(())
    }
}
