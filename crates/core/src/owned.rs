//! An owning pointer for trait objects that does not need a heap.
//!
//! A backend's delegates and states are trait objects. With a heap they come in boxes; without one they are `static`s.
//! [`Owned`] holds either and knows how to let go of it.
#![allow(unsafe_code)] // Owns through a raw pointer, like a box.
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A value owned through a pointer.
///
/// Invariant: `target` is valid, not aliased, and may be passed to `release` once.
pub struct Owned<T: ?Sized> {
    target: NonNull<T>,
    release: fn(NonNull<T>),
}

impl<T: ?Sized> Owned<T> {
    /// Takes over a value that lives for ever; nothing happens when it is let go.
    pub fn from_static(target: &'static mut T) -> Self {
        Self { target: NonNull::from(target), release: |_| {} }
    }

    /// Takes over a box.
    #[cfg(feature = "alloc")]
    pub fn from_box(target: alloc::boxed::Box<T>) -> Self {
        fn release<T: ?Sized>(target: NonNull<T>) {
            // SAFETY: `from_box` made the pointer with `Box::leak`, and `drop` calls this once.
            drop(unsafe { alloc::boxed::Box::from_raw(target.as_ptr()) });
        }
        Self { target: NonNull::from(alloc::boxed::Box::leak(target)), release: release::<T> }
    }
}

impl Owned<dyn crate::DelegateState> {
    /// The state of a delegate that keeps none.
    pub fn empty() -> Self {
        // Every aligned address is that of a value without bytes.
        Self { target: NonNull::<()>::dangling(), release: |_| {} }
    }
}

impl<T: ?Sized> Drop for Owned<T> {
    fn drop(&mut self) {
        (self.release)(self.target);
    }
}

impl<T: ?Sized> Deref for Owned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the pointer is valid and `self` is borrowed.
        unsafe { self.target.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the pointer is valid, not aliased, and `self` is borrowed mutably.
        unsafe { self.target.as_mut() }
    }
}

// SAFETY: `Owned` owns its target as a box would.
unsafe impl<T: ?Sized + Send> Send for Owned<T> {}
// SAFETY: as above; shared access gives out shared references only.
unsafe impl<T: ?Sized + Sync> Sync for Owned<T> {}

impl<T: ?Sized> core::fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Owned(..)")
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_box_is_dropped_once_and_a_static_never() {
        static DROPS: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                DROPS.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(Owned::from_box(alloc::boxed::Box::new(Counted)));
        assert_eq!(DROPS.load(Ordering::Relaxed), 1);
        let pointer = alloc::boxed::Box::into_raw(alloc::boxed::Box::new(Counted));
        // SAFETY: a fresh box that nothing else refers to.
        drop(Owned::from_static(unsafe { &mut *pointer }));
        assert_eq!(DROPS.load(Ordering::Relaxed), 1);
        // SAFETY: the pointer came from a box, which was not dropped meanwhile.
        drop(unsafe { alloc::boxed::Box::from_raw(pointer) });
    }
}
