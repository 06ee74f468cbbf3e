//! Matching of control records with posted receives, in a receive comm.

use std::fmt;

use tcpx_comm::wire::{MessagePart, Record, RecordError};
use tcpx_sys::MAX_UNPACK_ENTRIES;

use super::{AnnouncedChunk, RecvComm, too_many_fragments};
use crate::comm::control_socket::ControlRead;
use crate::comm::recv_request::Destination;
use crate::failure::Failure;
use crate::log;
use crate::memory::pages_of;

/// Most announced chunks that wait for room on their data socket. At this number, no more records
/// are read.
pub(super) const MAX_WAITING_CHUNKS: usize = 64;

/// Reason why the control socket ends when the peer closes it.
const CLOSED: &str = "connection closed by remote peer";

/// Outcome for the record at the front of the control stream.
enum RecordUse {
    /// It was used.
    Record,
    /// Part of it has not come yet.
    Incomplete,
    /// The record must wait for bounce pages.
    NoRoom,
}

/// Reason why no more records were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchStop {
    /// No receive waits for a record, or the socket has no more.
    NothingCame,
    /// The socket must not be read now.
    Held,
    /// Too many announced chunks wait for their lanes.
    TooManyChunks,
    /// The next message waits for bounce pages.
    NoRoom,
}

impl RecvComm {
    /// Takes records off the control socket while a receive waits for one.
    pub(super) fn match_records(&mut self) -> MatchStop {
        if self.ends_early() {
            return MatchStop::NothingCame;
        }
        while let Some(number) = self.requests.next() {
            if self.chunks.len() >= MAX_WAITING_CHUNKS {
                return MatchStop::TooManyChunks;
            }
            match self.take_record(number) {
                Ok(RecordUse::Record) => {}
                Ok(RecordUse::NoRoom) => return MatchStop::NoRoom,
                Ok(RecordUse::Incomplete) => match self.input.read(&mut self.control) {
                    Ok(ControlRead::Bytes) => {}
                    Ok(ControlRead::Nothing) => return MatchStop::NothingCame,
                    Ok(ControlRead::Held) => return MatchStop::Held,
                    Ok(ControlRead::End) => {
                        self.requests.lose_control(number, Failure::System, &CLOSED);
                        return MatchStop::NothingCame;
                    }
                    Err(error) => {
                        self.requests.lose_control(number, Failure::System, &error);
                        return MatchStop::NothingCame;
                    }
                },
                Err(failure) => self.requests.fail(number, failure),
            }
        }
        MatchStop::NothingCame
    }

    /// Returns whether this call ends with the end of the control socket although earlier records
    /// lie in the buffer.
    fn ends_early(&mut self) -> bool {
        if !self.requests.hook.says(|hook| hook.reads_ahead()) {
            return false;
        }
        let Some(number) = self.requests.next() else { return false };
        let mut read = self.input.read(&mut self.control);
        while matches!(read, Ok(ControlRead::Bytes)) {
            read = self.input.read(&mut self.control);
        }
        let why: &dyn fmt::Display = match &read {
            Ok(ControlRead::Bytes | ControlRead::Nothing | ControlRead::Held) => return false,
            Ok(ControlRead::End) => &CLOSED,
            Err(error) => error,
        };
        self.requests.lose_control(number, Failure::System, why);
        true
    }

    /// Uses the next record for request `number`, if all of it is there.
    fn take_record(&mut self, number: u64) -> Result<RecordUse, Failure> {
        let Some(bytes) = self.input.bytes().first_chunk::<{ Record::BYTES }>() else {
            return Ok(RecordUse::Incomplete);
        };
        // At most eight data sockets.
        let record =
            Record::decode(bytes, self.lanes.len() as u16).map_err(|error| refuse(&error))?;
        if let Record::Inline { size } = record {
            if self.input.bytes().len() < Record::BYTES + size as usize {
                return Ok(RecordUse::Incomplete);
            }
            // Pages go to messages in order, or two of them could wait for each other's.
            let is_copied = self.requests.hook.says(|hook| hook.copies_inline())
                && self.requests.ring.get(number).is_some_and(|it| it.device_address().is_some());
            let is_next = self.chunks.is_empty();
            if !is_next || !(is_copied || self.allocate_pages(number, size)?) {
                return Ok(RecordUse::NoRoom);
            }
        }
        let part = self.order.check(record).map_err(|error| refuse(&error))?;
        self.input.consume(Record::BYTES);
        self.start_message(number, part)?;
        match record {
            Record::Inline { size } => self.receive_inline(number, size),
            Record::Chunk { index, size, offset, .. } => {
                self.chunks.push_back(AnnouncedChunk {
                    number,
                    lane: usize::from(index),
                    offset,
                    size,
                });
            }
        }
        if part.last {
            self.requests.mark_queued();
        }
        Ok(RecordUse::Record)
    }

    /// Checks a message against the receive it was matched with.
    fn start_message(&mut self, number: u64, part: MessagePart) -> Result<(), Failure> {
        let Some(receive) = self.requests.ring.get_mut(number).filter(|_| part.first) else {
            return Ok(());
        };
        receive.total = Some(part.total);
        if part.total > receive.posted {
            log::warn!("message of {} bytes for a receive of {}", part.total, receive.posted);
            return Err(Failure::Internal);
        }
        let pages = pages_of(part.total, self.chunk_bytes);
        let is_too_long = pages > MAX_UNPACK_ENTRIES as u64
            && !self.requests.hook.says(|hook| hook.is_unlimited());
        if is_too_long && matches!(receive.destination, Destination::Device { .. }) {
            return Err(too_many_fragments(pages));
        }
        Ok(())
    }
}

fn refuse(error: &RecordError) -> Failure {
    log::warn!("control record refused: {error}");
    Failure::Internal
}
