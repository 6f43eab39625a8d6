//! Programs to text.

use crate::ir::{
    Arg, Block, Call, Constant, ConstantId, Data, Definition, Delegate, Function, Input, Kind, MemoryFormat, Origin,
    Output, Program, Target, ValueId,
};
use crate::size::{Known, Size, Symbol};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// Constants of at most this number of bytes are shown.
const MOST_BYTES: usize = 32;

impl Display for ValueId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl Display for ConstantId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl MemoryFormat {
    pub(super) const NAMES: [(Self, &'static str); 3] =
        [(Self::Contiguous, "contiguous"), (Self::ChannelsLast, "channels_last"), (Self::Preserve, "preserve")];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(own, _)| *own == self).map_or("", |(_, name)| name)
    }
}

impl Display for Program<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.decomposed {
            writeln!(f, "decomposed")?;
        }
        for (place, Constant { name, bytes }) in self.constants.0.iter().enumerate() {
            write!(f, "@{place} = ")?;
            if !name.is_empty() {
                write!(f, "{name:?} ")?;
            }
            writeln!(f, "{}", Bytes(bytes))?;
        }
        for (place, delegate) in self.delegates.iter().enumerate() {
            writeln!(f, "delegate {place} {delegate}")?;
        }
        for (name, values) in &self.known {
            write!(f, "known {name:?}")?;
            let none = Function::default();
            for (place, value) in values.iter().enumerate() {
                write!(f, "{} {}", comma(place), Shown(&none, value))?;
            }
            writeln!(f)?;
        }
        self.functions.iter().try_for_each(|function| function.fmt(f))
    }
}

/// Bytes if they are few, else their number.
struct Bytes<'b>(&'b [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.len() <= MOST_BYTES { write!(f, "{:?}", self.0) } else { write!(f, "{} bytes", self.0.len()) }
    }
}

impl Display for Delegate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.backend, Bytes(&self.payload))?;
        for (key, value) in &self.specs {
            write!(f, " option {key:?} {}", Bytes(value))?;
        }
        for (key, data) in &self.data {
            match data {
                Data::Constant(id) => write!(f, " data {key:?} {id}")?,
                Data::Bytes(bytes) => write!(f, " data {key:?} {}", Bytes(bytes))?,
            }
        }
        if self.reads_beyond > 0 { write!(f, " beyond {}", self.reads_beyond) } else { Ok(()) }
    }
}

fn comma(place: usize) -> &'static str {
    if place > 0 { "," } else { "" }
}

/// Something of a method that names its values or symbols.
struct Shown<'s, T>(&'s Function, &'s T);

impl Display for Shown<'_, Size> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.symbols.show(self.1).fmt(f)
    }
}

impl Display for Shown<'_, Kind> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ty = match self.1 {
            Kind::Tensor(ty) => ty,
            Kind::Int => return f.write_str("int"),
            Kind::Float => return f.write_str("float"),
            Kind::Bool => return f.write_str("bool"),
        };
        f.write_str(ty.dtype.name())?;
        print_list(f, "", &ty.sizes, |size, f| Shown(self.0, size).fmt(f))?;
        let in_rows = ty.order.iter().map(|&dim| usize::from(dim)).eq(0..ty.rank());
        if in_rows { Ok(()) } else { write!(f, " in order {:?}", ty.order) }
    }
}

impl Display for Shown<'_, Arg> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Arg::None => f.write_str("none"),
            Arg::Value(value) => value.fmt(f),
            Arg::Values(values) => print_list(f, "values ", values, |value, f| match value {
                Some(value) => value.fmt(f),
                None => f.write_str("none"),
            }),
            Arg::Int(size) => Shown(self.0, size).fmt(f),
            Arg::Ints(sizes) => print_list(f, "", sizes, |size, f| Shown(self.0, size).fmt(f)),
            Arg::Float(number) => write!(f, "{number:?}"),
            Arg::Floats(numbers) => print_list(f, "floats ", numbers, |number, f| write!(f, "{number:?}")),
            Arg::Bool(truth) => truth.fmt(f),
            Arg::Bools(truths) => print_list(f, "bools ", truths, Display::fmt),
            Arg::Text(text) => write!(f, "{text:?}"),
            Arg::Dtype(dtype) => f.write_str(dtype.name()),
            Arg::MemoryFormat(format) => f.write_str(format.name()),
        }
    }
}

