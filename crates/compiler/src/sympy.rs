//! Expressions as sympy prints them.
//!
//! torch writes the size of a tensor as a string, either as calls (`Mul(Integer(2), Symbol('s0', integer=True))`) or as
//! formulas (`2*s0`). A small recursive parser reads both, with the functions of [`FUNCTIONS`]; anything else
//! (comparisons, floating-point numbers) is not a size.

use crate::size::{Size, Symbol};

/// A function of two sizes.
type Function = fn(&Size, &Size) -> Size;

/// Functions of two sizes by the names that torch and sympy print; some are printed with more operands.
const FUNCTIONS: &[(&str, Function)] = &[
    ("Add", Size::plus),
    ("Mul", Size::times),
    ("FloorDiv", Size::floor_div),
    ("CleanDiv", Size::floor_div),
    ("IntTrueDiv", Size::floor_div),
    ("CeilDiv", |a, b| a.plus(b).minus(&1.into()).floor_div(b)),
    ("Mod", Size::modulo),
    ("PythonMod", Size::modulo),
    ("Max", Size::max),
    ("Min", Size::min),
];

/// How deep sums and powers may nest, and the largest power that is written out.
const DEPTH: usize = 128;
const MOST_POWER: i64 = 8;

/// Reads an expression; `symbol` finds or makes the symbol of a name. `None` if it is not a size.
pub(crate) fn parse(text: &str, symbol: &mut dyn FnMut(&str) -> Symbol) -> Option<Size> {
    let mut parser = Parser { rest: text, symbol, depth: 0 };
    let size = parser.sum()?;
    parser.rest.trim_start().is_empty().then_some(size)
}

struct Parser<'t, 's> {
    rest: &'t str,
    symbol: &'s mut dyn FnMut(&str) -> Symbol,
    depth: usize,
}

impl<'t> Parser<'t, '_> {
    /// Takes a sign if it comes next.
    fn sign(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.strip_prefix(sign);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    /// Takes characters of a kind.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn sum(&mut self) -> Option<Size> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let mut sum = self.product()?;
        loop {
            if self.sign("+") {
                sum = sum.plus(&self.product()?);
            } else if self.sign("-") {
                sum = sum.minus(&self.product()?);
            } else {
                self.depth -= 1;
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<Size> {
        let mut product = self.power()?;
        loop {
            if self.sign("//") {
                product = product.floor_div(&self.power()?);
            } else if self.sign("*") {
                product = product.times(&self.power()?);
            } else if self.sign("%") {
                product = product.modulo(&self.power()?);
            } else {
                return Some(product);
            }
        }
    }

    fn power(&mut self) -> Option<Size> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let size = if self.sign("-") {
            self.power()?.times(&(-1).into())
        } else {
            let base = self.atom()?;
            if self.sign("**") { raised(&base, &self.power()?)? } else { base }
        };
        self.depth -= 1;
        Some(size)
    }

    fn atom(&mut self) -> Option<Size> {
        if self.sign("(") {
            let inner = self.sum()?;
            return self.sign(")").then_some(inner);
        }
        let digits = self.word(|c| c.is_ascii_digit());
        if !digits.is_empty() {
            return digits.parse::<i64>().ok().map(Size::from);
        }
        let path = self.word(|c| c.is_alphanumeric() || c == '_' || c == '.');
        let name = path.rsplit('.').next().unwrap_or(path);
        if name.is_empty() {
            return None;
        }
        if !self.sign("(") {
            return Some((self.symbol)(name).into());
        }
        let value = match name {
            "Symbol" => self.symbol(),
            "Integer" => self.sum(),
            "Pow" => {
                let base = self.sum()?;
                self.sign(",").then_some(())?;
                raised(&base, &self.sum()?)
            }
            _ => self.function(name),
        }?;
        self.sign(")").then_some(value)
    }

    /// The name of a symbol in quotes; what is said of it in words is left out.
    fn symbol(&mut self) -> Option<Size> {
        self.sign("'").then_some(())?;
        let name = self.word(|c| c != '\'');
        self.word(|c| c != ')');
        Some((self.symbol)(name).into())
    }

    fn function(&mut self, name: &str) -> Option<Size> {
        let (_, function) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
        let mut value = self.sum()?;
        while self.sign(",") {
            value = function(&value, &self.sum()?);
        }
        Some(value)
    }
}

/// A power, as a product.
fn raised(base: &Size, exponent: &Size) -> Option<Size> {
    let exponent = exponent.number().filter(|power| (0..=MOST_POWER).contains(power))?;
    Some((0..exponent).fold(Size::from(1), |product, _| product.times(base)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::{Known, Symbols};

    #[test]
    fn formulas_and_calls_read_alike() {
        let mut symbols = Symbols::default();
        let mut read = |text: &str| {
            parse(text, &mut |name| {
                let found = symbols.find(name);
                found.unwrap_or_else(|| symbols.add(Known { name: name.to_owned(), least: 0, most: 16 }))
            })
        };
        let calls = "Add(Integer(-1), Mul(Integer(2), Symbol('s77', positive=True, integer=True)))";
        assert_eq!(read(calls), read("2*s77 - 1"));
        assert_eq!(read("Max(1, s77, 3)"), read("Max(3, Max(s77, 1))").map(|_| read("Max(1, s77, 3)").unwrap()));
        assert_eq!(read("Pow(Symbol('s77'), Integer(2))"), read("s77**2"));
        assert_eq!(read("torch.utils._sympy.functions.FloorDiv(Mul(4, s77), 2)"), read("s77 + s77"));
        assert_eq!(read("(s77*s1)//s1"), read("s77"));
        assert_eq!(read("((s77 + 1)//2) - ((1 + s77)//2)").and_then(|size| size.number()), Some(0));
        for text in ["", "1.5", "s0 <= 3", "f(", "(((", "Pow(s0, -1)"] {
            assert_eq!(read(text), None, "{text}");
        }
        for sign in ["-", "(", "1**", "Max("] {
            assert_eq!(read(&sign.repeat(100_000)), None, "{sign}");
        }
        let size = read("Mod(s77, 5) + FloorDiv(s77, 3)").unwrap();
        assert_eq!(symbols.range(&size), (0, 9));
    }
}
