#![allow(unsafe_code)]
//! Ranges of memory that callers lend, or that are parts of the bounce region.
//!
//! Nothing here forms a reference to such memory, because the consumer, or a GPU, may touch it at
//! any time; [`Piece::lend`] does so for memory that is sent, [`Piece::lend_unseen`] for pages that
//! nothing else looks at yet. Socket calls get addresses, and the kernel checks them. The only
//! copies made in user space are [`Piece::write`], [`Piece::read`], [`Piece::copy_from`] and
//! `Region::fill`. None of them touches GPU memory. Receives into GPU memory go through pinned
//! pages, from which the bytes are read or copied up (see `uploader`). Sends from GPU memory go
//! through pinned pages, too (see `stager`). Where a NIC writes to GPU memory or reads it, pieces
//! of it are numbers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tcpx_cuda::PinnedBuffer;
use tcpx_devmem::HostBuffer;

/// A range of memory that a request may read from, or write to, until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    address: usize,
    len: usize,
}

impl Piece {
    pub(crate) const EMPTY: Self = Self { address: 0, len: 0 };

    /// # Safety
    /// The range is memory that the caller of the plugin lends to a request: registered, not freed,
    /// and for receives not touched by any other user, until the request is done or its comm
    /// closed. (`isend` and `irecv` demand this.) Or it is a region of the plugin's own that is
    /// never freed.
    pub(crate) unsafe fn lent(address: usize, len: usize) -> Self {
        Self { address, len }
    }

    /// Returns a range of a buffer, cut to the buffer's length. The user of the piece keeps the
    /// buffer.
    pub(crate) fn of_buffer(buffer: &HostBuffer, offset: usize, len: usize) -> Self {
        Self { address: buffer.as_mut_ptr().expose_provenance(), len: buffer.len() }
            .slice(offset, len)
    }

    /// Returns a range of pinned memory, cut to its length. The user of the piece keeps the buffer.
    pub(crate) fn of_pinned(buffer: &PinnedBuffer, offset: usize, len: usize) -> Self {
        let bytes = buffer.bytes() as usize;
        Self { address: buffer.as_ptr().expose_provenance(), len: bytes }.slice(offset, len)
    }

    /// Returns a range that is only looked at as numbers.
    #[cfg(test)]
    pub(crate) fn for_tests(address: usize, len: usize) -> Self {
        Self { address, len }
    }

    /// Returns a slice as a piece. The user of the piece keeps the slice.
    #[cfg(test)]
    pub(crate) fn of_slice(bytes: &mut [u8]) -> Self {
        Self { address: bytes.as_mut_ptr().expose_provenance(), len: bytes.len() }
    }

    /// Returns the bytes of a piece that the processor can read.
    #[cfg(test)]
    pub(crate) fn read_for_tests(self, bytes: &mut [u8]) {
        let to = Self { address: bytes.as_mut_ptr().expose_provenance(), len: bytes.len() };
        to.copy_from(self);
    }

    pub(crate) fn address(self) -> usize {
        self.address
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns `len` bytes from `offset`, cut to the piece's length.
    pub(crate) fn slice(self, offset: usize, len: usize) -> Self {
        let offset = offset.min(self.len);
        Self { address: self.address + offset, len: len.min(self.len - offset) }
    }

    /// Returns both pieces as one, if `next` begins where this piece ends.
    pub(crate) fn joined(self, next: Self) -> Option<Self> {
        let is_next = self.len > 0 && self.address + self.len == next.address;
        is_next.then_some(Self { address: self.address, len: self.len + next.len })
    }

    /// Copies the start of `from`, which the processor can read, to the start of this piece: as
    /// many bytes as the shorter one has.
    pub(crate) fn copy_from(self, from: Self) {
        let len = from.len.min(self.len);
        let source = core::ptr::with_exposed_provenance::<u8>(from.address);
        let target = core::ptr::with_exposed_provenance_mut::<u8>(self.address);
        // SAFETY:
        // - each piece is lent memory (see `lent`), or pinned memory of the plugin's own, and has
        //   `len` bytes;
        // - nothing else writes to either meanwhile: one belongs to a request, the other is held by
        //   the code that copies. Should a caller lend overlapping memory, `copy` allows that.
        unsafe { core::ptr::copy(source, target, len) };
    }

    /// Copies `bytes` to the start of the piece, cut to the piece's length.
    pub(crate) fn write(self, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        let target = core::ptr::with_exposed_provenance_mut::<u8>(self.address);
        // SAFETY:
        // - the piece is lent memory (see `lent`) or a part of the bounce region, writable for
        //   `self.len ≥ len` bytes;
        // - `bytes` is a live slice of the plugin's own, so the two cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len) };
    }

    /// Copies the start of the piece, which the processor can read, to the front of a buffer.
    /// Returns how many bytes that are.
    pub(crate) fn read(self, buffer: &mut [u8]) -> usize {
        let len = buffer.len().min(self.len);
        let source = core::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY:
        // - the piece is lent memory (see `lent`), or memory of the plugin's own, of
        //   `self.len ≥ len` bytes;
        // - `buffer` is a live slice of the plugin's own, so the two cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(source, buffer.as_mut_ptr(), len) };
        len
    }

    /// Calls `read` with the bytes of the piece, which the processor can read. For a cipher, which
    /// reads each of them once.
    pub(crate) fn lend<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        let source = core::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: the piece is lent memory of a send (see `lent`), which its lender does not write
        // to until the send is done, or memory of the plugin's own that only this send uses.
        read(unsafe { core::slice::from_raw_parts(source, self.len) })
    }

