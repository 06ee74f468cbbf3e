//! Unauthenticated connections at the listener's port, before the peer connects and beside it.
//!
//! § is a section of docs/plugin-contract.md.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tcpx_sys::HANDLE_BYTES;

use crate::check::checks;
use crate::harness::check_result::{CheckResult, EarlyEnd, differs, require, require_rc, skip};
use crate::harness::comm_pair::CommPair;
use crate::harness::fixture::Fixture;
use crate::harness::pending_pair::PendingPair;
use crate::link::values::DeviceArgument;
use crate::outcome::Outcome;

checks! { Lifecycle:
    "lifecycle.strays", "§3.1", strays =>
        "stray connections get no comm and leave the peer's unharmed";
}

/// Where a handle holds the address of the data sockets, and of the control socket (§1.5).
const ADDRESS_OFFSETS: [usize; 2] = [0, 48];
/// Polls of accept while there are stray connections only.
const POLLS: usize = 40;
/// Longest hello that is recorded.
const HELLO_BYTES: usize = 512;
/// Silence after which a hello counts as whole.
const HELLO_PAUSE: Duration = Duration::from_millis(200);

fn strays(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_available()?;
    let pending = PendingPair::of_new_processes(fixture)?;
    let handle = pending.connector.read(pending.handle, HANDLE_BYTES as u32)?;
    let Some(addresses) = addresses(&handle) else {
        return Err(skip("the handle does not begin with an IPv4 address to connect to"));
    };
    let hello = record_hello(fixture, &pending, &handle, addresses[0])?;
    let mut held = Vec::new();
    for _ in 0..2 {
        for address in addresses {
            held.extend(connect_strays(fixture, address, &hello)?);
        }
        for _ in 0..POLLS {
            let reply = pending.accept(DeviceArgument::At(pending.device))?;
            if reply.rc != 0 {
                return Err(differs(format!(
                    "unauthenticated connections end accept with {}",
                    reply.rc
                )));
            }
            require(reply.pointer == 0, "no comm for unauthenticated connections", || {
                format!("{:#x}", reply.pointer)
            })?;
        }
    }
    let comms = pending.establish(fixture).map_err(|halt| match halt {
        EarlyEnd::Outcome(Outcome::Fail { got, .. }) => {
            differs(format!("unauthenticated connections keep the peer out, as in 3.1.9: {got}"))
        }
        other => other,
    })?;
    let kind = fixture.memory().pointer_type();
    let pair = CommPair::from_pending(fixture, &pending, comms, kind, kind)?;
    pair.transfer(fixture, 20_000, 1)?;
    drop(held);
    pair.transfer(fixture, 20_000, 2)
}

/// Returns the two addresses in a handle, of the data and the control sockets.
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

/// Records the first bytes that the plugin's own connect sends, by a changed handle that leads it
/// to a listener of the check. Empty where it waits for the listener to speak, as 3.1.9 does.
fn record_hello(
    fixture: &Fixture<'_>,
    pending: &PendingPair,
    handle: &[u8],
    address: SocketAddrV4,
) -> CheckResult<Vec<u8>> {
    let own = |error: std::io::Error| skip(format!("cannot listen beside the plugin: {error}"));
    let listener = TcpListener::bind(SocketAddrV4::new(*address.ip(), 0)).map_err(own)?;
    listener.set_nonblocking(true).map_err(own)?;
    let port = listener.local_addr().map_err(own)?.port().to_be_bytes();
    let mut changed = handle.to_vec();
    for offset in ADDRESS_OFFSETS {
        changed[offset + 2..offset + 4].copy_from_slice(&port);
    }
    let at = pending.connector.allocate(HANDLE_BYTES as u64)?;
    pending.connector.write(at, changed)?;
    let device = DeviceArgument::PointsToNull;
    let reply = pending.connector.connect(0, at, device)?;
    require_rc("the first connect", reply.rc, 0)?;
    let until = Instant::now() + fixture.share(1, 6);
    let mut hello = Vec::new();
    while Instant::now() < until {
        match listener.accept() {
            Ok((socket, _)) => {
                hello = read_hello(socket, until).map_err(own)?;
                break;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(own(error)),
        }
    }
    Ok(hello)
}

/// Reads until a pause, or until the time is over, and returns the bytes.
fn read_hello(mut socket: TcpStream, until: Instant) -> std::io::Result<Vec<u8>> {
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
            // A pause or the end: the hello is whole.
            _ => break,
        }
    }
    hello.truncate(filled);
    Ok(hello)
}

/// Connects once with each kind of wrong hello, and returns the connections that stay open.
fn connect_strays(
    fixture: &Fixture<'_>,
    address: SocketAddrV4,
    hello: &[u8],
) -> CheckResult<Vec<TcpStream>> {
    let call = |words: &[u8]| {
        let limit = fixture.share(1, 6);
        let socket = TcpStream::connect_timeout(&address.into(), limit);
        let said = socket.and_then(|mut socket| {
            socket.set_write_timeout(Some(limit))?;
            // A listener may close the connection at any byte.
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
    let web: &[u8] = b"GET / HTTP/1.1\r\nHost: example\r\nAccept: */*\r\n\r\n";
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
