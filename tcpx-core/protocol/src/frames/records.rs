//! Records: how the bytes of a link travel when its ends authenticate them. Pure.
//!
//! After the handshake each direction of the link is a stream of records:
//!
//! ```text
//! length of the body   4 bytes, little endian, 1 to MAX_BODY_BYTES
//! body                 the next bytes of what would be said without records
//! MAC                  16 bytes: BLAKE3, keyed, over number, length and body
//! ```
//!
//! The number of a record is not sent: both ends count from 0. So a record fits in one place of one
//! direction of one connection, and one that was changed, left out, repeated, moved, cut short or
//! made up does not. Frames, and the bytes that follow them, may begin and end anywhere in records.
//! Nothing is hidden: bodies are in clear.
//!
//! An `Authenticator` makes the MACs of one direction, with the keys of a connection; [`Outgoing`]
//! puts what is queued into records, and [`Incoming`] takes out of them what has arrived.

use std::fmt;
use std::ops::Range;

use blake3::Hasher;
use constant_time_eq::constant_time_eq_16;
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;
use tcpx_wire::frame::HEADER_BYTES;

use crate::frames::conn_info::Secret;
use crate::frames::frame::Frame;
use crate::frames::hello::Role;
use crate::frames::inbound::Inbound;
use crate::frames::link_frame::LinkFrame;
use crate::types::MAX_EAGER_BYTES;

/// Bytes before a body.
pub(super) const LENGTH_BYTES: usize = size_of::<u32>();
pub(super) const MAC_BYTES: usize = 16;
/// Longest body: a frame, and all that follows one.
pub const MAX_BODY_BYTES: usize = HEADER_BYTES + Frame::MAX_BODY + MAX_EAGER_BYTES as usize;
/// Bytes that a record adds to its body.
pub const OVERHEAD_BYTES: usize = LENGTH_BYTES + MAC_BYTES;

pub(super) type Mac = [u8; MAC_BYTES];

/// Reason why bytes are not the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record of no bytes, or of more than a record has.
    #[error("its length is {0} bytes, 1 to {MAX_BODY_BYTES} are possible")]
    Length(u32),
    /// Bytes that are not those that were sealed, or not in this place.
    #[error("its MAC does not fit")]
    Mac,
}

/// Makes the MACs of one direction, and counts its records.
pub(super) struct Authenticator {
    /// With the key, and nothing else.
    keyed: Hasher,
    /// The number of the next record.
    pub(super) number: u64,
}

impl Authenticator {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { keyed: Hasher::new_keyed(key), number: 0 }
    }

    /// Returns the MAC of the next record, whose body is these parts one behind the other. `length`
    /// is their sum.
    pub(super) fn mac(&mut self, length: u32, parts: &[&[u8]]) -> Mac {
        self.keyed.reset();
        let mut front = [0; 12];
        front[..8].copy_from_slice(&self.number.to_le_bytes());
        front[8..].copy_from_slice(&length.to_le_bytes());
        self.keyed.update(&front);
        for part in parts {
            self.keyed.update(part);
        }
        self.number += 1;
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&self.keyed.finalize().as_bytes()[..MAC_BYTES]);
        mac
    }

    /// Checks the MAC of the next record, in a time that does not depend on where it differs.
    pub(super) fn verify(
        &mut self,
        length: u32,
        body: &[u8],
        mac: &Mac,
    ) -> Result<(), RecordError> {
        let fits = constant_time_eq_16(&self.mac(length, &[body]), mac);
        if fits { Ok(()) } else { Err(RecordError::Mac) }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The keys of one connection, one for each direction.
pub struct RecordKeys {
    by_connector: [u8; 32],
    by_listener: [u8; 32],
}

impl RecordKeys {
    /// Derives the keys from the listener's secret and the MACs of both hellos. These are over all
    /// that both ends have said, their fresh nonces included, so no two connections have the same
    /// keys, and no end has keys that the other lacks.
    pub fn derive(secret: &Secret, connectors: &[u8; 32], listeners: &[u8; 32]) -> Self {
        let key = |label: &[u8]| {
            // Any key is good for a MAC.
            Hmac::<Sha256>::new_from_slice(&secret.0).map_or([0; 32], |mac| {
                let mac = mac.chain_update(label).chain_update(connectors);
                mac.chain_update(listeners).finalize().into_bytes().into()
            })
        };
        Self {
            by_connector: key(b"tcpx records of connector"),
            by_listener: key(b"tcpx records of listener"),
        }
    }

    /// Returns what the end in this role seals with, and what it opens with.
    pub fn into_records(self, role: Role) -> (Outgoing, Incoming) {
        let (ours, theirs) = match role {
            Role::Connector => (self.by_connector, self.by_listener),
            Role::Listener => (self.by_listener, self.by_connector),
        };
        (Outgoing::new(Authenticator::new(&ours)), Incoming::new(Authenticator::new(&theirs)))
    }
}

impl fmt::Debug for RecordKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordKeys(…)")
    }
}

/// The bodies of records whose MACs were right, one behind the other.
#[derive(Debug)]
pub struct Incoming {
    authenticator: Authenticator,
    opened: Inbound,
}

impl Incoming {
    pub(super) fn new(authenticator: Authenticator) -> Self {
        Self { authenticator, opened: Inbound::default() }
    }

    /// Returns the opened bytes.
    pub fn opened(&self) -> &Inbound {
        &self.opened
    }

    /// Returns the opened bytes, to take some of them.
    pub fn opened_mut(&mut self) -> &mut Inbound {
        &mut self.opened
    }

