//! Memory that NICs put payload into, and send it from, by the kernel's device-memory TCP. It takes
//! the place of plain sockets below the comms, which are the same over both.
//!
//! - `region`: what a NIC receives into, its queue, and who may take how much of it
//! - `watch`: regions with the thread that sees whether the NIC still has them
//! - `arrivals`: what comes on one data socket; `held`: what that takes of the region
//! - `steering`: which connections go to the queue
//! - `send_memory`: what a NIC sends host memory from; `departures`: what leaves on one data socket
//! - `gpu_refusal`: why a NIC gets no memory of a GPU
//! - `fitness`: which NICs can
//! - `lasting_trouble`: trouble that is an end when it lasts
//! - `kernel_deadline`: how long the kernel may take to answer
//! - `blame`: what a failed call of the plugin was about

mod arrivals;
mod blame;
mod departures;
mod fitness;
mod gpu_refusal;
mod held;
mod kernel_deadline;
mod lasting_trouble;
mod region;
mod send_memory;
mod steering;
mod watch;

pub(crate) use arrivals::NicArrivals;
pub use blame::nic_failure;
pub(crate) use blame::{blame, forget_blame, log_and_blame};
pub(crate) use departures::NicDepartures;
pub(crate) use fitness::{check_for_gpu, check_receiving};
pub(crate) use gpu_refusal::gpu_refusal;
pub(crate) use held::Held;
pub(crate) use kernel_deadline::KERNEL_DEADLINE;
pub(crate) use lasting_trouble::LastingTrouble;
pub(crate) use region::{NicRegion, Reserved, region_bytes};
pub(crate) use send_memory::{SendMemory, StageError};
pub(crate) use steering::Steering;
pub(crate) use watch::watched_region;
