//! External data files (`.ptd` and GGUF), as one map from names to bytes.
use crate::Error;
#[cfg(feature = "engine")]
use crate::ahead::Ahead;
use crate::map::FileBytes;
use sconce_core::{DataLoader, NamedData, Part};
use sconce_format::{gguf, ptd};
use std::collections::HashMap;
use std::ops::Range;

/// Several files together. An entry is counted over all files.
#[derive(Default)]
pub(crate) struct External {
    files: Vec<(Index, FileBytes)>,
}

/// What is where in a file.
enum Index {
    /// With the entries by name: the file lists them in no order.
    Ptd(ptd::Header, HashMap<String, usize>),
    Gguf(Names),
}

/// The tensors of a GGUF file by their names, as ranges of the file. Those of types that are not known are left out.
#[derive(Default)]
struct Names {
    places: HashMap<String, usize>,
    ranges: Vec<Range<u64>>,
}

/// A file that can be asked.
enum View<'a> {
    Ptd(ptd::File<'a>, &'a HashMap<String, usize>),
    Gguf(&'a Names),
}

impl Names {
    fn of(file: &gguf::File<'_>) -> Self {
        let mut names = Self::default();
        for (tensor, range) in file.tensors().iter().filter_map(|tensor| Some((tensor, tensor.range.clone()?))) {
            names.places.insert(tensor.name.to_owned(), names.ranges.len());
            names.ranges.push(range);
        }
        names
    }
}

impl<'a> View<'a> {
    fn len(&self) -> usize {
        match self {
            Self::Ptd(file, _) => file.len(),
            Self::Gguf(names) => names.ranges.len(),
        }
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &'a str> + 'a> {
        match *self {
            Self::Ptd(_, places) => Box::new(places.keys().map(String::as_str)),
            Self::Gguf(names) => Box::new(names.places.keys().map(String::as_str)),
        }
    }

    fn find(&self, key: &str) -> Option<usize> {
        match self {
            Self::Ptd(_, places) => places.get(key).copied(),
            Self::Gguf(names) => names.places.get(key).copied(),
        }
    }

    fn range(&self, index: usize) -> Range<u64> {
        match self {
            Self::Ptd(file, _) => file.range(index),
            Self::Gguf(names) => names.ranges.get(index).cloned().unwrap_or(0..0),
        }
    }

    /// GGUF has no layouts of torch: its data are for delegates, which know what they want.
    fn layout(&self, index: usize) -> Option<ptd::TensorLayout<'a>> {
        match self {
            Self::Ptd(file, _) => file.layout(index),
            Self::Gguf(_) => None,
        }
    }
}

impl Index {
    fn parse(file: &FileBytes) -> Result<Self, sconce_format::Error> {
        let (size, bytes) = (file.size(), file.bytes());
        if gguf::File::begins(bytes) {
            return gguf::File::parse(bytes).map(|file| Self::Gguf(Names::of(&file)));
        }
        let header = ptd::Header::parse(bytes, size)?;
        file.look(header.loaded_size());
        let data = ptd::File::parse(bytes, header, size)?;
        // Of equal names the first counts.
        let places = (0..data.len()).rev().map(|index| (data.key(index).to_owned(), index));
        Ok(Self::Ptd(header, places.collect()))
    }

    fn view<'a>(&'a self, bytes: &'a FileBytes) -> View<'a> {
        match self {
            Self::Ptd(header, places) => View::Ptd(ptd::File::reopen(bytes.bytes(), *header), places),
            Self::Gguf(names) => View::Gguf(names),
        }
    }
}

impl External {
    /// Adds a file. A name may occur once.
    pub(crate) fn add(&mut self, name: &str, bytes: FileBytes) -> Result<(), Error> {
        let index = Index::parse(&bytes).map_err(|error| Error::Format { file: name.to_owned(), error })?;
        if let Some(key) = index.view(&bytes).keys().find(|key| self.find(key).is_some()) {
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
    #[cfg(feature = "engine")]
    pub(crate) fn take_ahead(&self, prefix: &str, ahead: &mut Ahead) {
        for (file, bytes) in self.views() {
            let named = file.keys().filter(|key| key.starts_with(prefix)).filter_map(|key| file.find(key));
            let ranges = named.map(|index| file.range(index));
            let all = ranges.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
            all.iter().for_each(|all| ahead.take(bytes, all));
        }
    }

    /// Whether there is no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The first and last bytes of every entry.
    pub(crate) fn samples(&self, bytes: usize) -> impl Iterator<Item = &[u8]> {
        let entries = self.views().map(|(file, _)| file.len()).sum::<usize>();
        let all = (0..u32::try_from(entries).unwrap_or(u32::MAX)).filter_map(|entry| self.bytes(entry));
        all.flat_map(move |all| [&all[..bytes.min(all.len())], &all[all.len().saturating_sub(bytes)..]])
    }

    fn views(&self) -> impl Iterator<Item = (View<'_>, &FileBytes)> {
        self.files.iter().map(|(index, bytes)| (index.view(bytes), bytes))
    }

    fn entry(&self, entry: u32) -> Option<(View<'_>, &FileBytes, usize)> {
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
