//! Sizes that are not known before a program runs: integer expressions over symbols.
//!
//! torch writes them as sympy prints them (`2*s0 + 1`, `(s0//2)`, `Max(1, s3)`). Here they are kept in one canonical
//! form, sums of products with sorted parts, so that equal sizes compare equal: `s0*2` and `s0 + s0` are the same
//! [`Size`]. What is not a sum or a product (division, remainder, extrema) is an atom whose operands are canonical.
//!
//! A symbol is a number in [`Symbols`], which knows the least and the largest value it can have and where it is found
//! when the program runs; [`Symbols::range`] tells the range of an expression.

use std::collections::BTreeMap;
use std::fmt;

/// A symbol by its place in [`Symbols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

/// Something in a product that is not a product itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A symbol.
    Symbol(Symbol),
    /// The quotient, rounded down.
    FloorDiv(Size, Size),
    /// What the rounded quotient leaves; it has the sign of the divisor.
    Mod(Size, Size),
    /// The larger one.
    Max(Size, Size),
    /// The smaller one.
    Min(Size, Size),
}

/// An integer expression: a sum of products, each with a factor; no factor is zero, and each product occurs once. A
/// product without atoms is a plain number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    terms: BTreeMap<Vec<Atom>, i64>,
}

/// How many terms a product may have.
const MOST_TERMS: usize = 256;

impl From<i64> for Size {
    fn from(number: i64) -> Self {
        Self { terms: (number != 0).then(|| (Vec::new(), number)).into_iter().collect() }
    }
}

impl From<Atom> for Size {
    fn from(atom: Atom) -> Self {
        Self { terms: BTreeMap::from([(vec![atom], 1)]) }
    }
}

impl From<Symbol> for Size {
    fn from(symbol: Symbol) -> Self {
        Atom::Symbol(symbol).into()
    }
}

impl Size {
    /// The number, if it is one.
    pub fn number(&self) -> Option<i64> {
        match self.terms.iter().next() {
            None => Some(0),
            Some((atoms, &factor)) => (self.terms.len() == 1 && atoms.is_empty()).then_some(factor),
        }
    }

