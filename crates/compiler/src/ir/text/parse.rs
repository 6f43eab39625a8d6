//! Text to programs.

use crate::ir::{
    Arg, Block, Call, Constant, ConstantId, Data, Definition, Delegate, Function, Input, Kind, MemoryFormat, Origin,
    Output, Program, Target, TensorType, ValueId,
};
use crate::size::{Atom, Known, Size, Symbol};
use sconce_format::ScalarType;
use sconce_graph::{ParseError, Parser};
use std::collections::HashMap;

/// Reads a program from its text.
pub fn parse(text: &str) -> Result<Program<'static>, ParseError> {
    let mut program = Program::default();
    let mut method: Option<Method> = None;
    for (index, line) in text.lines().enumerate() {
        let mut parser = Parser::new(index + 1, line);
        if parser.is_at_end() || parser.is_at("//") {
            continue;
        }
        if parser.take("method ") {
            program.functions.extend(method.map(Method::finish).transpose()?);
            method = Some(Method::new(parser.quoted()?));
        } else if let Some(method) = &mut method {
            method.statement(&mut parser)?;
        } else {
            shared(&mut program, &mut parser)?;
        }
        parser.end()?;
    }
    program.functions.extend(method.map(Method::finish).transpose()?);
    Ok(program)
}

/// A statement before the first method.
fn shared(program: &mut Program<'static>, parser: &mut Parser<'_>) -> Result<(), ParseError> {
    if parser.take("decomposed") {
        program.decomposed = true;
    } else if parser.take("@") {
        in_turn(parser, program.constants.0.len())?;
        parser.expect("=")?;
        let name = if parser.is_at("\"") { parser.quoted()? } else { String::new() };
        program.constants.0.push(Constant { name, bytes: bytes(parser)?.into() });
    } else if parser.take("delegate ") {
        in_turn(parser, program.delegates.len())?;
        program.delegates.push(delegate(parser)?);
    } else if parser.take("known ") {
        let (mut none, name, mut values) = (Method::new(String::new()), parser.quoted()?, Vec::new());
        while !parser.is_at_end() {
            values.push(none.arg(parser)?);
            parser.take(",");
        }
        program.known.push((name, values));
    } else {
        return Err(parser.error("a constant, a delegate or a method"));
    }
    Ok(())
}

/// The number of the next one of a list, which is written out for those who read.
fn in_turn(parser: &mut Parser<'_>, next: usize) -> Result<(), ParseError> {
    let wrong = parser.error(&format!("the number {next}"));
    if parser.number::<usize>()? == next { Ok(()) } else { Err(wrong) }
}

fn delegate(parser: &mut Parser<'_>) -> Result<Delegate, ParseError> {
    let (backend, payload) = (parser.quoted()?, bytes(parser)?);
    let (mut specs, mut data) = (Vec::new(), Vec::new());
    while parser.take("option ") {
        specs.push((parser.quoted()?, bytes(parser)?));
    }
    while parser.take("data ") {
        let key = parser.quoted()?;
        let own = if parser.is_at("@") { Data::Constant(constant(parser)?) } else { Data::Bytes(bytes(parser)?) };
        data.push((key, own));
    }
    let reads_beyond = if parser.take("beyond ") { parser.number()? } else { 0 };
    Ok(Delegate { backend, payload, specs, data, reads_beyond, ..Delegate::default() })
}

/// `[1, 2]`, or `64 bytes`, which are zeros.
fn bytes(parser: &mut Parser<'_>) -> Result<Vec<u8>, ParseError> {
    if parser.is_at("[") {
        return parser.list(Parser::number);
    }
    let count = parser.number()?;
    parser.expect("bytes")?;
    Ok(vec![0; count])
}

fn constant(parser: &mut Parser<'_>) -> Result<ConstantId, ParseError> {
    parser.expect("@")?;
    parser.number().map(ConstantId)
}

/// A definition of a symbol whose value comes later in the text: the value by its number there, and what to say then.
struct Found {
    symbol: Symbol,
    number: u32,
    dim: Option<usize>,
    error: ParseError,
}

