#![allow(unsafe_code)]
//! Socket calls on pieces of memory, several pieces to a call.

use std::ffi::c_int;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use tcpx_devmem::DevmemError;

use super::piece::Piece;

/// Most pieces of one gather or scatter call.
const MAX_PIECES: usize = 64;

/// Outcome of one socket call.
#[derive(Debug)]
pub(crate) enum IoOutcome {
    /// This many bytes moved, at least one.
    Bytes(usize),
    /// The socket has no room, or no data, now. It becomes ready when that changes.
    Blocked,
    /// Nothing moved, for a reason that passes without an event on the socket.
    Again,
    /// The peer has closed (receive only).
    Closed,
    /// The connection is dead.
    Failed(io::Error),
    /// The connection is dead because of device memory or its NIC.
    Refused(DevmemError),
}

/// A gather or scatter list for one socket call.
pub(crate) struct IoList<'a> {
    vectors: [libc::iovec; MAX_PIECES],
    used: usize,
    bytes: usize,
    limit: usize,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> IoList<'a> {
    /// Creates a list that takes at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let empty = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        Self { vectors: [empty; MAX_PIECES], used: 0, bytes: 0, limit, borrowed: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the number of bytes of the listed memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a piece, cut to the limit; returns false when the list can take no more after it.
    pub(crate) fn push(&mut self, piece: Piece) -> bool {
        self.append(core::ptr::with_exposed_provenance_mut(piece.address()), piece.len())
    }

    /// Appends bytes of the plugin's own. For sending only.
    pub(crate) fn push_bytes(&mut self, bytes: &'a [u8]) -> bool {
        self.append(bytes.as_ptr().cast_mut(), bytes.len())
    }

    /// Appends a place for bytes of the plugin's own, cut to the limit.
    pub(crate) fn push_place(&mut self, place: &'a mut [u8]) -> bool {
        self.append(place.as_mut_ptr(), place.len())
    }

    fn append(&mut self, base: *mut u8, len: usize) -> bool {
        let taken = len.min(self.limit - self.bytes);
        if taken > 0 && self.used < MAX_PIECES {
            self.vectors[self.used] = libc::iovec { iov_base: base.cast(), iov_len: taken };
            self.used += 1;
            self.bytes += taken;
        } else if len > 0 {
            return false;
        }
        taken == len && self.used < MAX_PIECES && self.bytes < self.limit
    }

    /// Returns the listed memory from byte `from` on.
    fn pieces(&self, mut from: usize) -> impl Iterator<Item = Piece> {
        self.vectors[..self.used].iter().map(move |vector| {
            // SAFETY: each vector was made of a piece, or of bytes that the list borrows; both are
            // as lent as they were when they were listed.
            let piece = unsafe { Piece::lent(vector.iov_base.expose_provenance(), vector.iov_len) };
            let skipped = from.min(piece.len());
            from -= skipped;
            piece.slice(skipped, piece.len())
        })
    }

    /// Returns what is in one piece of the listed bytes from byte `from` on.
    pub(crate) fn piece_at(&self, from: usize) -> Option<Piece> {
        self.pieces(from).find(|piece| piece.len() > 0)
    }

    /// Returns a range of the listed bytes, if it is in one piece.
    pub(crate) fn whole(&self, range: Range<usize>) -> Option<Piece> {
        let first = self.piece_at(range.start)?;
        (first.len() >= range.len()).then(|| first.slice(0, range.len()))
    }

    /// Copies the listed bytes from byte `from` on to the front of a buffer, as many as there are
    /// or as it has room for. The processor must be able to read them.
    pub(crate) fn copy_to(&self, mut buffer: &mut [u8], from: usize) {
        for piece in self.pieces(from) {
            let done = piece.read(buffer);
            buffer = &mut buffer[done..];
        }
    }

    /// Copies bytes to the listed places, from byte `from` of them on. Returns how many there was
    /// room for. Must not be called after [`Self::push_bytes`].
    pub(crate) fn fill_from(&self, from: usize, bytes: &[u8]) -> usize {
        let mut done = 0;
        for piece in self.pieces(from) {
            let bytes = &bytes[done..];
            piece.write(bytes);
            done += piece.len().min(bytes.len());
        }
        done
    }

    fn message(&mut self) -> libc::msghdr {
        // SAFETY: `msghdr` is plain C data for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = self.vectors.as_mut_ptr();
        message.msg_iovlen = self.used as _;
        message
    }

    /// Sends from the listed memory without waiting. `signal` is the flag for `sendmsg` about
    /// SIGPIPE, `MSG_NOSIGNAL` or nothing.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, signal: c_int) -> IoOutcome {
        sent(self.call_send(socket, signal, 0))
    }

    /// Does the same as [`Self::send`], but the system goes on reading the memory until the
    /// socket's error queue says that it is done. Returns an error when the system does not want
    /// to, and a call of [`Self::send`] may work.
    pub(crate) fn send_zerocopy(
        &mut self,
        socket: BorrowedFd<'_>,
        signal: c_int,
    ) -> io::Result<IoOutcome> {
        let result = self.call_send(socket, signal, libc::MSG_ZEROCOPY);
        if result < 0 {
            let error = io::Error::last_os_error();
            // Too much is under way or pinned, or the memory cannot be pinned.
            if matches!(
                error.raw_os_error(),
                Some(
                    libc::ENOBUFS
                        | libc::ENOMEM
                        | libc::EPERM
                        | libc::EFAULT
                        | libc::EINVAL
                        | libc::EOPNOTSUPP
                )
            ) {
                return Err(error);
            }
        }
        Ok(sent(result))
    }

    fn call_send(&mut self, socket: BorrowedFd<'_>, signal: c_int, how: c_int) -> isize {
        let message = self.message();
        let flags = signal | how | libc::MSG_DONTWAIT;
        // SAFETY:
        // - `message` points to `self.vectors`, which outlives the call;
        // - the kernel only reads the listed memory, and answers EFAULT where the process has none.
        //   With MSG_ZEROCOPY it reads it after the call, too. It holds on to the pages then, so
        //   that nothing of the process but these bytes can be read.
        let send = || unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
        let result = send();
        if result < 0
            && signal == 0
            && io::Error::last_os_error().kind() == io::ErrorKind::ConnectionReset
        {
            // The system reports a reset once without the signal.
            return send();
        }
        result
    }

    /// Receives into the listed memory without waiting. Must not be called after
    /// [`Self::push_bytes`].
    pub(crate) fn receive(mut self, socket: BorrowedFd<'_>) -> IoOutcome {
        let mut message = self.message();
        // SAFETY:
        // - `message` points to `self.vectors`, which outlives the call;
        // - every piece is memory lent for writing or pages of the bounce region that the chunk
        //   holds, and the kernel answers EFAULT where the process has no writable memory.
        let result =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        moved(result)
    }
}

