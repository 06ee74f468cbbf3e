//! Hooks of a process.

use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use std::{fmt, io};

use tcpx_comm::wire::{Side, SocketRole};

use super::at_comm::CommHooks;
use super::at_socket::SocketHooks;

/// Changes to a process.
pub trait Hooks: Send + Sync {
    /// A call breaks the contract in a way that the original would not survive.
    fn misused(&self, rule: fmt::Arguments<'_>) {
        let _ = rule;
    }

    /// Returns whether negative sizes and memory outside its registration are taken. Such a request
    /// is [posted but never admitted](CommHooks::posted_stuck).
    fn accepts_unchecked(&self) -> bool {
        false
    }

    /// Returns whether listen and accept may be called for different GPUs. The comm is then
    /// [garbled](CommHooks::garbled).
    fn accepts_other_gpu(&self) -> bool {
        false
    }

    /// Returns whether sockets are not probed, and requests that are stuck not looked after.
    fn skips_liveness(&self) -> bool {
        false
    }

    /// Returns how long connect or accept waits when all sockets of a comm are there.
    fn setup_delay(&self, side: Side, data_sockets: u16) -> Duration {
        let _ = (side, data_sockets);
        Duration::ZERO
    }

    /// Returns of how many connections accept awaits the hello at a time.
    fn max_pending_hellos(&self) -> usize {
        usize::MAX
    }

    /// Returns whether this number of strays ends accept.
    fn gives_up_after(&self, strays: u64) -> bool {
        let _ = strays;
        false
    }

    /// Accept has got a data socket. An error ends it. `stop` becomes readable when the listen comm
    /// is closed.
    ///
    /// # Errors
    /// As the double likes.
    fn steer(&self, data: &TcpStream, stop: BorrowedFd<'_>) -> io::Result<()> {
        let _ = (data, stop);
        Ok(())
    }

    /// How long a message may be that goes with its record while no other is under way.
    fn lone_inline_bytes(&self, inline_bytes: u32, usual: u32) -> u32 {
        let _ = inline_bytes;
        usual
    }

    /// What is changed of the comm with this number.
    fn comm(&self, number: u64, side: Side) -> Option<Box<dyn CommHooks>> {
        let _ = (number, side);
        None
    }

    /// What is changed of one of its sockets.
    fn socket(&self, number: u64, side: Side, role: SocketRole) -> Option<Box<dyn SocketHooks>> {
        let _ = (number, side, role);
        None
    }
}
