#![allow(unsafe_code)]
//! Copies between the link and a GPU that are under way, and what waits for them, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::peer::action::Action;

use super::batch::BatchNumber;
use super::link_buffers::{LinkBuffer, LinkBuffers};

/// Number of copies of a peer under way from which no others begin: 1 MiB of pinned memory. One
/// chunk may make it a few more.
const MOST_COPIES: usize = 16;
/// Largest number of entries of a peer's queue, with those that need no copy.
const MOST_ENTRIES: usize = 64;
/// Time for which a peer waits for a copy. Copies take microseconds: the GPU hangs.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);

/// Work of a peer that waits for copies, oldest first.
#[derive(Debug, Default)]
pub(crate) struct LinkCopies {
    queue: VecDeque<Entry>,
    copies: usize,
}

#[derive(Debug)]
struct Entry {
    copy: Option<LinkCopy>,
    /// Batch that has to finish before.
    until: BatchNumber,
    /// Time at which it joined the queue.
    begun: Instant,
    next: AfterCopy,
}

/// Buffer of a copy, and how many of its bytes are copied. It leaves the queue when the copy has
/// finished.
#[derive(Debug)]
pub(crate) struct LinkCopy {
    buffer: LinkBuffer,
    bytes: u64,
}

impl LinkCopy {
    /// Returns the bytes of the buffer.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: it was taken out of the queue, so the only copy that writes the buffer has
        // finished.
        unsafe { self.buffer.bytes(self.bytes) }
    }

    /// Returns the buffer, to be used again.
    pub(crate) fn into_buffer(self) -> LinkBuffer {
        self.buffer
    }
}

/// Work that waits for a copy.
#[derive(Debug)]
pub(crate) enum AfterCopy {
    /// Send the frame, the bytes and a note. Bytes without a frame follow those before them.
    Send { frame: Option<Frame>, note: Option<Arc<[u8]>> },
    /// Pass on the note that came behind the bytes.
    Publish(Option<Vec<u8>>),
    /// Execute what followed.
    Execute(Action),
}

impl LinkCopies {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether nothing more may join the queue.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.copies >= MOST_COPIES || self.queue.len() >= MOST_ENTRIES
    }

    /// Adds a copy of this many bytes that finishes with this batch, and the work behind it.
    pub(crate) fn push(
        &mut self,
        (buffer, bytes): (LinkBuffer, u64),
        until: BatchNumber,
        next: AfterCopy,
    ) {
        let copy = Some(LinkCopy { buffer, bytes });
        self.copies += 1;
        self.queue.push_back(Entry { copy, until, begun: Instant::now(), next });
    }

    /// Adds work that waits for the copies before it.
    pub(crate) fn follow(&mut self, next: AfterCopy) {
        let until = self.until();
        self.queue.push_back(Entry { copy: None, until, begun: Instant::now(), next });
    }

    /// Returns the batch after which all of them have finished.
    pub(crate) fn until(&self) -> BatchNumber {
        self.queue.back().map_or(BatchNumber::NONE, |last| last.until)
    }

    /// Takes out the oldest work if batches up to `finished` are all that it waits for.
    pub(crate) fn take_finished(
        &mut self,
        finished: BatchNumber,
    ) -> Option<(Option<LinkCopy>, AfterCopy)> {
        self.queue.front().filter(|first| first.until <= finished)?;
        let Entry { copy, next, .. } = self.queue.pop_front()?;
        self.copies -= usize::from(copy.is_some());
        Some((copy, next))
    }

    /// Returns for how long the oldest has waited, if that is too long.
    pub(crate) fn overdue(&self, now: Instant) -> Option<Duration> {
        let waited = now.saturating_duration_since(self.queue.front()?.begun);
        (waited >= COPY_TIMEOUT).then_some(waited)
    }

    /// Takes out the actions, at the end of the peer. Copies that have finished give their buffers
    /// back. The others stay, for [`into_buffers`](Self::into_buffers).
    pub(crate) fn take_actions(
        &mut self,
        reached: BatchNumber,
        buffers: &mut LinkBuffers,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        for Entry { copy, until, begun, next } in std::mem::take(self).queue {
            match (next, copy) {
                (AfterCopy::Execute(action), _) => actions.push(action),
                (next, Some(copy)) if until > reached => {
                    self.copies += 1;
                    self.queue.push_back(Entry { copy: Some(copy), until, begun, next });
                }
                (_, copy) => copy.into_iter().for_each(|copy| buffers.give_back(copy.buffer)),
            }
        }
        actions
    }

    /// Returns the buffers that are still copied.
    pub(crate) fn into_buffers(self) -> Vec<LinkBuffer> {
        self.queue.into_iter().filter_map(|entry| entry.copy).map(|copy| copy.buffer).collect()
    }
}
