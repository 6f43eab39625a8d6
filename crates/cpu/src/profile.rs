//! What steps take, beside what the machine could do.
//!
//! A plan is printed with estimates: a step takes as long as its multiplications or its bytes, whichever is more, at the
//! machine's rate. A session that is watched keeps the fastest time of every step. The measure for a product is the rate of the same
//! kernels where nothing else is in the way: weights, inputs and outputs in the nearest cache, one thread. Winograd's method
//! multiplies less than the plain sum it stands for, so it may come out above that.

use crate::plan::{Plan, StepView};
use crate::steps::Work;
use sconce_graph::engine::{PlanReport, StepReport};
use sconce_kernels::bytes::Tail;
use sconce_kernels::depthwise::int8::{Quantization, Unsigned};
use sconce_kernels::packed::int8::{self, Kind};
use sconce_kernels::packed::{self, Conv2d};
use sconce_kernels::{Isa, Serial};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The product that is measured: rows, inputs and outputs, all multiples of any tile.
const PRODUCT: (usize, usize, usize) = (48, 256, 64);
/// How long.
const TIME: Duration = Duration::from_millis(20);

/// Bytes of the copy that is measured: with what is copied they fit the second-level cache.
const COPIED: usize = 128 * 1024;

/// What one thread does per second, at best.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peak {
    /// Multiplications.
    floats: f64,
    bytes: f64,
    /// Bytes that are read or written.
    moved: f64,
}

impl Peak {
    /// That of a set, measured once.
    fn of(isa: Isa) -> Self {
        static KNOWN: Mutex<Vec<(Isa, Peak)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, peak)) = known.iter().find(|(set, _)| *set == isa) {
            return *peak;
        }
        let peak = Self::measure(isa);
        known.push((isa, peak));
        peak
    }

    fn measure(isa: Isa) -> Self {
        let (rows, k, n) = PRODUCT;
        let conv = Conv2d::linear(rows, k, n);
        let mut floats = vec![0.0; packed::packed_len(isa, &conv)];
        packed::pack(isa, &Serial, &conv, packed::Filter::Rows(&vec![0.5; k * n]), None, &mut floats);
        let (input, mut output) = (vec![0.5; rows * k], vec![0.0; rows * n]);
        let products = (rows * k * n) as f64;
        let floats =
            products * rate(|| packed::conv2d(isa, &Serial, &conv, (&input, k), &floats, &[], (&mut output, n)));
        let mut lines = vec![int8::Line::default(); int8::packed_len(isa, &conv, Kind::Bytes)];
        int8::pack(isa, &Serial, &conv, packed::Filter::Rows(&vec![3; k * n]), None, 0, &mut lines);
        let (input, mut output) = (vec![5; rows * k], vec![0; rows * n]);
        let mut scratch = vec![0; int8::scratch_len(isa, &conv, Kind::Bytes, 1)];
        let plain =
            Quantization { input_zero: 0, output_zero: 0, limits: (i8::MIN, i8::MAX), unsigned: Unsigned::default() };
        let scales = vec![0.01; n];
        let bytes = products
            * rate(|| {
                int8::conv2d(
                    isa,
                    &Serial,
                    &conv,
                    (&plain, Tail::Nothing),
                    &input,
                    (&lines, &scales),
                    (&mut output, n),
                    &mut scratch,
                );
            });
        let (from, mut to) = (vec![1u8; COPIED], vec![0u8; COPIED]);
        let moved = 2.0 * COPIED as f64 * rate(|| black_box(&mut to).copy_from_slice(black_box(&from)));
        Self { floats, bytes, moved }
    }

    /// The time that so much work takes at this rate.
    fn seconds(&self, work: Work) -> f64 {
        work.floats as f64 / self.floats + work.bytes as f64 / self.bytes
    }

    /// The time that a step may take.
    fn estimate(&self, step: &StepView) -> f64 {
        self.seconds(step.work).max(step.bytes as f64 / self.moved)
    }
}

/// How often per second something is done, when it is fastest.
fn rate(mut something: impl FnMut()) -> f64 {
    let (start, mut fastest) = (Instant::now(), Duration::MAX);
    while start.elapsed() < TIME {
        let start = Instant::now();
        something();
        fastest = fastest.min(start.elapsed());
    }
    1.0 / fastest.as_secs_f64()
}

/// A plan with what its steps may take, and did take if they were watched.
pub(crate) fn report(plan: &Plan, isa: Isa, times: Option<&Times>) -> PlanReport {
    let peak = Peak::of(isa);
    let steps = plan.steps().enumerate().map(|(index, step)| StepReport {
        products: step.work.floats + step.work.bytes,
        peak: peak.seconds(step.work),
        estimate: peak.estimate(&step),
        time: times.and_then(|times| times.0.get(index).copied()),
        what: step.what,
        node: step.node,
    });
    PlanReport { steps: steps.collect(), arena: plan.arena_bytes(), width: plan.width() }
}

/// The fastest time of each step.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Starts a run of n steps; what is to be called after each.
    pub(crate) fn watch(&mut self, steps: usize) -> impl FnMut(usize) {
        if self.0.len() != steps {
            self.0 = vec![Duration::MAX; steps];
        }
        let mut last = Instant::now();
        move |step| {
            let now = Instant::now();
            if let Some(fastest) = self.0.get_mut(step) {
                *fastest = (*fastest).min(now - last);
            }
            last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_time_of_each_step_stays() {
        let mut times = Times::default();
        for wait in [200, 0] {
            let mut done = times.watch(2);
            std::thread::sleep(Duration::from_millis(wait));
            done(0);
            done(1);
        }
        assert!(times.0.len() == 2 && times.0.iter().all(|time| *time < Duration::from_millis(200)), "{times:?}");
        drop(times.watch(3));
        assert_eq!(times.0, [Duration::MAX; 3]);
    }

    #[test]
    fn every_set_multiplies_millions_per_second() {
        for isa in Isa::available() {
            let peak = Peak::measure(isa);
            assert!(peak.floats > 1e6 && peak.bytes > 1e6 && peak.moved > 1e6, "{isa:?} {peak:?}");
        }
    }
}
