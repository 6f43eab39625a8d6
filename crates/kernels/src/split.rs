//! One buffer, many threads: disjoint mutable parts.
//!
//! `Parallel::run` shares its body between threads, so a task cannot simply hold `&mut` to its part of an output. The
//! functions here cut a buffer into parts that cannot overlap, by construction, and give each task its own:
//!
//! * [`chunks`]: consecutive chunks of a slice;
//! * `chunks2`, `chunks3`: the same of two and three slices in step;
//! * `blocks`: a grid of rectangular blocks of a row-major matrix, as `Block`s that hand out row segments;
//! * `Slots`: equal slices of scratch, taken by a running task and given back when it ends.
#![allow(unsafe_code, reason = "disjoint parts of one buffer on several threads")]

use core::fmt::{self, Debug};
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use sconce_parallel::Parallel;

/// Elements of a piece that are worth another thread.
const LEAST_PIECE: usize = 4 * 1024;

/// Elements of rows that lie apart of which a copy is made at a time: a fraction of the first-level cache.
const COPIED: usize = 1024;

/// The start of a buffer whose parts go to different threads.
struct Base<T>(*mut T);

// SAFETY: a base only carries the address; who may touch which part is settled by the functions of this module.
unsafe impl<T: Send> Sync for Base<T> {}

impl<T> Base<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Calls `body(i, chunk)` for consecutive chunks of `len` elements (the last may be shorter).
pub fn chunks<T: Send>(par: &dyn Parallel, data: &mut [T], len: usize, body: impl Fn(usize, &mut [T]) + Sync) {
    let (total, base) = (data.len(), Base(data.as_mut_ptr()));
    let len = len.max(1);
    par.run(total.div_ceil(len), &|i| {
        let start = i * len;
        // SAFETY: `data` is borrowed for the whole call; chunk `i` is in bounds, overlaps no other, and `run` gives
        // each index to one task only.
        let chunk = unsafe { core::slice::from_raw_parts_mut(base.get().add(start), len.min(total - start)) };
        body(i, chunk);
    });
}

/// A length of [`chunks`] for so many elements: at most about `most`, whole units, and as many chunks for each thread, so that a
/// thread has the same part of every tensor of an image.
pub fn piece(par: &dyn Parallel, len: usize, unit: usize, most: usize) -> usize {
    let (unit, width) = (unit.max(1), par.width());
    let pieces = len.div_ceil(most.max(1)).next_multiple_of(width);
    let worth = len >= width * LEAST_PIECE;
    let pieces = if worth { pieces } else { 1 };
    len.div_ceil(unit).div_ceil(pieces.max(1)).max(1) * unit
}

/// [`chunks`] of two slices that have the same number of chunks.
pub fn chunks2<T: Send, U: Send>(
    par: &dyn Parallel,
    (first, first_len): (&mut [T], usize),
    (second, second_len): (&mut [U], usize),
    body: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let (first_len, second_len) = (first_len.max(1), second_len.max(1));
    assert_eq!(first.len().div_ceil(first_len), second.len().div_ceil(second_len), "the slices are not in step");
    let (total, base) = (second.len(), Base(second.as_mut_ptr()));
    chunks(par, first, first_len, |i, chunk| {
        let start = i * second_len;
        // SAFETY: as in `chunks`; both slices have the same number of chunks, so chunk `i` is in bounds.
        let other = unsafe { core::slice::from_raw_parts_mut(base.get().add(start), second_len.min(total - start)) };
        body(i, chunk, other);
    });
}

/// [`chunks`] of three slices that have the same number of chunks.
pub(crate) fn chunks3<T: Send, U: Send, V: Send>(
    par: &dyn Parallel,
    first: (&mut [T], usize),
    second: (&mut [U], usize),
    (third, third_len): (&mut [V], usize),
    body: impl Fn(usize, &mut [T], &mut [U], &mut [V]) + Sync,
) {
    let third_len = third_len.max(1);
    assert_eq!(second.0.len().div_ceil(second.1.max(1)), third.len().div_ceil(third_len), "the slices are not in step");
    let (total, base) = (third.len(), Base(third.as_mut_ptr()));
    chunks2(par, first, second, |i, chunk, other| {
        let start = i * third_len;
        // SAFETY: as in `chunks2`.
        let last = unsafe { core::slice::from_raw_parts_mut(base.get().add(start), third_len.min(total - start)) };
        body(i, chunk, other, last);
    });
}

