//! Conformance checks for ncclNet v7 plugins of the GPUDirect-TCPX kind.
//!
//! For whoever writes such a plugin, or is about to trust one on a new host. Each of the [`checks`] states one rule of
//! the plugin contract and cites its section; [`run`] answers each with [`Outcome::Pass`], [`Outcome::Fail`],
//! [`Outcome::Differs`] (allowed, but not what version 3.1.9 does) or [`Outcome::Skip`].
//!
//! The checks drive the raw function table and nothing above it. The plugin is never loaded into the caller's process:
//! the program is started again as an *agent*, one process per end, which makes one raw call per command. A plugin that
//! crashes, exits or hangs therefore becomes a result that names the call, and no process outlives its check.
//!
//! The program that calls [`run`] must call [`child_main`] first thing in `main`, since that is what an agent runs.

mod agent;
mod check;
mod checks;
mod harness;
mod link;
mod memory_kind;
mod message;
mod options;
mod outcome;
mod report;
mod runner;

pub use agent::child_main;
pub use check::{CONTRACT, Check, Group};
pub use checks::checks;
pub use memory_kind::MemoryKind;
pub use options::{Options, Target};
pub use outcome::Outcome;
pub use report::{CheckReport, Report, Totals};
pub use runner::{RunError, run};
