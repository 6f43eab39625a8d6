//! How a module is loaded, as C says it.
use crate::arguments::{list, sized, text};
use crate::status::{Failure, Outcome};
use sconce::{Options, Rounding};
use std::ffi::c_char;
use std::ptr;

/// Which engine runs a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ETEngine {
    /// What is fastest.
    Auto = 0,
    /// Each operator by itself.
    Reference = 1,
}

/// How delegates round sums, products and means of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ETRounding {
    /// As XNNPACK.
    Xnnpack = 0,
    /// As PyTorch.
    PyTorch = 1,
}

/// Options of a load; all zero but the size is the default.
#[derive(Debug)]
#[repr(C)]
pub struct ETLoadOptions {
    /// The size of this structure, as the caller knows it.
    pub size: usize,
    /// Threads of one run; 0: one per physical core.
    pub threads: i32,
    /// An [`ETEngine`].
    pub engine: i32,
    /// Whether to leave out methods that round more than plain sums of products do.
    pub exact: i32,
    /// Whether to read files instead of mapping them.
    pub copy: i32,
    /// Most bytes of one session; 0: the default.
    pub memory_limit: u64,
    /// Most instructions of one run; 0: the default.
    pub instruction_limit: u64,
    /// External weights.
    pub data_paths: *const *const c_char,
    /// How many.
    pub data_path_count: i32,
    /// An [`ETRounding`].
    pub rounding: i32,
}

/// Fills in size and defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_load_options_init(options: *mut ETLoadOptions) {
    if !options.is_null() {
        let defaults = ETLoadOptions {
            size: size_of::<ETLoadOptions>(),
            threads: 0,
            engine: ETEngine::Auto as i32,
            exact: 0,
            copy: 0,
            memory_limit: 0,
            instruction_limit: 0,
            data_paths: ptr::null(),
            data_path_count: 0,
            rounding: ETRounding::Xnnpack as i32,
        };
        // SAFETY: valid if not NULL, as the header asks.
        unsafe { options.write(defaults) };
    }
}

/// How many threads somebody asks for.
pub(crate) fn threads(given: i32) -> Outcome<usize> {
    usize::try_from(given).map_err(|_| {
        Failure::argument(format_args!("the number of threads is {given}, it must not be negative; 0 is the default"))
    })
}

/// The options behind a pointer; the defaults behind NULL.
pub(crate) unsafe fn read(options: *const ETLoadOptions) -> Outcome<Options> {
    let mut read = Options::new();
    if options.is_null() {
        return Ok(read);
    }
    // SAFETY: not NULL, hence valid, as the header asks.
    let given = unsafe { sized(options, "options") }?;
    read = read.threads(threads(given.threads)?);
    read = match given.engine {
        engine if engine == ETEngine::Auto as i32 => read.plan(true),
        engine if engine == ETEngine::Reference as i32 => read.plan(false),
        engine => return Err(Failure::argument(format_args!("there is no engine {engine}; see ETEngine"))),
    };
    read = match given.rounding {
        like if like == ETRounding::Xnnpack as i32 => read.rounding(Rounding::Xnnpack),
        like if like == ETRounding::PyTorch as i32 => read.rounding(Rounding::PyTorch),
        like => return Err(Failure::argument(format_args!("there is no rounding {like}; see ETRounding"))),
    };
    if given.memory_limit > 0 {
        read = read.memory_limit(usize::try_from(given.memory_limit).unwrap_or(usize::MAX));
    }
    if given.instruction_limit > 0 {
        read = read.instruction_limit(given.instruction_limit);
    }
    // SAFETY: NULL or that many strings, as the header asks.
    for &path in unsafe { list(given.data_paths, given.data_path_count, "data_paths") }? {
        // SAFETY: as above.
        read = read.data(unsafe { text(path, "a path of data_paths") }?);
    }
    Ok(read.exact(given.exact != 0).copy(given.copy != 0))
}
