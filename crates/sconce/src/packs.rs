//! Weights packed ahead of time, in a file beside the program.
//!
//! Kernels take weights in an order of their own, so the first run of a program puts them into it, in memory that the
//! system must clear first: on the way to a first output that is often most of the time. `Options::pack` does it once and
//! for all. The result is a data file (`.ptd`) with the weights of every layer under a name made from the graph, the
//! instruction set and the options that decide the order, and the program's [`Identity`]. A load of `MODEL.pte` finds it
//! as `MODEL.packed.ptd`, maps it, and layers use their weights where they are. A file of another program, or of an older
//! version of it, is passed over with a warning; layers that are not in the file are packed as always.

use crate::external::External;
use crate::map::FileBytes;
use crate::prefetch::Prefetch;
use crate::{Options, PackedWeights};
use sconce_core::{NamedData as _, Part, Program};
use sconce_format::pte::Payload;
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of data between samples for the digest, and of a sample.
const BETWEEN: u64 = 4 << 20;
const SAMPLE: u64 = 64;
/// Bytes of a file beside a program that are read before it is known what they are: some hundred names.
const FIRST: u64 = 32 << 10;

/// Where the packed weights of a program are looked for: `MODEL.packed.ptd` for `MODEL.pte`.
pub fn packed_beside(program: &Path) -> PathBuf {
    program.with_extension("packed.ptd")
}

/// What tells programs apart. Reading all of a program would take longer than its first run, so a program that was not
/// written to since its weights were packed is known by samples. One that was, or that came from elsewhere, is read, but for
/// data that are named after their content.
struct Identity {
    /// A digest of its samples and its size.
    samples: u128,
    /// A digest of when it and its data files were last written, if the system says so.
    written: Option<u128>,
}

impl Identity {
    fn of(program: Program<'_>, file: &FileBytes, external: &External, samples: &[Range<u64>]) -> Self {
        let mut hasher = Xxh3::new();
        let known = [file].into_iter().chain(external.files()).all(|file| match file.written() {
            Some(time) => {
                hasher.update(&time.to_le_bytes());
                true
            }
            None => false,
        });
        Self { samples: digest(program, external, samples), written: known.then(|| hasher.digest128()) }
    }

    /// As an entry of the file: the two digests, and the one of everything.
    #[cfg(feature = "pack")]
    fn write(&self, all: u128) -> [u8; 48] {
        let mut bytes = [0; 48];
        let digests = [self.samples, self.written.unwrap_or(all), all];
        bytes
            .chunks_exact_mut(16)
            .zip(digests)
            .for_each(|(bytes, digest)| bytes.copy_from_slice(&digest.to_le_bytes()));
        bytes
    }

    /// Whether an entry is of this program, whose digest of everything is made if it is needed.
    fn is(&self, entry: &[u8; 48], all: impl FnOnce() -> u128) -> bool {
        let is = |digest: u128, at: usize| entry[at..at + 16] == digest.to_le_bytes();
        is(self.samples, 0) && (self.written.is_some_and(|written| is(written, 16)) || is(all(), 32))
    }
}

/// Segments of a program, and whether each is named after its content.
fn segments(program: Program<'_>) -> impl Iterator<Item = (u32, Range<u64>, bool)> {
    let file = program.file();
    let named = file.program().named_data().iter().filter(|data| data.key().is_some_and(is_digest));
    let named: HashSet<u32> = named.map(|data| data.segment_index()).collect();
    let segments = 0..u32::try_from(file.program().segments().len()).unwrap_or(u32::MAX);
    segments.filter_map(move |index| Some((index, file.segment(index)?, named.contains(&index))))
}

/// The parts of a program that are looked at in any case: everything but its data, and samples of that: some all over the
/// file, the first bytes of every constant, and the first and last of every segment. Segments that are named after their
/// content need none of their own.
fn samples(program: Program<'_>) -> Vec<Range<u64>> {
    let mut samples = Vec::new();
    let head = program.header().program_size;
    samples.push(0..head);
    let constants = program.file().program().constant_segment();
    let mut end = head;
    for (index, segment, named) in segments(program) {
        end = end.max(segment.end);
        if !named {
            let own = constants.filter(|constants| constants.segment_index() == index);
            let offsets = own.into_iter().flat_map(|constants| constants.offsets().iter());
            let starts = offsets.chain([0]).filter_map(|offset| segment.start.checked_add(offset));
            samples.extend(starts.map(|start| start..start.saturating_add(SAMPLE).min(segment.end)));
            samples.push(segment.end.saturating_sub(SAMPLE).max(segment.start)..segment.end);
        }
    }
    samples.extend((head..end).step_by(BETWEEN as usize).map(|start| start..start.saturating_add(SAMPLE).min(end)));
    samples.push(end.saturating_sub(SAMPLE).max(head)..end);
    samples
}

