//! Bytes whose start is aligned for any vector instruction.

const ALIGN: usize = 64;

/// Less than this is not worth a mapping of its own.
const WORTH_MAPPING: usize = 256 * 1024;

/// Bytes in memory, aligned as programs and tensors want them.
#[derive(Debug)]
pub struct Buffer {
    held: Held,
    start: usize,
    len: usize,
}

/// Where bytes come from.
#[derive(Debug)]
enum Held {
    Heap(Vec<u8>),
    Mapped(memmap2::MmapMut),
}

impl Buffer {
    /// `len` zero bytes; `None` when the memory is not to be had.
    pub fn zeroed(len: usize) -> Option<Self> {
        let all = len.checked_add(ALIGN)?;
        // Only asks whether there is such memory; zeros that nobody has touched yet cost nothing.
        Vec::<u8>::new().try_reserve_exact(all).ok()?;
        let bytes = vec![0; all];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Some(Self { held: Held::Heap(bytes), start, len })
    }

    /// The same, for memory of which perhaps little is ever used: pages that nobody touches are never there.
    pub(crate) fn reserved(len: usize) -> Option<Self> {
        if len < WORTH_MAPPING {
            return Self::zeroed(len);
        }
        let map = memmap2::MmapMut::map_anon(len).ok()?;
        Some(Self { held: Held::Mapped(map), start: 0, len })
    }

    /// A copy of `bytes`; `None` when the memory is not to be had.
    pub fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.as_mut().copy_from_slice(bytes);
        Some(buffer)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        let bytes: &[u8] = match &self.held {
            Held::Heap(bytes) => bytes,
            Held::Mapped(map) => map,
        };
        &bytes[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = match &mut self.held {
            Held::Heap(bytes) => bytes,
            Held::Mapped(map) => map,
        };
        &mut bytes[self.start..self.start + self.len]
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::copy_of(self.as_ref()).expect("memory for a copy of a tensor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_aligned_and_survives_clones() {
        for len in [0, 1, 63, 64, 1000] {
            let mut buffer = Buffer::zeroed(len).unwrap();
            buffer.as_mut().fill(3);
            let clone = buffer.clone();
            assert_eq!(clone.as_ref(), vec![3; len]);
            assert_eq!(clone.as_ref().as_ptr() as usize % ALIGN, 0);
        }
        assert!(Buffer::zeroed(usize::MAX).is_none());
    }

    #[test]
    fn reserved_bytes_are_zero_and_aligned() {
        for len in [0, 1, WORTH_MAPPING - 1, WORTH_MAPPING, 3 * WORTH_MAPPING + 5] {
            let mut buffer = Buffer::reserved(len).unwrap();
            assert!(buffer.as_ref().len() == len && buffer.as_ref().iter().all(|&byte| byte == 0));
            assert_eq!(buffer.as_ref().as_ptr() as usize % ALIGN, 0);
            buffer.as_mut().fill(7);
            assert_eq!(buffer.clone().as_ref(), vec![7; len]);
        }
        assert!(Buffer::reserved(usize::MAX).is_none());
    }
}
