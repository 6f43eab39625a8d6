//! Files as memory.
#![allow(unsafe_code)] // The memory map.
use crate::buffer::Buffer;
use sconce_core::{Bytes, DataLoader, Part};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes at the start of a file that are read in any case.
const HEAD: u64 = 128 * 1024;
/// Bytes that are worth a page of their own.
#[cfg(unix)]
const FEW: usize = 4096;
/// Prefetch at most this many single pages; after the first run they are usually resident.
const MOST_WISHES: usize = 4096;
/// Bytes of a file that are read ahead: asking for more takes long itself.
const MOST_AHEAD: usize = 512 << 20;

/// A whole file in memory, mapped or copied.
pub(crate) enum FileBytes {
    Mapped(Arc<Mapped>),
    Copied(Buffer),
}

/// A file that is mapped.
pub(crate) struct Mapped {
    pub(crate) map: memmap2::Mmap,
    #[cfg_attr(
        not(any(unix, feature = "engine")),
        expect(dead_code, reason = "read where files can be read at a place")
    )]
    pub(crate) file: File,
    /// How often somebody was about to read something.
    wishes: AtomicUsize,
}

impl FileBytes {
    /// Maps a file. It must not change while it is mapped. Until somebody says that more will be needed
    /// ([`FileBytes::read_ahead`]), what is touched is read and nothing around it: systems may read megabytes for a page.
    pub(crate) fn map(path: &Path) -> io::Result<Self> {
        let mapped = Self::map_quietly(path)?;
        mapped.look(HEAD);
        Ok(mapped)
    }

    /// Maps a file of which nothing is read yet.
    pub(crate) fn map_quietly(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        if about.len() == 0 {
            return Self::from_bytes(&[]);
        }
        // SAFETY: sound as long as nobody changes or shortens the file while it is mapped, which the documentation of
        // `Module::load` asks for; `Options::copy` is for callers who cannot promise it.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Random);
        Ok(Self::Mapped(Arc::new(Mapped { map, file, wishes: AtomicUsize::new(0) })))
    }

    /// Wishes that reading of the first bytes starts now.
    pub(crate) fn look(&self, bytes: u64) {
        if let Self::Mapped(mapped) = self {
            mapped.will_need(0..usize::try_from(bytes).unwrap_or(usize::MAX).min(mapped.map.len()));
        }
    }

    /// Wishes that reading starts now and goes on while the program is checked and planned.
    pub(crate) fn read_ahead(&self) {
        #[cfg(unix)]
        if let Self::Mapped(mapped) = self {
            let _ = mapped.map.advise(memmap2::Advice::Normal);
            mapped.will_need(0..mapped.map.len());
        }
    }

    /// Reads a file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Self::from_bytes(&std::fs::read(path)?)
    }

    /// Copies bytes to where they are aligned.
    pub(crate) fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        Buffer::copy_of(bytes).map(Self::Copied).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// When the file was last written, in nanoseconds, as far as that is known.
    #[cfg(feature = "engine")]
    pub(crate) fn written(&self) -> Option<u128> {
        let Self::Mapped(mapped) = self else { return None };
        let time = mapped.file.metadata().ok()?.modified().ok()?;
        time.duration_since(std::time::UNIX_EPOCH).ok().map(|time| time.as_nanos())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => &mapped.map,
            Self::Copied(buffer) => buffer.as_ref(),
        }
    }
}

impl Mapped {
    /// Wishes that reading of these bytes starts now.
    pub(crate) fn will_need(&self, part: Range<usize>) {
        let length = part.len().min(MOST_AHEAD);
        // Unlike advice for a map, this waits for nobody who maps something.
        #[cfg(target_os = "linux")]
        if let length @ Some(_) = std::num::NonZeroU64::new(length as u64) {
            let _ = rustix::fs::fadvise(&self.file, part.start as u64, length, rustix::fs::Advice::WillNeed);
        }
        #[cfg(all(unix, not(target_os = "linux")))]
        let _ = self.map.advise_range(memmap2::Advice::WillNeed, part.start, length);
        #[cfg(not(unix))]
        let _ = (part, length);
    }
}

