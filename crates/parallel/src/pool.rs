//! A small fork-join pool: spin, then park.
//!
//! One job at a time. The caller publishes a job, takes part in it, and returns when every thread that joined has left:
//!
//! ```text
//! caller   write job ── open gate ── take indices ── close gate ── wait until nobody is inside
//! worker   spin, then park ──▶ join (only while open) ── take indices ── leave
//! ```
//!
//! The gate is one word, and the only one that threads pass back and forth: bit 0 says that the job is open, the bits above
//! count the workers inside, and the upper half counts the jobs. A worker that wakes late finds the gate closed and goes back to
//! sleep, so a short run never waits for a sleeper. The job itself is written only while the gate is closed and empty, and
//! read only by those inside: that is the whole safety argument.
//!
//! A thread that parks says so first and looks at the gate once more; one that changed the gate looks then who is parked.
//! With both in one order for all threads (`SeqCst`) one of them notices, and nobody wakes a thread that is awake.
//!
//! Every thread has a share of the indices, neighbours of each other and the same part in every job, and takes from those of
//! others when its own are done. So what a thread wrote in one job it is likely to read in the next, from its own cache.
//!
//! A `run` on a pool that is already running something (from inside a task, or from a second thread) does its work
//! serially on the caller's thread, so there is nothing to deadlock on.
#![allow(unsafe_code, reason = "the lifetime of the job's body is erased while workers borrow it")]

use crate::Parallel;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

type Body<'a> = dyn Fn(usize) + Sync + 'a;

/// Turns of `spin_loop` before a thread parks: about a millisecond, longer than the serial stretches between two products
/// of a network, because waking a parked thread costs as much as a small operator.
const SPINS: usize = 20_000;
/// The gate's lowest bit: the job is open.
const OPEN: usize = 1;
/// One worker inside the gate.
const WORKER: usize = 2;
/// One job. The count may start anew: it only tells a job from the one before.
const JOB: usize = 1 << (usize::BITS / 2);

/// Which job the gate is at.
fn job_of(gate: usize) -> usize {
    gate / JOB
}

/// Whether the gate is closed and nobody is inside.
fn is_quiet(gate: usize) -> bool {
    gate.is_multiple_of(JOB)
}

struct Job {
    body: *const Body<'static>,
    tasks: usize,
}

/// A word on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Alone<T>(T);

struct Shared {
    gate: Alone<AtomicUsize>,
    /// The next index of each thread's share, the caller's first.
    shares: Box<[Alone<AtomicUsize>]>,
    /// Whether a thread is parked, or about to be.
    parked: Box<[Alone<AtomicBool>]>,
    /// Whom to wake when the first of `parked` is.
    caller: Mutex<Option<Thread>>,
    job: UnsafeCell<Option<Job>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    quit: AtomicBool,
}

// SAFETY: `job` is the only field that is not Sync by itself. It is written by the one thread that holds
// `Pool::busy`, while the gate is closed and empty, and read by threads inside the gate (see the module's text);
// the body it points to is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a particular thread: the body behind the pointer is `Sync`, so any may call it.
unsafe impl Send for Shared {}

/// A small fork-join pool of `width() - 1` workers; the calling thread is the last of the width.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    busy: AtomicBool,
}

impl Pool {
    /// A pool that runs on `threads` threads, the caller's included; `new(1)` (and `new(0)`) spawns nothing.
    ///
    /// Where the system refuses a thread, the pool is that much narrower.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            gate: Alone::default(),
            shares: (0..threads.max(1)).map(|_| Alone::default()).collect(),
            parked: (0..threads.max(1)).map(|_| Alone::default()).collect(),
            caller: Mutex::new(None),
            job: UnsafeCell::new(None),
            panic: Mutex::new(None),
            quit: AtomicBool::new(false),
        });
        let spawn = |index: usize| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("sconce-{index}")).spawn(move || shared.work(index)).ok()
        };
        let workers = (1..threads).map_while(spawn).collect();
        Self { shared, workers, busy: AtomicBool::new(false) }
    }
}

