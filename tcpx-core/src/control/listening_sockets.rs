//! Listening sockets of a session: one, or one for each address that it advertises.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use tcpx_sys::unpace_within_host;

use crate::control::epoll_set::{EpollSet, Interest};

/// Number of ports that are tried when the port chosen for the first address is taken at another
/// one.
const PORT_TRIES: usize = 16;

/// Listening sockets, all with one port. Their numbers in a set are 0, 1 and so on.
#[derive(Debug)]
pub(super) struct ListeningSockets(Vec<TcpListener>);

impl ListeningSockets {
    /// Makes a value without sockets.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Listens at an address. With port 0 the system chooses a port. The unspecified address stands
    /// for the `advertised` addresses if there are any, and for every address of this host
    /// otherwise. An advertised address that is not one of this host's leads here by an unknown
    /// route. Then the session listens at every address.
    pub(super) fn bind(address: SocketAddr, advertised: &[IpAddr]) -> io::Result<Self> {
        let one = || bind_all(&[address.ip()], address.port());
        if advertised.is_empty() || !address.ip().is_unspecified() {
            return one();
        }
        let mut ips = advertised.to_vec();
        ips.sort_unstable();
        ips.dedup();
        for _ in 0..PORT_TRIES {
            match bind_all(&ips, address.port()) {
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => return one(),
                Err(error) if error.kind() == ErrorKind::AddrInUse && address.port() == 0 => {}
                outcome => return outcome,
            }
        }
        Err(ErrorKind::AddrInUse.into())
    }

    /// Returns the address of the first socket. All have the same port.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.0.first().ok_or(ErrorKind::NotConnected)?.local_addr()
    }

    pub(super) fn watch_in(&self, set: &EpollSet) -> io::Result<()> {
        (0..).zip(&self.0).try_for_each(|(number, socket)| set.add(socket, number, Interest::Read))
    }

    /// Returns whether a socket has this number.
    pub(super) fn has(&self, number: u64) -> bool {
        number < self.count()
    }

    /// Returns the number of sockets. Numbers from this one on are free.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Accepts a connection from the socket with this number. Never blocks.
    pub(super) fn accept(&self, number: u64) -> io::Result<(TcpStream, SocketAddr)> {
        let socket = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        let (stream, address) = socket.ok_or(ErrorKind::NotConnected)?.accept()?;
        // This end sends too: what a read asks for.
        let here = stream.local_addr().ok().map(|here| here.ip());
        unpace_within_host(&stream, here, address.ip());
        Ok((stream, address))
    }
}

fn bind_all(ips: &[IpAddr], port: u16) -> io::Result<ListeningSockets> {
    let (mut sockets, mut port) = (Vec::new(), port);
    for ip in ips {
        let socket = TcpListener::bind((*ip, port))?;
        // The standard library's queue has 128 places. Unauthenticated connections fill them
        // between two rounds, and the system then drops the requests of honest peers. So ask for
        // the longest queue that the system allows.
        rustix::net::listen(&socket, i32::MAX)?;
        socket.set_nonblocking(true)?;
        port = socket.local_addr()?.port();
        sockets.push(socket);
    }
    Ok(ListeningSockets(sockets))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use socket2::SockRef;
    use tcpx_testkit::{PATIENCE, eventually};

    use super::*;
    use crate::control::approach::Dialing;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn connects(ip: IpAddr, sockets: &ListeningSockets) -> bool {
        TcpStream::connect((ip, sockets.address().unwrap().port())).is_ok()
    }

    #[test]
    fn only_what_is_advertised_is_listened_at() {
        let (here, there, elsewhere) = (ip("127.0.0.2"), ip("127.0.0.3"), ip("127.0.0.4"));
        let any = "0.0.0.0:0".parse().unwrap();
        let sockets = ListeningSockets::bind(any, &[there, here, there]).unwrap();
        assert_eq!((sockets.count(), sockets.has(1), sockets.has(2)), (2, true, false));
        assert!(connects(here, &sockets) && connects(there, &sockets));
        assert!(!connects(elsewhere, &sockets));
        for number in 0..2 {
            assert!(sockets.accept(number).is_ok(), "{number}");
            assert_eq!(sockets.accept(number).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        assert_eq!(sockets.accept(2).unwrap_err().kind(), ErrorKind::NotConnected);
    }

    #[test]
    fn no_end_of_a_link_within_the_host_is_paced() {
        let sockets = ListeningSockets::bind("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        // Where the system offers it, and whatever it chooses by itself.
        let _ = SockRef::from(&sockets.0[0]).set_tcp_congestion(b"bbr");
        let dialing = Dialing::start(sockets.address().unwrap(), Instant::now() + PATIENCE);
        let dialing = dialing.unwrap();
        let (accepted, _) = eventually(|| sockets.accept(0).ok());
        eventually(|| dialing.is_connected().unwrap().then_some(()));
        for end in [accepted, dialing.into_stream()] {
            let name = SockRef::from(&end).tcp_congestion().unwrap();
            assert!(!name.starts_with(b"bbr"), "{:?}", String::from_utf8_lossy(&name));
        }
    }

    #[test]
    fn an_address_that_is_not_this_hosts_may_lead_to_any_of_its_own() {
        let any = "0.0.0.0:0".parse().unwrap();
        let foreign = ip("192.0.2.1");
        let sockets = ListeningSockets::bind(any, &[ip("127.0.0.2"), foreign]).unwrap();
        assert!(sockets.address().unwrap().ip().is_unspecified());
        assert!(connects(ip("127.0.0.4"), &sockets));
    }

    #[test]
    fn many_connections_have_room_before_they_are_accepted() {
        let sockets = ListeningSockets::bind("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        let longest = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let count = longest.trim().parse::<usize>().unwrap().min(300);
        let address = sockets.address().unwrap();
        let streams =
            (0..count).map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(60)));
        let streams: Vec<_> = streams.collect::<Result<_, _>>().expect("room for each");
        assert_eq!(streams.len(), count);
    }

    #[test]
    fn an_address_that_was_asked_for_is_the_only_one() {
        let one = "127.0.0.5:0".parse().unwrap();
        let sockets = ListeningSockets::bind(one, &[ip("127.0.0.2")]).unwrap();
        assert_eq!(sockets.address().unwrap().ip(), ip("127.0.0.5"));
        let taken = SocketAddr::new(ip("0.0.0.0"), sockets.address().unwrap().port());
        let error = ListeningSockets::bind(taken, &[ip("127.0.0.5")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(ListeningSockets::none().address().is_err());
    }
}
