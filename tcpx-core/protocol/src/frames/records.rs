//! Records: how the bytes of a link travel when its ends encrypt them. Pure.
//!
//! After the exchange of keys each direction of the link is a stream of [`tcpx_seal::record`]s.
//! Frames, and the bytes that follow them, may begin and end anywhere in records. So a record fits
//! in one place of one direction of one connection, and one that was changed, left out, repeated,
//! moved, cut short or made up does not. No end sees what is in a record before it has opened.
//!
//! [`Outgoing`] puts what is queued into records, and [`Incoming`] takes out of them what has
//! arrived. [`LinkKeys`] makes both.

use std::collections::TryReserveError;
use std::ops::Range;

use tcpx_seal::record::{MAX_PLAIN_BYTES, OVERHEAD_BYTES, Opener, Sealer};
use tcpx_seal::secret::TrafficSecret;
use tcpx_seal::suite::Suite;

use crate::frames::hello::Role;
use crate::frames::inbound::Inbound;

pub use tcpx_seal::record::RecordError;

/// Secrets of one connection, one for each direction, and the cipher of its records.
#[derive(Debug)]
pub struct LinkKeys {
    /// Cipher of both directions.
    pub suite: Suite,
    /// Secret of what the connector says.
    pub by_connector: TrafficSecret,
    /// Secret of what the listener says.
    pub by_listener: TrafficSecret,
}

impl LinkKeys {
    /// Returns what the end in this role encrypts with, and what it decrypts with.
    pub fn into_records(self, role: Role) -> (Outgoing, Incoming) {
        let (ours, theirs) = match role {
            Role::Connector => (self.by_connector, self.by_listener),
            Role::Listener => (self.by_listener, self.by_connector),
        };
        let outgoing =
            Outgoing { sealer: Sealer::new(self.suite, ours), pending: Vec::new(), failure: None };
        let incoming =
            Incoming { opener: Opener::new(self.suite, theirs), opened: Inbound::default() };
        (outgoing, incoming)
    }
}

/// Content of records that have opened, one behind the other.
#[derive(Debug)]
pub struct Incoming {
    opener: Opener,
    opened: Inbound,
}

impl Incoming {
    /// Returns the decrypted bytes.
    pub fn opened(&self) -> &Inbound {
        &self.opened
    }

    /// Returns the decrypted bytes, to take some of them.
    pub fn opened_mut(&mut self) -> &mut Inbound {
        &mut self.opened
    }

    /// Returns the number of records that have opened.
    pub fn count(&self) -> u64 {
        self.opener.count()
    }

    /// Opens the record at the front of what has arrived. False: it is not all there. Its length is
    /// checked against the longest that there is before more is waited for.
    ///
    /// # Errors
    /// The record is not the next one of the other end. The link is of no use any more.
    pub fn open_next(&mut self, arrived: &mut Inbound) -> Result<bool, RecordError> {
        let Some(record) = self.opener.open(arrived.waiting_mut())? else { return Ok(false) };
        let mut rest = arrived.waiting().get(record.plain).unwrap_or_default();
        while !rest.is_empty() {
            let room = self.opened.room();
            let bytes = rest.len().min(room.len());
            let (now, later) = rest.split_at(bytes);
            room[..bytes].copy_from_slice(now);
            self.opened.fill(bytes);
            rest = later;
        }
        arrived.take(record.bytes);
        Ok(true)
    }
}

/// Records that are being made at the end of a link's queue.
///
/// Frames that are queued between two writes share records. They wait here, and are encrypted when
/// they fill a record, or when the queue is sent.
#[derive(Debug)]
pub struct Outgoing {
    sealer: Sealer,
    /// Bytes that are not encrypted yet, fewer than a record has.
    pending: Vec<u8>,
    /// First failure of the cipher.
    failure: Option<RecordError>,
}

impl Outgoing {
    /// Lets `append` put bytes behind the others: no more than a frame has. It may only append.
    pub fn append(&mut self, queue: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.pending);
        if self.pending.len() >= MAX_PLAIN_BYTES {
            self.seal_pending(queue);
        }
    }

    /// Puts a payload behind what is queued. `append` puts a range of it there.
    pub fn append_copy(
        &mut self,
        queue: &mut Vec<u8>,
        bytes: usize,
        append: impl Fn(Range<usize>, &mut Vec<u8>),
    ) {
        let mut from = 0;
        while from < bytes {
            let to = bytes.min(from + MAX_PLAIN_BYTES.saturating_sub(self.pending.len()));
            if self.pending.len() + to - from < MAX_PLAIN_BYTES {
                append(from..to, &mut self.pending);
                return;
            }
            let pending = &mut self.pending;
            let sealed = self.sealer.record(queue, |queue| {
                queue.append(pending);
                append(from..to, queue);
            });
            self.failure = self.failure.or(sealed.err());
            from = to;
        }
    }

    /// Encrypts what waits: then all that was queued may be sent.
    ///
    /// # Errors
    /// The cipher has failed now or before. The link is of no use any more.
    pub fn close(&mut self, queue: &mut Vec<u8>) -> Result<(), RecordError> {
        self.seal_pending(queue);
        self.failure.map_or(Ok(()), Err)
    }

    fn seal_pending(&mut self, queue: &mut Vec<u8>) {
        let sealed = self.sealer.seal(&self.pending, queue);
        self.failure = self.failure.or(sealed.err());
        self.pending.clear();
    }

    /// Returns the number of bytes that are not encrypted yet.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Makes room for frames of `bytes` bytes together. No more than a record and a frame wait at a
    /// time.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        self.pending.try_reserve(bytes.min(2 * MAX_PLAIN_BYTES))
    }
}

/// Returns the most bytes that a queue of `frame_bytes` bytes of frames takes, when each is sent by
/// itself. The smallest frame that is queued many times at once has about half as many bytes as a
/// record adds.
pub fn with_records(frame_bytes: usize) -> usize {
    frame_bytes.saturating_mul(3).saturating_add(OVERHEAD_BYTES)
}
