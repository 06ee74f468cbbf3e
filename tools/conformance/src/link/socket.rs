//! Socket between a check and its agent: frames of [`tcpx_wire::frame`] with postcard values.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tcpx_wire::frame;

/// Variable that names the descriptor of the link in an agent's environment.
pub(crate) const LINK_VARIABLE: &str = "TCPX_CONFORMANCE_LINK";
/// The one kind of frame: a postcard value whose type both ends know.
const VALUE: u16 = 1;
/// Longest value that an end accepts; the longest that is sent is a full row of entries.
const MAX_BODY_BYTES: usize = 1 << 20;

/// One end of the link.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
}

impl Link {
    /// Returns the end of the link over `stream`.
    pub(crate) const fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// Sends one value, by `deadline` if there is one.
    pub(crate) fn send<T: Serialize>(
        &mut self,
        value: &T,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let value = postcard::to_allocvec(value).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(frame::HEADER_BYTES + value.len());
        frame::append(&mut bytes, VALUE, |body| body.extend_from_slice(&value));
        self.stream.set_write_timeout(remaining(deadline)?)?;
        self.stream.write_all(&bytes)
    }

    /// Receives one value, by `deadline` if there is one.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
    ) -> io::Result<T> {
        let mut reader = Reader { stream: &self.stream, deadline };
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        match frame::read(&mut reader, MAX_BODY_BYTES)? {
            Some((VALUE, body)) => {
                postcard::from_bytes(&body).map_err(|error| invalid(error.to_string()))
            }
            Some((kind, _)) => Err(invalid(format!("a frame of kind {kind}"))),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Reader of the stream whose deadline holds for all reads of a frame.
struct Reader<'a> {
    stream: &'a UnixStream,
    deadline: Option<Instant>,
}

impl Read for Reader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(remaining(self.deadline)?)?;
        self.stream.read(bytes)
    }
}

/// Returns the time left as socket options take it: `None` without a deadline.
///
/// # Errors
/// When no time is left.
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
    fn a_closed_end_a_silent_end_and_a_bad_frame_are_different_errors() {
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
        (&a.stream).write_all(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]).expect("write");
        assert_eq!(
            b.receive::<u32>(None).expect_err("too long").kind(),
            io::ErrorKind::InvalidData
        );
    }
}
