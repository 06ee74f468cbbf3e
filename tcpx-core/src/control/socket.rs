//! The bytes of a control link: a non-blocking TCP connection with a buffer each way.

use std::collections::TryReserveError;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use socket2::{SockRef, TcpKeepalive};
use tcpx_protocol::frames::fields::LinkPart;
use tcpx_protocol::frames::hello::Role;
use tcpx_protocol::frames::inbound::{Inbound, take_frame};
use tcpx_protocol::frames::link_frame::{FrameError, LinkFrame};
use tcpx_protocol::frames::outbound::Outbound;
use tcpx_protocol::frames::records::{Incoming, Outgoing, RecordKeys, with_records};
use tcpx_protocol::types::MAX_EAGER_BYTES;

use super::shared_bytes::{self, Place, Source};
use super::tcp_info;
use crate::error::Departure;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watched};

/// Unsent bytes above which the peer is taken to have stopped reading.
const MAX_UNSENT_BYTES: usize = 256 << 20;
/// Frames of one peer that are handled in one round, so that no peer keeps the others waiting.
const FRAMES_A_ROUND: usize = 2048;
/// Bytes that are read behind a part which is read to its place: the next frame, and little of what
/// follows it, so that most of that is read to its place too.
const BEHIND_PART: usize = 4096;
/// Most places that bytes are read to at once, and one for what comes behind them.
const MAX_PLACES: usize = 64;
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

    /// Begins a round, in which it hands out only so many frames.
    pub(crate) fn begin_round(&mut self) {
        self.round_left = FRAMES_A_ROUND;
    }

    /// Hands out no more frames in this round.
    pub(crate) fn end_round(&mut self) {
        self.round_left = 0;
    }

    /// Reads what has arrived, unless an earlier round has left frames. Returns whether any byte
    /// came, or frames were left: then [`next_of_round`](Self::next_of_round) hands frames out. The
    /// end of the link is told when no whole frame is left.
    pub(crate) fn read(&mut self, now: Instant) -> Result<bool, LinkError> {
        if self.has_backlog {
            return Ok(true);
        }
        if self.may_read() { self.fill(now) } else { Ok(false) }
    }

    fn may_read(&self) -> bool {
        self.is_readable || self.must_be_polled()
    }

    /// The part of which bytes may be read next, behind nothing else. Never where they come in
    /// records, of which nothing may go to its place before its MAC was right.
    pub(crate) fn part_to_read(&self) -> Option<LinkPart> {
        self.part.filter(|_| !self.has_backlog && self.may_read() && !self.is_authenticated())
    }

    /// Reads bytes of the [part](Self::part_to_read) to where they belong. `places` has room for
    /// them, or for the first of them; not all of many are used. What comes behind the part is read
    /// too. Returns how many bytes of it came; they count as taken.
    pub(crate) fn read_part<'a>(
        &mut self,
        places: impl Iterator<Item = Place<'a>>,
        now: Instant,
    ) -> Result<u32, LinkError> {
        let Some(part) = self.part else { return Ok(0) };
        let mut places: SmallVec<[Place<'_>; MAX_PLACES]> =
            places.take(MAX_PLACES - 1).map(Place::for_a_while).collect();
        if part.after(room_of(&places)).is_none() {
            let behind = self.inbound.room();
            let most = behind.len().min(BEHIND_PART);
            places.push(Place::of(&mut behind[..most]));
        }
        let room = room_of(&places);
        let outcome = shared_bytes::receive(&self.stream, &mut places);
        drop(places);
        let bytes = self.note_read(outcome, room, now)?;
        let came = part.first(bytes).bytes;
        self.part = part.after(bytes);
        self.inbound.fill(bytes - came as usize);
        Ok(came)
    }

    /// The next whole frame that has arrived, until the round has handed out as many as it may.
    #[inline]
    pub(crate) fn next_of_round<F: LinkFrame>(&mut self) -> Result<Option<F>, LinkError> {
        if self.round_left == 0 {
            self.has_backlog = self.has_undecoded();
            return Ok(None);
        }
        self.round_left -= 1;
        let frame = self.next_frame()?;
        self.has_backlog &= frame.is_some();
        Ok(frame)
    }

    /// Reads what has arrived, without waiting. Returns whether any byte came.
    pub(crate) fn fill(&mut self, now: Instant) -> Result<bool, LinkError> {
        let room = self.inbound.room();
        let room_bytes = room.len();
        let outcome = (&*self.stream).read(room);
        let bytes = self.note_read(outcome, room_bytes, now)?;
        self.inbound.fill(bytes);
        Ok(bytes > 0)
    }

    /// What a read of up to so many bytes has come to. Returns how many came.
    fn note_read(
        &mut self,
        outcome: io::Result<usize>,
        room: usize,
        now: Instant,
    ) -> Result<usize, LinkError> {
        match outcome {
            Ok(0) => Err(LinkError::Gone(Departure::LinkClosed)),
            Ok(bytes) => {
                // What comes from now on is told, but the end may have been told already.
                self.is_readable = bytes == room || self.is_hung_up;
                self.heard_at = now;
                self.has_heard = true;
                Ok(bytes)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                self.is_readable = error.kind() == ErrorKind::Interrupted;
                Ok(0)
            }
            Err(error) => Err(LinkError::Gone(departure(&error))),
        }
    }

    /// Reads, and takes the next whole frame. What came before the end of the link is taken first.
    pub(crate) fn receive<F: LinkFrame>(&mut self, now: Instant) -> Result<Option<F>, LinkError> {
        let outcome = self.fill(now);
        // A handshake is read until nothing is left, its end included.
        self.is_readable |= outcome == Ok(true);
        let frame = self.next_frame()?;
        self.has_backlog = frame.is_some() && self.has_undecoded();
        if frame.is_some() {
            return Ok(frame);
        }
        outcome.map(|_| None)
    }

    /// The next whole frame that has arrived, with the bytes of a message that follow it. A part
    /// comes in as many frames as it takes to arrive.
    #[inline]
    pub(crate) fn next_frame<F: LinkFrame>(&mut self) -> Result<Option<F>, LinkError> {
        match &mut self.records {
            None => take_frame(&mut self.inbound, &mut self.part).map_err(LinkError::Frame),
            Some(records) => opened_frame(&mut records.1, &mut self.inbound, &mut self.part),
        }
    }

    /// The bytes that followed the frame that was taken last, until more is read.
    pub(crate) fn payload(&self, bytes: usize) -> &[u8] {
        let decoded = self.records.as_ref().map_or(&self.inbound, |records| records.1.opened());
        decoded.just_taken(bytes)
    }

    /// Whether bytes wait that were not decoded.
    fn has_undecoded(&self) -> bool {
        let opened = self.records.as_ref().map(|records| records.1.opened());
        !self.inbound.waiting().is_empty() || opened.is_some_and(|it| !it.waiting().is_empty())
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn room_of(places: &[Place<'_>]) -> usize {
    places.iter().map(Place::len).sum()
}

/// Takes the next frame out of records, and opens no more of them than it takes.
fn opened_frame<F: LinkFrame>(
    records: &mut Incoming,
    arrived: &mut Inbound,
    part: &mut Option<LinkPart>,
) -> Result<Option<F>, LinkError> {
    loop {
        if let Some(frame) = take_frame(records.opened_mut(), part).map_err(LinkError::Frame)? {
            return Ok(Some(frame));
        }
        match records.open_next(arrived) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => {
                let (record, problem) = (records.count(), error.to_string());
                return Err(LinkError::Gone(Departure::LinkTampered { record, problem }));
            }
        }
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
