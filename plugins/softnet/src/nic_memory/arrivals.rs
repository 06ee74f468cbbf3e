//! Bytes that come on one data socket whose packets go to a NIC's region.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use tcpx_devmem::{Arrival, Received, Receiver};
use tcpx_rx::Fragment;
use tcpx_sys::UNPACK_PAGE_BYTES;

use super::held_fragments::HeldFragments;
use super::region::NicRegion;
use super::ring_arrivals::RingArrivals;
use super::spare_pages::{split_off, take_spare};
use crate::bell::Bell;
use crate::memory::{IoOutcome, PageRange, Piece};

/// Receiver of one data socket.
#[derive(Debug)]
pub(crate) enum NicArrivals {
    /// Each call says what has come.
    Calls(CallArrivals),
    /// A ring says what has come.
    Ring(RingArrivals),
}

impl NicArrivals {
    /// Creates a receiver. `bell` is rung when bytes have come that no socket shows.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn new(
        region: &'static NicRegion,
        socket: &TcpStream,
        bell: &Arc<Bell>,
    ) -> io::Result<Self> {
        match (region.ring(), region.receiver()) {
            (None, Some(receiver)) => Ok(Self::Calls(CallArrivals { region, receiver })),
            (Some(thread), _) => RingArrivals::new(region, thread, socket, bell).map(Self::Ring),
            (None, None) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Takes at most `most` of the next `left` bytes off the stream. Adds their places to `pieces`,
    /// and what they take of the region to `held`.
    pub(crate) fn receive(
        &mut self,
        socket: &TcpStream,
        left: usize,
        most: usize,
        pieces: &mut Vec<Piece>,
        held: &mut HeldFragments,
    ) -> IoOutcome {
        let socket = socket.as_fd();
        match self {
            Self::Calls(calls) => calls.receive(socket, left.min(most), pieces, held),
            Self::Ring(ring) => ring.receive(socket, left, most, pieces, held),
        }
    }

    /// Returns whether bytes may come, or be here, although the socket does not show them.
    pub(crate) fn expects(&self) -> bool {
        matches!(self, Self::Ring(ring) if ring.expects())
    }
}

/// Receiver of device memory from one data socket.
#[derive(Debug)]
pub(crate) struct CallArrivals {
    region: &'static NicRegion,
    receiver: Receiver,
}

impl CallArrivals {
    /// Receives bytes. Any of them may come in host memory and must have a place, so pages for all
    /// are taken first.
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        pieces: &mut Vec<Piece>,
        held: &mut HeldFragments,
    ) -> IoOutcome {
        let bounce = self.region.bounce();
        let Some((mut spare, most)) = take_spare(bounce, most) else { return IoOutcome::Again };
        let outcome = match self.receiver.receive(socket, most) {
            Ok(Received::Bytes(arrival)) => {
                held.region = Some(self.region);
                let before = held.fragments();
                let kept = split_off(&mut spare, arrival.linear.len().div_ceil(UNPACK_PAGE_BYTES));
                place(self.region, arrival, &kept, pieces, held);
                held.spare.extend(kept);
                self.region.hold_fragments(held.fragments() - before);
                self.region.count(arrival.bytes() as usize, arrival.linear.len());
                // A call takes no more than `most`.
                IoOutcome::Bytes(arrival.bytes() as usize)
            }
            Ok(Received::Blocked) => IoOutcome::Blocked,
            Ok(Received::Closed) => IoOutcome::Closed,
            Err(error) => IoOutcome::Refused(error),
        };
        bounce.release(&mut spare);
        outcome
    }
}

/// Copies bytes that came in host memory to `pages`, or beside the pages where they are a GPU's.
/// Lists the places of all bytes.
fn place(
    region: &NicRegion,
    arrival: Arrival<'_>,
    pages: &[PageRange],
    pieces: &mut Vec<Piece>,
    held: &mut HeldFragments,
) {
    let memory = region.bounce().region();
    let offsets: Vec<usize> = pages
        .iter()
        .flat_map(|range| range.first..range.first + range.count)
        .map(|page| page as usize * UNPACK_PAGE_BYTES)
        .collect();
    for (&offset, bytes) in offsets.iter().zip(arrival.linear.chunks(UNPACK_PAGE_BYTES)) {
        memory.write(memory.piece(offset, bytes.len()), bytes);
    }
    let mut used = 0;
    for fragment in arrival.fragments {
        match *fragment {
            Fragment::Device(device) => {
                held.tokens.push(device.token);
                // The receiver has checked that it lies in the dma-buf.
                let piece = memory.piece(device.offset as usize, device.bytes as usize);
                pieces.push(piece);
                if region.bounce().is_spoiled() {
                    held.pieces.push(piece);
                }
            }
            Fragment::Linear { bytes } => {
                let mut left = bytes as usize;
                while left > 0
                    && let Some(page) = offsets.get(used / UNPACK_PAGE_BYTES)
                {
                    let within = used % UNPACK_PAGE_BYTES;
                    let len = left.min(UNPACK_PAGE_BYTES - within);
                    pieces.push(memory.piece(page + within, len));
                    used += len;
                    left -= len;
                }
            }
            // The receiver yields the two kinds above only.
            _ => {}
        }
    }
}
