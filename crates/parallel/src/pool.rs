//! A small fork-join pool: spin, then park.
//!
//! One job at a time. The caller publishes a job, takes part in it, and returns when every task is done. What takes time in a
//! short job is cache lines that go from core to core, so there are few, and each has one writer as a rule:
//!
//! | word | who writes it | what it says |
//! |---|---|---|
//! | `job` | the caller | number of the job, and how many tasks it has |
//! | `shares[i]` | thread `i`, and who takes from it | number of the job, and the next task of the share |
//! | `done[i]` | thread `i` | number of the job, and how many tasks the thread has done |
//!
//! ```text
//! caller   body ── job ──▶ tasks of its share, then of others ──▶ wait until as many are done as there are
//! worker   spin, then park ──▶ tasks of its share, then of others ──▶ done
//! ```
//!
//! Every thread has a share of the tasks, neighbours of each other and the same part in every job. So what a thread wrote in one
//! job it is likely to read in the next, from its own cache. A share need not be made ready for a job: one that still has an
//! earlier number is a share from which nobody took yet. Nor does anybody wait for a thread that sleeps: others take its tasks.
//!
//! The body is touched only by threads that hold a task of the job, and a thread gets one only by writing the job's number
//! into a share that has tasks left. The caller returns, and writes the next body, when all tasks are done; by then all
//! shares say so, and a thread that comes late with an old number finds nothing to take. That is the whole safety argument.
//!
//! Workers sleep until the first job. One that starts or wakes on the caller's processor leaves it (see [`place`]).
//!
//! A thread that parks says so first and looks at its word once more; one that changed that word looks then who is parked.
//! With both in one order for all threads (`SeqCst`) one of them notices, and nobody wakes a thread that is awake.
//!
//! Who runs something borrows the threads first ([`Pool::lease`]). One borrower at a time has them all; others have only
//! the thread that they call from, and are told so: the width of a lease is what it is for as long as it lasts. A `run` from
//! inside a task does its work serially on that task's thread, so there is nothing to deadlock on.
#![allow(unsafe_code, reason = "the lifetime of the job's body is erased while workers borrow it")]

use crate::{Parallel, place};
use std::any::Any;
use std::cell::UnsafeCell;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

type Body<'a> = dyn Fn(usize) + Sync + 'a;

/// Turns of `spin_loop` before a thread parks: about a millisecond, longer than the serial stretches between two products
/// of a network, because waking a parked thread costs as much as a small operator.
const SPINS: usize = 20_000;
/// Bits of a word that count tasks; those above count jobs. A thread that is held up for as many jobs as there are numbers
/// would take one for another: that is two weeks of jobs of a microsecond.
const COUNT_BITS: u32 = 24;
/// Most tasks of a job.
const MOST_TASKS: usize = (1 << COUNT_BITS) - 1;

/// A count that belongs to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    job: u64,
    count: usize,
}

impl Word {
    fn new(job: u64, count: usize) -> Self {
        debug_assert!(count <= MOST_TASKS);
        Self { job: job << COUNT_BITS >> COUNT_BITS, count }
    }

    fn of(bits: u64) -> Self {
        Self { job: bits >> COUNT_BITS, count: (bits & MOST_TASKS as u64) as usize }
    }

    fn bits(self) -> u64 {
        self.job << COUNT_BITS | self.count as u64
    }

    /// Which of two jobs came later; numbers start anew after the last.
    fn order(self, other: Self) -> std::cmp::Ordering {
        (self.job.wrapping_sub(other.job) << COUNT_BITS).cast_signed().cmp(&0)
    }
}

/// A word on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Alone<T>(T);

struct Shared {
    job: Alone<AtomicU64>,
    body: UnsafeCell<Option<&'static Body<'static>>>,
    /// By thread, the caller first.
    shares: Box<[Alone<AtomicU64>]>,
    done: Box<[Alone<AtomicU64>]>,
    /// Whether a thread is parked, or about to be.
    parked: Box<[Alone<AtomicBool>]>,
    /// Whom to wake when the first of `parked` is.
    caller: Mutex<Option<Thread>>,
    /// The processor of the caller when it last woke a worker.
    caller_on: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    quit: AtomicBool,
}

