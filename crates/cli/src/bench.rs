//! `sconce bench`: how long programs take to load and to run, and how much memory at most.
mod memory;
mod official;
mod profile;

use crate::arguments;
use crate::failure::Failure;
use crate::fill::{self, Fill};
use crate::golden::{self, Bound, Golden};
use crate::model::{self, Loading};
use crate::paint;
use crate::print::table;
use crate::times::{self, Times};
use official::{Official, Side};
use profile::{OperatorTime, profile};
use sconce::Session;
use sconce::core::Method;
use serde::Serialize;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Fewest and most steady runs.
const RUNS: RangeInclusive<usize> = 5..=500;
/// Turns of each side where two are compared, so that what changes on the machine meanwhile meets both.
const TURNS: u32 = 6;

/// Measure load time, latency and peak memory
#[derive(clap::Args, Debug)]
pub(crate) struct Bench {
    /// Programs; inputs come from NAME.npz beside NAME.pte, or are pseudo-random
    #[arg(value_name = "MODEL.pte", required = true)]
    models: Vec<PathBuf>,
    /// The method [default: forward, or the only one]
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// About how long to measure each program
    #[arg(long, value_name = "S", default_value = "3", value_parser = arguments::seconds)]
    seconds: f64,
    /// How long to run each program before measuring; the first run is never counted
    #[arg(long, value_name = "S", default_value = "0", value_parser = arguments::seconds)]
    warm_up: f64,
    /// Adds the time of each operator
    #[arg(long)]
    profile: bool,
    /// Times the official runtime on the same inputs too, by turns, in a Python that has it
    #[arg(long, value_name = "PYTHON", num_args = 0..=1, require_equals = true, default_missing_value = "python3")]
    compare: Option<String>,
    /// Prints an array of measurements as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loading: Loading,
}

/// The measurements of one program.
#[derive(Debug, Serialize)]
struct Measurement {
    file: String,
    threads: usize,
    #[serde(flatten)]
    ours: Side,
    /// Memory of the process before the load, and at most.
    before_rss_mb: Option<f64>,
    peak_rss_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operators: Option<Vec<OperatorTime>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    official: Option<Side>,
}

impl Bench {
    /// Runs the command.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let measurements = self.models.iter().map(|path| self.measure(path)).collect::<Result<Vec<_>, _>>()?;
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&measurements)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = vec![HEADING.map(paint::heading).to_vec()];
        rows.extend(measurements.iter().flat_map(|own| [Some(own.row()), own.official_row()]).flatten());
        table(out, "", &rows, &(1..HEADING.len()).collect::<Vec<_>>())?;
        measurements.iter().try_for_each(|measurement| measurement.print_verdict(out))?;
        measurements.iter().try_for_each(|measurement| measurement.print_profile(out))?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, path: &Path) -> Result<Measurement, Failure> {
        // Inputs are the caller's: they do not count as memory of the program.
        let given = beside(path)?;
        memory::forget_peak();
        let before_rss_mb = memory::resident("VmRSS:");
        let start = Instant::now();
        let loading = self.loading.or_beside(path);
        let module = model::load(path, loading.options(), &loading.backend)?;
        let mut session = module.method_session(&model::method_name(&module, self.method.as_deref()))?;
        let load_ms = milliseconds(start.elapsed());
        let bound = bound(path, given, session.view())?;
        let first_ms = time(&mut session, &bound)?;
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < self.warm_up {
            time(&mut session, &bound)?;
        }
        let official = self.compare.as_deref().map(|python| {
            Official::start(python, path, session.method(), &loading.data, module.threads(), self.warm_up, &bound)
        });
        let mut official = official.transpose()?;
        let (mut own, mut theirs, mut peak_rss_mb) = (Vec::new(), Vec::new(), None);
        let turns = if official.is_some() { TURNS } else { 1 };
        let (seconds, runs) = (self.seconds / f64::from(turns), share_of_runs(turns));
        for _ in 0..turns {
            let (start, before) = (Instant::now(), own.len());
            let done = |own: &Vec<f64>| own.len() - before;
            while done(&own) < *runs.start() || (done(&own) < *runs.end() && start.elapsed().as_secs_f64() < seconds) {
                own.push(time(&mut session, &bound)?);
            }
            // Before the profile, which takes memory itself.
            peak_rss_mb = memory::resident("VmHWM:");
            if let Some(official) = &mut official {
                theirs.append(&mut official.turn(seconds, runs.clone())?);
            }
        }
        let ours = Side { load_ms, first_ms, times: Times::of(own) };
        let official = official.map(|official| official.finish(theirs)).transpose()?;
        if official.is_none()
            && let Some(noise) = ours.times.noise()
        {
            eprintln!("warning: {}: {noise}", path.display());
        }
        Ok(Measurement {
            file: path.display().to_string(),
            threads: module.threads(),
            ours,
            before_rss_mb,
            peak_rss_mb,
            operators: if self.profile { Some(profile(&mut session, &bound, ours.times.runs)?) } else { None },
            official,
        })
    }
}

