//! Registered buffer whose bytes are written before an iteration, and verified after it.

use tcpx_core::{MemoryId, Session};

use super::data_path::Payload;
use super::pattern::{Content, Mismatch};
use crate::budget::Budget;
use crate::failure::Failure;

/// The memory is written and read in pieces of this many bytes, a multiple of 8.
const PIECE_BYTES: usize = 256 << 10;

/// Registered buffer, which no transfer uses while it is written or verified.
#[derive(Clone, Debug)]
pub(super) struct TestBuffer<'a> {
    pub(super) session: &'a Session,
    pub(super) memory: MemoryId,
    pub(super) budget: Budget,
}

impl TestBuffer<'_> {
    /// Writes the payload, or its poison.
    pub(super) fn write(&self, content: Content, payload: Payload) -> Result<(), Failure> {
        let mut piece = vec![0; PIECE_BYTES];
        for (offset, length) in pieces(payload.bytes) {
            self.budget.check_time("filling its buffers")?;
            payload.pattern.write(content, offset, &mut piece[..length]);
            self.session.write_memory(self.memory, offset, &piece[..length])?;
        }
        Ok(())
    }

    /// Returns the first byte that differs from the payload.
    pub(super) fn check(&self, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        let mut piece = vec![0; PIECE_BYTES];
        for (offset, length) in pieces(payload.bytes) {
            self.budget.check_time("verifying the received bytes")?;
            self.session.read_memory(self.memory, offset, &mut piece[..length])?;
            let mismatch = payload.pattern.check(offset, &piece[..length]);
            if mismatch.is_some() {
                return Ok(mismatch);
            }
        }
        Ok(None)
    }
}

/// Returns offset and length of each piece.
fn pieces(bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let step = PIECE_BYTES as u64;
    (0..bytes.div_ceil(step)).map(move |index| {
        let offset = index * step;
        (offset, (bytes - offset).min(step) as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        let step = PIECE_BYTES as u64;
        for bytes in [1, 7, step - 1, step, step + 1, 3 * step + 5] {
            let mut end = 0;
            for (offset, length) in pieces(bytes) {
                assert_eq!((offset, offset % 8), (end, 0));
                end = offset + length as u64;
            }
            assert_eq!(end, bytes);
        }
    }
}
