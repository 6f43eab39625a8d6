//! Where the time of a run goes.
use crate::failure::Failure;
use crate::golden::{self, Bound};
use crate::listing;
use sconce::Session;
use sconce::core::{Event, Platform};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The time that one operator or backend takes in a run.
#[derive(Debug, Serialize)]
pub(super) struct OperatorTime {
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) ms: f64,
}

/// Adds up the time of every instruction.
struct Stopwatch {
    start: Instant,
    /// Calls and nanoseconds by chain and instruction.
    spent: Mutex<BTreeMap<(u32, u32), (u64, u64)>>,
}

impl Platform for Stopwatch {
    fn ticks(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn traces(&self) -> bool {
        true
    }

    fn trace(&self, event: Event) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, time) = spent.entry((event.chain, event.instruction)).or_default();
        (*calls, *time) = (*calls + 1, *time + event.end.saturating_sub(event.start));
    }
}

/// The time of each operator in an average run, the longest first.
pub(super) fn profile(session: &mut Session, bound: &Bound, runs: usize) -> Result<Vec<OperatorTime>, Failure> {
    let runs = runs.clamp(1, 50);
    let stopwatch = Stopwatch { start: Instant::now(), spent: Mutex::default() };
    for _ in 0..runs {
        session.run_traced(&golden::borrow(bound), &stopwatch)?;
    }
    let plan = session.view().plan();
    let mut operators: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for ((chain, index), (calls, time)) in stopwatch.spent.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let chain = plan.chains().get(chain as usize);
        let instruction = chain.and_then(|chain| chain.instructions().get(index as usize));
        let name = instruction.map_or_else(String::new, |instruction| listing::callee(plan, instruction));
        let sum = operators.entry(name).or_default();
        *sum = (sum.0 + calls, sum.1 + time);
    }
    let average = |(name, (calls, time)): (String, (u64, u64))| OperatorTime {
        name,
        calls: calls / runs as u64,
        ms: time as f64 / 1e6 / runs as f64,
    };
    let mut operators: Vec<_> = operators.into_iter().map(average).collect();
    operators.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    Ok(operators)
}
