#![allow(unsafe_code)]
//! Socket for requests to the kernel over netlink, each with a deadline.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::message::{Answer, Request, answers, generic_attributes};

/// A dump's messages come in datagrams of at most 32 KiB.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Most datagrams of one answer: far more than any answer here has.
const MAX_DATAGRAMS: usize = 4096;

/// Refusal of a request.
#[derive(Debug)]
pub struct Refusal {
    /// Error number of the system.
    pub error: io::Error,
    /// The kernel's words, if it gave any.
    pub message: String,
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self { error, message: String::new() }
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        if refusal.message.is_empty() {
            return refusal.error;
        }
        Self::new(refusal.error.kind(), format!("{}: {}", refusal.error, refusal.message))
    }
}

/// Netlink socket for requests to one generic family, `ethtool` or `netdev`.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    family: u16,
    deadline: Duration,
}

impl Netlink {
    /// Opens a socket and looks up the family's number. Each request takes at most `deadline`.
    ///
    /// # Errors
    /// Returns `NotFound` when the kernel does not have the family.
    pub fn open(family: &str, deadline: Duration) -> io::Result<Self> {
        const CONTROLLER: u16 = 0x10;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(GENERIC))?;
        enable_error_messages(socket.as_fd());
        let controller = Self { socket, family: CONTROLLER, deadline };
        let number = controller.number_of(family)?;
        Ok(Self { family: number, ..controller })
    }

    /// Creates a request of the family, to be completed and sent.
    #[must_use]
    pub fn request(&self, command: u8) -> Request {
        Request::generic(self.family, command, 1)
    }

    fn number_of(&self, family: &str) -> io::Result<u16> {
        const GET_FAMILY: u8 = 3;
        const FAMILY_ID: u16 = 1;
        const FAMILY_NAME: u16 = 2;
        let mut request = self.request(GET_FAMILY);
        request.push_text(FAMILY_NAME, family);
        let answer = self.ask(&request)?;
        answer
            .iter()
            .flat_map(|payload| generic_attributes(payload))
            .find(|attribute| attribute.kind == FAMILY_ID)
            .and_then(|attribute| attribute.u16())
            .ok_or_else(|| invalid("the family has no number"))
    }

    /// Sends one request and returns the payloads of its answer.
    ///
    /// # Errors
    /// Returns the kernel's refusal, or an error when no answer comes in time.
    pub fn ask(&self, request: &Request) -> Result<Vec<Vec<u8>>, Refusal> {
        let until = Instant::now() + self.deadline;
        sendto(&self.socket, request.bytes(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut payloads = Vec::new();
        let mut datagram = vec![0; DATAGRAM_BYTES];
        for _ in 0..MAX_DATAGRAMS {
            let received = self.receive(&mut datagram, until)?;
            for answer in answers(&datagram[..received], request.sequence()) {
                match answer {
                    Answer::Payload(payload) => payloads.push(payload.to_vec()),
                    Answer::End => return Ok(payloads),
                    Answer::Refused { errno, message } => {
                        let error = io::Error::from_raw_os_error(errno);
                        return Err(Refusal { error, message });
                    }
                }
            }
        }
        Err(invalid("the kernel's answer has no end").into())
    }

    fn receive(&self, datagram: &mut [u8], until: Instant) -> io::Result<usize> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let what = "the kernel did not answer in time";
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        set_socket_timeout(&self.socket, Timeout::Recv, Some(left))?;
        let capacity = datagram.len();
        let (_, length) = recv(&self.socket, datagram, RecvFlags::TRUNC)?;
        if length > capacity {
            return Err(invalid("the kernel's answer is too long"));
        }
        Ok(length)
    }
}

/// Asks the kernel to explain refusals in words, and to leave out the copy of the request. A kernel
/// that does not know these options gives fewer words, which is no reason to give up.
fn enable_error_messages(socket: BorrowedFd<'_>) {
    for option in [libc::NETLINK_CAP_ACK, libc::NETLINK_EXT_ACK] {
        let on = 1i32;
        let length = size_of_val(&on) as libc::socklen_t;
        let value = (&raw const on).cast();
        // SAFETY: `socket` is borrowed, so the descriptor is open. The kernel reads at most
        // `length` bytes from `on`, which has exactly that many, and keeps no pointer.
        unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_NETLINK, option, value, length);
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
