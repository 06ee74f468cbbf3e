//! The way under test: transfers of the session, of one message or many.

use tcpx_core::{MemoryId, Post, Session, Transfer};

use super::data_path::{DataPath, Payload, Step};
use super::pattern::{Content, Mismatch};
use crate::failure::Failure;
use crate::rendezvous::LinkWatch;

/// The memory is written and read in pieces of this many bytes, a multiple of 8.
const PIECE_BYTES: usize = 256 << 10;

/// A registration, used by one transfer at a time.
pub(super) struct SessionPath<'a> {
    pub(super) session: &'a Session,
    pub(super) peer: &'static str,
    pub(super) name: &'static str,
    pub(super) memory: MemoryId,
    /// The messages of one transfer; together they cover what is prepared and checked.
    pub(super) posts: Vec<Post>,
    pub(super) watch: LinkWatch,
    /// From its preparation to the next check.
    pub(super) transfer: Option<Transfer>,
}

impl DataPath for SessionPath<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, step: Step, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        match (step, &self.transfer) {
            (Step::Prepare(content), _) => self.prepare(content, payload)?,
            (Step::Check, _) => return self.check(payload),
            (Step::Send, Some(transfer)) => {
                transfer.post_send_batch(&self.posts)?;
                self.watch.wait(transfer)?;
            }
            (Step::Post, Some(transfer)) => {
                transfer.post_recv_batch(&self.posts)?;
                // The sender learns of the receive before it hears "go".
                self.session.progress();
            }
            (Step::Wait, Some(transfer)) => self.watch.wait(transfer)?,
            // Nothing was prepared, so there is nothing to move.
            (Step::Send | Step::Post | Step::Wait, None) => {}
        }
        Ok(None)
    }
}

impl SessionPath<'_> {
    fn prepare(&mut self, content: Content, payload: Payload) -> Result<(), Failure> {
        // What the memory was used for before must be over.
        self.transfer = None;
        let mut piece = vec![0; PIECE_BYTES];
        for (offset, length) in pieces(payload.bytes) {
            self.watch.check_time("writing what is sent or received into")?;
            payload.pattern.write(content, offset, &mut piece[..length]);
            self.session.write_memory(self.memory, offset, &piece[..length])?;
        }
        self.transfer = Some(self.session.create_transfer(self.peer)?);
        Ok(())
    }

    fn check(&mut self, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        self.transfer = None;
        let mut piece = vec![0; PIECE_BYTES];
        for (offset, length) in pieces(payload.bytes) {
            self.watch.check_time("verifying what arrived")?;
            self.session.read_memory(self.memory, offset, &mut piece[..length])?;
            let mismatch = payload.pattern.check(offset, &piece[..length]);
            if mismatch.is_some() {
                return Ok(mismatch);
            }
        }
        Ok(None)
    }
}

/// Offset and length of each piece.
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
