//! Who makes and who reads each value: of a whole method when calls are chosen, of one part when it is lowered.
//!
//! Some values are *known*: constants, and what calls that only move or dequantise make of them. They become weights, and
//! nothing is computed for them when the program runs.

use super::arguments::Arguments;
use super::quantization::{self, Grid};
use super::tensor::Tensor;
use crate::ir::{Arg, Call, Constants, Data, Function, Origin, Output, TensorType, ValueId};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// How many calls may stand between a constant and a value that is known because of it.
const MOST_STEPS: usize = 6;

/// Calls with who makes and who reads what.
pub(super) struct Scope<'p> {
    pub(super) function: &'p Function,
    constants: &'p Constants<'p>,
    makers: HashMap<ValueId, &'p Call>,
    readers: HashMap<ValueId, Vec<&'p Call>>,
    /// Known values that calls make, with the calls that lead to them.
    known: HashMap<ValueId, usize>,
    outputs: HashSet<ValueId>,
}

impl<'p> Scope<'p> {
    /// Of some calls, whose results `outputs` are read elsewhere.
    pub(super) fn new(
        function: &'p Function,
        constants: &'p Constants<'p>,
        calls: impl IntoIterator<Item = &'p Call>,
        outputs: impl IntoIterator<Item = ValueId>,
    ) -> Self {
        let mut scope = Self {
            function,
            constants,
            makers: HashMap::new(),
            readers: HashMap::new(),
            known: HashMap::new(),
            outputs: outputs.into_iter().collect(),
        };
        for call in calls {
            scope.makers.extend(call.outputs.iter().map(|&value| (value, call)));
            if let Some(steps) = scope.steps(call) {
                scope.known.extend(call.outputs.iter().map(|&value| (value, steps)));
            }
            let mut read = HashSet::new();
            call.reads(&mut |value| {
                if read.insert(value) {
                    scope.readers.entry(value).or_default().push(call);
                }
            });
            for block in &call.blocks {
                block.walk(&mut |inner| {
                    inner.reads(&mut |value| {
                        scope.outputs.insert(value);
                    })
                });
                scope.outputs.extend(&block.outputs);
            }
        }
        scope
    }

    /// Of a whole method.
    pub(super) fn of(function: &'p Function, constants: &'p Constants<'p>) -> Self {
        let given = function.outputs.iter().filter_map(|output| match output {
            Output::Value(value) => Some(*value),
            Output::Known(_) => None,
        });
        let updates = function.updates.iter().map(|(_, value)| *value);
        Self::new(function, constants, &function.body.calls, given.chain(updates))
    }

