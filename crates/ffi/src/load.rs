//! Loading: from bytes or a file, the best of several, what a file will take, and what can be done ahead.
use crate::arguments::{self, Place, bytes, count, list, sized, text};
use crate::entry::{self, here};
use crate::log;
use crate::module::ETModule;
use crate::options::{self, ETLoadOptions};
use crate::status::{ETErrorCode, ETStatus, Failure, Outcome, c_string};
use sconce::{Needs, Options, Source};
use std::ffi::c_char;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

/// One way to have a model.
#[derive(Debug)]
#[repr(C)]
pub struct ETCandidate {
    /// The file.
    pub path: *const c_char,
    /// How to load it; NULL for the defaults.
    pub options: *const ETLoadOptions,
}

/// What a method of a file will take.
#[derive(Debug)]
#[repr(C)]
pub struct ETMemoryEstimate {
    /// The size of this structure, as the caller knows it.
    pub size: usize,
    /// The whole file.
    pub file_bytes: u64,
    /// Constants and payloads in it.
    pub weight_bytes: u64,
    /// One session of the method.
    pub session_bytes: u64,
}

/// Loads a program.
pub(crate) fn load<'a>(source: impl Into<Source<'a>>, options: Options) -> Outcome<Arc<ETModule>> {
    let start = Instant::now();
    let module = options.load(source)?;
    module.warnings().iter().for_each(|warning| log::say(|| format!("warning: {warning}")));
    let name = module.name().to_owned();
    let loaded = ETModule::new(module)?;
    log::say(|| format!("loaded {name} in {:?}", start.elapsed()));
    Ok(loaded)
}

/// Loads a program from bytes, which are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_load(
    data: *const u8,
    data_size: usize,
    out_module: *mut *mut ETModule,
) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_module_load), || unsafe { from_bytes(data, data_size, ptr::null(), out_module) })
}

/// Loads a program from a file, which is mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_load_file(path: *const c_char, out_module: *mut *mut ETModule) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_module_load_file), || unsafe { from_file(path, ptr::null(), out_module) })
}

/// Loads a program from bytes, with options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_load_with(
    data: *const u8,
    data_size: usize,
    options: *const ETLoadOptions,
    out_module: *mut *mut ETModule,
) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_module_load_with), || unsafe { from_bytes(data, data_size, options, out_module) })
}

/// Loads a program from a file, with options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_load_file_with(
    path: *const c_char,
    options: *const ETLoadOptions,
    out_module: *mut *mut ETModule,
) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_module_load_file_with), || unsafe { from_file(path, options, out_module) })
}

unsafe fn from_bytes(
    data: *const u8,
    data_size: usize,
    options: *const ETLoadOptions,
    out_module: *mut *mut ETModule,
) -> Outcome {
    let out = Place::new(out_module, "out_module")?;
    // SAFETY: the caller's promise is handed on.
    let (program, options) = unsafe { (given_bytes(data, data_size)?, options::read(options)?) };
    out.set(load(program, options)?.give());
    Ok(())
}

/// The bytes of a program, which cannot be missing.
pub(crate) unsafe fn given_bytes<'a>(data: *const u8, data_size: usize) -> Outcome<&'a [u8]> {
    if data.is_null() {
        return Err(arguments::missing("data"));
    }
    // SAFETY: the caller's promise is handed on.
    unsafe { bytes(data, data_size, "data") }
}

unsafe fn from_file(path: *const c_char, options: *const ETLoadOptions, out_module: *mut *mut ETModule) -> Outcome {
    let out = Place::new(out_module, "out_module")?;
    // SAFETY: the caller's promise is handed on.
    let (path, options) = unsafe { (text(path, "path")?, options::read(options)?) };
    out.set(load(path, options)?.give());
    Ok(())
}

