//! Helpers of the tests of all crates. Only tests and their doubles depend on this crate, and it
//! depends on no other crate of the workspace, so unit tests may use it too.
//!
//! - [`patience`]: how long a test waits before it fails, and short deadlines for slow machines.
//! - [`random`]: numbers from a seed.
//! - [`pattern`]: bytes that a receiver can check without having seen them.
//! - [`needs`]: tests that skip, and why; skips that are failures.
//! - [`process`]: a test in a process of its own, and processes that end with their owner.
//! - [`rxdm`]: a daemon that answers, refuses, hangs or closes.
//! - [`certificates`]: certificates of a fleet that exists for one test.
//! - [`log`]: what is logged, for tests that read it.
//! - [`attacker`]: one between two ends, who hears records and changes them; [`Tampering`] is how.
//! - [`wiretap`]: a listener on every wire of a host.
//! - [`dropped`]: what is left in memory of a value, and what texts show of a secret.

pub mod attacker;
pub mod certificates;
pub mod dropped;
pub mod log;
pub mod needs;
pub mod patience;
pub mod pattern;
pub mod process;
pub mod random;
pub mod rxdm;
mod tampering;
pub mod wiretap;

pub use log::CapturedLog;
pub use needs::{is_required, report_skip, skip};
pub use patience::{PATIENCE, PATIENCE_MS, eventually, scaled, until};
pub use random::Random;
pub use tampering::Tampering;
