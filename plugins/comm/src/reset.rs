#![allow(unsafe_code)]
//! Abortive close of a connection.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Drops unsent bytes and sends a reset to the peer. The descriptor stays open, and every later
/// call on it fails.
///
/// # Errors
/// Returns the system's error.
pub fn reset(socket: &TcpStream) -> io::Result<()> {
    let nowhere =
        libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    // SAFETY: the address has the length that the call receives, and outlives the call. Connecting
    // to AF_UNSPEC dissolves a connection.
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
