//! Stream of encrypted records. Pure: bytes in, bytes out.
//!
//! A record has the shape of TLS 1.3's (RFC 8446, 5.2), so that the kernel's TLS could take over:
//!
//! ```text
//! type       1 byte, 23: application data
//! version    2 bytes, 0x0303
//! length     2 bytes, big endian: of what follows
//! encrypted  1 to 16,384 bytes of the stream, and a byte 23
//! tag        16 bytes
//! ```
//!
//! The number of a record is not sent: both ends count from 0, and the nonce is that number. So a
//! record fits in one place of one direction of one connection. One that was changed, left out,
//! repeated, moved, cut short or made up does not open. Nothing of it is seen before it has opened.
//!
//! After [`RECORDS_A_KEY`] records both ends renew the key, without a word. That is far below the
//! 2^24.5 records after which AES-GCM gives up some of its strength.

use std::ops::Range;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use zeroize::Zeroizing;

use crate::secret::{SECRET_BYTES, TrafficSecret};
use crate::suite::Suite;

/// Longest stretch of the stream in one record, in bytes.
pub const MAX_PLAIN_BYTES: usize = 1 << 14;
/// Bytes before the encrypted ones.
pub const HEADER_BYTES: usize = 5;
/// Bytes that a record adds to its stretch of the stream.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;
/// Longest record, in bytes.
pub const MAX_RECORD_BYTES: usize = MAX_PLAIN_BYTES + OVERHEAD_BYTES;
/// Number of records after which a key is renewed.
pub const RECORDS_A_KEY: u64 = 1 << 20;

const TAG_BYTES: usize = 16;
const APPLICATION_DATA: u8 = 23;
const VERSION: [u8; 2] = [3, 3];

/// Reason why bytes are not the next record, or why none can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// First bytes that begin no record.
    #[error("it does not begin as a record does")]
    Header,
    /// Length that no record has.
    #[error("its length is {0} bytes, 18 to {max} are possible", max = MAX_PLAIN_BYTES + 1 + TAG_BYTES)]
    Length(u16),
    /// Bytes that are not those that were encrypted, or not in this place.
    #[error("it does not decrypt: it was changed, or belongs to another place or connection")]
    Tag,
    /// Encrypted bytes of another kind than data.
    #[error("it carries no data")]
    Content,
    /// Failure of the cipher while it encrypts, which its documentation rules out.
    #[error("the cipher has failed")]
    Cipher,
}

/// Key of one direction, and the number of its next record.
struct Keys {
    suite: Suite,
    secret: TrafficSecret,
    key: Option<LessSafeKey>,
    /// First nonce, from which those of the records come.
    iv: Zeroizing<[u8; 12]>,
    /// Number of the next record under this key.
    number: u64,
    /// Number of records under the keys before this one.
    before: u64,
    records_a_key: u64,
}

impl Keys {
    fn new(suite: Suite, secret: TrafficSecret, records_a_key: u64) -> Self {
        let mut keys = Self {
            suite,
            secret,
            key: None,
            iv: Zeroizing::new([0; 12]),
            number: 0,
            before: 0,
            records_a_key,
        };
        keys.load();
        keys
    }

    /// Makes the key and the first nonce of the secret.
    fn load(&mut self) {
        let mut key = Zeroizing::new([0; SECRET_BYTES]);
        self.secret.expand("key", key.as_mut());
        self.secret.expand("iv", self.iv.as_mut());
        self.key = UnboundKey::new(self.suite.algorithm(), key.as_ref()).ok().map(LessSafeKey::new);
    }

    /// Returns the key and the nonce of the next record, and counts it.
    fn next(&mut self) -> Option<(&LessSafeKey, Nonce)> {
        if self.number == self.records_a_key {
            self.secret.renew();
            self.load();
            self.before += self.number;
            self.number = 0;
        }
        let mut nonce = *self.iv;
        for (place, byte) in nonce[4..].iter_mut().zip(self.number.to_be_bytes()) {
            *place ^= byte;
        }
        self.number += 1;
        Some((self.key.as_ref()?, Nonce::assume_unique_for_key(nonce)))
    }

    /// Returns the number of records so far, under all keys.
    fn count(&self) -> u64 {
        self.before + self.number
    }
}

/// Maker of the records of one direction.
pub struct Sealer(Keys);

impl Sealer {
    /// Begins a stream.
    #[must_use]
    pub fn new(suite: Suite, secret: TrafficSecret) -> Self {
        Self(Keys::new(suite, secret, RECORDS_A_KEY))
    }

