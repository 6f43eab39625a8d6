//! Functions of bytes as tables.
//!
//! A function from bytes to bytes has 256 values. Where the instruction set looks up 64 bytes at a time, a table of them
//! costs less than any arithmetic: the lower and the upper half are two lookups, and the top bit of the input chooses.
#![allow(unsafe_code, reason = "the lookup instructions")]

use crate::isa::Isa;
use crate::split;
use sconce_parallel::Parallel;

/// Bytes that a task takes at a time.
const PIECE: usize = 16 * 1024;

/// Writes `table[input]` for every byte.
pub fn look_up(isa: Isa, par: &dyn Parallel, table: &[u8; 256], input: &[u8], output: &mut [u8]) {
    assert_eq!(input.len(), output.len(), "input and output differ in length");
    split::chunks(par, output, PIECE, |piece, output| {
        let input = &input[piece * PIECE..][..output.len()];
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        if let (Isa::Avx512(_) | Isa::Vnni(_), true) = (isa, std::is_x86_feature_detected!("avx512vbmi")) {
            // SAFETY: the token stands for most of the instructions, the others are there.
            return unsafe { by_64(table, input, output) };
        }
        let _ = isa;
        one_by_one(table, input, output);
    });
}

fn one_by_one(table: &[u8; 256], input: &[u8], output: &mut [u8]) {
    for (y, x) in output.iter_mut().zip(input) {
        *y = table[usize::from(*x)];
    }
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn by_64(table: &[u8; 256], input: &[u8], output: &mut [u8]) {
    use core::arch::x86_64::*;
    // SAFETY: the table has four times 64 bytes.
    let quarter = |index: usize| unsafe { _mm512_loadu_si512(table[index * 64..].as_ptr().cast()) };
    let [a, b, c, d] = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let (ins, rest) = input.as_chunks::<64>();
    let (outs, rest_out) = output.as_chunks_mut::<64>();
    for (y, x) in outs.iter_mut().zip(ins) {
        // SAFETY: both have 64 bytes.
        unsafe {
            let x = _mm512_loadu_si512(x.as_ptr().cast());
            let (low, high) = (_mm512_permutex2var_epi8(a, x, b), _mm512_permutex2var_epi8(c, x, d));
            let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
            _mm512_storeu_si512(y.as_mut_ptr().cast(), found);
        }
    }
    one_by_one(table, rest, rest_out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_parallel::Serial;

    #[test]
    fn every_byte_finds_its_value() {
        let table: [u8; 256] = core::array::from_fn(|i| (i * 37 + 11) as u8);
        for len in [0, 1, 63, 64, 65, 300, PIECE + 5] {
            let input: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
            for isa in Isa::available() {
                let mut output = vec![0; len];
                look_up(isa, &Serial, &table, &input, &mut output);
                assert!(input.iter().zip(&output).all(|(x, y)| *y == (usize::from(*x) * 37 + 11) as u8), "{len}");
            }
        }
    }
}
