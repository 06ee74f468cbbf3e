//! Reading half of a control link: rounds of a bounded number of frames, and direct placement of
//! the bytes of a chunk.

use std::io::{self, ErrorKind, Read};
use std::time::Instant;

use smallvec::SmallVec;
use tcpx_protocol::frames::handshake_frame::HandshakeFrame;
use tcpx_protocol::frames::inbound::{Inbound, take_frame};
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_protocol::frames::messages::LinkChunk;
use tcpx_protocol::frames::records::Incoming;

use super::super::shared_bytes::{self, Place};
use super::{LinkError, LinkSocket, departure};
use crate::error::Departure;

/// Number of frames of one peer that are handled in one round, so that no peer keeps the others
/// waiting.
pub(super) const FRAMES_A_ROUND: usize = 2048;
/// Largest number of places of one read, including one for the bytes behind the chunk.
const MAX_PLACES: usize = 64;

impl LinkSocket {
    /// Begins a round, which hands out at most [`FRAMES_A_ROUND`] frames.
    pub(crate) fn begin_round(&mut self) {
        self.round_left = FRAMES_A_ROUND;
    }

    /// Ends the round: no more frames are handed out.
    pub(crate) fn end_round(&mut self) {
        self.round_left = 0;
    }

    /// Reads what has arrived, unless an earlier round has left frames. Returns whether any byte
    /// came, or frames were left: then [`next_of_round`](Self::next_of_round) hands frames out.
    /// Returns the error of an ended link when no whole frame is left.
    pub(crate) fn read(&mut self, now: Instant) -> Result<bool, LinkError> {
        if self.has_backlog {
            return Ok(true);
        }
        if self.may_read() { self.fill(now) } else { Ok(false) }
    }

    fn may_read(&self) -> bool {
        self.is_readable || self.must_be_polled()
    }

    /// Returns the chunk whose bytes come next in the stream, if they may be read to their place.
    /// Returns `None` on a link with records: no byte of a record may go to its place before the
    /// record has opened.
    pub(crate) fn chunk_to_read(&self) -> Option<LinkChunk> {
        self.chunk.filter(|_| !self.has_backlog && self.may_read() && !self.is_encrypted())
    }

    /// Reads bytes of the [chunk](Self::chunk_to_read) to their places. `places` has room for all
    /// of them, or for the first ones. Only the first places are used if there are many. Also reads
    /// what comes behind the chunk. Returns how many bytes of the chunk came; they count as taken.
    pub(crate) fn read_chunk<'a>(
        &mut self,
        places: impl Iterator<Item = Place<'a>>,
        now: Instant,
    ) -> Result<u32, LinkError> {
        let Some(chunk) = self.chunk else { return Ok(0) };
        let mut places: SmallVec<[Place<'_>; MAX_PLACES]> =
            places.take(MAX_PLACES - 1).map(Place::for_a_while).collect();
        if chunk.after(room_of(&places)).is_none() {
            places.push(Place::of(self.inbound.room()));
        }
        let room = room_of(&places);
        let outcome = shared_bytes::receive(&self.stream, &mut places);
        drop(places);
        let bytes = self.note_read(outcome, room, now)?;
        let came = chunk.first(bytes).bytes;
        self.chunk = chunk.after(bytes);
        self.inbound.fill(bytes - came as usize);
        Ok(came)
    }

    /// Returns the next whole frame that has arrived, until the round has handed out all its
    /// frames.
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

    /// Reads what has arrived, without blocking. Returns whether any byte came.
    pub(crate) fn fill(&mut self, now: Instant) -> Result<bool, LinkError> {
        let room = self.inbound.room();
        let room_bytes = room.len();
        let outcome = (&*self.stream).read(room);
        let bytes = self.note_read(outcome, room_bytes, now)?;
        self.inbound.fill(bytes);
        Ok(bytes > 0)
    }

    /// Notes the outcome of a read with this room. Returns how many bytes came.
    fn note_read(
        &mut self,
        outcome: io::Result<usize>,
        room: usize,
        now: Instant,
    ) -> Result<usize, LinkError> {
        match outcome {
            Ok(0) => Err(LinkError::Gone(Departure::LinkClosed)),
            Ok(bytes) => {
                // The system reports new bytes, but may have reported the end already.
                self.is_readable = bytes == room || self.is_hung_up;
                self.received_at = now;
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

    /// Reads, and returns the next whole frame. Frames that came before the end of the link are
    /// returned first.
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

    /// Returns the next whole frame that has arrived, with the bytes of a message that follow it. A
    /// chunk comes in as many frames as it takes to arrive.
    #[inline]
    pub(crate) fn next_frame<F: LinkFrame>(&mut self) -> Result<Option<F>, LinkError> {
        match &mut self.records {
            None => {
                let is_new = self.chunk.is_none();
                let frame = take_frame::<F>(&mut self.inbound, &mut self.chunk);
                let frame = frame.map_err(LinkError::Frame)?;
                if is_new {
                    let parts = [frame.as_ref().and_then(F::as_chunk), self.chunk];
                    let bytes = parts.into_iter().flatten().map(|part| part.bytes).sum();
                    self.inbound.begin_chunk(bytes);
                }
                Ok(frame)
            }
            Some(records) => {
                opened_frame(&mut records.incoming, &mut self.inbound, &mut self.chunk)
            }
        }
    }

    /// Returns the frame in clear with which the other end answers instead of a record: it has not
    /// finished the exchange of keys. Nothing vouches for it.
    pub(crate) fn answer_in_clear(&self) -> Option<HandshakeFrame> {
        heard_in_clear(&self.records.as_ref()?.incoming, &self.inbound)?
    }

    /// Returns the bytes behind the frame that was taken last. They are valid until the next read.
    pub(crate) fn payload(&self, bytes: usize) -> &[u8] {
        let decoded = self.records.as_ref().map_or(&self.inbound, |it| it.incoming.opened());
        decoded.just_taken(bytes)
    }

    /// Returns whether there are bytes that were not decoded.
    fn has_undecoded(&self) -> bool {
        let opened = self.records.as_ref().map(|records| records.incoming.opened());
        !self.inbound.waiting().is_empty() || opened.is_some_and(|it| !it.waiting().is_empty())
    }
}

/// Returns what stands in clear where the first record should; `None` inside while it has not all
/// arrived.
fn heard_in_clear(records: &Incoming, arrived: &Inbound) -> Option<Option<HandshakeFrame>> {
    let is_first = records.count() == 0 && records.opened().waiting().is_empty();
    let heard = HandshakeFrame::decode(arrived.waiting()).ok().filter(|_| is_first)?;
    Some(heard.map(|(frame, _)| frame))
}

fn room_of(places: &[Place<'_>]) -> usize {
    places.iter().map(Place::len).sum()
}

/// Takes the next frame out of records. Opens only the records that the frame needs.
fn opened_frame<F: LinkFrame>(
    records: &mut Incoming,
    arrived: &mut Inbound,
    chunk: &mut Option<LinkChunk>,
) -> Result<Option<F>, LinkError> {
    loop {
        if let Some(frame) = take_frame(records.opened_mut(), chunk).map_err(LinkError::Frame)? {
            return Ok(Some(frame));
        }
        match records.open_next(arrived) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            // The rest of the answer is on its way.
            Err(_) if heard_in_clear(records, arrived) == Some(None) => return Ok(None),
            Err(error) => {
                let (record, problem) = (records.count(), error.to_string());
                return Err(LinkError::Gone(Departure::LinkTampered { record, problem }));
            }
        }
    }
}
