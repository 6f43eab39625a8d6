//! Where numbers lie, and the grid of 256 that stands for them best.
//!
//! A [`Histogram`] counts numbers in equal intervals around 0. It never needs to know the range beforehand: when a number
//! lies beyond its reach, the reach doubles and neighbours become one interval, so that counts stay exact and do not
//! depend on the order in which numbers came. Zeros are not counted, because every grid has a zero.
//!
//! [`Histogram::grid`] looks for the ends of the range for which the squared error is smallest: values beyond the ends
//! are clipped, and in return those between them are told apart better.

/// The smallest and largest integer of a grid.
pub const INTEGERS: (i32, i32) = (-128, 127);

/// Numbers at equal distances that 8-bit integers stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// The distance of two numbers.
    pub scale: f32,
    /// The integer that stands for 0.
    pub zero: i32,
}

impl Grid {
    /// The grid with these ends, moved so that it has a zero.
    pub fn between(low: f32, high: f32) -> Self {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let scale = (high - low) / (INTEGERS.1 - INTEGERS.0) as f32;
        if !scale.is_normal() {
            return Self { scale: 1.0, zero: 0 };
        }
        let zero = INTEGERS.0 as f32 - (low / scale).round_ties_even();
        Self { scale, zero: (zero as i32).clamp(INTEGERS.0, INTEGERS.1) }
    }

    /// The number of the grid that stands for a number.
    pub fn nearest(self, number: f32) -> f32 {
        let integer = (number / self.scale).round_ties_even() as i32;
        let integer = integer.saturating_add(self.zero).clamp(INTEGERS.0, INTEGERS.1);
        (integer - self.zero) as f32 * self.scale
    }
}

const INTERVALS: usize = 8192;
const HALF: usize = INTERVALS / 2;

/// Counts of numbers in equal intervals.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Intervals lie between this, a power of two, and its negative; 0 if there are no numbers.
    reach: f32,
    counts: Vec<u64>,
    low: f32,
    high: f32,
}

/// Whether a number is infinite, or stands for infinity in a mask as the largest of half precision does. No grid has
/// both such a number and others.
pub fn is_endless(number: f32) -> bool {
    number.abs() >= 65504.0
}

impl Default for Histogram {
    fn default() -> Self {
        Self { reach: 0.0, counts: vec![0; INTERVALS], low: 0.0, high: 0.0 }
    }
}

impl Histogram {
    /// Counts numbers; those that are not finite do not count.
    pub fn add(&mut self, numbers: impl Iterator<Item = f32> + Clone) {
        let (mut low, mut high) = (self.low, self.high);
        for number in numbers.clone().filter(|number| number.is_finite()) {
            low = low.min(number);
            high = high.max(number);
        }
        (self.low, self.high) = (low, high);
        self.grow(high.max(-low));
        if self.reach == 0.0 {
            return;
        }
        let intervals = HALF as f32 / self.reach;
        for number in numbers.filter(|number| number.is_finite() && *number != 0.0) {
            let place = ((number * intervals).floor() as i64 + HALF as i64).clamp(0, INTERVALS as i64 - 1);
            self.counts[place as usize] += 1;
        }
    }

    /// Doubles the reach until it is above `largest`.
    fn grow(&mut self, largest: f32) {
        if !largest.is_normal() || self.reach > largest {
            return;
        }
        if self.reach == 0.0 {
            self.reach = largest.log2().floor().exp2();
        }
        while self.reach <= largest && self.reach < f32::MAX / 4.0 {
            let mut counts = vec![0; INTERVALS];
            for (place, count) in self.counts.iter().enumerate() {
                counts[(place + HALF) / 2] += count;
            }
            self.counts = counts;
            self.reach *= 2.0;
        }
    }

    /// The smallest and the largest number, or 0 if that is smaller or larger.
    pub fn range(&self) -> (f32, f32) {
        (self.low, self.high)
    }

    /// The grid over all numbers.
    pub fn whole(&self) -> Grid {
        Grid::between(self.low, self.high)
    }

