//! Broken files: golden programs changed in every way that comes to mind, a hundred thousand times.
//!
//! Every outcome must be a success or an error, within limits on memory and instructions. `MUTATIONS` sets the number;
//! a failure prints the file and the seed that repeats it.
mod exercise;
mod random;

use random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Values that break careless arithmetic.
const NASTY: [u32; 10] = [0, 1, 2, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

/// Where the structure of a file is: most changes go there, since weights only change numbers.
fn structure(bytes: &[u8]) -> usize {
    let told = bytes.get(16..24).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let has_header = bytes.get(8..12) == Some(b"eh00");
    if has_header { usize::try_from(told).unwrap_or(usize::MAX).min(bytes.len()) } else { bytes.len() }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let structure = structure(bytes);
    for _ in 0..1 + random.below(3) {
        let reach = if random.below(8) == 0 { bytes.len() } else { structure.min(bytes.len()) };
        let at = random.below(reach);
        match random.below(7) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 => bytes.truncate(at),
            3 | 4 => {
                let value = NASTY[random.below(NASTY.len())];
                put(bytes, at & !3, &value.to_le_bytes());
            }
            5 => {
                // An offset from elsewhere.
                let from = random.below(reach) & !3;
                if let Some(word) = bytes.get(from..from + 4).map(<[u8]>::to_vec) {
                    put(bytes, at & !3, &word);
                }
            }
            _ => {
                let value = random.next();
                put(bytes, at & !7, &value.to_le_bytes());
            }
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(slot) = bytes.get_mut(at..at + value.len()) {
        slot.copy_from_slice(value);
    }
}

fn golden(folders: &[&str], extension: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let folders: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("the golden programs"));
    let files = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

fn mutations() -> u64 {
    std::env::var("MUTATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(100_000)
}

/// Tries `count` variants spread over files and gives how many got to each stage.
fn attack(files: &[PathBuf], count: u64, exercise: impl Fn(&[u8], &Path) -> u8 + Sync) -> [u64; 3] {
    let originals: Vec<_> = files.iter().map(|path| std::fs::read(path).expect("a golden file")).collect();
    let try_one = |number: u64| {
        let index = (number % files.len() as u64) as usize;
        let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut bytes = originals[index].clone();
        mutate(&mut bytes, &mut random);
        let outcome = catch_unwind(AssertUnwindSafe(|| exercise(&bytes, &files[index])));
        outcome.unwrap_or_else(|_| panic!("variant {number} of {} panicked", files[index].display()))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        let work = |first: u64| {
            let mut stages = [0u64; 3];
            (first..count).step_by(threads as usize).for_each(|number| stages[usize::from(try_one(number))] += 1);
            stages
        };
        let handles: Vec<_> = (0..threads).map(|first| scope.spawn(move || work(first))).collect();
        handles.into_iter().fold([0; 3], |sum, handle| {
            let stages = handle.join().expect("no variant panicked");
            [sum[0] + stages[0], sum[1] + stages[1], sum[2] + stages[2]]
        })
    })
}

#[test]
fn programs() {
    let count = mutations();
    let stages = attack(&golden(&["", "calls", "samples"], "pte"), count, |bytes, path| {
        let data = path.with_extension("ptd");
        exercise::program(bytes, data.exists().then_some(&data))
    });
    println!("{count} variants of programs: {} refused, {} loaded, {} ran", stages[0], stages[1], stages[2]);
    assert!(stages.iter().all(|&stage| stage > count / 100), "the changes must reach every stage: {stages:?}");
}

#[test]
fn delegated_programs() {
    let count = mutations() / 5;
    let stages = attack(&golden(&["xnnpack"], "pte"), count, |bytes, path| {
        let data = path.with_extension("ptd");
        exercise::program(bytes, data.exists().then_some(&data))
    });
    println!("{count} variants of delegated programs: {} refused, {} loaded, {} ran", stages[0], stages[1], stages[2]);
    assert!(stages.iter().all(|&stage| stage > count / 1000), "the changes must reach every stage: {stages:?}");
}

#[test]
fn external_data() {
    let count = mutations() / 10;
    let stages = attack(&golden(&[""], "ptd"), count, |bytes, _| exercise::tensors(bytes));
    assert!(stages[0] > 0 && stages[2] > 0, "the changes must reach every stage: {stages:?}");
}

#[test]
fn bundles() {
    let count = mutations() / 10;
    let stages = attack(&golden(&[""], "bpte"), count, |bytes, _| exercise::bundle(bytes));
    assert!(stages.iter().all(|&stage| stage > 0), "the changes must reach every stage: {stages:?}");
}

/// A payload in which tensors have operations, operands and sizes of others.
#[cfg(all(feature = "ggml", feature = "compiler"))]
fn confuse(payload: &[u8], random: &mut Random) -> Vec<u8> {
    use sconce::format::ggml::Graph;
    let mut graph = Graph::read(payload).expect("a payload");
    for _ in 0..1 + random.below(2) {
        let (at, other) = (random.below(graph.tensors.len()), random.below(graph.tensors.len()));
        let donor = graph.tensors[other].clone();
        let tensor = &mut graph.tensors[at];
        match random.below(5) {
            0 => tensor.op = donor.op,
            1 => tensor.sizes = donor.sizes,
            2 => tensor.element = donor.element,
            3 => tensor.sources.iter_mut().for_each(|source| *source = random.below(at) as u32),
            _ => {
                let dim = random.below(tensor.sizes.len());
                if let Some(size) = tensor.sizes.get_mut(dim) {
                    *size = [0, 1, 2, 3, 5, 8, 64, 1 << 20, i64::MAX][random.below(9)].into();
                }
            }
        }
    }
    graph.write()
}

/// Programs compiled for ggml, with changes inside of the payload.
#[cfg(all(feature = "ggml", feature = "compiler"))]
#[test]
fn ggml_payloads() {
    use sconce::compile::{Archive, compile, options};
    use sconce::format::pte::model::Program;
    let count = mutations() / 5;
    let compiled = golden(&["ggml"], "pt2").into_iter().map(|path| {
        let file = std::fs::read(&path).expect("a golden file");
        let program = compile(&Archive::read(&file).expect("an archive"), &options(["ggml"]).expect("a backend"));
        program.expect("a program").program
    });
    let programs: Vec<Vec<u8>> = compiled.collect();
    let mut stages = [0u64; 3];
    for number in 0..count {
        let mut program = Program::read(&programs[(number % programs.len() as u64) as usize]).expect("a program");
        let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for delegate in program.plans.iter_mut().flat_map(|plan| &mut plan.delegates) {
            match number % 2 {
                0 => mutate(delegate.payload.to_mut(), &mut random),
                _ => *delegate.payload.to_mut() = confuse(&delegate.payload, &mut random),
            }
        }
        let bytes = program.write();
        let outcome = catch_unwind(AssertUnwindSafe(|| exercise::program(&bytes, None)));
        stages[usize::from(outcome.unwrap_or_else(|_| panic!("variant {number} panicked")))] += 1;
    }
    // A payload is read when a session is made, after the program was loaded.
    println!("{count} variants of payloads: {} refused, {} ran", stages[1], stages[2]);
    assert!(stages[1] > count / 1000 && stages[2] > count / 1000, "the changes must reach every stage: {stages:?}");
}
