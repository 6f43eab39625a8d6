//! What operators of the runtime are called with: their signatures, and which of them stands for a call of an export.
//!
//! `operators.txt` of the crate `schema` lists the operators of the official runtime as torch writes signatures;
//! `further.txt` beside it those that only this runtime has. A call names the functional form (`aten::add.Tensor`); the
//! runtime has the form that writes its result into a given tensor (`aten::add.out`). Which one it is follows from the
//! base name, or the same with `_copy`, and from the arguments: [`find`] takes the first whose parameters have all the
//! arguments' names and take what is passed.

use crate::ir::{Arg, Call, Function, Kind};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A tensor.
    Tensor,
    /// Tensors.
    Tensors,
    /// An integer.
    Int,
    /// Integers.
    Ints,
    /// A floating-point number.
    Float,
    /// Floating-point numbers.
    Floats,
    /// Any number.
    Scalar,
    /// A truth value.
    Bool,
    /// Truth values.
    Bools,
    /// A word.
    Text,
    /// An element type.
    Dtype,
    /// A memory format.
    MemoryFormat,
    /// A layout.
    Layout,
    /// A device.
    Device,
    /// A source of random numbers.
    Generator,
}

/// A parameter of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Whether it may be nothing.
    pub optional: bool,
    /// What a missing argument means; none if there must be one.
    pub default: Option<Arg>,
    /// Whether some of its tensors may be missing.
    pub holes: bool,
    /// Whether the result is written there.
    pub out: bool,
}

/// An operator of the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Its full name, such as `aten::add.out`.
    pub name: &'static str,
    /// Its parameters in the order in which programs pass them.
    pub parameters: Vec<Parameter>,
    /// Whether the official runtime has it.
    pub official: bool,
}

/// Signatures by base name, such as `aten::add`.
static TABLE: LazyLock<HashMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut table: HashMap<_, Vec<_>> = HashMap::new();
    for (text, official) in [(sconce_schema::OFFICIAL_OPERATORS, true), (sconce_schema::FURTHER_OPERATORS, false)] {
        for signature in text.lines().filter_map(|line| parse(line, official)) {
            let base = signature.name.split('.').next().unwrap_or(signature.name);
            table.entry(base).or_default().push(signature);
        }
    }
    table
});

/// Arguments that say what a new tensor is like; the tensor that the result is written to says that already.
const LIKE_THE_RESULT: &[&str] = &["dtype", "layout", "device", "pin_memory", "memory_format", "generator"];

/// The operator of the runtime that does what a call asks for.
pub fn find(call: &Call, function: &Function) -> Option<&'static Signature> {
    let name = call.operator()?;
    let (base, overload) = name.split_once('.').unwrap_or((name, "default"));
    let copy = format!("{base}_copy");
    let candidates = [base, &copy].into_iter().filter_map(|base| TABLE.get(base)).flatten();
    let fitting: Vec<_> = candidates.filter(|signature| fits(signature, call, function)).collect();
    let wanted = [format!("{overload}_out"), "out".to_owned()];
    let named = wanted.iter().find_map(|wanted| {
        fitting.iter().find(|signature| signature.name.rsplit_once('.').is_some_and(|(_, own)| own == wanted))
    });
    named.or(fitting.first()).copied()
}

/// The operator of this very name.
pub fn get(name: &str) -> Option<&'static Signature> {
    let base = name.split('.').next().unwrap_or(name);
    TABLE.get(base)?.iter().find(|signature| signature.name == name)
}

