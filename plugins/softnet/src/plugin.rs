//! The plugin as its callers see it: the table, the settings, and the state of the process.
//!
//! - `table`: the v7 table and its `extern "C"` functions; `later_tables`: those from v8 to v10
//! - `arguments`: what all of these have in common
//! - `caller`: whether NCCL or another program called `init`; `mode`: what follows from it;
//!   `nccl_mode`: what the settings say of NCCL
//! - `health`: an addition to it, which says whether a comm is alive
//! - `encryption`: another, which has the sockets of a comm encrypted
//! - `readiness`: another, which says for what to wait on a comm
//! - `entries`: what each of them does, in safe Rust; `entries::additions`: those of the additions;
//!   `entries::registering`: regMr; `entries::requests`: sends and receives
//! - `stager_slots`: what sends of GPU memory need, made ahead
//! - `gpu_mismatch`: listen and accept for different GPUs
//! - `misuse`: calls that the original would not survive
//! - `registrations`: registrations by those ids
//! - `registry`: the ids that callers hold instead of pointers
//! - `runtime`: the state that `init` makes
//! - `nic`: the NICs on offer
//! - `settings`: what can be set
//! - `helper_cpus`: on which processors helper threads run
//! - `variables`: environment variables as typed values, and why a setting is refused

mod arguments;
mod caller;
mod encryption;
mod entries;
mod gpu_mismatch;
mod health;
mod helper_cpus;
mod later_tables;
mod misuse;
mod mode;
mod nccl_mode;
mod nic;
mod reach_cache;
mod readiness;
mod registrations;
mod registry;
mod runtime;
mod settings;
mod stager_slots;
mod start;
mod table;
mod variables;

pub use encryption::comm_encryption;
pub use health::comm_health;
pub use helper_cpus::HelperCpus;
pub use later_tables::{table_v8, table_v9, table_v10};
pub use nccl_mode::NcclMode;
pub use readiness::comm_poll;
pub use runtime::{arrival_stats, bounce_bytes, gpu_reach, pool_stats, uses_device_memory};
pub use settings::{Helpers, Settings};
pub use start::configure;
pub use table::table;
pub use variables::SettingsError;
