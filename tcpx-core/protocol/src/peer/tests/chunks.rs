//! Chunks of one end: sent, received and consumed.

use super::credit::Bounce;
use super::driver::{Check, Driver};
use super::payload::{Chunk, Piece, take_chunk};
use crate::frames::frame::ChunkCounts;
use crate::types::{OpKey, TransferKey};

impl Driver {
    /// Sends the oldest chunk of a channel. Returns false when there is none, or no room for it.
    pub(super) fn send_chunk(&mut self, channel: usize) -> Result<bool, String> {
        let sent = self.sent_counts[channel];
        if self.kept[channel].is_lost {
            return Ok(false);
        }
        if self.credit.as_ref().is_some_and(|credit| sent >= credit[channel]) {
            return Ok(false);
        }
        let Some(chunk) = take_chunk(&mut self.sending[channel]) else { return Ok(false) };
        let bytes = chunk.iter().map(|piece| piece.bytes).sum::<u64>();
        // Once the link is over the operations are unknown, and nothing is scheduled any more.
        let is_long = self.protocol.is_some() && self.is_long(&chunk);
        self.check_chunk_touches(&chunk)?;
        self.sent[channel].push_back(chunk);
        self.sent_counts[channel] += 1;
        self.unfinished[channel].push_back((bytes as u32, is_long));
        if !self.setting.sends_end_late {
            self.end_send(channel)?;
        }
        Ok(true)
    }

    /// Lets the end learn that the oldest chunk of a channel is sent. Returns false when there is
    /// none.
    pub(super) fn end_send(&mut self, channel: usize) -> Result<bool, String> {
        if self.kept[channel].sent >= self.sent_counts[channel] {
            return Ok(false);
        }
        self.kept[channel].sent += 1;
        self.finish_sends(channel)?;
        Ok(true)
    }

    /// Returns the number of bytes of the operation that some of its bytes belong to.
    pub(super) fn operation_bytes(&self, of: TransferKey, op: OpKey) -> u64 {
        let operations = self.protocol.as_ref().map(|protocol| &protocol.cx.operations);
        let listed = || operations?.get(op).map(|operation| operation.posted.bytes);
        let posted = self.posted.get(of).map(|posted| posted.bytes);
        posted.or_else(listed).unwrap_or(u64::MAX)
    }

    /// Returns whether the messages of a chunk are medium or long ones.
    fn is_long(&self, chunk: &Chunk) -> bool {
        let short_bytes = self.setting.tuning.short_bytes;
        chunk.iter().all(|piece| self.operation_bytes(piece.of, piece.op) > short_bytes)
    }

    /// Checks that the bytes of lists in a chunk lie in memory that may be used.
    fn check_chunk_touches(&self, chunk: &Chunk) -> Check {
        if self.protocol.is_none() {
            return Ok(());
        }
        let touches = |piece: &Piece| self.check_touched(piece.of, piece.address, piece.bytes);
        chunk.iter().try_for_each(touches)
    }

    /// Receives a chunk on a channel. Returns what was expected, or `None` when nothing is expected
    /// (yet).
    pub(super) fn receive_chunk(&mut self, channel: usize) -> Result<Option<Chunk>, String> {
        let Some(chunk) = take_chunk(&mut self.receiving[channel]) else { return Ok(None) };
        self.arrived_counts[channel] += 1;
        self.arrived[channel].push_back(chunk.clone());
        Ok(Some(chunk))
    }

    /// Consumes the oldest chunk that has arrived on a channel. Returns false when there is none.
    pub(super) fn consume_chunk(&mut self, channel: usize) -> Result<bool, String> {
        let Some(chunk) = self.arrived[channel].pop_front() else { return Ok(false) };
        self.check_chunk_touches(&chunk)?;
        self.kept[channel].consumed += 1;
        if let Some(bounce) = &mut self.bounce {
            bounce.consume(channel);
        }
        let mut done = Vec::new();
        self.receiving[channel].finish(&mut done);
        self.finished(done)?;
        Ok(true)
    }

    pub(super) fn bounce(&mut self) -> Option<&mut Bounce> {
        self.bounce.as_mut()
    }

    /// Returns how many chunks were sent so far, by channel.
    pub(super) fn sent_counts(&self) -> ChunkCounts {
        self.sent_counts.clone()
    }

    /// Says whether a channel that was asked about has a staging buffer.
    pub(super) fn answer_staging(&mut self) -> bool {
        let Some((channel, memory)) = self.unanswered.pop_front() else { return false };
        let is_there = self.setting.has_staging(channel);
        if let Some(protocol) = &mut self.protocol {
            protocol.handle_staging(channel, memory, is_there);
        }
        true
    }
}
