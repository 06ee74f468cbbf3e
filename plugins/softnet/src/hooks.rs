//! Hooks by which tests make the plugin misbehave, or do the hard way what it does the easy way.
//! Their methods change nothing by default, and are asked at places that no caller of the table
//! reaches.
//!
//! Changes to calls as such need no hooks: a double wraps the table. Nothing but a double can
//! install [`Hooks`], with the feature `hooks`; without it every question is answered when the
//! plugin is compiled.
//!
//! - `at_process`, `at_comm`, `at_socket`: what can be changed of a process, of a comm, and of a
//!   socket and the chunks on it
//! - `pages`: pages of the bounce region, as a double takes them
//! - `slot`: storage of hooks

mod at_comm;
mod at_process;
mod at_socket;
mod pages;
mod slot;

pub use tcpx_comm::wire::{MAX_SOCKETS, Side, SocketRole, chunk_at};

pub use self::at_comm::CommHooks;
pub use self::at_process::Hooks;
pub use self::at_socket::{ArrivalHooks, SocketHooks};
pub use self::pages::{Pages, Placement};
#[cfg(feature = "hooks")]
pub use self::slot::install;
pub(crate) use self::slot::{Hook, HookSet, hooks};

/// Whether this build can be changed: whether it has `install`.
pub const CAN_BE_INSTALLED: bool = cfg!(feature = "hooks");
