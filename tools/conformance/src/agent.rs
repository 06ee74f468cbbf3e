//! Agent: the process under test. It holds the plugin, and executes the commands of its check one
//! by one.
//!
//! - `serve`: the loop that an agent runs instead of the program's own `main`;
//! - `commands`: the execution of each command;
//! - `stream`: many messages in a row, driven here so that both ends run at full speed;
//! - `agent_memory`, `host_memory`: memory by address, as checks name it;
//! - `thread_time`: the time that a call took of its own thread.

mod agent_memory;
mod commands;
mod host_memory;
mod serve;
mod stream;
mod thread_time;

pub use serve::child_main;
