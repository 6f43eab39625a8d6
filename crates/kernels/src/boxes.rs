//! Boxes that say the same: of those that overlap too much, the one with the highest score stays.
use crate::element::Compute;

/// Boxes by falling score, and what is known of them.
pub struct Suppression<'s, C> {
    /// Numbers of the boxes.
    pub order: &'s mut [u32],
    /// Left, top, right, bottom and area of each, in this order.
    pub sorted: &'s mut [[C; 5]],
    /// Which are out: not zero.
    pub out: &'s mut [u8],
}

/// Writes to the front of `order` which of the boxes (left, top, right, bottom) stay, by falling score, and says how many. A
/// box goes if it shares more than `threshold` of the area that it covers together with one that stays.
pub fn suppress<C: Compute>(
    boxes: &[C],
    scores: &[C],
    threshold: f64,
    Suppression { order, sorted, out }: Suppression<'_, C>,
) -> usize {
    let count = scores.len();
    assert_eq!(boxes.len(), count * 4, "numbers of boxes");
    assert!([order.len(), sorted.len(), out.len()] == [count; 3], "room for {count} boxes");
    order.iter_mut().zip(0u32..).for_each(|(slot, number)| *slot = number);
    let score = |number: &u32| scores[*number as usize];
    // What is no number comes first, and of equal scores the first box.
    order.sort_unstable_by(|a, b| {
        let (left, right) = (score(a), score(b));
        let by_score =
            right.is_nan().cmp(&left.is_nan()).then(right.partial_cmp(&left).unwrap_or(core::cmp::Ordering::Equal));
        by_score.then(a.cmp(b))
    });
    for (own, &number) in sorted.iter_mut().zip(order.iter()) {
        let [left, top, right, bottom] = core::array::from_fn(|side| boxes[number as usize * 4 + side]);
        *own = [left, top, right, bottom, (right - left) * (bottom - top)];
    }
    out.fill(0);
    let mut kept = 0;
    for first in 0..count {
        if out[first] != 0 {
            continue;
        }
        order[kept] = order[first];
        kept += 1;
        let own = sorted[first];
        for (other, out) in sorted[first + 1..].iter().zip(&mut out[first + 1..]) {
            *out |= u8::from(overlap(&own, other).to_f64() > threshold);
        }
    }
    kept
}

/// The share of two boxes' common area in the area that they cover together.
fn overlap<C: Compute>(a: &[C; 5], b: &[C; 5]) -> C {
    let larger = |a: C, b: C| if a < b { b } else { a };
    let smaller = |a: C, b: C| if b < a { b } else { a };
    let width = larger(C::ZERO, smaller(a[2], b[2]) - larger(a[0], b[0]));
    let height = larger(C::ZERO, smaller(a[3], b[3]) - larger(a[1], b[1]));
    let common = width * height;
    common / (a[4] + b[4] - common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn kept(boxes: &[f32], scores: &[f32], threshold: f64) -> Vec<u32> {
        let count = scores.len();
        let (mut order, mut sorted, mut out) = (vec![9; count], vec![[9.0; 5]; count], vec![1; count]);
        let room = Suppression { order: &mut order, sorted: &mut sorted, out: &mut out };
        let kept = suppress(boxes, scores, threshold, room);
        order.truncate(kept);
        order
    }

    /// Takes the best box of those that are left, and all out that it overlaps, until none is left.
    fn naive(boxes: &[f32], scores: &[f32], threshold: f64) -> Vec<u32> {
        let mut left: Vec<usize> = (0..scores.len()).collect();
        let mut kept = Vec::new();
        let sides = |number: usize| <[f32; 4]>::try_from(&boxes[number * 4..][..4]).unwrap();
        let area = |[a, b, c, d]: [f32; 4]| (c - a) * (d - b);
        while let Some(&best) = left.iter().max_by(|&&a, &&b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a))) {
            kept.push(best as u32);
            left.retain(|&other| {
                let ([a, b, c, d], [e, f, g, h]) = (sides(best), sides(other));
                let common = (c.min(g) - a.max(e)).max(0.0) * (d.min(h) - b.max(f)).max(0.0);
                let share = common / (area(sides(best)) + area(sides(other)) - common);
                other != best && f64::from(share) <= threshold
            });
        }
        kept
    }

    #[test]
    fn the_best_of_what_overlaps_stays() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let count = random.below(40);
            let boxes: Vec<f32> = (0..count)
                .flat_map(|_| {
                    let [x, y] = [random.below(20) as f32, random.below(20) as f32];
                    [x, y, x + 1.0 + random.below(9) as f32, y + 1.0 + random.below(9) as f32]
                })
                .collect();
            // Many have equal scores.
            let scores: Vec<f32> = (0..count).map(|_| random.below(8) as f32).collect();
            for threshold in [0.0, 0.3, 0.7, 1.0] {
                assert_eq!(kept(&boxes, &scores, threshold), naive(&boxes, &scores, threshold), "seed {seed}");
            }
        }
    }

    #[test]
    fn boxes_of_any_numbers() {
        let boxes = [0.0, 0.0, 2.0, 2.0, f32::NAN, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0];
        assert_eq!(kept(&boxes, &[0.5, f32::NAN, 0.5], 0.5), [1, 0]);
        // A box without area overlaps nothing, not itself.
        assert_eq!(kept(&[1.0; 8], &[1.0, 2.0], 0.0), [1, 0]);
    }
}
