//! The constants of a graph in the program that it came with: its named data, parts of its payloads, and values of the
//! method that is run.
//!
//! A program lists its named data in no order. The list is sorted once, when a delegate is made.

use sconce_core::{Part, Program};
use sconce_graph::{Constants, Graph, Source};
use std::ops::Range;
use std::sync::Arc;

/// Where bytes of a name are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// An entry of the data from beside the program.
    External(u32),
    /// A range of the program.
    Program(Range<u64>),
}

/// Where the names that a graph mentions lead, in the order of the names.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<(Arc<str>, Place)>);

impl Names {
    /// Looks all names of a graph up: in the data from beside the program first, then in the program itself.
    pub(crate) fn of(graph: &Graph, program: Program<'_>) -> Self {
        let file = program.file();
        let entries = file.program().named_data();
        let inside = entries.iter().filter_map(|entry| Some((entry.key()?, entry.segment_index())));
        let mut inside: Vec<(&str, u32)> = inside.collect();
        // Of equal names the first counts.
        inside.sort_by_key(|(key, _)| *key);
        inside.dedup_by_key(|(key, _)| *key);
        let place = |key: &str| match program.external().find(key) {
            Some(entry) => Some(Place::External(entry)),
            None => find(&inside, key).and_then(|&segment| file.segment(segment)).map(Place::Program),
        };
        let keys = graph.constants.iter().filter_map(|constant| match &constant.source {
            Source::Named(key) => Some(key),
            Source::Payload(_) | Source::Program(_) | Source::Bytes(_) | Source::Value(_) => None,
        });
        let mut keys: Vec<&Arc<str>> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        Self(keys.into_iter().filter_map(|key| Some((key.clone(), place(key)?))).collect())
    }

    fn get(&self, key: &str) -> Option<&Place> {
        find(&self.0, key)
    }
}

/// What a list in the order of names holds under one.
fn find<'a, K: AsRef<str>, V>(list: &'a [(K, V)], key: &str) -> Option<&'a V> {
    let place = list.binary_search_by(|(name, _)| name.as_ref().cmp(key)).ok()?;
    list.get(place).map(|(_, value)| value)
}

/// The constants of a graph, in the program that it came with.
pub(crate) struct InProgram<'p> {
    pub(crate) program: Program<'p>,
    pub(crate) names: &'p Names,
    /// Values of the method, by number, in rising order.
    pub(crate) values: &'p [(u32, &'p [u8])],
}

impl<'p> InProgram<'p> {
    fn load(&self, range: &Range<u64>) -> Option<&'p [u8]> {
        self.program.loader().load(range.start, range.end.checked_sub(range.start)?, Part::Delegate)
    }

    fn release_range(&self, range: &Range<u64>) {
        self.program.loader().release(range.start, range.end.saturating_sub(range.start));
    }
}

impl Constants for InProgram<'_> {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        match source {
            Source::Named(key) => match self.names.get(key)? {
                Place::External(entry) => self.program.external().bytes(*entry),
                Place::Program(range) => self.load(range),
            },
            Source::Program(range) => self.load(range),
            Source::Value(value) => {
                let place = self.values.binary_search_by_key(value, |(value, _)| *value).ok()?;
                self.values.get(place).map(|(_, bytes)| *bytes)
            }
            Source::Bytes(bytes) => Some(bytes),
            Source::Payload(_) => None,
        }
    }

    fn will_read(&self, source: &Source) {
        self.bytes(source).into_iter().for_each(|bytes| self.program.loader().will_read(bytes));
    }

    fn release(&self, source: &Source) {
        match source {
            Source::Named(key) => match self.names.get(key) {
                Some(Place::External(entry)) => self.program.external().release(*entry),
                Some(Place::Program(range)) => self.release_range(range),
                None => {}
            },
            Source::Program(range) => self.release_range(range),
            Source::Payload(_) | Source::Bytes(_) | Source::Value(_) => {}
        }
    }

    fn find(&self, name: &str) -> Option<u32> {
        self.program.external().find(name)
    }

    fn entry(&self, entry: u32) -> Option<&[u8]> {
        self.program.external().bytes(entry)
    }
}