/// How many elements `rows` rows of `columns` elements take at this stride, unless that is more than a number can say.
pub(crate) fn extent(rows: usize, stride: usize, columns: usize) -> Option<usize> {
    rows.saturating_sub(1).checked_mul(stride)?.checked_add(columns)
}

/// Panics unless a slice of `len` elements is an image of so many pixels of `channels` elements, each `apart` elements from the
/// one before. What lies between pixels is not the image's; behind the last one it need not be there.
pub(crate) fn check_pixels(len: usize, pixels: usize, (channels, apart): (usize, usize), what: &dyn Debug) {
    let least = if pixels == 0 { Some(0) } else { extent(pixels, apart, channels) };
    let fits = least.is_some_and(|least| least <= len) && pixels.checked_mul(apart).is_some_and(|most| len <= most);
    assert!(fits && channels <= apart, "{pixels} pixels of {channels} elements, {apart} apart, in {len} for {what:?}");
}

/// A rectangle of a row-major matrix, exclusively held.
pub(crate) struct Block<'a, T> {
    start: *mut T,
    stride: usize,
    /// Rows of the matrix covered.
    pub(crate) rows: Range<usize>,
    /// Columns of the matrix covered.
    pub(crate) columns: Range<usize>,
    held: PhantomData<&'a mut [T]>,
}

impl<T> Block<'_, T> {
    /// Rows and columns of a matrix with this row stride, from `start` on.
    ///
    /// # Safety
    /// They are in bounds of memory that outlives the block, and nobody else touches them meanwhile.
    pub(crate) unsafe fn held(start: *mut T, stride: usize, rows: Range<usize>, columns: Range<usize>) -> Self {
        Self { start, stride, rows, columns, held: PhantomData }
    }

    /// The segment of row `row` (counted in the matrix) that lies in this block.
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(self.rows.contains(&row), "row {row} is outside the block's rows {:?}", self.rows);
        // SAFETY: the row is in the block, and `blocks` checked, or who called `held` vouched for it, that all segments of
        // the block are in bounds; `&mut self` keeps segments apart.
        unsafe {
            core::slice::from_raw_parts_mut(self.start.add((row - self.rows.start) * self.stride), self.columns.len())
        }
    }

    /// Calls `body` with the longest runs of these rows of the block that lie side by side in a dense matrix of `dense` columns,
    /// and where each starts there. Rows that lie apart here are taken in a copy, some at a time.
    pub(crate) fn each_run(&mut self, rows: Range<usize>, dense: usize, mut body: impl FnMut(usize, &mut [T]))
    where
        T: Copy + Default,
    {
        let (stride, first, columns) = (self.stride, self.columns.start, self.columns.len());
        if columns == dense && columns < stride && columns <= COPIED {
            return self.each_copy(rows, |row, run| body(row * dense, run));
        }
        if columns < stride || rows.is_empty() {
            return rows.for_each(|row| body(row * dense + first, self.row(row)));
        }
        let held = self.rows.start <= rows.start && rows.end <= self.rows.end;
        assert!(held, "rows {rows:?} are outside the block's rows {:?}", self.rows);
        // SAFETY: the rows are in the block, fill the stride and so lie one after the other; `&mut self` keeps them
        // apart from others.
        let run = unsafe {
            let start = self.start.add((rows.start - self.rows.start) * stride);
            core::slice::from_raw_parts_mut(start, rows.len() * stride)
        };
        body(rows.start * stride, run);
    }

    /// Calls `body` with copies of as many rows as there is room for, and the first of them; then puts them back.
    fn each_copy(&mut self, rows: Range<usize>, mut body: impl FnMut(usize, &mut [T]))
    where
        T: Copy + Default,
    {
        let (mut copy, columns) = ([T::default(); COPIED], self.columns.len().max(1));
        let together = COPIED / columns;
        for first in rows.clone().step_by(together) {
            let rows = first..rows.end.min(first + together);
            for (row, to) in rows.clone().zip(copy.chunks_exact_mut(columns)) {
                to.copy_from_slice(self.row(row));
            }
            body(first, &mut copy[..rows.len() * columns]);
            for (row, from) in rows.zip(copy.chunks_exact(columns)) {
                self.row(row).copy_from_slice(from);
            }
        }
    }

    /// Where the block starts and how far apart its rows are, for kernels that write whole tiles.
    pub(crate) fn raw(&mut self) -> (*mut T, usize) {
        (self.start, self.stride)
    }
}

