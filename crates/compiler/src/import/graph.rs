//! The nodes of one graph, or of a branch or a loop's body inside it: operators, views, and writes.

use super::aliases::{MOST_STEPS, Step};
use super::{Importer, Slot, plain_arg, scalar_name, vmap};
use crate::Error;
use crate::ir::{Arg, Call, Kind, MemoryFormat, Origin, Source, Target, TensorType, ValueId};
use crate::size::Size;
use sconce_format::ScalarType;
use sconce_pt2::schema::{Argument, Graph, Node, OptionalTensor, SymBoolArgument, SymFloatArgument, SymIntArgument};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// What is known while the nodes of a graph are read.
pub(super) struct Scope<'m> {
    pub(super) graph: &'m Graph,
    pub(super) names: HashMap<&'m str, Slot>,
    pub(super) calls: Vec<Call>,
}

impl<'m> Scope<'m> {
    pub(super) fn new(graph: &'m Graph) -> Self {
        Self { graph, names: HashMap::new(), calls: Vec::new() }
    }
}

/// Operators whose result shares the memory of their argument `self`. For those that share it only if they can, what
/// decides is whether the argument lies row by row, as all tensors do here.
const VIEWS: &[&str] = &[
    "alias",
    "as_strided",
    "chunk",
    "contiguous",
    "detach",
    "diagonal",
    "expand",
    "expand_as",
    "flatten",
    "lift_fresh",
    "movedim",
    "moveaxis",
    "narrow",
    "numpy_T",
    "permute",
    "ravel",
    "reshape",
    "reshape_as",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "transpose",
    "unbind",
    "unflatten",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "view",
    "view_as",
    "_unsafe_view",
    "_reshape_alias",
];

/// What operators that write into their argument are called, without the underscore, where the operator with a result of
/// its own has another overload.
const OTHER_OVERLOADS: &[(&str, &str)] = &[
    ("aten::float_power.Scalar", "aten::float_power.Tensor_Scalar"),
    ("aten::float_power.Tensor", "aten::float_power.Tensor_Tensor"),
    ("aten::floor_divide.Tensor", "aten::floor_divide"),
    ("aten::ldexp", "aten::ldexp.Tensor"),
    ("aten::pow.Scalar", "aten::pow.Tensor_Scalar"),
    ("aten::pow.Tensor", "aten::pow.Tensor_Tensor"),
    ("aten::transpose", "aten::transpose.int"),
];

/// Operators that only check something, or say something to torch itself.
const WITHOUT_EFFECT: &[&str] = &[
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
];

