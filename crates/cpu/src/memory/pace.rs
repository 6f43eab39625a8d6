//! How much time a model may spend on bringing its memory onto large pages.
//!
//! What that costs depends on the machine: a fifth of a millisecond a page to copy it, five where a virtual machine has to ask
//! its host for it. What it brings comes only with time. So a model that runs a third time begins with it, and spends an eighth
//! of the time on it that it has run for: a net that is run once or twice pays nothing, and one that runs forever at no time
//! has lost more than that.
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
#[cfg(target_os = "linux")]
use std::time::Instant;

/// Runs without it.
#[cfg(target_os = "linux")]
const FIRST_RUNS: usize = 2;
/// The part of the time of runs that may be spent.
#[cfg(target_os = "linux")]
const PART: i64 = 8;

/// The account of a model.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    #[cfg(target_os = "linux")]
    runs: AtomicUsize,
    /// Nanoseconds that may be spent; far below zero when nothing is left to do.
    #[cfg(target_os = "linux")]
    left: AtomicI64,
}

/// When a run began.
pub(crate) struct Started(#[cfg(target_os = "linux")] Option<Instant>);

impl Pace {
    /// A run begins.
    #[cfg(target_os = "linux")]
    pub(crate) fn start(&self) -> Started {
        Started((self.left.load(Ordering::Relaxed) > i64::MIN / 2).then(Instant::now))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn start(&self) -> Started {
        Started()
    }

    /// A run has ended: settles step by step, while there is time and `settle` says that there is something to do.
    #[cfg(target_os = "linux")]
    pub(crate) fn finish(&self, started: Started, mut settle: impl FnMut() -> bool) {
        let nanoseconds = |from: Instant| i64::try_from(from.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let Started(Some(start)) = started else { return };
        self.spend(nanoseconds(start), || {
            let start = Instant::now();
            settle().then(|| nanoseconds(start))
        });
    }

    /// A run has taken n nanoseconds; `settle` says how many a step took, or that there was none.
    #[cfg(target_os = "linux")]
    fn spend(&self, ran: i64, mut settle: impl FnMut() -> Option<i64>) {
        self.left.fetch_add(ran / PART, Ordering::Relaxed);
        if self.runs.fetch_add(1, Ordering::Relaxed) < FIRST_RUNS {
            return;
        }
        while self.left.load(Ordering::Relaxed) > 0 {
            match settle() {
                Some(took) => self.left.fetch_sub(took, Ordering::Relaxed),
                None => return self.left.store(i64::MIN, Ordering::Relaxed),
            };
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn finish(&self, _: Started, _: impl FnMut() -> bool) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Steps that are taken after each of some runs of 100, if each step takes so long and there are that many.
    fn steps(runs: usize, took: i64, mut most: usize) -> Vec<usize> {
        let pace = Pace::default();
        let run = |_| {
            let mut steps = 0;
            pace.spend(100, || {
                most = most.checked_sub(1)?;
                steps += 1;
                Some(took)
            });
            steps
        };
        (0..runs).map(run).collect()
    }

    #[test]
    fn an_eighth_is_spent_from_the_third_run_on() {
        // 36 nanoseconds are left after the third run, and 12 more after each later one.
        assert_eq!(steps(6, 6, 100), [0, 0, 6, 2, 2, 2]);
        assert_eq!(steps(6, 30, 100), [0, 0, 2, 0, 0, 1]);
        assert_eq!(steps(6, 6, 7), [0, 0, 6, 1, 0, 0]);
    }

    #[test]
    fn nothing_is_measured_when_nothing_is_left() {
        let pace = Pace::default();
        assert!(pace.start().0.is_some());
        (0..3).for_each(|_| pace.spend(100, || None));
        assert!(pace.start().0.is_none());
    }
}
