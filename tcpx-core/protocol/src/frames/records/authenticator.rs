//! The MACs of one direction. Pure.

use std::fmt;

use blake3::Hasher;
use constant_time_eq::constant_time_eq_16;
use tcpx_wire::frame::HEADER_BYTES;

use crate::frames::frame::Frame;
use crate::frames::link_frame::LinkFrame;
use crate::types::MAX_EAGER_BYTES;

/// Bytes before a body.
pub(super) const LENGTH_BYTES: usize = size_of::<u32>();
pub(super) const MAC_BYTES: usize = 16;
/// Longest body: a frame, and all that follows one.
pub const MAX_BODY_BYTES: usize = HEADER_BYTES + Frame::MAX_BODY + MAX_EAGER_BYTES as usize;
/// What a record adds to its body.
pub const OVERHEAD_BYTES: usize = LENGTH_BYTES + MAC_BYTES;

pub(super) type Mac = [u8; MAC_BYTES];

/// Why bytes are not the next record.
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

    /// The MAC of the next record, whose body is these parts one behind the other. `length` is
    /// their sum.
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
