//! What `executorch_ggml` asks: which nodes of an exported program ggml computes, and a part of one as a payload.
//!
//! The official exporter cuts programs itself, so both go through [`compiler::delegate`], which takes a program whole, with
//! a partitioner around that of ggml: [`Survey`] notes what would be chosen, [`Whole`] gives every result a tensor of its own.
use crate::{compile, error};
use compiler::ggml::{Blocks, Ggml};
use compiler::ir::{Arg, Call, Constants, Data, Delegate, Function, Origin};
use compiler::partition::{Choice, Part, Partitioner};
use compiler::{Archive, Error, Options};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sconce::Code;
use sconce::compile as compiler;
use sconce::format::ggml::{BACKEND, Extent, Graph, Role, Tensor};
use sconce::format::pte::{File, Header, Payload};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

/// What is wrong, and its number.
type Wrong = (String, Code);

/// A node's name in the export, and why ggml refuses it; `None` if it computes it.
type Chosen = Vec<(String, Option<String>)>;

/// What ggml chooses of a `.pt2` archive of one model. Nodes that the compiler does without are not among them.
#[pyfunction]
pub(crate) fn choices_of_ggml(py: Python<'_>, archive: &[u8]) -> PyResult<Chosen> {
    let chosen = py.detach(|| {
        let chosen = Rc::new(RefCell::new(Vec::new()));
        delegate(archive, None, |ggml| Box::new(Survey { ggml, chosen: Rc::clone(&chosen) }))?;
        Ok(chosen.take())
    });
    chosen.map_err(raised)
}

/// Bytes by name.
type Named<'py> = Vec<(String, Bound<'py, PyBytes>)>;

/// A `.pt2` archive of one model as the payload of one delegate, and the data that it refers to.
#[pyfunction]
#[pyo3(signature = (archive, quantize=None))]
pub(crate) fn lower_for_ggml<'py>(
    py: Python<'py>,
    archive: &[u8],
    quantize: Option<String>,
) -> PyResult<(Bound<'py, PyBytes>, Named<'py>)> {
    let lowered = py.detach(|| delegate(archive, blocks(quantize.as_deref())?, |ggml| Box::new(Whole(ggml))));
    let Delegate { payload, data, .. } = lowered.map_err(raised)?;
    let bytes = |data: &Data| match data {
        Data::Bytes(bytes) => PyBytes::new(py, bytes),
        // `compiler::delegate` gives bytes only.
        Data::Constant(_) => PyBytes::new(py, &[]),
    };
    let data = data.iter().map(|(key, data)| (key.clone(), bytes(data))).collect();
    Ok((PyBytes::new(py, &payload), data))
}

/// Every payload in a `.pte` program: its method, its place among the method's delegates, and it as text.
#[pyfunction]
pub(crate) fn payloads_of_ggml(program: &[u8]) -> PyResult<Vec<(String, usize, String)>> {
    payloads(program).map_err(|sentence| raised((sentence, Code::InvalidProgram)))
}

fn payloads(program: &[u8]) -> Result<Vec<(String, usize, String)>, String> {
    let size = program.len() as u64;
    let header = Header::parse(program, size).map_err(|error| error.to_string())?;
    let file = File::parse(program, header, size).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for plan in file.program().execution_plan().iter() {
        let own = plan.delegates().iter().enumerate().filter(|(_, delegate)| delegate.id() == Some(BACKEND));
        for (place, delegate) in own {
            let payload = match file.delegate_payload(delegate) {
                Some(Payload::Inline(payload)) => Some(payload),
                Some(Payload::Segment(range)) => usize::try_from(range.start)
                    .ok()
                    .zip(usize::try_from(range.end).ok())
                    .and_then(|(start, end)| program.get(start..end)),
                None => None,
            };
            let graph = Graph::read(payload.ok_or_else(|| format!("delegate {place} has no payload"))?)?;
            found.push((plan.name().unwrap_or_default().to_owned(), place, text(&graph)));
        }
    }
    Ok(found)
}

/// A line for each tensor.
fn text(graph: &Graph) -> String {
    let lines = graph.tensors.iter().enumerate().map(|(place, tensor)| format!("%{place} = {}\n", line(tensor)));
    lines.collect()
}

