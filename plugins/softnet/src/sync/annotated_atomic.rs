#![allow(unsafe_code)]
//! Atomics that report their orderings to helgrind, or let a test decide which thread comes next.

use std::sync::atomic::Ordering;

#[cfg(tcpx_helgrind)]
use super::client_request::{after, before, untrack};
#[cfg(all(test, not(tcpx_helgrind)))]
use super::exploration::{after, before, untrack};

/// Reports the write half of an operation before it happens.
fn writing<T>(place: &T, order: Ordering) {
    untrack(place);
    if matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst) {
        before(place);
    }
}

/// Reports the read half of an operation that happened.
fn was_read<T>(place: &T, order: Ordering) {
    if matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst) {
        after(place);
    }
}

macro_rules! annotated {
    ($name:ident, $value:ty, $($both:ident),*) => {
        #[doc = concat!("As `std::sync::atomic::", stringify!($name), "`.")]
        #[derive(Debug)]
        #[repr(transparent)]
        pub(crate) struct $name(std::sync::atomic::$name);

        #[allow(dead_code, reason = "each type has the operations that some file needs")]
        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                untrack(self);
                let value = self.0.load(order);
                was_read(self, order);
                value
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                writing(self, order);
                self.0.store(value, order);
            }

            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                writing(self, set);
                #[allow(deprecated, reason = "its later name, try_update, is not in the oldest Rust")]
                let before = self.0.fetch_update(set, fetch, change);
                was_read(self, if before.is_ok() { set } else { fetch });
                before
            }

            $(pub(crate) fn $both(&self, value: $value, order: Ordering) -> $value {
                writing(self, order);
                let before = self.0.$both(value, order);
                was_read(self, order);
                before
            })*
        }
    };
}

annotated!(AtomicBool, bool, swap);
annotated!(AtomicU32, u32, swap, fetch_add, fetch_sub);
annotated!(AtomicU64, u64, swap, fetch_add, fetch_sub);
annotated!(AtomicUsize, usize, swap, fetch_add, fetch_sub);

impl AtomicU64 {
    /// # Safety
    /// As `std::sync::atomic::AtomicU64::from_ptr`.
    pub(crate) const unsafe fn from_ptr<'a>(place: *mut u64) -> &'a Self {
        // SAFETY: the caller's promise; the type is transparent.
        unsafe { &*place.cast() }
    }
}
