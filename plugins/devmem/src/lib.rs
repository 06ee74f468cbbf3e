//! The kernel's own device-memory TCP: what a transport over it is made of.
//!
//! Linux receives TCP payload into the memory of a GPU since 6.12, and sends from there since 6.16,
//! over NICs whose drivers can. A dma-buf is bound to a receive queue of the NIC, connections are
//! steered to that queue, and from then on `recvmsg` says where the payload of each packet is,
//! instead of copying it.
//!
//! ```text
//! NicFacts ── choose_queues ──► RxBinding ──► SteeredFlow, one for each connection
//!                                   │ id
//!                                   ▼
//!            socket ── Receiver ──► Arrival ── SparePages ──► unpack descriptors
//!            socket ◄── give_back ◄── Held ◄── once they are unpacked
//!            socket ◄── Sender ◄── TxBinding
//! ```
//!
//! - [`NicFacts`] and [`choose_queues`] say which queues can be had, or what is to be set up first.
//! - [`RxBinding`] and [`TxBinding`] give a NIC memory, for as long as they live;
//!   [`RxBinding::on_free_queues`] chooses anew where somebody else was faster.
//! - [`SteeredFlow`] sends a connection to a queue; [`stale_rules`] finds what killed ones left.
//! - [`Receiver`] receives. [`SparePages`] makes unpack descriptors of what it has received, and
//!   finds a place for what came in host memory. [`give_back()`] returns fragments, within the
//!   kernel's limits.
//! - [`RingQueue`] receives into host memory by io_uring, from the same queues, steered by the same
//!   rules; [`Refill`] takes pages back, and [`RingBinding`] says whether the NIC still has them.
//! - [`Sender`] sends in place, and hears when its memory was read for the last time.
//! - [`HostBuffer`] is host memory that can be bound in place of a GPU's; [`HostMemory`] is what it
//!   is made of.
//! - [`netlink`] is how the kernel is asked.
//!
//! # For whom
//! For transports, of which `examples/stream.rs` is the smallest, and for the doctor, which asks
//! the same questions. docs/devmem.md says what a NIC needs.
//!
//! # What it will never do
//! It changes no setting of a NIC but bindings and flow rules, and takes both back. It never waits
//! without a deadline, never prints, and trusts no number from the kernel.

#[cfg(any(test, fuzzing))]
mod any_answer;
mod binding;
mod error;
mod give_back;
mod host_buffer;
mod host_memory;
mod landing;
pub mod netlink;
pub mod nic;
mod receive;
mod ring;
mod send;

pub use binding::{RxBinding, TxBinding, check_nic};
pub use error::{DevmemError, Direction};
pub use give_back::give_back;
pub use host_buffer::HostBuffer;
pub use host_memory::HostMemory;
pub use landing::{Held, SparePages};
pub use nic::{
    FlowRule, Nic, NicFacts, PlacedRule, SteeredFlow, choose_queues, delete_stale_rules,
    stale_rules,
};
pub use receive::{Arrival, Received, Receiver, blame_pool};
pub use ring::{ReceiveEnd, Refill, RingBinding, RingEvent, RingQueue};
pub use send::{Sender, Sent};

/// Decoders of outside bytes, for the fuzz targets only.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Reads a datagram of the kernel as the answer to request 7.
    pub fn netlink_answers(datagram: &[u8]) {
        crate::any_answer::check(datagram);
    }
}
