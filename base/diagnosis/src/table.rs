//! Table of all known problems: symptom, cause and cure, a file for each chapter.
//!
//! | file | codes | about |
//! |---|---|---|
//! | `environment` | TCPX-1xx | environment variables |
//! | `plugin` | TCPX-2xx | the plugin's file and the CUDA driver |
//! | `topology` | TCPX-3xx | NICs, GPUs and how they are placed |
//! | `kernel` | TCPX-4xx | device memory TCP in the kernel and the NIC's driver |
//! | `daemon` | TCPX-5xx | RxDM |
//! | `limits` | TCPX-6xx | limits of the system, and the network between the hosts |
//! | `connection` | TCPX-7xx | making and ending comms |
//! | `requests` | TCPX-8xx | requests, the order of calls, registration |
//! | `transfer` | TCPX-9xx | what a user of the programs sees |
//! | `nixl` | TCPX-10xx | the backend for NIXL |
//!
//! `lookup` finds rows in all of them.

pub mod connection;
pub mod daemon;
pub mod environment;
pub mod kernel;
pub mod limits;
mod lookup;
pub mod nixl;
pub mod plugin;
pub mod requests;
pub mod topology;
pub mod transfer;

pub use lookup::{all, chapters, explain};
