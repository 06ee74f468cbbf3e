//! The software plugin: an ncclNet v7 transport over plain TCP sockets.
//!
//! It offers the same table and keeps the same rules as Google's GPUDirect-TCPX plugin, so that a program written for
//! the one runs over the other, on machines with ordinary NICs and without a GPU. Where the original corrupts memory,
//! crashes, ends the process or hangs, this plugin returns an error and logs a WARN line.
//!
//! For `tcpx-core`, which links [`table`], and, as a shared library, for whoever loads plugins by path.
//! It never exits the process, never prints, never raises SIGPIPE, and never waits without a deadline.

mod announce;
mod bounce;
mod connect;
mod control;
mod dice;
mod disturb;
mod failure;
mod fault;
mod flow;
mod handle;
mod helper;
mod landing;
mod lane;
mod lanes;
mod listen;
mod log;
mod memory;
mod nic;
mod pairing;
mod plan;
mod plugin;
mod pool;
mod queue;
mod receive;
mod recv_comm;
mod registration;
mod registry;
mod request;
mod reset;
mod runtime;
mod send_comm;
mod settings;
mod shape;
mod shaper;
mod table;
mod wake;
mod wire;

pub use bounce::PoolStats;
pub use fault::{CutSocket, Entry, Fault, Side};
pub use runtime::{bounce_bytes, configure, pool_stats};
pub use settings::{Helpers, Settings, SettingsError};
pub use shape::Shape;
pub use table::table;
