//! Text to graph.

use super::print::Attribute;
use crate::graph::{ConstantId, Graph, Node, Origin, Source, Then, ValueId};
use crate::op::{Function, Op};
use crate::types::{Dim, Element, Quantized, Scheme, Storage, Symbol, Type};
use sconce_format::ScalarType;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::str::Chars;

/// Where a text stops being a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from one.
    pub line: usize,
    /// What was expected.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}, found '{}'", self.line, self.expected, self.found)
    }
}

impl std::error::Error for ParseError {}

/// Reads a graph from its text.
pub fn parse(text: &str) -> Result<Graph, ParseError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        let mut parser = Parser::new(index + 1, line);
        if !parser.is_at_end() && !parser.is_at("//") {
            reader.statement(&mut parser)?;
            parser.end()?;
        }
    }
    Ok(reader.graph)
}

/// What is left of a line. Other forms that have lines of text read them with it, too.
pub struct Parser<'a> {
    line: usize,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// The whole of a line, which has this number.
    pub fn new(line: usize, text: &'a str) -> Self {
        Self { line, rest: text.trim() }
    }

    /// The error that something else was expected here.
    pub fn error(&self, expected: &str) -> ParseError {
        let found = self.rest.chars().take(24).collect();
        ParseError { line: self.line, expected: expected.to_owned(), found }
    }

    /// Whether this comes next.
    pub fn is_at(&self, sign: &str) -> bool {
        self.rest.starts_with(sign)
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes a sign, if it comes next.
    pub fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    /// Takes a sign that must come next.
    pub fn expect(&mut self, sign: &str) -> Result<(), ParseError> {
        if self.take(sign) { Ok(()) } else { Err(self.error(&format!("'{sign}'"))) }
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), ParseError> {
        if self.is_at_end() { Ok(()) } else { Err(self.error("the end of the line")) }
    }

    /// A name or a number.
    pub fn word(&mut self) -> Result<&'a str, ParseError> {
        let word = self.peek().ok_or_else(|| self.error("a word"))?;
        self.rest = self.rest[word.len()..].trim_start();
        Ok(word)
    }

    /// The name or number that comes next, if one does.
    pub fn peek(&self) -> Option<&'a str> {
        let in_word = |c: char| c.is_alphanumeric() || "_.-+".contains(c);
        let length = self.rest.find(|c| !in_word(c)).unwrap_or(self.rest.len());
        Some(&self.rest[..length]).filter(|word| !word.is_empty())
    }

    /// A number.
    pub fn number<T: std::str::FromStr>(&mut self) -> Result<T, ParseError> {
        self.word()?.parse().map_err(|_| self.error("a number"))
    }

    /// `name: value`, and the comma after it.
    pub(crate) fn attribute<T: Attribute>(&mut self, name: &str) -> Result<T, ParseError> {
        self.expect(name)?;
        self.expect(":")?;
        let value = T::parse(self)?;
        self.take(",");
        Ok(value)
    }

    /// `[item, item]`
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, ParseError>) -> Result<Vec<T>, ParseError> {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.take("]") {
            items.push(item(self)?);
            if !self.take(",") && !self.rest.starts_with(']') {
                return Err(self.error("',' or ']'"));
            }
        }
        Ok(items)
    }

    fn dim(&mut self) -> Result<Dim, ParseError> {
        let word = self.word()?;
        match word.parse() {
            Ok(size) => Ok(Dim::Fixed(size)),
            Err(_) => {
                self.expect("<=")?;
                Ok(Dim::Symbol(Symbol { name: word.to_owned(), most: self.number()? }))
            }
        }
    }

    /// A name in quotes, with what does not print as `{:?}` writes it.
    pub fn quoted(&mut self) -> Result<String, ParseError> {
        let (mut name, mut chars) = (String::new(), self.rest.chars());
        if chars.next() != Some('"') {
            return Err(self.error("a name in quotes"));
        }
        loop {
            match chars.next() {
                Some('"') => break,
                Some('\\') => name.push(escaped(&mut chars).ok_or_else(|| self.error("names without such escapes"))?),
                Some(sign) => name.push(sign),
                None => return Err(self.error("a closing quote")),
            }
        }
        self.rest = chars.as_str().trim_start();
        Ok(name)
    }

    fn source(&mut self) -> Result<Source, ParseError> {
        if self.rest.starts_with('"') {
            return Ok(Source::Named(self.quoted()?.into()));
        }
        if self.rest.starts_with('[') {
            return Ok(Source::Bytes(self.list(Self::number::<u8>)?.into()));
        }
        if self.take("value ") {
            return Ok(Source::Value(self.number()?));
        }
        if self.take("program ") {
            return self.range().map(Source::Program);
        }
        self.range().map(Source::Payload)
    }

    fn range<T: std::str::FromStr>(&mut self) -> Result<Range<T>, ParseError> {
        let bounds = self.word()?.split_once("..");
        let bounds = bounds.and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
        bounds.ok_or_else(|| self.error("a range such as 0..16"))
    }
}

#[derive(Default)]
struct Reader {
    graph: Graph,
    values: HashMap<u32, ValueId>,
    constants: HashMap<u32, ConstantId>,
}

