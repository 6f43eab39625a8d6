//! Numbers that are computed when a program runs: sizes from the sizes of inputs, and what the export wrote in Python.

use super::Emitter;
use crate::Error;
use crate::ir::{Arg, Call, Definition};
use crate::signature::Takes;
use crate::size::{Atom, Size, Symbol};
use sconce_format::pte::model::{Instruction, Value};

/// Python's operations on numbers, and the runtime's.
const ARITHMETIC: &[(&str, &str)] = &[
    ("_operator.add", "executorch_prim::add.Scalar"),
    ("_operator.sub", "executorch_prim::sub.Scalar"),
    ("_operator.mul", "executorch_prim::mul.Scalar"),
    ("_operator.floordiv", "executorch_prim::floordiv.Scalar"),
    ("_operator.truediv", "executorch_prim::truediv.Scalar"),
    ("_operator.mod", "executorch_prim::mod.Scalar"),
    ("_operator.neg", "executorch_prim::neg.Scalar"),
    ("_operator.eq", "executorch_prim::eq.Scalar"),
    ("_operator.gt", "executorch_prim::gt.Scalar"),
    ("_operator.lt", "executorch_prim::lt.Scalar"),
    ("_operator.ge", "executorch_prim::ge.Scalar"),
    ("_operator.le", "executorch_prim::le.Scalar"),
    ("torch.sym_float", "executorch_prim::sym_float.Scalar"),
    ("torch.sym_int", "executorch_prim::sym_int.Scalar"),
    ("torch.sym_not", "executorch_prim::sym_not.Scalar"),
    ("torch.sym_ite", "executorch_prim::sym_ite.Scalar"),
    ("torch.sym_max", "executorch_prim::sym_max.Scalar"),
    ("torch.sym_min", "executorch_prim::sym_min.Scalar"),
    ("math.ceil", "executorch_prim::ceil.Scalar"),
    ("math.trunc", "executorch_prim::trunc.Scalar"),
    ("builtins.round", "executorch_prim::round.Scalar"),
];

impl<'p> Emitter<'_, '_, 'p> {
    /// An operation on numbers that the export wrote in Python.
    pub(super) fn arithmetic(&mut self, call: &'p Call) -> Result<(), Error> {
        let name = call.operator().and_then(|name| name.strip_prefix("python::")).unwrap_or("");
        let Some((_, operator)) = ARITHMETIC.iter().find(|(python, _)| *python == name) else {
            self.missing.insert(name.to_owned());
            return Ok(());
        };
        let mut args = Vec::new();
        for (_, arg) in &call.args {
            args.push(self.argument(arg, Takes::Scalar, None)?);
        }
        args.push(self.read(call.outputs[0])?);
        let operator = self.plan.operator(operator);
        self.push(Instruction::Kernel { operator, args }, Some(call));
        Ok(())
    }

    /// The entry of a size: a number, or what instructions compute.
    pub(super) fn size(&mut self, size: &Size) -> Result<u32, Error> {
        if let Some(number) = size.number() {
            return Ok(self.plain(Value::Int(number)));
        }
        if let Some(entry) = self.sizes.iter().rev().find_map(|known| known.get(size)) {
            return Ok(*entry);
        }
        let mut sum = None;
        for (atoms, factor) in size.terms() {
            let mut product = (factor != 1 || atoms.is_empty()).then(|| self.plain(Value::Int(factor)));
            for atom in atoms {
                let atom = self.atom(atom)?;
                product = Some(match product {
                    Some(product) => self.prim("mul", product, atom),
                    None => atom,
                });
            }
            let Some(product) = product else { continue };
            sum = Some(match sum {
                Some(sum) => self.prim("add", sum, product),
                None => product,
            });
        }
        let entry = sum.unwrap_or_else(|| self.plain(Value::Int(0)));
        if let Some(known) = self.sizes.last_mut() {
            known.insert(size.clone(), entry);
        }
        Ok(entry)
    }

    fn atom(&mut self, atom: &Atom) -> Result<u32, Error> {
        let (operator, a, b) = match atom {
            Atom::Symbol(symbol) => return self.symbol(*symbol),
            Atom::FloorDiv(a, b) => ("floordiv", a, b),
            Atom::Mod(a, b) => ("mod", a, b),
            Atom::Max(a, b) => ("sym_max", a, b),
            Atom::Min(a, b) => ("sym_min", a, b),
        };
        let (a, b) = (self.size(a)?, self.size(b)?);
        Ok(self.prim(operator, a, b))
    }

    fn symbol(&mut self, symbol: Symbol) -> Result<u32, Error> {
        let size = Size::from(symbol);
        if let Some(entry) = self.sizes.iter().rev().find_map(|known| known.get(&size)) {
            return Ok(*entry);
        }
        let entry = match self.function.definitions.get(&symbol) {
            Some(Definition::Value(value)) => self.read(*value)?,
            Some(Definition::SizeOf(value, dim)) => {
                let line = self.function.tensor(*value).and_then(|ty| ty.size(*dim).line(symbol));
                let (by, plus) = line.unwrap_or((1, 0));
                let (tensor, dim) = (self.read(*value)?, self.plain(Value::Int(*dim as i64)));
                let mut entry = self.plan.value(Value::Int(0));
                let operator = self.plan.operator("aten::sym_size.int");
                self.push(Instruction::Kernel { operator, args: vec![tensor, dim, entry] }, None);
                for (name, number, none) in [("sub", plus, 0), ("floordiv", by, 1)] {
                    if number != none {
                        let number = self.plain(Value::Int(number));
                        entry = self.prim(name, entry, number);
                    }
                }
                entry
            }
            None => {
                let name = self.function.symbols.get(symbol).map_or("?", |known| &known.name);
                return Err(Error::unsupported(format!("the symbol {name}, which no input or result tells")));
            }
        };
        if let Some(known) = self.sizes.last_mut() {
            known.insert(size, entry);
        }
        Ok(entry)
    }

    /// An operation on two integers.
    pub(super) fn prim(&mut self, name: &str, a: u32, b: u32) -> u32 {
        let entry = self.plan.value(Value::Int(0));
        let operator = self.plan.operator(&format!("executorch_prim::{name}.Scalar"));
        self.push(Instruction::Kernel { operator, args: vec![a, b, entry] }, None);
        entry
    }

    /// The entry of a known or computed truth value or tensor that decides where to go.
    pub(super) fn condition(&mut self, arg: &Arg) -> Result<u32, Error> {
        self.argument(arg, Takes::Bool, None)
    }
}