/// A tensor of a payload: elements, sizes, how it is computed, what it is for the caller.
fn line(tensor: &Tensor) -> String {
    let sizes: Vec<String> = tensor.sizes.iter().map(shown).collect();
    let mut line = format!("{}[{}]", tensor.element.name(), sizes.join(", "));
    if !tensor.sources.is_empty() {
        let sources: Vec<String> = tensor.sources.iter().map(|source| format!("%{source}")).collect();
        line += &format!(" {:?} of {}", tensor.op, sources.join(", "));
    }
    line += &match &tensor.role {
        Role::Inside => String::new(),
        Role::Input(index) => format!(" input {index}"),
        Role::Output(index) => format!(" -> output {index}"),
        Role::Constant(key) => format!(" constant {key}"),
        Role::State(Some(key)) => format!(" state, at first {key}"),
        Role::State(None) => " state, at first zeros".to_owned(),
    };
    line
}

/// A size: a number, a symbol, or its code.
fn shown(extent: &Extent) -> String {
    match (extent.fixed(), extent.as_symbol()) {
        (Some(size), _) => size.to_string(),
        (None, Some(symbol)) => format!("s{symbol}"),
        (None, None) => format!("{extent:?}"),
    }
}

fn raised((sentence, code): Wrong) -> PyErr {
    error::coded(sentence, code as u32)
}

/// The blocks of a name.
fn blocks(name: Option<&str>) -> Result<Option<Blocks>, Wrong> {
    let unfit = |sentence: String| (sentence, Code::NotSupported);
    let Some(name) = name else { return Ok(None) };
    let unknown = || unfit(format!("ggml has no blocks {name:?}; it has q8_0, q4_0, q4_k, q5_k and q6_k"));
    compiler::blocks(name).ok_or_else(unknown)?.map(Some).map_err(unfit)
}

/// An archive as one delegate of what is put around ggml's partitioner.
fn delegate(
    archive: &[u8],
    blocks: Option<Blocks>,
    around: impl FnOnce(Ggml) -> Box<dyn Partitioner>,
) -> Result<Delegate, Wrong> {
    let options = compiler::options([]).map_err(|error| (error.to_string(), Code::Internal))?;
    let options = Options { partitioners: vec![around(Ggml { blocks, ..Ggml::default() })], ..options };
    let archive = Archive::read(archive).map_err(Error::from);
    let delegate = archive.and_then(|archive| compiler::delegate(&archive, &options));
    delegate.map_err(|error| (error.to_string(), compile::code(&error)))
}

/// Notes what ggml chooses. It takes all, and makes nothing of it.
struct Survey {
    ggml: Ggml,
    chosen: Rc<RefCell<Chosen>>,
}

impl Partitioner for Survey {
    fn name(&self) -> &str {
        self.ggml.name()
    }

    fn keeps(&self, operator: &str) -> bool {
        self.ggml.keeps(operator)
    }

    fn select(&self, function: &Function, constants: &Constants<'_>) -> Vec<Choice> {
        let choices = self.ggml.select(function, constants);
        let named = |(call, choice): (&Call, &Choice)| {
            let node = call.source.as_deref().map_or(String::new(), |source| source.node.clone());
            let reason = if let Choice::Refuse(reason) = choice { Some(reason.clone()) } else { None };
            (node, reason)
        };
        self.chosen.borrow_mut().extend(function.body.calls.iter().zip(&choices).map(named));
        vec![Choice::Take; choices.len()]
    }

    fn lower(&self, _: &Part<'_>) -> Result<Delegate, Error> {
        let (payload, specs, data, calls) = Default::default();
        Ok(Delegate { payload, specs, data, calls, ..Delegate::default() })
    }
}

/// Takes programs whole. Results that are inputs, constants or other results become copies, because a tensor of the payload
/// is one thing for the caller.
struct Whole(Ggml);

impl Partitioner for Whole {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn keeps(&self, operator: &str) -> bool {
        self.0.keeps(operator)
    }

    fn select(&self, function: &Function, constants: &Constants<'_>) -> Vec<Choice> {
        self.0.select(function, constants)
    }

    fn lower(&self, part: &Part<'_>) -> Result<Delegate, Error> {
        let mut function = part.function.clone();
        let (mut outputs, mut copies, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for &output in &part.outputs {
            if seen.insert(output) && function.get(output).origin == Origin::Call {
                outputs.push(output);
                continue;
            }
            let copy = function.value(function.get(output).kind.clone(), Origin::Call, "");
            copies.push(Call::new("aten::clone", [("self", Arg::from(output))], vec![copy]));
            outputs.push(copy);
        }
        let calls = part.calls.iter().copied().chain(&copies).collect();
        self.0.lower(&Part { function: &function, calls, outputs, ..part.clone() })
    }
}