impl Reader {
    fn statement(&mut self, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        if parser.take("output") {
            self.graph.outputs = self.reads(parser)?;
            return Ok(());
        }
        if parser.take("@") {
            let number = parser.number()?;
            parser.expect("=")?;
            let constant = self.graph.constant(parser.source()?);
            self.constants.insert(number, constant);
            return Ok(());
        }
        let mut made = vec![Self::definition(parser, &self.constants)?];
        while parser.take(",") {
            made.push(Self::definition(parser, &self.constants)?);
        }
        parser.expect("=")?;
        match parser.word()? {
            "input" => {
                let inputs = self.define(made, Origin::Input, parser)?;
                self.graph.inputs.extend(inputs);
            }
            "constant" => {
                let constant = self.graph.constant(parser.source()?);
                if parser.take("in order") {
                    self.graph.constants[constant.index()].order = parser.list(Parser::number)?;
                }
                self.define(made, Origin::Constant(constant), parser)?;
            }
            name => self.node(name, made, parser)?,
        }
        Ok(())
    }

    fn node(&mut self, name: &str, made: Vec<(u32, Type)>, parser: &mut Parser<'_>) -> Result<(), ParseError> {
        let inputs = self.reads(parser)?;
        let unknown = ParseError { line: parser.line, expected: "an operation".to_owned(), found: name.to_owned() };
        let op = Op::parse(name, parser)?.ok_or(unknown)?;
        let mut then = Vec::new();
        let mut more = parser.take("then");
        while more {
            then.push(self.then(parser)?);
            more = parser.take(",");
        }
        let outputs = self.define(made, Origin::Node, parser)?;
        self.graph.nodes.push(Node { op, inputs, outputs, then });
        Ok(())
    }

    fn then(&mut self, parser: &mut Parser<'_>) -> Result<Then, ParseError> {
        match parser.word()? {
            "add" => self.read(parser).map(Then::Add),
            "multiply" => self.read(parser).map(Then::Multiply),
            name => {
                let function = Function::parse(name, parser)?;
                function.map(Then::Apply).ok_or_else(|| parser.error("a function"))
            }
        }
    }

    fn read(&mut self, parser: &mut Parser<'_>) -> Result<ValueId, ParseError> {
        parser.expect("%")?;
        let number: u32 = parser.number()?;
        self.values.get(&number).copied().ok_or_else(|| parser.error(&format!("a definition of %{number} before this")))
    }

    fn reads(&mut self, parser: &mut Parser<'_>) -> Result<Vec<ValueId>, ParseError> {
        let mut reads = Vec::new();
        while parser.rest.starts_with('%') {
            reads.push(self.read(parser)?);
            parser.take(",");
        }
        Ok(reads)
    }

    /// `%number: type`
    fn definition(parser: &mut Parser<'_>, constants: &HashMap<u32, ConstantId>) -> Result<(u32, Type), ParseError> {
        parser.expect("%")?;
        let number = parser.number()?;
        parser.expect(":")?;
        let name = parser.word()?;
        let storage = Storage::NAMES.iter().find(|(_, known)| *known == name);
        let element = match storage {
            Some((storage, _)) => {
                let scheme = scheme(parser, constants)?;
                Element::Quantized(Quantized { storage: *storage, scheme })
            }
            None => {
                let plain = ScalarType::all().find(|dtype| dtype.name() == name);
                Element::Plain(plain.ok_or_else(|| parser.error("the name of an element type before this"))?)
            }
        };
        Ok((number, Type { element, dims: parser.list(Parser::dim)? }))
    }

    fn define(
        &mut self,
        made: Vec<(u32, Type)>,
        origin: Origin,
        parser: &Parser<'_>,
    ) -> Result<Vec<ValueId>, ParseError> {
        let mut ids = Vec::new();
        for (number, ty) in made {
            let id = self.graph.value(ty, origin);
            if self.values.insert(number, id).is_some() {
                return Err(parser.error(&format!("one definition only of %{number}")));
            }
            ids.push(id);
        }
        Ok(ids)
    }
}

/// The sign that is meant by what follows a backslash.
fn escaped(chars: &mut Chars<'_>) -> Option<char> {
    match chars.next()? {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '0' => Some('\0'),
        sign @ ('"' | '\'' | '\\') => Some(sign),
        'u' => {
            let (digits, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
            *chars = rest.chars();
            char::from_u32(u32::from_str_radix(digits, 16).ok()?)
        }
        _ => None,
    }
}

/// The parameters of a quantisation, in braces.
fn scheme(parser: &mut Parser<'_>, constants: &HashMap<u32, ConstantId>) -> Result<Scheme, ParseError> {
    parser.expect("{")?;
    let scheme = match parser.word()? {
        "scale" => {
            parser.expect(":")?;
            let scale = parser.number()?;
            parser.expect(",")?;
            Scheme::PerTensor { scale, zero: zero(parser)? }
        }
        "token" => {
            parser.expect(":")?;
            Scheme::PerToken { dims: parser.number()? }
        }
        along @ ("axis" | "group") => {
            parser.expect(":")?;
            let number = parser.number()?;
            parser.expect(",")?;
            parser.expect("scales")?;
            parser.expect(":")?;
            parser.expect("@")?;
            let scales = constants.get(&parser.number()?).copied();
            let scales = scales.ok_or_else(|| parser.error("a constant that is defined before this"))?;
            parser.expect(",")?;
            let zero = zero(parser)?;
            match along {
                "axis" => Scheme::PerChannel { axis: number, scales, zero },
                _ => Scheme::PerGroup { size: number, scales, zero },
            }
        }
        _ => return Err(parser.error("scale, axis, group or token before this")),
    };
    parser.expect("}")?;
    Ok(scheme)
}

fn zero(parser: &mut Parser<'_>) -> Result<i32, ParseError> {
    parser.expect("zero")?;
    parser.expect(":")?;
    parser.number()
}
