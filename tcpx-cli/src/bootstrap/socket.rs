//! How the two ends' connection comes to be: bind, accept and dial, with deadlines.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{BootstrapError, Link};
use crate::failure::Failure;

/// Pause between two attempts to reach a server that is not there yet: there is no event to wait for.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Listens for the other end.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => BootstrapError::PortInUse { address, error }.into(),
        _ => Failure::Io { what: format!("listening on {address}"), error },
    })
}

/// The first connection that comes in.
pub(crate) fn accept(listener: &TcpListener, timeout: Duration) -> Result<Link, Failure> {
    match accept_or_end(listener, None, timeout)? {
        Some(stream) => Link::new(stream, timeout),
        None => Err(Failure::Bootstrap(nobody_came(listener, timeout)?)),
    }
}

/// The next connection; `None` when `end` became readable first. `end`: a process or stream that ends the wait.
pub(crate) fn accept_or_end(
    listener: &TcpListener,
    end: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> Result<Option<TcpStream>, Failure> {
    let deadline = Instant::now() + timeout;
    listener.set_nonblocking(true).map_err(Failure::io("preparing to accept"))?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // A connection that was gone before it was accepted.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Io { what: "accepting a connection".into(), error }),
        }
        let mut fds = vec![PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        fds.extend(end.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)));
        if !wait(&mut fds, deadline).map_err(Failure::io("waiting for a connection"))? {
            return Err(nobody_came(listener, timeout)?.into());
        }
        let has_ended = fds.get(1).is_some_and(|end| !end.revents().is_empty());
        if has_ended && fds[0].revents().is_empty() {
            return Ok(None);
        }
    }
}

fn nobody_came(listener: &TcpListener, waited: Duration) -> Result<BootstrapError, Failure> {
    let address =
        listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
    Ok(BootstrapError::NobodyCame { address, waited })
}

/// Waits until one of `fds` has something to say. False: the deadline passed.
pub(crate) fn wait(fds: &mut [PollFd<'_>], deadline: Instant) -> std::io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(fds, Some(&left)) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Connects to the server, which may be started a little later. `address` may lack the port.
pub(crate) fn dial(address: &str, port: u16, timeout: Duration) -> Result<Link, Failure> {
    let deadline = Instant::now() + timeout;
    let candidates = resolve(address, port)?;
    // What an address answered last: a later attempt that the deadline cuts short does not make it unsaid.
    let mut refusal = String::new();
    loop {
        for candidate in &candidates {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(candidate, left) {
                Ok(stream) => return Link::new(stream, timeout),
                Err(error) if error.kind() == ErrorKind::TimedOut && !refusal.is_empty() => {}
                Err(error) => refusal = format!("{candidate}: {error}"),
            }
        }
        if Instant::now() + RETRY_AFTER >= deadline {
            let error = if refusal.is_empty() { "no answer".into() } else { refusal };
            return Err(BootstrapError::NoServer {
                address: address.into(),
                waited: timeout,
                error,
            }
            .into());
        }
        std::thread::sleep(RETRY_AFTER);
    }
}

fn resolve(address: &str, port: u16) -> Result<Vec<SocketAddr>, BootstrapError> {
    let bad = |reason: String| BootstrapError::BadAddress { address: address.into(), reason };
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    let resolved: std::io::Result<Vec<SocketAddr>> =
        if bare.parse::<std::net::Ipv6Addr>().is_ok() || !address.contains(':') {
            (bare, port).to_socket_addrs().map(Iterator::collect)
        } else {
            address.to_socket_addrs().map(Iterator::collect)
        };
    match resolved {
        Ok(list) if list.is_empty() => Err(bad("the name has no address".into())),
        Ok(list) => Ok(list),
        Err(error) => Err(bad(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_port() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:12345"),
            ("127.0.0.1:99", "127.0.0.1:99"),
            ("::1", "[::1]:12345"),
            ("[::1]", "[::1]:12345"),
            ("[::1]:99", "[::1]:99"),
        ] {
            assert_eq!(resolve(text, 12345).unwrap(), [expected.parse().unwrap()], "{text}");
        }
        let error = resolve("127.0.0.1:port", 1).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:port") && error.contains("--port"), "{error}");
    }
}