    /// Calls `write` with the bytes of the piece, which the processor can write to. For a cipher,
    /// and for pages of the plugin's own that one request holds and that nothing reads before it
    /// has them.
    pub(crate) fn lend_unseen<R>(self, write: impl FnOnce(&mut [u8]) -> R) -> R {
        let target = core::ptr::with_exposed_provenance_mut::<u8>(self.address);
        // SAFETY: the piece is a part of the bounce region, memory of the system's or the driver's
        // that is writable for `self.len` bytes and belongs to this request alone; its consumer,
        // and a GPU, learn of it from entries that are written when the bytes have arrived.
        write(unsafe { core::slice::from_raw_parts_mut(target, self.len) })
    }

    /// Copies the piece to `offset` of a file in memory. Where the process has no such memory, the
    /// system returns an error.
    pub(crate) fn save(self, file: BorrowedFd<'_>, offset: usize) -> io::Result<()> {
        self.transfer(|address, len, done| {
            let from = core::ptr::with_exposed_provenance::<u8>(address).cast();
            // SAFETY: the kernel only reads the memory, and answers EFAULT where there is none.
            unsafe { libc::pwrite(file.as_raw_fd(), from, len, (offset + done) as libc::off_t) }
        })
    }

    /// Fills the piece with the bytes at `offset` of a file in memory.
    pub(crate) fn load(self, file: BorrowedFd<'_>, offset: usize) -> io::Result<()> {
        self.transfer(|address, len, done| {
            let to = core::ptr::with_exposed_provenance_mut::<u8>(address).cast();
            // SAFETY: the piece is memory lent for writing (see `lent`); the kernel answers EFAULT
            // where there is none.
            unsafe { libc::pread(file.as_raw_fd(), to, len, (offset + done) as libc::off_t) }
        })
    }

    /// Calls `step` with the rest until no byte is left.
    fn transfer(self, mut step: impl FnMut(usize, usize, usize) -> isize) -> io::Result<()> {
        let mut done = 0;
        while done < self.len {
            match usize::try_from(step(self.address + done, self.len - done, done)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => done += bytes,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside() {
        let piece = Piece::for_tests(1000, 10);
        assert_eq!(piece.slice(4, 3), Piece { address: 1004, len: 3 });
        assert_eq!(piece.slice(4, 100).len(), 6);
        assert_eq!(piece.slice(11, 1).len(), 0);
    }

    #[test]
    fn neighbours_are_joined_in_their_order() {
        let piece = |address, len| Piece::for_tests(address, len);
        assert_eq!(piece(1000, 10).joined(piece(1010, 5)), Some(piece(1000, 15)));
        assert_eq!(piece(1000, 10).joined(piece(1011, 5)), None);
        assert_eq!(piece(1010, 5).joined(piece(1000, 10)), None);
        assert_eq!(Piece::EMPTY.joined(piece(0, 5)), None);
    }

    #[test]
    fn a_copy_goes_as_far_as_both() {
        let (mut from, mut to) = ([1_u8, 2, 3], [9_u8; 4]);
        let lent = |bytes: &mut [u8]| {
            // SAFETY: the arrays live until the end of the test, and nothing else uses them.
            unsafe { Piece::lent(bytes.as_mut_ptr().expose_provenance(), bytes.len()) }
        };
        lent(&mut to).copy_from(lent(&mut from));
        assert_eq!(to, [1, 2, 3, 9]);
        lent(&mut to).slice(0, 1).copy_from(lent(&mut from).slice(2, 1));
        assert_eq!(to, [3, 2, 3, 9]);
    }
}
