//! Files as memory.
#![allow(unsafe_code)] // The memory map.
use crate::buffer::Buffer;
use sconce_core::{DataLoader, Part};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a file that are read ahead: asking for more takes long itself.
#[cfg(unix)]
const MOST_AHEAD: usize = 512 << 20;
/// Bytes whose pages are asked for together by a thread aside: others may wait for it who map something.
#[cfg(target_os = "linux")]
const TOGETHER: usize = 512 * 1024;

/// A whole file in memory, mapped or copied.
pub(crate) enum FileBytes {
    Mapped(Arc<memmap2::Mmap>),
    Copied(Buffer),
}

impl FileBytes {
    /// Maps a file. It must not change while it is mapped.
    pub(crate) fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Self::from_bytes(&[]);
        }
        // SAFETY: sound as long as nobody changes or shortens the file while it is mapped, which the documentation of
        // `Module::load` asks for; `Options::copy` is for callers who cannot promise it.
        Ok(Self::Mapped(Arc::new(unsafe { memmap2::Mmap::map(&file)? })))
    }

    /// Wishes that reading starts now and goes on while the program is checked and planned.
    pub(crate) fn read_ahead(&self) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            let _ = map.advise_range(memmap2::Advice::WillNeed, 0, map.len().min(MOST_AHEAD));
        }
    }

    /// Wishes that a part of the file, which will be needed from front to back, is read and its pages are there before
    /// somebody touches them: every touch of a page that is not is an interruption. Goes on while the caller does, and ends
    /// with the last who has the file.
    pub(crate) fn fetch(&self, part: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Self::Mapped(map) = self {
            let (map, part) = (map.clone(), part.start.min(map.len())..part.end.min(map.len()));
            sconce_parallel::aside(move || {
                let ahead = part.len().min(MOST_AHEAD);
                let _ = map.advise_range(memmap2::Advice::WillNeed, part.start, ahead);
                for start in part.clone().step_by(TOGETHER).take_while(|_| Arc::strong_count(&map) > 1) {
                    let bytes = TOGETHER.min(part.end - start);
                    let _ = map.advise_range(memmap2::Advice::PopulateRead, start, bytes);
                }
            });
        }
        #[cfg(not(target_os = "linux"))]
        let _ = part;
    }

    /// Reads a file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Self::from_bytes(&std::fs::read(path)?)
    }

    /// Copies bytes to where they are aligned.
    pub(crate) fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        Buffer::copy_of(bytes).map(Self::Copied).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Copied(buffer) => buffer.as_ref(),
        }
    }
}

impl DataLoader for FileBytes {
    fn size(&self) -> u64 {
        sconce_core::Bytes(self.bytes()).size()
    }

    fn load(&self, offset: u64, len: u64, _part: Part) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.bytes().get(start..end)
    }

    fn release(&self, offset: u64, len: u64) {
        let Self::Mapped(map) = self else { return };
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
}
