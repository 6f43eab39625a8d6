//! Lowering: calls of operators that no runtime has become calls of those that one has.
//!
//! A [`Rule`] belongs to one operator name. It gets the call ([`Site`]) and answers with the values that take the place
//! of the call's results, after adding calls of its own. Those may have rules in turn. The tables of rules are in the
//! modules below, one for each family; to teach the compiler an operator, add a row to one of them.
//!
//! What has no rule stays as it is; the emitter finds its form in the runtime ([`crate::signature`]). So does a call of
//! the operator that a rule is for, when the rule itself makes it: this is how a rule declines or only changes arguments.

mod calls;
mod rules;

pub(crate) use rules::rule;

use crate::Error;
use crate::ir::{
    Arg, Block, Call, Constants, Definition, Function, Kind, Origin, TensorType, Value, ValueId, debug_verify, view,
};
use crate::size::Size;
use sconce_format::ScalarType;
use std::borrow::Cow;
use std::collections::HashMap;

/// Rewrites a call: adds others and says which values stand for its results.
pub type Rule = fn(&mut Site<'_, '_>) -> Result<Vec<ValueId>, Error>;

/// How often rules may apply to what rules made.
const DEPTH: usize = 32;

/// How much rules may make of numbers that stand in the file, for each method: elements of constants, where a step of
/// something that is unrolled counts as `STEP` of them.
const MOST: i64 = 1 << 26;
const STEP: i64 = 1 << 10;

/// Rewrites all calls that have a rule.
pub fn lower<'a>(function: &mut Function, constants: &mut Constants<'a>) -> Result<(), Error> {
    rewrite(function, constants, &|name| rule(name))
}

/// Rewrites all calls for which `rule` knows a rule.
pub fn rewrite(
    function: &mut Function,
    constants: &mut Constants<'_>,
    rule: &dyn Fn(&str) -> Option<Rule>,
) -> Result<(), Error> {
    let mut body = std::mem::take(&mut function.body);
    let mut lowering =
        Lowering { function, constants, rule, replaced: HashMap::new(), room: MOST, rewritten: Vec::new() };
    let result = lowering.block(&mut body);
    let Lowering { replaced, .. } = lowering;
    let now = |value: &mut ValueId| *value = replaced.get(value).copied().unwrap_or(*value);
    function.body = body;
    for output in &mut function.outputs {
        if let crate::ir::Output::Value(value) = output {
            now(value);
        }
    }
    function.updates.iter_mut().for_each(|(_, value)| now(value));
    for definition in function.definitions.values_mut() {
        let (Definition::SizeOf(value, _) | Definition::Value(value)) = definition;
        now(value);
    }
    result?;
    debug_verify(function, constants, "lowering");
    Ok(())
}

struct Lowering<'l, 'a> {
    function: &'l mut Function,
    constants: &'l mut Constants<'a>,
    rule: &'l dyn Fn(&str) -> Option<Rule>,
    /// Which value stands for one that is made no more.
    replaced: HashMap<ValueId, ValueId>,
    /// What is left of [`MOST`].
    room: i64,
    /// The results of the call of the method that is being rewritten.
    rewritten: Vec<ValueId>,
}

impl Lowering<'_, '_> {
    fn block(&mut self, block: &mut Block) -> Result<(), Error> {
        let calls = std::mem::take(&mut block.calls);
        for call in calls {
            self.call(call, &mut block.calls, 0)?;
        }
        block.outputs.iter_mut().for_each(|value| *value = self.now(*value));
        Ok(())
    }

    fn now(&self, value: ValueId) -> ValueId {
        self.replaced.get(&value).copied().unwrap_or(value)
    }

