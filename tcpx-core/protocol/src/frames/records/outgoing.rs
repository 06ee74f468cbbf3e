//! What is queued for a link, put into records. Pure.

use std::ops::Range;

use super::authenticator::{Authenticator, LENGTH_BYTES, MAC_BYTES, MAX_BODY_BYTES, Mac};

/// A record that has so many bytes is closed: frames are small, and few MACs cost less than many.
const FULL_BYTES: usize = 16 << 10;

/// The record that is being made at the end of a link's queue.
///
/// What is queued between two writes shares records. Nothing of a record may be sent before it is
/// closed, which is when its length and its MAC are known.
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

/// What a queue of so many bytes of frames takes at most, when each is sent by itself. The smallest
/// frame of which many are queued at once is as long as what a record adds.
pub fn with_records(frame_bytes: usize) -> usize {
    frame_bytes.saturating_mul(2).saturating_add(LENGTH_BYTES + MAC_BYTES)
}
