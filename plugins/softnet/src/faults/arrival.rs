#![allow(unsafe_code)]
//! Bounce pages that are taken one by one as bytes arrive on a socket, as the kernel takes them for
//! the original.
//!
//! A chunk that is not all there keeps the pages that it has, and so does one that waits for its
//! turn. Where the pages of all chunks that have begun are more than there are, nothing moves any
//! more.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use super::packet_cutter::PacketCutter;
use crate::memory::{BounceBuffer, PageRange, Piece};

/// The pages of one chunk. Those that nobody has taken go back with it.
#[derive(Debug)]
pub(crate) struct ArrivalPages {
    bounce: &'static BounceBuffer,
    ranges: Vec<PageRange>,
    unplaced: usize,
}

impl ArrivalPages {
    /// For a chunk of `bytes`; it has no page yet.
    pub(crate) fn new(bounce: &'static BounceBuffer, bytes: usize) -> Self {
        Self { bounce, ranges: Vec::new(), unplaced: bytes }
    }

    /// Bytes that have no place yet.
    pub(crate) fn unplaced(&self) -> usize {
        self.unplaced
    }

    /// Hands the pages to the chunk's request.
    pub(crate) fn hand_over(mut self, ranges: &mut Vec<PageRange>) {
        ranges.append(&mut self.ranges);
    }
}

impl Drop for ArrivalPages {
    fn drop(&mut self) {
        self.bounce.release(&mut self.ranges);
    }
}

/// Gives the bytes of one socket their places.
#[derive(Debug)]
pub(super) struct ArrivalPlaces {
    cutter: PacketCutter,
    /// A page that the next chunk may share; one use of it is held here.
    open: Option<(&'static BounceBuffer, u32)>,
}

impl ArrivalPlaces {
    pub(super) fn new(cutter: PacketCutter) -> Self {
        Self { cutter, open: None }
    }

    /// Appends places for the bytes that lie in the socket, beyond `placed` that have theirs, as
    /// far as there are free pages. The end of the socket is an error.
    pub(super) fn place(
        &mut self,
        socket: &TcpStream,
        placed: usize,
        pages: &mut ArrivalPages,
        pieces: &mut Vec<Piece>,
    ) -> io::Result<()> {
        let arrived = readable_bytes(socket)?;
        let mut wanted = arrived.saturating_sub(placed).min(pages.unplaced);
        if pieces.is_empty() && wanted > 0 {
            self.cutter.begin_chunk();
        }
        while wanted > 0 && self.next_page(pages, pieces.is_empty()) {
            let Some(page) = pages.ranges.last().map(|range| range.first + range.count - 1) else {
                break;
            };
            let (offset, len) = self.cutter.cut(u32::try_from(wanted).unwrap_or(u32::MAX));
            let place = page as usize * tcpx_sys::UNPACK_PAGE_BYTES + offset as usize;
            pieces.push(pages.bounce.region().piece(place, len as usize));
            wanted -= len as usize;
            pages.unplaced -= len as usize;
        }
        match socket.peek(&mut [0]) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed it")),
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the page of the next fragment the chunk's last; false when there is none.
    fn next_page(&mut self, pages: &mut ArrivalPages, is_first: bool) -> bool {
        if self.cutter.needs_page() {
            if !pages.bounce.take(1, &mut pages.ranges) {
                return false;
            }
            self.close();
            if let Some(range) = pages.ranges.last().filter(|_| self.cutter.spans()) {
                let page = range.first + range.count - 1;
                pages.bounce.share(page);
                self.open = Some((pages.bounce, page));
            }
        } else if let Some((bounce, page)) = self.open.filter(|_| is_first) {
            bounce.share(page);
            pages.ranges.push(PageRange { first: page, count: 1 });
        }
        true
    }

    fn close(&mut self) {
        if let Some((bounce, page)) = self.open.take() {
            bounce.release(&mut vec![PageRange { first: page, count: 1 }]);
        }
    }
}

impl Drop for ArrivalPlaces {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a call is only to be made again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Bytes that a socket has for its reader.
fn readable_bytes(socket: &TcpStream) -> io::Result<usize> {
    let mut bytes = 0;
    // SAFETY: the descriptor is open as long as `socket` lives; the system writes one int.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or_default())
}
