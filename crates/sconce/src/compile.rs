//! The compiler, with this runtime to compute what it wants to know.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sconce::compile::{Archive, Export, compile, options};
//!
//! let file = Export::open("model.pt2")?;
//! let compiled = compile(&Archive::read(file.bytes())?, &options(["xnnpack"])?)?;
//! std::fs::write("model.pte", compiled.program)?;
//! # Ok(())
//! # }
//! ```
use crate::map::FileBytes;
use crate::module::open;
use crate::{Input, Module, Tensor, Value};
use quantize::{Calibrator, Quantization, Scheme};
use sconce_pt2::Sample;
use std::collections::HashMap;
use std::io;
use std::path::Path;

pub use sconce_compiler::*;
pub use sconce_pt2::{Archive, Model};

/// An exported file in memory. It is mapped, so that weights are read when they are written: the file must not change
/// while this lives.
pub struct Export(FileBytes);

impl Export {
    /// Maps a file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = FileBytes::map(path.as_ref())?;
        file.read_ahead();
        Ok(Self(file))
    }

    /// Its bytes, for [`Archive::read`].
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// What can be asked of backends; each takes what concerns it.
#[derive(Clone, Debug, Default)]
pub struct BackendOptions {
    /// How weights of linear layers and embeddings become blocks; without it, they stay numbers.
    pub blocks: Option<ggml::Blocks>,
    /// Weights that stay in a file of their own, as they are there.
    pub weights: Option<ggml::Weights>,
}

/// A backend's name, and what decides which calls it runs.
type Backend = (&'static str, fn(&BackendOptions) -> Box<dyn partition::Partitioner>);

/// The backends that programs can be compiled for. To add one, add a row.
const TABLE: &[Backend] = &[
    ("xnnpack", |_| Box::new(xnnpack::Xnnpack)),
    ("ggml", |own| Box::new(ggml::Ggml { blocks: own.blocks, weights: own.weights.clone() })),
];

/// The names of the backends that programs can be compiled for.
pub fn backends() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// Default options for these backends, which choose in this order. `portable` is the name of none.
pub fn options<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Options, UnknownBackend> {
    options_with(names, &BackendOptions::default())
}

/// The same, with what is asked of backends.
pub fn options_with<'n>(
    names: impl IntoIterator<Item = &'n str>,
    own: &BackendOptions,
) -> Result<Options, UnknownBackend> {
    let mut partitioners = Vec::new();
    for name in names.into_iter().filter(|name| *name != "portable") {
        let found = TABLE.iter().find(|(known, _)| *known == name);
        partitioners.push(found.ok_or_else(|| UnknownBackend(name.to_owned()))?.1(own));
    }
    Ok(Options { partitioners, executor: Some(Box::new(Runtime)), ..Options::default() })
}

/// The blocks of a name, such as `q8_0` or `q4_k`; `None` if it is the name of none. The error says that this build has no
/// ggml to make them.
pub fn blocks(name: &str) -> Option<Result<ggml::Blocks, String>> {
    let element = sconce_format::ggml::Element::quantized(name)?;
    #[cfg(feature = "ggml")]
    return Some(Ok(ggml::Blocks { element, quantizer: sconce_ggml::quantize }));
    #[cfg(not(feature = "ggml"))]
    Some(Err(format!("{} is made by ggml, which this build has not: build it with the feature `ggml`", element.name())))
}

/// The weights in a GGUF file that programs for ggml can leave there.
pub fn weights(path: impl AsRef<Path>) -> Result<ggml::Weights, crate::Error> {
    let path = path.as_ref();
    let invalid = |error| crate::Error::Format { file: path.display().to_string(), error };
    ggml::Weights::read(open(path, false)?.bytes()).map_err(invalid)
}

/// A backend that programs cannot be compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBackend(pub String);

impl std::fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: Vec<_> = backends().collect();
        write!(f, "the compiler has no backend {:?}; it has {}, and portable for none", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownBackend {}

/// Runs what the compiler wants to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtime;

impl passes::Executor for Runtime {
    fn run(&self, program: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let module = Module::load(program).map_err(|error| error.to_string())?;
        let outputs = module.forward(&[]).map_err(|error| error.to_string())?;
        let bytes = |output: &Value| match output {
            Value::Tensor(tensor) => Ok(tensor.bytes().to_vec()),
            other => Err(format!("{} is no tensor", other.kind())),
        };
        outputs.iter().map(bytes).collect()
    }
}

/// The scheme of a name, as the command's `--quantize` takes it: `int8`, `int8-dynamic`, `int4` (in groups of 32).
pub fn scheme(name: &str) -> Option<Scheme> {
    match name {
        "int8" => Some(Scheme::Int8),
        "int8-dynamic" => Some(Scheme::Int8Dynamic),
        "int4" => Some(Scheme::Int4 { group_size: 32 }),
        _ => None,
    }
}

/// A scheme with so many neighbours in a row of a weight that share a scale, if it has groups and there can be such.
pub fn in_groups(scheme: Scheme, group_size: usize) -> Result<Scheme, String> {
    match scheme {
        Scheme::Int4 { .. } if group_size > 0 && group_size.is_multiple_of(32) => Ok(Scheme::Int4 { group_size }),
        Scheme::Int4 { .. } => {
            Err(format!("groups of {group_size} weights are not possible: XNNPACK has groups of 32, 64, ..."))
        }
        _ => Err("only int4 has groups of weights".to_owned()),
    }
}

/// Quantisation that is calibrated with the inputs of the export, where the archive tells them.
pub fn quantization(scheme: Scheme, archive: &Archive<'_>) -> Quantization {
    let samples = archive.models.iter().filter_map(|model| Some((model.method().to_owned(), samples(model)?)));
    Quantization { scheme, calibrator: Some(Box::new(Samples(samples.collect()))) }
}

/// The inputs that a model was exported with, if the archive tells them.
pub fn samples(model: &Model<'_>) -> Option<Vec<Value>> {
    let value = |sample: &Sample<'_>| match sample {
        Sample::Tensor(tensor) => {
            let sizes = tensor.sizes.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>()?;
            Tensor::from_bytes(tensor.dtype, &sizes, &tensor.bytes).ok().map(Value::Tensor)
        }
        Sample::Int(number) => Some(Value::Int(*number)),
        Sample::Float(number) => Some(Value::Double(*number)),
        Sample::Bool(truth) => Some(Value::Bool(*truth)),
        Sample::None => Some(Value::None),
        Sample::Text(text) => Some(Value::Str(text.clone())),
    };
    model.samples.as_ref()?.iter().map(value).collect()
}

/// The inputs of exports by method, to calibrate with.
#[derive(Clone, Debug)]
struct Samples(HashMap<String, Vec<Value>>);

impl Calibrator for Samples {
    fn knows(&self, method: &str) -> bool {
        self.0.contains_key(method)
    }

    fn run(&self, method: &str, program: &[u8], each: &mut dyn FnMut(&[Vec<u8>])) -> Result<(), String> {
        let module = crate::Options::new().plan(false).load(program).map_err(|error| error.to_string())?;
        let inputs: Vec<Input<'_>> = self.0.get(method).into_iter().flatten().map(Input::from).collect();
        let outputs = module.forward(&inputs).map_err(|error| error.to_string())?;
        let bytes = |output: &Value| match output {
            Value::Tensor(tensor) => Ok(tensor.bytes().to_vec()),
            other => Err(format!("{} is no tensor", other.kind())),
        };
        each(&outputs.iter().map(bytes).collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }
}