    /// Its products, with their factors.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        self.terms.iter().map(|(atoms, &factor)| (&**atoms, factor))
    }

    /// `(a, b)` if it is `a * symbol + b`, from which the symbol follows.
    pub fn line(&self, symbol: Symbol) -> Option<(i64, i64)> {
        let (mut by, mut plus) = (0, 0);
        for (atoms, factor) in self.terms() {
            match atoms {
                [] => plus = factor,
                [Atom::Symbol(own)] if *own == symbol => by = factor,
                _ => return None,
            }
        }
        (by != 0).then_some((by, plus))
    }

    /// The sum.
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (atoms, &factor) in &other.terms {
            let entry = sum.terms.entry(atoms.clone()).or_insert(0);
            *entry = entry.saturating_add(factor);
            if *entry == 0 {
                sum.terms.remove(atoms);
            }
        }
        sum
    }

    /// The product. Sums that would be too long multiplied out stay what they are, as quotients by one.
    pub fn times(&self, other: &Self) -> Self {
        if self.terms.len().saturating_mul(other.terms.len()) > MOST_TERMS {
            return self.whole().times(&other.whole());
        }
        let mut product = Self::default();
        for (left, &a) in &self.terms {
            for (right, &b) in &other.terms {
                let mut atoms = [left.as_slice(), right.as_slice()].concat();
                atoms.sort();
                product = product.plus(&Self { terms: BTreeMap::from([(atoms, a.saturating_mul(b))]) });
            }
        }
        product
    }

    /// The same as a single term.
    fn whole(&self) -> Self {
        if self.terms.len() > 1 { Atom::FloorDiv(self.clone(), 1.into()).into() } else { self.clone() }
    }

    /// The difference.
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&other.times(&(-1).into()))
    }

    /// The quotient, rounded down. A divisor of zero stays in the expression: it is an error when the program runs.
    pub fn floor_div(&self, other: &Self) -> Self {
        match (self.number(), other.number()) {
            (_, Some(1)) => self.clone(),
            (Some(a), Some(b)) if b != 0 => floor_div(a, b).into(),
            (_, Some(b)) if b != 0 && self.terms.values().all(|factor| factor.wrapping_rem(b) == 0) => {
                let terms = self.terms.iter().map(|(atoms, factor)| (atoms.clone(), factor.saturating_div(b)));
                Self { terms: terms.collect() }
            }
            _ if self == other => 1.into(),
            _ => self.without_factor(other).unwrap_or_else(|| Atom::FloorDiv(self.clone(), other.clone()).into()),
        }
    }

    /// `self / product`, if a single product divides all terms.
    fn without_factor(&self, product: &Self) -> Option<Self> {
        let (divisor, by) = product.terms().next().filter(|_| product.terms.len() == 1)?;
        let term = |(atoms, factor): (&[Atom], i64)| {
            let mut rest = atoms.to_vec();
            for atom in divisor {
                rest.remove(rest.iter().position(|own| own == atom)?);
            }
            (factor.wrapping_rem(by) == 0).then(|| (rest, factor.saturating_div(by)))
        };
        Some(Self { terms: self.terms().map(term).collect::<Option<_>>()? })
    }

    /// What the rounded quotient leaves.
    pub fn modulo(&self, other: &Self) -> Self {
        match (self.number(), other.number()) {
            (_, Some(1)) => 0.into(),
            (Some(a), Some(b)) if b != 0 => modulo(a, b).into(),
            (_, Some(b)) if b != 0 && self.terms.values().all(|factor| factor.wrapping_rem(b) == 0) => 0.into(),
            _ if self == other => 0.into(),
            _ => Atom::Mod(self.clone(), other.clone()).into(),
        }
    }

    /// The larger one.
    pub fn max(&self, other: &Self) -> Self {
        match (self.number(), other.number()) {
            (Some(a), Some(b)) => a.max(b).into(),
            _ if self == other => self.clone(),
            _ => Atom::Max(self.clone().min_of(other), self.clone().max_of(other)).into(),
        }
    }

    /// The smaller one.
    pub fn min(&self, other: &Self) -> Self {
        match (self.number(), other.number()) {
            (Some(a), Some(b)) => a.min(b).into(),
            _ if self == other => self.clone(),
            _ => Atom::Min(self.clone().min_of(other), self.clone().max_of(other)).into(),
        }
    }

    /// Operands in an order of their own, so that exchanging them changes nothing.
    fn min_of(self, other: &Self) -> Self {
        if self <= *other { self } else { other.clone() }
    }

    fn max_of(self, other: &Self) -> Self {
        if self <= *other { other.clone() } else { self }
    }

    /// The same expression with other values for its symbols.
    pub fn substitute(&self, value: &dyn Fn(Symbol) -> Size) -> Size {
        let mut sum = Size::default();
        for (atoms, factor) in self.terms() {
            let product = atoms.iter().fold(Size::from(factor), |product, atom| {
                product.times(&match atom {
                    Atom::Symbol(symbol) => value(*symbol),
                    Atom::FloorDiv(a, b) => a.substitute(value).floor_div(&b.substitute(value)),
                    Atom::Mod(a, b) => a.substitute(value).modulo(&b.substitute(value)),
                    Atom::Max(a, b) => Size::max(&a.substitute(value), &b.substitute(value)),
                    Atom::Min(a, b) => Size::min(&a.substitute(value), &b.substitute(value)),
                })
            });
            sum = sum.plus(&product);
        }
        sum
    }

    /// Calls `each` for every symbol in it.
    pub fn symbols(&self, each: &mut dyn FnMut(Symbol)) {
        for (atoms, _) in self.terms() {
            for atom in atoms {
                match atom {
                    Atom::Symbol(symbol) => each(*symbol),
                    Atom::FloorDiv(a, b) | Atom::Mod(a, b) | Atom::Max(a, b) | Atom::Min(a, b) => {
                        a.symbols(each);
                        b.symbols(each);
                    }
                }
            }
        }
    }
}

fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.saturating_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn modulo(a: i64, b: i64) -> i64 {
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
}

/// What is known of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name in the file.
    pub name: String,
    /// The least value.
    pub least: i64,
    /// The largest value.
    pub most: i64,
}

/// All symbols of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    known: Vec<Known>,
}

impl Symbols {
    /// A new symbol.
    pub fn add(&mut self, known: Known) -> Symbol {
        self.known.push(known);
        Symbol(self.known.len() as u32 - 1)
    }

