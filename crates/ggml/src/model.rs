//! Models and sessions.
//!
//! A [`Model`] is a graph with its constants on a device: immutable, shared by all sessions. A [`Session`] has what a run
//! changes: its threads, its states, and the plans for the sizes of inputs that it has seen. Nothing is shared between
//! sessions but the constants, and nothing in the process.

use crate::compute::{Limit, Scope, Value, ggml_sizes};
use crate::sys::{Buffer, Device, Ends, Plan, Workers};
use sconce_format::ggml::{Bound, Element, Graph, Op, Role, Tensor};
use std::collections::HashMap;

/// How many plans a session keeps; the one that was used longest ago goes first.
const PLANS: usize = 8;

/// How a model is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `cpu`, `gpu`, or what ggml calls a device; without it a device of its own if there is one, else the processor.
    pub device: Option<String>,
    /// Threads on the processor; without it, as many as the caller of a run has.
    pub threads: Option<usize>,
    /// Most bytes of what a session keeps, and of what it computes; without it, what the machine gives.
    pub memory_limit: Option<usize>,
}

impl Options {
    /// Checks bytes against the limit.
    fn allow(&self, bytes: usize, what: &str) -> Result<(), String> {
        match self.memory_limit {
            Some(limit) if bytes > limit => Err(format!("{what} takes {bytes} bytes, and the limit is {limit}")),
            _ => Ok(()),
        }
    }
}

/// A graph with its constants.
pub struct Model {
    graph: Graph,
    /// The positions of inputs and outputs, which every run asks for.
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    options: Options,
    device: Device,
    weights: Buffer,
    /// Where each constant is in `weights`, and each state in those of a session.
    offsets: Vec<Option<usize>>,
    states: usize,
    /// What states hold at first, where that is not zeros.
    initial: Vec<(usize, Vec<u8>)>,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An index that is none.
    Index {
        /// Of this input.
        input: usize,
        /// Indices are below this.
        below: usize,
    },
    /// Something else, in words.
    Other(String),
}

impl From<String> for Error {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index { input, below } => write!(f, "an index of input {input} is not below {below}"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}

/// What a run changes.
pub struct Session {
    /// Dropped before what they refer to.
    plans: Vec<Planned>,
    states: Buffer,
    workers: Workers,
}

struct Planned {
    sizes: Vec<Vec<usize>>,
    plan: Plan,
    bound: Bound,
    limits: Vec<Option<Limit>>,
    /// Inputs that are written again, with another limit.
    copies: Vec<(usize, Limit)>,
    /// Written before each run, after the inputs and their copies.
    constants: Vec<Vec<u8>>,
}

/// The names of all devices that the linked ggml can compute on.
pub fn devices() -> Vec<String> {
    Device::all().into_iter().map(Device::name).collect()
}

fn device(name: Option<&str>) -> Result<Device, String> {
    let all = Device::all();
    let wanted = |device: &&Device| match name {
        None => true,
        Some("cpu") => device.is_cpu(),
        Some("gpu") => !device.is_cpu(),
        Some(name) => device.name().eq_ignore_ascii_case(name),
    };
    let mut found: Vec<&Device> = all.iter().filter(wanted).collect();
    found.sort_by_key(|device| device.is_cpu());
    found.first().map(|device| **device).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|device| device.name()).collect();
        format!("this build of ggml has no device {}; it has {}", name.unwrap_or("at all"), names.join(", "))
    })
}

