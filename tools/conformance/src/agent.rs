//! Agent: the process under test. It holds the plugin, takes one command at a time from its check,
//! and answers it.
//!
//! - `serve`: the loop that an agent runs instead of the program's own `main`;
//! - `commands`: every command, carried out;
//! - `stream`: many messages in a row, driven here so that both ends run at full speed;
//! - `device_memory`, `host_memory`: memory by number, as checks name it.

mod commands;
mod device_memory;
mod host_memory;
mod own_time;
mod serve;
mod stream;

pub use serve::child_main;
