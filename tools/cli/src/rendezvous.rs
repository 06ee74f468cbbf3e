//! Rendezvous of the two ends of a command, which turns them into two connected sessions.
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
//! That connection ends there. The commands' later messages, "go", results, and the reason of an
//! end that gives up, travel as notifications of the sessions. The sessions also report when the
//! other end is gone.
//!
//! - `program`: all of it, for a command with two ends; the others are its parts
//! - `args`, `role`: the end that this process is, and the address of the other one
//! - `server_address`: the address of a server, as the user gives it
//! - `socket`: listening, and dialling with a deadline
//! - `door`: hears incoming connections, and lets each in or turns it away
//! - `token`: proof that an end is the right one
//! - `serving`: the client of a server, and the answers to other clients meanwhile
//! - `started_server`: the server as a child process
//! - `message`, `link`: the messages of the two ends, and the connection that carries them
//! - `way`: transport of the messages' bytes: a socket, or
//! - `notes`: the session's notifications
//! - `client`, `server`: the steps of each end
//! - `agreed`: the last step of both
//! - `watch`: checks that the other end is still there while this end waits for its session

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
