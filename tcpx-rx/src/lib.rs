//! Hardware-free receive logic of TCP device memory.
//!
//! With TCP device memory the NIC writes the payload of a stream into GPU memory, wherever there is
//! a free page. The kernel tells the receiver in control messages where each piece landed. This
//! crate does everything between those messages and the copies that put the pieces in order:
//!
//! ```text
//! recvmsg's control bytes ── walk ──► Fragment ── DescriptorBuilder ──► UnpackDescriptor
//!                                        │ token          (the plugin's unpack queue) ─┐
//!                                        ▼                                             ▼
//! setsockopt ◄── TokenBatch ◄── TokenRanges                  check ──► merge_neighbours ──► unpack
//! ```
//!
//! - [`walk`] reads the control messages of both kernel interfaces (see [`Dialect`]). [`encode`] is
//!   its inverse, for stand-ins of the kernel and for tests.
//! - [`DescriptorBuilder`] lays the fragments of a chunk one behind the other.
//! - [`check`] proves that the unpack descriptors of a request stay inside the bounce buffer and
//!   write every expected byte once; [`merge_neighbours`] makes fewer of them;
//!   [`sources_disjoint`] finds a page that was handed out twice.
//! - [`TokenRanges`] and [`TokenBatch`] give the fragments back to the kernel within its limits.
//!
//! # For whom
//! Users are receivers of device memory, programs that play the plugin or the kernel, and tests of
//! either, on machines of any kind. A program that drives Google's plugin finds the unpack
//! descriptors ready-made in the plugin's queue, and needs only [`check`] and [`merge_neighbours`].
//!
//! # What it will never do
//! The crate makes no system call, holds no socket, reads no clock, and touches no memory but its
//! arguments. It depends on no other crate and not on the standard library, and contains no unsafe
//! code. It trusts nothing: any bytes, numbers and lists may be passed to it. Wrong input gives an
//! error that carries the numbers. The crate does not log; its callers decide what is worth a line.
//!
//! # Without an allocator
//! With `default-features = false` these are left: [`walk`], [`check`], [`merge_slice`] and
//! [`TokenBatches`]. They work on slices of the caller, and allocate nothing. The feature `alloc`,
//! which is on by default, adds what fills a `Vec`: [`encode`], [`DescriptorBuilder`],
//! [`merge_neighbours`], [`sources_disjoint`] and [`TokenRanges`].
//!
//! # Example
//! ```
//! # #[cfg(feature = "alloc")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tcpx_rx::{Dialect, DescriptorBuilder, DeviceFragment, Fragment, TokenRanges};
//!
//! // What a kernel of the Google dialect reports for 6000 bytes in two neighbouring pages.
//! let first = DeviceFragment::new(8192, 4096, 11, None);
//! let second = DeviceFragment::new(12288, 1904, 12, None);
//! let mut control = Vec::new();
//! for fragment in [first, second] {
//!     tcpx_rx::encode(&Fragment::Device(fragment), Dialect::Google, &mut control)?;
//! }
//!
//! let mut fragments = tcpx_rx::walk(&control, Dialect::Google).collect::<Result<Vec<_>, _>>()?;
//! let mut tokens = TokenRanges::new();
//! for fragment in &fragments {
//!     if let Fragment::Device(device) = fragment {
//!         tokens.push(device.token);
//!     }
//! }
//!
//! let mut chunk = DescriptorBuilder::new(6000);
//! let used = chunk.append(&mut fragments)?;
//! assert_eq!(used, 2, "nothing is left for the next chunk");
//! let mut list = chunk.finish().descriptors;
//! tcpx_rx::check(&mut list, 1 << 20, 6000)?;
//! assert_eq!(tcpx_rx::merge_neighbours(&mut list), 1);
//! assert_eq!((list[0].src_off, list[0].len, list[0].dst_off), (8192, 6000, 0));
//!
//! let batch = tokens.batches().next().expect("two tokens");
//! assert_eq!((batch.len(), batch.fragments()), (1, 2));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "alloc"))]
//! # fn main() {}
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod check;
mod cmsg;
mod cmsg_error;
mod descriptor;
#[cfg(feature = "alloc")]
mod descriptor_builder;
pub mod dialect;
#[cfg(feature = "alloc")]
mod encode;
mod fragment;
mod merge;
mod token_batch;
mod token_range;
#[cfg(feature = "alloc")]
mod token_ranges;
mod walk;

#[cfg(feature = "alloc")]
pub use check::sources_disjoint;
pub use check::{DescriptorError, SourceOverlap, check};
#[cfg(feature = "alloc")]
pub use cmsg::append_cmsg;
pub use cmsg_error::CmsgError;
pub use descriptor::{MAX_DESCRIPTORS, UnpackDescriptor};
#[cfg(feature = "alloc")]
pub use descriptor_builder::{BuildError, BuiltChunk, DescriptorBuilder, LinearSpan};
pub use dialect::Dialect;
#[cfg(feature = "alloc")]
pub use encode::{EncodeError, encode};
pub use fragment::{DeviceFragment, Fragment};
#[cfg(feature = "alloc")]
pub use merge::merge_neighbours;
pub use merge::merge_slice;
pub use token_batch::{
    FreedTooMany, MAX_BATCH_FRAGMENTS, MAX_BATCH_RANGES, TokenBatch, TokenBatches,
};
pub use token_range::TokenRange;
#[cfg(feature = "alloc")]
pub use token_ranges::TokenRanges;
pub use walk::{Walk, WalkTotals, walk};
