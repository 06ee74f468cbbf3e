//! Rendezvous of the two ends of a command, which turns them into two connected sessions.
//!
//! They meet over a TCP connection, with one deadline until both agree:
//!
//! ```text
//! client                                              server
//! by dialling, or starting a server                   by listening
//!                  ◀────────── both greet ──────────▶
//!                  ─────────── request ─────────────▶  Request
//! AcceptedRequest  ◀── answer: connection info, or no
//! ConnectedEnd     ◀─── sessions connect, both say so  ConnectedEnd
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
//! - `acceptor`: checks incoming connections, and admits or rejects each
//! - `token`: proof that the two ends know one secret
//! - `serving`: the client of a server, and the answers to other clients meanwhile
//! - `local_server`: a server as a child process
//! - `message`, `link`: the messages of the two ends, and the connection that carries them
//! - `message_transport`: transport of the messages' bytes: a socket, or
//! - `notification_stream`: the session's notifications
//! - `client`, `server`: the steps of each end
//! - `connected_end`: the last step of both
//! - `watch`: watches the other end while this end waits for its session

mod acceptor;
mod args;
mod client;
mod connected_end;
mod link;
mod local_server;
mod message;
mod message_transport;
mod notification_stream;
mod program;
mod role;
mod server;
mod server_address;
mod serving;
mod socket;
mod token;
mod watch;

pub(crate) use acceptor::Acceptor;
pub(crate) use args::EndsArgs;
pub(crate) use connected_end::ConnectedEnd;
pub(crate) use link::{SessionLink, framed};
pub(crate) use message::Message;
pub(crate) use program::{Program, SeveralClients};
pub(crate) use role::Role;
pub(crate) use serving::ServerPort;
pub(crate) use socket::bind;

#[cfg(test)]
pub(crate) use program::connect_both;
