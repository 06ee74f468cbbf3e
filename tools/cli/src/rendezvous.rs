//! How the two ends of a command find each other and become two connected sessions.
//!
//! They meet over a TCP connection, with one deadline until both agree:
//!
//! ```text
//! client                                        server
//! by dialling, or starting a server             by listening
//!           ◀────────── both greet ──────────▶
//!           ─────────── request ─────────────▶  Request
//! Accepted  ◀── answer: connection info, or no
//! Agreed    ◀─── sessions connect, both say so  Agreed
//! ```
//!
//! That connection ends there. What the commands then say, "go", results, and why one gives up,
//! goes by notifications of the sessions, which also tell when the other end is gone.
//!
//! - `program`: all of it, for a command with two ends; the others are its parts
//! - `args`, `role`: which end this process is, and where the other one is
//! - `server_address`: where a server is, as the user says it
//! - `socket`: listen, and dial with a deadline
//! - `door`: who connects is heard, and let in or turned away
//! - `token`: what proves that an end is the right one
//! - `serving`: the client of a server, and what others hear meanwhile
//! - `started_server`: the server as a child process
//! - `message`, `link`: what the two ends say to each other, and the connection that carries it
//! - `way`: how the bytes come and go: by a socket, or by
//! - `notes`: the session's notifications
//! - `client`, `server`: the steps of each end
//! - `agreed`: the last step of both
//! - `watch`: whether the other end is still there while this one waits for its session

mod agreed;
mod args;
mod client;
mod door;
mod link;
mod message;
mod notes;
mod program;
mod role;
mod server;
mod server_address;
mod serving;
mod socket;
mod started_server;
mod token;
mod watch;
mod way;

pub(crate) use agreed::Agreed;
pub(crate) use args::EndsArgs;
pub(crate) use door::Door;
pub(crate) use link::SessionLink;
pub(crate) use message::Message;
pub(crate) use program::{Program, Several};
pub(crate) use role::Role;
pub(crate) use socket::bind;

#[cfg(test)]
pub(crate) use program::connect_both;
