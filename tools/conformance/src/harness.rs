//! Harness of the checks.
//!
//! - `check_result`: the end of a check, and its texts;
//! - `agent_process`: an agent, as its check sees it; `calls`: its commands as methods;
//! - `fixture`: the surroundings of one check: agents on demand, and its time;
//! - `pending_pair`: two agents between `listen` and their comm; `comm_pair`: two connected ones;
//! - `observation`: a time of polling for an event that must not happen;
//! - `symbols`: the exports of a plugin's file;
//! - `plugin_under_test`: facts about the plugin, and the memory that it is checked with.

pub(crate) mod agent_process;
pub(crate) mod calls;
pub(crate) mod check_result;
pub(crate) mod comm_pair;
pub(crate) mod fixture;
pub(crate) mod observation;
pub(crate) mod pending_pair;
pub(crate) mod plugin_under_test;
pub(crate) mod symbols;
