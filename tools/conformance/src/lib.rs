//! Conformance checks for ncclNet v7 plugins of the GPUDirect-TCPX kind.
//!
//! For authors of such a plugin, and for operators that are about to trust one on a new host. Each
//! of the [`checks`] states one rule and cites a section of the plugin contract ([`CONTRACT`]).
//! [`run`] answers each with [`Outcome::Pass`], [`Outcome::Fail`], [`Outcome::Differs`] (allowed,
//! but not what version 3.1.9 does), [`Outcome::Skip`] (it does not apply) or [`Outcome::NotRun`]
//! (it could not be run).
//!
//! The checks drive the raw function table and nothing above it. The plugin is never loaded into
//! the caller's process. Instead the program starts itself again as an *agent*, one process for
//! each end, which makes one raw call per command. So a plugin that crashes, exits or hangs becomes
//! a result that names the call, and no process outlives its check.
//!
//! The program that calls [`run`] must call [`child_main`] first thing in `main`, since that is
//! what an agent runs.
//!
//! ```standalone_crate
//! use std::process::ExitCode;
//! use tcpx_conformance::{Options, Target, child_main, run};
//!
//! fn main() -> ExitCode {
//!     // An agent ends here. `Some(table)` would be the plugin behind `Target::Table`.
//!     if let Some(code) = child_main(None) {
//!         return code;
//!     }
//!     let mut options = Options::new(Target::Path("/nonexistent/libnccl-net.so".into()));
//!     options.only = vec!["abi.symbol".to_owned(), "abi.members".to_owned()];
//!     let report = run(&options, &mut |check| println!("{}: {}", check.name, check.outcome))
//!         .expect("both are checks");
//!     // There is no such file, which is a result like any other.
//!     assert!(report.failed());
//!     assert_eq!(report.totals().passed, 0);
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! # Where to look
//! `runner` goes through the list in `checks`. A check works with what `harness` has: processes of
//! the `agent`, reached over `link`. `message` says what bytes are sent and how they come back.

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