/// A method in the making.
struct Method {
    function: Function,
    values: HashMap<u32, ValueId>,
    /// The blocks that are open, the innermost last.
    blocks: Vec<Block>,
    found: Vec<Found>,
}

impl Method {
    fn new(name: String) -> Self {
        let function = Function { name, ..Function::default() };
        Self { function, values: HashMap::new(), blocks: Vec::new(), found: Vec::new() }
    }

    fn finish(mut self) -> Result<Function, ParseError> {
        for Found { symbol, number, dim, error } in self.found {
            let value = *self.values.get(&number).ok_or(error)?;
            let definition = dim.map_or(Definition::Value(value), |dim| Definition::SizeOf(value, dim));
            self.function.definitions.insert(symbol, definition);
        }
        let input = |input: &Input| if let Input::Value(value) = input { Some(*value) } else { None };
        let output = |output: &Output| if let Output::Value(value) = output { Some(*value) } else { None };
        self.function.body.inputs = self.function.inputs.iter().filter_map(input).collect();
        self.function.body.outputs = self.function.outputs.iter().filter_map(output).collect();
        Ok(self.function)
    }

    fn statement(&mut self, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        if parser.take("symbol ") {
            self.symbol(parser)
        } else if parser.take("fixed ") {
            let arg = self.arg(parser)?;
            self.function.inputs.push(Input::Fixed(arg));
            Ok(())
        } else if parser.take("block") {
            let inputs = self.declarations(parser, &Origin::Block)?;
            self.blocks.push(Block { inputs, ..Block::default() });
            Ok(())
        } else if parser.take("give") {
            self.give(parser)
        } else if parser.take("update ") {
            let old = self.read(parser)?;
            parser.expect("=")?;
            let new = self.read(parser)?;
            self.function.updates.push((old, new));
            Ok(())
        } else if parser.take("output ") {
            self.output(parser)
        } else if parser.take("nesting ") {
            self.function.nesting = [parser.quoted()?, parser.quoted()?];
            Ok(())
        } else {
            self.made(parser)
        }
    }

    /// `name in least..most = size dim of %value`
    fn symbol(&mut self, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        let name = parser.word()?.to_owned();
        parser.expect("in ")?;
        let wrong = parser.error("a range such as 0..16");
        let (least, most) = parser.word()?.split_once("..").ok_or_else(|| wrong.clone())?;
        let most = if most.is_empty() { Ok(i64::MAX) } else { most.parse() };
        let (Ok(least), Ok(most)) = (least.parse(), most) else { return Err(wrong) };
        let symbol = self.function.symbols.add(Known { name, least, most });
        if parser.take("=") {
            let dim = if parser.take("size ") { Some(parser.number()?) } else { None };
            if dim.is_some() {
                parser.expect("of ")?;
            }
            let error = parser.error("a value that is made somewhere");
            parser.expect("%")?;
            self.found.push(Found { symbol, number: parser.number()?, dim, error });
        }
        Ok(())
    }

    /// The results of a block, which then belongs to the call before it.
    fn give(&mut self, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        let outputs = self.reads(parser)?;
        let block = self.blocks.pop().ok_or_else(|| parser.error("a block before this"))?;
        let outer = self.blocks.last_mut().unwrap_or(&mut self.function.body);
        let call = outer.calls.last_mut().ok_or_else(|| parser.error("a call with blocks before this"))?;
        call.blocks.push(Block { outputs, ..block });
        Ok(())
    }

    fn output(&mut self, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        let output = match self.arg(parser)? {
            Arg::Value(value) => Output::Value(value),
            known => Output::Known(known),
        };
        self.function.outputs.push(output);
        if parser.is_at("\"") {
            self.function.output_names.push(parser.quoted()?);
        }
        Ok(())
    }

