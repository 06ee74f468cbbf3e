//! What the checks are written with.
//!
//! - `verdict`: how a check ends, and the words to say so;
//! - `process`: an agent, from outside; `calls`: its commands as methods;
//! - `fixture`: the surroundings of one check: agents on demand, and the time it has;
//! - `pending_pair`: two agents between `listen` and their comm; `comm_pair`: two that have it;
//! - `observation`: how long to look at something that should not happen;
//! - `symbols`: what a plugin's file exports;
//! - `subject`: the plugin under check, and what it is checked with.

pub(crate) mod calls;
pub(crate) mod comm_pair;
pub(crate) mod fixture;
pub(crate) mod observation;
pub(crate) mod pending_pair;
pub(crate) mod process;
pub(crate) mod subject;
pub(crate) mod symbols;
pub(crate) mod verdict;
