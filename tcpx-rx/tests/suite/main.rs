//! Tests of the crate as others use it, and of what it stands on.

mod layering;
mod no_alloc;
#[cfg(feature = "alloc")]
mod properties;
#[cfg(feature = "alloc")]
mod property;