impl DataLoader for FileBytes {
    fn size(&self) -> u64 {
        Bytes(self.bytes()).size()
    }

    fn load(&self, offset: u64, len: u64, _part: Part) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.bytes().get(start..end)
    }

    /// Few bytes are read from the file: a page that is mapped for them costs more, and stays.
    #[cfg(unix)]
    fn load_into(&self, offset: u64, into: &mut [u8], part: Part) -> Option<()> {
        use std::os::unix::fs::FileExt as _;
        match self {
            Self::Mapped(mapped) if into.len() < FEW => mapped.file.read_exact_at(into, offset).ok(),
            _ => Bytes(self.bytes()).load_into(offset, into, part),
        }
    }

    fn will_read(&self, bytes: &[u8]) {
        let Self::Mapped(mapped) = self else { return };
        let start = bytes.as_ptr().addr().wrapping_sub(mapped.map.as_ptr().addr());
        let inside = start.checked_add(bytes.len()).filter(|end| *end <= mapped.map.len());
        if let Some(end) = inside.filter(|_| mapped.wishes.fetch_add(1, Ordering::Relaxed) < MOST_WISHES) {
            mapped.will_need(start..end);
            #[cfg(feature = "engine")]
            crate::prefetch::pause_for(mapped, end.saturating_sub(1));
        }
    }

    fn release(&self, offset: u64, len: u64) {
        let Self::Mapped(mapped) = self else { return };
        let map = &mapped.map;
        let Some(pages) = whole_pages(offset, len, map.len()) else { return };
        #[cfg(unix)]
        // SAFETY: the map is only read, and comes from a file that does not change: what is read of these pages after this
        // is what was there before. Others may read them meanwhile.
        let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, pages.start, pages.len()) };
        #[cfg(not(unix))]
        let _ = pages;
    }
}

/// The whole pages of a range of a file. Pages may be larger, which makes the range less whole, but no less right.
fn whole_pages(offset: u64, len: u64, size: usize) -> Option<Range<usize>> {
    const PAGE: usize = 4096;
    let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(len)?).ok()?);
    let (start, end) = (start.checked_next_multiple_of(PAGE)?, end.min(size) / PAGE * PAGE);
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_inside_the_file_are_released() {
        assert_eq!(whole_pages(0, 4096, 10_000), Some(0..4096));
        assert_eq!(whole_pages(1, 8192, 10_000), Some(4096..8192));
        assert_eq!(whole_pages(1, 4096, 10_000), None);
        assert_eq!(whole_pages(4096, u64::MAX, 10_000), None);
        assert_eq!(whole_pages(4096, 1 << 40, 10_000), Some(4096..8192));
        assert_eq!(whole_pages(1 << 40, 4096, 10_000), None);
    }

    #[test]
    fn released_bytes_are_still_there() {
        let path = std::env::temp_dir().join(format!("sconce-release-{}", std::process::id()));
        let content: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = FileBytes::map(&path).unwrap();
        assert_eq!(file.bytes(), content);
        for (offset, len) in [(0, 50_000), (5000, 20_000), (49_999, 1), (60_000, 5), (0, u64::MAX)] {
            file.release(offset, len);
            assert_eq!(file.bytes(), content);
        }
        drop(file);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn wishes_are_for_bytes_of_the_file() {
        let path = std::env::temp_dir().join(format!("sconce-wishes-{}", std::process::id()));
        std::fs::write(&path, vec![1; 50_000]).unwrap();
        let file = FileBytes::map(&path).unwrap();
        let FileBytes::Mapped(mapped) = &file else { panic!("a file that is not mapped") };
        for (bytes, wishes) in [(&file.bytes()[100..200], 1), (&[1; 10], 1), (&file.bytes()[49_999..], 2), (&[], 2)] {
            file.will_read(bytes);
            assert_eq!(mapped.wishes.load(Ordering::Relaxed), wishes);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
