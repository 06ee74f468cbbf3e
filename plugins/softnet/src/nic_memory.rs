//! Memory that NICs put payload into, and send it from. They do so by the kernel's device-memory
//! TCP, or, for host memory that they receive into, by io_uring. It takes the place of plain
//! sockets below the comms, which are the same over all of them.
//!
//! - `region`: memory that a NIC receives into, and its queue, made of its `parts`; `page_budget`:
//!   the shares of its users
//! - `watch`: regions with the thread that sees whether the NIC still has them
//! - `receive_path`: path by which received bytes reach the region: device-memory TCP or io_uring
//! - `arrivals`: bytes that come on one data socket; `held`: what they take of the region
//! - `arrival_stats`: totals of bytes that have come, and of those that were copied
//! - `spare_pages`: pages of the region for bytes that come elsewhere
//! - `ring_thread`: a region's ring, and the thread that reads it; `inbox`: pieces that the ring
//!   has brought for one data socket; `ring_arrivals`: their way to the lane
//! - `steering`: connections that go to the queue
//! - `send_memory`: memory that a NIC sends host memory from; `departures`: bytes that leave on one
//!   data socket
//! - `gpu_refusal`: reason why a NIC gets no memory of a GPU
//! - `fitness`: check whether NICs can receive into our memory
//! - `lasting_trouble`: trouble that is an end when it lasts
//! - `kernel_deadline`: time that the kernel may take to answer
//!
//! All rules of the table are kept by the same comms. The first listen on a NIC makes a region of
//! the memory of the current GPU, or of what stands in for it. The region is bound to one queue,
//! and has pages behind it for what comes in host memory. The acceptor steers a data socket before
//! it answers its hello, so no byte of a message comes by another way. The control socket is never
//! steered. The NIC decides where bytes go, so a message gets no pages, but reserves as many as it
//! may take.
//!
//! A GPU's memory is bound to the NIC by regMr, and sent from where it is (`memory::registration`).
//! Other chunks are copied to slots of a dma-buf (`send_memory`). What a NIC has put into a GPU's
//! memory for a receive into host memory is copied down by a `stager`, as sends are elsewhere
//! (`comm::recv_comm::downloads`). `comm::socket_io` is how a lane calls the system.
//!
//! With io_uring (`TCPX_SOFT_TRANSPORT=io_uring`) only the thread that has made a ring may use it,
//! so the region has one. It puts what came into the inbox of its socket, and rings the bell of its
//! comm. Lanes ask it for the rest of their oldest chunk, so these receive comms have no helper
//! threads. What is sent goes by plain sockets. There is one such region for each NIC. The first
//! listen, or accept, for a GPU registers it with the CUDA driver (`memory::ring_memory`). From
//! then on consumers on every GPU get the address at which GPUs see it. `docs/devmem.md` has what
//! all this needs.

mod arrival_stats;
mod arrivals;
mod departures;
mod fitness;
mod gpu_refusal;
mod held_fragments;
mod inbox;
mod kernel_deadline;
mod lasting_trouble;
mod receive_path;
mod region;
mod ring_arrivals;
mod ring_thread;
mod send_memory;
mod spare_pages;
mod steering;
mod watch;

pub use arrival_stats::ArrivalStats;
pub(crate) use arrivals::NicArrivals;
pub(crate) use departures::NicDepartures;
pub(crate) use fitness::{check_for_gpu, check_receiving};
pub(crate) use gpu_refusal::gpu_refusal;
pub(crate) use held_fragments::HeldFragments;
pub(crate) use kernel_deadline::KERNEL_DEADLINE;
pub(crate) use lasting_trouble::LastingTrouble;
pub(crate) use region::{NicRegion, Reserved, region_bytes};
pub(crate) use send_memory::{SendMemory, StageError};
pub(crate) use steering::Steering;
pub(crate) use watch::watched_region;