    /// Appends records of the next bytes of the stream to a queue.
    ///
    /// # Errors
    /// [`RecordError::Cipher`]: the connection is of no use any more. The queue has nothing of the
    /// record that failed.
    pub fn seal(&mut self, plain: &[u8], queue: &mut Vec<u8>) -> Result<(), RecordError> {
        plain
            .chunks(MAX_PLAIN_BYTES)
            .try_for_each(|part| self.record(queue, |queue| queue.extend_from_slice(part)))
    }

    /// Appends one record. `fill` appends its stretch of the stream to the queue: 1 to
    /// [`MAX_PLAIN_BYTES`] bytes, which are encrypted where they are.
    ///
    /// # Errors
    /// As [`seal`](Self::seal); [`RecordError::Length`] for another number of bytes.
    pub fn record(
        &mut self,
        queue: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), RecordError> {
        let start = queue.len();
        queue.extend_from_slice(&[0; HEADER_BYTES]);
        fill(queue);
        let plain = queue.len() - start - HEADER_BYTES;
        queue.extend_from_slice(&[0; OVERHEAD_BYTES - HEADER_BYTES]);
        let sealed = self.seal_in_place(&mut queue[start..], plain);
        if sealed.is_err() {
            queue.truncate(start);
        }
        sealed.map(drop)
    }

    /// Makes one record at the front of `place`, of the `plain` bytes that are there behind
    /// [`HEADER_BYTES`] bytes: 1 to [`MAX_PLAIN_BYTES`]. Returns its length.
    ///
    /// # Errors
    /// As [`seal`](Self::seal); [`RecordError::Length`] for another number of bytes, or when there
    /// is no room for the [`OVERHEAD_BYTES`] of the record.
    pub fn seal_in_place(&mut self, place: &mut [u8], plain: usize) -> Result<usize, RecordError> {
        let (header, body) = split(place, plain)?;
        let (body, end) = body.split_at_mut(plain);
        let (key, nonce) = self.0.next().ok_or(RecordError::Cipher)?;
        key.seal_in_place_scatter(nonce, Aad::from(&*header), body, &[APPLICATION_DATA], end)
            .map_err(|_| RecordError::Cipher)?;
        Ok(plain + OVERHEAD_BYTES)
    }

    /// Makes one record at the front of `place`, of bytes that are elsewhere and stay as they are.
    /// They are read once. Returns its length.
    ///
    /// # Errors
    /// As [`seal_in_place`](Self::seal_in_place).
    pub fn seal_into(&mut self, plain: &[u8], place: &mut [u8]) -> Result<usize, RecordError> {
        let (header, body) = split(place, plain.len())?;
        let (body, end) = body.split_at_mut(plain.len());
        let (key, nonce) = self.0.next().ok_or(RecordError::Cipher)?;
        let (aad, last) = (Aad::from(&*header), [APPLICATION_DATA]);
        key.seal_out_of_place_scatter(nonce, aad, plain, body, &last, end)
            .map_err(|_| RecordError::Cipher)?;
        Ok(plain.len() + OVERHEAD_BYTES)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("records", &self.0.count()).finish_non_exhaustive()
    }
}

/// Record that has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where its stretch of the stream is, in the bytes that had arrived.
    pub plain: Range<usize>,
    /// Length of the whole record: where the next one begins.
    pub bytes: usize,
}

/// Reader of the records of one direction.
pub struct Opener(Keys);

impl Opener {
    /// Begins a stream.
    #[must_use]
    pub fn new(suite: Suite, secret: TrafficSecret) -> Self {
        Self(Keys::new(suite, secret, RECORDS_A_KEY))
    }

    /// Returns the number of records that have opened.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Opens the record at the front of what has arrived, where it is. `None`: it is not all there.
    ///
    /// # Errors
    /// The bytes are not the next record. The connection is of no use any more: a second call with
    /// the same bytes fails as well.
    pub fn open(&mut self, arrived: &mut [u8]) -> Result<Option<Opened>, RecordError> {
        let Some(bytes) = whole_record(arrived)? else { return Ok(None) };
        let (header, body) = arrived[..bytes].split_at_mut(HEADER_BYTES);
        let opened = self.next(|key, nonce| {
            let inner = key.open_in_place(nonce, Aad::from(&*header), body);
            inner.map(|inner| inner.last().copied())
        })?;
        opened_record(bytes, opened)
    }

