//! `.pt2`: an exported program with its weights, as `torch.export.save` writes it.
//!
//! A `.pt2` file is a zip archive whose entries are stored as they are:
//!
//! | entry | content |
//! |---|---|
//! | `ROOT/models/NAME.json` | the graph: [`schema`] |
//! | `ROOT/data/weights/NAME_weights_config.json` | where each parameter and buffer is, and its type |
//! | `ROOT/data/weights/weight_0` ... | their bytes |
//! | `ROOT/data/constants/...` | the same for other tensors |
//! | `ROOT/data/sample_inputs/NAME.pt` | what the module was exported with: [`Sample`] |
//!
//! [`Archive::read`] checks the archive and gives every model with its tensors, which borrow from the file wherever
//! their elements lie row by row there.
//!
//! This is a crate and not a module of `sconce-format` because programs that only run models need neither JSON nor zip.
#![forbid(unsafe_code)]

mod error;
mod pickle;
pub mod schema;
mod tensors;

pub use error::Error;
pub use pickle::Sample;
pub use tensors::Tensor;

use schema::{ExportedProgram, PayloadConfig};
use std::collections::BTreeMap;
use std::io::Cursor;
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

/// The version of the schema that is read.
const MAJOR_VERSION: u64 = 8;

/// A whole file.
#[derive(Clone, Debug)]
pub struct Archive<'a> {
    /// Its models, sorted by name.
    pub models: Vec<Model<'a>>,
}

/// One exported program.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    /// Its name in the archive; `model` unless it was given another. As a method that is called `forward`.
    pub name: String,
    /// The graph and what its inputs and outputs stand for.
    pub program: ExportedProgram,
    /// Parameters, buffers and constants by their names in the module.
    tensors: BTreeMap<String, Tensor<'a>>,
    /// What the module was exported with, laid out flat; `None` if the archive does not say, or not in a form that can
    /// be read without running Python.
    pub samples: Option<Vec<Sample<'a>>>,
}

impl<'a> Model<'a> {
    /// A model without tensors of its own and without samples.
    pub fn new(name: impl Into<String>, program: ExportedProgram) -> Self {
        Self { name: name.into(), program, tensors: BTreeMap::new(), samples: None }
    }

    /// The method that it is in a program.
    pub fn method(&self) -> &str {
        if self.name == "model" { "forward" } else { &self.name }
    }

    /// A parameter, buffer or constant by its name in the module.
    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        self.tensors.get(name)
    }

    /// The names of parameters, buffers and constants.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }
}

impl<'a> Archive<'a> {
    /// Reads a file.
    pub fn read(file: &'a [u8]) -> Result<Self, Error> {
        let entries = entries(file)?;
        let mut models = Vec::new();
        for (path, bytes) in &entries {
            let name = path.strip_prefix("models/").and_then(|path| path.strip_suffix(".json"));
            if let Some(name) = name.filter(|name| !name.contains('/')) {
                models.push(model(name, bytes, &entries)?);
            }
        }
        if models.is_empty() {
            return Err(Error::NoModel);
        }
        Ok(Self { models })
    }
}

/// The entries by their paths below the root folder.
fn entries(file: &[u8]) -> Result<BTreeMap<String, &[u8]>, Error> {
    // Nothing comes before an archive that torch writes. (Searching for its start would find the archives inside it.)
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let zip = ZipArchive::with_config(config, Cursor::new(file));
    let mut zip = zip.map_err(|error| Error::Zip(error.to_string()))?;
    let mut entries = BTreeMap::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index).map_err(|error| Error::Zip(error.to_string()))?;
        let name = entry.name().map_err(|error| Error::Zip(error.to_string()))?.into_owned();
        let Some((_, path)) = name.split_once('/') else { continue };
        if entry.compression() != CompressionMethod::Stored {
            return Err(Error::Compressed(path.to_string()));
        }
        let outside = || Error::Outside(path.to_string());
        let start = entry.data_start().ok_or_else(outside)?;
        let start = usize::try_from(start).map_err(|_| outside())?;
        let size = usize::try_from(entry.size()).map_err(|_| outside())?;
        let bytes = start.checked_add(size).and_then(|end| file.get(start..end)).ok_or_else(outside)?;
        entries.insert(path.to_string(), bytes);
    }
    Ok(entries)
}

fn model<'a>(name: &str, json: &[u8], entries: &BTreeMap<String, &'a [u8]>) -> Result<Model<'a>, Error> {
    let program: ExportedProgram = parse(&std::format!("models/{name}.json"), json)?;
    if program.schema_version.major != MAJOR_VERSION {
        return Err(Error::Version(program.schema_version.major, program.schema_version.minor));
    }
    let mut tensors = BTreeMap::new();
    for kind in ["weights", "constants"] {
        let path = std::format!("data/{kind}/{name}_{kind}_config.json");
        let Some(json) = entries.get(&path) else { continue };
        let config: PayloadConfig = parse(&path, json)?;
        for (tensor, meta) in config.config {
            let path = std::format!("data/{kind}/{}", meta.path_name);
            let bytes = entries.get(&path).ok_or_else(|| Error::Missing(path.clone()))?;
            if let (Some(ty), false) = (&meta.tensor_meta, meta.use_pickle) {
                let read = tensors::read(bytes, ty).ok_or_else(|| Error::Tensor(tensor.clone()))?;
                tensors.insert(tensor, read);
            }
        }
    }
    let samples = entries.get(&std::format!("data/sample_inputs/{name}.pt")).and_then(|file| samples(file));
    Ok(Model { name: name.to_string(), program, tensors, samples })
}

/// The inputs in a file of `torch.save`.
fn samples(file: &[u8]) -> Option<Vec<Sample<'_>>> {
    let entries = entries(file).ok()?;
    let bytes = entries.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("data/")?.to_string(), *bytes)));
    pickle::read(entries.get("data.pkl")?, &bytes.collect())
}

fn parse<T: serde::de::DeserializeOwned>(path: &str, json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|error| Error::Json { path: path.to_string(), message: error.to_string() })
}

#[cfg(test)]
mod tests;
