//! `sconce run`: one call of a method, with inputs from files.
use crate::failure::Failure;
use crate::golden::{self, Bound};
use crate::image_input::{self, ImageOptions};
use crate::model::{self, Loading};
use crate::ranking::{self, Guess};
use crate::{npy, print};
use sconce::core::{Method, ValueInfo};
use sconce::{Tensor, Value};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Run a method of a program once
#[derive(clap::Args, Debug)]
pub(crate) struct Run {
    /// The program
    #[arg(value_name = "MODEL.pte")]
    model: PathBuf,
    /// An input: an array (.npy), several (.npz with in0, in1, ...) or an image (.png, .jpg); may be given several times, in order
    #[arg(long, short, value_name = "FILE")]
    input: Vec<PathBuf>,
    /// The method [default: forward, or the only one]
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Writes the outputs as out0, out1, ...
    #[arg(long, short, value_name = "FILE.npz")]
    output: Option<PathBuf>,
    /// Names of the classes, one per line: shows the five most likely
    #[arg(long, value_name = "FILE.txt")]
    labels: Option<PathBuf>,
    /// Prints outputs with all their values as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    image: ImageOptions,
    #[command(flatten)]
    loading: Loading,
}

impl Run {
    /// Runs the command.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let labels = self.labels.as_deref().map(ranking::read_labels).transpose()?;
        let module = model::load(&self.model, self.loading.options(), &self.loading.backend)?;
        let mut session = module.method_session(&model::method_name(&module, self.method.as_deref()))?;
        let inputs = self.inputs(session.view())?;
        let start = Instant::now();
        let outputs = session.run(&golden::borrow(&inputs)).map_err(type_hint)?;
        let milliseconds = start.elapsed().as_nanos() as f64 / 1e6;
        if let Some(path) = &self.output {
            golden::write(path, "out", &outputs).map_err(Failure::new)?;
        }
        let top = labels.map(|labels| ranking::top(&outputs, &labels, 5)).transpose()?;
        if self.json {
            let values: Vec<_> = outputs.iter().map(print::json_value).collect();
            let mut report = json!({ "method": session.method(), "milliseconds": milliseconds, "outputs": values });
            if let Some(top) = top {
                report["top"] = json!(top);
            }
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out, "{} {} in {milliseconds:.3} ms", self.model.display(), session.method())?;
        print_outputs(out, &outputs, top.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The inputs from the files: archives by number, everything else to the next tensor input.
    fn inputs(&self, method: Method<'_>) -> Result<Bound, Failure> {
        let mut given = BTreeMap::new();
        for file in &self.input {
            let extension = file.extension().map(|extension| extension.to_string_lossy().to_lowercase());
            if extension.as_deref() == Some("npz") {
                given.append(&mut archive(file)?);
                continue;
            }
            let is_tensor = |index: &usize| matches!(method.input(*index), Some(ValueInfo::Tensor { .. }));
            let next = (0..method.inputs()).filter(is_tensor).find(|index| !given.contains_key(index));
            let next = next.ok_or_else(|| {
                let text = format!("there is no input left for {}: {}", file.display(), takes(method));
                Failure::new(text).hint("give one `--input FILE` per tensor input")
            })?;
            given.insert(next, self.tensor(file, extension.as_deref(), method.input(next))?);
        }
        let missing = (0..method.inputs())
            .find(|index| matches!(method.input(*index), Some(ValueInfo::Tensor { .. })) && !given.contains_key(index));
        if let Some(index) = missing {
            let text = format!("nothing was given for in{index}: {}", takes(method));
            let hint = "pass `--input x.npy` (or .png, .jpg) once per tensor, or one .npz with in0, in1, ...";
            return Err(Failure::new(text).hint(hint));
        }
        golden::bind(method, given).map_err(Failure::new)
    }

    fn tensor(&self, file: &Path, extension: Option<&str>, takes: Option<ValueInfo<'_>>) -> Result<Tensor, Failure> {
        match extension {
            Some("npy") => {
                let opened = File::open(file).map_err(|error| model::unreadable(file, &error))?;
                let tensor = npy::read(&mut BufReader::new(opened));
                tensor.map_err(|error| Failure::new(format!("{}: {error}", file.display())))
            }
            Some("png" | "jpg" | "jpeg") => image_input::read(file, &takes.unwrap_or(ValueInfo::None), &self.image),
            _ => {
                let text = format!("{} is no input: inputs are .npy, .npz, .png and .jpg files", file.display());
                Err(Failure::usage(text).hint("store an array from Python with numpy.save(\"x.npy\", x)"))
            }
        }
    }
}

fn archive(file: &Path) -> Result<BTreeMap<usize, Tensor>, Failure> {
    let golden = golden::read(file).map_err(Failure::new)?;
    if golden.inputs.is_empty() {
        let keys = golden.keys.join(", ");
        let text = format!("{} has no arrays in0, in1, ...; it has: {keys}", file.display());
        return Err(Failure::new(text).hint("name them: numpy.savez(\"x.npz\", in0=x, in1=y)"));
    }
    Ok(golden.inputs)
}

/// What a method takes, one line per input.
fn takes(method: Method<'_>) -> String {
    let inputs = (0..method.inputs()).filter_map(|index| Some((index, method.input(index)?)));
    let lines: String = inputs.map(|(index, info)| format!("\n  in{index}  {}", sconce::describe(&info))).collect();
    match method.inputs() {
        0 => format!("`{}` takes no inputs", method.name()),
        count => format!("`{}` takes {count} input(s){lines}", method.name()),
    }
}

/// Wrong element types are mostly NumPy's float64.
fn type_hint(error: sconce::Error) -> Failure {
    let want = match &error {
        sconce::Error::Input { want, have, .. } => {
            let (want, have) = (want.split(' ').next().unwrap_or(""), have.split(' ').next().unwrap_or(""));
            (want != have).then(|| want.to_owned())
        }
        _ => None,
    };
    match want {
        Some(want) => Failure::from(error).hint(format!("convert the array in Python with x.astype(\"{want}\")")),
        None => Failure::from(error),
    }
}

fn print_outputs(out: &mut dyn Write, outputs: &[Value], top: Option<&[Guess]>) -> Result<(), Failure> {
    for (index, value) in outputs.iter().enumerate() {
        writeln!(out, "out{index}  {}", print::summary(value))?;
    }
    let row = |guess: &Guess| vec![format!("{:.2} %", guess.probability * 100.0), guess.label.clone()];
    let rows: Vec<_> = top.unwrap_or_default().iter().map(row).collect();
    Ok(print::table(out, "  ", &rows, &[0])?)
}
