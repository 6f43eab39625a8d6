//! Pages of files, before they are needed.
//!
//! Every touch of a page that is not there is an interruption, and a disk gives many pages at a time as fast as one. So what
//! will be looked at is asked for at once, and what will be used as a whole is mapped by a thread aside while the caller
//! goes on. It stops when it is alone with a file.
//!
//! The thread touches pages, as somebody would who reads the file. It could ask for them instead, many at a time, but then
//! whoever maps memory meanwhile waits for it, up to five milliseconds, and it would take twice as long: the system maps
//! the pages around one that is touched, too.
use crate::map::{FileBytes, Mapped};
use std::ops::Range;
use std::sync::Arc;

/// Bytes around a page that Linux maps with it, unless it is told otherwise.
#[cfg(target_os = "linux")]
const AROUND: usize = 64 * 1024;
/// Parts of a file that are nearer to each other than this are asked for as one.
const NEAR: usize = 16 * 1024;

/// Parts of files that will be needed soon, in this order.
#[derive(Default)]
pub(crate) struct Ahead(Vec<Wish>);

struct Wish {
    file: Arc<Mapped>,
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
        let FileBytes::Mapped(file) = file else { return };
        let length = file.map.len();
        let inside = |at: u64| usize::try_from(at).map_or(length, |at| at.min(length));
        let part = inside(part.start)..inside(part.end);
        if part.is_empty() {
            return;
        }
        match self.0.last_mut().filter(|last| last.takes(file, &part, whole)) {
            Some(last) => last.part.end = last.part.end.max(part.end),
            None => self.0.push(Wish { file: file.clone(), part, whole }),
        }
    }

    /// Asks for all of it.
    pub(crate) fn fetch(self) {
        let (whole, looks): (Vec<_>, Vec<_>) = self.0.into_iter().partition(|wish| wish.whole);
        looks.into_iter().for_each(|Wish { file, part, .. }| file.will_need(part));
        if !whole.is_empty() {
            sconce_parallel::aside(move || whole.into_iter().for_each(|Wish { file, part, .. }| take(&file, part)));
        }
    }
}

impl Wish {
    /// Whether a part is asked for with this one: it starts in it, or not far behind it.
    fn takes(&self, file: &Arc<Mapped>, part: &Range<usize>, whole: bool) -> bool {
        let near = self.part.start..=self.part.end.saturating_add(NEAR);
        Arc::ptr_eq(&self.file, file) && self.whole == whole && near.contains(&part.start)
    }
}

#[cfg(target_os = "linux")]
fn take(file: &Arc<Mapped>, part: Range<usize>) {
    let _ = file.map.advise_range(memmap2::Advice::Normal, part.start, part.len());
    if !file.begin(part.clone()) {
        file.will_need(part.clone());
    }
    for at in part.step_by(AROUND).take_while(|_| Arc::strong_count(file) > 1) {
        std::hint::black_box(file.map.get(at).copied());
    }
}

#[cfg(not(target_os = "linux"))]
fn take(file: &Arc<Mapped>, part: Range<usize>) {
    #[cfg(unix)]
    let _ = file.map.advise(memmap2::Advice::Normal);
    file.will_need(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_parts_are_asked_for_together_and_stay_inside_the_file() {
        let path = std::env::temp_dir().join(format!("sconce-ahead-{}", std::process::id()));
        std::fs::write(&path, vec![0; 100_000]).unwrap();
        let file = FileBytes::map(&path).unwrap();
        let mut ahead = Ahead::default();
        for part in [0..64, 1000..1064, 50_000..50_064, 50_010..50_020, 90_000..u64::MAX, 200_000..300_000] {
            ahead.look(&file, &part);
        }
        ahead.take(&file, &(90_000..90_001));
        let parts: Vec<_> = ahead.0.iter().map(|wish| (wish.part.clone(), wish.whole)).collect();
        let looks = [0..1064, 50_000..50_064, 90_000..100_000].map(|part| (part, false));
        assert_eq!(parts, [&looks[..], &[(90_000..90_001, true)]].concat());
        ahead.fetch();
        std::fs::remove_file(&path).unwrap();
    }
}
