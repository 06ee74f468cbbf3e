//! Building blocks of a transport over the kernel's own device-memory TCP.
//!
//! Linux receives TCP payload into the memory of a GPU since 6.12, and sends from there since 6.16.
//! The NIC's driver must support both. A dma-buf is bound to a receive queue of the NIC, and
//! connections are steered to that queue. From then on `recvmsg` returns the place of each packet's
//! payload instead of copying the payload.
//!
//! ```text
//! NicFacts ── choose_queues ──► RxBinding ──► SteeredFlow, one for each connection
//!                                   │ id
//!                                   ▼
//!            socket ── Receiver ──► Arrival ── SparePages ──► unpack descriptors
//!            socket ◄── return_tokens ◄── HeldMemory ◄── once they are unpacked
//!            socket ◄── Sender ◄── TxBinding
//! ```
//!
//! - [`NicFacts`] and [`choose_queues`] return the free queues, or what to set up first.
//! - [`RxBinding`] and [`TxBinding`] give a NIC memory, for as long as they live;
//!   [`RxBinding::on_free_queues`] chooses other queues where another process was faster.
//! - [`SteeredFlow`] sends a connection to a queue; [`stale_rules`] finds the rules of killed
//!   processes.
//! - [`Receiver`] receives. [`SparePages`] makes unpack descriptors of the received bytes, and
//!   finds a place for bytes that came in host memory. [`return_tokens()`] returns fragments,
//!   within the kernel's limits.
//! - [`RingQueue`] receives into host memory by io_uring, from the same queues, steered by the same
//!   rules; [`Refill`] takes pages back, and [`RingBinding`] checks that the NIC still has them.
//! - [`Sender`] sends without a copy, and reports when its memory was read for the last time.
//! - [`HostBuffer`] is host memory that can be bound in place of a GPU's; it is built on
//!   [`HostMemory`].
//! - [`netlink`] sends requests to the kernel.
//!
//! # For whom
//! Users are transports (`examples/stream.rs` is the smallest) and the doctor, which makes the same
//! requests. docs/devmem.md lists what a NIC needs.
//!
//! # What it will never do
//! The crate changes no setting of a NIC except bindings and flow rules, and removes both again. It
//! never waits without a deadline, never prints, and trusts no number from the kernel.

#[cfg(any(test, fuzzing))]
mod any_answer;
mod binding;
mod error;
mod host_buffer;
mod host_memory;
mod landing;
pub mod netlink;
pub mod nic;
mod receive;
mod return_tokens;
mod ring;
mod send;

pub use binding::{RxBinding, TxBinding, check_nic};
pub use error::{DevmemError, Direction};
pub use host_buffer::HostBuffer;
pub use host_memory::HostMemory;
pub use landing::{HeldMemory, SparePages};
pub use nic::{
    FlowRule, InstalledRule, Nic, NicFacts, SteeredFlow, choose_queues, delete_stale_rules,
    stale_rules,
};
pub use receive::{Arrival, Received, Receiver, stall_reason};
pub use return_tokens::return_tokens;
pub use ring::{ReceiveEnd, Refill, RingBinding, RingEvent, RingQueue};
pub use send::{SendOutcome, Sender};

/// Decoders of outside bytes, for the fuzz targets only.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Reads a datagram of the kernel as the answer to request 7.
    pub fn netlink_answers(datagram: &[u8]) {
        crate::any_answer::check(datagram);
    }
}