    /// A statement that makes values, or a call that makes none.
    fn made(&mut self, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        let outputs = self.declarations(parser, &Origin::Call)?;
        if !outputs.is_empty() {
            parser.expect("=")?;
        }
        let origin = if parser.take("input") {
            self.function.inputs.extend(outputs.iter().copied().map(Input::Value));
            Origin::Input
        } else if parser.take("constant ") {
            Origin::Constant(constant(parser)?)
        } else if parser.take("state ") {
            Origin::State(constant(parser)?)
        } else {
            return self.call(outputs, parser);
        };
        for value in outputs {
            self.function.values[value.0 as usize].origin = origin.clone();
        }
        Ok(())
    }

    fn call(&mut self, outputs: Vec<ValueId>, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        let target = if parser.take("delegate ") {
            Target::Delegate(parser.number()?)
        } else {
            let word = parser.word()?;
            match Target::WORDS.iter().find(|(_, own)| *own == word) {
                Some((target, _)) => target.clone(),
                None => {
                    parser.expect("::")?;
                    Target::Operator(format!("{word}::{}", parser.word()?).into())
                }
            }
        };
        parser.expect("(")?;
        let mut args = Vec::new();
        while !parser.take(")") {
            let name = parser.word()?.to_owned();
            parser.expect(":")?;
            args.push((name.into(), self.arg(parser)?));
            if !parser.take(",") && !parser.is_at(")") {
                return Err(parser.error("',' or ')'"));
            }
        }
        let block = self.blocks.last_mut().unwrap_or(&mut self.function.body);
        block.calls.push(Call { target, args, blocks: Vec::new(), outputs, source: None });
        Ok(())
    }

    /// `%0: float32[4] "name", ...`
    fn declarations(&mut self, parser: &mut Parser<'_>, origin: &Origin) -> Result<Vec<ValueId>, ParseError> {
        let mut values = Vec::new();
        while parser.is_at("%") {
            let again = parser.error("a value that is not made yet");
            parser.expect("%")?;
            let number = parser.number()?;
            parser.expect(":")?;
            let kind = self.kind(parser)?;
            let name = if parser.is_at("\"") { parser.quoted()? } else { String::new() };
            let value = self.function.value(kind, origin.clone(), name);
            if self.values.insert(number, value).is_some() {
                return Err(again);
            }
            values.push(value);
            parser.take(",");
        }
        Ok(values)
    }

    fn kind(&mut self, parser: &mut Parser<'_>) -> Result<Kind, ParseError> {
        let wrong = parser.error("a type");
        let name = parser.word()?;
        if !parser.is_at("[") {
            return match name {
                "int" => Ok(Kind::Int),
                "float" => Ok(Kind::Float),
                "bool" => Ok(Kind::Bool),
                _ => Err(wrong),
            };
        }
        let dtype = dtype(name).ok_or(wrong)?;
        let mut ty = TensorType::new(dtype, parser.list(|parser| self.sum(parser))?);
        if parser.take("in order") {
            ty.order = parser.list(Parser::number)?;
        }
        Ok(Kind::Tensor(ty))
    }

    fn read(&self, parser: &mut Parser<'_>) -> Result<ValueId, ParseError> {
        let wrong = parser.error("a value that is made before this");
        parser.expect("%")?;
        self.values.get(&parser.number()?).copied().ok_or(wrong)
    }

    fn reads(&self, parser: &mut Parser<'_>) -> Result<Vec<ValueId>, ParseError> {
        let mut values = Vec::new();
        while parser.is_at("%") {
            values.push(self.read(parser)?);
            parser.take(",");
        }
        Ok(values)
    }

    fn arg(&mut self, parser: &mut Parser<'_>) -> Result<Arg, ParseError> {
        for (empty, arg) in [
            ("values []", Arg::Values(Vec::new())),
            ("floats []", Arg::Floats(Vec::new())),
            ("bools []", Arg::Bools(Vec::new())),
        ] {
            if parser.take(empty) {
                return Ok(arg);
            }
        }
        if !parser.is_at("[") {
            return self.item(parser);
        }
        let wrong = parser.error("a list of one kind");
        let items = parser.list(|parser| self.item(parser))?;
        list(items).ok_or(wrong)
    }

