//! External data files (`.ptd`), as one map from names to bytes.
use crate::Error;
use crate::map::FileBytes;
use sconce_core::{DataLoader, NamedData, Part};
use sconce_format::ptd;

/// Several `.ptd` files together. An entry is counted over all files.
#[derive(Default)]
pub(crate) struct External {
    files: Vec<(ptd::Header, FileBytes)>,
}

impl External {
    /// Adds a file. A name may occur once.
    pub(crate) fn add(&mut self, name: &str, bytes: FileBytes) -> Result<(), Error> {
        let size = bytes.size();
        let invalid = |error| Error::Format { file: name.to_owned(), error };
        let header = ptd::Header::parse(bytes.bytes(), size).map_err(invalid)?;
        let file = ptd::File::parse(bytes.bytes(), header, size).map_err(invalid)?;
        for index in 0..file.len() {
            if self.find(file.key(index)).is_some() {
                return Err(Error::DuplicateData { file: name.to_owned(), key: file.key(index).to_owned() });
            }
        }
        self.files.push((header, bytes));
        Ok(())
    }

    /// Adds the files of another. Of equal names the first counts.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.files.append(&mut other.files);
    }

    /// The first and last bytes of every entry.
    pub(crate) fn samples(&self, bytes: usize) -> impl Iterator<Item = &[u8]> {
        let entries = self.views().map(|(file, _)| file.len()).sum::<usize>();
        let all = (0..u32::try_from(entries).unwrap_or(u32::MAX)).filter_map(|entry| self.bytes(entry));
        all.flat_map(move |all| [&all[..bytes.min(all.len())], &all[all.len().saturating_sub(bytes)..]])
    }

    fn views(&self) -> impl Iterator<Item = (ptd::File<'_>, &FileBytes)> {
        self.files.iter().map(|(header, bytes)| (ptd::File::reopen(bytes.bytes(), *header), bytes))
    }

    fn entry(&self, entry: u32) -> Option<(ptd::File<'_>, &FileBytes, usize)> {
        let mut index = usize::try_from(entry).ok()?;
        for (file, bytes) in self.views() {
            if index < file.len() {
                return Some((file, bytes, index));
            }
            index -= file.len();
        }
        None
    }
}

impl NamedData for External {
    fn find(&self, key: &str) -> Option<u32> {
        let mut first = 0;
        for (file, _) in self.views() {
            if let Some(index) = file.find(key) {
                return u32::try_from(first + index).ok();
            }
            first += file.len();
        }
        None
    }

    fn bytes(&self, entry: u32) -> Option<&[u8]> {
        let (file, bytes, index) = self.entry(entry)?;
        let range = file.range(index);
        bytes.load(range.start, range.end.saturating_sub(range.start), Part::Constant)
    }

    fn layout(&self, entry: u32) -> Option<ptd::TensorLayout<'_>> {
        let (file, _, index) = self.entry(entry)?;
        file.layout(index)
    }

    fn release(&self, entry: u32) {
        if let Some((file, bytes, index)) = self.entry(entry) {
            let range = file.range(index);
            bytes.release(range.start, range.end.saturating_sub(range.start));
        }
    }
}