impl<'m> Importer<'m, '_> {
    pub(super) fn nodes(&mut self, scope: &mut Scope<'m>) -> Result<(), Error> {
        let nodes: Vec<&'m Node> = scope.graph.nodes.iter().collect();
        self.some(&nodes, scope)
    }

    /// Some nodes of a graph, one after the other; those of a `vmap` go together.
    pub(super) fn some(&mut self, mut nodes: &[&'m Node], scope: &mut Scope<'m>) -> Result<(), Error> {
        while let [node, rest @ ..] = nodes {
            let (start, extent) = (scope.calls.len(), vmap::extent(nodes));
            let done = match extent {
                Some(extent) => self.vmap(&nodes[..extent], scope),
                None => self.node(node, scope),
            };
            done.map_err(|error| error.at(&node.target, stack_trace(node)))?;
            self.came_from(node, start, scope);
            nodes = extent.map_or(rest, |extent| &nodes[extent..]);
        }
        Ok(())
    }

    /// Says of the calls from `start` on which node they came from.
    pub(super) fn came_from(&mut self, node: &'m Node, start: usize, scope: &mut Scope<'m>) {
        self.handles += 1;
        let source = Arc::new(source(node, self.handles));
        for call in &mut scope.calls[start..] {
            call.source.get_or_insert_with(|| Arc::clone(&source));
        }
    }

    pub(super) fn node(&mut self, node: &'m Node, scope: &mut Scope<'m>) -> Result<(), Error> {
        if vmap::is_without_effect(&node.target) {
            return Ok(());
        }
        let Some(path) = node.target.strip_prefix("torch.ops.") else { return self.arithmetic(node, scope) };
        let (namespace, name) = path.split_once('.').unwrap_or(("", path));
        if namespace == "higher_order" {
            return self.higher_order(name, node, scope);
        }
        let (base, overload) = name.split_once('.').unwrap_or((name, "default"));
        if namespace == "aten" && WITHOUT_EFFECT.contains(&base) {
            return Ok(());
        }
        if namespace == "aten" && base.starts_with("sym_") {
            return self.arithmetic(node, scope);
        }
        let in_place = base.strip_suffix('_').filter(|base| !base.ends_with('_'));
        let full = |base: &str| match overload {
            "default" => format!("{namespace}::{base}"),
            overload => format!("{namespace}::{base}.{overload}"),
        };
        let mut args = self.args(node, scope)?;
        let cast = self.autocast(namespace, base, &mut args, scope);
        let name = full(in_place.unwrap_or(base));
        let other = OTHER_OVERLOADS.iter().find(|(own, _)| in_place.is_some() && *own == name);
        let call = Call {
            target: Target::Operator(other.map_or(name.into(), |(_, functional)| Cow::Borrowed(*functional))),
            args,
            blocks: Vec::new(),
            outputs: Vec::new(),
            source: None,
        };
        match in_place {
            // A tensor that changes its own sizes is from then on known by the result's name.
            Some(base) if VIEWS.contains(&base) => return self.call(call, node, scope, true),
            Some(_) => return self.write(call, node, scope),
            None => {}
        }
        let before = scope.calls.len();
        self.call(call, node, scope, VIEWS.contains(&base))?;
        if let Some(to) = cast.filter(|_| scope.calls.len() > before) {
            self.cast_results(to, scope);
        }
        Ok(())
    }

    /// A call with results of its own, or views.
    pub(super) fn call(
        &mut self,
        mut call: Call,
        node: &'m Node,
        scope: &mut Scope<'m>,
        view: bool,
    ) -> Result<(), Error> {
        let (names, mut types) = self.results(node, scope)?;
        if names.is_empty() {
            return without_results(&call);
        }
        if call.operator() == Some("aten::lstm.input") {
            types.iter_mut().skip(1).for_each(without_excess);
        }
        for (name, kind) in names.iter().zip(&types) {
            call.outputs.push(self.function.value(kind.clone(), Origin::Call, *name));
        }
        let tensors: Option<Arc<[TensorType]>> = types
            .iter()
            .map(|kind| if let Kind::Tensor(ty) = kind { Some(ty.clone()) } else { None })
            .collect::<Option<Vec<_>>>()
            .map(Into::into);
        let base = if view { self.slot_of(node, "self", scope) } else { None };
        let template = Arc::new(call.clone());
        let outputs = call.outputs.clone();
        scope.calls.push(call);
        for (index, (&name, value)) in names.iter().zip(outputs).enumerate() {
            if !matches!(self.function.get(value).kind, Kind::Tensor(_)) {
                self.bind_scalar(scope, name, value)?;
                continue;
            }
            self.define(value);
            let slot = match (base, &tensors) {
                (Some(base), Some(types)) => {
                    let step = Step { call: Arc::clone(&template), types: Arc::clone(types), index };
                    let view = self.aliases.view_of(base, step, value);
                    view.ok_or_else(|| Error::unsupported(format!("a view through more than {MOST_STEPS} views")))?
                }
                _ => self.aliases.fresh(value),
            };
            scope.names.insert(name, Slot::Tensor(slot));
        }
        Ok(())
    }

    /// A call that writes its result into its argument `self`.
    fn write(&mut self, mut call: Call, node: &'m Node, scope: &mut Scope<'m>) -> Result<(), Error> {
        let target = self.slot_of(node, "self", scope).ok_or_else(|| Error::unsupported("writing to no tensor"))?;
        let old = self.read(target, scope)?;
        let ty = self.function.tensor(old).cloned().ok_or_else(|| Error::unsupported("writing to no tensor"))?;
        let value = self.function.value(Kind::Tensor(ty), Origin::Call, node.target.as_str());
        call.outputs.push(value);
        scope.calls.push(call);
        self.write_through(target, value, scope)?;
        if let [Argument::Tensor(output)] = node.outputs.as_slice() {
            let same = self.aliases.same(target);
            scope.names.insert(&output.name, Slot::Tensor(same));
        }
        Ok(())
    }

    /// Puts new elements into the place of a view, and so into all that share its memory.
    fn write_through(&mut self, target: usize, value: ValueId, scope: &mut Scope<'m>) -> Result<(), Error> {
        let (whole, steps) = self.aliases.path(target);
        let mut bases = vec![whole];
        for step in &steps[..steps.len().saturating_sub(1)] {
            let base = bases[bases.len() - 1];
            bases.push(self.replay(step, base, scope));
        }
        let mut new = value;
        for (step, base) in steps.iter().zip(&bases).rev() {
            new = self.put_back(step, *base, new, scope)?;
        }
        self.aliases.write(target, new, value);
        Ok(())
    }

    /// Takes a step again, from another base.
    fn replay(&mut self, step: &Step, base: ValueId, scope: &mut Scope<'m>) -> ValueId {
        let mut call = (*step.call).clone();
        call.set("self", base);
        let value = |ty: &TensorType| self.function.value(Kind::Tensor(ty.clone()), Origin::Call, "view");
        call.outputs = step.types.iter().map(value).collect();
        let result = call.outputs[step.index];
        scope.calls.push(call);
        result
    }

    /// The base of a step with `new` in the place of the view.
    fn put_back(&mut self, step: &Step, base: ValueId, new: ValueId, scope: &mut Scope<'m>) -> Result<ValueId, Error> {
        let call = &step.call;
        let name = call.operator().unwrap_or_default();
        let operator = name.strip_prefix("aten::").and_then(|name| name.split('.').next()).unwrap_or(name);
        let Some(ty) = self.function.tensor(base).cloned() else { return Ok(new) };
        let rank = ty.rank();
        let dim = |name: &str, default: i64| match call.arg(name) {
            Arg::Int(dim) => dim.number().unwrap_or(default),
            _ => default,
        };
        let (operator, args) = match operator {
            "alias" | "detach" | "contiguous" | "lift_fresh" => return Ok(new),
            "slice" => ("aten::slice_scatter", with(call, &["dim", "start", "end", "step"])),
            "select" => ("aten::select_scatter", with(call, &["dim", "index"])),
            "diagonal" => ("aten::diagonal_scatter", with(call, &["offset", "dim1", "dim2"])),
            "as_strided" => ("aten::as_strided_scatter", with(call, &["size", "stride", "storage_offset"])),
            "transpose" | "swapaxes" | "swapdims" | "t" | "numpy_T" => {
                return Ok(self.emit(name, call.args.clone(), new, ty, scope));
            }
            "permute" => {
                let mut order = vec![0i64; rank];
                if let Arg::Ints(dims) = call.arg("dims") {
                    for (to, from) in dims.iter().enumerate() {
                        let from = from.number().unwrap_or(0);
                        let from = usize::try_from(if from < 0 { from + rank as i64 } else { from }).unwrap_or(0);
                        *order
                            .get_mut(from)
                            .ok_or_else(|| Error::unsupported("a permutation of other dimensions"))? = to as i64;
                    }
                }
                return Ok(self.emit("aten::permute", vec![("dims".into(), order.into())], new, ty, scope));
            }
            "split" | "split_with_sizes" | "chunk" | "tensor_split" | "unsafe_split" => {
                let dim = dim("dim", 0);
                let place = usize::try_from(if dim < 0 { dim + rank as i64 } else { dim }).unwrap_or(0);
                let size = |index: usize| {
                    step.types.get(index).and_then(|ty| ty.sizes.get(place)).cloned().unwrap_or_default()
                };
                let start = (0..step.index).fold(Size::default(), |sum, index| sum.plus(&size(index)));
                let end = start.plus(&size(step.index));
                ("aten::slice_scatter", vec![("dim", dim.into()), ("start", start.into()), ("end", end.into())])
            }
            "unbind" => {
                ("aten::select_scatter", vec![("dim", dim("dim", 0).into()), ("index", (step.index as i64).into())])
            }
            "narrow" => return Err(Error::unsupported("writing through narrow")),
            "expand" | "expand_as" | "movedim" | "moveaxis" => {
                return Err(Error::unsupported(format!("writing through {operator}")));
            }
            _ => {
                let sizes = Arg::Ints(ty.sizes.clone());
                return Ok(self.emit("aten::view", vec![("size".into(), sizes)], new, ty, scope));
            }
        };
        let mut scatter = Call::new(operator, [("self", base.into()), ("src", new.into())], Vec::new());
        scatter.args.extend(args.into_iter().map(|(name, arg)| (Cow::Borrowed(name), arg)));
        let result = self.function.value(Kind::Tensor(ty), Origin::Call, "written");
        scatter.outputs.push(result);
        scope.calls.push(scatter);
        Ok(result)
    }

    /// A call on `base` that gives a tensor of type `ty`.
    pub(super) fn emit(
        &mut self,
        operator: &str,
        mut args: Vec<(Cow<'static, str>, Arg)>,
        base: ValueId,
        ty: TensorType,
        scope: &mut Scope<'m>,
    ) -> ValueId {
        args.retain(|(name, _)| name != "self");
        args.insert(0, ("self".into(), base.into()));
        let result = self.function.value(Kind::Tensor(ty), Origin::Call, "view");
        let target = Target::Operator(operator.to_owned().into());
        scope.calls.push(Call { target, args, blocks: Vec::new(), outputs: vec![result], source: None });
        result
    }

    /// Lets a tensor be read row by row from now on.
    pub(super) fn make_contiguous(&mut self, slot: usize, scope: &mut Scope<'m>) {
        let (value, _) = self.aliases.path(slot);
        let Some(ty) = self.function.tensor(value) else { return };
        let ty = TensorType::new(ty.dtype, ty.sizes.clone());
        let format = Arg::MemoryFormat(MemoryFormat::Contiguous);
        let result = self.emit("aten::clone", vec![("memory_format".into(), format)], value, ty, scope);
        self.aliases.refresh(slot, result);
    }

    /// The value of a view now.
    pub(super) fn read(&mut self, slot: usize, scope: &mut Scope<'m>) -> Result<ValueId, Error> {
        if let Some(value) = self.aliases.current(slot) {
            return Ok(value);
        }
        let (mut value, steps) = self.aliases.path(slot);
        for step in &steps {
            value = self.replay(step, value, scope);
        }
        self.aliases.refresh(slot, value);
        Ok(value)
    }

    fn slot_of(&self, node: &Node, name: &str, scope: &Scope<'m>) -> Option<usize> {
        let input = node.inputs.iter().find(|input| input.name == name)?;
        match &input.arg {
            Argument::Tensor(tensor) => match scope.names.get(tensor.name.as_str())? {
                Slot::Tensor(slot) => Some(*slot),
                _ => None,
            },
            _ => None,
        }
    }

    /// The names and kinds of a node's results.
    pub(super) fn results(&mut self, node: &'m Node, scope: &Scope<'m>) -> Result<(Vec<&'m str>, Vec<Kind>), Error> {
        let mut names: Vec<(&'m str, Option<Kind>)> = Vec::new();
        for output in &node.outputs {
            match output {
                Argument::Tensor(tensor) => names.push((&tensor.name, None)),
                Argument::Tensors(tensors) => names.extend(tensors.iter().map(|tensor| (tensor.name.as_str(), None))),
                Argument::OptionalTensor(OptionalTensor::Tensor(tensor)) => names.push((&tensor.name, None)),
                Argument::OptionalTensor(OptionalTensor::None(_)) | Argument::None(_) => {}
                other => {
                    let (name, kind) =
                        scalar_name(other).ok_or_else(|| Error::unsupported(format!("a result that is {other:?}")))?;
                    names.push((name, Some(kind)));
                }
            }
        }
        let mut kinds = Vec::new();
        for (name, kind) in &names {
            kinds.push(match kind {
                Some(kind) => kind.clone(),
                None => Kind::Tensor(self.tensor_type(scope, name, false)?),
            });
        }
        Ok((names.into_iter().map(|(name, _)| name).collect(), kinds))
    }

    /// What is passed to a node, by name.
    pub(super) fn args(&mut self, node: &Node, scope: &mut Scope<'m>) -> Result<Vec<(Cow<'static, str>, Arg)>, Error> {
        let inputs = node.inputs.iter();
        inputs.map(|input| Ok((Cow::Owned(input.name.clone()), self.arg(&input.arg, scope)?))).collect()
    }

    /// What is passed: values as they are now.
    pub(super) fn arg(&mut self, argument: &Argument, scope: &mut Scope<'m>) -> Result<Arg, Error> {
        if let Some(arg) = plain_arg(argument) {
            return Ok(arg);
        }
        Ok(match argument {
            Argument::Tensor(tensor) | Argument::OptionalTensor(OptionalTensor::Tensor(tensor)) => {
                self.tensor(&tensor.name, scope)?.into()
            }
            Argument::OptionalTensor(OptionalTensor::None(_)) => Arg::None,
            Argument::Tensors(tensors) => {
                let values = tensors.iter().map(|tensor| self.tensor(&tensor.name, scope).map(Some));
                Arg::Values(values.collect::<Result<_, _>>()?)
            }
            Argument::OptionalTensors(tensors) => {
                let value = |tensor: &OptionalTensor| match tensor {
                    OptionalTensor::Tensor(tensor) => self.tensor(&tensor.name, scope).map(Some),
                    OptionalTensor::None(_) => Ok(None),
                };
                Arg::Values(tensors.iter().map(value).collect::<Result<_, _>>()?)
            }
            Argument::SymInt(argument) => self.int(argument, scope)?,
            Argument::SymInts(list) => {
                let mut sizes = Vec::new();
                for item in list {
                    let Arg::Int(size) = self.int(item, scope)? else {
                        return Err(Error::unsupported("a number that is no size in a list of sizes"));
                    };
                    sizes.push(size);
                }
                Arg::Ints(sizes)
            }
            Argument::SymFloat(SymFloatArgument::Float(number)) => number.0.into(),
            Argument::SymBool(SymBoolArgument::Bool(truth)) => (*truth).into(),
            Argument::SymFloat(SymFloatArgument::Name(name)) | Argument::SymBool(SymBoolArgument::Name(name)) => {
                self.scalar(name, scope)?
            }
            Argument::Complex(number) => self.complex(number.real.0, number.imag.0, scope).into(),
            other => return Err(Error::unsupported(format!("the argument {other:?}"))),
        })
    }

    /// A complex number, which no argument holds, as a tensor without dimensions.
    fn complex(&mut self, real: f64, imaginary: f64, scope: &mut Scope<'m>) -> ValueId {
        let mut call = |operator: &'static str, args: Vec<(&'static str, Arg)>, dtype: ScalarType| {
            let value = self.function.value(Kind::Tensor(TensorType::fixed(dtype, &[])), Origin::Call, "");
            scope.calls.push(Call::new(operator, args, vec![value]));
            value
        };
        let [real, imaginary] = [real, imaginary].map(|number| {
            let args = vec![("size", Vec::<i64>::new().into()), ("fill_value", number.into())];
            call("aten::full", args, ScalarType::Double)
        });
        call("aten::complex", vec![("real", real.into()), ("imag", imaginary.into())], ScalarType::ComplexDouble)
    }

    fn int(&mut self, argument: &SymIntArgument, scope: &Scope<'m>) -> Result<Arg, Error> {
        match argument {
            SymIntArgument::Int(number) => Ok((*number).into()),
            SymIntArgument::Name(name) => self.scalar(name, scope),
        }
    }

    fn scalar(&mut self, name: &str, scope: &Scope<'m>) -> Result<Arg, Error> {
        match scope.names.get(name) {
            Some(Slot::Int(size)) => Ok(size.clone().into()),
            Some(Slot::Scalar(value)) => Ok((*value).into()),
            _ => Err(Error::MissingTensor(name.to_owned())),
        }
    }

    pub(super) fn tensor(&mut self, name: &str, scope: &mut Scope<'m>) -> Result<ValueId, Error> {
        match scope.names.get(name) {
            Some(Slot::Tensor(slot)) => {
                let slot = *slot;
                self.read(slot, scope)
            }
            _ => Err(Error::MissingTensor(name.to_owned())),
        }
    }

    /// Arithmetic on numbers: what the file says of the result is enough, unless it is no integer.
    fn arithmetic(&mut self, node: &'m Node, scope: &mut Scope<'m>) -> Result<(), Error> {
        for output in &node.outputs {
            let (name, kind) =
                scalar_name(output).ok_or_else(|| Error::unsupported(format!("a result that is {output:?}")))?;
            if let Some(size) = scope.graph.sym_int_values.get(name) {
                let size = self.size(size)?;
                let mut known = true;
                size.symbols(&mut |symbol| known &= self.function.definitions.contains_key(&symbol));
                if known {
                    scope.names.insert(name, Slot::Int(size));
                    continue;
                }
            }
            let args = self.args(node, scope)?;
            let value = self.function.value(kind, Origin::Call, name);
            let target = Target::Operator(format!("python::{}", node.target).into());
            scope.calls.push(Call { target, args, blocks: Vec::new(), outputs: vec![value], source: None });
            self.bind_scalar(scope, name, value)?;
        }
        Ok(())
    }
}

/// torch's own operators without results check or record something. Any other can only change what it gets.
fn without_results(call: &Call) -> Result<(), Error> {
    let name = call.operator().unwrap_or("");
    let own = ["aten::", "prim::", "prims::", "profiler::"].iter().any(|namespace| name.starts_with(namespace));
    let error = || Error::unsupported(format!("{name}, which has no result and so can only change its arguments,"));
    if own { Ok(()) } else { Err(error()) }
}

/// Some of a call's arguments.
fn with(call: &Call, names: &[&'static str]) -> Vec<(&'static str, Arg)> {
    names.iter().map(|&name| (name, call.arg(name).clone())).filter(|(_, arg)| *arg != Arg::None).collect()
}

fn stack_trace(node: &Node) -> &str {
    node.metadata.get("stack_trace").map_or("", String::as_str)
}

fn source(node: &Node, handle: u32) -> Source {
    let module = node.metadata.get("nn_module_stack").and_then(|stack| {
        let innermost = stack.split(';').next_back()?;
        innermost.split(',').nth(1).map(str::to_owned)
    });
    Source {
        handle,
        node: node.name.clone().unwrap_or_default(),
        target: node.target.clone(),
        stack_trace: stack_trace(node).to_owned(),
        module: module.unwrap_or_default(),
    }
}

/// The state of an LSTM has three dimensions, or two; exports of torch 2.9 say four, with a second one of size 1.
fn without_excess(kind: &mut Kind) {
    if let Kind::Tensor(ty) = kind
        && ty.rank() == 4
        && ty.sizes[1].number() == Some(1)
    {
        let mut sizes = ty.sizes.clone();
        sizes.remove(1);
        *ty = ty.with_sizes(sizes);
    }
}