    fn call(&mut self, mut call: Call, done: &mut Vec<Call>, depth: usize) -> Result<(), Error> {
        for (_, arg) in &mut call.args {
            arg.replace(&mut |value| self.now(value));
        }
        for block in &mut call.blocks {
            self.block(block)?;
        }
        let Some(rule) = call.operator().and_then(|name| (self.rule)(name)).filter(|_| depth < DEPTH) else {
            if depth > 0 {
                self.sizes(&call)?;
            }
            done.push(call);
            return Ok(());
        };
        if depth == 0 {
            self.rewritten.clone_from(&call.outputs);
        }
        let Self { function, constants, room, .. } = self;
        let mut site = Site { call: &call, function, constants, calls: Vec::new(), room };
        let results = rule(&mut site).map_err(|error| at(&call, error))?;
        let calls = site.calls;
        self.check(&call, &results)?;
        self.replaced.extend(call.outputs.iter().copied().zip(results.iter().copied()));
        for mut inner in calls {
            self.view(&call, &inner)?;
            inner.source = inner.source.or_else(|| call.source.clone());
            // What a rule leaves under its own name is finished.
            let depth = if inner.operator() == call.operator() { DEPTH } else { depth + 1 };
            self.call(inner, done, depth)?;
        }
        for output in &call.outputs {
            let last = self.now(self.replaced[output]);
            self.replaced.insert(*output, last);
        }
        Ok(())
    }

    /// A rule believes what the export says of the result. A view of another number of elements shows that it is not true.
    fn view(&self, call: &Call, made: &Call) -> Result<(), Error> {
        let name = call.operator().unwrap_or("");
        let wrong = |invalid| Error::unsupported(format!("a result of a type that {name} does not give ({invalid})"));
        view(self.function, made).map_err(|invalid| at(call, wrong(invalid)))
    }

    /// Nor can what a rule makes ask for a size that is found in the very result.
    fn sizes(&self, made: &Call) -> Result<(), Error> {
        let mut known = true;
        made.args.iter().for_each(|(_, arg)| {
            arg.symbols(&mut |symbol| match self.function.definitions.get(&symbol) {
                Some(Definition::SizeOf(value, _) | Definition::Value(value)) => {
                    known &= !self.rewritten.contains(value)
                }
                None => {}
            });
        });
        let name = made.operator().unwrap_or("");
        let wrong = || Error::unsupported(format!("{name} with a size that only its result tells"));
        if known { Ok(()) } else { Err(at(made, wrong())) }
    }

    /// The values that a rule gives have the types that the call's results had.
    fn check(&self, call: &Call, results: &[ValueId]) -> Result<(), Error> {
        let name = call.operator().unwrap_or("");
        if results.len() != call.outputs.len() {
            let (made, wanted) = (results.len(), call.outputs.len());
            return Err(Error::Broken(format!("{name} has {wanted} results, the rule gives {made}")));
        }
        for (old, new) in call.outputs.iter().zip(results) {
            let (old, new) = (&self.function.get(*old).kind, &self.function.get(*new).kind);
            let same = match (old, new) {
                (Kind::Tensor(old), Kind::Tensor(new)) => (old.dtype, &old.sizes) == (new.dtype, &new.sizes),
                (old, new) => old == new,
            };
            if !same {
                return Err(Error::Broken(format!("{name} gives {old:?}, the rule {new:?}")));
            }
        }
        Ok(())
    }
}

/// An error of a call, with the operator in the export that it came from.
fn at(call: &Call, error: Error) -> Error {
    let (operator, trace) = call.source.as_deref().map_or(("", ""), |source| (&*source.target, &*source.stack_trace));
    error.at(if operator.is_empty() { call.operator().unwrap_or("") } else { operator }, trace)
}

/// A call that is being rewritten, and the calls that take its place so far.
pub struct Site<'s, 'a> {
    /// The call.
    pub call: &'s Call,
    function: &'s mut Function,
    constants: &'s mut Constants<'a>,
    calls: Vec<Call>,
    room: &'s mut i64,
}

