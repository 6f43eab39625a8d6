//! Prefetch of mapped files.
//!
//! Every access to a page that is not resident faults, and a disk reads many pages as fast as one. So parts that will be
//! looked at are prefetched together, and parts that will be used whole are mapped by a background thread. The thread stops
//! when it holds the last reference to a file, and pauses while a caller waits for single pages.
//!
//! The thread touches pages. Advice for many pages at a time would take twice as long, and would block everybody who maps
//! memory meanwhile for up to five milliseconds; a fault maps the pages around it, too.
use crate::map::{FileBytes, Mapped};
#[cfg(target_os = "linux")]
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that Linux maps around a faulting page by default.
#[cfg(target_os = "linux")]
const AROUND: usize = 64 * 1024;
/// Bytes of a part whose read-ahead is started before the first page is touched (see [`begin`]).
#[cfg(target_os = "linux")]
const BEGINNING: usize = 8 << 20;
/// Bytes read per descriptor.
#[cfg(target_os = "linux")]
const PIECE: usize = 1 << 20;
/// Bytes of a piece that are touched page by page.
#[cfg(target_os = "linux")]
const CLOSELY: usize = 256 * 1024;
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;
/// Stride of touches after these.
#[cfg(target_os = "linux")]
const RUN: usize = 64 * 1024;
/// Parts of a file that are nearer to each other than this are prefetched as one.
const NEAR: usize = 16 * 1024;

/// Parts of files that will be needed soon, in this order.
#[derive(Default)]
pub(crate) struct Prefetch(Vec<Wish>);

struct Wish {
    file: Arc<Mapped>,
    part: Range<usize>,
    /// Whether its pages are mapped, too, because all of them will be touched.
    whole: bool,
}

impl Prefetch {
    /// A part that will be looked at.
    pub(crate) fn look(&mut self, file: &FileBytes, part: &Range<u64>) {
        self.add(file, part, false);
    }

    /// A part all of which will be used.
    pub(crate) fn take(&mut self, file: &FileBytes, part: &Range<u64>) {
        self.add(file, part, true);
    }

    fn add(&mut self, file: &FileBytes, part: &Range<u64>, whole: bool) {
        let FileBytes::Mapped(file) = file else { return };
        let length = file.map.len();
        let inside = |at: u64| usize::try_from(at).map_or(length, |at| at.min(length));
        let part = inside(part.start)..inside(part.end);
        if part.is_empty() {
            return;
        }
        match self.0.last_mut().filter(|last| last.takes(file, &part, whole)) {
            Some(last) => last.part.end = last.part.end.max(part.end),
            None => self.0.push(Wish { file: file.clone(), part, whole }),
        }
    }

    /// Starts to fetch all of it.
    pub(crate) fn fetch(self) {
        let (whole, looks): (Vec<_>, Vec<_>) = self.0.into_iter().partition(|wish| wish.whole);
        looks.into_iter().for_each(|Wish { file, part, .. }| file.will_need(part));
        if !whole.is_empty() {
            sconce_parallel::aside(move || whole.into_iter().for_each(|Wish { file, part, .. }| take(&file, part)));
        }
    }
}

impl Wish {
    /// Whether a part is fetched together with this one: it starts in it, or not far behind it.
    fn takes(&self, file: &Arc<Mapped>, part: &Range<usize>, whole: bool) -> bool {
        let near = self.part.start..=self.part.end.saturating_add(NEAR);
        Arc::ptr_eq(&self.file, file) && self.whole == whole && near.contains(&part.start)
    }
}

#[cfg(target_os = "linux")]
fn take(file: &Arc<Mapped>, part: Range<usize>) {
    let _ = file.map.advise_range(memmap2::Advice::Normal, part.start, part.len());
    if !begin(file, part.clone()) {
        file.will_need(part.clone());
    }
    *waited_for() = Some(Vec::new());
    for at in part.step_by(AROUND).take_while(|_| Arc::strong_count(file) > 1) {
        let first = waited_for().as_mut().map(std::mem::take).unwrap_or_default();
        first.iter().for_each(|(file, at)| touch(file, *at));
        touch(file, at);
    }
    *waited_for() = None;
}

#[cfg(target_os = "linux")]
fn touch(file: &Mapped, at: usize) {
    std::hint::black_box(file.map.get(at).copied());
}

/// Places in files, one in each part that a caller waits for.
#[cfg(target_os = "linux")]
type Places = Vec<(Arc<Mapped>, usize)>;

/// What callers wait for while a file is mapped. The thread reads that first: a disk's queue favours neighbours of what it read
/// last, so a single page elsewhere would be served after the whole file.
#[cfg(target_os = "linux")]
static WAITED_FOR: Mutex<Option<Places>> = Mutex::new(None);

#[cfg(target_os = "linux")]
fn waited_for() -> MutexGuard<'static, Option<Places>> {
    WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that the caller is about to fault on the page at this place, which was prefetched.
