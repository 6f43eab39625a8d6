//! Telling the application what each instruction took.
use crate::status::c_string;
use sconce::Session;
use sconce::core::{Event, Platform};
use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;
use std::time::Instant;

/// One executed instruction.
#[derive(Debug)]
#[repr(C)]
pub struct ETEvent {
    /// Operator or backend.
    pub name: *const c_char,
    /// The chain of the instruction.
    pub chain: u32,
    /// Its index in the chain.
    pub instruction: u32,
    /// When it began.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
}

/// Hears of an executed instruction.
pub type ETProfiler = unsafe extern "C" fn(user_data: *mut c_void, method: *const c_char, event: *const ETEvent);

/// A function of the application with what it wants to be called with.
#[derive(Clone, Copy)]
pub(crate) struct Profiler {
    function: ETProfiler,
    user_data: *mut c_void,
}

// SAFETY: whoever sets a profiler lets it be called from whichever thread runs the module.
unsafe impl Send for Profiler {}
// SAFETY: as above.
unsafe impl Sync for Profiler {}

impl Profiler {
    pub(crate) fn new(function: ETProfiler, user_data: *mut c_void) -> Self {
        Self { function, user_data }
    }
}

/// A profiler on a session, with the names of all its instructions: looking them up later would count as their time.
pub(crate) struct Trace {
    profiler: Profiler,
    method: CString,
    names: Vec<Vec<CString>>,
}

impl Trace {
    pub(crate) fn new(profiler: Profiler, session: &Session) -> Self {
        let chains = session.view().plan().chains();
        let names = chains.iter().zip(0..).map(|(chain, number)| {
            let instructions = 0..u32::try_from(chain.instructions().len()).unwrap_or(u32::MAX);
            instructions.map(|index| c_string(session.callee(number, index))).collect()
        });
        Self { profiler, method: c_string(session.method()), names: names.collect() }
    }
}

impl Platform for Trace {
    fn ticks(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn traces(&self) -> bool {
        true
    }

    fn trace(&self, event: Event) {
        let chain = usize::try_from(event.chain).ok().and_then(|chain| self.names.get(chain));
        let name = chain.zip(usize::try_from(event.instruction).ok()).and_then(|(names, index)| names.get(index));
        let told = ETEvent {
            name: name.map_or(c"".as_ptr(), |name| name.as_ptr()),
            chain: event.chain,
            instruction: event.instruction,
            start_ns: event.start,
            duration_ns: event.end.saturating_sub(event.start),
        };
        // SAFETY: the application gave the function and its data for this; name and event are valid during the call.
        unsafe { (self.profiler.function)(self.profiler.user_data, self.method.as_ptr(), &told) };
    }
}
