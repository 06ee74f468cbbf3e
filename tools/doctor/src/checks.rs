//! Checks that are not needed before the plugin is loaded.
//!
//! - `nics`: state, placement and features of the data NICs. `nic_counters`: their counters.
//! - `device_memory`: queues and flow rules for the kernel's own device-memory TCP.
//! - `limits`: settings of the system. `driver_log`: warnings of drivers in the kernel's log.
//! - `encryption`: the kernel's TLS, the clock, and the network of a cloud.
//! - `peer`: whether a peer can be reached.

mod device_memory;
pub(crate) mod driver_log;
pub(crate) mod encryption;
pub(crate) mod limits;
mod nic_counters;
pub(crate) mod nics;
mod peer;

pub use nic_counters::{NicCounters, NicGrowth, check_devmem_packets};
pub use peer::check_peer;