    /// The type of a tensor.
    pub(super) fn ty(&self, value: ValueId) -> Result<&'p TensorType, String> {
        self.function.tensor(value).ok_or_else(|| "it works on a number that is no tensor".to_owned())
    }

    /// The call that makes a value.
    pub(super) fn maker(&self, value: ValueId) -> Option<&'p Call> {
        self.makers.get(&value).copied()
    }

    /// The calls that read a value.
    pub(super) fn readers(&self, value: ValueId) -> &[&'p Call] {
        self.readers.get(&value).map_or(&[], Vec::as_slice)
    }

    /// The one call that reads a value, if nothing else does.
    pub(super) fn sole_reader(&self, value: ValueId) -> Option<&'p Call> {
        match self.readers(value) {
            [reader] if !self.outputs.contains(&value) && !reader.outputs.is_empty() => Some(reader),
            _ => None,
        }
    }

    /// Whether something outside of these calls reads a value.
    pub(super) fn is_output(&self, value: ValueId) -> bool {
        self.outputs.contains(&value)
    }

    /// Whether nothing reads a value.
    pub(super) fn is_unread(&self, value: ValueId) -> bool {
        self.readers(value).is_empty() && !self.outputs.contains(&value)
    }

    /// Whether a call makes a known value of known values, so that no node is needed for it.
    pub(super) fn follows(&self, call: &Call) -> bool {
        self.steps(call).is_some()
    }

    /// How many calls, this one included, lead from constants to what a call makes, if it is known.
    fn steps(&self, call: &Call) -> Option<usize> {
        let moves = match call.operator() {
            Some("aten::permute" | "aten::view") => Some("self"),
            Some(name) if quantization::is_dequantize(name) => Some("input"),
            _ => None,
        };
        moves.filter(|name| matches!(call.arg(name), Arg::Value(_)))?;
        let own = |(_, arg): &(Cow<'static, str>, Arg)| match arg {
            Arg::Value(value) if matches!(self.function.get(*value).origin, Origin::Constant(_)) => Some(0),
            Arg::Value(value) => self.known.get(value).copied(),
            Arg::Values(_) => None,
            _ => Some(0),
        };
        let before = call.args.iter().try_fold(0, |most, arg| Some(own(arg)?.max(most)))?;
        (before < MOST_STEPS).then_some(before + 1)
    }

    /// Whether a value is known.
    pub(super) fn is_known(&self, value: ValueId) -> bool {
        matches!(self.function.get(value).origin, Origin::Constant(_)) || self.known.contains_key(&value)
    }

    /// An error if the export says that a value has other sizes than it has.
    pub(super) fn has_sizes(&self, value: ValueId, sizes: &[usize]) -> Result<(), String> {
        let told = self.ty(value)?.numbers().unwrap_or_default();
        let same = told.len() == sizes.len() && told.iter().zip(sizes).all(|(a, b)| usize::try_from(*a) == Ok(*b));
        if same { Ok(()) } else { Err(format!("a weight of the sizes {sizes:?} is said to have {told:?}")) }
    }

    /// The bytes of data for the payload.
    pub(super) fn data<'d>(&self, data: &'d Data) -> &'d [u8]
    where
        'p: 'd,
    {
        self.constants.data(data)
    }

    /// A known tensor.
    pub(super) fn known(&self, value: ValueId) -> Result<Tensor<'p>, String> {
        let ty = self.ty(value)?;
        let numbers = ty.numbers().and_then(|sizes| sizes.into_iter().map(|size| usize::try_from(size).ok()).collect());
        let sizes: Vec<usize> = numbers.ok_or("a weight has sizes that are not known")?;
        if let Origin::Constant(id) = self.function.get(value).origin {
            let bytes = self.constants.bytes(id);
            if sizes.iter().try_fold(ty.dtype.size(), |all, &size| all.checked_mul(size)) != Some(bytes.len()) {
                return Err(format!("a weight of the sizes {sizes:?} has {} bytes", bytes.len()));
            }
            return Ok(Tensor { dtype: ty.dtype, sizes, bytes: bytes.into(), constant: Some(id) });
        }
        let call = self.maker(value).filter(|call| self.follows(call)).ok_or("a weight is not constant")?;
        let arguments = Arguments(call);
        let tensor = match call.operator() {
            Some("aten::view") => {
                let tensor = self.known(arguments.tensor("self")?)?;
                if sizes.iter().try_fold(1usize, |all, &size| all.checked_mul(size)) != Some(tensor.count()) {
                    return Err(format!("a weight of the sizes {:?} is viewed as {sizes:?}", tensor.sizes));
                }
                tensor.reshaped(sizes)
            }
            Some("aten::permute") => {
                let tensor = self.known(arguments.tensor("self")?)?;
                let order = permutation(call, tensor.sizes.len())?;
                tensor.permuted(&order)
            }
            _ => {
                let grid = Grid::of(self, call)?;
                grid.dequantized(&self.known(arguments.tensor("input")?)?, ty.dtype)?
            }
        };
        self.has_sizes(value, &tensor.sizes)?;
        Ok(tensor)
    }
}

/// The order of dimensions that a call of `aten::permute` asks for.
pub(super) fn permutation(call: &Call, rank: usize) -> Result<Vec<usize>, String> {
    let dims = Arguments(call).ints("dims")?;
    let order: Option<Vec<usize>> = dims.iter().map(|&dim| crate::lower::place(dim, rank)).collect();
    let is_permutation = |order: &Vec<usize>| order.len() == rank && (0..rank).all(|dim| order.contains(&dim));
    order.filter(is_permutation).ok_or_else(|| format!("it permutes {rank} dimensions by {dims:?}"))
}
