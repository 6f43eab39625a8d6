//! `sconce inspect`: what is inside a file. A report is gathered first, then printed as text or as JSON.
mod text;

use crate::arguments;
use crate::bench;
use crate::failure::Failure;
use crate::golden;
use crate::listing::{self, Line, Port};
use crate::model::{self, Loading};
use crate::names;
use sconce::core::{Method, Registry as _};
use sconce::format::pte::{InstructionArguments, KernelTypes, Payload};
use sconce::format::{FileKind, bpte, ptd};
use sconce::{Error, Module, Needs, Options, PlannedCalls, Registry};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs of which the fastest time of each step counts.
const PROFILED_RUNS: usize = 20;

/// Show what is inside a program or data file
#[derive(clap::Args, Debug)]
pub(crate) struct Inspect {
    /// A program (.pte), data file (.ptd) or bundled program (.bpte)
    #[arg(value_name = "MODEL.pte|.ptd|.bpte")]
    file: PathBuf,
    /// Lists the instructions with their arguments, and the steps of the engine behind each delegate and each run of calls
    #[arg(long)]
    plan: bool,
    /// Runs the program and adds to each step its time, its share, and what part of the machine's peak it reaches
    #[arg(long, requires = "plan")]
    profile: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// External data file of the program; may be given several times
    #[arg(long, value_name = "FILE.ptd")]
    data: Vec<PathBuf>,
    /// Threads for which the memory of a session is computed
    #[arg(long, value_name = "N", default_value = "1", value_parser = arguments::threads)]
    threads: usize,
    /// Plans without methods that round more than plain sums of products do
    #[arg(long)]
    exact: bool,
}

/// What is inside a file.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Report {
    Program(ProgramReport),
    Tensors { file: String, bytes: u64, entries: Vec<Entry> },
    Bundle { file: String, bytes: u64, tests: Vec<Tests>, program: ProgramReport },
}

#[derive(Debug, Serialize)]
struct ProgramReport {
    file: String,
    bytes: u64,
    /// The part that describes the methods.
    program_bytes: u64,
    constant_bytes: u64,
    segments: Vec<Segment>,
    named_data: Vec<Entry>,
    methods: Vec<MethodReport>,
}

/// A part of the file after the description of the methods.
#[derive(Debug, Serialize)]
struct Segment {
    /// Where it begins in the file.
    offset: u64,
    size: u64,
}

#[derive(Debug, Serialize)]
struct MethodReport {
    name: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    instructions: usize,
    operators: Vec<OperatorReport>,
    delegates: Vec<DelegateReport>,
    planned: PlannedReport,
    external: Vec<ExternalReport>,
    memory: MemoryReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Vec<Line>>,
}

#[derive(Debug, Serialize)]
struct OperatorReport {
    name: String,
    calls: usize,
    /// How many of the calls compute from constants alone and run once, not in every run.
    once: usize,
    /// How many are planned together with their neighbours.
    planned: usize,
    present: bool,
}

/// The kernel calls that are planned together.
#[derive(Debug, Serialize)]
struct PlannedReport {
    calls: usize,
    /// Of those that are not computed once.
    of: usize,
    /// Why one of the others is not, if there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    runs: Vec<RunReport>,
}

/// Neighbouring kernel calls that run as one.
#[derive(Debug, Serialize)]
struct RunReport {
    first: u32,
    last: u32,
    calls: usize,
    /// What the engine will do, line by line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DelegateReport {
    backend: String,
    payload_bytes: u64,
    present: bool,
    /// What the engine will do, line by line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
}

/// A tensor that the program keeps in a data file.
#[derive(Debug, Serialize)]
struct ExternalReport {
    name: String,
    bytes: u64,
    present: bool,
}

/// Bytes of RAM that a session of the method takes.
#[derive(Debug, Serialize)]
struct MemoryReport {
    threads: usize,
    state: usize,
    arenas: Vec<usize>,
    scratch: Option<usize>,
    /// Without scratch where that is unknown.
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor: Option<String>,
}

#[derive(Debug, Serialize)]
struct Tests {
    method: String,
    cases: usize,
}

