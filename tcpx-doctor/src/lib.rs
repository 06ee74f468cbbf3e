//! Says what is wrong with a machine, an environment or a transfer over GPUDirect-TCPX, and what to type to cure it.
//!
//! For `tcpx-core`, which asks [`preflight`] before it loads a hardware plugin (whose answer to a missing driver, daemon or
//! setting is to end the process), and for the `tcpx` command:
//!
//! | command | calls |
//! |---|---|
//! | `tcpx doctor` | [`examine`]; its [`Report`] has the exit status |
//! | `tcpx env` | [`environment::inspect`], [`environment::profile_a3_high`] with [`environment::render_profile`] |
//! | `tcpx explain` | [`explain`], [`search`] for a line of a log |
//! | `tcpx devices` | [`topology::gpus`], [`topology::nics`], [`topology::render_devices`] |
//!
//! A [`Host`] says which machine is examined: a root directory, an environment, and a [`Kernel`] that answers what no file
//! tells ([`LiveKernel`] asks the running one). Tests give trees and answers of their own.
//!
//! This crate never changes a setting, never loads the plugin, never prints, and never asks without a deadline.
//!
//! ```no_run
//! use std::path::Path;
//! use tcpx_doctor::{Host, LiveKernel, environment::process_env, preflight};
//!
//! let (env, kernel) = (process_env(), LiveKernel::default());
//! let plugin = Path::new("/usr/local/tcpx/lib64/libnccl-net-tcpx.so");
//! if let Err(report) = preflight(plugin, None, &Host::this(&env, &kernel)) {
//!     for finding in report.findings() {
//!         tracing::error!("{finding}");
//!     }
//! }
//! ```

mod code;
mod cuda;
mod devmem_counter;
pub mod diagnosis;
mod doctor;
pub mod environment;
mod finding;
mod host;
mod kernel;
mod kernel_log;
mod library_path;
mod limits;
mod live;
mod mount;
mod netlink;
mod nic_check;
mod nic_counters;
mod peer;
mod plugin_file;
mod preflight;
mod report;
mod rxdm;
mod severity;
mod socket_option;
pub mod topology;
mod tree;

pub use code::{Code, CodeError};
pub use devmem_counter::check_devmem_packets;
pub use diagnosis::{Diagnosis, explain, search};
pub use doctor::{data_nic_names, examine};
pub use environment::Env;
pub use finding::Finding;
pub use host::Host;
pub use kernel::{DevmemAnswer, Dialects, Direction, HeaderSplit, Kernel, Rings, Statistics};
pub use kernel_log::LogLine;
pub use live::LiveKernel;
pub use nic_counters::{NicCounters, NicGrowth};
pub use peer::check_peer;
pub use preflight::preflight;
pub use report::Report;
pub use severity::Severity;
