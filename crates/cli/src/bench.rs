//! `sconce bench`: how long programs take to load and to run, and how much memory at most.
use crate::failure::Failure;
use crate::golden::{self, Bound};
use crate::listing;
use crate::model::{self, Loading};
use crate::official::{Times, Timing};
use crate::print::table;
use sconce::core::{Event, Method, Platform, ValueInfo};
use sconce::{ScalarType, Session, Tensor, Value, bf16, f16};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Fewest and most steady runs.
const RUNS: std::ops::RangeInclusive<usize> = 5..=500;

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
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// How long to run each program before measuring; the first run is never counted
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    warm_up: f64,
    /// Adds the time of each operator
    #[arg(long)]
    profile: bool,
    /// Times the official runtime on the same inputs too, in a Python that has it
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
    load_ms: f64,
    first_ms: f64,
    min_ms: f64,
    median_ms: f64,
    runs: usize,
    /// Memory of the process before the load, and at most.
    before_rss_mb: Option<f64>,
    peak_rss_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operators: Option<Vec<OperatorTime>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    official: Option<Times>,
}

/// The time that one operator or backend takes in a run.
#[derive(Debug, Serialize)]
struct OperatorTime {
    name: String,
    calls: u64,
    ms: f64,
}

impl Bench {
    /// Runs the command.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let measurements = self.models.iter().map(|path| self.measure(path)).collect::<Result<Vec<_>, _>>()?;
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&measurements)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let heading = ["file", "threads", "load ms", "first ms", "min ms", "median ms", "runs", "peak MiB"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(
            measurements.iter().flat_map(|measurement| [Some(measurement.row()), measurement.official_row()]).flatten(),
        );
        table(out, "", &rows, &[1, 2, 3, 4, 5, 6, 7])?;
        measurements.iter().try_for_each(|measurement| measurement.print_profile(out))?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, path: &Path) -> Result<Measurement, Failure> {
        // Inputs are the caller's: they do not count as memory of the program.
        let given = beside(path)?;
        forget_peak();
        let before_rss_mb = memory("VmRSS:");
        let start = Instant::now();
        let module = model::load(path, self.loading.or_beside(path).options(), &self.loading.backend)?;
        let mut session = module.method_session(&model::method_name(&module, self.method.as_deref()))?;
        let load_ms = milliseconds(start.elapsed());
        let method = session.method().to_owned();
        let bound = bound(path, given, session.view())?;
        let mut time = || {
            let start = Instant::now();
            session.run_with(&golden::borrow(&bound), |_| ()).map(|()| milliseconds(start.elapsed()))
        };
        let first_ms = time()?;
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < self.warm_up {
            time()?;
        }
        let mut times = Vec::new();
        let start = Instant::now();
        while times.len() < *RUNS.start() || (times.len() < *RUNS.end() && start.elapsed().as_secs_f64() < self.seconds)
        {
            times.push(time()?);
        }
        times.sort_by(f64::total_cmp);
        let peak_rss_mb = memory("VmHWM:");
        let data = self.loading.or_beside(path).data;
        let timing = self.compare.as_deref().map(|python| Timing {
            python,
            model: path,
            method: &method,
            data: &data,
            threads: module.threads(),
            seconds: self.seconds,
            warm_up: self.warm_up,
        });
        Ok(Measurement {
            file: path.display().to_string(),
            threads: module.threads(),
            load_ms,
            first_ms,
            min_ms: times.first().copied().unwrap_or(0.0),
            median_ms: median(&times),
            runs: times.len(),
            before_rss_mb,
            peak_rss_mb,
            operators: if self.profile { Some(profile(&mut session, &bound, times.len())?) } else { None },
            official: timing.map(|timing| timing.measure(&bound)).transpose()?,
        })
    }
}

impl Measurement {
    fn row(&self) -> Vec<String> {
        let time = |value: f64| format!("{value:.3}");
        vec![
            self.file.clone(),
            self.threads.to_string(),
            time(self.load_ms),
            time(self.first_ms),
            time(self.min_ms),
            time(self.median_ms),
            self.runs.to_string(),
            self.peak_rss_mb.map_or("-".to_owned(), |size| format!("{size:.1}")),
        ]
    }

    /// The official runtime's times, each with how much longer it takes.
    fn official_row(&self) -> Option<Vec<String>> {
        let official = self.official.as_ref()?;
        let beside = |theirs: f64, ours: f64| format!("{theirs:.3} ({:.2}x)", theirs / ours);
        Some(vec![
            "  official".to_owned(),
            self.threads.to_string(),
            beside(official.load_ms, self.load_ms),
            beside(official.first_ms, self.first_ms),
            beside(official.min_ms, self.min_ms),
            beside(official.median_ms, self.median_ms),
            official.runs.to_string(),
            "-".to_owned(),
        ])
    }