    /// Records that were opened so far.
    pub fn count(&self) -> u64 {
        self.authenticator.number
    }

    /// Opens the record at the front of what has arrived. False: it is not all there. Nothing of it
    /// is looked at before its MAC was right, but for its length, which is checked against the
    /// longest that there is before more is waited for.
    ///
    /// # Errors
    /// The record is not the next one of the other end. The link is of no use any more.
    pub fn open_next(&mut self, arrived: &mut Inbound) -> Result<bool, RecordError> {
        let Some((length, rest)) = arrived.waiting().split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(false);
        };
        let length = u32::from_le_bytes(*length);
        let bytes = length as usize;
        if bytes == 0 || bytes > MAX_BODY_BYTES {
            return Err(RecordError::Length(length));
        }
        let Some((body, behind)) = rest.split_at_checked(bytes) else { return Ok(false) };
        let Some(mac) = behind.first_chunk() else { return Ok(false) };
        let number = self.authenticator.number;
        if let Err(error) = self.authenticator.verify(length, body, mac) {
            self.authenticator.number = number;
            return Err(error);
        }
        let mut rest = body;
        while !rest.is_empty() {
            let room = self.opened.room();
            let bytes = rest.len().min(room.len());
            let (now, later) = rest.split_at(bytes);
            room[..bytes].copy_from_slice(now);
            self.opened.fill(bytes);
            rest = later;
        }
        arrived.take(OVERHEAD_BYTES + bytes);
        Ok(true)
    }
}

/// Number of bytes at which a record is closed: frames are small, and few MACs cost less than many.
const FULL_BYTES: usize = 16 << 10;

/// The record that is being made at the end of a link's queue.
///
/// Frames that are queued between two writes share records. Nothing of a record may be sent before
/// it is closed, which is when its length and its MAC are known.
#[derive(Debug)]
pub struct Outgoing {
    authenticator: Authenticator,
    /// Bytes of the body of the record at the end of the queue. `None`: it is closed.
    open: Option<usize>,
}

impl Outgoing {
    pub(super) fn new(authenticator: Authenticator) -> Self {
        Self { authenticator, open: None }
    }

    /// Lets `append` put bytes behind the others: no more than a frame has. It may only append.
    pub fn append(&mut self, queue: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
        let before = self.begin(queue);
        let start = queue.len();
        append(queue);
        let body = before + queue.len() - start;
        self.open = Some(body);
        if body >= FULL_BYTES {
            self.close(queue);
        }
    }

    /// Closes the record with a payload behind what is queued. Returns the MAC: the payload is sent
    /// behind the queue, without a copy, and the MAC behind the payload. `None`: there is nothing
    /// to be sent behind the queue, because the payload is empty, or was put into it.
    pub fn close_with(&mut self, queue: &mut Vec<u8>, payload: [&[u8]; 2]) -> Option<Mac> {
        let bytes: usize = payload.iter().map(|part| part.len()).sum();
        if bytes == 0 || bytes > MAX_BODY_BYTES {
            for part in payload {
                self.append_copy(queue, part.len(), |range, queue| {
                    queue.extend_from_slice(&part[range]);
                });
            }
            self.close(queue);
            return None;
        }
        if self.open.is_some_and(|body| body + bytes > MAX_BODY_BYTES) {
            self.close(queue);
        }
        let queued = self.begin(queue);
        self.open = None;
        Some(self.seal(queue, queued, payload))
    }

    /// Puts a copy of a payload behind what is queued. `append` puts a range of it there.
    pub fn append_copy(
        &mut self,
        queue: &mut Vec<u8>,
        bytes: usize,
        append: impl Fn(Range<usize>, &mut Vec<u8>),
    ) {
        for from in (0..bytes).step_by(FULL_BYTES) {
            let range = from..bytes.min(from + FULL_BYTES);
            self.append(queue, |queue| append(range, queue));
        }
    }

    /// Closes the record, if one is open: now all that is queued may be sent.
    pub fn close(&mut self, queue: &mut Vec<u8>) {
        match self.open.take() {
            None => {}
            Some(0) => queue.truncate(queue.len().saturating_sub(LENGTH_BYTES)),
            Some(body) => {
                let mac = self.seal(queue, body, [&[], &[]]);
                queue.extend_from_slice(&mac);
            }
        }
    }

    /// Opens a record, unless one is open. Returns the bytes of its body so far.
    fn begin(&mut self, queue: &mut Vec<u8>) -> usize {
        *self.open.get_or_insert_with(|| {
            queue.extend_from_slice(&[0; LENGTH_BYTES]);
            0
        })
    }

    /// Says how long the record is whose body is the last `queued` bytes of the queue and a
    /// payload, and makes its MAC.
    fn seal(&mut self, queue: &mut [u8], queued: usize, payload: [&[u8]; 2]) -> Mac {
        let [message, note] = payload;
        // No more than MAX_BODY_BYTES.
        let length = (queued + message.len() + note.len()) as u32;
        let (before, body) = queue.split_at_mut(queue.len() - queued);
        if let Some(place) = before.last_chunk_mut() {
            *place = length.to_le_bytes();
        }
        self.authenticator.mac(length, &[body, message, note])
    }
}

/// Returns the most bytes that a queue of `frame_bytes` bytes of frames takes, when each is sent by
/// itself. The smallest frame that is queued many times at once is as long as what a record adds.
pub fn with_records(frame_bytes: usize) -> usize {
    frame_bytes.saturating_mul(2).saturating_add(LENGTH_BYTES + MAC_BYTES)
}
