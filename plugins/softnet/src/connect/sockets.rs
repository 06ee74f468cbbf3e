//! Result of a finished connect attempt or a finished accept.

use std::io;
use std::net::TcpStream;

use socket2::SockRef;
use tcpx_seal::exchange::SocketKeys;

use crate::log;
use crate::nic_memory::Steering;

/// Most bytes that the system takes of a data socket before it can send them. A channel over a slow
/// NIC would otherwise take megabytes, which count as sent, while others have nothing left to send.
/// With half as many left the socket takes more: 40 us ahead of a NIC of 100 Gbit/s.
const MOST_UNSENT: u32 = 1 << 20;

/// A connected, non-blocking socket of a comm.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    /// Keys of all that it carries. `None`: it carries bytes in clear.
    pub(crate) keys: Option<Box<SocketKeys>>,
}

impl Connection {
    /// Takes a socket that carries bytes in clear.
    #[cfg(test)]
    pub(crate) fn clear(socket: TcpStream) -> Self {
        Self { socket, keys: None }
    }
}

/// The sockets of one comm.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) control: Connection,
    /// By index.
    pub(crate) data: Vec<Connection>,
    /// The sender's chunk size.
    pub(crate) chunk_bytes: u32,
    /// Of an accept: what sends the data sockets' packets to a NIC's region.
    pub(crate) steering: Option<Steering>,
}

impl Sockets {
    /// Returns whether both ends have the same address, so that no NIC ever sees what is sent.
    pub(crate) fn stay_on_host(&self) -> bool {
        let control = &self.control.socket;
        let ends = control.local_addr().and_then(|own| Ok((own, control.peer_addr()?)));
        ends.is_ok_and(|(own, peer)| own.ip() == peer.ip() || peer.ip().is_loopback())
    }

    /// Bounds what the system takes of the data sockets ahead of what it can send, where a NIC
    /// sends it. Within a host nothing waits for a NIC.
    pub(crate) fn bound_unsent(&self) {
        if self.stay_on_host() {
            return;
        }
        let bounded = self.data.iter().try_for_each(|it| bound_unsent(&it.socket));
        if let Err(error) = bounded {
            // Channels of unequal speed are slower together then, and nothing else.
            log::info!("what data sockets hold unsent is not bounded: {error}");
        }
    }

    /// Returns whether all that the sockets carry is encrypted.
    pub(crate) fn are_encrypted(&self) -> bool {
        self.control.keys.is_some()
    }
}

fn bound_unsent(socket: &TcpStream) -> io::Result<()> {
    SockRef::from(socket).set_tcp_notsent_lowat(MOST_UNSENT)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_what_leaves_the_host_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let connect = || Connection::clear(TcpStream::connect(address).expect("connects"));
        let (control, data) = (connect(), vec![connect()]);
        let sockets = Sockets { control, data, chunk_bytes: 4096, steering: None };
        let socket = &sockets.data[0].socket;
        let most = || SockRef::from(socket).tcp_notsent_lowat().expect("an option");
        let before = most();
        sockets.bound_unsent();
        assert_eq!(most(), before, "both ends are here");
        bound_unsent(socket).expect("an option");
        assert_eq!(most(), MOST_UNSENT);
    }
}