    /// Opens the record at the front of what has arrived into `place`, which gets its stretch of
    /// the stream and one byte behind it; the stretch is written once, and not copied. `None`: it
    /// is not all there, or the place has no room for both.
    ///
    /// The place is written to before the record is known to be the peer's, and is zeros after an
    /// error: it must be memory that nothing else reads before the call has returned.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_into(
        &mut self,
        arrived: &[u8],
        place: &mut [u8],
    ) -> Result<Option<Opened>, RecordError> {
        let Some(bytes) = whole_record(arrived)? else { return Ok(None) };
        let (header, body) = arrived[..bytes].split_at(HEADER_BYTES);
        let (encrypted, tag) = body.split_at(body.len() - TAG_BYTES);
        let Some(place) = place.get_mut(..encrypted.len()) else { return Ok(None) };
        let opened = self.next(|key, nonce| {
            let opened = key.open_separate_gather(nonce, Aad::from(header), encrypted, tag, place);
            opened.map(|()| place.last().copied())
        })?;
        opened_record(bytes, opened)
    }

    /// Opens the next record, which counts if that succeeds.
    fn next<R>(
        &mut self,
        open: impl FnOnce(&LessSafeKey, Nonce) -> Result<R, Unspecified>,
    ) -> Result<R, RecordError> {
        let (number, before) = (self.0.number, self.0.before);
        let (key, nonce) = self.0.next().ok_or(RecordError::Cipher)?;
        open(key, nonce).map_err(|Unspecified| {
            if self.0.before == before {
                self.0.number = number;
            }
            RecordError::Tag
        })
    }

    /// Returns whether a whole record is at the front of what has arrived. What begins no record
    /// counts as one, for [`open`](Self::open) to say so.
    #[must_use]
    pub fn is_whole(arrived: &[u8]) -> bool {
        whole_record(arrived).map_or(true, |whole| whole.is_some())
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener").field("records", &self.count()).finish_non_exhaustive()
    }
}

/// Returns the length of the record that begins here. `None`: its header is not all there.
fn record_bytes(arrived: &[u8]) -> Result<Option<usize>, RecordError> {
    let Some((header, _)) = arrived.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [kind, v0, v1, l0, l1] = *header;
    if kind != APPLICATION_DATA || [v0, v1] != VERSION {
        return Err(RecordError::Header);
    }
    let length = u16::from_be_bytes([l0, l1]);
    let body = usize::from(length);
    if !(2 + TAG_BYTES..=MAX_PLAIN_BYTES + 1 + TAG_BYTES).contains(&body) {
        return Err(RecordError::Length(length));
    }
    Ok(Some(HEADER_BYTES + body))
}

/// Returns the length of the record at the front, if all of it has arrived.
fn whole_record(arrived: &[u8]) -> Result<Option<usize>, RecordError> {
    Ok(record_bytes(arrived)?.filter(|&bytes| arrived.len() >= bytes))
}

/// Returns what a record of `bytes` bytes carried. `last` is the last encrypted byte.
fn opened_record(bytes: usize, last: Option<u8>) -> Result<Option<Opened>, RecordError> {
    match last {
        Some(APPLICATION_DATA) if bytes > OVERHEAD_BYTES => {
            let plain = HEADER_BYTES..bytes - OVERHEAD_BYTES + HEADER_BYTES;
            Ok(Some(Opened { plain, bytes }))
        }
        _ => Err(RecordError::Content),
    }
}

/// Writes the header of a record of `plain` bytes to its place. Returns it, and the place of what
/// follows.
fn split(place: &mut [u8], plain: usize) -> Result<(&mut [u8], &mut [u8]), RecordError> {
    // At most what 16 bits hold, or it is refused.
    let length = (plain + 1 + TAG_BYTES).min(usize::from(u16::MAX)) as u16;
    if plain == 0 || plain > MAX_PLAIN_BYTES || place.len() < plain + OVERHEAD_BYTES {
        return Err(RecordError::Length(length));
    }
    let (head, body) = place[..plain + OVERHEAD_BYTES].split_at_mut(HEADER_BYTES);
    head.copy_from_slice(&header(length));
    Ok((head, body))
}

fn header(length: u16) -> [u8; HEADER_BYTES] {
    let [l0, l1] = length.to_be_bytes();
    [APPLICATION_DATA, VERSION[0], VERSION[1], l0, l1]
}

#[cfg(test)]
mod tests;
