//! How the two ends of a command find each other and become two connected sessions.
//!
//! One TCP connection, with one deadline until both agree. Each step is a type that only the step
//! before it can make, so an exchange in the wrong order does not compile:
//!
//! ```text
//! client                                        server
//! Link      by dialling, or starting a server   Link      by listening
//! Reached   ◀────────── both greet ──────────▶  Greeted
//! Asked     ─────────── request ─────────────▶  Heard
//! Accepted  ◀── answer: connection info, or no  Offered
//! Agreed    ◀─── sessions connect, both say so  Agreed
//! ```
//!
//! Over the same connection the commands then say "go" and exchange results. It moves none of the
//! measured bytes.
//!
//! - `program`: all of it, for a command with two ends; the others are its parts
//! - `args`: which end this process is, and where the other one is
//! - `server_address`: where a server is, as the user says it
//! - `socket`: listen, accept and dial, with deadlines
//! - `started_server`: the server as a child process
//! - `message`, `link`: what the two ends say to each other, and the connection that carries it
//! - `client`, `server`: the steps of each end
//! - `agreed`: the last step of both
//! - `watch`: whether the other end is still there while this one waits for something else

mod agreed;
mod args;
mod client;
mod link;
mod message;
mod program;
mod server;
mod server_address;
mod socket;
mod started_server;
mod watch;

pub(crate) use agreed::Agreed;
pub(crate) use args::{EndsArgs, Role};
pub(crate) use link::Link;
pub(crate) use message::{Message, RESULT_LIMIT};
pub(crate) use program::Program;
pub(crate) use socket::{accept, bind};
pub(crate) use watch::LinkWatch;

#[cfg(test)]
pub(crate) use program::connect_both;
