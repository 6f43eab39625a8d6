//! Which instructions the kernels of this process use.
//!
//! The best set of the machine, unless someone asks for another: [`Options::instructions`](crate::Options::instructions),
//! or the environment variable `SCONCE_ISA` for those who cannot change the program. Weights are packed for a set and shared
//! between modules, so the process settles on one when it loads its first module.
use crate::Error;
use sconce_kernels::Isa;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment variable that names a set.
const VARIABLE: &str = "SCONCE_ISA";

/// The names of the sets this machine has, the best last.
pub fn instruction_sets() -> Vec<&'static str> {
    Isa::available().map(Isa::name).collect()
}

/// The name of the set that kernels use in this process.
pub fn instruction_set() -> Result<&'static str, Error> {
    settle(None)?;
    Ok(Isa::detect().name())
}

/// Settles on the set of this name, or, the first time, of the one in the environment, or on the best.
pub(crate) fn settle(asked: Option<&str>) -> Result<(), Error> {
    static SETTLED: AtomicBool = AtomicBool::new(false);
    let name = match asked {
        Some(name) => Some(name.to_owned()),
        None if SETTLED.load(Ordering::Relaxed) => return Ok(()),
        None => std::env::var(VARIABLE).ok().filter(|name| !name.is_empty()),
    };
    if let Some(name) = name {
        let Some(isa) = Isa::available().find(|isa| isa.name() == name) else {
            return Err(Error::InstructionSet { name, available: instruction_sets() });
        };
        isa.choose().map_err(|settled| Error::InstructionsSettled { name: isa.name(), settled: settled.name() })?;
    }
    SETTLED.store(true, Ordering::Relaxed);
    Ok(())
}

/// The set to use where nothing can fail; a name that does not exist is reported when a module is loaded.
pub(crate) fn current() -> Isa {
    let _ = settle(None);
    Isa::detect()
}