impl Inspect {
    /// Runs the command.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let report = self.report()?;
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        } else {
            report.print(out)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Looks at programs that this build cannot run, too.
    fn options(&self) -> Options {
        let loading =
            Loading { data: self.data.clone(), threads: self.threads, exact: self.exact, ..Loading::default() };
        loading.options().lazy(true).memory_limit(usize::MAX)
    }

    fn report(&self) -> Result<Report, Failure> {
        let path = &self.file;
        let head = model::head(path).map_err(|error| model::unreadable(path, &error))?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        let named = match extension {
            Some("ptd") => FileKind::Tensors,
            Some("bpte") => FileKind::Bundle,
            _ => FileKind::Program,
        };
        match model::kind(&head).unwrap_or(named) {
            FileKind::Tensors => tensors(path),
            FileKind::Bundle => self.bundle(),
            _ => {
                let module = model::load(path, self.options(), &[])?;
                Ok(Report::Program(self.program(&module, path.display().to_string())))
            }
        }
    }

    fn bundle(&self) -> Result<Report, Failure> {
        let content = model::read(&self.file)?;
        let file = self.file.display().to_string();
        let bundle = bpte::File::parse(&content).map_err(|error| Failure::new(format!("{file}: {error}")))?;
        let module = self.options().load(bundle.program())?;
        let tests = |suite: bpte::BundledMethodTestSuite<'_>| Tests {
            method: suite.method_name().unwrap_or_default().to_owned(),
            cases: suite.test_cases().len(),
        };
        let tests = bundle.suites().iter().map(tests).collect();
        let program = self.program(&module, "the program inside".to_owned());
        Ok(Report::Bundle { file, bytes: content.len() as u64, tests, program })
    }

    fn program(&self, module: &Module, file: String) -> ProgramReport {
        let program = module.program();
        let content = program.file();
        let segment = |index: u32| content.segment(index).map_or(0, |range| range.end.saturating_sub(range.start));
        let root = content.program();
        let inline: usize = root.constant_buffer().iter().map(|buffer| buffer.storage().len()).sum();
        let stored = root.constant_segment().map_or(0, |table| segment(table.segment_index()));
        let entry = |data: sconce::format::pte::NamedData<'_>| Entry {
            name: data.key().unwrap_or_default().to_owned(),
            bytes: segment(data.segment_index()),
            tensor: None,
        };
        ProgramReport {
            file,
            bytes: program.loader().size(),
            program_bytes: content.header().program_size,
            constant_bytes: stored.saturating_add(inline as u64),
            segments: root
                .segments()
                .iter()
                .zip(0..)
                .map(|(segment, index)| Segment {
                    offset: content.segment(index).map_or(0, |range| range.start),
                    size: segment.size(),
                })
                .collect(),
            named_data: root.named_data().iter().map(entry).collect(),
            methods: program.methods().map(|method| self.method(module, method)).collect(),
        }
    }

    fn method(&self, module: &Module, method: Method<'_>) -> MethodReport {
        let ports = |infos: Vec<Option<sconce::core::ValueInfo<'_>>>, names: Vec<Option<&str>>| {
            infos.iter().flatten().zip(names).map(|(info, name)| Port::new(info, name)).collect()
        };
        let chains = method.plan().chains();
        // What cannot be loaded is not planned either.
        let planned = module.planned_calls(method.name()).unwrap_or_default();
        let reason = module.unplanned_reason(method.name()).unwrap_or_default();
        let operators = operators(module, method, &planned);
        let times = if self.profile { self.times(module, method) } else { Vec::new() };
        let plans = if self.plan { module.call_plans(method.name()).unwrap_or_default() } else { Vec::new() };
        let of_calls = times.get(method.delegates()..).unwrap_or_default();
        MethodReport {
            name: method.name().to_owned(),
            inputs: ports((0..method.inputs()).map(|index| method.input(index)).collect(), names::inputs(method)),
            outputs: ports((0..method.outputs()).map(|index| method.output(index)).collect(), names::outputs(method)),
            instructions: chains.iter().map(|chain| chain.instructions().len()).sum(),
            delegates: self.delegates(module, method, &times),
            planned: planned_report(&operators, &planned, reason, (of_calls, &plans)),
            operators,
            external: external(method),
            memory: memory(module, method),
            plan: self.plan.then(|| listing::lines(method)),
        }
    }

    /// What steps take: of each delegate, then of each planned run of calls. Nothing, if the method does not run.
    fn times(&self, module: &Module, method: Method<'_>) -> Vec<String> {
        let times = || {
            let bound = bench::inputs(&self.file, method).ok()?;
            let mut session = module.method_session(method.name()).ok()?;
            session.step_times(&golden::borrow(&bound), PROFILED_RUNS).ok()
        };
        times().unwrap_or_default()
    }

    fn delegates(&self, module: &Module, method: Method<'_>, times: &[String]) -> Vec<DelegateReport> {
        let registry = Registry::with_defaults();
        let content = method.program().file();
        // Delegates that this build cannot make have nothing to say.
        let plans = if self.plan { module.delegate_plans(method.name()).unwrap_or_default() } else { Vec::new() };
        let report = |(index, delegate): (usize, sconce::format::pte::BackendDelegate<'_>)| {
            let backend = delegate.id().unwrap_or_default();
            let payload_bytes = match content.delegate_payload(delegate) {
                Some(Payload::Inline(payload)) => payload.len() as u64,
                Some(Payload::Segment(range)) => range.end.saturating_sub(range.start),
                None => 0,
            };
            let present = registry.find_backend(backend).is_some();
            let steps = steps(times.get(index), plans.get(index).map_or("", String::as_str));
            DelegateReport { backend: backend.to_owned(), payload_bytes, present, steps }
        };
        method.plan().delegates().iter().enumerate().map(report).collect()
    }
}

