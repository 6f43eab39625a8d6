//! Inputs that show what values a program works on.
//!
//! A file is one call, `in0, in1, ...` or the names of the inputs as in golden files, or many: then each array has one
//! dimension more than the input, in front, and its indices are calls. A file is for all methods, or for the one in
//! `METHOD=FILE`. Without files, the inputs that the program was exported with are all there is.
use crate::failure::Failure;
use crate::golden::{self, Golden};
use sconce::compile::quantize::Calibrator;
use sconce::compile::{Archive, Model};
use sconce::core::{Method, ValueInfo};
use sconce::{Options, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The arrays of one file, by number.
type Arrays = BTreeMap<usize, Tensor>;

/// Inputs from files, or from the archive.
pub(super) struct Calibration {
    /// With the method that they are for, if it is only one.
    files: Vec<(Option<String>, Golden)>,
}

impl Calibration {
    /// Reads files.
    pub(super) fn read(archive: &Archive<'_>, paths: &[PathBuf]) -> Result<Self, Failure> {
        let files = paths.iter().map(|path| {
            let (method, path) = of_method(archive, path);
            match golden::read(&path) {
                Ok(golden) if golden.inputs.is_empty() && golden.named.is_empty() => {
                    Err(Failure::new(format!("{}: there is no array in0, only {:?}", path.display(), golden.keys)))
                }
                Ok(golden) => Ok((method, golden)),
                Err(error) => Err(Failure::new(error)),
            }
        });
        Ok(Self { files: files.collect::<Result<_, _>>()? })
    }

    /// The inputs of the export.
    pub(super) fn of_export(archive: &Archive<'_>) -> Self {
        let golden = |model: &Model<'_>| Some(Golden { inputs: samples(model)?, ..Golden::default() });
        let model = |model: &Model<'_>| Some((Some(model.method().to_owned()), golden(model)?));
        Self { files: archive.models.iter().filter_map(model).collect() }
    }

    fn of<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Golden> {
        let own = move |only: &Option<String>| only.as_deref().is_none_or(|only| only == method);
        self.files.iter().filter(move |(only, _)| own(only)).map(|(_, golden)| golden)
    }
}

/// The method before a `=`, if the archive has one of that name, and the path.
fn of_method(archive: &Archive<'_>, path: &Path) -> (Option<String>, PathBuf) {
    let parts = path.to_str().and_then(|text| text.split_once('='));
    match parts.filter(|(method, _)| archive.models.iter().any(|model| model.method() == *method)) {
        Some((method, path)) => (Some(method.to_owned()), path.into()),
        None => (None, path.to_owned()),
    }
}

/// The inputs that a model was exported with, by number, if the archive has them.
pub(super) fn samples(model: &Model<'_>) -> Option<Arrays> {
    let values = sconce::compile::samples(model)?;
    let arrays = values.iter().enumerate().map(|(number, value)| Some((number, golden::as_array(value)?)));
    Some(arrays.flatten().collect())
}

impl Calibrator for Calibration {
    fn knows(&self, method: &str) -> bool {
        self.of(method).next().is_some()
    }

    fn run(&self, method: &str, program: &[u8], each: &mut dyn FnMut(&[Vec<u8>])) -> Result<(), String> {
        // Every value is wanted, so that nothing is gained by doing several calls at once.
        let module = Options::new().plan(false).load(program).map_err(|error| error.to_string())?;
        let mut session = module.session().map_err(|error| error.to_string())?;
        for file in self.of(method) {
            let arrays = file.clone().of(session.view())?.inputs;
            for call in 0..calls(session.view(), &arrays)?.unwrap_or(1) {
                let given = match calls(session.view(), &arrays)? {
                    Some(_) => arrays.iter().map(|(number, array)| Ok((*number, slice(array, call)?))).collect(),
                    None => Ok(arrays.clone()),
                };
                let inputs = golden::bind(session.view(), given.map_err(|error: sconce::Error| error.to_string())?)?;
                let outputs = session.run(&golden::borrow(&inputs)).map_err(|error| error.to_string())?;
                let bytes = |output| golden::as_array(output).map(|tensor| tensor.bytes().to_vec());
                let outputs: Option<Vec<_>> = outputs.iter().map(bytes).collect();
                each(&outputs.ok_or("an output is no tensor")?);
            }
        }
        Ok(())
    }
}

/// How many calls the arrays are for, if they have a dimension for that.
fn calls(method: Method<'_>, arrays: &Arrays) -> Result<Option<usize>, String> {
    let mut count = None;
    for (number, array) in arrays {
        let Some(ValueInfo::Tensor { shape, .. }) = method.input(*number) else { continue };
        let own = (array.sizes().len() == shape.sizes().len() + 1).then(|| array.sizes()[0]);
        match (own, count) {
            (Some(own), Some(count)) if own != count => {
                return Err(format!("in{number} is for {own} calls, another array for {count}"));
            }
            (Some(own), _) => count = Some(own),
            (None, _) => {}
        }
    }
    Ok(count)
}

/// What an array has at an index of its first dimension.
fn slice(array: &Tensor, index: usize) -> Result<Tensor, sconce::Error> {
    let sizes = array.sizes().get(1..).unwrap_or_default();
    let bytes = sizes.iter().product::<usize>() * array.dtype().size();
    let own = array.bytes().get(index * bytes..(index + 1) * bytes).unwrap_or_default();
    Tensor::from_bytes(array.dtype(), sizes, own)
}
