//! What the runtime asks of the machine: a log, a clock and a last resort.
//!
//! All have defaults, so that a platform implements only what it has. On a machine without an operating system this is
//! where a serial port and a cycle counter come in.
use core::fmt;

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever debugs the runtime.
    Debug,
    /// Worth knowing.
    Info,
    /// The call failed.
    Error,
}

/// One executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Chain and index of the instruction.
    pub chain: u32,
    /// Index of the instruction in its chain.
    pub instruction: u32,
    /// Clock before.
    pub start: u64,
    /// Clock after.
    pub end: u64,
}

/// The machine below.
pub trait Platform: Sync {
    /// Takes one line of text.
    fn log(&self, _level: Level, _line: fmt::Arguments<'_>) {}

    /// A clock that never goes back, in whatever unit the machine counts.
    fn ticks(&self) -> u64 {
        0
    }

    /// Whether [`Platform::trace`] wants to hear of every instruction.
    fn traces(&self) -> bool {
        false
    }

    /// Hears of an executed instruction, when [`Platform::traces`] is true.
    fn trace(&self, _event: Event) {}

    /// Gives up. The runtime never calls it; a panic handler of a machine without an operating system does.
    fn abort(&self) -> ! {
        panic!("aborted");
    }
}

/// A platform that says nothing and has no clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Platform for Quiet {}
