//! One request to one of RxDM's sockets.
//!
//! A connection carries one request: a frame of a big-endian `u16` length and a `UnixSocketProto`
//! message. Only its field 1, `raw_bytes`, is needed here. `docs/plugin-contract.md` §5 has the
//! rest.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

/// Field 1, length-delimited.
const RAW_BYTES_TAG: u8 = 0x0a;
/// The metadata of a GPU's receive memory: an i32, padding, size and alignment as u64.
const METADATA_BYTES: usize = 24;
/// Fragment offsets have 32 bits.
const MAX_POOL_BYTES: u64 = 1 << 32;

/// Request to a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RxdmRequest {
    /// Only connects, to check that a process listens.
    Connect,
    /// Checks that the daemon answers. Where the daemon takes rules, the request is not a rule: the
    /// daemon rejects it, also in its log, and changes nothing. Any answer is good.
    Answer,
    /// Requests the metadata of the receive memory of the GPU with this PCI address.
    Metadata(String),
}

/// Failure of RxDM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("connection refused")]
    Refused,
    #[error("no answer within the deadline")]
    Hangs,
    #[error("closed without an answer")]
    Closes,
    #[error("{0}")]
    BadAnswer(String),
    #[error("permission denied")]
    Denied,
    #[error("{0}")]
    NoSocket(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            // A receive or send timeout, and a connect that waits for room in the listener's queue.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Hangs,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Closes,
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::NoSocket(error.to_string()),
        }
    }
}

/// Request to a socket that takes rules. It begins with the text that appears in RxDM's log.
const NO_RULE: &[u8] = b"tcpx: does RxDM answer?";

/// Sends `request` to the socket at `path`, within `deadline`.
pub(super) fn ask(path: &Path, request: &RxdmRequest, deadline: Duration) -> Result<(), Failure> {
    let until = Instant::now() + deadline;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Connecting to a full listener blocks for as long as a send would.
    socket.set_write_timeout(Some(left(until)?))?;
    socket.connect(&SockAddr::unix(path)?)?;
    let raw_bytes = match request {
        RxdmRequest::Connect => return Ok(()),
        RxdmRequest::Answer => NO_RULE,
        RxdmRequest::Metadata(bus_id) => bus_id.as_bytes(),
    };
    let framed = frame(raw_bytes).ok_or_else(|| {
        Failure::BadAnswer("the GPU's address is too long for a request".to_owned())
    })?;
    // A daemon that has closed must not cause SIGPIPE. So short a request is sent whole.
    socket.send_with_flags(&framed, libc::MSG_NOSIGNAL)?;
    let mut stream = UnixStream::from(std::os::fd::OwnedFd::from(socket));
    let message = read_message(&mut stream, until)?;
    match request {
        RxdmRequest::Metadata(_) => check_metadata(raw_bytes_of(&message)?),
        RxdmRequest::Connect | RxdmRequest::Answer => Ok(()),
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Returns a frame that holds `raw_bytes`, or `None` above 127 bytes, which would need a longer
/// length.
fn frame(raw_bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u8::try_from(raw_bytes.len()).ok().filter(|&length| length < 0x80)?;
    let mut bytes = (u16::from(length) + 2).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[RAW_BYTES_TAG, length]);
    bytes.extend_from_slice(raw_bytes);
    Some(bytes)
}

fn read_message(stream: &mut UnixStream, until: Instant) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    read_exact(stream, &mut length, until)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    read_exact(stream, &mut message, until)?;
    Ok(message)
}

fn raw_bytes_of(message: &[u8]) -> Result<&[u8], Failure> {
    match message {
        [RAW_BYTES_TAG, length, rest @ ..]
            if usize::from(*length) == rest.len() && *length < 0x80 =>
        {
            Ok(rest)
        }
        _ => Err(Failure::BadAnswer(format!(
            "a message of {} bytes without raw_bytes",
            message.len()
        ))),
    }
}

fn read_exact(stream: &mut UnixStream, mut buffer: &mut [u8], until: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => buffer = &mut buffer[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn check_metadata(raw_bytes: &[u8]) -> Result<(), Failure> {
    let bad = |what: String| Err(Failure::BadAnswer(what));
    if raw_bytes.len() != METADATA_BYTES {
        return bad(format!(
            "metadata of {} bytes, {METADATA_BYTES} are expected",
            raw_bytes.len()
        ));
    }
    let word = |at: usize| {
        raw_bytes
            .get(at..)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |word| u64::from_ne_bytes(*word))
    };
    let (pool_bytes, alignment) = (word(8), word(16));
    if pool_bytes == 0 || pool_bytes > MAX_POOL_BYTES {
        return bad(format!("receive memory of {pool_bytes} bytes; 1 to 4294967296 are possible"));
    }
    if alignment != 0 && !alignment.is_power_of_two() {
        return bad(format!(
            "receive memory aligned to {alignment} bytes, which is no power of two"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_daemons_frame() {
        let frame = frame(b"0000:04:00.0").expect("short");
        assert_eq!(frame[..4], [0, 14, 0x0a, 12]);
        assert_eq!(&frame[4..], b"0000:04:00.0");
        assert_eq!(super::frame(&[0; 128]), None);
    }

    #[test]
    fn metadata_is_checked() {
        let metadata = |size: u64, alignment: u64| {
            let mut bytes = vec![0; 8];
            bytes.extend(size.to_ne_bytes());
            bytes.extend(alignment.to_ne_bytes());
            bytes
        };
        assert_eq!(check_metadata(&metadata(1 << 32, 2 << 20)), Ok(()));
        for bad in
            [vec![], vec![0; 23], metadata(0, 0), metadata((1 << 32) + 1, 0), metadata(4096, 3)]
        {
            assert!(matches!(check_metadata(&bad), Err(Failure::BadAnswer(_))), "{bad:?}");
        }
    }
}
