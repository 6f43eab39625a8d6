//! Rows picked by index: embeddings and `index_select`.
//!
//! Indices are data, so a bad one is an error and not a panic; nothing is promised about the output then.
use crate::element::{Element, Number};
use crate::map::worth;
use crate::split;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use sconce_parallel::Parallel;

/// An index outside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Which of the indices.
    pub position: usize,
    /// Its value.
    pub index: i64,
    /// How many rows there are.
    pub rows: usize,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, index, rows } = self;
        write!(f, "index {index} at position {position} is outside 0..{rows}; check the indices given to the model")
    }
}

impl core::error::Error for OutOfRange {}

/// `out[o, i, ..] = table[o, indices[i], ..]`, rows of `row_len` elements, for `outer` tables of `rows` rows each.
///
/// An embedding has one table; `index_select` along a later dimension has several. With `wrap`, negative indices count
/// from the end.
pub fn gather_rows<T: Element, I: Number>(
    par: &dyn Parallel,
    (outer, rows, row_len): (usize, usize, usize),
    wrap: bool,
    table: &[T],
    indices: &[I],
    out: &mut [T],
) -> Result<(), OutOfRange> {
    assert_eq!(table.len(), outer * rows * row_len, "elements of the tables");
    assert_eq!(out.len(), outer * indices.len() * row_len, "elements of the output");
    let row_of = |index: I| {
        let index = index.to_i64();
        let index = if wrap && index < 0 { index.wrapping_add_unsigned(rows as u64) } else { index };
        usize::try_from(index).ok().filter(|index| *index < rows)
    };
    let bad = AtomicUsize::new(usize::MAX);
    split::chunks(worth(par, out.len()), out, row_len.max(1), |i, out| {
        let (outer, i) = (i / indices.len(), i % indices.len());
        match row_of(indices[i]) {
            Some(row) => out.copy_from_slice(&table[(outer * rows + row) * row_len..][..row_len]),
            None => {
                bad.fetch_min(i, Ordering::Relaxed);
            }
        }
    });
    match bad.into_inner() {
        usize::MAX => Ok(()),
        position => Err(OutOfRange { position, index: indices[position].to_i64(), rows }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_parallel::Serial;

    #[test]
    fn rows_are_picked_in_order() {
        let table: Vec<u16> = (0..24).collect();
        let mut out = [0; 12];
        gather_rows(&Serial, (2, 4, 3), false, &table, &[3i64, 0], &mut out).unwrap();
        assert_eq!(out, [9, 10, 11, 0, 1, 2, 21, 22, 23, 12, 13, 14]);
    }

    #[test]
    fn negative_indices_only_on_request() {
        let table = [1.0f32, 2.0, 3.0];
        let mut out = [0.0; 2];
        gather_rows(&Serial, (1, 3, 1), true, &table, &[-1i32, 1], &mut out).unwrap();
        assert_eq!(out, [3.0, 2.0]);
        let error = gather_rows(&Serial, (1, 3, 1), false, &table, &[1i32, -1], &mut out).unwrap_err();
        assert_eq!(error, OutOfRange { position: 1, index: -1, rows: 3 });
        let error = gather_rows(&Serial, (1, 3, 1), true, &table, &[i64::MIN, 3], &mut out).unwrap_err();
        assert_eq!(error.position, 0);
        assert!(error.to_string().contains("is outside 0..3"));
    }

    #[test]
    fn empty_rows_and_no_indices() {
        gather_rows::<f32, i64>(&Serial, (1, 3, 0), false, &[], &[1, 2], &mut []).unwrap();
        gather_rows::<f32, i64>(&Serial, (1, 3, 2), false, &[0.0; 6], &[], &mut []).unwrap();
    }
}