const HEADING: [&str; 11] =
    ["file", "threads", "load ms", "first ms", "min ms", "median ms", "p90 ms", "p99 ms", "runs", "runs/s", "peak MiB"];

impl Measurement {
    fn row(&self) -> Vec<String> {
        let ms = |value: f64| format!("{value:.3}");
        let Side { load_ms, first_ms, times } = &self.ours;
        vec![
            self.file.clone(),
            self.threads.to_string(),
            ms(*load_ms),
            ms(*first_ms),
            ms(times.min_ms),
            ms(times.median_ms),
            ms(times.p90_ms),
            ms(times.p99_ms),
            times.runs.to_string(),
            format!("{:.1}", times.runs_per_second),
            self.peak_rss_mb.map_or("-".to_owned(), |size| format!("{size:.1}")),
        ]
    }

    /// The official runtime's times, each with how many times as long it takes.
    fn official_row(&self) -> Option<Vec<String>> {
        let (ours, theirs) = (&self.ours, self.official.as_ref()?);
        let beside = |theirs: f64, ours: f64| format!("{theirs:.3} ({:.2}x)", theirs / ours);
        Some(vec![
            "  official".to_owned(),
            self.threads.to_string(),
            beside(theirs.load_ms, ours.load_ms),
            beside(theirs.first_ms, ours.first_ms),
            beside(theirs.times.min_ms, ours.times.min_ms),
            beside(theirs.times.median_ms, ours.times.median_ms),
            beside(theirs.times.p90_ms, ours.times.p90_ms),
            beside(theirs.times.p99_ms, ours.times.p99_ms),
            theirs.times.runs.to_string(),
            format!("{:.1}", theirs.times.runs_per_second),
            "-".to_owned(),
        ])
    }

    fn print_verdict(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(theirs) = &self.official else { return Ok(()) };
        Ok(writeln!(out, "{}: {}", self.file, times::compare(&self.ours.times, &theirs.times))?)
    }

    fn print_profile(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(operators) = &self.operators else { return Ok(()) };
        let total: f64 = operators.iter().map(|operator| operator.ms).sum();
        writeln!(out, "\n{}: {total:.3} ms per run, by operator", self.file)?;
        let row = |operator: &OperatorTime| {
            let share = if total > 0.0 { operator.ms / total * 100.0 } else { 0.0 };
            let (time, calls) = (format!("{:.3} ms", operator.ms), format!("{} x", operator.calls));
            vec![time, paint::share(&format!("{share:.1} %"), share), calls, operator.name.clone()]
        };
        Ok(table(out, "  ", &operators.iter().map(row).collect::<Vec<_>>(), &[0, 1, 2])?)
    }
}

/// How many runs there are in one of n turns.
fn share_of_runs(turns: u32) -> RangeInclusive<usize> {
    let share = |runs: usize| runs.div_ceil(turns as usize);
    share(*RUNS.start())..=share(*RUNS.end())
}

/// How long a call takes.
fn time(session: &mut Session, bound: &Bound) -> Result<f64, Failure> {
    let start = Instant::now();
    session.run_with(&golden::borrow(bound), |_| ())?;
    Ok(milliseconds(start.elapsed()))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// Inputs from the golden file beside the program, or pseudo-random ones.
pub(crate) fn inputs(path: &Path, method: Method<'_>) -> Result<Bound, Failure> {
    bound(path, beside(path)?, method)
}

/// The golden file beside a program, if there is one.
fn beside(path: &Path) -> Result<Option<Golden>, Failure> {
    let beside = path.with_extension("npz");
    beside.is_file().then(|| golden::read(&beside)).transpose().map_err(Failure::new)
}

fn bound(path: &Path, given: Option<Golden>, method: Method<'_>) -> Result<Bound, Failure> {
    let Some(given) = given else { return fill::inputs(method, Fill::Random) };
    let at = |error: String| Failure::new(format!("{}: {error}", path.with_extension("npz").display()));
    given.of(method).and_then(|given| golden::bind(method, given.inputs)).map_err(at)
}
