//! Arenas, lent for the time of a run.
//!
//! What lies in an arena matters to nobody after the run. So the models of a process, be they parts of one program or
//! programs by themselves, borrow from one bank: those that run one after the other do with the largest arena of them, and
//! those that run at the same time have one each. The bank and its memory live as long as some model does.

use super::Aligned;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Arenas that no run uses, from the smallest to the largest.
#[derive(Debug, Default)]
pub(crate) struct Bank(Mutex<Vec<Aligned>>);

impl Bank {
    /// The bank of this process.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Bank>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let bank = Arc::default();
            *shared = Arc::downgrade(&bank);
            bank
        })
    }

    /// An arena of at least so many bytes, which hold anything; `None` if there is no such memory.
    pub(crate) fn lend(&self, bytes: usize) -> Option<Aligned> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = idle.partition_point(|arena| arena.bytes().len() < bytes);
        if place < idle.len() {
            return Some(idle.remove(place));
        }
        // None is large enough: the new one takes the place of the largest.
        idle.pop();
        drop(idle);
        Aligned::try_new(bytes)
    }

    /// Takes an arena back.
    pub(crate) fn give_back(&self, arena: Aligned) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = idle.partition_point(|other| other.bytes().len() < arena.bytes().len());
        idle.insert(place, arena);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bank: &Bank) -> Vec<usize> {
        bank.0.lock().unwrap().iter().map(|arena| arena.bytes().len()).collect()
    }

    #[test]
    fn the_smallest_that_suffices_is_lent_and_the_largest_replaced() {
        let bank = Bank::default();
        let arenas = [3000, 1000, 2000].map(|bytes| bank.lend(bytes).unwrap());
        arenas.into_iter().for_each(|arena| bank.give_back(arena));
        assert_eq!(sizes(&bank), [1000, 2000, 3000]);
        let lent = bank.lend(1001).unwrap();
        assert_eq!((lent.bytes().len(), sizes(&bank)), (2000, vec![1000, 3000]));
        let larger = bank.lend(5000).unwrap();
        assert_eq!((larger.bytes().len(), sizes(&bank)), (5000, vec![1000]));
        bank.give_back(larger);
        bank.give_back(lent);
        assert_eq!(sizes(&bank), [1000, 2000, 5000]);
        assert!(bank.lend(usize::MAX).is_none());
    }

    #[test]
    fn all_models_have_the_same_bank() {
        let bank = Bank::shared();
        assert!(Arc::ptr_eq(&bank, &Bank::shared()));
    }
}
