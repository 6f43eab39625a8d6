//! From an exported program to calls: names become values, sizes become expressions, mutation becomes results.
//!
//! torch exports what a module did, in its own words: operators by name, tensors by name, and also writes into tensors
//! that other names are views of. [`aliases`] keeps track of the latter, so that the calls made here never change
//! anything. Arithmetic on sizes (`aten.sym_size.int`, `_operator.mul`) leaves no calls: the file says what each result
//! is in terms of symbols, and the emitter computes from that what is needed.

mod aliases;
mod autocast;
mod control;
mod graph;
mod vmap;

use crate::Error;
use crate::ir::{
    Arg, ConstantId, Definition, Function, Input, Kind, Origin, Output, Program, TensorType, ValueId, verify,
};
use crate::size::{Known, Size, Symbol};
use crate::sympy;
use aliases::Aliases;
use graph::Scope;
use sconce_format::ScalarType;
use sconce_pt2::schema::{Argument, ConstantValue, Hint, InputSpec, OutputSpec, SymExpr, SymInt, TensorMeta};
use sconce_pt2::{Archive, Model};
use std::collections::HashMap;

/// The symbols' largest value where the export says none and saw none.
const UNBOUNDED: i64 = i64::MAX;

/// How many dimensions and elements a tensor may have; runtimes take fewer.
const MOST_DIMENSIONS: usize = 64;
const MOST_ELEMENTS: i64 = i64::MAX >> 8;

/// Reads all models of an archive; each becomes a method.
pub fn import<'a>(archive: &Archive<'a>) -> Result<Program<'a>, Error> {
    let mut program = Program::default();
    let is_core = |model: &Model<'_>| model.program.verifiers.iter().any(|dialect| dialect == "ATEN");
    program.decomposed = !archive.models.is_empty() && archive.models.iter().all(is_core);
    for model in &archive.models {
        let function = Importer::new(model).run(&mut program)?;
        program.functions.push(function);
    }
    program.functions.sort_by(|a, b| a.name.cmp(&b.name));
    // From here on the compiler trusts the program; what the file said need not be true.
    verify(&program).map_err(|invalid| Error::unsupported(format!("a graph that is not one ({invalid})")))?;
    Ok(program)
}

/// What a name stands for.
#[derive(Clone, Debug)]
enum Slot {
    /// A tensor, by its number in [`Aliases`].
    Tensor(usize),
    /// An integer.
    Int(Size),
    /// A number that is known when the program runs.
    Scalar(ValueId),
}

struct Importer<'m, 'a> {
    model: &'m Model<'a>,
    function: Function,
    aliases: Aliases,
    /// Constants by their names in the module.
    constants: HashMap<String, ConstantId>,
    /// The nodes that were met.
    handles: u32,
    /// The type in which products are taken, where the program left that to torch.
    autocast: Option<ScalarType>,
}

impl<'m, 'a> Importer<'m, 'a> {
    fn new(model: &'m Model<'a>) -> Self {
        let function = Function { name: model.method().to_owned(), ..Function::default() };
        Self { model, function, aliases: Aliases::default(), constants: HashMap::new(), handles: 0, autocast: None }
    }

    fn run(mut self, program: &mut Program<'a>) -> Result<Function, Error> {
        let module = &self.model.program.graph_module;
        let mut scope = Scope::new(&module.graph);
        let mut kept = Vec::new();
        for (spec, argument) in module.signature.input_specs.iter().zip(&module.graph.inputs) {
            self.input(spec, argument, &mut scope, &mut kept, program)?;
        }
        self.nodes(&mut scope)?;
        for (spec, argument) in module.signature.output_specs.iter().zip(&module.graph.outputs) {
            self.output(spec, argument, &mut scope, &kept)?;
        }
        self.implied_updates(&kept, &mut scope)?;
        self.function.body.calls = scope.calls;
        if let Some(whole) = module.module_call_graph.iter().find(|entry| entry.fqn.is_empty()) {
            let signature = whole.signature.as_ref();
            self.function.nesting =
                signature.map(|own| [own.in_spec.clone(), own.out_spec.clone()]).unwrap_or_default();
        }
        Ok(self.function)
    }

