//! Hooks of one socket, and of one chunk on it.

use std::io;
use std::net::TcpStream;

/// Changes to one socket.
pub trait SocketHooks: Send {
    /// Most bytes that the next call may move; `None` when it must not be made now.
    ///
    /// # Errors
    /// The socket ends here.
    fn limit(&mut self, socket: &TcpStream) -> io::Result<Option<usize>> {
        let _ = socket;
        Ok(Some(usize::MAX))
    }

    /// Notes that `bytes` bytes were moved.
    fn moved(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Returns whether a write to a peer that has gone raises SIGPIPE.
    fn raises_sigpipe(&self) -> bool {
        false
    }

    /// Returns whether the end of the socket is kept from the requests whose chunks are on it.
    fn is_silent(&self) -> bool {
        false
    }
}

/// The memory of a chunk that gets it as its bytes arrive. What was not handed over when it is
/// dropped goes back.
pub trait ArrivalHooks: Send {
    /// Bytes that have no place yet.
    fn unplaced(&self) -> usize;

    /// Gives bytes that lie in the socket, beyond the `placed` ones, their places: offsets in the
    /// region, and lengths.
    ///
    /// # Errors
    /// The socket's end.
    fn place(
        &mut self,
        socket: &TcpStream,
        placed: usize,
        put: &mut dyn FnMut(usize, usize),
    ) -> io::Result<()>;

    /// The pages, which are the request's from now on.
    fn hand_over(&mut self) -> Vec<u32>;
}
