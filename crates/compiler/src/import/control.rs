//! Nodes that run graphs: branches and loops become calls with blocks; what only wraps a graph is left out.

use super::graph::Scope;
use super::{Importer, Slot, scalar_name};
use crate::Error;
use crate::ir::{Arg, Block, Call, Kind, Origin, Target, TensorType, ValueId};
use sconce_pt2::schema::{Argument, Graph, Node, SymIntArgument};
use std::borrow::Cow;

/// Operators that say something about a graph and otherwise just run it. What they pass are their last arguments.
const WRAPPERS: &[&str] = &[
    "checkpoint",
    "hints_wrapper",
    "invoke_subgraph",
    "strict_mode",
    "tag_activation_checkpoint",
    "wrap",
    "wrap_activation_checkpoint",
    "wrap_with_autocast",
    "wrap_with_set_grad_enabled",
];

/// What a wrapper passes on.
enum Passed<'n> {
    Name(&'n str),
    Int(i64),
}

/// The last `count` of a wrapper's arguments, those of lists one by one.
fn passed<'n>(arguments: &[&'n Argument], count: usize) -> Vec<Passed<'n>> {
    let mut all = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Tensor(tensor) => all.push(Passed::Name(&tensor.name)),
            Argument::Tensors(tensors) => all.extend(tensors.iter().map(|tensor| Passed::Name(&tensor.name))),
            Argument::SymInts(numbers) => all.extend(numbers.iter().map(|number| match number {
                SymIntArgument::Name(name) => Passed::Name(name),
                SymIntArgument::Int(number) => Passed::Int(*number),
            })),
            Argument::Int(number) => all.push(Passed::Int(*number)),
            other => all.extend(scalar_name(other).map(|(name, _)| Passed::Name(name))),
        }
    }
    all.split_off(all.len().saturating_sub(count))
}

