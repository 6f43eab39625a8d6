//! Zeroed memory for weights and arenas.
//!
//! A program's weights are most of its memory, and on the way to the first output much of the time goes to having that
//! memory at all: the system clears it page by page, as each is first touched, and every touch is a page fault. So
//! larger blocks are mapped, which leaves them untouched until they are filled, and the pages of what is about to be
//! filled are asked for together, where the system can do that. Better still if they come before they are needed, while
//! others load and plan: a thread aside asks for those of an arena that will be used soon.
//!
//! Large pages (2 MiB) would be fewer, and later, when the weights of a net pass by in every run, the processor finds its
//! way to them faster: nets of large weights gain up to a tenth. But on virtual machines that hand free ones back to their host,
//! those are the ones that must be fetched again, and the first run would take up to twice as long. So memory settles: later
//! runs bring some onto large pages, one after the other, until all are ([`Region::settle`]).
//!
//! Weights of all layers are cut from few such blocks. Reserving costs nothing: what of a block is not used is never
//! touched.

use super::ALIGN;
use memmap2::{MmapMut, MmapOptions};
use sconce_parallel::Parallel;
#[cfg(any(target_os = "linux", test))]
use sconce_parallel::Serial;
#[cfg(target_os = "linux")]
use sconce_parallel::aside;
use std::ops::Range;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Blocks of less than this come from the heap.
const WORTH_MAPPING: usize = 256 * 1024;
/// The most that is reserved beyond what is asked for, and that an arena is filled with at once.
const MOST_RESERVED: usize = 64 << 20;
/// Bytes of pages that are asked for together: whole pages, whatever their size.
#[cfg(target_os = "linux")]
const TOGETHER: usize = 2 << 20;
/// The same of a thread aside, which must not keep others waiting who map memory meanwhile.
#[cfg(target_os = "linux")]
const TOGETHER_ASIDE: usize = 256 * 1024;
/// The least size of a page, and that of a large one.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;
/// Brings a range onto large pages: known to Linux from 6.1 on, an error before.
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: libc::c_int = 25;

/// A block of memory, cut into parts that do not overlap.
#[derive(Debug)]
struct Region {
    start: *mut u8,
    bytes: usize,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "held until the block is dropped"))]
    held: Held,
    /// Large pages that were tried.
    #[cfg(target_os = "linux")]
    settled: AtomicUsize,
}

/// What keeps a block.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "held until the block is dropped"))]
enum Held {
    Mapped(MmapMut),
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "held until the block is dropped"))]
    Words(Vec<u64>),
}

