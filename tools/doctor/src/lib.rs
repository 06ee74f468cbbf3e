//! Examination of a machine, an environment or a transfer over GPUDirect-TCPX, for the `tcpx`
//! command.
//!
//! | command | calls |
//! |---|---|
//! | `tcpx doctor` | [`examine`], whose [`Report`](tcpx_diagnosis::Report) has the exit status |
//! | `tcpx doctor --env` | [`examine_environment`], [`environment::inspect`] |
//! | `tcpx doctor --watch` | [`NicCounters`], before and after |
//! | `tcpx env` | [`environment::inspect`] |
//! | `tcpx devices` | [`nearest_nics`], [`render_devices`] |
//!
//! The facts needed before the plugin is loaded, and the table of all diagnoses, are in
//! [`tcpx_diagnosis`]. This crate adds the checks that take longer. It queries the kernel and the
//! NICs' drivers ([`Kernel`], with [`LiveKernel`] for the running one). It also examines the
//! kernel's log, limits, a peer, and whether a NIXL finds its backend.
//!
//! This crate never changes a setting, never loads the plugin, never prints, and has a deadline for
//! each query.
//!
//! ```
//! use tcpx_diagnosis::Host;
//! use tcpx_diagnosis::variables::process_env;
//! use tcpx_doctor::{LiveKernel, examine};
//!
//! let env = process_env();
//! // No plugin file and no peer: the software plugin that is linked in.
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
pub use device_memory::{check_device_memory, explain_auto_choice};
pub use devices::{gpu_nic_distance, nearest_nics, render_devices};
pub use examine::{data_nic_names, examine, examine_environment};
pub use kernel::{
    DevmemSupport, Direction, Kernel, LiveKernel, LogLine, Statistics, ZeroCopySupport,
};
pub use tcpx_devmem::nic::{HeaderSplit, Rings};