/// Returns the outcome of a send. A send of no byte is no end.
fn sent(result: isize) -> IoOutcome {
    match moved(result) {
        IoOutcome::Closed => IoOutcome::Again,
        moved => moved,
    }
}

fn moved(result: isize) -> IoOutcome {
    match usize::try_from(result) {
        Ok(0) => IoOutcome::Closed,
        Ok(bytes) => IoOutcome::Bytes(bytes),
        Err(_) => {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => IoOutcome::Blocked,
                Some(libc::EINTR | libc::ENOBUFS) => IoOutcome::Again,
                _ => IoOutcome::Failed(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use tcpx_sys::UNPACK_PAGE_BYTES;

    use super::*;
    use crate::memory::region::Region;

    #[test]
    fn gathers_and_scatters_in_order() {
        let (left, right) = UnixStream::pair().expect("socket pair");
        let region = Region::new(2 * UNPACK_PAGE_BYTES).expect("mapping");
        region.piece(10, 4).write(b"page");
        let mut list = IoList::new(usize::MAX);
        assert!(list.push_bytes(b"own "));
        assert!(list.push(region.piece(10, 4)));
        assert!(matches!(list.send(left.as_fd(), libc::MSG_NOSIGNAL), IoOutcome::Bytes(8)));
        let mut list = IoList::new(7);
        assert!(list.push(region.piece(4094, 4)));
        assert!(!list.push(region.piece(0, 4)), "the limit is reached");
        assert!(matches!(list.receive(right.as_fd()), IoOutcome::Bytes(7)));
        let mut rest = [0; 1];
        (&right).read_exact(&mut rest).expect("the eighth byte");
        assert_eq!(&rest, b"e");
        let mut list = IoList::new(4);
        list.push(region.piece(0, 4));
        assert!(matches!(list.receive(right.as_fd()), IoOutcome::Blocked));
        drop(left);
        let mut list = IoList::new(4);
        list.push(region.piece(0, 4));
        assert!(matches!(list.receive(right.as_fd()), IoOutcome::Closed));
        assert!((&right).write(b"x").is_err());
    }

    #[test]
    fn a_wild_address_is_an_error_of_the_kernels() {
        let (left, _right) = UnixStream::pair().expect("socket pair");
        let mut list = IoList::new(8);
        // SAFETY: the kernel is meant to refuse this range; nothing else touches it.
        list.push(unsafe { Piece::lent(8, 8) });
        let IoOutcome::Failed(error) = list.send(left.as_fd(), libc::MSG_NOSIGNAL) else {
            panic!("must fail")
        };
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }
}