// SAFETY: a region only carries the address; each part is touched through the one `Aligned` it was given to.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A block that is mapped; `None` where there is no such thing.
    fn mapped(bytes: usize) -> Option<Self> {
        let mut map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon().ok()?;
        let start = map.as_mut_ptr();
        Some(Self::new(start, bytes, Held::Mapped(map)))
    }

    /// A block of the heap.
    fn plain(bytes: usize) -> Option<Self> {
        let length = bytes.div_ceil(8).checked_add(ALIGN / 8)?;
        let mut words = Vec::new();
        words.try_reserve_exact(length).ok()?;
        words.resize(length, 0u64);
        let start = words.as_mut_ptr();
        let start = start.wrapping_add(start.align_offset(ALIGN).min(ALIGN / 8)).cast();
        Some(Self::new(start, bytes, Held::Words(words)))
    }

    fn new(start: *mut u8, bytes: usize, held: Held) -> Self {
        Self {
            start,
            bytes,
            held,
            #[cfg(target_os = "linux")]
            settled: AtomicUsize::new(0),
        }
    }

    /// Asks for the pages of a part that is about to be filled. A wish: they come anyway when they are touched.
    #[cfg(target_os = "linux")]
    fn expect(&self, par: &dyn Parallel, part: Range<usize>) {
        let Held::Mapped(map) = &self.held else { return };
        // Neighbouring parts share a page; that of the start is there already, or comes with the first byte.
        let part = part.start.next_multiple_of(PAGE)..part.end;
        par.run(part.len().div_ceil(TOGETHER), &|index| {
            let start = part.start + index * TOGETHER;
            let _ = map.advise_range(memmap2::Advice::PopulateWrite, start, TOGETHER.min(part.end - start));
        });
    }

    #[cfg(not(target_os = "linux"))]
    fn expect(&self, _: &dyn Parallel, _: Range<usize>) {}

    /// Asks for all pages while the caller goes on, as long as somebody else has the block; whether that is done.
    #[cfg(target_os = "linux")]
    fn expect_aside(self: &Arc<Self>) -> bool {
        let region = self.clone();
        let all = region.bytes;
        matches!(region.held, Held::Mapped(_))
            && aside(move || {
                let parts = (0..all).step_by(TOGETHER_ASIDE).map(|start| start..all.min(start + TOGETHER_ASIDE));
                parts.take_while(|_| Arc::strong_count(&region) > 1).for_each(|part| region.expect(&Serial, part));
            })
    }

    #[cfg(not(target_os = "linux"))]
    fn expect_aside(self: &Arc<Self>) -> bool {
        false
    }

    /// Brings the next 2 MiB of the first `used` bytes onto a large page; whether there were any. A wish as well, and
    /// not repeated: systems may have no large page, or not know how.
    #[cfg(target_os = "linux")]
    fn settle(&self, used: usize) -> bool {
        let Held::Mapped(_) = &self.held else { return false };
        let start = self.start.addr();
        let page = start.next_multiple_of(LARGE_PAGE) - start + self.settled.load(Ordering::Relaxed) * LARGE_PAGE;
        if page + LARGE_PAGE > used.min(self.bytes) {
            return false;
        }
        self.settled.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the page lies in the block, which is mapped; what it holds and where it is seen does not change.
        unsafe { libc::madvise(self.start.wrapping_add(page).cast(), LARGE_PAGE, MADV_COLLAPSE) };
        true
    }

    #[cfg(not(target_os = "linux"))]
    fn settle(&self, _: usize) -> bool {
        false
    }
}

/// Bytes that start on a cache line.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    region: Option<Arc<Region>>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    /// So many zeros; `None` if there is no such memory.
    pub(crate) fn try_new(par: &dyn Parallel, bytes: usize) -> Option<Self> {
        let mapped = if bytes < WORTH_MAPPING { None } else { Region::mapped(bytes) };
        let region = mapped.or_else(|| Region::plain(bytes))?;
        if bytes <= MOST_RESERVED {
            region.expect(par, 0..bytes);
        }
        Some(Self { region: Some(Arc::new(region)), start: 0, bytes })
    }

    /// So many zeros that will be needed soon; `None` if there is nothing to be done about it yet.
    pub(crate) fn soon(bytes: usize) -> Option<Self> {
        let worth = (WORTH_MAPPING..=MOST_RESERVED).contains(&bytes);
        let region = Arc::new(worth.then(|| Region::mapped(bytes))??);
        region.expect_aside().then_some(Self { region: Some(region), start: 0, bytes })
    }

    /// Brings a little of it onto large pages; whether there was something left to do.
    pub(crate) fn settle(&self) -> bool {
        self.region.as_ref().is_some_and(|region| region.settle(self.start + self.bytes))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let Some(region) = &self.region else { return &[] };
        // SAFETY: the part lies in the region, whose bytes are zeros or what was written since, and no one else has it.
        unsafe { std::slice::from_raw_parts(region.start.add(self.start), self.bytes) }
    }

    /// The bytes, to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let Some(region) = &self.region else { return &mut [] };
        // SAFETY: as above; the exclusive borrow is that of the only `Aligned` for this part.
        unsafe { std::slice::from_raw_parts_mut(region.start.add(self.start), self.bytes) }
    }
}

/// Gives out zeros for weights.
#[derive(Debug)]
pub(crate) struct Store {
    /// How much is reserved at a time; nothing if it is not worth it.
    reserve: usize,
    /// All blocks, and how much of each is given out. The last one is in use.
    blocks: Mutex<Vec<(Arc<Region>, usize)>>,
}

impl Store {
    /// For about `expected` bytes in all.
    pub(crate) fn new(expected: usize) -> Self {
        let reserve = if expected < WORTH_MAPPING { 0 } else { expected.min(MOST_RESERVED) };
        Self { reserve, blocks: Mutex::default() }
    }