fn fits(signature: &Signature, call: &Call, function: &Function) -> bool {
    let given = |(name, arg): &(std::borrow::Cow<'static, str>, Arg)| match signature
        .parameters
        .iter()
        .find(|parameter| parameter.name == name && !parameter.out)
    {
        Some(parameter) => accepts(parameter, arg, function),
        None => *arg == Arg::None || LIKE_THE_RESULT.contains(&&**name),
    };
    let present = |parameter: &Parameter| {
        parameter.out || parameter.default.is_some() || call.args.iter().any(|(name, _)| name == parameter.name)
    };
    let outputs: usize = signature.parameters.iter().filter(|parameter| parameter.out).count();
    let lists = signature.parameters.iter().any(|parameter| parameter.out && parameter.takes == Takes::Tensors);
    let plain = outputs == 0 && call.outputs.iter().all(|value| !matches!(function.get(*value).kind, Kind::Tensor(_)));
    (outputs == call.outputs.len() || lists || plain)
        && call.args.iter().all(given)
        && signature.parameters.iter().all(present)
}

fn accepts(parameter: &Parameter, arg: &Arg, function: &Function) -> bool {
    let kind = |value| &function.get(value).kind;
    match (parameter.takes, arg) {
        (_, Arg::None) => parameter.optional,
        (Takes::Tensor, Arg::Value(value)) => matches!(kind(*value), Kind::Tensor(_)),
        (Takes::Scalar | Takes::Float | Takes::Int | Takes::Bool, Arg::Value(value)) => {
            !matches!(kind(*value), Kind::Tensor(_))
        }
        (Takes::Tensors, Arg::Values(_)) | (Takes::Ints | Takes::Int | Takes::Floats, Arg::Int(_)) => true,
        (Takes::Ints, Arg::Ints(_)) | (Takes::Floats, Arg::Floats(_) | Arg::Ints(_)) => true,
        (Takes::Float | Takes::Scalar, Arg::Int(_) | Arg::Float(_)) => true,
        (Takes::Bool | Takes::Scalar, Arg::Bool(_)) | (Takes::Bools, Arg::Bools(_)) => true,
        (Takes::Text, Arg::Text(_)) | (Takes::Dtype, Arg::Dtype(_)) => true,
        (Takes::MemoryFormat, Arg::MemoryFormat(_)) => true,
        _ => false,
    }
}

/// Reads a line such as `aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)`.
/// Lines without parameters (operators on plain numbers, comments) are passed over.
fn parse(line: &'static str, official: bool) -> Option<Signature> {
    let (name, rest) = line.split_once('(').filter(|_| !line.starts_with('#'))?;
    let (parameters, _) = rest.rsplit_once(") ->")?;
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (place, c) in parameters.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(parameters[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(parameters[start..].trim());
    let parameters = parts.into_iter().filter(|part| *part != "*" && !part.is_empty()).map(parameter);
    Some(Signature { name, parameters: parameters.collect::<Option<_>>()?, official })
}

fn parameter(text: &'static str) -> Option<Parameter> {
    let (declared, default) = text.split_once('=').map_or((text, None), |(text, default)| (text, Some(default)));
    let (kind, name) = declared.rsplit_once(' ')?;
    let out =
        kind.contains("!)") && !matches!(name, "self" | "k_cache" | "v_cache" | "key_cache" | "value_cache" | "cache");
    let optional = kind.ends_with('?');
    let list = kind.contains('[');
    let word = kind.split(['(', '[', '?']).next().unwrap_or(kind);
    let takes = match (word, list) {
        ("Tensor", false) => Takes::Tensor,
        ("Tensor", true) => Takes::Tensors,
        ("int" | "SymInt", false) => Takes::Int,
        ("int" | "SymInt", true) => Takes::Ints,
        ("float", false) => Takes::Float,
        ("float", true) => Takes::Floats,
        ("Scalar", _) => Takes::Scalar,
        ("bool", false) => Takes::Bool,
        ("bool", true) => Takes::Bools,
        ("str", _) => Takes::Text,
        ("ScalarType", _) => Takes::Dtype,
        ("MemoryFormat", _) => Takes::MemoryFormat,
        ("Layout", _) => Takes::Layout,
        ("Device", _) => Takes::Device,
        ("Generator", _) => Takes::Generator,
        _ => return None,
    };
    let holes = kind.starts_with("Tensor?[");
    Some(Parameter { name, takes, optional, holes, default: default.and_then(|text| value(text, takes)), out })
}

/// The default that a signature writes.
fn value(text: &str, takes: Takes) -> Option<Arg> {
    match (text, takes) {
        ("None", _) => Some(Arg::None),
        ("True", _) => Some(Arg::Bool(true)),
        ("False", _) => Some(Arg::Bool(false)),
        (_, Takes::Ints) if text.starts_with('[') => {
            let numbers = text.trim_matches(['[', ']']).split(',').filter(|number| !number.trim().is_empty());
            Some(Arg::Ints(
                numbers.map(|number| Some(number.trim().parse::<i64>().ok()?.into())).collect::<Option<_>>()?,
            ))
        }
        (_, Takes::Ints) => Some(Arg::Ints(vec![text.parse::<i64>().ok()?.into()])),
        (_, Takes::Text) => Some(Arg::Text(text.trim_matches(['"', '\'']).to_owned())),
        (_, Takes::Float) => text.parse().ok().map(Arg::Float),
        _ => text.parse::<i64>().ok().map(Arg::from).or_else(|| text.parse().ok().map(Arg::Float)),
    }
}