    /// The symbol of this name.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.known.iter().position(|known| known.name == name).map(|place| Symbol(place as u32))
    }

    /// What is known of a symbol.
    pub fn get(&self, symbol: Symbol) -> Option<&Known> {
        self.known.get(symbol.0 as usize)
    }

    /// Says the largest value of a symbol; the least one is no larger.
    pub fn limit(&mut self, size: &Size, most: i64) {
        if let [([Atom::Symbol(symbol)], 1)] = size.terms().collect::<Vec<_>>()[..]
            && let Some(known) = self.known.get_mut(symbol.0 as usize)
        {
            known.most = most.max(known.least);
        }
    }

    /// The largest value of an expression: what memory is reserved for.
    pub fn most(&self, size: &Size) -> i64 {
        self.range(size).1
    }

    /// The least and the largest value that an expression can have. Bounds are safe, not always tight: each symbol is
    /// taken by itself wherever it occurs.
    pub fn range(&self, size: &Size) -> (i64, i64) {
        let mut total = (0i64, 0i64);
        for (atoms, factor) in size.terms() {
            let product = atoms.iter().fold((factor, factor), |range, atom| product(range, self.atom_range(atom)));
            total = (total.0.saturating_add(product.0), total.1.saturating_add(product.1));
        }
        total
    }

    fn atom_range(&self, atom: &Atom) -> (i64, i64) {
        match atom {
            Atom::Symbol(symbol) => self.get(*symbol).map_or((0, i64::MAX), |known| (known.least, known.most)),
            Atom::FloorDiv(a, b) => {
                let ((a, c), (b, d)) = (self.range(a), self.range(b));
                let divisors = [b, d].map(|divisor| if divisor == 0 { 1 } else { divisor });
                let all = divisors.map(|by| [floor_div(a, by), floor_div(c, by)]);
                let all = all.as_flattened();
                (all.iter().copied().min().unwrap_or(0), all.iter().copied().max().unwrap_or(0))
            }
            Atom::Mod(_, b) => (0, self.range(b).1.saturating_sub(1).max(0)),
            Atom::Max(a, b) => {
                let (a, b) = (self.range(a), self.range(b));
                (a.0.max(b.0), a.1.max(b.1))
            }
            Atom::Min(a, b) => {
                let (a, b) = (self.range(a), self.range(b));
                (a.0.min(b.0), a.1.min(b.1))
            }
        }
    }

    /// Prints an expression with the names of its symbols.
    pub fn show<'a>(&'a self, size: &'a Size) -> impl fmt::Display + 'a {
        Shown { symbols: self, size }
    }
}

fn product((a, b): (i64, i64), (c, d): (i64, i64)) -> (i64, i64) {
    let all = [a.saturating_mul(c), a.saturating_mul(d), b.saturating_mul(c), b.saturating_mul(d)];
    (all.iter().copied().min().unwrap_or(0), all.iter().copied().max().unwrap_or(0))
}

struct Shown<'a> {
    symbols: &'a Symbols,
    size: &'a Size,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(number) = self.size.number() {
            return write!(f, "{number}");
        }
        for (place, (atoms, factor)) in self.size.terms().enumerate() {
            let plus = if place > 0 { " + " } else { "" };
            write!(f, "{plus}")?;
            if factor != 1 || atoms.is_empty() {
                write!(f, "{factor}{}", if atoms.is_empty() { "" } else { "*" })?;
            }
            for (place, atom) in atoms.iter().enumerate() {
                let star = if place > 0 { "*" } else { "" };
                let two = |a, b| (Shown { symbols: self.symbols, size: a }, Shown { symbols: self.symbols, size: b });
                write!(f, "{star}")?;
                match atom {
                    Atom::Symbol(symbol) => f.write_str(self.symbols.get(*symbol).map_or("?", |known| &known.name))?,
                    Atom::FloorDiv(a, b) => two(a, b).write(f, "floor_div")?,
                    Atom::Mod(a, b) => two(a, b).write(f, "mod")?,
                    Atom::Max(a, b) => two(a, b).write(f, "max")?,
                    Atom::Min(a, b) => two(a, b).write(f, "min")?,
                }
            }
        }
        Ok(())
    }
}

/// Two operands of a function.
trait Operands {
    fn write(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result;
}

impl Operands for (Shown<'_>, Shown<'_>) {
    fn write(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        write!(f, "{name}({}, {})", self.0, self.1)
    }
}