/// Loads the first candidate that loads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_load_best(
    candidates: *const ETCandidate,
    candidate_count: i32,
    out_module: *mut *mut ETModule,
    out_index: *mut i32,
    out_report: *mut *mut c_char,
) -> *mut ETStatus {
    entry::status(here!(et_module_load_best), || {
        let out = Place::new(out_module, "out_module")?;
        let (index, report) = (Place::optional(out_index), Place::optional(out_report));
        // SAFETY: NULL or that many candidates, as the header asks.
        let candidates = unsafe { list(candidates, candidate_count, "candidates") }?;
        let mut reasons = Vec::new();
        for (number, candidate) in candidates.iter().enumerate() {
            // SAFETY: pointers of a candidate are NULL or valid, as the header asks.
            let (path, options) = unsafe { (text(candidate.path, "path")?, options::read(candidate.options)?) };
            match load(path, options) {
                Ok(module) => {
                    out.set(module.give());
                    index.into_iter().for_each(|index| index.set(count(number)));
                    report.into_iter().for_each(|report| report.set(c_string(lines(&reasons)).into_raw()));
                    return Ok(());
                }
                Err(failure) => reasons.push((path, failure)),
            }
        }
        Err(none_loads(&reasons))
    })
}

/// A line for each candidate that was passed over.
fn lines(reasons: &[(&str, Failure)]) -> String {
    reasons.iter().map(|(path, failure)| format!("{path}: {}\n", failure.sentence)).collect()
}

fn none_loads(reasons: &[(&str, Failure)]) -> Failure {
    let Some((_, first)) = reasons.first() else { return Failure::argument("there are no candidates") };
    let alike = reasons.iter().all(|(_, failure)| failure.code == first.code);
    let code = if alike { first.code } else { ETErrorCode::ModelLoadFailed };
    let sentence = format!("none of the {} candidate(s) loads:\n{}", reasons.len(), lines(reasons));
    Failure::new(code, sentence.trim_end())
}

/// What a method of a file will take, without loading it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_estimate_memory(
    path: *const c_char,
    method: *const c_char,
    out_estimate: *mut ETMemoryEstimate,
) -> *mut ETStatus {
    entry::status(here!(et_estimate_memory), || {
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (size, path) = unsafe { (sized(out_estimate, "out_estimate")?.size, text(path, "path")?) };
        // SAFETY: as above.
        let method = if method.is_null() { "forward" } else { unsafe { text(method, "method") }? };
        Place::new(out_estimate, "out_estimate")?.set(estimate(size, path, method)?);
        Ok(())
    })
}

fn estimate(size: usize, path: &str, method: &str) -> Outcome<ETMemoryEstimate> {
    let module = Options::new().threads(1).lazy(true).load(path)?;
    let program = module.program();
    let Ok(method) = program.method(method) else {
        let names = module.methods().join(", ");
        return Err(Failure::argument(format_args!("the program has no method `{method}`; it has {names}")));
    };
    let file = program.file().program();
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let sizes = file.segments().iter().map(|segment| segment.size());
    let inline = file.constant_buffer().iter().map(|constant| length(constant.storage().bytes()));
    let payloads = file.backend_delegate_data().iter().map(|payload| length(payload.data().bytes()));
    Ok(ETMemoryEstimate {
        size,
        file_bytes: program.loader().size(),
        weight_bytes: sizes.chain(inline).chain(payloads).fold(0, u64::saturating_add),
        session_bytes: u64::try_from(Needs::planned(method).total()).unwrap_or(u64::MAX),
    })
}

/// Packs a program's weights ahead of time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_pack_weights(
    path: *const c_char,
    options: *const ETLoadOptions,
    output: *const c_char,
) -> *mut ETStatus {
    entry::status(here!(et_pack_weights), || {
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (path, options) = unsafe { (text(path, "path")?, options::read(options)?) };
        // SAFETY: as above.
        let output = if output.is_null() { None } else { Some(unsafe { text(output, "output") }?) };
        pack(Path::new(path), options, output.map(Path::new))
    })
}

#[cfg(feature = "engine")]
fn pack(path: &Path, options: Options, output: Option<&Path>) -> Outcome {
    let bytes = options.pack(path, &[sconce::instruction_set()?])?;
    let output = output.map_or_else(|| sconce::packed_beside(path), Path::to_path_buf);
    let failed = |error| Failure::new(ETErrorCode::IoError, format_args!("cannot write {}: {error}", output.display()));
    std::fs::write(&output, bytes).map_err(failed)
}

#[cfg(not(feature = "engine"))]
fn pack(_: &Path, _: Options, _: Option<&Path>) -> Outcome {
    Err(Failure::new(ETErrorCode::Unsupported, "this build has no engine to pack weights for"))
}