/// Whether a name ends with a digest of 256 bits, as those of weights of delegates do.
fn is_digest(name: &str) -> bool {
    name.as_bytes().last_chunk::<64>().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// The starts of the delegates' payloads, which are read to plan them.
fn payloads(program: Program<'_>) -> Vec<Range<u64>> {
    let delegates = program.methods().flat_map(|method| method.plan().delegates().iter());
    let payloads = delegates.filter_map(|delegate| match program.file().delegate_payload(delegate)? {
        Payload::Segment(range) => Some(range.start..range.end.min(range.start.saturating_add(BETWEEN))),
        Payload::Inline(_) => None,
    });
    payloads.collect()
}

/// A digest of all data that are not named after their content.
fn digest_of_all(program: Program<'_>, external: &External) -> u128 {
    let (mut hasher, loader) = (Xxh3::new(), program.loader());
    let unnamed = segments(program).filter(|(_, segment, named)| !named && !segment.is_empty());
    let mut parts: Vec<Range<u64>> = unnamed.map(|(_, segment, _)| segment).collect();
    // Segments may overlap: bytes are read once.
    parts.sort_unstable_by_key(|part| (part.start, part.end));
    parts.dedup_by(|next, part| {
        let joins = next.start <= part.end;
        part.end = if joins { part.end.max(next.end) } else { part.end };
        joins
    });
    for part in parts {
        let length = part.end - part.start;
        hasher.update(loader.load(part.start, length, Part::Constant).unwrap_or_default());
        loader.release(part.start, length);
    }
    external.entries().filter(|(name, _)| !is_digest(name)).for_each(|(_, bytes)| hasher.update(bytes));
    hasher.digest128()
}

/// A digest of the samples and the size of a program, and of its data files.
fn digest(program: Program<'_>, external: &External, samples: &[Range<u64>]) -> u128 {
    let (mut hasher, loader) = (Xxh3::new(), program.loader());
    for sample in samples {
        let length = sample.end.saturating_sub(sample.start);
        let mut few = [0; SAMPLE as usize];
        match usize::try_from(length).ok().and_then(|length| few.get_mut(..length)) {
            Some(few) => loader.load_into(sample.start, few, Part::Constant).iter().for_each(|()| hasher.update(few)),
            None => hasher.update(loader.load(sample.start, length, Part::Constant).unwrap_or_default()),
        }
    }
    hasher.update(&loader.size().to_le_bytes());
    for bytes in external.samples(SAMPLE as usize) {
        hasher.update(bytes);
    }
    hasher.digest128()
}

/// A file beside a program that may hold its packed weights.
pub(crate) struct Found {
    path: PathBuf,
    file: io::Result<FileBytes>,
}

impl Found {
    /// What lies beside a program. Its first bytes are fetched while the program is read.
    pub(crate) fn beside(program: &Path, copy: bool) -> Option<Self> {
        let path = packed_beside(program);
        path.is_file().then_some(())?;
        let file = if copy { FileBytes::read(&path) } else { FileBytes::map_quietly(&path) };
        file.iter().for_each(|file| file.look(FIRST));
        Some(Self { path, file })
    }

    /// Opens the packed weights of a program, and says what becomes of them. Those that suit the options are fetched while
    /// the program is planned.
    pub(crate) fn open(
        self,
        program: Program<'_>,
        file: &FileBytes,
        external: &External,
        options: &Options,
    ) -> (External, PackedWeights) {
        let path = self.path.clone();
        let (packs, layers) = match self.read(program, file, external, options) {
            Ok(found) => found,
            Err(reason) => return (External::default(), PackedWeights::Refused { file: path, reason }),
        };
        let by_themselves = !options.plan && program.methods().all(|method| method.delegates() == 0);
        let reason = match layers {
            _ if by_themselves => "each operator runs by itself".to_owned(),
            0 => {
                let kind = options.packs().map_or("these engines".to_owned(), |packs| packs.kind);
                format!("it holds none for {kind}")
            }
            layers => return (packs, PackedWeights::Used { file: path, layers }),
        };
        (External::default(), PackedWeights::Unsuitable { file: path, reason })
    }

    /// The entries, and how many suit the options, if all is of this program.
    fn read(
        self,
        program: Program<'_>,
        file: &FileBytes,
        external: &External,
        options: &Options,
    ) -> Result<(External, usize), String> {
        let name = self.path.display().to_string();
        let (samples, mut ahead) = (samples(program), Prefetch::default());
        samples.iter().for_each(|sample| ahead.look(file, sample));
        payloads(program).iter().for_each(|payload| ahead.look(file, payload));
        ahead.fetch();
        let mut packs = External::default();
        packs.add(&name, self.file.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        let mut ahead = Prefetch::default();
        let own = options.packs().ok_or("no engine takes packed weights")?;
        let layers = packs.take_ahead(&own.prefix, &mut ahead);
        ahead.fetch();
        let entry = packs.find(own.mark).and_then(|entry| packs.bytes(entry)).and_then(|bytes| bytes.as_array());
        let entry = entry.ok_or("it holds no weights in the order that this version takes them")?;
        match Identity::of(program, file, external, &samples).is(entry, || digest_of_all(program, external)) {
            true => Ok((packs, layers)),
            false => Err("its weights were packed from another version of the program".to_owned()),
        }
    }
}

#[cfg(feature = "pack")]
mod write {
    use super::{Identity, digest_of_all, samples};
    use crate::{Error, Input, Module, Options, Source, Tensor, instruction_sets};
    use sconce_core::ValueInfo;
    use sconce_format::ptd::model::{Data, Entry};
    use sconce_kernels::Isa;

    impl Options {
        /// Packs a program's weights for some of the [`instruction_sets`] of this machine, and gives the bytes of a file
        /// that loads find as `MODEL.packed.ptd` beside `MODEL.pte`. Every method runs once for that, on zeros. The options
        /// count as they do for a load: weights for [`Options::exact`] are others.
        pub fn pack<'a>(self, source: impl Into<Source<'a>>, sets: &[&str]) -> Result<Vec<u8>, Error> {
            let source = source.into();
            let mut data = Data::default();
            for name in sets {
                let unknown = || Error::InstructionSet { name: (*name).to_owned(), available: instruction_sets() };
                Isa::available().find(|isa| isa.name() == *name).ok_or_else(unknown)?;
                let options = Options { engine_set: Some((*name).to_owned()), packed: false, ..self.clone() };
                let Some(packs) = options.packs() else { continue };
                let module = options.load(source.clone())?;
                if data.entries.is_empty() {
                    let program = module.program();
                    let external = module.external();
                    let identity = Identity::of(program, module.file(), external, &samples(program));
                    data.entries.push(entry(packs.mark, &identity.write(digest_of_all(program, external))));
                }
                for method in module.methods() {
                    run_on_zeros(&module, &method)?;
                    module.packed(&method, &mut |name, bytes| data.entries.push(entry(name, bytes)))?;
                }
            }
            data.entries.sort_by(|a, b| a.key.cmp(&b.key));
            data.entries.dedup_by(|a, b| a.key == b.key);
            Ok(data.write())
        }
    }

    fn entry(key: &str, data: &[u8]) -> Entry<'static> {
        Entry { key: key.to_owned(), data: data.to_vec().into(), layout: None }
    }

    fn run_on_zeros(module: &Module, method: &str) -> Result<(), Error> {
        let mut session = module.method_session(method)?;
        let view = session.view();
        let zeros = (0..view.inputs()).map(|index| match view.input(index) {
            Some(ValueInfo::Tensor { dtype, shape, .. }) => Tensor::zeros(dtype, shape.sizes()).map(Some),
            _ => Ok(None),
        });
        let zeros = zeros.collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<_> = zeros.iter().map(|zeros| zeros.as_ref().map_or(Input::Recorded, Input::Tensor)).collect();
        session.run_with(&inputs, |_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::is_digest;

    #[test]
    fn names_after_content_end_with_a_digest() {
        let digest = "0123456789abcdef".repeat(4);
        assert!(is_digest(&digest) && is_digest(&format!("scale_{digest}")));
        assert!(!is_digest("layer.weight") && !is_digest(&digest[1..]) && !is_digest(&format!("{digest}_scale")));
    }
}