impl Shared {
    /// Where a share of so many tasks begins; it ends where the next one begins.
    fn start(&self, share: usize, tasks: usize) -> usize {
        let shares = self.shares.len();
        tasks / shares * share + tasks % shares * share / shares
    }

    /// Waits, as this thread, until the gate is as wanted or the pool ends.
    fn wait(&self, own: usize, wanted: impl Fn(usize) -> bool) {
        for _ in 0..SPINS {
            if wanted(self.gate.0.load(Ordering::Acquire)) {
                return;
            }
            std::hint::spin_loop();
        }
        if own == 0 {
            *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        }
        self.parked[own].0.store(true, Ordering::SeqCst);
        while !wanted(self.gate.0.load(Ordering::SeqCst)) && !self.quit.load(Ordering::SeqCst) {
            thread::park();
        }
        self.parked[own].0.store(false, Ordering::Relaxed);
    }

    /// A worker's life.
    fn work(&self, own: usize) {
        let mut seen = 0;
        while !self.quit.load(Ordering::Acquire) {
            self.wait(own, |gate| job_of(gate) != seen);
            let enter = |gate: usize| (gate & OPEN != 0).then_some(gate + WORKER);
            match self.gate.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, enter) {
                Ok(gate) => {
                    seen = job_of(gate);
                    self.take_indices(own);
                    self.leave();
                }
                Err(gate) => seen = job_of(gate),
            }
        }
    }

    /// Leaves the gate, and wakes the caller if it is the last to do so.
    fn leave(&self) {
        let gate = self.gate.0.fetch_sub(WORKER, Ordering::SeqCst) - WORKER;
        if is_quiet(gate) && self.parked[0].0.load(Ordering::SeqCst) {
            let caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
            caller.iter().for_each(Thread::unpark);
        }
    }

    /// Runs tasks until no index is left, of the own share first. Called inside the gate, or by the thread that owns the
    /// job.
    fn take_indices(&self, own: usize) {
        // SAFETY: inside the gate, or owning the job, so nobody writes it.
        let Some(job) = (unsafe { &*self.job.get() }) else { return };
        // SAFETY: `run` does not return, and so the borrow of the body does not end, before the gate is empty.
        let body = unsafe { &*job.body };
        for share in (own..self.shares.len()).chain(0..own) {
            let end = self.start(share + 1, job.tasks);
            loop {
                let index = self.shares[share].0.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    break;
                }
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(index))) {
                    self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
                }
            }
        }
    }
}

impl Parallel for Pool {
    fn width(&self) -> usize {
        self.workers.len() + 1
    }

