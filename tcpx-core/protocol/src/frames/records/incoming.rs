//! What has arrived on a link, out of its records. Pure.

use super::authenticator::{
    Authenticator, LENGTH_BYTES, MAX_BODY_BYTES, OVERHEAD_BYTES, RecordError,
};
use crate::frames::inbound::Inbound;

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

    /// Bytes of records that were opened.
    pub fn opened(&self) -> &Inbound {
        &self.opened
    }

    /// The same, to take some of them.
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
    /// It is not the next record of the other end. The link is of no use any more.
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
