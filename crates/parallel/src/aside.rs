//! A background thread for work that only saves time, such as prefetch.
//!
//! There is one thread for the process. On a single core the work is skipped: it would only delay what it is meant to speed
//! up. The thread ends when there was nothing to do for a while.

use crate::place;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

type Work = Box<dyn FnOnce() + Send>;

/// How long the thread waits for more.
const PATIENCE: Duration = Duration::from_millis(50);

/// The way to the thread, if there is one, and the process it is of: a copy of a process has none of its threads. Work is sent
/// and the thread ends while this is locked, so no work is lost.
static THREAD: Mutex<Option<(u32, Sender<Work>)>> = Mutex::new(None);

/// Runs `body` beside the caller, after what was asked for before; whether somebody does.
pub fn aside(body: impl FnOnce() + Send + 'static) -> bool {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    let body: Work = Box::new(body);
    let process = std::process::id();
    let sent = match &*thread {
        Some((of, thread)) if *of == process => thread.send(body),
        _ => Err(SendError(body)),
    };
    if let Err(SendError(body)) = sent {
        *thread = start(body).map(|thread| (process, thread));
    }
    thread.is_some()
}

/// Starts the thread with its first work.
fn start(body: Work) -> Option<Sender<Work>> {
    let (sender, receiver) = channel();
    let serve = move || {
        body();
        serve(&receiver);
    };
    has_several_processors().then(|| place::spawn("sconce-aside".to_owned(), serve))??;
    Some(sender)
}

/// Does what comes until nothing does.
fn serve(receiver: &Receiver<Work>) {
    loop {
        while let Ok(body) = receiver.recv_timeout(PATIENCE) {
            body();
        }
        let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
        match receiver.try_recv() {
            Ok(body) => {
                drop(thread);
                body();
            }
            Err(_) => {
                *thread = None;
                return;
            }
        }
    }
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

    #[test]
    fn all_work_is_done_in_order_whether_the_thread_waits_or_has_ended() {
        let (done, seen) = channel();
        for index in 0..6 {
            let done = done.clone();
            if !aside(move || done.send(index).unwrap()) {
                return;
            }
            // Around the end of its patience.
            let pause = PATIENCE * [0, 0, 2, 1, 1, 0][index];
            thread::sleep(pause);
        }
        drop(done);
        assert_eq!(seen.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
