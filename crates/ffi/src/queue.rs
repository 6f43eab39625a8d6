//! Calls that wait for a thread of the library.
//!
//! One queue for the process, ordered by priority and then by arrival, and a few threads that take calls from it. A thread
//! passes over calls of a module in which a queued call runs already: they would only wait there, and keep others waiting.
//! Whoever takes a task out of the queue finishes it: a worker by running it; the timekeeper, [`Task::cancel`] and
//! [`turn_away`] by telling why it will not run. So every task is told exactly once, and never under a lock.
use crate::module::ETModule;
use crate::status::{ETErrorCode, Failure, Outcome};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a task does, given leave to run or the reason why it must not. It tells whoever waits for it.
pub(crate) type Work = Box<dyn FnOnce(Outcome) + Send>;

/// Higher priority first, then the order of arrival.
type Key = (Reverse<i32>, u64);

/// A call to be queued.
pub(crate) struct Request {
    /// Kept alive until the call is done.
    pub(crate) module: Option<Arc<ETModule>>,
    pub(crate) priority: i32,
    /// How long it may wait.
    pub(crate) patience: Option<Duration>,
    /// Whether it only tells something: it then waits for no module, and is queued even where the queue is full.
    pub(crate) message: bool,
    pub(crate) work: Work,
}

/// A call in the queue, or one that was.
pub(crate) struct Task {
    key: Key,
    deadline: Option<Instant>,
    /// The module it must not run beside.
    beside: Option<usize>,
    /// The module it belongs to, by address: unique as long as the job keeps it.
    module: usize,
    job: Mutex<Option<Job>>,
    finished: Mutex<bool>,
    settled: Condvar,
}

struct Job {
    module: Option<Arc<ETModule>>,
    work: Work,
}

