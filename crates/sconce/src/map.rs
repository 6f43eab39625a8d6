//! Files as memory.
#![allow(unsafe_code)] // The memory map.
use crate::buffer::Buffer;
use sconce_core::{DataLoader, Part};
use std::fs::File;
use std::io;
use std::path::Path;

/// A whole file in memory, mapped or copied.
pub(crate) enum FileBytes {
    Mapped(memmap2::Mmap),
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
        Ok(Self::Mapped(unsafe { memmap2::Mmap::map(&file)? }))
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
}
