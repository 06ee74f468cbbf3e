//! Receiving into host memory that a NIC writes to, by io_uring's zero-copy receive.
//!
//! A receive queue of the NIC gets pages of an area, as with device memory. A ring of io_uring
//! reports where the bytes of a connection lie in the area. The kernel copies packets that land
//! elsewhere to the area, so readers see one kind of piece. Pages are given back through another
//! ring, without a system call.
//!
//! - `layout`: structs of the kernel's interface
//! - `refill`: the ring of pages that are given back; `refill_index`: its position. Pure
//! - `registration`: taking a queue, and the meaning of a refusal
//! - `receive_end`: the reason why a receive is over. Pure
//! - `queue`: the ring itself, which belongs to one thread
//! - `binding`: the check that the NIC still has the area

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
