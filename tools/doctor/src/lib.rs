//! Says what is wrong with a machine, an environment or a transfer over GPUDirect-TCPX, for the
//! `tcpx` command.
//!
//! | command | calls |
//! |---|---|
//! | `tcpx doctor` | [`examine`]; its [`Report`](tcpx_diagnosis::Report) has the exit status |
//! | `tcpx doctor --env` | [`examine_environment`], [`environment::inspect`] |
//! | `tcpx doctor --watch` | [`NicCounters`], before and after |
//! | `tcpx env` | [`environment::inspect`] |
//! | `tcpx devices` | [`nearest_nics`], [`render_devices`] |
//!
//! The facts needed before the plugin is loaded, and the table of all diagnoses, lie in
//! [`tcpx_diagnosis`]. This crate adds the checks that take longer. It asks the kernel and the
//! NICs' drivers ([`Kernel`], which [`LiveKernel`] asks over netlink). It also examines the
//! kernel's log, limits, a peer, and whether a NIXL finds its backend.
//!
//! This crate never changes a setting, never loads the plugin, never prints, and never asks without
//! a deadline.
//!
//! ```
//! use tcpx_diagnosis::Host;
//! use tcpx_diagnosis::variables::process_env;
//! use tcpx_doctor::{LiveKernel, examine};
//!
//! let env = process_env();
//! // Without a plugin's file and without a peer: the software plugin that is linked in.
//! let report = examine(None, None, &Host::this(&env), &LiveKernel::default());
//! for finding in report.findings() {
//!     println!("{finding}");
//! }
//! assert!(report.exit_status() < 3, "the software plugin needs nothing");
//! ```

mod checks;
mod device_memory;
mod devices;
pub mod environment;
mod examine;
mod kernel;
mod nixl;

pub use checks::{NicCounters, NicGrowth, check_devmem_packets, check_peer};
pub use device_memory::{check_device_memory, device_memory_by_auto};
pub use devices::{gpu_nic_distance, nearest_nics, render_devices};
pub use examine::{data_nic_names, examine, examine_environment};
pub use kernel::{
    DevmemAnswer, Direction, Kernel, LiveKernel, LogLine, Statistics, ZeroCopyAnswer,
};
pub use tcpx_devmem::nic::{HeaderSplit, Rings};