// SAFETY: `body` is the only field that is not Sync by itself. It is written by the one thread that holds `Pool::busy`, when
// all tasks are done, and read by threads that hold a task (see the module's text); the body it points to is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a particular thread: the body behind the pointer is `Sync`, so any may call it.
unsafe impl Send for Shared {}

/// A small fork-join pool of `width() - 1` workers; the calling thread is the last of the width.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Whether somebody has the workers.
    leased: AtomicBool,
    /// Whether they have a job.
    busy: AtomicBool,
}

/// Threads of a pool, for as long as this lasts: all of them, or, while another lease has these, the caller's alone.
#[derive(Debug)]
pub struct Lease<'p> {
    pool: Option<&'p Pool>,
}

/// As many threads as a pool has, to be counted and not to be used.
#[derive(Clone, Copy, Debug)]
pub struct Whole(usize);

impl Pool {
    /// Its threads, the caller's included.
    pub fn width(&self) -> usize {
        self.workers.len() + 1
    }

    /// Borrows the threads.
    pub fn lease(&self) -> Lease<'_> {
        let free = self.leased.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        Lease { pool: free.then_some(self) }
    }

    /// What a lease of all threads looks like, for who has to know how much memory a run takes.
    pub fn whole(&self) -> Whole {
        Whole(self.width())
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.pool.iter().for_each(|pool| pool.leased.store(false, Ordering::Release));
    }
}

impl Parallel for Lease<'_> {
    fn width(&self) -> usize {
        self.pool.map_or(1, Pool::width)
    }

    fn run(&self, tasks: usize, body: &Body<'_>) {
        match self.pool {
            Some(pool) => pool.run(tasks, body),
            None => (0..tasks).for_each(body),
        }
    }
}

impl Parallel for Whole {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, tasks: usize, body: &Body<'_>) {
        (0..tasks).for_each(body);
    }
}

impl Pool {
    /// A pool that runs on `threads` threads, the caller's included; 0 stands for [`physical_cores`]. `new(1)` spawns nothing.
    ///
    /// It has [`most_threads`] at most, and where the system refuses a thread, it is that much narrower.
    pub fn new(threads: usize) -> Self {
        let threads = match threads {
            0 => physical_cores(),
            few if few <= ALWAYS => few,
            many => many.min(most_threads()),
        };
        fn each<T: Default>(threads: usize) -> Box<[T]> {
            (0..threads).map(|_| T::default()).collect()
        }
        let shared = Arc::new(Shared {
            job: Alone::default(),
            body: UnsafeCell::new(None),
            shares: each(threads),
            done: each(threads),
            parked: each(threads),
            caller: Mutex::new(None),
            caller_on: AtomicUsize::new(usize::MAX),
            panic: Mutex::new(None),
            quit: AtomicBool::new(false),
        });
        let spawn = |index: usize| {
            let shared = Arc::clone(&shared);
            place::spawn(format!("sconce-{index}"), move || shared.work(index))
        };
        let workers = (1..threads).map_while(spawn).collect();
        Self { shared, workers, leased: AtomicBool::new(false), busy: AtomicBool::new(false) }
    }
}

impl Shared {
    fn job(&self, ordering: Ordering) -> Word {
        Word::of(self.job.0.load(ordering))
    }

    /// Where a share of so many tasks begins; it ends where the next one begins.
    fn start(&self, share: usize, tasks: usize) -> usize {
        let shares = self.shares.len();
        tasks / shares * share + tasks % shares * share / shares
    }

