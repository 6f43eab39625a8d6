//! Where the time of a delegated program goes.
//!
//! Runs every XNNPACK payload of a `.pte` file by itself on the CPU engine, with zeros for inputs, and prints the
//! fastest time of each step and of all steps together.
//!
//!     cargo run --release -p sconce-delegates --example payload_profile -- MODEL.pte [THREADS]
use sconce_cpu::{Model, Options, Session};
use sconce_delegates::xnnpack::import;
use sconce_format::pte::{File, Header, Payload};
use sconce_graph::{Constants, Source};
use sconce_kernels::view::{bytes_of, bytes_of_mut};
use sconce_parallel::Pool;
use std::time::{Duration, Instant};

/// The bytes of a program, and of one of its payloads.
struct Data<'a> {
    bytes: &'a [u8],
    file: File<'a>,
    payload: &'a [u8],
}

impl Constants for Data<'_> {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        match source {
            Source::Named(key) => slice(self.bytes, self.file.named_data(key)?),
            Source::Payload(range) => self.payload.get(range.clone()),
            Source::Bytes(bytes) => Some(bytes),
            Source::Value(_) => None,
        }
    }
}

fn slice(bytes: &[u8], range: std::ops::Range<u64>) -> Option<&[u8]> {
    bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which program?")?;
    let threads = arguments.next().map_or(Ok(1), |number| number.parse())?;
    let bytes = std::fs::read(path)?;
    let size = u64::try_from(bytes.len())?;
    let header = Header::parse(&bytes, size)?;
    let file = File::parse(&bytes, header, size)?;
    let pool = Pool::new(threads);
    for plan in file.program().execution_plan().iter() {
        for delegate in plan.delegates().iter() {
            let payload = match file.delegate_payload(delegate).ok_or("a delegate without payload")? {
                Payload::Inline(bytes) => bytes,
                Payload::Segment(range) => slice(&bytes, range).ok_or("a payload outside of the file")?,
            };
            profile(&Data { bytes: &bytes, file, payload }, &pool, threads)?;
        }
    }
    Ok(())
}

fn profile(data: &Data<'_>, pool: &Pool, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let graph = import(data.payload)?;
    let imported = start.elapsed();
    let model = Model::new(graph, Options::default(), data)?;
    println!("{:?} to read the payload, {:?} to make the model", imported, start.elapsed() - imported);
    let graph = model.graph();
    let sizes: Vec<_> = graph.inputs.iter().map(|&id| graph.ty(id).sizes()).collect();
    let plan = model.plan(&sizes.iter().map(Vec::as_slice).collect::<Vec<_>>(), threads)?;
    let (read, written) = plan.argument_bytes();
    let words = |lengths: &[usize]| lengths.iter().map(|bytes| vec![0u64; bytes.div_ceil(8)]).collect::<Vec<_>>();
    let (inputs, mut outputs) = (words(read), words(written));
    let inputs: Vec<&[u8]> = inputs.iter().zip(read).map(|(words, &len)| &bytes_of(words)[..len]).collect();
    let mut session = Session::default();
    let mut best = vec![Duration::MAX; plan.steps().len()];
    let (mut fastest, mut first) = (Duration::MAX, None);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        let mut outputs: Vec<&mut [u8]> =
            outputs.iter_mut().zip(written).map(|(words, &len)| &mut bytes_of_mut(words)[..len]).collect();
        let start = Instant::now();
        let mut last = start;
        model.run_observed(&plan, &mut session, pool, data, &inputs, &mut outputs, |step| {
            let now = Instant::now();
            best[step] = best[step].min(now - last);
            last = now;
        })?;
        fastest = fastest.min(start.elapsed());
        first.get_or_insert_with(|| start.elapsed());
    }
    for ((step, node), time) in plan.steps().zip(&best) {
        let node: String = node.chars().take(100).collect();
        println!("{:9.1} us  {step}  <-  {node}", time.as_secs_f64() * 1e6);
    }
    let sum: Duration = best.iter().sum();
    println!("{:.3?} first run", first.unwrap_or_default());
    let [fastest, sum] = [fastest, sum].map(|time| time.as_secs_f64() * 1e3);
    println!("{fastest:.3} ms fastest run, {sum:.3} ms sum of fastest steps, arena {} bytes", plan.arena_bytes());
    Ok(())
}
