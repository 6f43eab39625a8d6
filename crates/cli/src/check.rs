//! `sconce check`: runs programs and compares with golden outputs.
mod bundle;
mod judge;
mod step;

use crate::arguments;
use crate::compare::Tolerances;
use crate::failure::Failure;
use crate::golden::{self, Golden};
use crate::model::{self, Loading};
use crate::paint;
use crate::suite::{self, Sequence, Suite};
use indicatif::{ProgressBar, ProgressStyle};
use judge::{Outcome, Standard, judge};
use sconce::format::{FileKind, bpte};
use sconce::{Module, Session};
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
    #[arg(long, value_name = "R", value_parser = arguments::tolerance)]
    rtol: Option<f64>,
    /// Absolute tolerance of floating-point outputs, for all types
    #[arg(long, value_name = "A", value_parser = arguments::tolerance)]
    atol: Option<f64>,
    /// How many steps of its scale a quantised output may be off; 0 holds quantised programs to the tolerances of others
    /// [default: 1 without --rtol and --atol, else 0]
    #[arg(long, value_name = "N", value_parser = arguments::whole_number)]
    steps: Option<usize>,
    /// Names what passed, with the largest error
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    loading: Loading,
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
            return self.skip(&name, "there is no golden file beside it");
        }
        let loading = self.arguments.loading.or_beside(&suite.program);
        // Backends are for the exports of a folder.
        let compiled = self.arguments.model.is_dir() && suite.program.extension().is_some_and(|kind| kind == "pte");
        let backends = if compiled { &[] } else { &loading.backend[..] };
        match model::load(&suite.program, loading.options(), backends) {
            Ok(module) => {
                let sequences = suite.sequences(&module.methods());
                sequences.into_iter().try_for_each(|sequence| self.sequence(&name, &module, &sequence))
            }
            Err(failure) => {
                self.bar.inc(u64::try_from(suite.goldens.len()).unwrap_or(u64::MAX));
                self.fail(&name, suite.goldens.len(), &[failure.message().to_owned()])
            }
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
                    Ok(mut session) => self.call(&title, &mut session, bundle::bundled(case))?,
                    Err(error) => self.fail(&title, 1, &[error.to_string()])?,
                }
            }
        }
        Ok(())
    }

    /// How outputs are judged.
    fn standard(&self) -> Standard {
        let Check { rtol: relative, atol: absolute, steps, .. } = *self.arguments;
        let tolerances = Tolerances { relative, absolute, ..Tolerances::default() };
        Standard { tolerances, steps: steps.unwrap_or(usize::from(relative.is_none() && absolute.is_none())) }
    }

    /// Makes one call and counts what became of it.
    fn call(&mut self, title: &str, session: &mut Session, golden: Result<Golden, String>) -> Result<(), Failure> {
        let outcome = golden.and_then(|golden| judge(session, golden, &self.standard()));
        self.bar.inc(1);
        match outcome.unwrap_or_else(|error| Outcome::Failed(vec![error])) {
            Outcome::Passed { words, notable } => {
                self.passed += 1;
                if notable || self.arguments.verbose {
                    self.say(&format!("{}   {title}: {words}", paint::good("ok")))?;
                }
                Ok(())
            }
            Outcome::Skipped => self.skip(title, "the golden file has no outputs"),
            Outcome::Failed(lines) => self.fail(title, 1, &lines),
        }
    }

    fn skip(&mut self, title: &str, why: &str) -> Result<(), Failure> {
        self.skipped += 1;
        if self.arguments.verbose { self.say(&format!("skip {title}: {why}")) } else { Ok(()) }
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        let out = &mut *self.out;
        Ok(self.bar.suspend(|| writeln!(out, "{line}"))?)
    }

    fn fail(&mut self, title: &str, calls: usize, lines: &[String]) -> Result<(), Failure> {
        self.failed += calls;
        lines.iter().try_for_each(|line| self.say(&format!("{} {title}: {line}", paint::bad("FAIL"))))
    }

    fn close(self) -> Result<ExitCode, Failure> {
        self.bar.finish_and_clear();
        let failed = format!("{} failed", self.failed);
        let failed = if self.failed > 0 { paint::bad(&failed) } else { failed };
        write!(self.out, "{} passed, {failed}", self.passed)?;
        if self.skipped > 0 {
            write!(self.out, ", {} skipped", self.skipped)?;
        }
        writeln!(self.out)?;
        if self.passed + self.failed == 0 {
            self.out.flush()?;
            let hint =
                "golden files are NAME.npz or NAME.*.npz beside NAME.pte, with in0, in1, ... and out0, out1, ...";
            return Err(Failure::new("nothing was checked").hint(hint));
        }
        Ok(ExitCode::from(u8::from(self.failed > 0)))
    }
}

fn title(program: &str, label: &str) -> String {
    if label.is_empty() { program.to_owned() } else { format!("{program} [{label}]") }
}
