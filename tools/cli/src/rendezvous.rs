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
//! - `args`, `role`: which end this process is, and where the other one is
//! - `server_address`: where a server is, as the user says it
//! - `socket`: listen, accept and dial, with deadlines
//! - `door`: who connects is heard, and let in or turned away
//! - `token`: what proves that an end is the right one
//! - `serving`: the client of a server, and what others hear meanwhile
//! - `started_server`: the server as a child process
//! - `message`, `link`: what the two ends say to each other, and the connection that carries it
//! - `client`, `server`: the steps of each end
//! - `agreed`: the last step of both
//! - `watch`: whether the other end is still there while this one waits for something else

mod agreed;
mod args;
mod client;
mod door;
mod link;
mod message;
mod program;
mod role;
mod server;
mod server_address;
mod serving;
mod socket;
mod started_server;
mod token;
mod watch;

pub(crate) use agreed::Agreed;
pub(crate) use args::EndsArgs;
pub(crate) use door::Door;
pub(crate) use link::Link;
pub(crate) use message::{Message, RESULT_LIMIT};
pub(crate) use program::{Program, Several};
pub(crate) use role::Role;
pub(crate) use socket::bind;
pub(crate) use watch::LinkWatch;

#[cfg(test)]
pub(crate) use program::connect_both;
