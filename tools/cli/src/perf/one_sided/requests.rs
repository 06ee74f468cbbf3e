//! Requests of the client: an operation for each slot, and the notification behind its bytes.

use std::collections::VecDeque;

use tcpx_core::{MemoryRange, Operation, RemoteKey, RemoteRange};

use super::end::{Layout, OneSidedEnd};
use crate::failure::{ConnectionError, Failure};
use crate::perf::operations::Written;
use crate::rendezvous::{SessionLink, framed};

/// Operation of a slot, prepared once.
pub(super) struct Request {
    operation: Operation,
    /// Bytes of its notification, if one follows.
    notification: Option<Vec<u8>>,
}

impl Request {
    /// Prepares an operation for each slot.
    pub(super) fn prepare(
        end: &OneSidedEnd<'_>,
        key: &RemoteKey,
        layout: Layout,
    ) -> Result<Vec<Self>, Failure> {
        let request = |slot| {
            let (offsets, bytes) = end.ranges(layout, slot);
            let memory = end.buffer.memory;
            let local = offsets.iter().map(|&offset| MemoryRange { memory, offset, bytes });
            let remote = offsets.iter().map(|&offset| RemoteRange { key, offset, bytes });
            let (local, remote) = (local.collect::<Vec<_>>(), remote.collect::<Vec<_>>());
            let kind = end.one_sided.direction.kind();
            let operation = end.buffer.session.prepare(end.peer, kind, &local, &remote)?;
            let notification =
                end.one_sided.is_notified.then(|| framed(&Written(slot))).transpose()?;
            Ok(Self { operation, notification })
        };
        (0..end.turns.slots).map(request).collect()
    }

    pub(super) fn post(&self) -> Result<(), Failure> {
        Ok(self.operation.post(self.notification.as_deref())?)
    }
}

/// Requests under way, by their slots.
pub(super) struct UnderWay<'a> {
    requests: &'a [Request],
    /// Slots, the oldest first, where no notifications say which ones have ended.
    posted: VecDeque<usize>,
}

impl<'a> UnderWay<'a> {
    pub(super) fn new(requests: &'a [Request]) -> Self {
        Self { requests, posted: VecDeque::new() }
    }

    /// Posts the request of this slot.
    pub(super) fn post(&mut self, slot: usize) -> Result<(), Failure> {
        let request = &self.requests[slot];
        if request.notification.is_none() {
            self.posted.push_back(slot);
        }
        request.post()
    }

    /// Waits until one has ended, and returns its slot: the oldest, or the one whose notification
    /// the server's program has seen.
    pub(super) fn wait(
        &mut self,
        link: &mut SessionLink<'_>,
        end: &OneSidedEnd<'_>,
    ) -> Result<usize, Failure> {
        let slot = match self.posted.pop_front() {
            Some(slot) => slot,
            None => {
                let Written(slot) = link.receive()?;
                usize::try_from(slot).unwrap_or(usize::MAX)
            }
        };
        let request = self.requests.get(slot).ok_or_else(|| ConnectionError::Garbage {
            peer: link.peer(),
            reason: format!("it has seen a notification behind a write that there is not, {slot}"),
        })?;
        end.buffer.budget.wait_operation(&request.operation)?;
        Ok(slot)
    }
}
