//! Strangers at the listener's port, before the peer comes and beside it.
//!
//! § is a section of docs/plugin-contract.md.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tcpx_sys::HANDLE_BYTES;

use crate::check::checks;
use crate::harness::comm_pair::CommPair;
use crate::harness::fixture::Fixture;
use crate::harness::pending_pair::PendingPair;
use crate::harness::verdict::{Halt, Verdict, differs, require, require_rc, skip};
use crate::link::values::DeviceArgument;
use crate::outcome::Outcome;

checks! { Lifecycle:
    "lifecycle.strays", "§3.1", strays =>
        "stray connections get no comm and leave the peer's unharmed";
}

/// Where a handle holds the address of the data sockets, and of the control socket (§1.5).
const ADDRESS_OFFSETS: [usize; 2] = [0, 48];
/// Polls of accept while there are strangers only.
const POLLS: usize = 40;
/// Longest hello that is recorded.
const HELLO_BYTES: usize = 512;
/// Silence after which a hello is taken to be whole.
const HELLO_PAUSE: Duration = Duration::from_millis(200);

fn strays(fixture: &Fixture<'_>) -> Verdict {
    fixture.require_available()?;
    let pending = PendingPair::of_new_processes(fixture)?;
    let handle = pending.connector.read(pending.handle, HANDLE_BYTES as u32)?;
    let Some(doors) = addresses(&handle) else {
        return Err(skip("the handle does not begin with an IPv4 address to knock at"));
    };
    let hello = recorded_hello(fixture, &pending, &handle, doors[0])?;
    let mut held = Vec::new();
    for _ in 0..2 {
        for door in doors {
            held.extend(knock(fixture, door, &hello)?);
        }
        for _ in 0..POLLS {
            let made = pending.accept(DeviceArgument::At(pending.device))?;
            if made.rc != 0 {
                return Err(differs(format!("strangers end accept with {}", made.rc)));
            }
            require(made.pointer == 0, "no comm for strangers", || format!("{:#x}", made.pointer))?;
        }
    }
    let comms = pending.establish(fixture).map_err(|halt| match halt {
        Halt::Answer(Outcome::Fail { got, .. }) => {
            differs(format!("strangers keep the peer out, as in 3.1.9: {got}"))
        }
        other => other,
    })?;
    let kind = fixture.memory().pointer_type();
    let pair = CommPair::of(fixture, &pending, comms, kind, kind)?;
    pair.transfer(fixture, 20_000, 1)?;
    drop(held);
    pair.transfer(fixture, 20_000, 2)
}

/// The two addresses in a handle.
fn addresses(handle: &[u8]) -> Option<[SocketAddrV4; 2]> {
    let address = |offset: usize| {
        let bytes = handle.get(offset..offset + 8)?;
        let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
        (i32::from(family) == libc::AF_INET && port != 0).then(|| SocketAddrV4::new(ip, port))
    };
    let [data, control] = ADDRESS_OFFSETS.map(address);
    Some([data?, control?])
}

/// What the plugin's own connect says first, told to a listener of ours by a changed handle. Empty
/// where it waits for the listener to speak, as 3.1.9 does.
fn recorded_hello(
    fixture: &Fixture<'_>,
    pending: &PendingPair,
    handle: &[u8],
    door: SocketAddrV4,
) -> Verdict<Vec<u8>> {
    let own = |error: std::io::Error| skip(format!("cannot listen beside the plugin: {error}"));
    let listener = TcpListener::bind(SocketAddrV4::new(*door.ip(), 0)).map_err(own)?;
    listener.set_nonblocking(true).map_err(own)?;
    let port = listener.local_addr().map_err(own)?.port().to_be_bytes();
    let mut changed = handle.to_vec();
    for offset in ADDRESS_OFFSETS {
        changed[offset + 2..offset + 4].copy_from_slice(&port);
    }
    let at = pending.connector.allocate(HANDLE_BYTES as u64)?;
    pending.connector.write(at, changed)?;
    let device = DeviceArgument::PointsToNull;
    let made = pending.connector.connect(0, at, device)?;
    require_rc("the first connect", made.rc, 0)?;
    let until = Instant::now() + fixture.share(1, 6);
    let mut hello = Vec::new();
    while Instant::now() < until {
        match listener.accept() {
            Ok((socket, _)) => {
                hello = heard(socket, until).map_err(own)?;
                break;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(own(error)),
        }
    }
    Ok(hello)
}

/// Reads until a pause, or until the time is over, and returns the bytes.
fn heard(mut socket: TcpStream, until: Instant) -> std::io::Result<Vec<u8>> {
    let mut hello = vec![0; HELLO_BYTES];
    let mut filled = 0;
    socket.set_nonblocking(false)?;
    while filled < hello.len() {
        let left = until.saturating_duration_since(Instant::now());
        let patience = if filled == 0 { left } else { left.min(HELLO_PAUSE) };
        if patience.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(patience))?;
        match socket.read(&mut hello[filled..]) {
            Ok(count) if count > 0 => filled += count,
            // A pause, or the end: this is all there is.
            _ => break,
        }
    }
    hello.truncate(filled);
    Ok(hello)
}

/// Connects once as each kind of stranger, and returns the connections that stay.
fn knock(fixture: &Fixture<'_>, door: SocketAddrV4, hello: &[u8]) -> Verdict<Vec<TcpStream>> {
    let call = |words: &[u8]| {
        let limit = fixture.share(1, 6);
        let socket = TcpStream::connect_timeout(&door.into(), limit);
        let said = socket.and_then(|mut socket| {
            socket.set_write_timeout(Some(limit))?;
            // A listener that hangs up in the middle is within its rights.
            let _ = socket.write_all(words);
            Ok(socket)
        });
        said.map_err(|error| differs(format!("the listener takes no more connections: {error}")))
    };
    // A scanner that is gone at once, and hellos with a damaged magic, connection id or end.
    drop(call(b"")?);
    for damaged in [0, hello.len() / 2, hello.len().saturating_sub(1)] {
        let mut wrong = hello.to_vec();
        if let Some(byte) = wrong.get_mut(damaged) {
            *byte ^= 0xff;
            drop(call(&wrong)?);
        }
    }
    let garbage: Vec<u8> = (0..4096_u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let web: &[u8] = b"GET / HTTP/1.1\r\nHost: nobody\r\nAccept: */*\r\n\r\n";
    [b"".as_slice(), web, &garbage, &hello[..hello.len() / 2]].into_iter().map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_or_not_there() {
        let mut handle = [0_u8; HANDLE_BYTES];
        assert_eq!(addresses(&handle), None);
        for (offset, port) in [(0, 1000_u16), (48, 1001)] {
            handle[offset..offset + 2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            handle[offset + 2..offset + 4].copy_from_slice(&port.to_be_bytes());
            handle[offset + 4..offset + 8].copy_from_slice(&[127, 0, 0, 1]);
        }
        let local = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        assert_eq!(addresses(&handle), Some([local(1000), local(1001)]));
        assert_eq!(addresses(&handle[..50]), None);
    }
}
