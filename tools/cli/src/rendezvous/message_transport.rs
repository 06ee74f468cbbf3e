//! Transport of the bytes of messages, with a deadline for each call; a socket is one.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::deadline::Deadline;

/// Transport of the bytes of messages, with a deadline for each call.
pub(crate) trait MessageTransport {
    /// Reads as [`Read`] does, until a deadline.
    fn read(&mut self, out: &mut [u8], deadline: Deadline) -> Result<usize>;
    /// Writes as [`Write`] does, until a deadline.
    fn write(&mut self, bytes: &[u8], deadline: Deadline) -> Result<usize>;
}

/// Transport with one deadline for all its calls, however slowly the bytes arrive.
pub(super) struct TimedTransport<'a, W> {
    pub(super) transport: &'a mut W,
    pub(super) deadline: Deadline,
}

impl<W: MessageTransport> Read for TimedTransport<'_, W> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        self.transport.read(out, self.deadline)
    }
}

impl<W: MessageTransport> Write for TimedTransport<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.transport.write(bytes, self.deadline)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl MessageTransport for TcpStream {
    fn read(&mut self, out: &mut [u8], deadline: Deadline) -> Result<usize> {
        self.set_read_timeout(Some(time_left(deadline)?))?;
        Read::read(self, out)
    }

    fn write(&mut self, bytes: &[u8], deadline: Deadline) -> Result<usize> {
        self.set_write_timeout(Some(time_left(deadline)?))?;
        Write::write(self, bytes)
    }
}

fn time_left(deadline: Deadline) -> Result<Duration> {
    match deadline.left() {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}
