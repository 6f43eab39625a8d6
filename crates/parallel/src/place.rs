//! Which processor a thread is on.
//!
//! A thread starts and wakes where the system puts it. To save power, some put it on the processor of the thread that started
//! or woke it, although that one goes on and others idle, and move one of the two some milliseconds later. A first inference
//! may be over by then. So a thread that is to work beside another leaves that one's processor by itself.

use std::thread::{self, JoinHandle};

/// Starts a thread that works beside this one, if the system has one to give.
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let caller = current();
    let live = move || {
        leave(caller);
        body();
    };
    let started = thread::Builder::new().name(name).spawn(live).ok()?;
    // It may be waiting for this processor, and can leave it only when it has begun.
    thread::yield_now();
    Some(started)
}

/// The number of the processor that this thread is on; one that none has where the system does not tell.
pub(crate) fn current() -> usize {
    #[cfg(target_os = "linux")]
    return rustix::thread::sched_getcpu();
    #[cfg(not(target_os = "linux"))]
    usize::MAX
}

/// Moves this thread to another processor if it is on this one and may be on others. Where it goes later is up to the system.
pub(crate) fn leave(processor: usize) {
    #[cfg(target_os = "linux")]
    if processor == current()
        && let Ok(all) = rustix::thread::sched_getaffinity(None)
    {
        let mut others = all;
        others.unset(processor);
        if others.count() > 0 && rustix::thread::sched_setaffinity(None, &others).is_ok() {
            // Nothing is lost if it stays with the others.
            let _ = rustix::thread::sched_setaffinity(None, &all);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = processor;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_is_elsewhere_and_may_come_back() {
        let all = rustix::thread::sched_getaffinity(None).unwrap();
        let leaves = || {
            let before = current();
            leave(before);
            current() != before
        };
        // The system may bring it back at once, but not every time.
        assert!(all.count() == 1 || (0..100).any(|_| leaves()));
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), all);
        leave(usize::MAX);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), all);
    }
}
