//! Diagnoses of GPUDirect-TCPX problems, and checks that keep a process from loading a plugin that
//! would end it.
//!
//! The crate is named after what its two halves share: a *diagnosis* is one known problem, with a
//! number, a symptom, a cause and a cure.
//!
//! - [`table`] holds every diagnosis. [`explain`] finds one by its [`Code`], [`search`] by the
//!   words of a log. Errors of `tcpx-core` name a row of it.
//! - [`preflight()`] checks a [`Host`] before the plugin is loaded. The hardware plugin reacts to a
//!   missing driver, daemon or setting with `exit(1)`, a crash or an endless wait. It must not be
//!   loaded where one of these is missing. The result is a [`Report`] of [`Finding`]s.
//! - [`pci`] lists the GPUs and NICs and their distances; [`variables`] explains the plugin's
//!   environment variables. Both serve preflight, and others as well.
//!
//! It lies below `tcpx-core`, so it does little: it reads files below `/proc`, `/sys` and the
//! plugin's own, makes the few system calls of [`Facts`], and asks RxDM one question for each GPU.
//! That question stays here because the plugin waits for ever, or exits, on an answer that it does
//! not understand, and no other way reveals. Everything else that can be said about a machine is
//! said by `tcpx-doctor`, which is built on this crate.
//!
//! This crate never changes a setting, never loads the plugin, never prints, and makes no request
//! without a deadline.
//!
//! ```
//! use std::path::Path;
//! use tcpx_diagnosis::variables::process_env;
//! use tcpx_diagnosis::{Host, explain, preflight};
//!
//! let env = process_env();
//! let plugin = Path::new("/no/such/libnccl-net-tcpx.so");
//! let report = preflight(plugin, None, &Host::this(&env)).expect_err("there is no such file");
//! let missing = report.findings().iter().find(|finding| finding.seen.contains("/no/such"));
//! let diagnosis = missing.and_then(|finding| explain(finding.id)).expect("it has a row");
//! assert_eq!(diagnosis.code.to_string(), "TCPX-201");
//! println!("{}: {}", diagnosis.title, diagnosis.cure.join("; "));
//! ```

mod code;
mod diagnosis;
mod machine;
pub mod pci;
mod preflight;
mod report;
mod search;
pub mod table;
pub mod variables;

pub use code::{Code, CodeError};
pub use diagnosis::{Diagnosis, Severity};
pub use machine::facts::{Dialects, Facts};
pub use machine::host::Host;
pub use machine::live::LiveFacts;
pub use machine::tree::Tree;
pub use preflight::{
    Hardware, PluginKind, check_plugin_file, check_rxdm, data_nics, nics_of, preflight,
};
pub use report::{Finding, Report};
pub use search::search;
pub use table::explain;
