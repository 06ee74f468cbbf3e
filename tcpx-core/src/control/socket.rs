//! The bytes of a control link: a non-blocking TCP connection with a buffer each way. What is sent
//! is here, what is read in `reading`.

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
use tcpx_protocol::frames::messages::LinkPart;
use tcpx_protocol::frames::outbound::Outbound;
use tcpx_protocol::frames::records::{Incoming, Outgoing, RecordKeys, with_records};
use tcpx_protocol::types::MAX_EAGER_BYTES;

use super::shared_bytes::{self, Source};
use super::tcp_info;
use crate::error::Departure;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watched};

/// Unsent bytes above which the peer is taken to have stopped reading.
const MAX_UNSENT_BYTES: usize = 256 << 20;
/// Probes of an idle connection before its host counts as gone.
const KEEPALIVE_PROBES: u32 = 5;

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// The connection has ended.
    Gone(Departure),
    /// The other end breaks the protocol.
    Frame(FrameError),
}

/// One control link.
#[derive(Debug)]
pub(crate) struct LinkSocket {
    stream: Watched<TcpStream>,
    inbound: Inbound,
    outbound: Outbound,
    /// The rest of the part on its way: its frame was taken, and those of its bytes that have come.
    part: Option<LinkPart>,
    /// What everything is sealed with, and opened with, once the ends authenticate the link.
    records: Option<Box<(Outgoing, Incoming)>>,
    /// There may be bytes to read.
    is_readable: bool,
    /// The kernel takes no more bytes for now.
    is_blocked: bool,
    /// The other end has closed the connection, or it has failed: to be found out by reading.
    is_hung_up: bool,
    /// Frames that may still be handled in this round.
    round_left: usize,
    /// Bytes that were read are left, and may hold whole frames: the last round ended before them,
    /// or they came with the end of the handshake.
    has_backlog: bool,
    /// What the link ended with while there was a backlog.
    ended: Option<LinkError>,
    /// When the last byte came; before the first one, when the connection came.
    pub(crate) heard_at: Instant,
    has_heard: bool,
}

