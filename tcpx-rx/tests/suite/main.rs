//! Tests of the crate as others use it, and of what it stands on.

mod layering;
mod properties;
mod property;
