//! Socket of a control link: a non-blocking TCP connection with a buffer each way. This file sends,
//! and `reading` reads.

mod reading;

use std::collections::TryReserveError;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tcpx_protocol::frames::hello::Role;
use tcpx_protocol::frames::inbound::Inbound;
use tcpx_protocol::frames::link_frame::{FrameError, LinkFrame};
use tcpx_protocol::frames::messages::LinkChunk;
use tcpx_protocol::frames::outbound::Outbound;
use tcpx_protocol::frames::records::{Incoming, Outgoing, with_records};
use tcpx_protocol::types::MAX_EAGER_BYTES;

use super::shared_bytes::{self, Source};
use super::tls::LinkSecrets;
use crate::error::Departure;
use crate::plugin::comm_secrets::CommSecrets;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::tcp_info;
use crate::reactor::watch::{Events, Watched};
use crate::stats::tcp::TcpStats;

/// Number of unsent bytes above which the peer counts as not reading any more.
const MAX_UNSENT_BYTES: usize = 256 << 20;
/// Longest payload that is copied behind its frame: a call with one buffer is 0.2 µs cheaper than
/// one with three.
const COPIED_BYTES: usize = 512;
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

    /// Sends all that is queued, then a frame, the bytes of a message and a note. Copies to the
    /// queue what the kernel does not take at once. [`flush`](Self::flush) returns an error.
    pub(crate) fn send_with_payload(&mut self, frame: &impl LinkFrame, payload: [&[u8]; 2]) {
        self.queue(frame);
        self.send_payload(payload.map(Source::of));
    }

    /// Sends a frame, then bytes that other threads may write meanwhile, and a note.
    pub(crate) fn send_shared(&mut self, frame: &impl LinkFrame, bytes: Source<'_>, note: &[u8]) {
        self.queue(frame);
        self.send_payload([bytes, Source::of(note)]);
    }

    /// Sends further bytes of the frame that was sent last, and a note.
    pub(crate) fn send_more(&mut self, payload: [&[u8]; 2]) {
        self.send_payload(payload.map(Source::of));
    }

    fn send_payload(&mut self, payload: [Source<'_>; 2]) {
        let bytes: usize = payload.iter().map(Source::len).sum();
        if self.is_encrypted() || bytes <= COPIED_BYTES {
            self.queue_payload(payload);
        } else {
            self.send_behind(payload);
        }
    }

    /// Copies a payload to the queue, into records if there are any, and sends all that is queued.
    /// Shared bytes may change at any time, so each is read once: a copy is encrypted where it
    /// lies.
    fn queue_payload(&mut self, payload: [Source<'_>; 2]) {
        let records = &mut self.records;
        self.outbound.append(|queue| {
            for part in payload {
                let append = |range, queue: &mut _| part.append_to(range, queue);
                match records {
                    None => append(0..part.len(), queue),
                    Some(records) => records.outgoing.append_copy(queue, part.len(), append),
                }
            }
        });
        if self.ended.is_none() && !self.is_blocked {
            self.ended = self.write_out().err();
        }
    }

    /// Sends a payload behind what is queued, and queues what the kernel does not take.
    fn send_behind(&mut self, payload: [Source<'_>; 2]) {
        let mut sent = 0;
        if self.ended.is_none() && !self.is_blocked {
            match self.write_with(payload) {
                Ok(bytes) => sent = bytes,
                Err(error) => self.ended = Some(error),
            }
        }
        self.outbound.append(|queue| {
            for part in payload {
                part.append_to(sent..part.len(), queue);
                sent = sent.saturating_sub(part.len());
            }
        });
    }

    /// Writes what is queued and a payload behind it. Returns how many bytes of the payload were
    /// written.
    fn write_with(&mut self, payload: [Source<'_>; 2]) -> Result<usize, LinkError> {
        let queued = self.outbound.unsent();
        let before = queued.len();
        let [message, note] = payload;
        let sources = [Source::of(queued), message, note];
        let all: usize = sources.iter().map(Source::len).sum();
        let written = match shared_bytes::send(&self.stream, &sources) {
            Ok(0) => return Err(LinkError::Gone(Departure::LinkClosed)),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(LinkError::Gone(departure(&error))),
        };
        if written < all {
            // `flush` waits for the event that the kernel takes more.
            self.is_blocked = !self.must_be_polled();
        }
        self.outbound.take(written.min(before));
        Ok(written.saturating_sub(before))
    }

    /// Queues a frame. `flush` sends it.
    pub(crate) fn queue(&mut self, frame: &impl LinkFrame) {
        match &mut self.records {
            None => self.outbound.append(|bytes| frame.encode(bytes)),
            Some(records) => {
                let outgoing = &mut records.outgoing;
                self.outbound.append(|queue| outgoing.append(queue, |bytes| frame.encode(bytes)))
            }
        }
    }

    /// Makes room for frames of `bytes` bytes together. Queueing them then allocates nothing.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        let Some(records) = &mut self.records else { return self.outbound.reserve(bytes) };
        records.outgoing.reserve(bytes)?;
        self.outbound.reserve(with_records(bytes))
    }

    /// Releases unused room.
    pub(crate) fn give_room_back(&mut self) {
        self.outbound.give_room_back();
    }

    /// Returns the number of bytes that are queued and not yet taken by the kernel.
    pub(crate) fn unsent_bytes(&self) -> usize {
        let pending = self.records.as_ref().map_or(0, |records| records.outgoing.pending_bytes());
        self.outbound.unsent().len() + pending
    }

    /// Returns how many bytes the kernel is likely to take at once. On an encrypted link no more
    /// than the longest eager message has: as many are encrypted at a time. `None`: the system does
    /// not say.
    pub(crate) fn room(&self) -> Option<u64> {
        let room = tcp_info::of(&self.stream)?;
        Some(if self.is_encrypted() { room.min(MAX_EAGER_BYTES.into()) } else { room })
    }

    /// Returns how many queued bytes the kernel has taken so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.outbound.taken()
    }

    /// Sends what the kernel takes. Returns whether any byte moved. A link that has ended returns
    /// its error once every frame that came before is handled.
    pub(crate) fn flush(&mut self) -> Result<bool, LinkError> {
        if self.ended.is_none() {
            match self.write_out() {
                Ok(moved) => return Ok(moved),
                Err(error) => self.ended = Some(error),
            }
        }
        if self.has_backlog { Ok(false) } else { self.ended.take().map_or(Ok(false), Err) }
    }

    fn write_out(&mut self) -> Result<bool, LinkError> {
        if self.unsent_bytes() == 0 {
            return Ok(false);
        }
        if let Some(records) = &mut self.records {
            let closed = self.outbound.append(|queue| records.outgoing.close(queue));
            closed.map_err(|error| {
                let (kind, error) = (None, format!("its bytes cannot be encrypted: {error}"));
                LinkError::Gone(Departure::LinkFailed { kind, error })
            })?;
        }
        let mut moved = false;
        while !self.outbound.unsent().is_empty() {
            match (&*self.stream).write(self.outbound.unsent()) {
                Ok(0) => return Err(LinkError::Gone(Departure::LinkClosed)),
                Ok(bytes) => {
                    self.outbound.take(bytes);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkError::Gone(departure(&error))),
            }
        }
        self.is_blocked &= !self.outbound.unsent().is_empty();
        self.stream.wait_for(if self.is_blocked { Events::ReadWrite } else { Events::Read });
        if self.unsent_bytes() > MAX_UNSENT_BYTES {
            return Err(LinkError::Gone(Departure::LinkFailed {
                kind: None,
                error: "it stopped reading its control link".into(),
            }));
        }
        Ok(moved)
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