/// `[item, item]`; what an empty list is of stands before it.
fn print_list<T>(
    f: &mut Formatter<'_>,
    empty: &str,
    items: &[T],
    mut item: impl FnMut(&T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    f.write_str(if items.is_empty() { empty } else { "" })?;
    f.write_str("[")?;
    for (place, own) in items.iter().enumerate() {
        f.write_str(if place > 0 { ", " } else { "" })?;
        item(own, f)?;
    }
    f.write_str("]")
}

impl Target {
    /// The words for what is no operator.
    pub(super) const WORDS: [(Self, &'static str); 4] =
        [(Self::Cond, "cond"), (Self::Map, "map"), (Self::Scan, "scan"), (Self::While, "while")];
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(name) => f.write_str(name),
            Self::Delegate(number) => write!(f, "delegate {number}"),
            _ => f.write_str(Self::WORDS.iter().find(|(own, _)| own == self).map_or("", |(_, word)| word)),
        }
    }
}

/// The method's part of a program.
impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "method {:?}", self.name)?;
        let (made, read) = self.mentioned();
        for (place, known) in (0..).map(Symbol).map_while(|symbol| Some((symbol, self.symbols.get(symbol)?))) {
            self.print_symbol(place, known, &made, f)?;
        }
        for input in &self.inputs {
            match input {
                Input::Value(value) => writeln!(f, "{} = input", self.declared(*value))?,
                Input::Fixed(arg) => writeln!(f, "fixed {}", Shown(self, arg))?,
            }
        }
        for value in read {
            match self.get(value).origin {
                Origin::Constant(id) => writeln!(f, "{} = constant {id}", self.declared(value))?,
                Origin::State(id) => writeln!(f, "{} = state {id}", self.declared(value))?,
                Origin::Input | Origin::Block | Origin::Call => {}
            }
        }
        self.print_calls(&self.body, 0, f)?;
        for (old, new) in &self.updates {
            writeln!(f, "update {old} = {new}")?;
        }
        for (place, output) in self.outputs.iter().enumerate() {
            match output {
                Output::Value(value) => write!(f, "output {value}")?,
                Output::Known(arg) => write!(f, "output {}", Shown(self, arg))?,
            }
            match self.output_names.get(place) {
                Some(name) => writeln!(f, " {name:?}")?,
                None => writeln!(f)?,
            }
        }
        match &self.nesting {
            [inputs, outputs] if inputs.is_empty() && outputs.is_empty() => Ok(()),
            [inputs, outputs] => writeln!(f, "nesting {inputs:?} {outputs:?}"),
        }
    }
}

impl Function {
    /// The values that are made here, and those that are read.
    fn mentioned(&self) -> (BTreeSet<ValueId>, BTreeSet<ValueId>) {
        let (mut made, mut read) = (BTreeSet::new(), BTreeSet::new());
        made.extend(&self.body.inputs);
        self.body.walk(&mut |call| {
            call.reads(&mut |value| _ = read.insert(value));
            made.extend(&call.outputs);
            for block in &call.blocks {
                made.extend(&block.inputs);
                read.extend(&block.outputs);
            }
        });
        read.extend(&self.body.outputs);
        read.extend(self.updates.iter().flat_map(|(old, new)| [old, new]));
        made.extend(&read);
        (made, read)
    }

    /// A symbol, with where it is found, if that is still made.
    fn print_symbol(
        &self,
        symbol: Symbol,
        known: &Known,
        made: &BTreeSet<ValueId>,
        f: &mut Formatter<'_>,
    ) -> fmt::Result {
        let Known { name, least, most } = known;
        write!(f, "symbol {name} in {least}..")?;
        if *most != i64::MAX {
            most.fmt(f)?;
        }
        match self.definitions.get(&symbol) {
            Some(Definition::SizeOf(value, dim)) if made.contains(value) => writeln!(f, " = size {dim} of {value}"),
            Some(Definition::Value(value)) if made.contains(value) => writeln!(f, " = {value}"),
            _ => writeln!(f),
        }
    }

    /// A value where it is made.
    pub(in crate::ir) fn declared(&self, value: ValueId) -> impl Display {
        let own = self.get(value);
        let name = if own.name.is_empty() { String::new() } else { format!(" {:?}", own.name) };
        format!("{value}: {}{name}", Shown(self, &own.kind))
    }

    fn print_declared(&self, values: &[ValueId], f: &mut Formatter<'_>) -> fmt::Result {
        values
            .iter()
            .enumerate()
            .try_for_each(|(place, value)| write!(f, "{}{}", if place > 0 { ", " } else { "" }, self.declared(*value)))
    }

    fn print_calls(&self, block: &Block, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
        for call in &block.calls {
            write!(f, "{:1$}", "", 2 * depth)?;
            self.print_declared(&call.outputs, f)?;
            write!(f, "{}{}(", if call.outputs.is_empty() { "" } else { " = " }, call.target)?;
            self.print_args(call, f)?;
            writeln!(f, ")")?;
            for inner in &call.blocks {
                write!(f, "{:1$}block ", "", 2 * depth + 2)?;
                self.print_declared(&inner.inputs, f)?;
                writeln!(f)?;
                self.print_calls(inner, depth + 2, f)?;
                write!(f, "{:1$}give", "", 2 * depth + 2)?;
                for (place, value) in inner.outputs.iter().enumerate() {
                    write!(f, "{} {value}", comma(place))?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }

    fn print_args(&self, call: &Call, f: &mut Formatter<'_>) -> fmt::Result {
        call.args.iter().enumerate().try_for_each(|(place, (name, arg))| {
            write!(f, "{}{name}: {}", if place > 0 { ", " } else { "" }, Shown(self, arg))
        })
    }
}