    /// An input of the graph: what the caller passes, or a tensor of the module.
    fn input(
        &mut self,
        spec: &'m InputSpec,
        argument: &'m Argument,
        scope: &mut Scope<'m>,
        kept: &mut Vec<Kept>,
        program: &mut Program<'a>,
    ) -> Result<(), Error> {
        let (name, fqn) = match spec {
            InputSpec::User(_) => return self.user_input(argument, scope, kept),
            InputSpec::Fixed(fixed) => {
                self.function.inputs.push(Input::Fixed(constant_arg(&fixed.value)));
                return Ok(());
            }
            InputSpec::Parameter(own) => (&own.arg.name, &own.parameter_name),
            InputSpec::Buffer(own) => (&own.arg.name, &own.buffer_name),
            InputSpec::Constant(own) => (&own.arg.name, &own.tensor_constant_name),
            InputSpec::CustomObject(own) => {
                return Err(Error::unsupported(format!(
                    "the object {:?}, which only Python knows",
                    own.custom_obj_name
                )));
            }
            InputSpec::Token(_) => return Ok(()),
        };
        let tensor = self.model.tensor(fqn).ok_or_else(|| Error::MissingTensor(fqn.clone()))?;
        let constant = match self.constants.get(fqn) {
            Some(known) => *known,
            None => program.constants.add(fqn.as_str(), tensor.bytes.clone()),
        };
        self.constants.insert(fqn.clone(), constant);
        let ty = checked(TensorType::fixed(tensor.dtype, &tensor.sizes), fqn)?;
        let value = self.function.value(Kind::Tensor(ty), Origin::Constant(constant), fqn.as_str());
        let slot = self.aliases.fresh(value);
        kept.push(Kept { name: fqn.clone(), slot, value });
        scope.names.insert(name, Slot::Tensor(slot));
        Ok(())
    }

    fn user_input(&mut self, argument: &'m Argument, scope: &mut Scope<'m>, kept: &mut Vec<Kept>) -> Result<(), Error> {
        let input = match argument {
            Argument::Tensor(tensor) => {
                let ty = self.tensor_type(scope, &tensor.name, true)?;
                let contiguous = ty.is_contiguous();
                let value = self.function.value(Kind::Tensor(ty), Origin::Input, tensor.name.as_str());
                self.define(value);
                let slot = self.aliases.fresh(value);
                kept.push(Kept { name: tensor.name.clone(), slot, value });
                scope.names.insert(&tensor.name, Slot::Tensor(slot));
                if !contiguous {
                    self.make_contiguous(slot, scope);
                }
                Input::Value(value)
            }
            Argument::SymInt(_) | Argument::SymFloat(_) | Argument::SymBool(_) => {
                return Err(Error::unsupported(
                    "a number that the caller chooses anew for each run (programs fix the numbers they take: pass it as a \
                     tensor and read it with .item())",
                ));
            }
            Argument::Int(_) | Argument::Float(_) | Argument::Bool(_) | Argument::String(_) | Argument::None(_) => {
                Input::Fixed(plain_arg(argument).unwrap_or(Arg::None))
            }
            other => return Err(Error::unsupported(format!("an input that is {other:?}"))),
        };
        if let Input::Value(value) = input {
            self.function.body.inputs.push(value);
        }
        self.function.inputs.push(input);
        Ok(())
    }

    /// An output of the graph: what the caller gets, or the new state of something.
    fn output(
        &mut self,
        spec: &OutputSpec,
        argument: &Argument,
        scope: &mut Scope<'m>,
        kept: &[Kept],
    ) -> Result<(), Error> {
        let state = match spec {
            OutputSpec::User(_) | OutputSpec::Loss(_) => {
                let output = match self.arg(argument, scope)? {
                    Arg::Value(value) => Output::Value(value),
                    known => Output::Known(known),
                };
                if let Output::Value(value) = output {
                    self.function.body.outputs.push(value);
                }
                self.function.outputs.push(output);
                self.function.output_names.push(argument_name(argument).unwrap_or_default().to_owned());
                return Ok(());
            }
            OutputSpec::Buffer(own) => &own.buffer_name,
            OutputSpec::Parameter(own) => &own.parameter_name,
            OutputSpec::Input(own) => &own.user_input_name,
            OutputSpec::Token(_) => return Ok(()),
            OutputSpec::ParameterGradient(_) | OutputSpec::InputGradient(_) => {
                return Err(Error::unsupported("gradients: the program was exported for training"));
            }
        };
        let Arg::Value(value) = self.arg(argument, scope)? else { return Ok(()) };
        let own = kept.iter().find(|own| own.name == *state).ok_or_else(|| Error::MissingTensor(state.clone()))?;
        self.update(own, value);
        Ok(())
    }

