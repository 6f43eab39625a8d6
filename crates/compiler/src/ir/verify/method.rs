//! The values, symbols and constants of one method.

use super::{Invalid, invalid};
use crate::ir::{
    Arg, Block, Call, ConstantId, Constants, Definition, Function, Input, Kind, Origin, Output, TensorType, ValueId,
};
use crate::size::{Size, Symbol};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// What is known on the way through a method.
pub(super) struct Checker<'c> {
    pub(super) function: &'c Function,
    constants: &'c Constants<'c>,
    pub(super) delegates: usize,
    /// Values that can be read here.
    made: Vec<bool>,
    /// Values that were made anywhere.
    once: Vec<bool>,
    /// Whether the method keeps what begins as a constant.
    kept: HashMap<ConstantId, bool>,
}

impl<'c> Checker<'c> {
    pub(super) fn new(function: &'c Function, constants: &'c Constants<'c>, delegates: usize) -> Self {
        let none = vec![false; function.values.len()];
        Self { function, constants, delegates, made: none.clone(), once: none, kept: HashMap::new() }
    }

    pub(super) fn run(mut self) -> Result<(), Invalid> {
        self.symbols()?;
        for value in (0..self.function.values.len() as u32).map(ValueId) {
            self.value(value)?;
        }
        self.borders()?;
        for &input in &self.function.body.inputs {
            self.make(input, &Origin::Input, &"the caller")?;
        }
        self.block(&self.function.body)?;
        self.outputs()?;
        self.updates()
    }

    /// Names and ranges of symbols, and where they are found.
    fn symbols(&self) -> Result<(), Invalid> {
        let symbols = &self.function.symbols;
        let mut names = HashSet::new();
        for known in (0..).map(Symbol).map_while(|symbol| symbols.get(symbol)) {
            if !names.insert(&known.name) {
                return invalid(format!("there are two symbols {}", known.name));
            }
            if known.least > known.most {
                return invalid(format!("the symbol {} is in {}..{}", known.name, known.least, known.most));
            }
        }
        for (&symbol, &definition) in &self.function.definitions {
            let Some(known) = symbols.get(symbol) else { return invalid("a symbol is found that is not there") };
            let follows = match definition {
                Definition::Value(value) => self.known(value)?.kind == Kind::Int,
                Definition::SizeOf(value, dim) => match &self.known(value)?.kind {
                    Kind::Tensor(ty) => ty.sizes.get(dim).is_some_and(|size| size.line(symbol).is_some()),
                    _ => false,
                },
            };
            if !follows {
                let (Definition::Value(value) | Definition::SizeOf(value, _)) = definition;
                return invalid(format!("the symbol {} does not follow from {}", known.name, self.shown(value)));
            }
        }
        Ok(())
    }

