//! The socket between a check and its agent: frames of a length and a postcard value.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Names the descriptor of the link in an agent's environment.
pub(crate) const LINK_VARIABLE: &str = "TCPX_CONFORMANCE_LINK";
/// Longest frame that is taken; the longest sent is a full row of entries.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// One end.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
}

impl Link {
    pub(crate) const fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// Sends one value, by `deadline` if there is one.
    pub(crate) fn send<T: Serialize>(
        &mut self,
        value: &T,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let body = postcard::to_allocvec(value).map_err(io::Error::other)?;
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        self.stream.set_write_timeout(remaining(deadline)?)?;
        let mut frame = Vec::with_capacity(4 + body.len());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&body);
        self.stream.write_all(&frame)
    }

    /// Receives one value, by `deadline` if there is one.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
    ) -> io::Result<T> {
        let mut length = [0; 4];
        self.read_exact(&mut length, deadline)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a frame of {length} bytes"),
            ));
        }
        let mut body = vec![0; length];
        self.read_exact(&mut body, deadline)?;
        postcard::from_bytes(&body)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn read_exact(&mut self, mut bytes: &mut [u8], deadline: Option<Instant>) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_read_timeout(remaining(deadline)?)?;
            match self.stream.read(bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Time left, in the form that the socket options take: zero means none is left.
fn remaining(deadline: Option<Instant>) -> io::Result<Option<Duration>> {
    match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
        Some(left) if left.is_zero() => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> (Link, Link) {
        let (a, b) = UnixStream::pair().expect("pair");
        (Link::new(a), Link::new(b))
    }

    #[test]
    fn values_arrive_in_order() {
        let (mut a, mut b) = links();
        a.send(&(1_u32, "one".to_owned()), None).expect("send");
        a.send(&(2_u32, "two".to_owned()), None).expect("send");
        assert_eq!(b.receive::<(u32, String)>(None).expect("receive"), (1, "one".to_owned()));
        assert_eq!(b.receive::<(u32, String)>(None).expect("receive"), (2, "two".to_owned()));
    }

    #[test]
    fn a_closed_a_silent_and_a_lying_end_are_different_errors() {
        let (mut a, b) = links();
        drop(b);
        assert_eq!(
            a.receive::<u32>(None).expect_err("closed").kind(),
            io::ErrorKind::UnexpectedEof
        );

        let (mut a, _b) = links();
        let soon = Instant::now() + Duration::from_millis(20);
        let kind = a.receive::<u32>(Some(soon)).expect_err("silent").kind();
        assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind:?}");

        let (a, mut b) = links();
        (&a.stream).write_all(&u32::MAX.to_le_bytes()).expect("write");
        assert_eq!(
            b.receive::<u32>(None).expect_err("too long").kind(),
            io::ErrorKind::InvalidData
        );
    }
}
