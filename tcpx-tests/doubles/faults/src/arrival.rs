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
use std::sync::{Arc, Mutex, PoisonError};

use tcpx_softnet::hooks::{ArrivalHooks, Pages};
use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::packet_cutter::PacketCutter;

/// The pages of one chunk. Pages that no caller has taken go back with it.
#[derive(Debug)]
pub(crate) struct ArrivalPages {
    pages: Pages,
    own: Vec<u32>,
    unplaced: usize,
    places: Arc<Mutex<ArrivalPlaces>>,
    has_begun: bool,
}

impl ArrivalPages {
    /// For a chunk of `bytes`, on the socket whose places these are; it has no page yet.
    pub(crate) fn new(pages: Pages, bytes: usize, places: Arc<Mutex<ArrivalPlaces>>) -> Self {
        Self { pages, own: Vec::new(), unplaced: bytes, places, has_begun: false }
    }
}

impl ArrivalHooks for ArrivalPages {
    fn unplaced(&self) -> usize {
        self.unplaced
    }

    /// Places bytes while there are free pages.
    fn place(
        &mut self,
        socket: &TcpStream,
        placed: usize,
        put: &mut dyn FnMut(usize, usize),
    ) -> io::Result<()> {
        let arrived = readable_bytes(socket)?;
        let places = Arc::clone(&self.places);
        let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = arrived.saturating_sub(placed).min(self.unplaced);
        if !self.has_begun && wanted > 0 {
            places.cutter.begin_chunk();
        }
        while wanted > 0 && places.next_page(self) {
            let Some(&page) = self.own.last() else { break };
            let (offset, len) = places.cutter.cut(u32::try_from(wanted).unwrap_or(u32::MAX));
            put(page as usize * UNPACK_PAGE_BYTES + offset as usize, len as usize);
            self.has_begun = true;
            wanted -= len as usize;
            self.unplaced -= len as usize;
        }
        match socket.peek(&mut [0]) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed it")),
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn hand_over(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.own)
    }
}

impl Drop for ArrivalPages {
    fn drop(&mut self) {
        self.pages.release(&self.own);
    }
}

/// Gives the bytes of one socket their places.
#[derive(Debug)]
pub(crate) struct ArrivalPlaces {
    cutter: PacketCutter,
    /// A page that the next chunk may share; one use of it is held here.
    open: Option<(Pages, u32)>,
}

impl ArrivalPlaces {
    pub(crate) fn new(cutter: PacketCutter) -> Self {
        Self { cutter, open: None }
    }

    /// Makes the page of the next fragment the chunk's last; false when there is none.
    fn next_page(&mut self, chunk: &mut ArrivalPages) -> bool {
        if self.cutter.needs_page() {
            let Some(page) = chunk.pages.take(1).and_then(|taken| taken.first().copied()) else {
                return false;
            };
            chunk.own.push(page);
            self.close();
            if self.cutter.spans() {
                chunk.pages.share(page);
                self.open = Some((chunk.pages, page));
            }
        } else if let Some((pages, page)) = self.open.filter(|_| !chunk.has_begun) {
            pages.share(page);
            chunk.own.push(page);
        }
        true
    }

    fn close(&mut self) {
        if let Some((pages, page)) = self.open.take() {
            pages.release(&[page]);
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
