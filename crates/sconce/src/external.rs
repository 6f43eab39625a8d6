//! External data files (`.ptd` and GGUF), as one map from names to bytes.
use crate::Error;
use crate::map::FileBytes;
#[cfg(feature = "engine")]
use crate::prefetch::Prefetch;
use sconce_core::{DataLoader, NamedData, Part};
use sconce_format::{gguf, ptd};
use std::collections::HashMap;
use std::ops::Range;

/// Several files together. An entry is counted over all files.
#[derive(Default)]
pub(crate) struct External {
    files: Vec<(Index, FileBytes)>,
}

/// What is where in a file. Layers ask for their entries in every run, so all that is asked then is known here.
struct Index {
    /// Entries by name: a file lists them in no order.
    places: HashMap<String, usize>,
    ranges: Vec<Range<u64>>,
    /// That of a `.ptd`. GGUF has no layouts of torch: its data are for delegates, which know what they want.
    header: Option<ptd::Header>,
}

impl Index {
    fn parse(file: &FileBytes) -> Result<Self, sconce_format::Error> {
        let (size, bytes) = (file.size(), file.bytes());
        if gguf::File::begins(bytes) {
            return gguf::File::parse(bytes).map(|file| Self::of_gguf(&file));
        }
        let header = ptd::Header::parse(bytes, size)?;
        file.look(header.loaded_size());
        let data = ptd::File::parse(bytes, header, size)?;
        // Of equal names the first counts.
        let places = (0..data.len()).rev().map(|index| (data.key(index).to_owned(), index)).collect();
        Ok(Self { places, ranges: (0..data.len()).map(|index| data.range(index)).collect(), header: Some(header) })
    }

    /// Tensors of types that are not known are left out.
    fn of_gguf(file: &gguf::File<'_>) -> Self {
        let known = file.tensors().iter().filter_map(|tensor| Some((tensor.name, tensor.range.clone()?)));
        let (names, ranges): (Vec<_>, Vec<_>) = known.unzip();
        let places = names.into_iter().enumerate().map(|(index, name)| (name.to_owned(), index)).collect();
        Self { places, ranges, header: None }
    }
}

impl External {
    /// Adds a file. A name may occur once.
    pub(crate) fn add(&mut self, name: &str, bytes: FileBytes) -> Result<(), Error> {
        let index = Index::parse(&bytes).map_err(|error| Error::Format { file: name.to_owned(), error })?;
        if let Some(key) = index.places.keys().find(|key| self.find(key).is_some()) {
            return Err(Error::DuplicateData { file: name.to_owned(), key: key.to_owned() });
        }
        self.files.push((index, bytes));
        Ok(())
    }

    /// Adds the files of another. Of equal names the first counts.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.files.append(&mut other.files);
    }

    /// Wishes that the entries whose names start so are at hand; they lie together, in the order in which they are needed.
    /// Says how many there are.
    #[cfg(feature = "engine")]
    pub(crate) fn take_ahead(&self, prefix: &str, ahead: &mut Prefetch) -> usize {
        let mut count = 0;
        for (file, bytes) in &self.files {
            let named = file.places.iter().filter(|(key, _)| key.starts_with(prefix));
            let ranges = named.map(|(_, &index)| file.ranges[index].clone()).inspect(|_| count += 1);
            let all = ranges.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
            all.iter().for_each(|all| ahead.take(bytes, all));
        }
        count
    }

    /// Whether there is no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The first and last bytes of every entry.
    #[cfg(feature = "engine")]
    pub(crate) fn samples(&self, bytes: usize) -> impl Iterator<Item = &[u8]> {
        let entries = self.files.iter().map(|(file, _)| file.ranges.len()).sum::<usize>();
        let all = (0..u32::try_from(entries).unwrap_or(u32::MAX)).filter_map(|entry| self.bytes(entry));
        all.flat_map(move |all| [&all[..bytes.min(all.len())], &all[all.len().saturating_sub(bytes)..]])
    }

    /// The files.
    #[cfg(feature = "engine")]
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileBytes> {
        self.files.iter().map(|(_, bytes)| bytes)
    }

    /// Names and bytes of all entries, file by file, in the order of their names.
    #[cfg(feature = "engine")]
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().flat_map(|(file, bytes)| {
            let mut places: Vec<_> = file.places.iter().collect();
            places.sort_unstable();
            places.into_iter().filter_map(|(name, &index)| {
                let Range { start, end } = file.ranges[index].clone();
                Some((name.as_str(), bytes.load(start, end.saturating_sub(start), Part::Constant)?))
            })
        })
    }

    /// The file of an entry, and its number there.
    fn entry(&self, entry: u32) -> Option<(&Index, &FileBytes, usize)> {
        let mut index = usize::try_from(entry).ok()?;
        for (file, bytes) in &self.files {
            if index < file.ranges.len() {
                return Some((file, bytes, index));
            }
            index -= file.ranges.len();
        }
        None
    }
}

