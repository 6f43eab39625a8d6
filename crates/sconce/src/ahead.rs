//! Pages of files, before they are needed.
//!
//! Every touch of a page that is not there is an interruption, and a disk gives many pages at a time as fast as one. So a
//! thread aside asks for them while the caller goes on. It ends when it is done, or alone with a file.
use crate::map::FileBytes;
#[cfg(unix)]
use crate::map::MOST_AHEAD;
use std::ops::Range;
use std::sync::Arc;

/// Bytes whose pages are asked for together: others may wait for it who map something.
const TOGETHER: usize = 512 * 1024;

/// Parts of files that will be needed soon, in this order.
#[derive(Default)]
pub(crate) struct Ahead(Vec<Wish>);

struct Wish {
    map: Arc<memmap2::Mmap>,
    part: Range<usize>,
    /// Whether its pages are mapped, too, because all of them will be touched.
    whole: bool,
}

impl Ahead {
    /// A part that will be looked at.
    pub(crate) fn look(&mut self, file: &FileBytes, part: &Range<u64>) {
        self.add(file, part, false);
    }

    /// A part all of which will be used.
    pub(crate) fn take(&mut self, file: &FileBytes, part: &Range<u64>) {
        self.add(file, part, true);
    }

    fn add(&mut self, file: &FileBytes, part: &Range<u64>, whole: bool) {
        let FileBytes::Mapped(map) = file else { return };
        let inside = |at: u64| usize::try_from(at).map_or(map.len(), |at| at.min(map.len()));
        let part = inside(part.start)..inside(part.end);
        if !part.is_empty() {
            self.0.push(Wish { map: map.clone(), part, whole });
        }
    }

    /// Asks for all of it, beside the caller.
    pub(crate) fn fetch(self) {
        if !self.0.is_empty() {
            sconce_parallel::aside(move || self.0.into_iter().for_each(Wish::fetch));
        }
    }
}

impl Wish {
    fn fetch(self) {
        let Self { map, part, whole } = self;
        #[cfg(unix)]
        if whole {
            let _ = map.advise(memmap2::Advice::Normal);
        }
        #[cfg(unix)]
        let _ = map.advise_range(memmap2::Advice::WillNeed, part.start, part.len().min(MOST_AHEAD));
        let pieces = part.clone().step_by(TOGETHER).take_while(|_| whole && Arc::strong_count(&map) > 1);
        for start in pieces {
            #[cfg(target_os = "linux")]
            let _ = map.advise_range(memmap2::Advice::PopulateRead, start, TOGETHER.min(part.end - start));
            #[cfg(not(target_os = "linux"))]
            let _ = start;
        }
    }
}