    /// What is no list.
    fn item(&mut self, parser: &mut Parser<'_>) -> Result<Arg, ParseError> {
        if parser.is_at("%") {
            return self.read(parser).map(Arg::Value);
        }
        if parser.is_at("\"") {
            return parser.quoted().map(Arg::Text);
        }
        for (word, arg) in [("none", Arg::None), ("true", Arg::Bool(true)), ("false", Arg::Bool(false))] {
            if parser.take(word) {
                return Ok(arg);
            }
        }
        let formats = MemoryFormat::NAMES.iter().map(|(format, name)| (*name, Arg::MemoryFormat(*format)));
        let dtypes = ScalarType::all().map(|dtype| (dtype.name(), Arg::Dtype(dtype)));
        if let Some(word) = parser.peek()
            && let Some((_, arg)) = formats.chain(dtypes).find(|(name, _)| *name == word)
        {
            parser.take(word);
            return Ok(arg);
        }
        match parser.peek().and_then(float) {
            Some(number) => parser.word().map(|_| Arg::Float(number)),
            None => self.sum(parser).map(Arg::Int),
        }
    }

    fn sum(&mut self, parser: &mut Parser<'_>) -> Result<Size, ParseError> {
        let mut sum = self.product(parser)?;
        while parser.take("+") {
            sum = sum.plus(&self.product(parser)?);
        }
        Ok(sum)
    }

    fn product(&mut self, parser: &mut Parser<'_>) -> Result<Size, ParseError> {
        let mut product = self.factor(parser)?;
        while parser.take("*") {
            product = product.times(&self.factor(parser)?);
        }
        Ok(product)
    }

    fn factor(&mut self, parser: &mut Parser<'_>) -> Result<Size, ParseError> {
        let wrong = parser.error("a size");
        let word = parser.word()?;
        if let Ok(number) = word.parse::<i64>() {
            return Ok(number.into());
        }
        if !parser.take("(") {
            return self.function.symbols.find(word).map(Size::from).ok_or(wrong);
        }
        let a = self.sum(parser)?;
        parser.expect(",")?;
        let b = self.sum(parser)?;
        parser.expect(")")?;
        Ok(match word {
            "floor_div" => Atom::FloorDiv(a, b).into(),
            "mod" => Atom::Mod(a, b).into(),
            "max" => Size::max(&a, &b),
            "min" => Size::min(&a, &b),
            _ => return Err(wrong),
        })
    }
}

fn dtype(name: &str) -> Option<ScalarType> {
    ScalarType::all().find(|dtype| dtype.name() == name)
}

/// A number that says that it is no integer.
fn float(word: &str) -> Option<f64> {
    let starts = word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    let is_float = matches!(word, "inf" | "-inf" | "NaN") || (starts && word.contains(['.', 'e']));
    word.parse().ok().filter(|_| is_float)
}

/// A list of items of one kind; some values may be missing.
fn list(items: Vec<Arg>) -> Option<Arg> {
    fn all<T>(items: &[Arg], of: impl Fn(&Arg) -> Option<T>) -> Option<Vec<T>> {
        items.iter().map(of).collect()
    }
    match items.iter().find(|item| **item != Arg::None) {
        None if items.is_empty() => Some(Arg::Ints(Vec::new())),
        None | Some(Arg::Value(_)) => all(&items, |item| match item {
            Arg::Value(value) => Some(Some(*value)),
            Arg::None => Some(None),
            _ => None,
        })
        .map(Arg::Values),
        Some(Arg::Int(_)) => {
            all(&items, |item| if let Arg::Int(size) = item { Some(size.clone()) } else { None }).map(Arg::Ints)
        }
        Some(Arg::Float(_)) => {
            all(&items, |item| if let Arg::Float(number) = item { Some(*number) } else { None }).map(Arg::Floats)
        }
        Some(Arg::Bool(_)) => {
            all(&items, |item| if let Arg::Bool(truth) = item { Some(*truth) } else { None }).map(Arg::Bools)
        }
        Some(_) => None,
    }
}