/// The runs of calls that are planned, with times and plans by run as far as there are some.
fn planned_report(
    operators: &[OperatorReport],
    planned: &[PlannedCalls],
    reason: Option<String>,
    (times, plans): (&[String], &[String]),
) -> PlannedReport {
    let run = |(index, run): (usize, &PlannedCalls)| RunReport {
        first: run.instructions.start,
        last: run.instructions.end.saturating_sub(1),
        calls: run.calls,
        steps: steps(times.get(index), plans.get(index).map_or("", String::as_str)),
    };
    let (calls, of) =
        operators.iter().fold((0, 0), |(calls, of), row| (calls + row.planned, of + row.calls - row.once));
    PlannedReport {
        calls,
        of,
        reason: reason.filter(|_| calls < of),
        runs: planned.iter().enumerate().map(run).collect(),
    }
}

/// The lines of a plan, or those with times where there are some.
fn steps(times: Option<&String>, plan: &str) -> Vec<String> {
    let text = times.filter(|times| !times.is_empty()).map_or(plan, String::as_str);
    text.lines().map(str::to_owned).collect()
}

fn operators(module: &Module, method: Method<'_>, planned: &[PlannedCalls]) -> Vec<OperatorReport> {
    let registry = Registry::with_defaults();
    let plan = method.plan();
    // What cannot be loaded is not folded either.
    let folded: BTreeSet<u32> = module.folded(method.name()).unwrap_or_default().into_iter().collect();
    let report = |operator: sconce::format::pte::Operator<'_>| OperatorReport {
        name: operator.to_string(),
        calls: 0,
        once: 0,
        planned: 0,
        present: registry.find_kernel(&operator).is_some(),
    };
    let mut reports: Vec<_> = plan.operators().iter().map(report).collect();
    for (chain, number) in plan.chains().iter().zip(0u32..) {
        for (instruction, index) in chain.instructions().iter().zip(0u32..) {
            let InstructionArguments::KernelCall(call) = instruction.instr_args() else { continue };
            let report = usize::try_from(call.op_index()).ok().and_then(|index| reports.get_mut(index));
            let Some(report) = report else { continue };
            let once = number == 0 && folded.contains(&index);
            let joined = number == 0 && !once && planned.iter().any(|run| run.instructions.contains(&index));
            report.calls += 1;
            report.once += usize::from(once);
            report.planned += usize::from(joined);
        }
    }
    reports.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    reports
}

fn external(method: Method<'_>) -> Vec<ExternalReport> {
    let mut seen = BTreeSet::new();
    let mut reports = Vec::new();
    for value in method.plan().values().iter() {
        let KernelTypes::Tensor(tensor) = value.val() else { continue };
        let name = tensor.fully_qualified_name().unwrap_or_default();
        if tensor.is_external() && seen.insert(name) {
            let present = method.program().external().find(name).is_some();
            reports.push(ExternalReport { name: name.to_owned(), bytes: tensor.nbytes(), present });
        }
    }
    reports
}

fn memory(module: &Module, method: Method<'_>) -> MemoryReport {
    let (needs, unknown) = match module.needs(method.name()) {
        Ok(needs) => (needs, None),
        Err(Error::MissingOperators { names }) => {
            (Needs::planned(method), Some(format!("{} operator(s) are not in this build", names.len())))
        }
        Err(Error::MissingBackends { names, .. }) => {
            (Needs::planned(method), Some(format!("{} is not in this build", names.join(", "))))
        }
        Err(error) => (Needs::planned(method), Some(error.to_string())),
    };
    MemoryReport {
        threads: module.threads(),
        scratch: unknown.is_none().then_some(needs.scratch),
        total: needs.total(),
        state: needs.state,
        arenas: needs.arenas,
        unknown,
    }
}

/// The entries of a data file, of which only the head is read.
fn tensors(path: &Path) -> Result<Report, Failure> {
    let file = path.display().to_string();
    let broken = |error: sconce::format::Error| Failure::new(format!("{file}: {error}"));
    let unreadable = |error: std::io::Error| model::unreadable(path, &error);
    let opened = File::open(path).map_err(unreadable)?;
    let size = opened.metadata().map_err(unreadable)?.len();
    let header = ptd::Header::parse(&model::head(path).map_err(unreadable)?, size).map_err(broken)?;
    let mut content = Vec::new();
    opened.take(header.loaded_size()).read_to_end(&mut content).map_err(unreadable)?;
    let data = ptd::File::parse(&content, header, size).map_err(broken)?;
    let entry = |index| {
        let range = data.range(index);
        let tensor = data.layout(index).map(|layout| {
            let sizes: Vec<i32> = layout.sizes().iter().collect();
            format!("{} {sizes:?}", layout.dtype())
        });
        Entry { name: data.key(index).to_owned(), bytes: range.end.saturating_sub(range.start), tensor }
    };
    let entries = (0..data.len()).map(entry).collect();
    Ok(Report::Tensors { file, bytes: size, entries })
}
