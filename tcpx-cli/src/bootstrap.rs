//! The connection between the two ends of a command: what to do, connection info, "go", results.
//!
//! One TCP connection, framed messages, a deadline on every step. It moves none of the measured bytes.

mod frame;
mod link;
mod message;
mod socket;

use std::net::SocketAddr;
use std::time::Duration;

pub(crate) use frame::FrameError;
pub(crate) use link::Link;
pub(crate) use message::{
    Accepted, Batch, CaseTimes, MAX_ITERATIONS, MAX_MESSAGES, Message, Mode, Plan, Program,
    RawOffer, Request,
};
pub(crate) use socket::{accept, accept_or_end, bind, dial, wait};

/// Where the two ends could not meet or lost each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error(
        "{address}: port is in use; stop the program that listens there or choose another with --port: {error}"
    )]
    PortInUse { address: SocketAddr, error: std::io::Error },
    #[error("nobody connected to {address} within {}; start the client with this host's address, or wait longer with --timeout", seconds(.waited))]
    NobodyCame { address: SocketAddr, waited: Duration },
    #[error("no server at {address} within {}: {error}; start it there, or check address, --port and firewall", seconds(.waited))]
    NoServer { address: String, waited: Duration, error: String },
    #[error("{address}: {reason}; give a host name or address, with :PORT if it is not --port")]
    BadAddress { address: String, reason: String },
    #[error(
        "the other end ({peer}) closed the connection while this end was waiting for its {awaited}; see what it printed, or whether it was ended"
    )]
    Closed { peer: SocketAddr, awaited: &'static str },
    #[error("the other end ({peer}) sent no {awaited} within {}; is it stopped, or slower than --timeout?", seconds(.waited))]
    Silent { peer: SocketAddr, awaited: &'static str, waited: Duration },
    #[error("the other end ({peer}) took no {sent} within {}; is it stopped, or slower than --timeout?", seconds(.waited))]
    Stuck { peer: SocketAddr, sent: &'static str, waited: Duration },
    #[error("connection with {peer} failed: {error}")]
    Failed { peer: SocketAddr, error: std::io::Error },
    #[error(
        "{peer} does not speak this protocol: {error}; only `tcpx` of the same version connects here"
    )]
    Garbage { peer: SocketAddr, error: FrameError },
    #[error(
        "the other end ({peer}) sent its {got} where its {awaited} was due; use the same version of tcpx on both"
    )]
    OutOfTurn { peer: SocketAddr, got: &'static str, awaited: &'static str },
}

impl BootstrapError {
    /// Whether the connection was there and was lost.
    pub(crate) fn is_about_the_connection(&self) -> bool {
        matches!(
            self,
            Self::Closed { .. } | Self::Silent { .. } | Self::Stuck { .. } | Self::Failed { .. }
        )
    }
}

/// A deadline as it was given on the command line.
fn seconds(time: &Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