impl Model {
    /// Places the constants of a graph, by their names. A missing one is an error.
    pub fn new<'d>(graph: Graph, options: Options, data: &dyn Fn(&str) -> Option<&'d [u8]>) -> Result<Self, String> {
        let device = device(options.device.as_deref())?;
        let alignment = device.buffer(0)?.alignment().max(1);
        let (mut offsets, mut known) = (vec![None; graph.tensors.len()], HashMap::new());
        let (mut weights, mut states) = (0usize, 0usize);
        for (tensor, offset) in graph.tensors.iter().zip(&mut offsets) {
            let bytes = device_bytes(tensor)?.next_multiple_of(alignment);
            given(tensor, data)?;
            *offset = match &tensor.role {
                Role::Constant(key) => Some(*known.entry((key, tensor.element)).or_insert_with(|| {
                    weights += bytes;
                    weights - bytes
                })),
                Role::State(_) => {
                    options.allow(states.saturating_add(bytes), "what the delegate keeps")?;
                    states += bytes;
                    Some(states - bytes)
                }
                _ => None,
            };
        }
        let weights = device.buffer(weights)?;
        let (inputs, outputs) = (graph.inputs(), graph.outputs());
        let mut model = Self { graph, inputs, outputs, options, device, weights, offsets, states, initial: Vec::new() };
        model.upload(data)?;
        Ok(model)
    }

    fn upload<'d>(&mut self, data: &dyn Fn(&str) -> Option<&'d [u8]>) -> Result<(), String> {
        for (tensor, offset) in self.graph.tensors.iter().zip(&self.offsets) {
            let (Some(offset), Role::Constant(key) | Role::State(Some(key))) = (*offset, &tensor.role) else {
                continue;
            };
            let (bytes, sizes) = (data(key).unwrap_or_default(), fixed(tensor)?);
            let converted = to_device(tensor.element, bytes, None)?;
            match tensor.role {
                Role::State(_) => self.initial.push((offset, converted.unwrap_or_else(|| bytes.to_vec()))),
                _ => {
                    let bytes = converted.as_deref().unwrap_or(bytes);
                    self.weights.fill(tensor.element, flat(&sizes)?, offset, bytes)?;
                }
            }
        }
        self.weights.seal();
        Ok(())
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The positions of the inputs in the graph.
    pub fn inputs(&self) -> &[u32] {
        &self.inputs
    }

    /// The positions of the outputs in the graph.
    pub fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// A session with n threads, unless the options say otherwise.
    pub fn session(&self, threads: usize) -> Result<Session, String> {
        let workers = Workers::new(self.device, self.options.threads.unwrap_or(threads))?;
        let mut states = self.device.buffer(self.states)?;
        states.clear();
        let states_of = self.graph.tensors.iter().zip(&self.offsets);
        for (tensor, offset) in states_of.filter(|(tensor, _)| matches!(tensor.role, Role::State(_))) {
            let first = self.initial.iter().find(|(own, _)| Some(*own) == *offset);
            if let (Some((offset, bytes)), Ok(sizes)) = (first, fixed(tensor)) {
                states.fill(tensor.element, flat(&sizes)?, *offset, bytes)?;
            }
        }
        Ok(Session { plans: Vec::new(), states, workers })
    }

    /// The sizes of the outputs for inputs of these sizes; makes a plan for them if there is none yet.
    pub fn output_sizes(&self, session: &mut Session, inputs: &[&[usize]]) -> Result<Vec<Vec<usize>>, String> {
        let planned = self.planned(session, inputs)?;
        Ok(self.outputs.iter().map(|&output| planned.bound.sizes[output as usize].clone()).collect())
    }

    /// Runs. Inputs and outputs are bytes row by row, of the sizes that [`Model::output_sizes`] was asked for.
    pub fn run(
        &self,
        session: &mut Session,
        sizes: &[&[usize]],
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        let planned = self.planned(session, sizes)?;
        let places = &self.inputs;
        let Planned { plan, limits, copies, constants, .. } = planned;
        let mut slots = 0..;
        let first = (0..places.len()).map(|input| (input, limits.get(input).copied().flatten()));
        for (input, limit) in first.chain(copies.iter().map(|&(input, limit)| (input, Some(limit)))) {
            let (Some(slot), Some(bytes)) = (slots.next(), inputs.get(input)) else { break };
            let element = self.graph.tensors[places[input] as usize].element;
            let below = limit.map_or(i32::MAX as usize, |limit| limit.below);
            match to_device(element, bytes, limit).map_err(|_| Error::Index { input, below })? {
                Some(converted) => plan.write(slot, &converted)?,
                None => plan.write(slot, bytes)?,
            }
        }
        for (slot, bytes) in slots.zip(constants.iter()) {
            plan.write(slot, bytes)?;
        }
        planned.plan.compute()?;
        for (index, (&place, bytes)) in self.outputs.iter().zip(outputs).enumerate() {
            match self.graph.tensors[place as usize].element {
                Element::Bool => {
                    let mut numbers = vec![0; bytes.len() * 4];
                    planned.plan.read(index, &mut numbers)?;
                    let truths = numbers.chunks_exact(4).map(|number| u8::from(number.iter().any(|&byte| byte != 0)));
                    bytes.iter_mut().zip(truths).for_each(|(byte, truth)| *byte = truth);
                }
                _ => planned.plan.read(index, bytes)?,
            }
        }
        Ok(())
    }

    /// The plan for inputs of these sizes, which becomes the last in the list.
    fn planned<'s>(&self, session: &'s mut Session, inputs: &[&[usize]]) -> Result<&'s mut Planned, String> {
        let known =
            session.plans.iter().position(|planned| planned.sizes.iter().map(Vec::as_slice).eq(inputs.iter().copied()));
        let planned = match known {
            Some(place) => session.plans.remove(place),
            None => self.plan(session, inputs)?,
        };
        if session.plans.len() >= PLANS {
            session.plans.remove(0);
        }
        session.plans.push(planned);
        session.plans.last_mut().ok_or_else(|| "there is no plan".to_owned())
    }

    fn plan(&self, session: &Session, inputs: &[&[usize]]) -> Result<Planned, String> {
        let bound = self.graph.bind(inputs)?;
        let elements = |sizes: &Vec<usize>| sizes.iter().product::<usize>();
        let computed = self.graph.tensors.iter().zip(&bound.sizes).filter(|(tensor, _)| tensor.op != Op::Leaf);
        let computed = computed.fold(0usize, |sum, (_, sizes)| sum.saturating_add(elements(sizes)));
        self.options.allow(computed.saturating_mul(4), "what the delegate computes")?;
        let (mut limits, mut copies, mut constants) = (Vec::new(), Vec::new(), Vec::new());
        let plan = Plan::build(&session.workers, self.capacity(), |context| {
            let mut scope = Scope {
                context,
                bound: &bound,
                limits: vec![None; self.inputs.len()],
                copies: Vec::new(),
                constants: Vec::new(),
            };
            let mut ends = self.build(&mut scope, session)?;
            limits = scope.limits;
            for (tensor, input, limit) in scope.copies {
                ends.inputs.push(tensor);
                copies.push((input, limit));
            }
            for (tensor, bytes) in scope.constants {
                ends.inputs.push(tensor);
                constants.push(bytes);
            }
            Ok(ends)
        })?;
        Ok(Planned {
            sizes: inputs.iter().map(|sizes| sizes.to_vec()).collect(),
            plan,
            bound,
            limits,
            copies,
            constants,
        })
    }

    /// More tensors than the graph can become.
    fn capacity(&self) -> usize {
        let more = |tensor: &Tensor| match &tensor.op {
            Op::Conv2d { groups, .. } => 24 * (*groups as usize).min(1 << 16),
            _ => 0,
        };
        let each = |tensor: &Tensor| 24 + 4 * tensor.sources.len() + more(tensor);
        64 + self.graph.tensors.iter().map(each).sum::<usize>()
    }

    /// All tensors of the graph as ggml's.
    fn build<'c>(&self, scope: &mut Scope<'c, '_>, session: &Session) -> Result<Ends<'c>, String> {
        let mut values: Vec<Value<'c>> = Vec::with_capacity(self.graph.tensors.len());
        let mut effects = Vec::new();
        for (place, tensor) in self.graph.tensors.iter().enumerate() {
            let sizes = &scope.bound.sizes[place];
            let at = |reason: String| format!("tensor {place} ({}): {reason}", tensor.op.name());
            if sizes.contains(&0) {
                return Err(at(format!("ggml computes nothing of the sizes {sizes:?}")));
            }
            let operands: Vec<&Value<'c>> = tensor.sources.iter().map(|&source| &values[source as usize]).collect();
            let value = match &tensor.role {
                Role::Inside | Role::Output(_) => {
                    let value = scope.compute(&tensor.op, &operands, tensor.element, sizes).map_err(at)?;
                    if matches!(tensor.op, Op::Put { .. }) && self.is_state(tensor.sources[0]) {
                        effects.push(value.tensor);
                    }
                    value
                }
                role => {
                    let leaf = scope.context.leaf(tensor.element, flat(sizes)?).map_err(at)?;
                    let buffer = match role {
                        Role::Constant(_) => Some(&self.weights),
                        Role::State(_) => Some(&session.states),
                        _ => None,
                    };
                    if let (Some(buffer), Some(offset)) = (buffer, self.offsets[place]) {
                        buffer.bind(leaf, offset).map_err(at)?;
                    }
                    let input = if let Role::Input(index) = role { Some(*index as usize) } else { None };
                    let kept = matches!(role, Role::State(_));
                    Value { input, kept, ..Value::new(leaf, tensor.element, sizes) }
                }
            };
            values.push(value);
        }
        let input = |place: u32| values[place as usize].tensor;
        let output = |place: u32| values[place as usize].tensor.contiguous();
        Ok(Ends {
            inputs: self.inputs.iter().copied().map(input).collect(),
            outputs: self.outputs.iter().copied().map(output).collect::<Result<_, _>>()?,
            effects,
        })
    }

    fn is_state(&self, place: u32) -> bool {
        self.graph.get(place).is_some_and(|tensor| matches!(tensor.role, Role::State(_)))
    }
}

