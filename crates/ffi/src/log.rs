//! Lines on stderr for those who want to watch.
use std::sync::atomic::{AtomicBool, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Switches the lines on or off.
#[unsafe(no_mangle)]
pub extern "C" fn et_set_debug_enabled(enabled: i32) {
    ENABLED.store(enabled != 0, Ordering::Relaxed);
}

/// Whether anybody listens.
pub(crate) fn enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Prints a line, if anybody listens.
pub(crate) fn say(line: impl FnOnce() -> String) {
    if enabled() {
        eprintln!("[ExecuTorch] {}", line());
    }
}
