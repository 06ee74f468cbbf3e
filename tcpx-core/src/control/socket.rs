//! Socket of a control link: a non-blocking TCP connection with a buffer each way. `sending` and
//! `reading` move the bytes.

mod reading;
mod sending;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tcpx_protocol::frames::hello::Role;
use tcpx_protocol::frames::inbound::Inbound;
use tcpx_protocol::frames::link_frame::FrameError;
use tcpx_protocol::frames::messages::LinkChunk;
use tcpx_protocol::frames::outbound::Outbound;
use tcpx_protocol::frames::records::{Incoming, Outgoing};

use super::tls::LinkSecrets;
use crate::error::Departure;
use crate::plugin::comm_secrets::CommSecrets;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::tcp_info;
use crate::reactor::watch::{Events, Watched};
use crate::stats::tcp::TcpStats;

/// Number of probes of an idle connection before its host counts as gone.
const KEEPALIVE_PROBES: u32 = 5;

/// Reason why a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// The connection has ended.
    Gone(Departure),
    /// The other end breaks the protocol.
    Frame(FrameError),
}

/// Records of an encrypted link, and the secrets of its ends.
#[derive(Debug)]
struct LinkRecords {
    outgoing: Outgoing,
    incoming: Incoming,
    /// Secrets of the comms of the peer.
    comms: CommSecrets,
}

/// One control link.
#[derive(Debug)]
pub(crate) struct LinkSocket {
    stream: Watched<TcpStream>,
    inbound: Inbound,
    outbound: Outbound,
    /// Rest of the chunk that is arriving. Its frame was taken, and so were those of its bytes that
    /// have come.
    chunk: Option<LinkChunk>,
    /// Records that encrypt what is sent and decrypt what is received, once the ends have exchanged
    /// keys.
    records: Option<Box<LinkRecords>>,
    /// Whether there may be bytes to read.
    is_readable: bool,
    /// Whether the kernel takes no more bytes for now.
    is_blocked: bool,
    /// Whether the other end has closed the connection, or the connection has failed. A read finds
    /// out which.
    is_hung_up: bool,
    /// Number of frames that may still be handled in this round.
    round_left: usize,
    /// Whether bytes that were read are left, and may hold whole frames. Either the last round
    /// ended before them, or they came with the end of the handshake.
    has_backlog: bool,
    /// Error that ended the link while there was a backlog.
    ended: Option<LinkError>,
    /// Time at which the last byte came. Before the first byte: the time at which the connection
    /// came.
    pub(crate) received_at: Instant,
    has_heard: bool,
}

impl LinkSocket {
    /// Takes over a connected stream. The system probes an idle connection, and ends it when no
    /// probe is acknowledged for `host_timeout`. `None`: the system does not probe.
    /// [`unacknowledged`](Self::unacknowledged) watches bytes in flight.
    pub(crate) fn new(
        stream: TcpStream,
        host_timeout: Option<Duration>,
        now: Instant,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        if let Some(timeout) = host_timeout {
            SockRef::from(&stream).set_tcp_keepalive(&keepalive(timeout))?;
        }
        Ok(Self {
            stream: Watched::new(stream),
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            chunk: None,
            records: None,
            is_readable: true,
            is_blocked: false,
            is_hung_up: false,
            round_left: 0,
            has_backlog: false,
            ended: None,
            received_at: now,
            has_heard: false,
        })
    }

    /// Ends the exchange of keys. Frames that are queued from now on leave in records, and bytes
    /// that were not decoded yet must be in records.
    pub(crate) fn encrypt(&mut self, secrets: LinkSecrets, role: Role) {
        let (outgoing, incoming) = secrets.keys.into_records(role);
        let comms = CommSecrets::derive(&secrets.channels, role);
        self.records = Some(Box::new(LinkRecords { outgoing, incoming, comms }));
    }

    /// Returns whether both ends encrypt the bytes on the link.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.records.is_some()
    }

    /// Returns the secrets of the comms of the peer, so that they are encrypted as the link is.
    /// `None`: the link is not encrypted.
    pub(crate) fn comm_secrets(&self) -> Option<CommSecrets> {
        self.records.as_ref().map(|records| records.comms.clone())
    }

    /// Registers the socket with the poller, which reports its events from now on.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.stream.watch(poller, Events::Read, target);
    }

    /// Notes that an event was reported.
    pub(crate) fn wake(&mut self, is_hung_up: bool) {
        self.is_readable = true;
        self.is_blocked = false;
        self.is_hung_up |= is_hung_up;
    }

    /// Returns whether the link must be polled all the time, because the system reports no events
    /// for it.
    pub(crate) fn must_be_polled(&self) -> bool {
        !self.stream.is_watched()
    }

    /// Returns whether there may be more to read, or to send, at once.
    pub(crate) fn has_more(&self) -> bool {
        let sends = self.unsent_bytes() > 0 && !self.is_blocked;
        sends || self.has_backlog || (self.stream.is_watched() && self.is_readable)
    }

    /// Returns the number of bytes that are queued and not yet taken by the kernel.
    pub(crate) fn unsent_bytes(&self) -> usize {
        let pending = self.records.as_ref().map_or(0, |records| records.outgoing.pending_bytes());
        self.outbound.unsent().len() + pending
    }

    /// Returns whether any byte has come.
    pub(crate) fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Returns the address of this end, which belongs to the interface that reaches the peer.
    pub(crate) fn local_ip(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|address| address.ip())
    }

    /// Returns the address of the other end, as this host sees it.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.stream.peer_addr().ok().map(|address| address.ip())
    }

    /// Returns the address of the other end, in words.
    pub(crate) fn peer_address(&self) -> String {
        self.stream
            .peer_addr()
            .map_or_else(|_| "unknown address".to_owned(), |address| address.to_string())
    }

    /// Returns for how long the peer's host has acknowledged nothing. `None`: no byte is
    /// unacknowledged.
    pub(crate) fn unacknowledged(&self) -> io::Result<Option<Duration>> {
        tcp_info::overdue(&self.stream)
    }

    /// Returns the kernel's figures of the connection.
    pub(crate) fn tcp_stats(&self) -> TcpStats {
        tcp_info::stats(&*self.stream).unwrap_or_default()
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Returns the probes that give up a dead host after `timeout`. The system takes whole seconds, 1
/// to 32,767.
fn keepalive(timeout: Duration) -> TcpKeepalive {
    let seconds = |time: Duration| Duration::from_secs(time.as_secs().clamp(1, 32_767));
    TcpKeepalive::new()
        .with_time(seconds(timeout / 2))
        .with_interval(seconds(timeout / (2 * KEEPALIVE_PROBES)))
        .with_retries(KEEPALIVE_PROBES)
}

fn departure(error: &io::Error) -> Departure {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Departure::LinkClosed,
        kind => Departure::LinkFailed { kind: Some(kind), error: error.to_string() },
    }
}

#[cfg(test)]
mod tests;