impl LinkSocket {
    /// Takes over a connected stream. The system probes it while it is idle, and ends it when
    /// nothing acknowledges the probes for `host_timeout`. `None`: it does not probe. What is under
    /// way is watched by [`unacknowledged`](Self::unacknowledged).
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
            part: None,
            records: None,
            is_readable: true,
            is_blocked: false,
            is_hung_up: false,
            round_left: 0,
            has_backlog: false,
            ended: None,
            heard_at: now,
            has_heard: false,
        })
    }

    /// The handshake is over: everything that is queued from now on leaves in records, and
    /// everything that was not decoded yet is to come in records.
    pub(crate) fn authenticate(&mut self, keys: RecordKeys, role: Role) {
        self.records = Some(Box::new(keys.into_records(role)));
    }

    /// Whether both ends authenticate what travels on it.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.records.is_some()
    }

    /// Has the system say when something happens on it, from now on.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.stream.watch(poller, Events::Read, target);
    }

    /// Something has happened on it.
    pub(crate) fn wake(&mut self, is_hung_up: bool) {
        self.is_readable = true;
        self.is_blocked = false;
        self.is_hung_up |= is_hung_up;
    }

    /// Whether it must be asked again and again, because the system does not say when something
    /// happens.
    pub(crate) fn must_be_polled(&self) -> bool {
        !self.stream.is_watched()
    }

    /// Whether there may be more to read, or to send, at once.
    pub(crate) fn has_more(&self) -> bool {
        let sends = !self.outbound.unsent().is_empty() && !self.is_blocked;
        sends || self.has_backlog || (self.stream.is_watched() && self.is_readable)
    }

    /// Whether any byte has come.
    pub(crate) fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// The address of this end, which belongs to the interface that reaches the peer.
    pub(crate) fn local_ip(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|address| address.ip())
    }

    /// The other end's, as far as this host sees it.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.stream.peer_addr().ok().map(|address| address.ip())
    }

    /// The address of the other end.
    pub(crate) fn peer_address(&self) -> String {
        self.stream
            .peer_addr()
            .map_or_else(|_| "unknown address".to_owned(), |address| address.to_string())
    }

    /// How long the peer's host has acknowledged nothing. `None`: nothing waits for it.
    pub(crate) fn unacknowledged(&self) -> io::Result<Option<Duration>> {
        tcp_info::overdue(&self.stream)
    }

    /// Sends a frame, and the bytes of a message and a note behind it, with all that is queued.
    /// What the kernel does not take at once is copied to the queue. [`flush`](Self::flush) tells
    /// of an error.
    pub(crate) fn send_with_payload(&mut self, frame: &impl LinkFrame, payload: [&[u8]; 2]) {
        self.queue(frame);
        let mut mac = None;
        if let Some(records) = &mut self.records {
            mac = self.outbound.append(|queue| records.0.close_with(queue, payload));
            if mac.is_none() {
                return;
            }
        }
        let mac: &[u8] = mac.as_ref().map_or(&[], |mac| mac);
        self.send_behind([payload[0], payload[1], mac].map(Source::of));
    }

    /// Sends a frame, and behind it bytes that others may write meanwhile, and a note.
    pub(crate) fn send_shared(&mut self, frame: &impl LinkFrame, bytes: Source<'_>, note: &[u8]) {
        self.queue(frame);
        let (note, nothing) = (Source::of(note), Source::of(&[]));
        match &mut self.records {
            None => self.send_behind([bytes, note, nothing]),
            // A MAC is of what is sent, not of what was there before.
            Some(records) => {
                self.outbound.append(|queue| {
                    for part in [bytes, note] {
                        let append = |range, queue: &mut _| part.append_to(range, queue);
                        records.0.append_copy(queue, part.len(), append);
                    }
                    records.0.close(queue);
                });
            }
        }
    }

    /// Sends a payload behind what is queued, and queues what the kernel does not take.
    fn send_behind(&mut self, payload: [Source<'_>; 3]) {
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

    /// Writes what is queued and a payload behind it. Returns how many bytes of the payload went.
    fn write_with(&mut self, payload: [Source<'_>; 3]) -> Result<usize, LinkError> {
        let queued = self.outbound.unsent();
        let before = queued.len();
        let [message, note, mac] = payload;
        let sources = [Source::of(queued), message, note, mac];
        let all: usize = sources.iter().map(Source::len).sum();
        let written = match shared_bytes::send(&self.stream, &sources) {
            Ok(0) => return Err(LinkError::Gone(Departure::LinkClosed)),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(LinkError::Gone(departure(&error))),
        };
        if written < all {
            // `flush` has the system say when it takes more.
            self.is_blocked = !self.must_be_polled();
        }
        self.outbound.take(written.min(before));
        Ok(written.saturating_sub(before))
    }

    /// Queues a frame; `flush` sends it.
    pub(crate) fn queue(&mut self, frame: &impl LinkFrame) {
        match &mut self.records {
            None => self.outbound.append(|bytes| frame.encode(bytes)),
            Some(records) => {
                self.outbound.append(|queue| records.0.append(queue, |bytes| frame.encode(bytes)))
            }
        }
    }

    /// Makes room for frames of so many bytes together, which are queued without an allocation
    /// then.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        self.outbound.reserve(if self.is_authenticated() { with_records(bytes) } else { bytes })
    }

    /// Gives room back that nothing needs.
    pub(crate) fn give_room_back(&mut self) {
        self.outbound.give_room_back();
    }

    /// Bytes queued and not yet taken by the kernel.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.outbound.unsent().len()
    }

    /// How many bytes the kernel is likely to take at once, or as many as a record has. `None`: it
    /// does not say.
    pub(crate) fn room(&self) -> Option<u64> {
        let room = tcp_info::of(&self.stream)?;
        Some(if self.is_authenticated() { room.min(MAX_EAGER_BYTES.into()) } else { room })
    }

    /// Queued bytes that the kernel has taken so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.outbound.taken()
    }

    /// Sends what the kernel takes. Returns whether any byte moved. A link that has ended says so
    /// once every frame that came before is handled.
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
        if self.outbound.unsent().is_empty() {
            return Ok(false);
        }
        if let Some(records) = &mut self.records {
            self.outbound.append(|queue| records.0.close(queue));
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

/// Probes that give a dead host up after `timeout`. The system takes whole seconds, 1 to 32,767.
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
