//! Receiving into host memory that a NIC writes to, by io_uring's zero-copy receive.
//!
//! A receive queue of the NIC gets pages of an area, as with device memory, and a ring of io_uring
//! tells where the bytes of a connection lie in it. Packets that land elsewhere are copied there by
//! the kernel, so whoever reads sees one kind of piece. Pages are given back through another ring,
//! which takes no call.
//!
//! - `layout`: structs of the kernel's interface
//! - `refill`: the ring of pages that are given back; `refill_index`: how far it is. Pure
//! - `registration`: taking a queue, and what a refusal means
//! - `receive_end`: why a receive is over. Pure
//! - `queue`: the ring itself, which belongs to one thread
//! - `binding`: whether the NIC still has the area

mod binding;
mod layout;
mod queue;
mod receive_end;
mod refill;
mod refill_index;
mod registration;

pub use binding::RingBinding;
pub use queue::{RingEvent, RingQueue};
pub use receive_end::ReceiveEnd;
pub use refill::Refill;
