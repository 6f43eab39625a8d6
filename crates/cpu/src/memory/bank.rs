//! Arenas, lent for the time of a run.
//!
//! What lies in an arena matters to nobody after the run. So the models of a process, be they parts of one program or
//! programs by themselves, borrow from one bank: models that run in turn share one arena, as large as the largest needs, and
//! those that run at the same time have one each. Nobody waits for the bank: who finds it in use does without, with memory
//! that is made and given back for that run. The bank and its memory live as long as some model does.

use super::Aligned;
use sconce_parallel::Parallel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

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

    /// The idle arenas, unless they are in use.
    fn idle(&self) -> Option<MutexGuard<'_, Vec<Aligned>>> {
        match self.0.try_lock() {
            Ok(idle) => Some(idle),
            Err(TryLockError::Poisoned(idle)) => Some(idle.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Keeps everybody else from the idle arenas.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> MutexGuard<'_, Vec<Aligned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An arena of at least `bytes` bytes, which hold anything; `None` if there is no such memory.
    pub(crate) fn lend(&self, par: &dyn Parallel, bytes: usize) -> Option<Aligned> {
        if let Some(mut idle) = self.idle() {
            let place = idle.partition_point(|arena| arena.bytes().len() < bytes);
            if place < idle.len() {
                return Some(idle.remove(place));
            }
            // None is large enough: the new one takes the place of the largest.
            idle.pop();
        }
        Aligned::try_new(par, bytes)
    }

    /// Says that an arena of `bytes` bytes will be wanted soon.
    pub(crate) fn expect(&self, bytes: usize) {
        let Some(mut idle) = self.idle() else { return };
        if idle.last().is_none_or(|largest| largest.bytes().len() < bytes)
            && let Some(arena) = Aligned::soon(bytes)
        {
            idle.pop();
            idle.push(arena);
        }
    }

    /// Takes an arena back.
    pub(crate) fn give_back(&self, arena: Aligned) {
        let Some(mut idle) = self.idle() else { return };
        let place = idle.partition_point(|other| other.bytes().len() < arena.bytes().len());
        idle.insert(place, arena);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_parallel::Serial;

    fn sizes(bank: &Bank) -> Vec<usize> {
        bank.0.lock().unwrap().iter().map(|arena| arena.bytes().len()).collect()
    }

    #[test]
    fn the_smallest_that_suffices_is_lent_and_the_largest_replaced() {
        let bank = Bank::default();
        let arenas = [3000, 1000, 2000].map(|bytes| bank.lend(&Serial, bytes).unwrap());
        arenas.into_iter().for_each(|arena| bank.give_back(arena));
        assert_eq!(sizes(&bank), [1000, 2000, 3000]);
        let lent = bank.lend(&Serial, 1001).unwrap();
        assert_eq!((lent.bytes().len(), sizes(&bank)), (2000, vec![1000, 3000]));
        let larger = bank.lend(&Serial, 5000).unwrap();
        assert_eq!((larger.bytes().len(), sizes(&bank)), (5000, vec![1000]));
        bank.give_back(larger);
        bank.give_back(lent);
        assert_eq!(sizes(&bank), [1000, 2000, 5000]);
        assert!(bank.lend(&Serial, usize::MAX).is_none());
    }

    #[test]
    fn what_is_expected_takes_the_place_of_the_largest() {
        let bank = Bank::default();
        [100, 1 << 20].map(|bytes| bank.lend(&Serial, bytes).unwrap()).into_iter().for_each(|a| bank.give_back(a));
        bank.expect(1 << 20);
        assert_eq!(sizes(&bank), [100, 1 << 20]);
        bank.expect(2 << 20);
        // Where nothing can be done ahead, the arena comes when it is lent.
        assert!(matches!(sizes(&bank)[..], [100, largest] if largest == 1 << 20 || largest == 2 << 20));
        assert_eq!(bank.lend(&Serial, 2 << 20).unwrap().bytes().len(), 2 << 20);
    }

    #[test]
    fn nobody_waits_for_the_bank() {
        let bank = Bank::default();
        bank.give_back(bank.lend(&Serial, 1000).unwrap());
        let held = bank.0.lock().unwrap();
        let lent = bank.lend(&Serial, 500).unwrap();
        bank.expect(5000);
        bank.give_back(lent);
        assert_eq!(held.len(), 1);
    }

    #[test]
    fn all_models_have_the_same_bank() {
        let bank = Bank::shared();
        assert!(Arc::ptr_eq(&bank, &Bank::shared()));
    }
}
