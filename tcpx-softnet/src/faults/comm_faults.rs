#![allow(unsafe_code)]
//! Faults of a whole comm: connections that are reset, messages that are lost, pages that leak.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use super::fault::Fault;
use super::script::FaultScript;
use crate::log;
use crate::wire::Side;

/// What the script wants of one comm.
#[derive(Debug)]
pub(crate) struct CommFaults {
    /// How often the comm is driven before its sockets are reset.
    steps_left: Option<u64>,
    /// The message, from 0, that is reported done and never leaves.
    lost: Option<u64>,
    /// Every how many messages their pages are forgotten.
    leak: Option<u64>,
}

impl CommFaults {
    /// `side` says whether it is a send or a receive comm.
    pub(crate) fn new(script: &FaultScript, side: Side) -> Self {
        let mut faults = Self { steps_left: None, lost: None, leak: None };
        for fault in &script.faults {
            match *fault {
                Fault::Kill { side: of, step } if of == side => {
                    faults.steps_left = Some(faults.steps_left.map_or(step, |s| s.min(step)));
                }
                Fault::Lose { message } => faults.lost = faults.lost.or(message.checked_sub(1)),
                Fault::Leak { every } => faults.leak = faults.leak.or(Some(every)),
                _ => {}
            }
        }
        faults
    }

    /// Called whenever the comm is driven: resets its sockets, once, when their time has come.
    #[inline]
    pub(crate) fn step<'a>(&mut self, sockets: impl Iterator<Item = &'a TcpStream>) {
        let Some(left) = self.steps_left else { return };
        self.steps_left = left.checked_sub(1);
        if left > 0 {
            return;
        }
        for socket in sockets {
            if let Err(error) = reset(socket) {
                log::warn!("cannot reset a socket as scripted: {error}");
            }
        }
    }

    /// Whether something is still to happen that comes with being driven often enough.
    pub(crate) fn counts_calls(&self) -> bool {
        self.steps_left.is_some()
    }

    /// Whether a send comm loses this message.
    pub(crate) fn loses(&self, number: u64) -> bool {
        self.lost == Some(number)
    }

    /// Whether a receive comm forgets this message's pages.
    pub(crate) fn leaks(&self, number: u64) -> bool {
        self.leak.is_some_and(|every| (number + 1).is_multiple_of(every))
    }
}

/// Drops what was not sent and tells the peer with a reset. The descriptor stays open, and every
/// later call on it fails.
fn reset(socket: &TcpStream) -> io::Result<()> {
    let nowhere =
        libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    // SAFETY: the address is as long as the call is told, and outlives it. Connecting to AF_UNSPEC
    // dissolves a connection.
    let result = unsafe {
        libc::connect(socket.as_raw_fd(), &raw const nowhere, size_of_val(&nowhere) as u32)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn the_peer_sees_a_reset() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let mut near =
            TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (mut far, _) = listener.accept().expect("accept");
        reset(&near).expect("reset");
        let error = far.read(&mut [0; 1]).expect_err("no clean end");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(near.write(&[0]).is_err());
    }
}
