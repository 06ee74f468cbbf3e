#![allow(unsafe_code)]
//! Bytes that are sent from, and read to, their place in memory while other threads or peers may
//! use them.
//!
//! A program may read and write its exported memory at any time, and so may its peers. So this
//! module makes no reference to such bytes: the kernel and `memcpy` receive addresses. A reader
//! that races gets any mixture of old and new bytes, as with an RDMA NIC.

use std::io;
use std::marker::PhantomData;
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Bytes to be sent.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Source<'a>(libc::iovec, PhantomData<&'a u8>);

/// Room for bytes to be read.
#[repr(transparent)]
pub(crate) struct Place<'a>(libc::iovec, PhantomData<&'a mut u8>);

impl<'a> Source<'a> {
    /// Names bytes at an address.
    ///
    /// # Safety
    /// The CPU may read them for as long as this value is used. Others may write them meanwhile.
    pub(crate) unsafe fn at(address: u64, bytes: u64) -> Self {
        Self(vector(address, bytes), PhantomData)
    }

    /// Names bytes that no thread writes.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let iov_base = bytes.as_ptr().cast_mut().cast();
        Self(libc::iovec { iov_base, iov_len: bytes.len() }, PhantomData)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Copies the bytes in `range` behind the content of `to`.
    pub(crate) fn append_to(&self, range: Range<usize>, to: &mut Vec<u8>) {
        let end = range.end.min(self.len());
        let Some(bytes) = end.checked_sub(range.start) else { return };
        to.reserve(bytes);
        // SAFETY: the range lies in the source, which the CPU may read. The room behind `to` was
        // just made, and no other thread uses it. All of it is written before it counts.
        unsafe {
            let from = self.0.iov_base.cast::<u8>().add(range.start);
            from.copy_to_nonoverlapping(to.as_mut_ptr().add(to.len()), bytes);
            to.set_len(to.len() + bytes);
        }
    }
}

impl<'a> Place<'a> {
    /// Names room at an address.
    ///
    /// # Safety
    /// The CPU may write it for as long as this value is used. Others may read and write it
    /// meanwhile.
    pub(crate) unsafe fn at(address: u64, bytes: u64) -> Self {
        Self(vector(address, bytes), PhantomData)
    }

    /// Names room that no other thread uses.
    pub(super) fn of(room: &'a mut [u8]) -> Self {
        let iov_base = room.as_mut_ptr().cast();
        Self(libc::iovec { iov_base, iov_len: room.len() }, PhantomData)
    }

    /// Returns the same place with a shorter lifetime, for use beside places that do not last as
    /// long.
    pub(super) fn for_a_while<'b>(self) -> Place<'b>
    where
        'a: 'b,
    {
        self
    }

    pub(super) fn len(&self) -> usize {
        self.0.iov_len
    }
}

fn vector(address: u64, bytes: u64) -> libc::iovec {
    let iov_base = std::ptr::with_exposed_provenance_mut(address as usize);
    libc::iovec { iov_base, iov_len: bytes as usize }
}

/// Writes to a connection, and raises no signal where the connection has ended. Returns how many
/// bytes the kernel took.
pub(super) fn send(stream: &TcpStream, sources: &[Source<'_>]) -> io::Result<usize> {
    // SAFETY: all zeros are a valid, empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = sources.as_ptr().cast_mut().cast();
    message.msg_iovlen = sources.len();
    // SAFETY: the descriptor is open as long as `stream` lives. Each source is an iovec and nothing
    // else, of bytes that may be read; the kernel writes neither them nor the list.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Reads from a connection to these places, one after the other. Returns how many bytes came.
pub(super) fn receive(stream: &TcpStream, places: &mut [Place<'_>]) -> io::Result<usize> {
    let count = places.len().try_into().unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open as long as `stream` lives. Each place is an iovec and nothing
    // else, of memory that may be written.
    let came = unsafe { libc::readv(stream.as_raw_fd(), places.as_ptr().cast(), count) };
    usize::try_from(came).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn connected() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [here, listener.accept().unwrap().0]
    }

    #[test]
    fn bytes_go_from_and_come_to_several_places_in_their_order() {
        let [here, mut there] = connected();
        assert_eq!(send(&here, &[b"ab".as_slice(), b"", b"cde"].map(Source::of)).unwrap(), 5);
        let mut came = [0; 5];
        there.read_exact(&mut came).unwrap();
        assert_eq!(&came, b"abcde");
        there.write_all(b"12345").unwrap();
        let (mut first, mut second) = ([0; 2], [0; 9]);
        let mut places = [Place::of(&mut first), Place::of(&mut second)];
        assert_eq!(receive(&here, &mut places).unwrap(), 5);
        assert_eq!((&first, &second[..3]), (b"12", &b"345"[..]));
    }

    // A signal concerns the whole process, and a C program begins with the default action.
    #[test]
    fn a_connection_that_has_ended_is_an_error_and_no_signal() {
        tcpx_testkit::in_own_process!();
        // SAFETY: the default action has no preconditions.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let [here, there] = connected();
        drop(there);
        let error = loop {
            if let Err(error) = send(&here, &[Source::of(b"more")]) {
                break error.kind();
            }
        };
        assert!(matches!(error, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
    }

    #[test]
    fn a_range_of_a_source_is_copied_and_nothing_beyond_it() {
        let source = Source::of(b"0123456");
        for (range, expected) in [(0..7, "0123456"), (2..4, "23"), (5..99, "56"), (7..9, "")] {
            let mut to = b"_".to_vec();
            source.append_to(range, &mut to);
            assert_eq!(to, format!("_{expected}").into_bytes());
        }
        let mut to = Vec::new();
        source.append_to(8..9, &mut to);
        assert!(to.is_empty());
    }
}