/// Checks that what a tensor holds at first is there, before memory is taken for it.
fn given<'d>(tensor: &Tensor, data: &dyn Fn(&str) -> Option<&'d [u8]>) -> Result<(), String> {
    let (Role::Constant(key) | Role::State(Some(key))) = &tensor.role else { return Ok(()) };
    let bytes = data(key).ok_or_else(|| format!("the program has no data named {key}"))?.len();
    let sizes = fixed(tensor)?;
    match tensor.element.bytes(&sizes) {
        Some(wanted) if wanted == bytes => Ok(()),
        _ => Err(format!("{key} has {bytes} bytes, not those of {} {sizes:?}", tensor.element.name())),
    }
}

/// The sizes of what is kept.
fn fixed(tensor: &Tensor) -> Result<Vec<usize>, String> {
    let size = |size: &sconce_format::ggml::Extent| size.fixed().and_then(|size| usize::try_from(size).ok());
    tensor
        .sizes
        .iter()
        .map(size)
        .collect::<Option<_>>()
        .ok_or_else(|| "what is kept has sizes that are not known".to_owned())
}

/// Sizes of any rank for ggml: rows stay rows, because blocks must not straddle them.
fn flat(sizes: &[usize]) -> Result<[i64; 4], String> {
    if sizes.len() <= 4 {
        return ggml_sizes(sizes);
    }
    let (row, outer) = sizes.split_last().unwrap_or((&1, &[]));
    let rows = outer.iter().product();
    ggml_sizes(&[rows, *row])
}

