//! Sizes that follow from the inputs: numbers, or code for a small stack machine.

use std::string::String;
use std::vec::Vec;

/// Most operands that code may leave waiting.
const DEPTH: usize = 16;

const SYMBOL: u8 = 0x01;
const NUMBER: u8 = 0x02;
const LONG: u8 = 0x03;
const NEGATE: u8 = 0x15;

/// A size or a position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A number.
    Fixed(i64),
    /// Operands and operations in the order in which a stack machine takes them.
    Code(Vec<Step>),
}

/// One step of the stack machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Pushes the value of a symbol.
    Symbol(u8),
    /// Pushes a number.
    Number(i64),
    /// Takes two operands and pushes a result.
    Combine(Combine),
    /// Changes the sign of the topmost operand.
    Negate,
}

macro_rules! combinations {
    ($($(#[$doc:meta])* $code:literal $name:ident $compute:expr;)*) => {
        /// A function of two numbers; `None` where it overflows or divides by zero.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Combine { $($(#[$doc])* $name,)* }

        impl Combine {
            fn code(self) -> u8 {
                match self { $(Self::$name => $code,)* }
            }

            fn of(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            fn compute(self, a: i64, b: i64) -> Option<i64> {
                let compute: fn(i64, i64) -> Option<i64> = match self { $(Self::$name => $compute,)* };
                compute(a, b)
            }
        }
    };
}

combinations! {
    /// The sum.
    0x10 Add i64::checked_add;
    /// The difference.
    0x11 Subtract i64::checked_sub;
    /// The product.
    0x12 Multiply i64::checked_mul;
    /// The quotient, rounded down.
    0x13 FloorDivide floor_divide;
    /// What the rounded quotient leaves.
    0x14 Modulo |a, b| floor_divide(a, b).and_then(|quotient| a.checked_sub(quotient.checked_mul(b)?));
    /// The larger one.
    0x16 Max |a, b| Some(a.max(b));
    /// The smaller one.
    0x17 Min |a, b| Some(a.min(b));
}

fn floor_divide(a: i64, b: i64) -> Option<i64> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    Some(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
}

impl From<i64> for Extent {
    fn from(number: i64) -> Self {
        Self::Fixed(number)
    }
}

impl Extent {
    /// A symbol by its number.
    pub fn symbol(number: u8) -> Self {
        Self::Code(Vec::from([Step::Symbol(number)]))
    }

    /// The number, if it depends on nothing.
    pub fn fixed(&self) -> Option<i64> {
        if let Self::Fixed(number) = self { Some(*number) } else { None }
    }

    /// The symbol, if it is one and nothing else.
    pub fn as_symbol(&self) -> Option<u8> {
        match self {
            Self::Code(steps) => {
                if let [Step::Symbol(symbol)] = steps[..] {
                    Some(symbol)
                } else {
                    None
                }
            }
            Self::Fixed(_) => None,
        }
    }

    /// Its value for these values of the symbols; `None` if one is missing, a number overflows or the code is no code.
    pub fn value(&self, symbol: &dyn Fn(u8) -> Option<i64>) -> Option<i64> {
        let steps = match self {
            Self::Fixed(number) => return Some(*number),
            Self::Code(steps) => steps,
        };
        let mut stack = Vec::new();
        for step in steps {
            let pushed = match *step {
                Step::Symbol(number) => symbol(number)?,
                Step::Number(number) => number,
                Step::Negate => stack.pop().and_then(i64::checked_neg)?,
                Step::Combine(combine) => {
                    let (b, a) = (stack.pop()?, stack.pop()?);
                    combine.compute(a, b)?
                }
            };
            stack.push(pushed);
            if stack.len() > DEPTH {
                return None;
            }
        }
        if let [value] = stack[..] { Some(value) } else { None }
    }

    /// The code as bytes; none for a number.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Self::Code(steps) = self else { return Vec::new() };
        let mut bytes = Vec::new();
        for step in steps {
            match *step {
                Step::Symbol(number) => bytes.extend([SYMBOL, number]),
                Step::Number(number) => match i32::try_from(number) {
                    Ok(short) => {
                        bytes.push(NUMBER);
                        bytes.extend(short.to_le_bytes());
                    }
                    Err(_) => {
                        bytes.push(LONG);
                        bytes.extend(number.to_le_bytes());
                    }
                },
                Step::Combine(combine) => bytes.push(combine.code()),
                Step::Negate => bytes.push(NEGATE),
            }
        }
        bytes
    }

    /// Code from bytes.
    pub(super) fn read(mut bytes: &[u8]) -> Result<Self, String> {
        let mut steps = Vec::new();
        while let Some((&code, rest)) = bytes.split_first() {
            let short = std::format!("the code of a size ends in the middle of step {code:#04x}");
            let (step, rest) = match code {
                SYMBOL => rest.split_first().map(|(&number, rest)| (Step::Symbol(number), rest)).ok_or(short)?,
                NUMBER => {
                    let (number, rest) = rest.split_first_chunk().ok_or(short)?;
                    (Step::Number(i32::from_le_bytes(*number).into()), rest)
                }
                LONG => {
                    let (number, rest) = rest.split_first_chunk().ok_or(short)?;
                    (Step::Number(i64::from_le_bytes(*number)), rest)
                }
                NEGATE => (Step::Negate, rest),
                _ => match Combine::of(code) {
                    Some(combine) => (Step::Combine(combine), rest),
                    None => return Err(std::format!("the code of a size has the unknown step {code:#04x}")),
                },
            };
            steps.push(step);
            bytes = rest;
        }
        Ok(Self::Code(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_survives_bytes_and_computes() {
        let two = [Step::Symbol(0), Step::Number(1 << 40), Step::Combine(Combine::Add), Step::Negate, Step::Number(7)];
        let code = Extent::Code([&two[..], &[Step::Combine(Combine::FloorDivide)]].concat());
        assert_eq!(Extent::read(&code.bytes()), Ok(code.clone()));
        let value = -(3 + (1i64 << 40));
        assert_eq!(code.value(&|symbol| (symbol == 0).then_some(3)), Some(value.div_euclid(7)));
        assert_eq!(code.value(&|_| None), None);
    }

    #[test]
    fn divisions_round_down() {
        for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3)] {
            let quotient = (a as f64 / b as f64).floor() as i64;
            assert_eq!(Combine::FloorDivide.compute(a, b), Some(quotient));
            assert_eq!(Combine::Modulo.compute(a, b), Some(a - quotient * b));
        }
        assert_eq!(Combine::FloorDivide.compute(1, 0), None);
        assert_eq!(Combine::Modulo.compute(i64::MIN, -1), None);
    }

    #[test]
    fn broken_code_has_no_value() {
        assert!(Extent::read(&[NUMBER, 1, 2]).is_err());
        assert!(Extent::read(&[0x77]).is_err());
        assert_eq!(Extent::Code(Vec::from([Step::Combine(Combine::Add)])).value(&|_| Some(1)), None);
        assert_eq!(Extent::Code(Vec::from([Step::Number(1); DEPTH + 1])).value(&|_| Some(1)), None);
    }
}