    fn print_profile(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(operators) = &self.operators else { return Ok(()) };
        let total: f64 = operators.iter().map(|operator| operator.ms).sum();
        writeln!(out, "\n{}: {total:.3} ms per run, by operator", self.file)?;
        let row = |operator: &OperatorTime| {
            let share = if total > 0.0 { operator.ms / total * 100.0 } else { 0.0 };
            let (time, calls) = (format!("{:.3} ms", operator.ms), format!("{} x", operator.calls));
            vec![time, format!("{share:.1} %"), calls, operator.name.clone()]
        };
        Ok(table(out, "  ", &operators.iter().map(row).collect::<Vec<_>>(), &[0, 1, 2])?)
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// The middle of sorted times.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted {
        [] => 0.0,
        _ if sorted.len() % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// Inputs from the golden file beside the program, or pseudo-random ones.
pub(crate) fn inputs(path: &Path, method: Method<'_>) -> Result<Bound, Failure> {
    bound(path, beside(path)?, method)
}

/// The arrays of the golden file beside a program, if there is one.
fn beside(path: &Path) -> Result<Option<BTreeMap<usize, Tensor>>, Failure> {
    let beside = path.with_extension("npz");
    let read = beside.is_file().then(|| golden::read(&beside).map(|golden| golden.inputs));
    read.transpose().map_err(Failure::new)
}

fn bound(path: &Path, given: Option<BTreeMap<usize, Tensor>>, method: Method<'_>) -> Result<Bound, Failure> {
    if let Some(given) = given {
        let at = |error: String| Failure::new(format!("{}: {error}", path.with_extension("npz").display()));
        return golden::bind(method, given).map_err(at);
    }
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let input = |index| match method.input(index) {
        Some(ValueInfo::Tensor { dtype, shape, .. }) => Ok(Some(Value::Tensor(random.tensor(dtype, shape.sizes())?))),
        _ => Ok(None),
    };
    (0..method.inputs()).map(input).collect()
}

/// A small generator (xorshift), the same numbers every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Between -1 and 1.
    fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    /// Floating-point numbers around 0; integers 0 and 1, which are in range as indices too.
    fn tensor(&mut self, dtype: ScalarType, sizes: &[usize]) -> Result<Tensor, Failure> {
        let mut tensor = Tensor::zeros(dtype, sizes)?;
        macro_rules! fill {
            ($($dtype:ident $type:ty: $value:expr,)*) => {
                match dtype {
                    $(ScalarType::$dtype => tensor.as_mut_slice::<$type>()?.iter_mut().for_each(|slot| *slot = $value),)*
                    ScalarType::Bool => {
                        let bools: Vec<bool> = (0..tensor.numel()).map(|_| self.next() % 2 == 1).collect();
                        tensor = Tensor::from_bools(&bools, sizes)?;
                    }
                    _ => {}
                }
            };
        }
        fill! {
            Float f32: self.real(),
            Double f64: self.real().into(),
            Half f16: f16::from_f32(self.real()),
            BFloat16 bf16: bf16::from_f32(self.real()),
            Byte u8: (self.next() & 1) as u8,
            Char i8: (self.next() & 1) as i8,
            Short i16: (self.next() & 1) as i16,
            Int i32: (self.next() & 1) as i32,
            Long i64: (self.next() & 1) as i64,
            UInt16 u16: (self.next() & 1) as u16,
            UInt32 u32: (self.next() & 1) as u32,
            UInt64 u64: self.next() & 1,
        }
        Ok(tensor)
    }
}

/// Adds up the time of every instruction.
struct Stopwatch {
    start: Instant,
    /// Calls and nanoseconds by chain and instruction.
    spent: Mutex<BTreeMap<(u32, u32), (u64, u64)>>,
}

impl Platform for Stopwatch {
    fn ticks(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn traces(&self) -> bool {
        true
    }

    fn trace(&self, event: Event) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, time) = spent.entry((event.chain, event.instruction)).or_default();
        (*calls, *time) = (*calls + 1, *time + event.end.saturating_sub(event.start));
    }
}

/// The time of each operator in an average run, the longest first.
fn profile(session: &mut Session, bound: &Bound, runs: usize) -> Result<Vec<OperatorTime>, Failure> {
    let runs = runs.clamp(1, 50);
    let stopwatch = Stopwatch { start: Instant::now(), spent: Mutex::default() };
    for _ in 0..runs {
        session.run_traced(&golden::borrow(bound), &stopwatch)?;
    }
    let plan = session.view().plan();
    let mut operators: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for ((chain, index), (calls, time)) in stopwatch.spent.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let chain = plan.chains().get(chain as usize);
        let instruction = chain.and_then(|chain| chain.instructions().get(index as usize));
        let name = instruction.map_or_else(String::new, |instruction| listing::callee(plan, instruction));
        let sum = operators.entry(name).or_default();
        *sum = (sum.0 + calls, sum.1 + time);
    }
    let average = |(name, (calls, time)): (String, (u64, u64))| OperatorTime {
        name,
        calls: calls / runs as u64,
        ms: time as f64 / 1e6 / runs as f64,
    };
    let mut operators: Vec<_> = operators.into_iter().map(average).collect();
    operators.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    Ok(operators)
}

/// Starts counting peak memory anew, where the system can; otherwise the peak is that of all programs so far.
fn forget_peak() {
    if cfg!(target_os = "linux") {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }
}

/// Memory of this process in MiB: what it has resident (`VmRSS:`), or has had at most (`VmHWM:`).
fn memory(kind: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(kind))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 10.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 10.0]), 3.0);
    }

    #[test]
    fn random_inputs_are_small_and_repeatable() {
        for dtype in ScalarType::all() {
            let make = || Random(1).tensor(dtype, &[64]).unwrap();
            assert_eq!(make().bytes(), make().bytes());
        }
        let reals = Random(1).tensor(ScalarType::Float, &[1000]).unwrap();
        let reals = reals.as_slice::<f32>().unwrap();
        assert!(reals.iter().all(|value| (-1.0..1.0).contains(value)) && reals.iter().any(|value| *value < -0.5));
        let indices = Random(1).tensor(ScalarType::Long, &[100]).unwrap();
        let indices = indices.as_slice::<i64>().unwrap();
        assert!(indices.iter().all(|index| (0..=1).contains(index)) && indices.contains(&1));
    }
}
