//! Plans as people and tools see them.

use crate::graph::{Graph, Node};
use std::fmt;
use std::time::Duration;

/// A plan.
#[derive(Clone, Debug, Default)]
pub struct PlanReport {
    /// Its steps, in order.
    pub steps: Vec<StepReport>,
    /// Bytes that a run computes in.
    pub arena: usize,
    /// Threads.
    pub width: usize,
}

/// A step of a plan.
#[derive(Clone, Debug, Default)]
pub struct StepReport {
    /// What is done, and how.
    pub what: String,
    /// The nodes of the graph that it stands for.
    pub node: String,
    /// Multiplications.
    pub products: u64,
    /// Seconds that these take one thread where nothing else is in the way.
    pub peak: f64,
    /// Seconds that the step may take one thread, with the bytes that it reads and writes.
    pub estimate: f64,
    /// The fastest it has been, if it was watched.
    pub time: Option<Duration>,
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.steps.iter().any(|step| step.time.is_some()) {
            true => self.with_times(f),
            false => self.with_estimates(f),
        }
    }
}

impl PlanReport {
    /// A step for each node, without estimates.
    pub fn of_nodes(graph: &Graph, width: usize) -> Self {
        let step = |node: &Node| StepReport {
            what: node.op.name().to_owned(),
            node: node.to_string(),
            ..StepReport::default()
        };
        Self { steps: graph.nodes.iter().map(step).collect(), arena: 0, width }
    }

    fn with_estimates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |step: &StepReport| step.estimate * 1e3 / self.width as f64;
        let (count, total) = (self.steps.len(), self.steps.iter().map(milliseconds).sum::<f64>());
        writeln!(f, "{count} steps, about {total:.3} ms, arena of {} bytes, {} threads", self.arena, self.width)?;
        for (index, step) in self.steps.iter().enumerate() {
            writeln!(f, "{index:4} {:9.3} ms  {}  <-  {}", milliseconds(step), step.what, step.node)?;
        }
        Ok(())
    }

    fn with_times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |step: &StepReport| step.time.unwrap_or_default().as_secs_f64();
        let share = |of: f64, all: f64| if all > 0.0 { 100.0 * of / all } else { 0.0 };
        let (total, threads) = (self.steps.iter().map(seconds).sum::<f64>(), self.width as f64);
        writeln!(
            f,
            "{} steps, {:.3} ms, {:.1} million multiplications, {:.0} % of peak; arena of {} bytes, {threads} threads",
            self.steps.len(),
            total * 1e3,
            self.steps.iter().map(|step| step.products).sum::<u64>() as f64 / 1e6,
            share(self.steps.iter().map(|step| step.peak).sum(), total * threads),
            self.arena,
        )?;
        for (index, step) in self.steps.iter().enumerate() {
            let of_peak = match step.peak > 0.0 {
                true => format!("{:3.0} %", share(step.peak, seconds(step) * threads)),
                false => "     ".to_owned(),
            };
            let (time, part) = (seconds(step) * 1e3, share(seconds(step), total));
            writeln!(f, "{index:4} {time:9.3} ms {part:5.1} % {of_peak}  {}  <-  {}", step.what, step.node)?;
        }
        Ok(())
    }
}
