#![allow(unsafe_code)]
//! A buffer that a program has lent to a session.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A buffer whose bytes others read and write by address while this lives. So it is kept as a
/// pointer: a `Box` would claim that nobody else does.
#[derive(Debug)]
pub(crate) struct LentBuffer(NonNull<[u8]>);

// SAFETY: it owns its bytes as the box did, which may be sent; no reference to them exists.
unsafe impl Send for LentBuffer {}

impl LentBuffer {
    pub(crate) fn new(buffer: Box<[u8]>) -> Self {
        Self(NonNull::from(Box::leak(buffer)))
    }

    /// Address of the first byte. The pointer's provenance is exposed.
    pub(crate) fn address(&self) -> u64 {
        self.0.as_ptr().cast::<u8>().expose_provenance() as u64
    }

    /// The buffer, to be given back. Whoever calls has seen to it that nobody uses its address any
    /// more.
    pub(crate) fn into_box(self) -> Box<[u8]> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the pointer came from a box, and is turned back only here or in `drop`, which
        // does not run any more.
        unsafe { Box::from_raw(this.0.as_ptr()) }
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        // SAFETY: as in `into_box`, which was not called.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_by_address_comes_back_in_the_same_place() {
        let given: Box<[u8]> = vec![1; 64].into();
        let place = given.as_ptr();
        let lent = LentBuffer::new(given);
        assert_eq!(lent.address(), place.addr() as u64);
        // SAFETY: the buffer lives, and nobody else uses it.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(lent.address() as usize).write(7) };
        let back = lent.into_box();
        assert_eq!((back[0], back[1], back.len(), back.as_ptr()), (7, 1, 64, place));
        drop(LentBuffer::new(back));
    }
}