/// How one side of a matrix is cut: into `parts` of nearly as many units of `unit` elements each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) parts: usize,
    pub(crate) unit: usize,
}

impl Cut {
    /// Parts of `step` elements; the last may be shorter.
    pub(crate) fn every(step: usize, len: usize) -> Self {
        let unit = step.max(1);
        Self { parts: len.div_ceil(unit), unit }
    }

    /// The elements of one part; empty if there are fewer units than parts.
    fn part(&self, index: usize, len: usize) -> Range<usize> {
        let units = len.div_ceil(self.unit);
        let start = |part: usize| len.min(units * part / self.parts * self.unit);
        start(index)..start(index + 1)
    }
}

/// How a kernel cuts its output, rows by columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Elements that are computed at once, in registers.
    pub tile: [usize; 2],
    /// Parts that are tasks of threads.
    pub parts: [usize; 2],
}

impl fmt::Display for Tiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tile: [rows, columns], parts: [down, across] } = self;
        write!(f, "tiles of {rows}x{columns}, {down}x{across} parts")
    }
}

/// Cuts a `rows` x `columns` matrix with row stride `stride` into blocks and calls `body` for each that is not empty.
pub(crate) fn blocks<T: Send>(
    par: &dyn Parallel,
    data: &mut [T],
    stride: usize,
    (rows, columns): (usize, usize),
    cuts: (Cut, Cut),
    body: impl Fn(Block<'_, T>) + Sync,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(columns <= stride || rows == 1, "rows of {columns} elements overlap at stride {stride}");
    let fits = extent(rows, stride, columns).is_some_and(|extent| extent <= data.len());
    assert!(fits, "{rows} x {columns} at stride {stride} exceeds {}", data.len());
    let base = Base(data.as_mut_ptr());
    par.run(cuts.0.parts * cuts.1.parts, &|i| {
        let (rows, columns) = (cuts.0.part(i / cuts.1.parts, rows), cuts.1.part(i % cuts.1.parts, columns));
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        // SAFETY: the first row and column lie in the matrix, so this is in bounds by the assertion above. The parts of
        // a side do not overlap, and neither do rows, so the rectangles of different indices do not.
        let start = unsafe { base.get().add(rows.start * stride + columns.start) };
        body(Block { start, stride, rows, columns, held: PhantomData });
    });
}

/// Equal slices of scratch for the tasks that run at the same time.
pub(crate) struct Slots<'a, T> {
    base: Base<T>,
    len: usize,
    free: AtomicUsize,
    held: PhantomData<&'a mut [T]>,
}

impl<'a, T: Send> Slots<'a, T> {
    /// How many slots a given width needs.
    pub(crate) fn count(width: usize) -> usize {
        width.clamp(1, usize::BITS as usize)
    }

    /// `count(width)` slots of `len` elements each, out of `scratch`.
    pub(crate) fn new(scratch: &'a mut [T], len: usize, width: usize) -> Self {
        let count = Self::count(width);
        let enough = count.checked_mul(len).is_some_and(|needed| needed <= scratch.len());
        assert!(enough, "scratch has {} elements but {count} times {len} are needed", scratch.len());
        let free = if count == usize::BITS as usize { usize::MAX } else { (1 << count) - 1 };
        Self { base: Base(scratch.as_mut_ptr()), len, free: AtomicUsize::new(free), held: PhantomData }
    }

    /// Runs `body` with a slot of its own; waits for one if more tasks run than there are slots.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut [T]) -> R) -> R {
        let slot = loop {
            let free = self.free.load(Ordering::Acquire);
            let taken = free & free.wrapping_sub(1);
            if free == 0 {
                core::hint::spin_loop();
            } else if self.free.compare_exchange_weak(free, taken, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                break free.trailing_zeros() as usize;
            }
        };
        let _returned = Returned { free: &self.free, slot };
        // SAFETY: `new` checked that all slots are in bounds; the bit just taken makes this task the only holder.
        body(unsafe { core::slice::from_raw_parts_mut(self.base.get().add(slot * self.len), self.len) })
    }
}

