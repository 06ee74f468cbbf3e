//! Encrypted bytes of a socket, on their way out and in.
//!
//! Bytes are encrypted from where they are into a buffer, and the system reads them from there
//! while they are in the cache. Those that come are decrypted into pages of the plugin's own; where
//! a program may look at the place, they are decrypted where they arrived, and copied. An idle
//! socket has no buffer.

use std::cell::RefCell;
use std::ffi::c_int;
use std::io::{self, Read};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::AsFd;

use tcpx_seal::record::{
    HEADER_BYTES, MAX_PLAIN_BYTES, MAX_RECORD_BYTES, Opener, RecordError, Sealer,
};

use crate::memory::{IoList, IoOutcome};

/// Records that one call encrypts or reads at most: few enough for a core's own cache.
const BATCH_RECORDS: usize = 8;
/// Room for the records of a batch.
const BUFFER_BYTES: usize = BATCH_RECORDS * MAX_RECORD_BYTES;
/// Buffers that a thread keeps for its next calls.
const KEPT_BUFFERS: usize = 4;

thread_local! {
    /// Buffers of BUFFER_BYTES that no socket of a thread uses now. They were zeroed once.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

fn take_buffer() -> Vec<u8> {
    // A thread that ends keeps none.
    let kept = BUFFERS.try_with(|kept| kept.borrow_mut().pop()).ok().flatten();
    kept.unwrap_or_else(|| vec![0; BUFFER_BYTES])
}

fn give_back(buffer: Vec<u8>) {
    let _ = BUFFERS.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < KEPT_BUFFERS {
            kept.push(buffer);
        }
    });
}

/// Returns whether an error of a socket is that its bytes are not those that the peer sent.
pub(super) fn is_tampering(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<RecordError>())
}

/// Encrypted bytes on their way out.
#[derive(Debug)]
pub(crate) struct EncryptedOut {
    sealer: Sealer,
    /// What the records are in; empty, without room, between two batches.
    buffer: Vec<u8>,
    /// Bytes of the buffer that are records and not out.
    records: Range<usize>,
    /// Number of bytes of the stream that the records have, or had, and that no call has returned.
    plain: usize,
}

impl EncryptedOut {
    pub(crate) fn new(sealer: Sealer) -> Self {
        Self { sealer, buffer: Vec::new(), records: 0..0, plain: 0 }
    }

    /// Sends the bytes at the front of the stream. Returns how many of the listed bytes are out,
    /// when their records are. Until all of them have been returned, every call has to list the
    /// same bytes first, though it may list fewer.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        list: &IoList<'_>,
        signal: c_int,
    ) -> IoOutcome {
        if self.plain == 0
            && let Err(error) = self.seal(list)
        {
            return IoOutcome::Failed(error);
        }
        while !self.records.is_empty() {
            let mut rest = IoList::new(usize::MAX);
            rest.push_bytes(&self.buffer[self.records.clone()]);
            match rest.send(socket.as_fd(), signal) {
                IoOutcome::Bytes(bytes) => self.records.start += bytes,
                outcome => return outcome,
            }
        }
        if !self.buffer.is_empty() {
            give_back(std::mem::take(&mut self.buffer));
        }
        match self.plain.min(list.bytes()) {
            0 => IoOutcome::Again,
            bytes => {
                self.plain -= bytes;
                IoOutcome::Bytes(bytes)
            }
        }
    }

    /// Encrypts a batch of the listed bytes.
    fn seal(&mut self, list: &IoList<'_>) -> io::Result<()> {
        let plain = list.bytes().min(BATCH_RECORDS * MAX_PLAIN_BYTES);
        if self.buffer.is_empty() {
            self.buffer = take_buffer();
        }
        self.records = 0..0;
        for from in (0..plain).step_by(MAX_PLAIN_BYTES) {
            let range = from..plain.min(from + MAX_PLAIN_BYTES);
            let (sealer, place) = (&mut self.sealer, &mut self.buffer[self.records.end..]);
            let sealed = match list.whole(range.clone()) {
                Some(piece) => piece.lend(|plain| sealer.seal_into(plain, place)),
                None => {
                    list.copy_to(&mut place[HEADER_BYTES..][..range.len()], from);
                    sealer.seal_in_place(place, range.len())
                }
            };
            self.records.end += sealed.map_err(io::Error::other)?;
        }
        self.plain = plain;
        Ok(())
    }
}

