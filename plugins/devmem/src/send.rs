#![allow(unsafe_code)]
//! Sending from device memory, and notification of the last read.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use tcpx_comm::{OutstandingSends, enable_zerocopy, next_completed};
use tcpx_rx::append_cmsg;
use tcpx_rx::dialect::{SOL_SOCKET, mainline};

use crate::error::DevmemError;

/// Result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// `bytes` bytes are in flight. Their memory is read until [`Sender::are_complete`] is true for
    /// `calls` calls.
    Bytes {
        /// Number of bytes.
        bytes: usize,
        /// Number of calls of this sender so far.
        calls: u64,
    },
    /// The socket must become writable first.
    Blocked,
    /// There is no memory for another notification: some sends must be over first.
    NoNoticeMemory,
}

/// Sender on one socket, from one binding at a time.
#[derive(Debug)]
pub struct Sender {
    binding: u32,
    under_way: OutstandingSends,
    control: Vec<u8>,
    /// Whether the last call found no route.
    had_no_route: bool,
}

impl Sender {
    /// Prepares a socket. `binding` is the number of the binding, until
    /// [`send_from`](Self::send_from) changes it.
    ///
    /// # Errors
    /// Returns an error when the system does not support zero-copy sends.
    pub fn new(socket: &TcpStream, binding: u32) -> Result<Self, DevmemError> {
        enable_zerocopy(socket).map_err(|source| DevmemError::System {
            what: "the socket does not support zero-copy sends",
            source,
        })?;
        let under_way = OutstandingSends::default();
        let mut sender = Self { binding, under_way, control: Vec::new(), had_no_route: false };
        sender.name_binding();
        Ok(sender)
    }

    /// Sends from this binding from now on. Sends in flight keep their binding.
    pub fn send_from(&mut self, binding: u32) {
        if binding != self.binding {
            self.binding = binding;
            self.name_binding();
        }
    }

    fn name_binding(&mut self) {
        self.control.clear();
        let (name, binding) = (mainline::SCM_DEVMEM_DMABUF, self.binding.to_ne_bytes());
        append_cmsg(&mut self.control, SOL_SOCKET, name, &binding);
    }

    /// Returns the number of the binding.
    #[must_use]
    pub fn binding(&self) -> u32 {
        self.binding
    }

    /// Sends bytes from `offset` of the dma-buf on. Never waits.
    ///
    /// # Errors
    /// Returns the system's error, and [`DevmemError::WrongRoute`].
    pub fn send(
        &mut self,
        socket: &TcpStream,
        offset: usize,
        bytes: usize,
    ) -> Result<SendOutcome, DevmemError> {
        loop {
            match self.call(socket, offset, bytes) {
                Ok(bytes) => {
                    self.had_no_route = false;
                    let calls = self.under_way.begin(bytes);
                    return Ok(SendOutcome::Bytes { bytes, calls });
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(SendOutcome::Blocked),
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS) if !self.under_way.is_empty() => {
                        return Ok(SendOutcome::NoNoticeMemory);
                    }
                    Some(libc::ENOBUFS) => return Err(DevmemError::NoNoticeMemory),
                    // After a route returns, the first call sees the state of the socket without a
                    // route, and finds the route.
                    Some(libc::EINVAL) if self.had_no_route => self.had_no_route = false,
                    Some(libc::ENODEV | libc::EHOSTUNREACH) => {
                        self.had_no_route = true;
                        return Err(DevmemError::WrongRoute);
                    }
                    _ => {
                        return Err(DevmemError::System { what: "sendmsg failed", source: error });
                    }
                },
            }
        }
    }

    fn call(&self, socket: &TcpStream, offset: usize, bytes: usize) -> io::Result<usize> {
        // The kernel takes the address for an offset in the dma-buf.
        let base = core::ptr::without_provenance_mut(offset);
        let mut vector = libc::iovec { iov_base: base, iov_len: bytes };
        // SAFETY: `msghdr` is plain C data for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = self.control.as_ptr().cast_mut().cast();
        // The length excludes the padding: the kernel wants the number alone.
        message.msg_controllen = self.control.len() as _;
        let flags = libc::MSG_ZEROCOPY | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `message` points to `vector` and to the control message, which the kernel only
        // reads, during the call. The kernel does not access the address in `vector`, because the
        // control message makes it an offset.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Reads the notifications of sends that are over. Never waits.
    pub fn reap_completions(&mut self, socket: &TcpStream) {
        while !self.under_way.is_empty()
            && let Some(ended) = next_completed(socket)
        {
            self.under_way.end(ended.from, ended.to);
        }
    }

    /// Returns whether the first `calls` calls are over, so that their memory may be changed.
    #[must_use]
    pub fn are_complete(&self, calls: u64) -> bool {
        self.under_way.are_complete(calls)
    }

    /// Returns whether all calls are over.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_binding_that_is_not_there_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let mut sender = Sender::new(&socket, 4711).expect("every kernel supports zero-copy sends");
        assert_eq!(sender.binding(), 4711);
        let error = sender.send(&socket, 0, 4096).expect_err("there is no such binding");
        assert!(matches!(error, DevmemError::System { .. }), "{error}");
        sender.reap_completions(&socket);
        assert!(sender.is_idle() && sender.are_complete(0));
        let before = sender.control.clone();
        sender.send_from(4712);
        assert_eq!((sender.binding(), sender.control.len()), (4712, before.len()));
        sender.send_from(4711);
        assert_eq!(sender.control, before);
    }
}