/// Gives a slot back when its task ends, be it by a panic: others may wait for it.
struct Returned<'a> {
    free: &'a AtomicUsize,
    slot: usize,
}

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        self.free.fetch_or(1 << self.slot, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_parallel::Serial;

    #[test]
    fn pieces_are_whole_units_and_as_many_for_each_thread() {
        let threads = sconce_parallel::Pool::new(2);
        let pool = threads.lease();
        assert_eq!(piece(&pool, 47_040, 480, 16 * 1024), 12_000);
        assert_eq!(piece(&pool, 47_040, 1, 16 * 1024), 11_760);
        assert_eq!(piece(&pool, 8_000, 1, 16 * 1024), 8_000);
        assert_eq!(piece(&pool, 8_192, 1, 16 * 1024), 4_096);
        assert_eq!(piece(&Serial, 100_000, 1, 32 * 1024), 25_000);
        assert_eq!((piece(&pool, 0, 7, 10), piece(&pool, 3, 0, 0)), (7, 3));
    }

    #[test]
    fn chunks_cover_everything_once() {
        let mut data = vec![0usize; 10];
        chunks(&Serial, &mut data, 4, |i, chunk| chunk.iter_mut().for_each(|x| *x += i + 1));
        assert_eq!(data, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
    }

    #[cfg(feature = "std")]
    #[test]
    fn blocks_cover_the_matrix_once_and_leave_the_gaps() {
        let threads = sconce_parallel::Pool::new(3);
        let pool = threads.lease();
        let (rows, columns, stride) = (7, 5, 6);
        let mut data = vec![0; rows * stride];
        for cuts in
            [(Cut::every(3, rows), Cut::every(2, columns)), (Cut { parts: 3, unit: 2 }, Cut { parts: 4, unit: 3 })]
        {
            data.fill(0);
            blocks(&pool, &mut data, stride, (rows, columns), cuts, |mut block| {
                for row in block.rows.clone() {
                    block.row(row).iter_mut().for_each(|x| *x += 1);
                }
            });
            for (i, x) in data.iter().enumerate() {
                assert_eq!(*x, i32::from(i % stride < columns));
            }
        }
    }

    /// Rows that lie apart are runs of a dense matrix, too, of which copies hold 1024 elements at most.
    #[test]
    fn runs_are_those_of_a_dense_matrix() {
        for (rows, columns, stride, lengths) in [
            (5, 3, 3, &[15][..]),
            (5, 3, 4, &[15]),
            (5, 300, 301, &[900, 600]),
            (3, 1025, 1030, &[1025, 1025, 1025]),
            (3, 1025, 1025, &[3075]),
        ] {
            let mut data = vec![0; rows * stride];
            let cuts = (Cut::every(rows, rows), Cut::every(columns, columns));
            blocks(&Serial, &mut data, stride, (rows, columns), cuts, |mut block| {
                let mut found = Vec::new();
                block.each_run(0..rows, columns, |at, run| {
                    found.push(run.len());
                    run.iter_mut().enumerate().for_each(|(i, x)| *x += at + i + 1);
                });
                assert_eq!(found, lengths);
            });
            for (i, x) in data.iter().enumerate() {
                let (row, column) = (i / stride, i % stride);
                assert_eq!(*x, if column < columns { row * columns + column + 1 } else { 0 });
            }
        }
    }

    #[test]
    fn pixels_may_lie_apart_but_not_overlap() {
        let fits = |len: usize, pixels: usize, shape: (usize, usize)| {
            std::panic::catch_unwind(|| check_pixels(len, pixels, shape, &"a test")).is_ok()
        };
        assert!(fits(15, 5, (3, 3)) && fits(23, 5, (3, 5)) && fits(25, 5, (3, 5)) && fits(0, 0, (3, 5)));
        assert!(!fits(14, 5, (3, 3)) && !fits(16, 5, (3, 3)) && !fits(22, 5, (3, 5)) && !fits(26, 5, (3, 5)));
        assert!(!fits(9, 5, (3, 2)) && !fits(1, 0, (3, 5)) && !fits(5, usize::MAX, (3, 3)));
    }

    #[cfg(feature = "std")]
    #[test]
    fn slots_are_never_shared() {
        let threads = sconce_parallel::Pool::new(4);
        let pool = threads.lease();
        let mut scratch = vec![0usize; 2 * 8];
        // Fewer slots than threads: tasks wait.
        let slots = Slots::new(&mut scratch, 8, 2);
        pool.run(200, &|i| {
            slots.with(|slot| {
                slot.fill(i);
                std::thread::yield_now();
                assert!(slot.iter().all(|x| *x == i));
            })
        });
    }
}
