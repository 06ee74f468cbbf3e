//! Opening of the plain sockets: the server offers, the client connects.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::socket::PlainSocket;
use crate::failure::Failure;
use crate::input::variables;
use crate::rendezvous::{self, Acceptor, ConnectedEnd, Message, Role};

/// Sockets of one comm, as the plugins count them.
const MOST_SOCKETS_PER_COMM: u16 = 8;
/// Most sockets that an offer may ask for: every channel with every socket.
const MOST_SOCKETS: u16 = tcpx_core::MAX_CHANNELS * MOST_SOCKETS_PER_COMM;
/// Least time for which a connection is waited for.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// First bytes on each socket: token and number of the socket.
const GREETING_BYTES: usize = 18;

/// Server: plain sockets are accepted here.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SocketOffer {
    /// At the address of the connection that carries this.
    port: u16,
    /// Number of sockets to open.
    sockets: u16,
    token: [u8; 16],
}

impl Message for SocketOffer {
    const KIND: u16 = 7;
}

impl SocketOffer {
    fn greeting(&self, index: u16) -> [u8; GREETING_BYTES] {
        let mut greeting = [0; GREETING_BYTES];
        greeting[..16].copy_from_slice(&self.token);
        greeting[16..].copy_from_slice(&index.to_le_bytes());
        greeting
    }
}

/// Opens the sockets, in the same order at both ends. For round trips there is one.
pub(super) fn open(
    connected: &mut ConnectedEnd<'_>,
    is_latency: bool,
) -> Result<Vec<PlainSocket>, Failure> {
    match connected.role {
        Role::Client => {
            let offer = connected.link.receive()?;
            connect(connected, offer)
        }
        Role::Server if is_latency => accept(connected, 1),
        Role::Server => accept(connected, connected.channels * sockets_per_comm()?),
    }
}

fn connect(connected: &ConnectedEnd<'_>, offer: SocketOffer) -> Result<Vec<PlainSocket>, Failure> {
    let SocketOffer { port, sockets, .. } = offer;
    if !(1..=MOST_SOCKETS).contains(&sockets) {
        let text = format!("it offers {sockets} plain sockets, 1 to {MOST_SOCKETS} are possible");
        return Err(Failure::OtherEnd(text));
    }
    let address = SocketAddr::new(connected.link.peer().ip(), port);
    let budget = connected.link.budget();
    let connect = |index| {
        // A deadline of zero is refused.
        let left = budget.step().left().max(SHORTEST_WAIT);
        let stream = TcpStream::connect_timeout(&address, left)?;
        let socket = PlainSocket::new(stream, budget)?;
        socket.send(&offer.greeting(index)).map(|()| socket)
    };
    let sockets: std::io::Result<_> = (0..sockets).map(connect).collect();
    sockets.map_err(Failure::io("connecting a plain socket"))
}

/// Accepts all sockets by one deadline. Unauthenticated connections are rejected, and silent ones
/// delay nothing.
fn accept(connected: &mut ConnectedEnd<'_>, sockets: u16) -> Result<Vec<PlainSocket>, Failure> {
    let listener = rendezvous::bind(SocketAddr::new(connected.link.local_ip(), 0))?;
    let address =
        listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
    let mut offer = SocketOffer { port: address.port(), sockets, token: [0; 16] };
    getrandom::fill(&mut offer.token)
        .map_err(|error| Failure::io("choosing a token")(error.into()))?;
    connected.link.send(&offer)?;
    let budget = connected.link.budget();
    let waited = budget.step();
    let mut accepted: Vec<Option<PlainSocket>> = (0..sockets).map(|_| None).collect();
    let mut acceptor = Acceptor::new(&listener, move |stream| {
        let mut greeting = [0; GREETING_BYTES];
        let greeted = PlainSocket::new(stream, budget)
            .and_then(|socket| socket.receive(&mut greeting).map(|()| socket));
        let socket = greeted.map_err(Failure::io("greeting a plain socket"))?;
        let index = u16::from_le_bytes([greeting[16], greeting[17]]);
        match greeting == offer.greeting(index) {
            true => Ok((index, socket)),
            false => Err(Failure::OtherEnd("it is no plain socket of the client".into())),
        }
    })?;
    while accepted.iter().any(Option::is_none) {
        let (index, socket) = acceptor.admit(waited, None)?;
        if let Some(slot @ None) = accepted.get_mut(usize::from(index)) {
            *slot = Some(socket);
        }
    }
    Ok(accepted.into_iter().flatten().collect())
}

/// Returns the number of data sockets of one comm. The listening end decides, by the variables that
/// the plugins read.
fn sockets_per_comm() -> Result<u16, Failure> {
    let read = |name| variables::read::<u16>(&[name]).map(|value| value.unwrap_or(1));
    Ok(sockets(read("NCCL_SOCKET_NTHREADS")?, read("NCCL_NSOCKS_PERTHREAD")?))
}

/// Returns the sockets of one comm. The plugins lower the number for each thread rather than exceed
/// eight.
fn sockets(threads: u16, per_thread: u16) -> u16 {
    let threads = threads.clamp(1, MOST_SOCKETS_PER_COMM);
    per_thread.clamp(1, MOST_SOCKETS_PER_COMM / threads) * threads
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::rendezvous::connect_both;

    #[test]
    fn sockets_of_a_comm_are_counted_like_the_plugins_do() {
        for (threads, per_thread, expected) in
            [(1, 1, 1), (1, 4, 4), (2, 4, 8), (4, 4, 8), (3, 4, 6), (9, 9, 8), (0, 0, 1)]
        {
            assert_eq!(sockets(threads, per_thread), expected, "{threads} x {per_thread}");
        }
    }

    #[test]
    fn unauthenticated_connections_take_no_plain_sockets_place() {
        let opened = connect_both(|connected| {
            if connected.role == Role::Server {
                return accept(connected, 2).unwrap();
            }
            let offer: SocketOffer = connected.link.receive().unwrap();
            let address = SocketAddr::new(connected.link.peer().ip(), offer.port);
            let open = |bytes: &[u8]| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(bytes).unwrap();
                stream
            };
            // One has the numbers, but not the run's token; one sends nothing at all.
            let guess = SocketOffer { token: [7; 16], ..offer };
            let _others = [open(b"GET / HTTP/1.1\r\n\r\n"), open(&guess.greeting(0)), open(b"")];
            connect(connected, offer).unwrap()
        });
        let [client, server] = &opened;
        for (index, (own, other)) in (0..).zip(client.iter().zip(server)) {
            own.send(&[index]).unwrap();
            let mut said = [9];
            other.receive(&mut said).unwrap();
            assert_eq!(said, [index]);
        }
        assert_eq!((client.len(), server.len()), (2, 2));
    }
}