impl<'s> Site<'s, '_> {
    /// A value by its number.
    pub fn value(&self, value: ValueId) -> &Value {
        self.function.get(value)
    }

    /// The type of a tensor; an empty one for what is no tensor.
    pub fn ty(&self, value: ValueId) -> TensorType {
        self.function.tensor(value).cloned().unwrap_or_else(|| TensorType::fixed(ScalarType::Float, &[0]))
    }

    /// The type of one of the call's results.
    pub fn result(&self, index: usize) -> TensorType {
        self.call.outputs.get(index).map_or_else(|| TensorType::fixed(ScalarType::Float, &[0]), |value| self.ty(*value))
    }

    /// The type, if it has `least` dimensions or more. Files may say anything: rules ask before they count from the end.
    pub fn ranked(&self, ty: TensorType, least: usize) -> Result<TensorType, Error> {
        if ty.rank() < least {
            let (name, rank) = (self.call.operator().unwrap_or(""), ty.rank());
            return Err(Error::unsupported(format!("{name} of {rank} dimensions, which needs {least},")));
        }
        Ok(ty)
    }

    /// The type of a result that has `least` dimensions or more.
    pub fn ranked_result(&self, index: usize, least: usize) -> Result<TensorType, Error> {
        self.ranked(self.result(index), least)
    }

    /// A number of the file as the number of steps of something that is unrolled; no steps if it is negative.
    pub fn few(&mut self, count: i64, what: &str) -> Result<i64, Error> {
        let count = count.max(0);
        let most = MOST / STEP;
        self.spend(count.checked_mul(STEP), || format!("{count} {what} one by one (the most are {most} in a method)"))?;
        Ok(count)
    }

    /// Asks for a constant of these sizes before its elements are computed; loops run along empty dimensions too.
    pub fn small(&mut self, sizes: &[i64]) -> Result<(), Error> {
        let count = sizes.iter().try_fold(1i64, |count, &size| count.checked_mul(size.max(1)));
        self.spend(count, || format!("a constant of the sizes {sizes:?} (the most are {MOST} elements in a method)"))
    }

    fn spend(&mut self, cost: Option<i64>, what: impl Fn() -> String) -> Result<(), Error> {
        match cost.and_then(|cost| self.room.checked_sub(cost)).filter(|room| *room >= 0) {
            Some(room) => *self.room = room,
            None => return Err(Error::unsupported(what())),
        }
        Ok(())
    }

    fn missing(&self, name: &str) -> Error {
        Error::unsupported(format!("{} with this argument {name:?}", self.call.operator().unwrap_or("")))
    }

    /// An argument.
    pub fn arg(&self, name: &str) -> &'s Arg {
        self.call.arg(name)
    }

    /// A tensor that must be there.
    pub fn tensor(&self, name: &str) -> Result<ValueId, Error> {
        self.optional_tensor(name).ok_or_else(|| self.missing(name))
    }

    /// A tensor that may be missing.
    pub fn optional_tensor(&self, name: &str) -> Option<ValueId> {
        match self.arg(name) {
            Arg::Value(value) if self.function.tensor(*value).is_some() => Some(*value),
            _ => None,
        }
    }

    /// Tensors.
    pub fn tensors(&self, name: &str) -> Result<Vec<ValueId>, Error> {
        match self.arg(name) {
            Arg::Values(values) => values.iter().copied().collect::<Option<_>>().ok_or_else(|| self.missing(name)),
            _ => Err(self.missing(name)),
        }
    }

    /// An integer, known or not.
    pub fn size(&self, name: &str) -> Option<Size> {
        match self.arg(name) {
            Arg::Int(size) => Some(size.clone()),
            _ => None,
        }
    }

    /// A known integer; `default` if the argument is missing.
    pub fn int(&self, name: &str, default: i64) -> Result<i64, Error> {
        match self.arg(name) {
            Arg::None => Ok(default),
            Arg::Int(size) => size.number().ok_or_else(|| self.missing(name)),
            _ => Err(self.missing(name)),
        }
    }

    /// Integers; `None` if the argument is missing.
    pub fn sizes(&self, name: &str) -> Option<Vec<Size>> {
        match self.arg(name) {
            Arg::Ints(sizes) => Some(sizes.clone()),
            Arg::Int(size) => Some(vec![size.clone()]),
            _ => None,
        }
    }

    /// Known integers; `default` if the argument is missing.
    pub fn ints(&self, name: &str, default: &[i64]) -> Result<Vec<i64>, Error> {
        match self.sizes(name) {
            None => Ok(default.to_vec()),
            Some(sizes) => sizes.iter().map(Size::number).collect::<Option<_>>().ok_or_else(|| self.missing(name)),
        }
    }

    /// Known integers, one for each of `count` dimensions; a single one stands for all.
    pub fn each(&self, name: &str, default: i64, count: usize) -> Result<Vec<i64>, Error> {
        match self.ints(name, &[default])?.as_slice() {
            [] => Ok(vec![default; count]),
            [one] => Ok(vec![*one; count]),
            all if all.len() == count => Ok(all.to_vec()),
            _ => Err(self.missing(name)),
        }
    }

    /// A known number; `default` if the argument is missing.
    pub fn float(&self, name: &str, default: f64) -> Result<f64, Error> {
        match self.arg(name) {
            Arg::None => Ok(default),
            Arg::Float(number) => Ok(*number),
            Arg::Int(size) => size.number().map(|number| number as f64).ok_or_else(|| self.missing(name)),
            Arg::Bool(truth) => Ok(f64::from(u8::from(*truth))),
            _ => Err(self.missing(name)),
        }
    }

    /// A truth value; `default` if the argument is missing.
    pub fn bool(&self, name: &str, default: bool) -> bool {
        match self.arg(name) {
            Arg::Bool(truth) => *truth,
            _ => default,
        }
    }

    /// A word; `default` if the argument is missing.
    pub fn text(&self, name: &str, default: &'static str) -> &'s str {
        match self.arg(name) {
            Arg::Text(text) => text,
            _ => default,
        }
    }

    /// A dimension of a tensor of `rank` dimensions, counted from the front.
    pub fn dim(&self, name: &str, default: i64, rank: usize) -> Result<usize, Error> {
        let dim = self.int(name, default)?;
        place(dim, rank).ok_or_else(|| self.missing(name))
    }

    /// A number as torch knows it: an integer stays one.
    pub fn scalar(&self, name: &str, default: i64) -> Arg {
        match self.arg(name) {
            Arg::None => default.into(),
            arg => arg.clone(),
        }
    }

    /// Adds a call with one result.
    pub fn call(
        &mut self,
        operator: impl Into<Cow<'static, str>>,
        args: impl IntoIterator<Item = (&'static str, Arg)>,
        ty: TensorType,
    ) -> ValueId {
        self.calls(operator, args, [ty])[0]
    }

    /// Adds a call with several results.
    pub fn calls<const N: usize>(
        &mut self,
        operator: impl Into<Cow<'static, str>>,
        args: impl IntoIterator<Item = (&'static str, Arg)>,
        types: [TensorType; N],
    ) -> [ValueId; N] {
        let outputs = types.map(|ty| self.new_value(Kind::Tensor(ty)));
        self.calls.push(Call::new(operator, args, outputs.to_vec()));
        outputs
    }

    /// Adds a call with as many results as there are types.
    pub fn call_many(
        &mut self,
        operator: impl Into<Cow<'static, str>>,
        args: impl IntoIterator<Item = (&'static str, Arg)>,
        types: Vec<TensorType>,
    ) -> Vec<ValueId> {
        let outputs: Vec<_> = types.into_iter().map(|ty| self.new_value(Kind::Tensor(ty))).collect();
        self.calls.push(Call::new(operator, args, outputs.clone()));
        outputs
    }

    /// Adds the call under another name, with the same arguments and results.
    pub fn renamed(&mut self, operator: impl Into<Cow<'static, str>>) -> Vec<ValueId> {
        let kinds = self.call.outputs.iter().map(|value| self.value(*value).kind.clone()).collect::<Vec<_>>();
        let outputs: Vec<_> = kinds.into_iter().map(|kind| self.new_value(kind)).collect();
        let mut call = self.call.clone();
        (call.target, call.outputs) = (crate::ir::Target::Operator(operator.into()), outputs.clone());
        self.calls.push(call);
        outputs
    }

    /// A value that a call will make.
    pub fn new_value(&mut self, kind: Kind) -> ValueId {
        let name = self.call.outputs.first().map(|value| self.value(*value).name.clone()).unwrap_or_default();
        self.function.value(kind, Origin::Call, name)
    }

    /// A known tensor.
    pub fn constant(&mut self, ty: TensorType, bytes: Vec<u8>) -> ValueId {
        let constant = self.constants.add("", bytes);
        self.function.value(Kind::Tensor(ty), Origin::Constant(constant), "")
    }

    /// The bytes of a value, if it is known.
    pub fn known(&self, value: ValueId) -> Option<&[u8]> {
        match self.value(value).origin {
            Origin::Constant(constant) => Some(self.constants.bytes(constant)),
            _ => None,
        }
    }
}

/// A dimension counted from the front.
pub fn place(dim: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?.max(1);
    let dim = if dim < 0 { dim + rank } else { dim };
    usize::try_from(dim).ok().filter(|_| dim < rank)
}