    /// What the graph wrote into a tensor of the module or of the caller, and the signature does not mention.
    fn implied_updates(&mut self, kept: &[Kept], scope: &mut Scope<'m>) -> Result<(), Error> {
        for own in kept {
            if self.aliases.is_written(own.slot) && !self.function.updates.iter().any(|(old, _)| *old == own.value) {
                let value = self.read(own.slot, scope)?;
                self.update(own, value);
            }
        }
        Ok(())
    }

    fn update(&mut self, own: &Kept, value: ValueId) {
        if value == own.value {
            return;
        }
        let origin = &mut self.function.values[own.value.0 as usize].origin;
        if let Origin::Constant(constant) = *origin {
            *origin = Origin::State(constant);
        }
        self.function.updates.push((own.value, value));
    }

    /// The type that the file gives a tensor. Inputs keep the order of their dimensions; all others are row by row.
    fn tensor_type(&mut self, scope: &Scope<'m>, name: &str, ordered: bool) -> Result<TensorType, Error> {
        let meta = scope.graph.tensor_values.get(name).ok_or_else(|| Error::MissingTensor(name.to_owned()))?;
        let sizes = meta.sizes.iter().map(|size| self.size(size)).collect::<Result<Vec<_>, _>>()?;
        let mut ty = checked(TensorType::new(meta.dtype.0, sizes), name)?;
        if ordered && is_channels_last(meta) {
            ty.order = channels_last(ty.rank());
        }
        Ok(ty)
    }

    fn size(&mut self, size: &SymInt) -> Result<Size, Error> {
        match size {
            SymInt::Int(number) => Ok((*number).into()),
            SymInt::Expr(expr) => self.expression(expr),
        }
    }

    fn expression(&mut self, expr: &SymExpr) -> Result<Size, Error> {
        let (ranges, symbols) = (&self.model.program.range_constraints, &mut self.function.symbols);
        let mut symbol = |name: &str| {
            symbols.find(name).unwrap_or_else(|| {
                let range = ranges.get(name);
                // Without a bound, what was seen at export is the largest; it is told for single symbols only.
                let seen = match expr.hint {
                    Some(Hint::Int(seen)) if !expr.expr_str.contains([',', '+', '*', '/']) => seen,
                    Some(Hint::Int(seen)) if expr.expr_str.starts_with("Symbol(") => seen,
                    _ => UNBOUNDED,
                };
                let most = range.and_then(|range| range.max_val).filter(|&most| most < i64::from(i32::MAX));
                let least = range.and_then(|range| range.min_val).unwrap_or(0).max(0);
                symbols.add(Known { name: name.to_owned(), least, most: most.unwrap_or(seen) })
            })
        };
        sympy::parse(&expr.expr_str, &mut symbol)
            .ok_or_else(|| Error::unsupported(format!("the size {:?}", expr.expr_str)))
    }

    /// Says where symbols that are a size of this value are found, if that is not known yet.
    fn define(&mut self, value: ValueId) {
        let Some(ty) = self.function.tensor(value) else { return };
        for (dim, size) in ty.sizes.clone().iter().enumerate() {
            let mut found = None;
            size.symbols(&mut |symbol| found = found.or(Some(symbol)));
            if let Some(symbol) = found.filter(|symbol| size.line(*symbol).is_some()) {
                self.function.definitions.entry(symbol).or_insert(Definition::SizeOf(value, dim));
            }
        }
    }

    /// Binds a name to a number that a call or the caller gives.
    fn bind_scalar(&mut self, scope: &mut Scope<'m>, name: &'m str, value: ValueId) -> Result<(), Error> {
        let slot = match scope.graph.sym_int_values.get(name) {
            Some(size) => {
                let size = self.size(size)?;
                if let Some(symbol) = lone_symbol(&size) {
                    self.function.definitions.entry(symbol).or_insert(Definition::Value(value));
                }
                Slot::Int(size)
            }
            None => Slot::Scalar(value),
        };
        scope.names.insert(name, slot);
        Ok(())
    }
}

/// A tensor that outlives a run: its name in the module (or of the caller's argument), and the value that holds it.
struct Kept {
    name: String,
    slot: usize,
    value: ValueId,
}

