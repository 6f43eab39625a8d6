//! Bytes whose start is aligned for any vector instruction.

const ALIGN: usize = 64;

/// Bytes in memory, aligned as programs and tensors want them.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` zero bytes; `None` when the memory is not to be had.
    pub fn zeroed(len: usize) -> Option<Self> {
        let all = len.checked_add(ALIGN)?;
        // Only asks whether there is such memory; zeros that nobody has touched yet cost nothing.
        Vec::<u8>::new().try_reserve_exact(all).ok()?;
        let bytes = vec![0; all];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Some(Self { bytes, start, len })
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
        &self.bytes[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
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
}