    /// The grid with the smallest squared error.
    pub fn grid(&self) -> Grid {
        let width = self.reach / HALF as f32;
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let middle = |place: usize| ((place as f32 - HALF as f32 + 0.5) * width).clamp(self.low, self.high);
        let counted: Vec<(f32, f64)> = counted.map(|(place, count)| (middle(place), *count as f64)).collect();
        let error = |grid: Grid| -> f64 {
            counted.iter().map(|(number, count)| count * f64::from(number - grid.nearest(*number)).powi(2)).sum()
        };
        let mut best = (error(self.whole()), 1.0, 1.0);
        // One end after the other, first in large steps over everything, then in smaller ones around the best.
        for step in [1.0f32 / 32.0, 1.0 / 128.0, 1.0 / 512.0] {
            for end in [0, 1, 0, 1] {
                let (_, low, high) = best;
                for moved in -32i16..=32 {
                    let by = f32::from(moved) * step;
                    let (low, high) = if end == 0 { (low, high + by) } else { (low + by, high) };
                    if !(0.0..=1.0).contains(&low) || !(0.0..=1.0).contains(&high) {
                        continue;
                    }
                    let found = error(Grid::between(self.low * low, self.high * high));
                    if found < best.0 {
                        best = (found, low, high);
                    }
                }
            }
        }
        Grid::between(self.low * best.1, self.high * best.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look like activations: mostly small, with a long tail to one side.
    fn numbers(count: usize, seed: u64, tail: f32) -> Vec<f32> {
        let mut state = seed;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        (0..count)
            .map(|_| {
                let (a, b) = (uniform().max(1e-6), uniform());
                let normal = (-2.0 * a.ln()).sqrt() * (b * std::f32::consts::TAU).cos();
                if normal > 0.0 { normal * (1.0 + tail * b) } else { normal }
            })
            .collect()
    }

    fn error(numbers: &[f32], grid: Grid) -> f64 {
        numbers.iter().map(|number| f64::from(number - grid.nearest(*number)).powi(2)).sum()
    }

    #[test]
    fn the_order_of_numbers_does_not_matter() {
        let numbers: Vec<f32> = numbers(1000, 1, 3.0).iter().enumerate().map(|(i, n)| n * (i as f32 / 100.0)).collect();
        let (mut once, mut pieces) = (Histogram::default(), Histogram::default());
        once.add(numbers.iter().copied());
        for piece in numbers.chunks(7).rev() {
            pieces.add(piece.iter().copied());
        }
        assert_eq!(once.counts, pieces.counts);
        assert_eq!(once.range(), pieces.range());
        // The naive twin counts with the final reach at once.
        let mut twin = vec![0; INTERVALS];
        for number in &numbers {
            twin[((number / once.reach * HALF as f32).floor() as i64 + HALF as i64) as usize] +=
                u64::from(*number != 0.0);
        }
        assert_eq!(once.counts, twin);
    }

    #[test]
    fn no_other_ends_are_much_better() {
        for (seed, tail) in [(1, 0.0), (2, 2.0), (3, 20.0)] {
            let numbers = numbers(4000, seed, tail);
            let mut histogram = Histogram::default();
            histogram.add(numbers.iter().copied());
            let found = error(&numbers, histogram.grid());
            let (low, high) = histogram.range();
            let ends = (1..=60).flat_map(|l| (1..=60).map(move |h| (l as f32 / 60.0, h as f32 / 60.0)));
            let best = ends.map(|(l, h)| error(&numbers, Grid::between(low * l, high * h))).fold(f64::MAX, f64::min);
            assert!(found <= best * 1.03, "{found} is more than {best}");
            assert!(found <= error(&numbers, histogram.whole()));
        }
    }

    #[test]
    fn grids_have_a_zero_and_reach_both_ends() {
        assert_eq!(Grid::between(0.0, 6.0), Grid { scale: 6.0 / 255.0, zero: -128 });
        assert_eq!(Grid::between(-1.0, -0.5), Grid { scale: 1.0 / 255.0, zero: 127 });
        assert_eq!(Grid::between(1.0, 2.0), Grid { scale: 2.0 / 255.0, zero: -128 });
        assert_eq!(Grid::between(0.0, 0.0), Grid { scale: 1.0, zero: 0 });
        let grid = Grid::between(-1.0, 2.0);
        assert_eq!(grid.nearest(0.0), 0.0);
        assert!((grid.nearest(9.0) - 2.0).abs() <= grid.scale / 2.0);
        assert!((grid.nearest(-9.0) + 1.0).abs() <= grid.scale / 2.0);
    }

    #[test]
    fn nothing_and_what_is_not_finite_does_no_harm() {
        let mut histogram = Histogram::default();
        histogram.add([0.0, f32::NAN, f32::INFINITY, 0.0].into_iter());
        assert_eq!(histogram.grid(), Grid { scale: 1.0, zero: 0 });
        histogram.add([f32::MAX, -f32::MAX].into_iter());
        assert!(histogram.grid().scale.is_finite() || histogram.range() == (-f32::MAX, f32::MAX));
    }
}
