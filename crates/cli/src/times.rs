//! What many runs took, and how far that is to be trusted.
use serde::Serialize;

/// How many times slower than the fastest run half of all runs may be before somebody else must be using the machine.
const NOISE: f64 = 1.5;
/// Ratios that differ from 1 by less say nothing about which side is faster.
const EVEN: f64 = 0.02;

/// Times of runs in milliseconds, and what follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Times {
    /// The fastest.
    pub(crate) min_ms: f64,
    /// Half of them took no longer.
    pub(crate) median_ms: f64,
    /// Nine of ten took no longer.
    pub(crate) p90_ms: f64,
    /// Of a hundred, one took longer.
    pub(crate) p99_ms: f64,
    /// How many there were.
    pub(crate) runs: usize,
    /// How many a second would have room for.
    pub(crate) runs_per_second: f64,
}

impl Times {
    /// Of runs, by what each took.
    pub(crate) fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let sum: f64 = times.iter().sum();
        Self {
            min_ms: times.first().copied().unwrap_or(0.0),
            median_ms: median(&times),
            p90_ms: percentile(&times, 90),
            p99_ms: percentile(&times, 99),
            runs: times.len(),
            runs_per_second: if sum > 0.0 { times.len() as f64 * 1e3 / sum } else { 0.0 },
        }
    }

    /// A sentence if they scatter so much that the median says little.
    pub(crate) fn noise(&self) -> Option<String> {
        let times = self.median_ms / self.min_ms;
        (self.min_ms > 0.0 && times > NOISE).then(|| {
            format!(
                "half of the runs took {times:.1} times as long as the fastest: something else uses this machine, or it slows \
                 down; `--seconds` measures longer"
            )
        })
    }
}

/// How much longer another side takes, in words: above 1, this side is faster.
pub(crate) fn compare(ours: &Times, theirs: &Times) -> String {
    let [fastest, median] = [theirs.min_ms / ours.min_ms, theirs.median_ms / ours.median_ms];
    let side = |ratio: f64| if ratio > 1.0 + EVEN { 1 } else { -i32::from(ratio < 1.0 - EVEN) };
    if side(fastest) * side(median) < 0 {
        return format!(
            "{median:.2}x by the median, {fastest:.2}x by the fastest run: they contradict each other, so neither says \
             anything"
        );
    }
    let unsure = match ours.noise().or(theirs.noise()) {
        Some(_) => ", but the times scatter too much to rely on it",
        None => "",
    };
    match side(median) {
        1 => format!("{median:.2}x: ours is faster{unsure}"),
        -1 => format!("{median:.2}x: the official runtime is faster{unsure}"),
        _ => format!("{median:.2}x: both are as fast{unsure}"),
    }
}

/// The middle of sorted times.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted {
        [] => 0.0,
        _ if sorted.len() % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The first of sorted times that this share, in percent, do not exceed.
fn percentile(sorted: &[f64], hundredths: usize) -> f64 {
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_percentiles_are_runs() {
        assert_eq!(median(&[1.0, 2.0, 10.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 10.0]), 3.0);
        let times = Times::of((1..=200).rev().map(f64::from).collect());
        assert_eq!((times.min_ms, times.median_ms, times.p90_ms, times.p99_ms), (1.0, 100.5, 180.0, 198.0));
        // 200 runs in 1 + 2 + ... + 200 = 20100 ms.
        assert!((times.runs_per_second - 200.0 * 1000.0 / 20100.0).abs() < 1e-9);
        assert_eq!(Times::of(vec![7.0]).p99_ms, 7.0);
        assert_eq!(Times::of(Vec::new()), Times::default());
    }

    #[test]
    fn a_ratio_is_told_with_who_is_faster_and_whether_that_is_sure() {
        let times = |min_ms, median_ms| Times { min_ms, median_ms, runs: 5, ..Times::default() };
        let compare =
            |ours: (f64, f64), theirs: (f64, f64)| compare(&times(ours.0, ours.1), &times(theirs.0, theirs.1));
        assert_eq!(compare((1.0, 1.0), (1.25, 1.31)), "1.31x: ours is faster");
        assert_eq!(compare((2.0, 2.0), (1.0, 1.0)), "0.50x: the official runtime is faster");
        assert_eq!(compare((1.0, 1.0), (1.0, 1.01)), "1.01x: both are as fast");
        // What was seen on a busy machine.
        let both = compare((11.789, 20.09), (8.708, 27.93));
        assert!(both.contains("1.39x") && both.contains("0.74x") && both.contains("contradict"), "{both}");
        assert!(compare((1.0, 1.6), (2.0, 3.2)).ends_with("scatter too much to rely on it"));
        assert!(times(1.0, 1.4).noise().is_none() && times(2.7, 24.2).noise().unwrap().contains("9.0 times"));
    }
}