impl<'m> Importer<'m, '_> {
    /// Calls that run graphs.
    pub(super) fn higher_order(&mut self, name: &str, node: &'m Node, scope: &mut Scope<'m>) -> Result<(), Error> {
        let mut graphs = node.inputs.iter().filter_map(|input| match &input.arg {
            Argument::Graph(own) => Some(&own.graph),
            _ => None,
        });
        let others: Vec<&Argument> =
            node.inputs.iter().map(|input| &input.arg).filter(|arg| !matches!(arg, Argument::Graph(_))).collect();
        if WRAPPERS.contains(&name) {
            let graph = graphs.next().ok_or_else(|| Error::unsupported(format!("{name} without a graph")))?;
            let outer = self.autocast;
            if name == "wrap_with_autocast" {
                self.autocast = super::autocast::setting(&others, outer);
            }
            let done = self.inline(graph, &passed(&others, graph.inputs.len()), node, scope);
            self.autocast = outer;
            return done;
        }
        if name == "associative_scan" {
            let graph = graphs.next().ok_or_else(|| Error::unsupported(format!("{name} without a graph")))?;
            return self.associative_scan(graph, &others, node, scope);
        }
        let (target, names): (_, &[&'static str]) = match name {
            "cond" => (Target::Cond, &["condition", "inputs"]),
            "map_impl" | "map" => (Target::Map, &["inputs", "further"]),
            "scan" => (Target::Scan, &["carry", "inputs", "further"]),
            "while_loop" => (Target::While, &["carry", "further"]),
            "auto_functionalized" | "auto_functionalized_v2" => {
                let operator = node.inputs.iter().find_map(|input| match &input.arg {
                    Argument::Operator(name) => Some(name.as_str()),
                    _ => None,
                });
                let operator = operator.unwrap_or("a custom operator");
                return Err(Error::unsupported(format!("{operator}, which changes its arguments,")));
            }
            other => return Err(Error::unsupported(format!("the higher-order operator {other}"))),
        };
        let mut args = Vec::new();
        for (name, argument) in names.iter().zip(&others) {
            args.push((Cow::Borrowed(*name), self.arg(argument, scope)?));
        }
        let blocks = graphs.map(|graph| self.block(graph)).collect::<Result<Vec<_>, _>>()?;
        self.call(Call { target, args, blocks, outputs: Vec::new(), source: None }, node, scope, false)
    }

    /// A branch or a loop's body.
    fn block(&mut self, graph: &'m Graph) -> Result<Block, Error> {
        let mut scope = Scope::new(graph);
        let mut block = Block::default();
        for input in &graph.inputs {
            match input {
                Argument::Tensor(tensor) => {
                    let ty = self.tensor_type(&scope, &tensor.name, false)?;
                    let value = self.function.value(Kind::Tensor(ty), Origin::Block, tensor.name.as_str());
                    self.define(value);
                    let slot = self.aliases.fresh(value);
                    scope.names.insert(&tensor.name, Slot::Tensor(slot));
                    block.inputs.push(value);
                }
                other => {
                    let (name, kind) =
                        scalar_name(other).ok_or_else(|| Error::unsupported(format!("a graph's input {other:?}")))?;
                    let value = self.function.value(kind, Origin::Block, name);
                    self.bind_scalar(&mut scope, name, value)?;
                    block.inputs.push(value);
                }
            }
        }
        self.nodes(&mut scope)?;
        for output in &graph.outputs {
            match self.arg(output, &mut scope)? {
                Arg::Value(value) => block.outputs.push(value),
                Arg::None => {}
                other => return Err(Error::unsupported(format!("a graph's output {other:?}"))),
            }
        }
        block.calls = scope.calls;
        Ok(block)
    }

    /// The nodes of a graph in the place of a call.
    fn inline(
        &mut self,
        graph: &'m Graph,
        passed: &[Passed<'_>],
        node: &'m Node,
        scope: &mut Scope<'m>,
    ) -> Result<(), Error> {
        let mut inner = Scope::new(graph);
        for (input, argument) in graph.inputs.iter().zip(passed) {
            let outer = match argument {
                Passed::Name(name) => scope.names.get(*name).cloned(),
                Passed::Int(number) => Some(Slot::Int((*number).into())),
            };
            let name = match input {
                Argument::Tensor(tensor) => Some(tensor.name.as_str()),
                other => scalar_name(other).map(|(name, _)| name),
            };
            if let (Some(slot), Some(name)) = (outer, name) {
                inner.names.insert(name, slot);
            }
        }
        std::mem::swap(&mut inner.calls, &mut scope.calls);
        let done = self.nodes(&mut inner);
        std::mem::swap(&mut inner.calls, &mut scope.calls);
        done?;
        let names = node.outputs.iter().flat_map(|output| match output {
            Argument::Tensors(tensors) => tensors.iter().map(|tensor| tensor.name.as_str()).collect(),
            Argument::Tensor(tensor) => vec![tensor.name.as_str()],
            other => scalar_name(other).map(|(name, _)| name).into_iter().collect(),
        });
        for (outer, output) in names.zip(&graph.outputs) {
            let slot = match output {
                Argument::Tensor(tensor) => inner.names.get(tensor.name.as_str()).cloned(),
                other => scalar_name(other).and_then(|(name, _)| inner.names.get(name).cloned()),
            };
            scope.names.extend(slot.map(|slot| (outer, slot)));
        }
        Ok(())
    }

    /// A running combination along the first dimension: from the first elements on, a loop combines what it carries with the
    /// next ones, and keeps all of it.
    fn associative_scan(
        &mut self,
        graph: &'m Graph,
        others: &[&'m Argument],
        node: &'m Node,
        scope: &mut Scope<'m>,
    ) -> Result<(), Error> {
        let mut lists = Vec::new();
        for argument in others {
            if let Arg::Values(values) = self.arg(argument, scope)? {
                lists.push(values.into_iter().flatten().collect::<Vec<ValueId>>());
            }
        }
        let inputs = lists.first().cloned().unwrap_or_default();
        let further = lists.get(1).cloned().unwrap_or_default();
        let (names, _) = self.results(node, scope)?;
        let types: Vec<TensorType> = inputs.iter().filter_map(|value| self.function.tensor(*value).cloned()).collect();
        let lone = |ty: &TensorType| ty.sizes.first().is_some_and(|size| size.number() == Some(1));
        if types.len() != inputs.len() || types.iter().any(|ty| ty.rank() == 0) || names.len() != inputs.len() {
            return Err(Error::unsupported("a scan over other things than tensors"));
        }
        let mut results = inputs.clone();
        if !types.iter().all(lone) {
            let (firsts, rests) = (self.parts(&inputs, &types, true, scope), self.parts(&inputs, &types, false, scope));
            let mut block = self.block(graph)?;
            let combined = block.outputs.clone();
            block.outputs.extend(combined);
            let slice = |ty: &TensorType| ty.with_sizes(ty.sizes[1..].to_vec());
            let rest = |ty: &TensorType| ty.with_sizes([&[ty.sizes[0].minus(&1.into())], &ty.sizes[1..]].concat());
            let kinds = types.iter().map(slice).chain(types.iter().map(rest));
            let outputs: Vec<ValueId> =
                kinds.map(|ty| self.function.value(Kind::Tensor(ty), Origin::Call, "scanned")).collect();
            let carry = firsts.iter().zip(&types).map(|(value, ty)| {
                let sizes = Arg::Ints(ty.sizes[1..].to_vec());
                self.emit("aten::view", vec![("size".into(), sizes)], *value, slice(ty), scope)
            });
            let args = vec![
                ("carry".into(), Arg::from(carry.collect::<Vec<_>>())),
                ("inputs".into(), Arg::from(rests)),
                ("further".into(), Arg::from(further)),
            ];
            let stacked = outputs[types.len()..].to_vec();
            scope.calls.push(Call { target: Target::Scan, args, blocks: vec![block], outputs, source: None });
            results.clear();
            for ((first, rest), ty) in firsts.into_iter().zip(stacked).zip(&types) {
                let whole = self.function.value(Kind::Tensor(ty.clone()), Origin::Call, "scanned");
                let args = [("tensors", vec![first, rest].into()), ("dim", 0.into())];
                scope.calls.push(Call::new("aten::cat", args, vec![whole]));
                results.push(whole);
            }
        }
        for (name, value) in names.into_iter().zip(results) {
            let slot = self.aliases.fresh(value);
            scope.names.insert(name, Slot::Tensor(slot));
        }
        Ok(())
    }

    /// The first element along the first dimension of each tensor, or all others.
    fn parts(&mut self, values: &[ValueId], types: &[TensorType], first: bool, scope: &mut Scope<'m>) -> Vec<ValueId> {
        let part = |(value, ty): (&ValueId, &TensorType)| {
            let (start, end) = if first { (0.into(), 1.into()) } else { (1.into(), ty.sizes[0].clone()) };
            let sizes = [&[end.minus(&start)], &ty.sizes[1..]].concat();
            let range = [("dim", 0.into()), ("start", Arg::Int(start)), ("end", Arg::Int(end))];
            let args = range.into_iter().map(|(name, arg)| (Cow::Borrowed(name), arg)).collect();
            self.emit("aten::slice.Tensor", args, *value, ty.with_sizes(sizes), scope)
        };
        values.iter().zip(types).map(part).collect()
    }
}