    /// So many zeros, for what is no larger than a few times the program itself.
    pub(crate) fn take(&self, par: &dyn Parallel, bytes: usize) -> Aligned {
        let lack = || panic!("there is no memory for {bytes} bytes of weights");
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |(region, used): &(Arc<Region>, usize)| region.bytes - used >= bytes;
        if self.reserve > 0 && !blocks.last().is_some_and(has_room) {
            blocks.extend(Region::mapped(bytes.max(self.reserve)).map(|region| (Arc::new(region), 0)));
        }
        match blocks.last_mut().filter(|block| has_room(block)) {
            Some((region, used)) => {
                let start = *used;
                *used = (start + bytes).next_multiple_of(ALIGN).min(region.bytes);
                region.expect(par, start..start + bytes);
                Aligned { region: Some(region.clone()), start, bytes }
            }
            None => Aligned::try_new(par, bytes).unwrap_or_else(lack),
        }
    }

    /// Brings a little of what was given out onto large pages; whether there was something left to do.
    pub(crate) fn settle(&self) -> bool {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().any(|(region, used)| region.settle(*used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_one_s_own() {
        for expected in [0, 1000, 3 << 20] {
            let store = Store::new(expected);
            let sizes = [0, 1, 63, 64, 65, 5000, 1 << 20, 3 << 20, 100, (2 << 20) + 1, 7];
            let mut parts: Vec<_> = sizes.iter().map(|&bytes| store.take(&Serial, bytes)).collect();
            for (index, (part, &bytes)) in parts.iter_mut().zip(&sizes).enumerate() {
                assert_eq!(part.bytes().len(), bytes);
                assert!(
                    part.bytes().as_ptr().addr().is_multiple_of(ALIGN) && part.bytes().iter().all(|&byte| byte == 0)
                );
                part.bytes_mut().fill(index as u8 + 1);
            }
            for (index, part) in parts.iter().enumerate() {
                assert!(part.bytes().iter().all(|&byte| byte == index as u8 + 1), "part {index} of {expected}");
            }
        }
    }

    #[test]
    fn settling_ends_and_changes_nothing() {
        let store = Store::new(9 << 20);
        let sizes = [5 << 20, 100, 4 << 20, 20 << 20];
        let mut parts: Vec<_> = sizes.iter().map(|&bytes| store.take(&Serial, bytes)).collect();
        let value = |index: usize| (index % 251) as u8;
        for part in &mut parts {
            part.bytes_mut().iter_mut().enumerate().for_each(|(index, byte)| *byte = value(index));
        }
        let steps = std::iter::from_fn(|| store.settle().then_some(())).take(100).count();
        // Of two blocks, 9 and 20 megabytes, all whole pages of two, wherever the first one starts.
        let pages = if cfg!(target_os = "linux") { 3 + 9..=4 + 10 } else { 0..=0 };
        assert!(pages.contains(&steps), "{steps} pages");
        let arena = Aligned::try_new(&Serial, 5 << 20).unwrap();
        let steps = std::iter::from_fn(|| arena.settle().then_some(())).take(100).count();
        assert!(if cfg!(target_os = "linux") { 1..=2 } else { 0..=0 }.contains(&steps), "{steps} pages");
        for part in parts {
            assert!(part.bytes().iter().enumerate().all(|(index, byte)| *byte == value(index)));
        }
        assert!(!Aligned::try_new(&Serial, 1000).unwrap().settle() && !Store::new(0).settle());
    }

    #[test]
    fn what_comes_soon_is_zero_and_keeps_what_is_written() {
        for bytes in [WORTH_MAPPING - 1, WORTH_MAPPING, (3 << 20) + 5] {
            let Some(mut soon) = Aligned::soon(bytes) else {
                // Only where pages are asked for aside, and where it is worth it.
                continue;
            };
            assert!(bytes >= WORTH_MAPPING && soon.bytes().len() == bytes);
            assert!(soon.bytes().iter().all(|&byte| byte == 0));
            soon.bytes_mut().fill(3);
            assert!(soon.bytes().iter().all(|&byte| byte == 3));
        }
        assert!(Aligned::soon(MOST_RESERVED + 1).is_none());
    }

    #[test]
    fn parts_outlive_their_store() {
        let part = Store::new(2 << 20).take(&Serial, 100);
        assert_eq!(part.bytes(), [0; 100]);
        assert!(Aligned::try_new(&Serial, usize::MAX).is_none());
        assert!(Aligned::default().bytes().is_empty());
    }
}
