//! Hooks of one send or receive comm.

use std::fmt;
use std::net::TcpStream;

use super::at_socket::ArrivalHooks;
use super::pages::{Pages, Placement};

/// Changes to one send or receive comm. Requests are numbered from 0.
pub trait CommHooks: Send {
    /// A request was posted that must never get on the sockets: [`Self::admits`] says so.
    fn posted_stuck(&mut self, number: u64) {
        let _ = number;
    }

    /// Notes a call of `test` that drives the comm, over these sockets; `posted` requests were ever
    /// posted.
    fn drive(&mut self, posted: u64, sockets: &mut dyn Iterator<Item = &TcpStream>) {
        let _ = (posted, sockets);
    }

    /// Returns whether something is still to happen that comes with being driven often enough.
    fn counts_calls(&self) -> bool {
        false
    }

    /// Returns whether `test` drives the comm for requests that are done as well.
    fn drives_always(&self) -> bool {
        false
    }

    /// Returns whether this call may work on a request.
    fn admits(&self, number: u64) -> bool {
        let _ = number;
        true
    }

    /// This call has handed a whole request to the sockets.
    fn queued(&mut self) {}

    /// Returns whether a request that is finished may be reported.
    fn reports(&self, number: u64) -> bool {
        let _ = number;
        true
    }

    /// Returns whether a request that was reported before is not done, and no error, while none
    /// moves.
    fn forgives_stale(&self) -> bool {
        false
    }

    /// The control socket has failed. Whether that fails this call alone, and not the requests.
    fn control_lost(&mut self, why: &dyn fmt::Display) -> bool {
        let _ = why;
        false
    }

    /// Returns whether a send comm reports this message and does not send it.
    fn loses(&self, number: u64) -> bool {
        let _ = number;
        false
    }

    /// Returns whether the end of the control socket is found before the records that came before
    /// it are used.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Returns whether data sockets bring nothing to host memory.
    fn is_steered(&self) -> bool {
        false
    }

    /// The comm is for another GPU than the one that looks at it.
    fn misled(&mut self) {}

    /// What each byte that comes to device memory becomes, if they are garbled.
    fn garbled(&self) -> Option<u8> {
        None
    }

    /// Returns whether inline messages for device memory are copied to where they were posted.
    fn copies_inline(&self) -> bool {
        false
    }

    /// Copies one to this address, which is the caller's.
    fn copy_inline(&self, address: usize, payload: &[u8]) {
        let _ = (address, payload);
    }

    /// Returns whether messages of more fragments than the unpack queue takes are received all the
    /// same.
    fn is_unlimited(&self) -> bool {
        false
    }

    /// Notes a chunk that came in `chunk` fragments; its request now has `all`.
    fn fragments(&self, chunk: usize, all: usize) {
        let _ = (chunk, all);
    }

    /// Where a message of `total` bytes in chunks of `chunk_bytes` is to lie. Asked again until it
    /// has a place.
    fn place(&mut self, pages: Pages, number: u64, total: u32, chunk_bytes: u32) -> Placement {
        let _ = (pages, number, total, chunk_bytes);
        Placement::Usual
    }

    /// The memory of a chunk that gets it as its bytes arrive on data socket `lane`.
    fn on_arrival(
        &mut self,
        pages: Pages,
        lane: usize,
        bytes: usize,
    ) -> Option<Box<dyn ArrivalHooks>> {
        let _ = (pages, lane, bytes);
        None
    }

    /// A chunk of a request for device memory has arrived, in pieces at these offsets and of these
    /// lengths.
    fn arrived(
        &mut self,
        number: u64,
        lane: usize,
        pieces: &mut dyn Iterator<Item = (usize, usize)>,
    ) {
        let _ = (number, lane, pieces);
    }

    /// Notes that a receive of `bytes` bytes is consumed. Returns whether its pages are kept for
    /// good.
    fn consumed(&mut self, pages: Pages, number: u64, bytes: u32) -> bool {
        let _ = (pages, number, bytes);
        false
    }

    /// Returns whether consuming a request that may not be consumed frees the oldest one instead.
    /// `low`: the lowest twenty bits of its number. `bytes`: what was announced for it, or else
    /// posted; `None` when it is gone.
    fn frees_oldest(&self, low: u32, bytes: Option<u32>) -> bool {
        let _ = (low, bytes);
        false
    }

    /// The pages of a request that was freed in this way.
    fn forgot(&mut self, pages: Vec<u32>) {
        let _ = pages;
    }

    /// The comm is closed: all pages that the hook has go back.
    fn closed(&mut self, pages: Pages) {
        let _ = pages;
    }
}
