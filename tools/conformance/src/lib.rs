//! Conformance checks for ncclNet v7 plugins of the GPUDirect-TCPX kind.
//!
//! For authors of such a plugin, and for operators that bring one to a new host. Each of the
//! [`checks`] states one rule and cites a section of the plugin contract ([`CONTRACT`]). [`run`]
//! gives each an [`Outcome`]: [`Pass`](Outcome::Pass), [`Fail`](Outcome::Fail),
//! [`Differs`](Outcome::Differs) (allowed, but not what version 3.1.9 does),
//! [`Skip`](Outcome::Skip) (it does not apply) or [`NotRun`](Outcome::NotRun) (it could not be
//! run).
//!
//! The checks call the raw function table and nothing above it. The plugin is never loaded into the
//! caller's process. Instead the program starts itself again as an *agent*, one process for each
//! end, which makes one raw call for each command. A plugin that crashes, exits or hangs becomes an
//! outcome that names the call, and no process outlives its check.
//!
//! The program that calls [`run`] must call [`child_main`] first thing in `main`, since that is
//! what an agent runs.
//!
//! ```standalone_crate
//! use std::process::ExitCode;
//! use tcpx_conformance::{Options, PluginSource, child_main, run};
//!
//! fn main() -> ExitCode {
//!     // An agent ends here. `Some(table)` would be the plugin behind `PluginSource::Table`.
//!     if let Some(code) = child_main(None) {
//!         return code;
//!     }
//!     let mut options = Options::new(PluginSource::Path("/nonexistent/libnccl-net.so".into()));
//!     options.only = vec!["abi.symbol".to_owned(), "abi.members".to_owned()];
//!     let report = run(&options, &mut |check| println!("{}: {}", check.name, check.outcome))
//!         .expect("both are checks");
//!     // There is no such file: both checks fail, and `run` does not.
//!     assert!(report.failed());
//!     assert_eq!(report.totals().passed, 0);
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! # Modules
//! `runner` runs the list in `checks`. A check uses `harness`: processes of the `agent`, with which
//! it speaks over `link`. `message` has the bytes of a message, and the entries as which they
//! arrive.

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
pub use options::{Options, PluginSource};
pub use outcome::Outcome;
pub use report::{CheckReport, Report, Totals};
pub use runner::{RunError, run};