    /// Waits, as this thread, until it is as wanted or the pool ends.
    fn wait(&self, own: usize, wanted: impl Fn(Ordering) -> bool) {
        for _ in 0..SPINS {
            if wanted(Ordering::Acquire) {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleep(own, wanted);
    }

    /// The same, without looking again and again first.
    fn sleep(&self, own: usize, wanted: impl Fn(Ordering) -> bool) {
        if own == 0 {
            *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        }
        self.parked[own].0.store(true, Ordering::SeqCst);
        while !wanted(Ordering::SeqCst) && !self.quit.load(Ordering::SeqCst) {
            thread::park();
        }
        self.parked[own].0.store(false, Ordering::Relaxed);
        if own > 0 {
            place::leave(self.caller_on.load(Ordering::Relaxed));
        }
    }

    /// A worker's life.
    fn work(&self, own: usize) {
        let mut seen = Word::new(0, 0);
        self.sleep(own, |ordering| self.job(ordering) != seen);
        while !self.quit.load(Ordering::Acquire) {
            self.wait(own, |ordering| self.job(ordering) != seen);
            seen = self.job(Ordering::Acquire);
            let mut done = 0;
            // A share of one task is left to its owner, or to the caller if that one sleeps.
            let length = |share: usize| self.start(share + 1, seen.count) - self.start(share, seen.count);
            for share in (own..self.shares.len()).chain(0..own).filter(|&share| share == own || length(share) > 1) {
                while let Some(task) = self.take(share, seen) {
                    self.call(task);
                    done += 1;
                    self.done[own].0.store(Word::new(seen.job, done).bits(), Ordering::SeqCst);
                    if self.parked[0].0.load(Ordering::SeqCst) {
                        let caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
                        caller.iter().for_each(Thread::unpark);
                    }
                }
            }
        }
    }

    /// Takes a task of a share in a job, if there is one left.
    fn take(&self, share: usize, job: Word) -> Option<usize> {
        let (start, end) = (self.start(share, job.count), self.start(share + 1, job.count));
        if start == end {
            return None;
        }
        let word = &self.shares[share].0;
        let mut bits = word.load(Ordering::Relaxed);
        loop {
            let found = Word::of(bits);
            let next = match found.order(job) {
                Less => start,
                Equal if found.count < end => found.count,
                Equal | Greater => return None,
            };
            let taken = Word::new(job.job, next + 1).bits();
            match word.compare_exchange_weak(bits, taken, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(next),
                Err(other) => bits = other,
            }
        }
    }

    /// Calls the body for a task that this thread has taken.
    fn call(&self, task: usize) {
        // SAFETY: the task is not done, so nobody writes the body, and what it borrows is still there: `run` waits for it.
        let Some(body) = (unsafe { *self.body.get() }) else { return };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(task))) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }

    /// How many tasks of a job workers have done.
    fn done(&self, job: Word, ordering: Ordering) -> usize {
        let words = self.done[1..].iter().map(|word| Word::of(word.0.load(ordering)));
        words.filter(|word| word.job == job.job).map(|word| word.count).sum()
    }
}

