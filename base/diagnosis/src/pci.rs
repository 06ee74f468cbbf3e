//! GPUs and NICs of the machine, their places on PCI, and their distances.
//!
//! - `path`: a device's place in the PCI tree, and the distance of two places.
//! - `gpu`, `nic`: the machine's GPUs and network interfaces, from `/sys` and `/proc`.

mod gpu;
mod nic;
mod path;

pub use gpu::{Gpu, gpus};
pub use nic::{Nic, nic_bytes, nic_down, nic_numa, nic_speed, nics};
pub use path::{Distance, PciPath, distance};