/// The bytes of something that is kept, on the device.
fn device_bytes(tensor: &Tensor) -> Result<usize, String> {
    if !matches!(tensor.role, Role::Constant(_) | Role::State(_)) {
        return Ok(0);
    }
    let sizes = fixed(tensor)?;
    let element = match tensor.element {
        Element::Bool => Element::F32,
        Element::I64 => Element::I32,
        element => element,
    };
    element.bytes(&sizes).ok_or_else(|| format!("a tensor of {} cannot have the sizes {sizes:?}", element.name()))
}

/// Elements as the device has them, if that differs: truth values as numbers, indices as int32, checked and counted from
/// the start.
fn to_device(element: Element, bytes: &[u8], limit: Option<Limit>) -> Result<Option<Vec<u8>>, String> {
    let index = |index: i64| {
        let Some(Limit { below, from_end }) = limit else {
            return i32::try_from(index).map_err(|_| format!("{index} does not fit into 32 bits"));
        };
        let below = i64::try_from(below).unwrap_or(i64::MAX);
        let counted = if from_end && index < 0 { index.saturating_add(below) } else { index };
        i32::try_from(counted)
            .ok()
            .filter(|_| (0..below).contains(&counted))
            .ok_or_else(|| format!("the index {index} is not one of {below}"))
    };
    let numbers: Vec<i32> = match element {
        Element::Bool => {
            return Ok(Some(bytes.iter().flat_map(|&byte| f32::from(u8::from(byte != 0)).to_ne_bytes()).collect()));
        }
        Element::I64 => {
            let numbers = bytes.as_chunks().0.iter().map(|bytes| index(i64::from_ne_bytes(*bytes)));
            numbers.collect::<Result<_, _>>()?
        }
        Element::I32 if limit.is_some() => {
            let numbers = bytes.as_chunks().0.iter().map(|bytes| index(i32::from_ne_bytes(*bytes).into()));
            numbers.collect::<Result<_, _>>()?
        }
        _ => return Ok(None),
    };
    Ok(Some(numbers.into_iter().flat_map(i32::to_ne_bytes).collect()))
}
