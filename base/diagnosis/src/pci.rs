//! Which GPUs and NICs the machine has, where they lie on PCI, and how far apart they are.
//!
//! - `path`: a device's place in the PCI tree, and the distance of two places.
//! - `gpu`, `nic`: the machine's GPUs and network interfaces, from `/sys` and `/proc`.

mod gpu;
mod nic;
mod path;

pub use gpu::{Gpu, gpus};
pub use nic::{Nic, nic_down, nics};
pub use path::{Distance, PciPath, distance};
