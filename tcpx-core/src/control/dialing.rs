//! A connection on its way to stand.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watched};

/// A connection attempt that never blocks.
#[derive(Debug)]
pub(crate) struct Dialing {
    socket: Watched<Socket>,
    pub(crate) give_up_at: Instant,
}

impl Dialing {
    /// Starts connecting.
    pub(crate) fn start(address: SocketAddr, give_up_at: Instant) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        Ok(Self { socket: Watched::new(socket), give_up_at })
    }

    /// Has the system say when the connection stands or fails, from now on.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.socket.watch(poller, Events::Write, target);
    }

    /// Whether the system does not say that.
    pub(crate) fn must_be_polled(&self) -> bool {
        !self.socket.is_watched()
    }

    /// Whether the connection stands by now.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.socket.into_inner().into()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use tcpx_testkit::PATIENCE;

    use super::*;

    #[test]
    fn dialing_a_closed_port_is_an_error_and_an_open_one_connects() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let give_up_at = Instant::now() + PATIENCE;
        let settle = |address| {
            let dialing = Dialing::start(address, give_up_at)?;
            loop {
                match dialing.is_connected() {
                    Ok(false) => assert!(Instant::now() < give_up_at),
                    other => return other,
                }
            }
        };
        assert!(settle(address).unwrap());
        drop(listener);
        assert_eq!(settle(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
