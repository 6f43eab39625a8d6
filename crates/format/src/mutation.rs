//! Broken files for tests: the same sequence on every run.

use std::vec::Vec;

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Calls `use_it` with a number of broken variants of a file: flipped bits, spliced numbers, cut ends, copied parts.
pub(crate) fn mutations(file: &[u8], count: usize, mut use_it: impl FnMut(&[u8])) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let numbers = [0, 1, 2, 4, 8, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fffc, u32::MAX];
    // Interpreted, a file takes a second.
    for _ in 0..if cfg!(miri) { count / 100 } else { count } {
        let mut bytes = Vec::from(file);
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(8) {
                0..=3 => bytes[at] ^= 1 << random.below(8),
                4 | 5 => {
                    let number: u32 = numbers[random.below(numbers.len())];
                    bytes.iter_mut().skip(at & !3).zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new);
                }
                6 => {
                    let from = random.below(bytes.len());
                    let part: Vec<u8> = bytes[from..].iter().take(1 + random.below(16)).copied().collect();
                    bytes.iter_mut().skip(at).zip(part).for_each(|(byte, new)| *byte = new);
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
        use_it(&bytes);
    }
}
