//! Transport of the bytes of messages, each time until a deadline; and the socket, which is one
//! such transport.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::deadline::Deadline;

/// Transport of the bytes of messages.
pub(crate) trait Way {
    /// As of [`Read`], until a deadline.
    fn read(&mut self, out: &mut [u8], deadline: Deadline) -> Result<usize>;
    /// As of [`Write`], until a deadline.
    fn write(&mut self, bytes: &[u8], deadline: Deadline) -> Result<usize>;
}

/// Transport that is read and written until a deadline, however slowly the bytes trickle.
pub(super) struct Timed<'a, W> {
    pub(super) way: &'a mut W,
    pub(super) deadline: Deadline,
}

impl<W: Way> Read for Timed<'_, W> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        self.way.read(out, self.deadline)
    }
}

impl<W: Way> Write for Timed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.way.write(bytes, self.deadline)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Way for TcpStream {
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
