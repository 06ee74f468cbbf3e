//! Hardware-free receive logic of TCP device memory.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod check;
mod descriptor;
mod merge;

pub use check::{DescriptorError, SourceOverlap, check, sources_disjoint};
pub use descriptor::{MAX_DESCRIPTORS, UnpackDescriptor};
pub use merge::merge_neighbours;
