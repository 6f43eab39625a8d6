//! Inputs of a call from files.
use crate::failure::Failure;
use crate::golden::{self, Bound};
use crate::image_input::{self, ImageOptions};
use crate::{model, names, npy};
use sconce::Tensor;
use sconce::core::{Method, ValueInfo};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The inputs of a call.
pub(super) struct Inputs {
    /// As the method takes them.
    pub(super) bound: Bound,
    /// What was done to images, by file.
    pub(super) done: Vec<String>,
}

/// What an input is read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Archive,
    Image,
}

/// By the ends of their names.
const KINDS: &[(&str, Kind)] =
    &[("npy", Kind::Array), ("npz", Kind::Archive), ("png", Kind::Image), ("jpg", Kind::Image), ("jpeg", Kind::Image)];

fn kind(file: &Path) -> Option<Kind> {
    let extension = file.extension()?.to_string_lossy().to_lowercase();
    KINDS.iter().find(|(known, _)| *known == extension).map(|(_, kind)| *kind)
}

/// The files that are named, and instead of folders what is in them.
pub(super) fn named(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut entries: Vec<PathBuf> =
            entries.map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        entries.retain(|entry| kind(entry).is_some());
        entries.sort();
        if entries.is_empty() {
            return Err(Failure::new(format!("there is no input in {}: .npy, .npz, .png or .jpg", path.display())));
        }
        files.append(&mut entries);
    }
    Ok(files)
}

/// The inputs of a call that one file gives all of.
pub(super) fn of_one(method: Method<'_>, file: &Path, options: &ImageOptions) -> Result<Inputs, Failure> {
    let tensors = (0..method.inputs()).filter(|index| is_tensor(method, *index)).count();
    if kind(file).is_some_and(|kind| kind != Kind::Archive) && tensors != 1 {
        let text =
            format!("{} is one input, and each file is to be a call of its own: {}", file.display(), takes(method));
        return Err(Failure::new(text).hint("give one `--input FILE` per tensor input, in order, or .npz files"));
    }
    read(method, &[file.to_owned()], options)
}

/// The inputs from files: archives by number or name, everything else to the next tensor input.
pub(super) fn read(method: Method<'_>, files: &[PathBuf], options: &ImageOptions) -> Result<Inputs, Failure> {
    let (mut given, mut done) = (BTreeMap::new(), Vec::new());
    for file in files {
        let Some(kind) = kind(file) else {
            let text = format!("{} is no input: inputs are .npy, .npz, .png and .jpg files", file.display());
            return Err(Failure::usage(text).hint("store an array from Python with numpy.save(\"x.npy\", x)"));
        };
        if kind == Kind::Archive {
            given.append(&mut archive(file, method)?);
            continue;
        }
        let next = (0..method.inputs()).find(|index| is_tensor(method, *index) && !given.contains_key(index));
        let next = next.ok_or_else(|| {
            let text = format!("there is no input left for {}: {}", file.display(), takes(method));
            Failure::new(text).hint("give one `--input FILE` per tensor input")
        })?;
        let tensor = match kind {
            Kind::Image => {
                let prepared = image_input::read(file, &method.input(next).unwrap_or(ValueInfo::None), options)?;
                done.push(format!("{}: {}", file.display(), prepared.done));
                prepared.tensor
            }
            _ => array(file)?,
        };
        given.insert(next, tensor);
    }
    let missing = (0..method.inputs()).find(|index| is_tensor(method, *index) && !given.contains_key(index));
    if let Some(index) = missing {
        let text = format!("nothing was given for {}: {}", names::input(method, index), takes(method));
        let hint =
            "pass `--input x.npy` (or .png, .jpg) once per tensor, one .npz with in0, in1, ..., or `--fill random`";
        return Err(Failure::new(text).hint(hint));
    }
    Ok(Inputs { bound: golden::bind(method, given).map_err(Failure::new)?, done })
}

fn is_tensor(method: Method<'_>, index: usize) -> bool {
    matches!(method.input(index), Some(ValueInfo::Tensor { .. }))
}

fn array(file: &Path) -> Result<Tensor, Failure> {
    let opened = File::open(file).map_err(|error| model::unreadable(file, &error))?;
    let tensor = npy::read(&mut BufReader::new(opened));
    tensor.map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

fn archive(file: &Path, method: Method<'_>) -> Result<BTreeMap<usize, Tensor>, Failure> {
    let golden = golden::read(file).map_err(Failure::new)?;
    let keys = golden.keys.join(", ");
    let golden = golden.of(method).map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    if golden.inputs.is_empty() {
        let named: Vec<&str> = names::inputs(method).into_iter().flatten().collect();
        let or = if named.is_empty() { String::new() } else { format!(" or {}", named.join(", ")) };
        let text = format!("{} has no arrays in0, in1, ...{or}; it has: {keys}", file.display());
        return Err(Failure::new(text).hint("name them: numpy.savez(\"x.npz\", in0=x, in1=y)"));
    }
    Ok(golden.inputs)
}

/// What a method takes, one line per input.
fn takes(method: Method<'_>) -> String {
    let named = names::inputs(method);
    let line = |index: usize| {
        let name = named.get(index).copied().flatten().map_or_else(String::new, |name| format!("  {name}"));
        Some(format!("\n  in{index}{name}  {}", sconce::describe(&method.input(index)?)))
    };
    match method.inputs() {
        0 => format!("`{}` takes no inputs", method.name()),
        count => {
            format!("`{}` takes {count} input(s){}", method.name(), (0..count).filter_map(line).collect::<String>())
        }
    }
}
