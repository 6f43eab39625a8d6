//! `sconce check`: runs programs and compares with golden outputs.
use crate::compare::{Tolerances, compare};
use crate::failure::Failure;
use crate::golden::{self, Golden};
use crate::model::{self, Loading};
use crate::npy;
use crate::suite::{self, Sequence, Suite};
use indicatif::{ProgressBar, ProgressStyle};
use sconce::format::{FileKind, bpte};
use sconce::{Module, Session, Tensor, Value};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run programs and compare with golden outputs
#[derive(clap::Args, Debug)]
pub(crate) struct Check {
    /// A program, a bundled program (.bpte), or a folder: every NAME.pte in it with its NAME.npz or NAME.*.npz
    #[arg(value_name = "MODEL.pte|DIR")]
    model: PathBuf,
    /// Golden files with in0, in1, ... and out0, out1, ... [default: those beside the program]
    #[arg(value_name = "GOLDEN.npz")]
    goldens: Vec<PathBuf>,
    /// Relative tolerance of floating-point outputs, for all types
    #[arg(long)]
    rtol: Option<f64>,
    /// Absolute tolerance of floating-point outputs, for all types
    #[arg(long)]
    atol: Option<f64>,
    #[command(flatten)]
    loading: Loading,
}

/// What became of one call.
enum Outcome {
    Passed,
    /// There was nothing to compare with.
    Skipped,
    /// What is wrong, one line each.
    Failed(Vec<String>),
}

/// The state of a check.
struct Checker<'a> {
    arguments: &'a Check,
    out: &'a mut dyn Write,
    bar: ProgressBar,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Check {
    /// Runs the command.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let mut checker =
            Checker { arguments: self, out, bar: ProgressBar::hidden(), passed: 0, failed: 0, skipped: 0 };
        if self.model.is_dir() {
            checker.folder()?;
        } else if model::kind(&self.head()?) == Some(FileKind::Bundle) {
            checker.bundle()?;
        } else {
            let suite = self.suite()?;
            checker.suites(&[suite])?;
        }
        checker.close()
    }

    fn head(&self) -> Result<Vec<u8>, Failure> {
        model::head(&self.model).map_err(|error| model::unreadable(&self.model, &error))
    }

    fn suite(&self) -> Result<Suite, Failure> {
        if !self.goldens.is_empty() {
            return Ok(suite::named(&self.model, &self.goldens));
        }
        let suite = suite::beside(&self.model).map_err(|error| model::unreadable(&self.model, &error))?;
        if suite.goldens.is_empty() {
            let hint = "pass golden files with in0, in1, ... and out0, out1, ... after the program";
            return Err(Failure::usage(format!("there is no .npz beside {}", self.model.display())).hint(hint));
        }
        Ok(suite)
    }
}

impl Checker<'_> {
    fn folder(&mut self) -> Result<(), Failure> {
        let folder = &self.arguments.model;
        if !self.arguments.goldens.is_empty() {
            return Err(Failure::usage("a folder is checked with the golden files in it; give no others"));
        }
        let suites = suite::in_folder(folder).map_err(|error| model::unreadable(folder, &error))?;
        if suites.is_empty() {
            return Err(Failure::new(format!("there is no .pte program in {}", folder.display())));
        }
        self.suites(&suites)
    }

    fn suites(&mut self, suites: &[Suite]) -> Result<(), Failure> {
        let calls: usize = suites.iter().map(|suite| suite.goldens.len()).sum();
        if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
            self.bar = ProgressBar::new(u64::try_from(calls).unwrap_or(u64::MAX));
            self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        suites.iter().try_for_each(|suite| self.suite(suite))
    }

    fn suite(&mut self, suite: &Suite) -> Result<(), Failure> {
        let name = suite.program.display().to_string();
        self.bar.set_message(name.clone());
        if suite.goldens.is_empty() {
            self.skipped += 1;
            return Ok(());
        }
        let loading = self.arguments.loading.or_beside(&suite.program);
        match model::load(&suite.program, loading.options(), &loading.backend) {
            Ok(module) => {
                let sequences = suite.sequences(&module.methods());
                sequences.into_iter().try_for_each(|sequence| self.sequence(&name, &module, &sequence))
            }
            Err(failure) => self.fail(&name, suite.goldens.len(), &[failure.message().to_owned()]),
        }
    }

    fn sequence(&mut self, name: &str, module: &Module, sequence: &Sequence) -> Result<(), Failure> {
        let method = model::method_name(module, sequence.method.as_deref());
        let mut session = match module.method_session(&method) {
            Ok(session) => session,
            Err(error) => return self.fail(name, sequence.cases.len(), &[error.to_string()]),
        };
        for case in &sequence.cases {
            let golden = golden::read(&case.file);
            self.call(&title(name, &case.label), &mut session, golden)?;
        }
        Ok(())
    }

    /// The cases that a bundled program carries, each on a session of its own.
    fn bundle(&mut self) -> Result<(), Failure> {
        let path = &self.arguments.model;
        let name = path.display().to_string();
        let bytes = model::read(path)?;
        let file = bpte::File::parse(&bytes).map_err(|error| Failure::new(format!("{name}: {error}")))?;
        let module = match self.arguments.loading.or_beside(path).options().load(file.program()) {
            Ok(module) => module,
            Err(error) => return self.fail(&name, 1, &[error.to_string()]),
        };
        for suite in file.suites().iter() {
            let method = suite.method_name().unwrap_or_default();
            for (index, case) in suite.test_cases().iter().enumerate() {
                let title = title(&name, &format!("{method} case {index}"));
                match module.method_session(method) {
                    Ok(mut session) => self.call(&title, &mut session, bundled(case))?,
                    Err(error) => self.fail(&title, 1, &[error.to_string()])?,
                }
            }
        }
        Ok(())
    }

    /// Makes one call and counts what became of it.
    fn call(&mut self, title: &str, session: &mut Session, golden: Result<Golden, String>) -> Result<(), Failure> {
        let tolerances = Tolerances { relative: self.arguments.rtol, absolute: self.arguments.atol };
        let outcome = golden.and_then(|golden| judge(session, golden, &tolerances));
        match outcome.unwrap_or_else(|error| Outcome::Failed(vec![error])) {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped => self.skipped += 1,
            Outcome::Failed(lines) => return self.fail(title, 1, &lines),
        }
        self.bar.inc(1);
        Ok(())
    }

    fn fail(&mut self, title: &str, calls: usize, lines: &[String]) -> Result<(), Failure> {
        self.failed += calls;
        self.bar.inc(u64::try_from(calls).unwrap_or(u64::MAX));
        let out = &mut *self.out;
        Ok(self.bar.suspend(|| lines.iter().try_for_each(|line| writeln!(out, "FAIL {title}: {line}")))?)
    }

    fn close(self) -> Result<ExitCode, Failure> {
        self.bar.finish_and_clear();
        write!(self.out, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(self.out, ", {} skipped", self.skipped)?;
        }
        writeln!(self.out)?;
        Ok(ExitCode::from(u8::from(self.failed > 0)))
    }
}

