//! Harness of the checks.
//!
//! - `verdict`: the end of a check, and the words for it;
//! - `process`: an agent, from outside; `calls`: its commands as methods;
//! - `fixture`: the surroundings of one check: agents on demand, and the time it has;
//! - `pending_pair`: two agents between `listen` and their comm; `comm_pair`: two that have it;
//! - `observation`: the time to look at something that should not happen;
//! - `symbols`: the exports of a plugin's file;
//! - `subject`: the plugin under check, and the memory it is checked with.

pub(crate) mod calls;
pub(crate) mod comm_pair;
pub(crate) mod fixture;
pub(crate) mod observation;
pub(crate) mod pending_pair;
pub(crate) mod process;
pub(crate) mod subject;
pub(crate) mod symbols;
pub(crate) mod verdict;
