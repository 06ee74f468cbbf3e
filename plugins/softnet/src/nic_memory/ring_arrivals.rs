//! Bytes that come on one data socket and are reported by a ring.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use tcpx_devmem::{DevmemError, ReceiveEnd};
use tcpx_sys::UNPACK_PAGE_BYTES;

use super::held_fragments::HeldFragments;
use super::inbox::{Inbox, TakeResult};
use super::region::NicRegion;
use super::ring_thread::RingThread;
use super::spare_pages::{split_off, take_spare};
use crate::bell::Bell;
use crate::memory::{IoList, IoOutcome, Piece};

/// Receiver of one data socket whose region has a ring.
#[derive(Debug)]
pub(crate) struct RingArrivals {
    region: &'static NicRegion,
    thread: &'static RingThread,
    inbox: Arc<Inbox>,
    id: u64,
}

impl RingArrivals {
    /// Creates a receiver; `bell` is rung when bytes have come.
    pub(super) fn new(
        region: &'static NicRegion,
        thread: &'static RingThread,
        socket: &TcpStream,
        bell: &Arc<Bell>,
    ) -> io::Result<Self> {
        let inbox = Arc::new(Inbox::new(Arc::clone(bell)));
        let id = thread.attach(socket, &inbox)?;
        Ok(Self { region, thread, inbox, id })
    }

    /// Takes at most `most` of the next `left` bytes of the stream, if they have come, and asks for
    /// them otherwise.
    pub(super) fn receive(
        &self,
        socket: BorrowedFd<'_>,
        left: usize,
        most: usize,
        pieces: &mut Vec<Piece>,
        held: &mut HeldFragments,
    ) -> IoOutcome {
        let (memory, is_spoiled) =
            (self.region.bounce().region(), self.region.bounce().is_spoiled());
        let mut bytes = 0;
        let before = held.fragments();
        let found = self.inbox.take(left.min(most), |piece, is_all| {
            bytes += piece.bytes as usize;
            let place = memory.piece(piece.offset as usize, piece.bytes as usize);
            pieces.push(place);
            if is_spoiled {
                held.pieces.push(place);
            }
            if is_all {
                held.tokens.push(piece.page());
            }
        });
        match found {
            TakeResult::Pieces => {
                held.region = Some(self.region);
                self.region.hold_fragments(held.fragments() - before);
                self.region.count(bytes, 0);
                IoOutcome::Bytes(bytes)
            }
            TakeResult::Ask => {
                self.thread.ask(self.id, u32::try_from(left).unwrap_or(u32::MAX));
                IoOutcome::Blocked
            }
            TakeResult::Wait => IoOutcome::Blocked,
            TakeResult::End(end) => match end {
                ReceiveEnd::NoPage => self.copy(socket, left.min(most), pieces, held),
                ReceiveEnd::Closed => IoOutcome::Closed,
                ReceiveEnd::Foreign => IoOutcome::Refused(DevmemError::ForeignPacket),
                ReceiveEnd::Failed(error) => IoOutcome::Failed(error),
                // A receive that was cancelled although no thread asked for that is repeated.
                _ => IoOutcome::Again,
            },
        }
    }

    /// Receives bytes that lie in the system's own memory to spare pages, as from any socket.
    fn copy(
        &self,
        socket: BorrowedFd<'_>,
        most: usize,
        pieces: &mut Vec<Piece>,
        held: &mut HeldFragments,
    ) -> IoOutcome {
        let bounce = self.region.bounce();
        let Some((mut spare, most)) = take_spare(bounce, most) else { return IoOutcome::Again };
        let mut list = IoList::new(most);
        for range in &spare {
            let (first, count) = (range.first as usize, range.count as usize);
            let place = (first * UNPACK_PAGE_BYTES, count * UNPACK_PAGE_BYTES);
            if !list.push(bounce.region().piece(place.0, place.1)) {
                break;
            }
        }
        let outcome = match list.receive(socket) {
            IoOutcome::Bytes(bytes) => {
                let kept = split_off(&mut spare, bytes.div_ceil(UNPACK_PAGE_BYTES));
                let mut left = bytes;
                for range in &kept {
                    let len = left.min(range.count as usize * UNPACK_PAGE_BYTES);
                    let first = range.first as usize * UNPACK_PAGE_BYTES;
                    for at in (0..len).step_by(UNPACK_PAGE_BYTES) {
                        let bytes = (len - at).min(UNPACK_PAGE_BYTES);
                        pieces.push(bounce.region().piece(first + at, bytes));
                    }
                    left -= len;
                }
                held.region = Some(self.region);
                held.spare.extend(kept);
                self.region.count(bytes, bytes);
                IoOutcome::Bytes(bytes)
            }
            // The next bytes are in the area after all: the kernel had no memory for something
            // else.
            IoOutcome::Failed(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                IoOutcome::Again
            }
            IoOutcome::Blocked => IoOutcome::Again,
            other => other,
        };
        bounce.release(&mut spare);
        outcome
    }

    /// Returns whether bytes may come, or be here, although the socket does not show them.
    pub(super) fn expects(&self) -> bool {
        self.inbox.expects()
    }
}

impl Drop for RingArrivals {
    fn drop(&mut self) {
        self.thread.detach(self.id);
    }
}
