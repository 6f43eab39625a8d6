//! Functions of bytes as tables.
//!
//! A function from bytes to bytes has 256 values. Where the instruction set looks up 64 bytes at a time, a table of them
//! costs less than any arithmetic: the lower and the upper half are two lookups, and the top bit of the input chooses.
#![allow(unsafe_code, reason = "the lookup instructions")]

use crate::isa::Isa;
use crate::split;
use sconce_parallel::Parallel;

/// The values of a function of bytes.
pub type Table = [u8; 256];

/// Bytes that a task takes at a time.
const PIECE: usize = 16 * 1024;

/// Writes `table[input]` for every byte.
pub fn look_up(isa: Isa, par: &dyn Parallel, table: &Table, input: &[u8], output: &mut [u8]) {
    assert_eq!(input.len(), output.len(), "input and output differ in length");
    let piece = split::piece(par, output.len(), 1, PIECE);
    split::chunks(par, output, piece, |index, output| {
        let input = &input[index * piece..][..output.len()];
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        if takes_64(isa) {
            // SAFETY: the instructions are there, and as many bytes can be read and written.
            return unsafe { by_64(table, input.as_ptr(), output.as_mut_ptr(), output.len()) };
        }
        let _ = isa;
        for (y, x) in output.iter_mut().zip(input) {
            *y = table[usize::from(*x)];
        }
    });
}

/// Replaces every byte by its value in the table.
pub(crate) fn look_up_in_place(isa: Isa, table: &Table, bytes: &mut [i8]) {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    if takes_64(isa) {
        let bytes = (bytes.as_mut_ptr().cast::<u8>(), bytes.len());
        // SAFETY: the instructions are there, and the bytes can be read and written.
        return unsafe { by_64(table, bytes.0, bytes.0, bytes.1) };
    }
    let _ = isa;
    for byte in bytes {
        *byte = table[usize::from(byte.cast_unsigned())].cast_signed();
    }
}

/// Whether [`by_64`] may be called.
#[cfg(all(feature = "std", target_arch = "x86_64"))]
fn takes_64(isa: Isa) -> bool {
    matches!(isa, Isa::Avx512(_) | Isa::Vnni(_)) && std::is_x86_feature_detected!("avx512vbmi")
}

/// # Safety
/// So many bytes can be read at `from` and written at `to`; these may be the same, but not overlap otherwise.
#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn by_64(table: &Table, from: *const u8, to: *mut u8, len: usize) {
    use core::arch::x86_64::*;
    // SAFETY: the table has four times 64 bytes.
    let quarter = |index: usize| unsafe { _mm512_loadu_si512(table[index * 64..].as_ptr().cast()) };
    let [a, b, c, d] = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let found = |x: __m512i| {
        let (low, high) = (_mm512_permutex2var_epi8(a, x, b), _mm512_permutex2var_epi8(c, x, d));
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high)
    };
    let whole = len / 64 * 64;
    let rest = !(u64::MAX << (len - whole));
    // SAFETY: as many bytes as the mask says are there.
    unsafe {
        for at in (0..whole).step_by(64) {
            _mm512_storeu_si512(to.add(at).cast(), found(_mm512_loadu_si512(from.add(at).cast())));
        }
        let x = _mm512_maskz_loadu_epi8(rest, from.add(whole).cast());
        _mm512_mask_storeu_epi8(to.add(whole).cast(), rest, found(x));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_parallel::Serial;

    #[test]
    fn every_byte_finds_its_value() {
        let table: Table = core::array::from_fn(|i| (i * 37 + 11) as u8);
        for len in [0, 1, 63, 64, 65, 300, PIECE + 5] {
            let input: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
            for isa in Isa::available() {
                let mut output = vec![0; len];
                look_up(isa, &Serial, &table, &input, &mut output);
                assert!(input.iter().zip(&output).all(|(x, y)| *y == (usize::from(*x) * 37 + 11) as u8), "{len}");
                let mut bytes: Vec<i8> = input.iter().map(|byte| byte.cast_signed()).collect();
                look_up_in_place(isa, &table, &mut bytes);
                assert!(bytes.iter().zip(&output).all(|(found, y)| found.cast_unsigned() == *y), "{len}");
            }
        }
    }
}