fn title(program: &str, label: &str) -> String {
    if label.is_empty() { program.to_owned() } else { format!("{program} [{label}]") }
}

/// A bundled case as the arrays of a call.
fn bundled(case: bpte::BundledMethodTestCase<'_>) -> Result<Golden, String> {
    let array = |value: bpte::Value<'_>| match value.val() {
        bpte::ValueUnion::Tensor(tensor) => {
            let sizes = tensor.sizes().iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
            let sizes = sizes.map_err(|error| error.to_string())?;
            let made =
                Tensor::with_dim_order(tensor.dtype(), &sizes, tensor.dim_order().bytes(), tensor.data().bytes());
            made.map(|tensor| tensor.to_contiguous()).map_err(|error| error.to_string())
        }
        bpte::ValueUnion::Int(value) => number(Value::Int(value.int_val())),
        bpte::ValueUnion::Double(value) => number(Value::Double(value.double_val())),
        bpte::ValueUnion::Bool(value) => number(Value::Bool(value.bool_val())),
        bpte::ValueUnion::None => Err("the bundle has an empty value".to_owned()),
    };
    let arrays = |values: sconce::format::flatbuf::Vector<'_, bpte::Value<'_>>| {
        values.iter().enumerate().map(|(index, value)| Ok((index, array(value)?))).collect::<Result<_, String>>()
    };
    Ok(Golden { inputs: arrays(case.inputs())?, outputs: arrays(case.expected_outputs())?, keys: Vec::new() })
}

fn number(value: Value) -> Result<Tensor, String> {
    golden::as_array(&value).ok_or_else(|| format!("{} cannot be compared", value.kind()))
}

/// Makes a call and compares its outputs.
fn judge(session: &mut Session, mut golden: Golden, tolerances: &Tolerances) -> Result<Outcome, String> {
    let inputs = golden::bind(session.view(), golden.inputs)?;
    let outputs = session.run(&golden::borrow(&inputs)).map_err(|error| error.to_string())?;
    let comparable = outputs.iter().any(|output| golden::as_array(output).is_some());
    if golden.outputs.is_empty() && comparable {
        return Ok(Outcome::Skipped);
    }
    let mut wrong = Vec::new();
    for (index, output) in outputs.iter().enumerate() {
        let verdict = match (golden::as_array(output), golden.outputs.remove(&index)) {
            (Some(have), Some(want)) => {
                let want = npy::reinterpret(want, have.dtype());
                compare(&have, &want, tolerances).map_err(|difference| difference.to_string())
            }
            (Some(_), None) => Err("is not in the golden file".to_owned()),
            (None, Some(_)) => Err(format!("is {}, the golden one is an array", output.kind())),
            (None, None) => Ok(()),
        };
        wrong.extend(verdict.err().map(|text| format!("out{index} {text}")));
    }
    wrong.extend(golden.outputs.keys().map(|index| format!("out{index} is in the golden file, the method has none")));
    Ok(if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed(wrong) })
}
