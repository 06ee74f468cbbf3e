//! The way under test: transfers of the session, of one message or many.

use std::time::Duration;

use tcpx_core::{Post, Session, Transfer};

use super::data_path::{DataPath, Payload};
use super::pattern::{Content, Mismatch};
use crate::failure::Failure;

/// The memory is written and read in pieces of this many bytes, a multiple of 8.
const PIECE_BYTES: usize = 256 << 10;

/// A registration, used by one transfer at a time.
pub(super) struct SessionPath<'a> {
    session: &'a Session,
    peer: &'static str,
    name: &'static str,
    memory: u64,
    /// The messages of one transfer; together they cover what is filled and checked.
    posts: Vec<Post>,
    timeout: Duration,
    transfer: Option<Transfer>,
    piece: Vec<u8>,
    expected: Vec<u8>,
}

impl<'a> SessionPath<'a> {
    pub(super) fn new(
        session: &'a Session,
        peer: &'static str,
        name: &'static str,
        memory: u64,
        posts: Vec<Post>,
        timeout: Duration,
    ) -> Self {
        Self {
            session,
            peer,
            name,
            memory,
            posts,
            timeout,
            transfer: None,
            piece: vec![0; PIECE_BYTES],
            expected: vec![0; PIECE_BYTES],
        }
    }
}

impl DataPath for SessionPath<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, payload: Payload, content: Content) -> Result<(), Failure> {
        // What the memory was used for before must be over.
        self.transfer = None;
        for (offset, length) in pieces(payload.bytes) {
            let piece = &mut self.piece[..length];
            payload.pattern.write(content, offset, piece);
            self.session.write_memory(self.memory, offset, piece)?;
        }
        self.transfer = Some(self.session.create_transfer(self.peer)?);
        Ok(())
    }

    fn send(&mut self, payload: Payload) -> Result<(), Failure> {
        if let Some(transfer) = &self.transfer {
            transfer.post_send_batch(&self.posts)?;
        }
        self.wait(payload)
    }

    fn post(&mut self, _: Payload) -> Result<(), Failure> {
        if let Some(transfer) = &self.transfer {
            transfer.post_recv_batch(&self.posts)?;
        }
        // The sender learns of the receive before it hears "go".
        self.session.progress();
        Ok(())
    }

    fn wait(&mut self, _: Payload) -> Result<(), Failure> {
        match &self.transfer {
            Some(transfer) => Ok(transfer.wait(Some(self.timeout))?),
            None => Ok(()),
        }
    }

    fn check(&mut self, Payload { pattern, bytes }: Payload) -> Result<Option<Mismatch>, Failure> {
        self.transfer = None;
        for (offset, length) in pieces(bytes) {
            let piece = &mut self.piece[..length];
            self.session.read_memory(self.memory, offset, piece)?;
            if let Err(mismatch) = pattern.check(offset, piece, &mut self.expected) {
                return Ok(Some(mismatch));
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
