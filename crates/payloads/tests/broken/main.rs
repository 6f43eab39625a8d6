//! Every format on broken payloads: none makes a reader panic, or take more memory or time than its bytes allow, and what is
//! read of them holds to the rules.
//!
//! The samples of a format are the payloads for its backend in the golden programs, so that a row of [`ALL`] is tried when
//! there is one program with a payload of its kind.
mod exercise;
#[path = "../../../format/src/mutation.rs"]
mod mutation;

use sconce_format::pte::{File, HEAD_BYTES, Header, Payload as Place};
use sconce_graph::payload::Payload;
use sconce_payloads::ALL;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Payloads of one format that are tried, the smallest first, and how many broken ones are made of each.
const SAMPLES: usize = 12;
const VARIANTS: usize = 10_000;
/// Far more than any of them takes.
const MOST_TIME: Duration = Duration::from_secs(5);

/// The payloads for a backend in the golden programs.
fn samples(backend: &str) -> Vec<Vec<u8>> {
    let (mut folders, mut found) = (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pte") {
                found.extend(payloads(&std::fs::read(path).unwrap(), backend));
            }
        }
    }
    found.sort_by(|one: &Vec<u8>, other| (one.len(), one).cmp(&(other.len(), other)));
    found.dedup();
    found.truncate(SAMPLES);
    found
}

/// The payloads for a backend in a program.
fn payloads(program: &[u8], backend: &str) -> Vec<Vec<u8>> {
    let size = program.len() as u64;
    let header = Header::parse(&program[..HEAD_BYTES.min(program.len())], size).unwrap();
    let file = File::parse(program, header, size).unwrap();
    let mut found = Vec::new();
    for plan in file.program().execution_plan().iter() {
        for delegate in plan.delegates().iter().filter(|delegate| delegate.id() == Some(backend)) {
            found.push(match file.delegate_payload(delegate).unwrap() {
                Place::Inline(bytes) => bytes.to_vec(),
                Place::Segment(range) => program[range.start as usize..range.end as usize].to_vec(),
            });
        }
    }
    found
}

/// Reads a payload, and tells what was read if that fails, or takes too much.
fn read(format: &dyn Payload, payload: &[u8]) -> bool {
    let (start, mut outcome) = (Instant::now(), None);
    let taken = allocation_counter::measure(|| {
        outcome = Some(catch_unwind(AssertUnwindSafe(|| exercise::read(format, payload))));
    });
    let (took, most) = (start.elapsed(), exercise::most(payload.len()) as u64);
    match outcome {
        Some(Ok(is_read)) if took <= MOST_TIME && taken.bytes_max <= most => is_read,
        _ => panic!(
            "{}: {} bytes take {took:?} and {} bytes: {payload:?}",
            format.backend(),
            payload.len(),
            taken.bytes_max
        ),
    }
}

#[test]
fn every_format_has_samples_that_are_read() {
    for format in ALL {
        let samples = samples(format.backend());
        assert!(!samples.is_empty(), "no golden program has a payload for {}", format.backend());
        for sample in &samples {
            assert!(read(*format, sample), "a payload for {} is not read", format.backend());
        }
    }
}

#[test]
fn broken_payloads_are_refused_or_read() {
    for format in ALL {
        let (mut refused, mut tried) = (0, 0);
        for sample in samples(format.backend()) {
            mutation::mutations(&sample, VARIANTS, |broken| {
                (refused, tried) = (refused + usize::from(!read(*format, broken)), tried + 1);
            });
            // Ends that are cut, and bytes that follow.
            for end in (0..sample.len()).step_by(sample.len().div_ceil(500)) {
                read(*format, &sample[..end]);
            }
            read(*format, &[&sample[..], &[0xff; 64]].concat());
        }
        assert!(refused > tried / 20, "{} refuses {refused} of {tried}", format.backend());
    }
}

#[test]
fn bytes_of_nothing_are_refused() {
    for format in ALL {
        for payload in [&[][..], &[0], &[0xff; 4], &[0; 64], &[0xff; 4096]] {
            assert!(!read(*format, payload), "{} reads {} bytes of nothing", format.backend(), payload.len());
        }
    }
}