pub(crate) fn pause_for(file: &Arc<Mapped>, at: usize) {
    #[cfg(target_os = "linux")]
    waited_for().iter_mut().for_each(|places| places.push((file.clone(), at)));
    #[cfg(not(target_os = "linux"))]
    let _ = (file, at);
}

/// Starts sequential read-ahead of a part without blocking; whether the system can do that.
///
/// Advice requests single pages at once, and some disks complete none before the last. Sequential reads trigger the kernel's
/// read-ahead instead, whose window grows, which takes half as long. Of a large part this is the beginning; the rest follows
/// as its pages are mapped. By then other threads compute and this one may be scheduled late, so the disk needs a queue.
///
/// Read-ahead state is per descriptor, so each piece gets its own and the window stays small: large folios are slow to
/// allocate on virtual machines with ballooned memory.
#[cfg(target_os = "linux")]
fn begin(mapped: &Mapped, part: Range<usize>) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    use std::os::fd::AsRawFd as _;
    if !reads_ahead_without_waiting() {
        return false;
    }
    let path = format!("/proc/self/fd/{}", mapped.file.as_raw_fd());
    let end = part.end.min(part.start + BEGINNING);
    for start in (part.start..end).step_by(PIECE) {
        let Ok(file) = File::open(&path) else { return false };
        let end = end.min(start + PIECE);
        let closely = end.min(start + CLOSELY);
        let mut is_there = true;
        for at in (start..closely).step_by(PAGE).chain((closely..end).step_by(RUN)) {
            match preadv2(&file, &mut [std::io::IoSliceMut::new(&mut [0])], at as u64, ReadWriteFlags::NOWAIT) {
                Ok(_) => {}
                Err(Errno::AGAIN) => is_there = false,
                Err(_) => return false,
            }
        }
        if is_there {
            break; // So is the rest, as a rule.
        }
    }
    true
}

/// Whether the system reads ahead for those, too, who do not wait for what they read, and in larger runs of pages than one.
/// Linux does since 5.18.
#[cfg(target_os = "linux")]
fn reads_ahead_without_waiting() -> bool {
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *KNOWN.get_or_init(|| is_since_5_18(rustix::system::uname().release().to_bytes()))
}

/// Whether a release of the kernel, such as `6.1.0-13-amd64`, is that one or a later one.
#[cfg(target_os = "linux")]
fn is_since_5_18(release: &[u8]) -> bool {
    let numbers = release.split(|byte| !byte.is_ascii_digit()).take(2);
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u32>().ok();
    let numbers: Vec<_> = numbers.map_while(number).collect();
    numbers.len() == 2 && numbers >= vec![5, 18]
}

#[cfg(not(target_os = "linux"))]
fn take(file: &Arc<Mapped>, part: Range<usize>) {
    #[cfg(unix)]
    let _ = file.map.advise(memmap2::Advice::Normal);
    file.will_need(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_parts_are_asked_for_together_and_stay_inside_the_file() {
        let path = std::env::temp_dir().join(format!("sconce-ahead-{}", std::process::id()));
        std::fs::write(&path, vec![0; 100_000]).unwrap();
        let file = FileBytes::map(&path).unwrap();
        let mut ahead = Prefetch::default();
        for part in [0..64, 1000..1064, 50_000..50_064, 50_010..50_020, 90_000..u64::MAX, 200_000..300_000] {
            ahead.look(&file, &part);
        }
        ahead.take(&file, &(90_000..90_001));
        let parts: Vec<_> = ahead.0.iter().map(|wish| (wish.part.clone(), wish.whole)).collect();
        let looks = [0..1064, 50_000..50_064, 90_000..100_000].map(|part| (part, false));
        assert_eq!(parts, [&looks[..], &[(90_000..90_001, true)]].concat());
        ahead.fetch();
        std::fs::remove_file(&path).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn releases_are_compared_by_numbers() {
        for (release, since) in [("5.18.0", true), ("6.1.0-13-amd64", true), ("5.4.0", false), ("5.17-rc1", false)] {
            assert_eq!(is_since_5_18(release.as_bytes()), since, "{release}");
        }
        assert!(!is_since_5_18(b"") && !is_since_5_18(b"6") && is_since_5_18(b"10.0+"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn parts_of_any_length_can_be_begun() {
        let path = std::env::temp_dir().join(format!("sconce-begin-{}", std::process::id()));
        let content: Vec<u8> = (0..BEGINNING as u32 + 100).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let FileBytes::Mapped(mapped) = FileBytes::map(&path).unwrap() else { panic!("a file that is not mapped") };
        let ends =
            [0, 1, PAGE, CLOSELY - 1, CLOSELY, CLOSELY + 1, PIECE - 1, PIECE, PIECE + 1, BEGINNING, content.len()];
        for part in ends.into_iter().flat_map(|end| [0..end, end / 3..end]) {
            assert_eq!(begin(&mapped, part.clone()), reads_ahead_without_waiting(), "{part:?}");
        }
        assert!(*mapped.map == content[..]);
        std::fs::remove_file(&path).unwrap();
    }
}