    /// A value by its number.
    fn known(&self, value: ValueId) -> Result<&'c crate::ir::Value, Invalid> {
        match self.function.values.get(value.0 as usize) {
            Some(own) => Ok(own),
            None => invalid(format!("{value} is no value")),
        }
    }

    /// The type and origin of a value.
    fn value(&mut self, value: ValueId) -> Result<(), Invalid> {
        let own = self.known(value)?;
        let constant = match own.origin {
            Origin::Constant(id) | Origin::State(id) => Some(id),
            Origin::Input | Origin::Block | Origin::Call => None,
        };
        if let Kind::Tensor(ty) = &own.kind {
            self.tensor(value, ty, own.origin == Origin::Input)?;
        }
        if let Some(id) = constant {
            self.bytes(value, id)?;
            let is_kept = matches!(own.origin, Origin::State(_));
            if *self.kept.entry(id).or_insert(is_kept) != is_kept {
                return invalid(format!("{} is the constant {id}, and that is kept elsewhere", self.shown(value)));
            }
            self.made[value.0 as usize] = true;
        }
        Ok(())
    }

    fn tensor(&self, value: ValueId, ty: &TensorType, any_order: bool) -> Result<(), Invalid> {
        let mut order = ty.order.clone();
        order.sort_unstable();
        if !order.iter().map(|&dim| usize::from(dim)).eq(0..ty.rank()) {
            return invalid(format!("the dimensions of {} cannot lie in the order {:?}", self.shown(value), ty.order));
        }
        if !any_order && !ty.is_contiguous() {
            return invalid(format!("{}, which is no input, does not lie row by row", self.shown(value)));
        }
        for size in &ty.sizes {
            if !self.has_symbols(size) {
                return invalid(format!("a size of {} has a symbol that is not there", self.shown(value)));
            }
            if size.number().is_some_and(|size| size < 0) {
                return invalid(format!("a size of {} is negative", self.shown(value)));
            }
        }
        Ok(())
    }

    pub(super) fn has_symbols(&self, size: &Size) -> bool {
        let mut all = true;
        size.symbols(&mut |symbol| all &= self.function.symbols.get(symbol).is_some());
        all
    }

    /// A constant has the bytes of its type.
    fn bytes(&self, value: ValueId, id: ConstantId) -> Result<(), Invalid> {
        let Some(constant) = self.constants.0.get(id.0 as usize) else {
            return invalid(format!("{} is the constant {id}, which is not there", self.shown(value)));
        };
        let Some(ty) = self.function.tensor(value) else {
            return invalid(format!("{} is a constant and no tensor", self.shown(value)));
        };
        let size = |bytes: u64, size: &Size| bytes.checked_mul(u64::try_from(size.number()?).ok()?);
        let wanted = ty.sizes.iter().try_fold(ty.dtype.size() as u64, size);
        if wanted == Some(constant.bytes.len() as u64) {
            return Ok(());
        }
        invalid(format!("{} is the constant {id} of {} bytes", self.shown(value), constant.bytes.len()))
    }

    /// The values that come in and go out.
    fn borders(&self) -> Result<(), Invalid> {
        let input = |input: &Input| if let Input::Value(value) = input { Some(*value) } else { None };
        let output = |output: &Output| if let Output::Value(value) = output { Some(*value) } else { None };
        let Function { inputs, outputs, body, .. } = self.function;
        if !inputs.iter().filter_map(input).eq(body.inputs.iter().copied()) {
            return invalid(format!("the inputs of the body are {}", list(&body.inputs)));
        }
        if !outputs.iter().filter_map(output).eq(body.outputs.iter().copied()) {
            return invalid(format!("the outputs of the body are {}", list(&body.outputs)));
        }
        let fixed = inputs.iter().filter_map(|input| if let Input::Fixed(arg) = input { Some(arg) } else { None });
        let known = outputs.iter().filter_map(|output| if let Output::Known(arg) = output { Some(arg) } else { None });
        if fixed.chain(known).any(|arg| matches!(arg, Arg::Value(_) | Arg::Values(_))) {
            return invalid("a value goes in or out as something known");
        }
        Ok(())
    }

    /// The calls of a block; what they made is forgotten at the end of those inside calls.
    pub(super) fn block(&mut self, block: &Block) -> Result<(), Invalid> {
        for call in &block.calls {
            self.call(call)?;
            for &output in &call.outputs {
                self.make(output, &Origin::Call, &call.target)?;
            }
        }
        block.outputs.iter().try_for_each(|&value| self.read(value, "as a result"))
    }

    /// A block inside a call.
    pub(super) fn inner(&mut self, block: &Block, call: &Call) -> Result<(), Invalid> {
        for &input in &block.inputs {
            self.make(input, &Origin::Block, &format_args!("a block of {}", call.target))?;
        }
        self.block(block)?;
        let made = block.calls.iter().flat_map(|call| &call.outputs).chain(&block.inputs);
        made.for_each(|value| self.made[value.0 as usize] = false);
        Ok(())
    }

    fn make(&mut self, value: ValueId, origin: &Origin, maker: &dyn Display) -> Result<(), Invalid> {
        if self.known(value)?.origin != *origin {
            return invalid(format!("{maker} makes {}, which comes from elsewhere", self.shown(value)));
        }
        if std::mem::replace(&mut self.once[value.0 as usize], true) {
            return invalid(format!("{} is made twice", self.shown(value)));
        }
        self.made[value.0 as usize] = true;
        Ok(())
    }

    /// A value that is read, and how.
    pub(super) fn read(&self, value: ValueId, how: impl Display) -> Result<(), Invalid> {
        self.known(value)?;
        if self.made[value.0 as usize] {
            Ok(())
        } else {
            invalid(format!("{} is read {how} and not made", self.shown(value)))
        }
    }

    /// What symbols of sizes that have to be computed here are found in; one that nothing tells is an error of the export.
    pub(super) fn computed(&self, arg: &Arg, how: impl Display) -> Result<(), Invalid> {
        let mut found = Vec::new();
        arg.symbols(&mut |symbol| found.push(symbol));
        for symbol in found {
            if self.function.symbols.get(symbol).is_none() {
                return invalid(format!("a symbol is read {how} that is not there"));
            }
            if let Some(Definition::Value(value) | Definition::SizeOf(value, _)) =
                self.function.definitions.get(&symbol)
            {
                self.read(*value, format_args!("for a size {how}"))?;
            }
        }
        Ok(())
    }

    fn outputs(&self) -> Result<(), Invalid> {
        self.function.outputs.iter().try_for_each(|output| match output {
            Output::Value(_) => Ok(()),
            Output::Known(arg) => self.computed(arg, "as a result"),
        })
    }

    fn updates(&self) -> Result<(), Invalid> {
        let mut updated = HashSet::new();
        for &(old, new) in &self.function.updates {
            let origin = &self.known(old)?.origin;
            if !matches!(origin, Origin::State(_) | Origin::Input) {
                return invalid(format!("{} is updated and not kept", self.shown(old)));
            }
            if !updated.insert(old) {
                return invalid(format!("{} is updated twice", self.shown(old)));
            }
            self.read(old, "for an update")?;
            self.read(new, "for an update")?;
            if !self.agree(old, new) {
                return invalid(format!("{} is updated with {}", self.shown(old), self.shown(new)));
            }
        }
        Ok(())
    }

    /// Whether a value can stand where another is expected. Sizes that are not known may be the same.
    pub(super) fn agree(&self, a: ValueId, b: ValueId) -> bool {
        match (&self.function.get(a).kind, &self.function.get(b).kind) {
            (Kind::Tensor(a), Kind::Tensor(b)) => a.dtype == b.dtype && agree(&a.sizes, &b.sizes),
            (a, b) => a == b,
        }
    }

    /// A value as the text has it where it is made.
    pub(super) fn shown(&self, value: ValueId) -> String {
        self.function.declared(value).to_string()
    }
}

/// Whether sizes can be the same.
pub(super) fn agree(a: &[Size], b: &[Size]) -> bool {
    let differ = |(a, b): (&Size, &Size)| a.number().zip(b.number()).is_some_and(|(a, b)| a != b);
    a.len() == b.len() && !a.iter().zip(b).any(differ)
}

pub(super) fn list(values: &[ValueId]) -> String {
    values.iter().map(ValueId::to_string).collect::<Vec<_>>().join(", ")
}
