//! Sockets of the two ends: listening, and dialling with a deadline.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::link::RendezvousLink;
use super::server_address::ServerAddress;
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};
use crate::process;

/// Pause between two attempts to reach a server that does not listen yet, which no event reports.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Listens for connections.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => ConnectionError::PortInUse { address, error }.into(),
        _ => Failure::Io { what: format!("listening on {address}"), error },
    })
}

/// Connects to the server, which may be started a little later. `port`: where the address has none.
pub(super) fn dial(
    address: &ServerAddress,
    port: u16,
    budget: Budget,
) -> Result<RendezvousLink, Failure> {
    let waited = budget.step();
    let candidates = resolve_within(waited, address, port)?;
    // The last error of an address: a later attempt that the deadline cuts short does not erase it.
    let mut refusal = None;
    loop {
        for &candidate in &candidates {
            let left = waited.left();
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&candidate, left) {
                Ok(stream) => return RendezvousLink::new(stream, budget),
                Err(error) if error.kind() == ErrorKind::TimedOut && refusal.is_some() => {}
                Err(error) => refusal = Some((candidate, error)),
            }
        }
        if waited.left() <= RETRY_AFTER {
            let address = address.to_string();
            let no_answer = || (candidates[0], Error::new(ErrorKind::TimedOut, "no answer"));
            let (tried, error) = refusal.unwrap_or_else(no_answer);
            let is_ipv6 = candidates.iter().all(SocketAddr::is_ipv6);
            let failure = match error.kind() {
                ErrorKind::ConnectionRefused if is_ipv6 => {
                    ConnectionError::NoServerOverIpv6 { address, waited, tried, error }
                }
                _ => ConnectionError::NoServer { address, waited, tried, error },
            };
            return Err(failure.into());
        }
        std::thread::sleep(RETRY_AFTER);
    }
}

/// Resolves a name to at least one address. The name service has deadlines of its own, and cannot
/// be hurried.
fn resolve_within(
    waited: Deadline,
    address: &ServerAddress,
    port: u16,
) -> Result<Vec<SocketAddr>, Failure> {
    let (sender, receiver) = channel();
    let name = address.clone();
    process::spawn_thread("name-service", move || sender.send(resolve(&name, port)))?;
    let resolved = receiver.recv_timeout(waited.left()).unwrap_or_else(|_| {
        let reason = format!("the name service gave no answer within {waited}");
        Err(ConnectionError::UnknownHost { address: address.to_string(), reason })
    });
    Ok(resolved?)
}

/// Returns at least one address.
fn resolve(address: &ServerAddress, port: u16) -> Result<Vec<SocketAddr>, ConnectionError> {
    let bad = |reason| ConnectionError::UnknownHost { address: address.to_string(), reason };
    let resolved = (address.host.as_str(), address.port.unwrap_or(port)).to_socket_addrs();
    match resolved.map(Iterator::collect::<Vec<_>>) {
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
            let address = text.parse().unwrap();
            assert_eq!(resolve(&address, 12345).unwrap(), [expected.parse().unwrap()], "{text}");
        }
    }

    #[test]
    fn an_error_over_ipv6_names_servers_that_listen_on_ipv4_alone() {
        // No other socket has the port, which is listened on over IPv4 only.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // All of it is waited for; a busy machine may take some of it for the first attempt.
        let budget = Budget::new(Some(Duration::from_secs(2)));
        let error = dial(&"::1".parse().unwrap(), port, budget).unwrap_err().to_string();
        // Without IPv6 on this machine the address cannot be reached at all.
        assert!(
            error.contains("give its IPv4 address") || error.contains("os error 99"),
            "{error}"
        );
    }
}
