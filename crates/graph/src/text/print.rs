//! Graph to text.

use super::parse::{ParseError, Parser};
use crate::graph::{Constant, ConstantId, Graph, Node, Origin, Source, Then, ValueId};
use crate::op::{Comparison, Layout, Reduction};
use crate::types::{Dim, Element, Quantized, Scheme, Storage, Type};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The value of an attribute.
pub(crate) trait Attribute: Sized {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParseError>;
    /// Adds it to a hash; numbers by their bits.
    fn digest(&self, state: &mut impl Hasher);
}

macro_rules! plain_attributes {
    ($($kind:ty: $what:literal, $bits:expr);*) => {$(
        impl Attribute for $kind {
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }

            fn parse(parser: &mut Parser<'_>) -> Result<Self, ParseError> {
                parser.word()?.parse().map_err(|_| parser.error($what))
            }

            fn digest(&self, state: &mut impl Hasher) {
                $bits(*self).hash(state);
            }
        }
    )*};
}
plain_attributes!(usize: "a size", usize::from; f32: "a number", f32::to_bits; bool: "true or false", u8::from);

macro_rules! word_attributes {
    ($($kind:ty: $what:literal),*) => {$(
        impl Attribute for $kind {
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }

            fn parse(parser: &mut Parser<'_>) -> Result<Self, ParseError> {
                let name = parser.word()?;
                Self::parse(name, parser)?.ok_or_else(|| parser.error($what))
            }

            fn digest(&self, state: &mut impl Hasher) {
                self.hash(state);
            }
        }
    )*};
}
word_attributes!(Reduction: "a reduction", Comparison: "a comparison", Layout: "heads_first or positions_first");

impl Attribute for Vec<usize> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }

    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParseError> {
        parser.list(Attribute::parse)
    }

    fn digest(&self, state: &mut impl Hasher) {
        self.hash(state);
    }
}

impl<const N: usize> Attribute for [usize; N] {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }

    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParseError> {
        Vec::parse(parser)?.try_into().map_err(|_| parser.error("a list of another length"))
    }

    fn digest(&self, state: &mut impl Hasher) {
        self.hash(state);
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for ConstantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "{name:?}"),
            Self::Payload(range) => write!(f, "{range:?}"),
            Self::Program(range) => write!(f, "program {range:?}"),
            Self::Value(index) => write!(f, "value {index}"),
            Self::Bytes(bytes) => write!(f, "{bytes:?}"),
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Symbol(symbol) => write!(f, "{} <= {}", symbol.name, symbol.most),
        }
    }
}

impl Storage {
    pub(super) const NAMES: [(Storage, &'static str); 4] =
        [(Self::Int8, "q8"), (Self::UInt8, "qu8"), (Self::Int32, "q32"), (Self::Int4, "q4")];
}

impl fmt::Display for Quantized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Storage::NAMES.iter().find(|(storage, _)| *storage == self.storage);
        f.write_str(name.map_or("", |(_, name)| name))?;
        match &self.scheme {
            Scheme::PerTensor { scale, zero } => write!(f, "{{scale: {scale}, zero: {zero}}}"),
            Scheme::PerChannel { axis, scales, zero } => write!(f, "{{axis: {axis}, scales: {scales}, zero: {zero}}}"),
            Scheme::PerToken { dims } => write!(f, "{{token: {dims}}}"),
            Scheme::PerGroup { size, scales, zero } => write!(f, "{{group: {size}, scales: {scales}, zero: {zero}}}"),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.element {
            Element::Plain(dtype) => f.write_str(dtype.name())?,
            Element::Quantized(quantized) => quantized.fmt(f)?,
        }
        f.write_str("[")?;
        for (place, dim) in self.dims.iter().enumerate() {
            write!(f, "{}{dim}", if place > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op.name())?;
        for (place, input) in self.inputs.iter().enumerate() {
            write!(f, "{} {input}", if place > 0 { "," } else { "" })?;
        }
        // The operation prints its name first; what follows are the attributes.
        f.write_str(self.op.to_string().trim_start_matches(self.op.name()))?;
        for (place, then) in self.then.iter().enumerate() {
            f.write_str(if place > 0 { ", " } else { " then " })?;
            match then {
                Then::Apply(function) => function.fmt(f)?,
                Then::Add(value) => write!(f, "add {value}")?,
                Then::Multiply(value) => write!(f, "multiply {value}")?,
            }
        }
        Ok(())
    }
}

impl Graph {
    fn print_value(&self, id: ValueId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = self.ty(id);
        if let Some(scales) = ty.scales() {
            writeln!(f, "{scales} = {}", self.constants[scales.index()].source)?;
        }
        match self.values[id.index()].origin {
            Origin::Input => writeln!(f, "{id}: {ty} = input"),
            Origin::Constant(constant) => {
                let Constant { source, order } = &self.constants[constant.index()];
                write!(f, "{id}: {ty} = constant {source}")?;
                if !order.is_empty() {
                    write!(f, " in order {order:?}")?;
                }
                writeln!(f)
            }
            Origin::Node => Ok(()),
        }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = vec![false; self.values.len()];
        let mut show = |id: ValueId, f: &mut fmt::Formatter<'_>| match std::mem::replace(&mut shown[id.index()], true) {
            true => Ok(()),
            false => self.print_value(id, f),
        };
        self.inputs.iter().try_for_each(|&id| show(id, f))?;
        for node in &self.nodes {
            node.reads().chain(node.outputs.iter().copied()).try_for_each(|id| show(id, f))?;
            for (place, output) in node.outputs.iter().enumerate() {
                write!(f, "{}{output}: {}", if place > 0 { ", " } else { "" }, self.ty(*output))?;
            }
            writeln!(f, " = {node}")?;
        }
        self.outputs.iter().try_for_each(|&id| show(id, f))?;
        f.write_str("output")?;
        for (place, output) in self.outputs.iter().enumerate() {
            write!(f, "{} {output}", if place > 0 { "," } else { "" })?;
        }
        writeln!(f)
    }
}
