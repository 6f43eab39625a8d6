//! Weights in blocks of small integers, by ggml's own quantisers.

use crate::sys;
use sconce_format::ggml::Element;

/// Rows of numbers as blocks; the error says why they cannot be.
pub fn quantize(element: Element, row: usize, numbers: &[f32]) -> Result<Vec<u8>, String> {
    let (block, bytes) = element.block();
    if !element.is_quantized() {
        return Err(format!("{} has no blocks", element.name()));
    }
    if row == 0 || !row.is_multiple_of(block) || !numbers.len().is_multiple_of(row) {
        return Err(format!("rows of {row} are no whole blocks of {block}, as {} needs them", element.name()));
    }
    if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
        return Err(format!("a weight is {number}"));
    }
    let mut blocks = vec![0; numbers.len() / block * bytes];
    sys::quantize(element, row, numbers, &mut blocks);
    Ok(blocks)
}