    fn run(&self, tasks: usize, body: &Body<'_>) {
        let alone = tasks <= 1 || self.workers.is_empty();
        if alone || self.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return (0..tasks).for_each(body);
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; the pointer is used until the gate is empty, which this call waits for.
        let body = unsafe { std::mem::transmute::<&Body<'_>, &'static Body<'static>>(body) };
        // SAFETY: `busy` is held and the gate is closed and empty, so nobody else touches the job.
        unsafe { *shared.job.get() = Some(Job { body, tasks }) };
        for (share, next) in shared.shares.iter().enumerate() {
            next.0.store(shared.start(share, tasks), Ordering::Relaxed);
        }
        shared.gate.0.fetch_add(JOB | OPEN, Ordering::SeqCst);
        for (worker, parked) in self.workers.iter().zip(&shared.parked[1..]).take(tasks - 1) {
            if parked.0.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }

        shared.take_indices(0);

        shared.gate.0.fetch_and(!OPEN, Ordering::AcqRel);
        shared.wait(0, is_quiet);
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.busy.store(false, Ordering::Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        // A job that is never open, for workers that spin to look up.
        self.shared.gate.0.fetch_add(JOB, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches every panic of a task, so there is nothing to learn from its end.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("width", &self.width()).finish()
    }
}

/// How many physical cores this process may use: the default width of a pool.
///
/// On Linux, sibling threads of one core count once; elsewhere, or where the topology cannot be read, this is the
/// number of logical processors available.
pub fn physical_cores() -> usize {
    let logical = thread::available_parallelism().map_or(1, usize::from);
    distinct_cores().map_or(logical, |cores| cores.clamp(1, logical))
}

/// The number of different (package, core) pairs that Linux reports.
fn distinct_cores() -> Option<usize> {
    let number = |path: std::path::PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
    let entries = std::fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let cores: std::collections::BTreeSet<_> = entries
        .filter_map(|entry| {
            let topology = entry.path().join("topology");
            Some((number(topology.join("physical_package_id"))?, number(topology.join("core_id"))?))
        })
        .collect();
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(pool: &Pool, tasks: usize) -> Vec<usize> {
        let counts: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        pool.run(tasks, &|i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_index_exactly_once() {
        for threads in [0, 1, 2, 3, 7] {
            let pool = Pool::new(threads);
            assert_eq!(pool.width(), threads.max(1));
            for tasks in [0, 1, 2, 3, 100, 1000] {
                assert_eq!(counts_of(&pool, tasks), vec![1; tasks]);
            }
        }
    }

    #[test]
    fn a_nested_run_does_all_its_work() {
        let pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        pool.run(8, &|_| {
            pool.run(5, &|_| {
                total.fetch_add(1, Ordering::Relaxed);
            })
        });
        assert_eq!(total.into_inner(), 40);
    }

    #[test]
    fn a_panic_reaches_the_caller_after_all_tasks_and_the_pool_lives_on() {
        let pool = Pool::new(4);
        let done = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(64, &|i| {
                if i == 7 {
                    std::panic::panic_any("task seven");
                }
                done.fetch_add(1, Ordering::Relaxed);
            })
        }));
        assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"task seven"));
        assert_eq!(done.into_inner(), 63);
        assert_eq!(counts_of(&pool, 10), vec![1; 10]);
    }

    #[test]
    fn many_tiny_runs() {
        let pool = Pool::new(2);
        let total = AtomicUsize::new(0);
        for _ in 0..20_000 {
            pool.run(2, &|i| {
                total.fetch_add(i + 1, Ordering::Relaxed);
            });
        }
        assert_eq!(total.into_inner(), 60_000);
    }

    #[test]
    fn runs_after_the_workers_have_parked() {
        let pool = Pool::new(2);
        for _ in 0..20 {
            thread::sleep(std::time::Duration::from_millis(1));
            assert_eq!(counts_of(&pool, 50), vec![1; 50]);
        }
    }

    #[test]
    fn two_threads_share_one_pool() {
        let pool = Pool::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert_eq!(counts_of(&pool, 9), vec![1; 9]);
                    }
                });
            }
        });
    }

    #[test]
    fn both_threads_work_at_the_same_time() {
        let pool = Pool::new(2);
        let inside = std::sync::Barrier::new(2);
        // Each task waits for the other: this returns only if two threads run them together.
        pool.run(2, &|_| {
            inside.wait();
        });
    }

    #[test]
    fn a_thread_starts_with_its_own_share() {
        let (pool, inside) = (Pool::new(2), std::sync::Barrier::new(2));
        let order = Mutex::new(Vec::new());
        pool.run(6, &|index| {
            order.lock().unwrap().push((thread::current().id(), index));
            // Nobody goes on before both have begun.
            if index % 3 == 0 {
                inside.wait();
            }
        });
        let order = order.into_inner().unwrap();
        let first = |caller: bool| order.iter().find(|(id, _)| (*id == thread::current().id()) == caller);
        assert_eq!((first(true).unwrap().1, first(false).unwrap().1), (0, 3));
    }

    #[test]
    fn there_is_at_least_one_core() {
        assert!(physical_cores() >= 1);
    }
}