thread_local! {
    /// The modules whose tasks are being told on this thread.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn address(module: &Arc<ETModule>) -> usize {
    Arc::as_ptr(module).addr()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Task {
    /// Runs it, or tells why not.
    fn finish(&self, leave: Outcome) {
        let Some(Job { module, work }) = lock(&self.job).take() else { return };
        INSIDE.with_borrow_mut(|inside| inside.push(self.module));
        work(leave);
        INSIDE.with_borrow_mut(|inside| inside.pop());
        *lock(&self.finished) = true;
        self.settled.notify_all();
        // The module goes first: once nothing is pending, whoever frees it expects to hold the last of it.
        let pending = module.map(|module| module.pending().clone());
        pending.into_iter().for_each(|pending| pending.leave());
    }

    /// Takes it out of the queue if it has not started, and tells so.
    pub(crate) fn cancel(&self) -> bool {
        let taken = lock(&QUEUE.state).tasks.remove(&self.key);
        let cancelled = || Failure::state("the call was cancelled before it began");
        taken.map(|task| task.finish(Err(cancelled()))).is_some()
    }

    /// Waits until it is done and told; says whether it is.
    pub(crate) fn wait(&self, at_most: Option<Duration>) -> bool {
        let finished = lock(&self.finished);
        match at_most {
            Some(time) => {
                let waited = self.settled.wait_timeout_while(finished, time, |finished| !*finished);
                *waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => *self.settled.wait_while(finished, |finished| !*finished).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The calls of a module that are queued or run.
#[derive(Default)]
pub(crate) struct Pending {
    state: Mutex<PendingCalls>,
    settled: Condvar,
}

#[derive(Default)]
struct PendingCalls {
    closed: bool,
    count: usize,
}

impl Pending {
    fn enter(&self) -> Outcome {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(Failure::state("the module is being freed"));
        }
        state.count += 1;
        Ok(())
    }

    fn leave(&self) {
        lock(&self.state).count -= 1;
        self.settled.notify_all();
    }

    /// Lets no further call in.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
    }

    /// Waits until all calls are done, except those that this thread is telling of just now.
    pub(crate) fn wait(&self, module: &Arc<ETModule>) {
        let own = INSIDE.with_borrow(|inside| inside.iter().filter(|&&other| other == address(module)).count());
        let state = lock(&self.state);
        let settled = self.settled.wait_while(state, |state| state.count > own);
        drop(settled.unwrap_or_else(PoisonError::into_inner));
    }
}

struct Queue {
    state: Mutex<State>,
    /// There is a task that somebody may run, or there are too many threads.
    work: Condvar,
    /// There is a new deadline.
    time: Condvar,
}

struct State {
    tasks: BTreeMap<Key, Arc<Task>>,
    arrivals: u64,
    /// Most tasks that may wait.
    limit: usize,
    /// Threads wanted, there, and asleep.
    threads: usize,
    workers: usize,
    idle: usize,
    timekeeper: bool,
    /// The modules in which queued calls run.
    busy: Vec<usize>,
}

static QUEUE: Queue = Queue {
    state: Mutex::new(State {
        tasks: BTreeMap::new(),
        arrivals: 0,
        limit: 1024,
        threads: 2,
        workers: 0,
        idle: 0,
        timekeeper: false,
        busy: Vec::new(),
    }),
    work: Condvar::new(),
    time: Condvar::new(),
};

/// Sets how many threads take calls, and how many calls may wait.
pub(crate) fn configure(threads: Option<usize>, limit: Option<usize>) {
    let mut state = lock(&QUEUE.state);
    state.threads = threads.unwrap_or(state.threads);
    state.limit = limit.unwrap_or(state.limit);
    state.hire();
    QUEUE.work.notify_all();
}

/// Queues a call, and shows its task to `introduce` before anybody can run it. On an error the work is dropped, and nobody
/// hears of it.
pub(crate) fn submit(request: Request, introduce: impl FnOnce(&Arc<Task>)) -> Outcome {
    let Request { module, priority, patience, message, work } = request;
    let mut state = lock(&QUEUE.state);
    if !message && state.tasks.len() >= state.limit {
        let limit = state.limit;
        return Err(Failure::state(format_args!("{limit} calls are waiting already; see et_async_configure")));
    }
    let task = Arc::new(Task {
        key: (Reverse(priority), state.arrivals),
        deadline: patience.and_then(|patience| Instant::now().checked_add(patience)),
        beside: module.as_ref().filter(|_| !message).map(address),
        module: module.as_ref().map_or(0, address),
        job: Mutex::new(None),
        finished: Mutex::new(false),
        settled: Condvar::new(),
    });
    state.arrivals += 1;
    state.tasks.insert(task.key, task.clone());
    let entered = match (state.hire(), task.deadline.is_none() || state.keep_time()) {
        (true, true) => module.as_ref().map_or(Ok(()), |module| module.pending().enter()),
        _ => Err(Failure::new(ETErrorCode::OutOfMemory, "the system gives the library no thread")),
    };
    if entered.is_err() {
        state.tasks.remove(&task.key);
    }
    entered?;
    *lock(&task.job) = Some(Job { module, work });
    introduce(&task);
    QUEUE.work.notify_all();
    Ok(())
}

/// Takes all calls of a module out of the queue, and tells them.
pub(crate) fn turn_away(module: &Arc<ETModule>) {
    let address = address(module);
    let taken = lock(&QUEUE.state).take_all(|task| task.module == address);
    let freed = || Failure::state("the module was freed before the call began");
    taken.iter().for_each(|task| task.finish(Err(freed())));
}

impl State {
    /// Takes the first task out that may run now.
    fn take(&mut self) -> Option<Arc<Task>> {
        let free = |task: &Task| task.beside.is_none_or(|module| !self.busy.contains(&module));
        let key = self.tasks.iter().find(|(_, task)| free(task)).map(|(key, _)| *key)?;
        self.tasks.remove(&key)
    }

    fn take_all(&mut self, which: impl Fn(&Task) -> bool) -> Vec<Arc<Task>> {
        let mut taken = Vec::new();
        self.tasks.retain(|_, task| {
            let goes = which(task);
            taken.extend(goes.then(|| task.clone()));
            !goes
        });
        taken
    }

    /// Starts a thread if more tasks wait than threads sleep; says whether there is any thread.
    fn hire(&mut self) -> bool {
        while self.tasks.len() > self.idle && self.workers < self.threads {
            let named = std::thread::Builder::new().name("executorch-ffi".to_owned());
            if named.spawn(|| QUEUE.serve()).is_err() {
                break;
            }
            self.workers += 1;
            self.idle += 1;
        }
        self.workers > 0
    }

    /// Starts the thread that looks after deadlines; says whether it is there.
    fn keep_time(&mut self) -> bool {
        if !self.timekeeper {
            let named = std::thread::Builder::new().name("executorch-time".to_owned());
            self.timekeeper = named.spawn(|| QUEUE.keep_time()).is_ok();
        }
        QUEUE.time.notify_all();
        self.timekeeper
    }
}

impl Queue {
    /// A worker's life. It counts as idle from the moment it is hired.
    fn serve(&self) {
        let mut state = lock(&self.state);
        while state.workers <= state.threads {
            let Some(task) = state.take() else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.idle -= 1;
            state.busy.extend(task.beside);
            drop(state);
            task.finish(Ok(()));
            state = lock(&self.state);
            state.idle += 1;
            if let Some(place) = state.busy.iter().position(|&module| Some(module) == task.beside) {
                state.busy.swap_remove(place);
            }
            self.work.notify_all();
        }
        state.workers -= 1;
        state.idle -= 1;
    }

    /// Drops tasks whose time has come.
    fn keep_time(&self) {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let late = state.take_all(|task| task.deadline.is_some_and(|deadline| deadline <= now));
            if !late.is_empty() {
                drop(state);
                let timed_out = || Failure::state("the call did not begin within its timeout");
                late.iter().for_each(|task| task.finish(Err(timed_out())));
                state = lock(&self.state);
                continue;
            }
            let next = state.tasks.values().filter_map(|task| task.deadline).min();
            state = match next {
                Some(deadline) => {
                    let waited = self.time.wait_timeout(state, deadline.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.time.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