/// The type, if a tensor can have it. The product of any of its known sizes is a number then, also where one is zero.
fn checked(ty: TensorType, name: &str) -> Result<TensorType, Error> {
    let known = || ty.sizes.iter().filter_map(Size::number);
    let count = known().try_fold(1i64, |count, size| count.checked_mul(size.max(1)));
    let fits = ty.rank() <= MOST_DIMENSIONS && count.is_some_and(|count| count <= MOST_ELEMENTS);
    if fits && known().all(|size| size >= 0) {
        return Ok(ty);
    }
    let sizes: Vec<i64> = known().take(MOST_DIMENSIONS).collect();
    Err(Error::unsupported(format!("the tensor {name:?} of {} dimensions with the sizes {sizes:?}", ty.rank())))
}

/// The symbol, if the size is nothing else.
fn lone_symbol(size: &Size) -> Option<Symbol> {
    use crate::size::Atom;
    match size.terms().collect::<Vec<_>>().as_slice() {
        [([Atom::Symbol(symbol)], 1)] => Some(*symbol),
        _ => None,
    }
}

/// The order of dimensions with the second one innermost.
fn channels_last(rank: usize) -> Vec<u8> {
    let rank = rank as u8;
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

/// Whether strides of four or five dimensions grow from the second one.
fn is_channels_last(meta: &TensorMeta) -> bool {
    let numbers = |list: &[SymInt]| -> Option<Vec<i64>> {
        list.iter().map(|item| if let SymInt::Int(number) = item { Some(*number) } else { None }).collect()
    };
    let (Some(strides), Some(sizes)) = (numbers(&meta.strides), numbers(&meta.sizes)) else { return false };
    if !matches!(sizes.len(), 4 | 5) || strides.len() != sizes.len() {
        return false;
    }
    let dense = |order: &[u8]| {
        let mut expected = 1i64;
        order.iter().rev().all(|&dim| {
            let dim = usize::from(dim);
            let fits = sizes[dim] == 1 || strides[dim] == expected;
            expected = i64::saturating_mul(expected, sizes[dim].max(1));
            fits
        })
    };
    let rows: Vec<u8> = (0..=u8::MAX).take(sizes.len()).collect();
    dense(&channels_last(sizes.len())) && !dense(&rows)
}

/// What the graph calls an argument.
fn argument_name(argument: &Argument) -> Option<&str> {
    match argument {
        Argument::Tensor(tensor) => Some(&tensor.name),
        _ => None,
    }
}

/// The name and kind of a number that is known when the program runs.
fn scalar_name(argument: &Argument) -> Option<(&str, Kind)> {
    use sconce_pt2::schema::{SymBoolArgument, SymFloatArgument, SymIntArgument};
    match argument {
        Argument::SymInt(SymIntArgument::Name(name)) => Some((name, Kind::Int)),
        Argument::SymFloat(SymFloatArgument::Name(name)) => Some((name, Kind::Float)),
        Argument::SymBool(SymBoolArgument::Name(name)) => Some((name, Kind::Bool)),
        _ => None,
    }
}

/// What a fixed argument of the caller was.
fn constant_arg(value: &ConstantValue) -> Arg {
    match value {
        ConstantValue::None(_) => Arg::None,
        ConstantValue::Int(number) => (*number).into(),
        ConstantValue::Float(number) => number.0.into(),
        ConstantValue::Bool(truth) => (*truth).into(),
        ConstantValue::String(text) => Arg::Text(text.clone()),
    }
}

/// An argument that mentions no name.
fn plain_arg(argument: &Argument) -> Option<Arg> {
    use crate::ir::MemoryFormat;
    let ints = |list: &[i64]| Arg::from(list);
    Some(match argument {
        Argument::None(_) | Argument::Layout(_) | Argument::Device(_) => Arg::None,
        Argument::Int(number) => (*number).into(),
        Argument::Ints(numbers) => ints(numbers),
        Argument::Float(number) => number.0.into(),
        Argument::Floats(numbers) => Arg::Floats(numbers.iter().map(|number| number.0).collect()),
        Argument::Bool(truth) => (*truth).into(),
        Argument::Bools(truths) => Arg::Bools(truths.clone()),
        Argument::String(text) => Arg::Text(text.clone()),
        Argument::Dtype(dtype) => Arg::Dtype(dtype.0),
        Argument::MemoryFormat(1) => Arg::MemoryFormat(MemoryFormat::Contiguous),
        Argument::MemoryFormat(2 | 3) => Arg::MemoryFormat(MemoryFormat::ChannelsLast),
        Argument::MemoryFormat(_) => Arg::MemoryFormat(MemoryFormat::Preserve),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