/// Encrypted bytes that have arrived.
#[derive(Debug)]
pub(crate) struct EncryptedIn {
    opener: Opener,
    /// What was read; empty, without room, when all of it was placed.
    buffer: Vec<u8>,
    /// Bytes of the buffer that are records, whole or in part.
    records: Range<usize>,
    /// Bytes of the buffer, before the records, that are decrypted and not placed.
    plain: Range<usize>,
}

impl EncryptedIn {
    pub(crate) fn new(opener: Opener) -> Self {
        Self { opener, buffer: Vec::new(), records: 0..0, plain: 0..0 }
    }

    /// Puts bytes of the stream to the listed places: those that have come, or that come with one
    /// read of the socket after the other. `unseen` says that nothing reads the places before the
    /// call has returned, not even if it fails.
    pub(crate) fn receive(
        &mut self,
        socket: &TcpStream,
        list: &IoList<'_>,
        unseen: bool,
    ) -> IoOutcome {
        loop {
            match self.place(list, unseen) {
                Ok(0) => {}
                Ok(bytes) => return IoOutcome::Bytes(bytes),
                Err(error) => return IoOutcome::Failed(error),
            }
            match self.read(socket) {
                Ok(0) => return IoOutcome::Closed,
                Ok(_) => {}
                Err(error) => {
                    self.release();
                    return match error.kind() {
                        io::ErrorKind::WouldBlock => IoOutcome::Blocked,
                        io::ErrorKind::Interrupted => IoOutcome::Again,
                        _ => IoOutcome::Failed(error),
                    };
                }
            }
        }
    }

    /// Returns whether bytes may be placed although the socket shows none.
    pub(crate) fn has_bytes(&self) -> bool {
        !self.plain.is_empty() || Opener::is_whole(&self.buffer[self.records.clone()])
    }

    /// Places what is decrypted, and decrypts more while there is room.
    fn place(&mut self, list: &IoList<'_>, unseen: bool) -> io::Result<usize> {
        let mut placed = 0;
        loop {
            let bytes = list.fill_from(placed, &self.buffer[self.plain.clone()]);
            self.plain.start += bytes;
            placed += bytes;
            if placed == list.bytes() {
                break;
            }
            let records = &mut self.buffer[self.records.clone()];
            if unseen && let Some(place) = list.piece_at(placed) {
                let opener = &mut self.opener;
                let opened = place.lend_unseen(|place| opener.open_into(records, place));
                if let Some(opened) = opened.map_err(io::Error::other)? {
                    self.records.start += opened.bytes;
                    placed += opened.plain.len();
                    continue;
                }
            }
            let Some(opened) = self.opener.open(records).map_err(io::Error::other)? else { break };
            let at = self.records.start;
            self.plain = at + opened.plain.start..at + opened.plain.end;
            self.records.start += opened.bytes;
        }
        if self.plain.is_empty() {
            self.release();
        }
        Ok(placed)
    }

    /// Reads behind the part of a record that is there.
    fn read(&mut self, socket: &TcpStream) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = take_buffer();
        }
        // Less than a record is left, or it would have been opened.
        self.buffer.copy_within(self.records.clone(), 0);
        self.records = 0..self.records.len();
        self.plain = 0..0;
        let mut socket = socket;
        let bytes = socket.read(&mut self.buffer[self.records.end..])?;
        self.records.end += bytes;
        Ok(bytes)
    }

    /// Gives the buffer back, if nothing is in it.
    fn release(&mut self) {
        if self.records.is_empty() && self.plain.is_empty() && !self.buffer.is_empty() {
            give_back(std::mem::take(&mut self.buffer));
            self.records = 0..0;
            self.plain = 0..0;
        }
    }
}

#[cfg(test)]
mod tests;