impl Pool {
    /// Runs a job for the one who has the threads.
    fn run(&self, tasks: usize, body: &Body<'_>) {
        let alone = tasks <= 1 || tasks > MOST_TASKS || self.workers.is_empty();
        if alone || self.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return (0..tasks).for_each(body);
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; the body is called until all tasks are done, which this call waits for.
        let body = unsafe { std::mem::transmute::<&Body<'_>, &'static Body<'static>>(body) };
        // SAFETY: `busy` is held and all tasks of the job before are done, so nobody else touches the body.
        unsafe { *shared.body.get() = Some(body) };
        let job = Word::new(shared.job(Ordering::Relaxed).job + 1, tasks);
        shared.job.0.store(job.bits(), Ordering::SeqCst);
        let asleep = self.workers.iter().zip(&shared.parked[1..]).take(tasks - 1);
        for (worker, _) in asleep.filter(|(_, parked)| parked.0.load(Ordering::SeqCst)) {
            shared.caller_on.store(place::current(), Ordering::Relaxed);
            worker.thread().unpark();
        }

        let mut own = 0;
        let all_done = |own: usize, ordering: Ordering| own + shared.done(job, ordering) == tasks;
        for share in 0..shared.shares.len() {
            // Looking at another thread's share costs both a moment, so not without need.
            while !(share > 0 && all_done(own, Ordering::Acquire))
                && let Some(task) = shared.take(share, job)
            {
                shared.call(task);
                own += 1;
            }
        }
        shared.wait(0, |ordering| all_done(own, ordering));
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
        // A job without tasks, for workers that spin to look up.
        let job = Word::new(self.shared.job(Ordering::Relaxed).job + 1, 0);
        self.shared.job.0.store(job.bits(), Ordering::SeqCst);
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

/// Threads that a pool has if that many are asked for, however small the machine.
const ALWAYS: usize = 16;
/// Threads per processor that a pool has at most.
const PER_PROCESSOR: usize = 4;

/// Most threads of a pool. More than there are processors gain nothing and wait for each other; thousands would hold up the
/// machine for minutes.
pub fn most_threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.saturating_mul(PER_PROCESSOR).max(ALWAYS)
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
    use std::sync::atomic::AtomicUsize;

    fn counts_of(pool: &Pool, tasks: usize) -> Vec<usize> {
        let counts: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        pool.run(tasks, &|i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_index_exactly_once() {
        for threads in [1, 2, 3, 7] {
            let pool = Pool::new(threads);
            assert_eq!(pool.width(), threads);
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
    fn one_lease_has_all_threads_and_others_are_told() {
        let pool = Pool::new(3);
        let first = pool.lease();
        let second = pool.lease();
        assert_eq!((first.width(), second.width(), pool.width()), (3, 1, 3));
        let total = AtomicUsize::new(0);
        let own = thread::current().id();
        second.run(10, &|i| {
            assert_eq!(thread::current().id(), own);
            total.fetch_add(i, Ordering::Relaxed);
        });
        first.run(10, &|i| {
            total.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(total.into_inner(), 90);
        drop(second);
        assert_eq!(pool.lease().width(), 1);
        drop(first);
        let again = pool.lease().width();
        assert_eq!(again, 3);
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
    fn words_hold_a_job_and_a_count_and_jobs_have_an_order() {
        let last = u64::MAX >> COUNT_BITS;
        for (job, count) in [(0, 0), (1, MOST_TASKS), (last, 5), (last - 1, 0)] {
            assert_eq!(Word::of(Word::new(job, count).bits()), Word { job, count });
        }
        assert_eq!(Word::new(last + 1, 3), Word::new(0, 3));
        let order = |a: u64, b: u64| Word::new(a, 7).order(Word::new(b, 0));
        assert_eq!([order(5, 5), order(6, 5), order(5, 6)], [Equal, Greater, Less]);
        assert_eq!([order(0, last), order(last, 0), order(3, last - 3)], [Greater, Less, Greater]);
    }

    #[test]
    fn a_late_thread_finds_nothing_to_take() {
        let pool = Pool::new(1);
        let (shared, old, new) = (&*pool.shared, Word::new(5, 2), Word::new(6, 3));
        assert_eq!([shared.take(0, old), shared.take(0, old), shared.take(0, old)], [Some(0), Some(1), None]);
        assert_eq!(shared.take(0, new), Some(0));
        assert_eq!([shared.take(0, old), shared.take(0, new)], [None, Some(1)]);
        assert_eq!(shared.take(0, Word::new(7, 0)), None);
    }

    #[test]
    fn there_is_at_least_one_core() {
        assert!(physical_cores() >= 1);
        assert_eq!(Pool::new(0).width(), physical_cores());
    }

    #[test]
    fn nobody_gets_thousands_of_threads() {
        let processors = thread::available_parallelism().unwrap().get();
        for many in [10_000, usize::MAX] {
            let width = Pool::new(many).width();
            assert!(
                width == most_threads() && (16.max(processors)..=16.max(4 * processors)).contains(&width),
                "{width}"
            );
        }
    }
}
