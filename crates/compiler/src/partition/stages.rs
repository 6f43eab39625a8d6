//! Which calls run together.
//!
//! A part must not depend on itself through a call outside of it, so calls are sorted into stages. The stage of a call is
//! the number of times that a path to it leaves what the backend takes: stage 0 is all that can run at once, stage 1 all
//! that needs something else in between, and so on.
//!
//! ```text
//! taken:    a ──▶ b ──────────▶ d        a, b: stage 0    d: stage 1
//! others:         └───▶ c ──────┘        c runs between them
//! ```
//!
//! The taken calls of a stage are a part. There are no cycles, because every path leads to the same or a later stage and
//! leaves a part towards a later one. No two parts can be joined: each one depends on the one before it through a call
//! outside. One pass over the calls finds the stages, another one moves calls that only later parts read to the first of
//! those, so that fewer values cross.

/// The stage of each call. `reads` tells for each call the calls before it whose results it reads, `taken` whether the
/// backend runs it. Calls that are not taken run before the part of their stage.
pub fn stages(reads: &[Vec<usize>], taken: &[bool]) -> Vec<usize> {
    let mut stages = vec![0; reads.len()];
    for call in 0..reads.len() {
        let after = |&maker: &usize| stages[maker] + usize::from(taken[maker] && !taken[call]);
        stages[call] = reads[call].iter().map(after).max().unwrap_or(0);
    }
    let mut readers = vec![Readers::None; reads.len()];
    for call in (0..reads.len()).rev() {
        if let (Readers::Parts(first), true) = (readers[call], taken[call]) {
            stages[call] = first;
        }
        for &maker in &reads[call] {
            readers[maker] = match (readers[maker], taken[call]) {
                (Readers::None, true) => Readers::Parts(stages[call]),
                (Readers::Parts(first), true) => Readers::Parts(first.min(stages[call])),
                _ => Readers::Others,
            };
        }
    }
    stages
}

/// Who reads a call's results.
#[derive(Clone, Copy)]
enum Readers {
    /// No call.
    None,
    /// Only taken calls; the first of them is in this stage.
    Parts(usize),
    /// Also calls that are not taken.
    Others,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % limit
        }
    }

    /// Whether `to` is reached from `from` through at least one call for which `between` holds.
    fn leads(reads: &[Vec<usize>], from: &[bool], to: &[bool], between: &dyn Fn(usize) -> bool) -> bool {
        let mut inside: Vec<bool> = from.to_vec();
        let mut outside = vec![false; reads.len()];
        for call in 0..reads.len() {
            let reached = |set: &[bool]| reads[call].iter().any(|&maker| set[maker]);
            outside[call] = reached(&outside) || (between(call) && reached(&inside));
            inside[call] |= reached(&inside);
            if to[call] && outside[call] {
                return true;
            }
        }
        false
    }

    #[test]
    fn parts_have_no_cycles_and_none_can_be_joined() {
        let mut numbers = Numbers(7);
        for round in 0..400 {
            let count = 2 + numbers.below(24);
            let reads: Vec<Vec<usize>> =
                (0..count)
                    .map(|call| {
                        if call == 0 {
                            Vec::new()
                        } else {
                            (0..numbers.below(3)).map(|_| numbers.below(call)).collect()
                        }
                    })
                    .collect();
            let taken: Vec<bool> = (0..count).map(|_| numbers.below(3) > 0).collect();
            let stages = stages(&reads, &taken);
            let part =
                |stage: usize| -> Vec<bool> { (0..count).map(|call| taken[call] && stages[call] == stage).collect() };
            let used: Vec<usize> = (0..count).filter(|&stage| part(stage).contains(&true)).collect();
            for &a in &used {
                let own = part(a);
                assert!(!leads(&reads, &own, &own, &|call| !own[call]), "round {round}: part {a} depends on itself");
                for &b in used.iter().filter(|&&b| b > a) {
                    let both: Vec<bool> = own.iter().zip(part(b)).map(|(a, b)| *a || b).collect();
                    let cycle = leads(&reads, &both, &both, &|call| !both[call]);
                    assert!(cycle, "round {round}: parts {a} and {b} could be one");
                }
            }
            // Every call comes after what it reads: stage by stage, other calls before the part of a stage.
            let moment = |call: usize| (stages[call], taken[call]);
            for (call, makers) in reads.iter().enumerate() {
                for &maker in makers {
                    assert!(moment(maker) <= moment(call), "round {round}: {maker} after {call}");
                }
            }
        }
    }

    #[test]
    fn a_call_goes_to_the_first_part_that_reads_it() {
        // 0 ─▶ 1 (other) ─▶ 3; 2 ─▶ 3: what only the second part reads is computed there.
        let stages = stages(&[vec![], vec![0], vec![], vec![1, 2]], &[true, false, true, true]);
        assert_eq!(stages, [0, 1, 1, 1]);
    }
}
