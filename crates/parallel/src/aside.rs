//! Work that nobody waits for.
//!
//! Some work only saves others time: pages that are fetched before somebody touches them. It goes to a thread of its own,
//! if this process has more than one processor; else it is left undone, since it would only come before what it helps.

use std::thread;

/// Runs `body` on a thread of its own; whether there is one.
pub fn aside(body: impl FnOnce() + Send + 'static) -> bool {
    has_several_processors() && thread::Builder::new().name("sconce-aside".to_owned()).spawn(body).is_ok()
}

/// Whether this process may run on more than one processor. (Shares of them that a container is granted do not matter
/// here, and are read from files, which takes longer than starting a thread.)
fn has_several_processors() -> bool {
    #[cfg(target_os = "linux")]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return set.count() > 1;
    }
    thread::available_parallelism().is_ok_and(|processors| processors.get() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn the_caller_goes_on() {
        let (to_aside, from_caller) = channel();
        let (to_caller, from_aside) = channel();
        let runs = aside(move || to_caller.send(from_caller.recv().unwrap() + 1).unwrap());
        if runs {
            to_aside.send(41).unwrap();
            assert_eq!(from_aside.recv(), Ok(42));
        }
    }
}
