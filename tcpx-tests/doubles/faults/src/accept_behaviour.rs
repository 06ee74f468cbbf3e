//! Manner of accept before it gives a comm: the original has RxDM install a steering rule for each
//! data socket, on a thread of its own, and then waits until packets follow it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use tcpx_comm::poll::{Interest, wait};

/// Rules that are refused, or not taken, in a row until accept fails; strays likewise.
const TRIES: u32 = 3;
/// Fields of a message with a length, and numbers: a rule; its addresses; what it is for.
const RULE_REQUEST: u8 = 0x12;
const RAW_BYTES: u8 = 0x0a;
const TCP_V4: u8 = 1;

/// What accept does before it gives a comm.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptBehaviour {
    /// RxDM's socket for rules. `None`: it is not asked.
    pub(crate) rules: Option<PathBuf>,
    /// Whether any connection is taken for the peer.
    pub(crate) trusts: bool,
}

impl AcceptBehaviour {
    /// Returns of how many connections accept awaits the hello at a time.
    pub(crate) fn max_pending_hellos(&self) -> usize {
        if self.trusts { 1 } else { usize::MAX }
    }

    /// Returns whether this many strays are too many.
    pub(crate) fn gives_up_after(&self, strays: u64) -> bool {
        self.trusts && strays >= TRIES.into()
    }

    /// Has the rule for a data socket installed. An RxDM that does not answer, or that closes
    /// instead, is waited for until `stop` is readable.
    pub(crate) fn install_rule(&self, data: &TcpStream, stop: BorrowedFd<'_>) -> io::Result<()> {
        let Some(socket) = &self.rules else { return Ok(()) };
        let request = rule(data.peer_addr()?, data.local_addr()?)?;
        let mut tries = 0;
        loop {
            tries += 1;
            match UnixStream::connect(socket).and_then(|rxdm| ask(rxdm, &request, stop)) {
                Err(_) if tries < TRIES => {}
                answered => return answered,
            }
        }
    }
}

fn ask(mut rxdm: UnixStream, request: &[u8], stop: BorrowedFd<'_>) -> io::Result<()> {
    rxdm.write_all(request)?;
    let mut answer = Vec::new();
    // A frame of two bytes of length, and words in a field of their own.
    while answer.len() < 2
        || answer.len() < 2 + usize::from(u16::from_be_bytes([answer[0], answer[1]]))
    {
        let ready = wait(&[(stop, Interest::Read), (rxdm.as_fd(), Interest::Read)], None)?;
        if ready.first() == Some(&true) {
            return Err(io::Error::other("the listen comm was closed"));
        }
        let mut bytes = [0; 256];
        match rxdm.read(&mut bytes)? {
            0 => return wait_in_vain(stop),
            count => answer.extend_from_slice(&bytes[..count]),
        }
    }
    match &answer[2..] {
        [RAW_BYTES, 3, b'O', b'k', b'.'] => Ok(()),
        _ => Err(io::Error::other("the rule was refused")),
    }
}

/// The original takes the end of the connection for an answer that is still to come.
fn wait_in_vain(stop: BorrowedFd<'_>) -> io::Result<()> {
    wait(&[(stop, Interest::Read)], None)?;
    Err(io::Error::other("the listen comm was closed"))
}

/// A request for the rule of a connection, in its frame.
fn rule(from: SocketAddr, to: SocketAddr) -> io::Result<Vec<u8>> {
    let tuple = [vec![0x08, TCP_V4], field(0x12, &address(from))?, field(0x1a, &address(to))?];
    let message = field(RULE_REQUEST, &field(0x0a, &tuple.concat())?)?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    Ok([&length.to_be_bytes(), message.as_slice()].concat())
}

fn address(of: SocketAddr) -> Vec<u8> {
    let ip = of.ip().to_string();
    let port = of.port();
    // A number in groups of seven bits, the lowest first.
    let port = [port as u8 | 0x80, (port >> 7) as u8 | 0x80, (port >> 14) as u8];
    [&[0x0a, ip.len() as u8], ip.as_bytes(), &[0x10], &port].concat()
}

fn field(tag: u8, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u8::try_from(bytes.len()).ok().filter(|length| *length < 0x80);
    let length = length.ok_or_else(|| io::Error::other("a field that is too long"))?;
    Ok([&[tag, length], bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_both_ends_of_its_connection() {
        let at = |text: &str| text.parse().expect("an address");
        let frame = rule(at("10.0.0.1:7000"), at("10.0.0.22:80")).expect("short");
        let expected = [
            &[0, 39, RULE_REQUEST, 37, 0x0a, 35, 0x08, 1, 0x12, 14, 0x0a, 8][..],
            b"10.0.0.1",
            &[0x10, 0xd8, 0xb6, 0],
            &[0x1a, 15, 0x0a, 9],
            b"10.0.0.22",
            &[0x10, 0xd0, 0x80, 0],
        ];
        assert_eq!(frame, expected.concat());
    }
}
