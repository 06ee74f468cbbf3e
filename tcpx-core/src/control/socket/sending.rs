//! Sending half of a control link: frames are queued, and leave together or with the bytes of a
//! message behind them.

use std::collections::TryReserveError;
use std::io::{ErrorKind, Write};

use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_protocol::frames::records::with_records;
use tcpx_protocol::types::MAX_EAGER_BYTES;

use super::super::shared_bytes::{self, Source};
use super::{LinkError, LinkSocket, departure};
use crate::error::Departure;
use crate::reactor::tcp_info;
use crate::reactor::watch::Events;

/// Number of unsent bytes above which the peer counts as not reading any more.
const MAX_UNSENT_BYTES: usize = 256 << 20;
/// Most bytes that are queued before those of a chunk: all of them leave with one call.
const QUEUED_BEFORE_CHUNK: usize = 4096;
/// Longest payload that is copied behind its frame: a call with one buffer is 0.2 µs cheaper than
/// one with three.
const COPIED_BYTES: usize = 512;

impl LinkSocket {
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

    /// Returns the number of bytes that wait for the kernel. 0: the next ones leave at once,
    /// together with the few that are queued.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let unsent = self.unsent_bytes();
        let is_free = !self.is_blocked && !self.must_be_polled();
        if is_free && unsent <= QUEUED_BEFORE_CHUNK { 0 } else { unsent }
    }

    /// Returns how many bytes the kernel is likely to take at once. On an encrypted link no more
    /// than the longest eager message has: as many are encrypted at a time. `None`: the system does
    /// not say.
    pub(crate) fn room(&self) -> Option<u64> {
        let room = tcp_info::of(&self.stream)?;
        Some(if self.is_encrypted() { room.min(MAX_EAGER_BYTES.into()) } else { room })
    }

    #[cfg(test)]
    pub(crate) fn segments_sent(&self) -> u32 {
        tcp_info::segments_sent(&self.stream)
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