impl NamedData for External {
    fn find(&self, key: &str) -> Option<u32> {
        let mut first = 0;
        for (file, _) in &self.files {
            if let Some(index) = file.places.get(key) {
                return u32::try_from(first + index).ok();
            }
            first += file.ranges.len();
        }
        None
    }

    fn bytes(&self, entry: u32) -> Option<&[u8]> {
        let (file, bytes, index) = self.entry(entry)?;
        let range = file.ranges.get(index)?;
        bytes.load(range.start, range.end.saturating_sub(range.start), Part::Constant)
    }

    fn layout(&self, entry: u32) -> Option<ptd::TensorLayout<'_>> {
        let (file, bytes, index) = self.entry(entry)?;
        ptd::File::reopen(bytes.bytes(), file.header?).layout(index)
    }

    fn release(&self, entry: u32) {
        if let Some((file, bytes, index)) = self.entry(entry) {
            let range = &file.ranges[index];
            bytes.release(range.start, range.end.saturating_sub(range.start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_format::ptd::model::{Data, Entry};

    fn bytes(file: &[u8]) -> FileBytes {
        FileBytes::from_bytes(file).unwrap()
    }

    fn data_file(key: &str) -> FileBytes {
        let entry = Entry { key: key.to_owned(), data: vec![7; 5].into(), layout: None };
        bytes(&Data { version: 0, entries: vec![entry] }.write())
    }

    /// A GGUF file of one tensor: two numbers.
    fn weights(name: &str) -> Vec<u8> {
        let mut file = Vec::from(*b"GGUF\x03\0\0\0");
        for number in [1, 0, name.len() as u64] {
            file.extend(number.to_le_bytes());
        }
        file.extend(name.as_bytes());
        file.extend([1u32, 2, 0, 0, 0, 0].iter().flat_map(|number| number.to_le_bytes()));
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend([1.5f32, -2.0].iter().flat_map(|number| number.to_le_bytes()));
        file
    }

    #[test]
    fn files_of_both_kinds_are_one_map() {
        let mut external = External::default();
        external.add("a.ptd", data_file("a")).unwrap();
        external.add("b.gguf", bytes(&weights("b.weight"))).unwrap();
        assert_eq!(external.find("a").and_then(|entry| external.bytes(entry)), Some(&[7; 5][..]));
        let entry = external.find("b.weight").unwrap();
        let expected = [1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat();
        assert_eq!(external.bytes(entry), Some(&expected[..]));
        assert!(external.layout(entry).is_none());
        external.release(entry);
        assert_eq!(external.find("c"), None);
        #[cfg(feature = "engine")]
        assert_eq!(external.samples(2).count(), 4);
    }

    #[test]
    fn a_name_occurs_once_and_broken_files_are_named() {
        let mut external = External::default();
        external.add("a.ptd", data_file("b.weight")).unwrap();
        let again = external.add("b.gguf", bytes(&weights("b.weight"))).unwrap_err();
        assert!(again.to_string().contains("b.weight"), "{again}");
        let whole = weights("c");
        let short = external.add("c.gguf", bytes(&whole[..whole.len() - 1])).unwrap_err();
        assert!(short.to_string().starts_with("c.gguf: tensor 0: it ends at byte"), "{short}");
    }
}
