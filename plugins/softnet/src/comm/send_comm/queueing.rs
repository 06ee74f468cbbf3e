//! Way of a message from its post to the sockets: in the order of the posts, inline or in chunks,
//! from where it lies or over pinned pages.

use std::io;

use tcpx_comm::wire::chunk_at;
use tcpx_sys::MAX_REQUESTS;

use super::SendComm;
use crate::failure::Failure;
use crate::last_failure::{FailureReason, set_last_failure};
use crate::log;
use crate::memory::{Staged, cuda_failure};
use crate::nic_memory::StageError;

impl SendComm {
    /// Returns whether the peer is known to have posted the receive of request `next`.
    fn has_credit(&mut self, next: u64) -> bool {
        let Some(credit) = &mut self.credit else { return true };
        if credit.covers(next) {
            return true;
        }
        if let Err(error) = credit.read(&mut self.control, next, MAX_REQUESTS as u64) {
            let failure = match error.kind() {
                io::ErrorKind::InvalidData => Failure::Internal,
                _ => Failure::System,
            };
            self.requests.lose_control(next, failure, &error);
            return false;
        }
        credit.covers(next)
    }

    /// Hands messages to the sockets, in order, while there is room.
    pub(super) fn queue_chunks(&mut self) {
        self.queue_staged();
        while let Some(number) = self.requests.next()
            && self.queue_next(number)
        {
            self.requests.mark_queued();
        }
        self.queue_staged();
    }

    /// Begins to copy down the messages that are next and lie in a GPU: the copies take as long as
    /// what the caller does before it tests.
    pub(super) fn queue_from_gpu(&mut self) {
        while let Some(number) = self.requests.next()
            && self.is_staged(number)
            && self.queue_next(number)
        {
            self.requests.mark_queued();
        }
    }

    fn is_staged(&self, number: u64) -> bool {
        self.requests.ring.get(number).is_some_and(|send| send.staged)
    }

    /// Hands the next message to the sockets, or begins to copy it down. Returns whether it is all
    /// on its way.
    fn queue_next(&mut self, number: u64) -> bool {
        if !self.has_credit(number) {
            return false;
        }
        if self.requests.hook.says(|hook| hook.loses(number)) {
            return true;
        }
        if self.is_staged(number) {
            let is_all_staged = self.stage_message(number);
            self.queue_ahead();
            return is_all_staged;
        }
        // Records are in the order of the messages, so no message overtakes one that is staged.
        self.stager.as_ref().is_none_or(|stager| stager.is_idle()) && self.queue_message(number)
    }

    /// Begins to copy what is left of a message to pinned pages; returns false when not all of it
    /// has room there.
    fn stage_message(&mut self, number: u64) -> bool {
        let (Some(send), Some(stager)) = (self.requests.ring.get_mut(number), &mut self.stager)
        else {
            return false;
        };
        let total = send.memory.len() as u32;
        while send.queued < total {
            let (offset, size) = (send.queued, chunk_at(send.queued, total, self.chunk_bytes));
            match stager.start(number, offset, send.memory.slice(offset as usize, size as usize)) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    self.requests.fail(number, cuda_failure("test", &error));
                    return false;
                }
            }
            send.queued += size;
            send.unsent += size;
        }
        true
    }

    /// Queues the chunks that are being staged, where the comm was idle and the first of them is
    /// not there yet. The records travel and the helper threads wake while the copies run. When all
    /// chunks of a stream are queued like this, long messages take a fifth more processor
    /// (docs/benchmarks/2026-12-01-gpu-ahead.md). The record of an inline message goes with its
    /// bytes, so chunks behind it wait.
    fn queue_ahead(&mut self) {
        let Some(stager) = &self.stager else { return };
        while let Some(chunk) = stager.under_way(self.outgoing.ahead()) {
            let Staged { number, offset, memory, .. } = chunk;
            let Some(send) = self.requests.ring.get_mut(number) else { return };
            let total = send.memory.len() as u32;
            let is_inline = chunk.is_whole(total) && total <= self.inline_bytes;
            if is_inline {
                return;
            }
            let copied = stager.mark(&chunk);
            if !self.outgoing.push_ahead(number, offset, total, memory, copied) {
                return;
            }
            send.records += 1;
        }
    }

    /// Queues the chunks whose bytes are in pinned pages, in order, while the sockets have room.
    pub(super) fn queue_staged(&mut self) {
        loop {
            let Some(stager) = &mut self.stager else { return };
            let chunk = match stager.ready() {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return,
                Err(error) => {
                    let oldest = stager.oldest();
                    return self.requests.fail_once(oldest, || cuda_failure("test", &error));
                }
            };
            if !self.queue_copied(chunk) {
                return;
            }
            if let Some(stager) = &mut self.stager {
                stager.take();
            }
        }
    }

    /// Queues one chunk whose bytes are in pinned pages; returns false when the sockets have no
    /// room.
    fn queue_copied(&mut self, chunk: Staged) -> bool {
        // One that is queued may have left, and its message with it.
        if self.outgoing.note_copied() {
            return true;
        }
        let Staged { number, offset, memory, .. } = chunk;
        let Some(send) = self.requests.ring.get_mut(number) else { return false };
        let total = send.memory.len() as u32;
        if chunk.is_whole(total) && total <= self.inline_bytes {
            send.unsent -= total;
            send.inline = Some(memory);
            self.outgoing.push_inline(number, memory);
        } else if !self.outgoing.push_chunk(number, offset, total, memory, None) {
            return false;
        }
        send.records += 1;
        true
    }

    /// Queues what is left of a message; returns false when the sockets have no room for all of it.
    fn queue_message(&mut self, number: u64) -> bool {
        let is_alone = self.requests.ring.is_only_unreported(number);
        let Some(send) = self.requests.ring.get_mut(number) else { return false };
        // `isend` took the length from a positive `int`.
        let total = send.memory.len() as u32;
        let is_whole_and_alone = send.queued == 0 && is_alone;
        let is_short =
            total <= self.inline_bytes || is_whole_and_alone && total <= self.lone_inline_bytes;
        // The processor reads no memory of a GPU.
        if total == 0 || is_short && send.source.is_none() {
            send.records += 1;
            send.queued = total;
            self.outgoing.push_inline(number, send.memory);
            return true;
        }
        while send.queued < total {
            let (offset, size) = (send.queued, chunk_at(send.queued, total, self.chunk_bytes));
            let mut memory = send.memory.slice(offset as usize, size as usize);
            let mut source = send.source;
            if let (Some(nic), None) = (&mut self.nic, source) {
                match nic.stage(memory) {
                    Ok(Some(slot)) => (memory, source) = (slot.memory, Some(slot.source)),
                    Ok(None) => return false,
                    Err(error) => {
                        self.requests.fail(number, unstaged(error));
                        return false;
                    }
                }
            }
            if !self.outgoing.push_chunk(number, offset, total, memory, source) {
                if let Some(nic) = &mut self.nic {
                    nic.release(memory);
                }
                return false;
            }
            send.records += 1;
            send.queued += size;
            send.unsent += size;
        }
        true
    }
}

/// Returns the failure for a chunk that cannot be copied to memory that a NIC sends from.
fn unstaged(error: StageError) -> Failure {
    match error {
        StageError::Memory(error) => {
            log::warn!("test: the bytes of a send cannot be copied: {error}");
            Failure::Internal
        }
        StageError::Nic(error) => {
            log::warn!("test: {error}");
            set_last_failure(FailureReason::Nic(error));
            Failure::System
        }
    }
}
