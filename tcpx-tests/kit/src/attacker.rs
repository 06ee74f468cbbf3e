//! Attacker between the two ends of sockets whose streams are records once both ends have said
//! hello. It hears all, and changes what a test wants changed. The sockets are numbered in the
//! order in which they are dialled.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// First bytes of every record: the type and the version of TLS 1.3's.
const RECORD_BEGIN: [u8; 3] = [23, 3, 3];

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the end that connected.
    ToListener,
    /// From the end that listens.
    ToConnector,
}

impl Direction {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::ToListener, Self::ToConnector];
}

/// Place of something that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of its socket.
    pub socket: usize,
    /// Which way it goes.
    pub direction: Direction,
    /// Number of the record in its direction; `None`: what is said before the records.
    pub record: Option<usize>,
}

/// What passes in the place of something, and what passes behind the next record.
pub type Passing = (Vec<u8>, Vec<u8>);

/// All that was said, in its order.
type Said = Mutex<Vec<(Place, Vec<u8>)>>;
type Change = dyn Fn(Place, Vec<u8>) -> Passing + Send + Sync;

/// What a stream goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A record, whole unless the stream ends in it.
    Record(Vec<u8>),
    /// As many bytes as show that it is no record; none where the stream has ended.
    Other(Vec<u8>),
}

/// Reads the next record, or what shows that none begins here.
///
/// # Errors
/// Those of the stream.
pub fn read_next(from: &mut impl Read) -> io::Result<Next> {
    let mut whole = Vec::new();
    io::copy(&mut from.take(RECORD_BEGIN.len() as u64), &mut whole)?;
    if whole != RECORD_BEGIN {
        return Ok(Next::Other(whole));
    }
    io::copy(&mut from.take(2), &mut whole)?;
    if let Some([high, low]) = whole.get(RECORD_BEGIN.len()..).filter(|it| it.len() == 2) {
        let bytes = u16::from_be_bytes([*high, *low]);
        io::copy(&mut from.take(bytes.into()), &mut whole)?;
    }
    Ok(Next::Record(whole))
}

/// See the module.
#[derive(Debug)]
pub struct Attacker {
    address: SocketAddrV4,
    heard: Arc<Said>,
}

impl Attacker {
    /// Stands in front of a listener. `hello_bytes`: how much an end says on a socket before its
    /// records, the connector and the listener. `change` is asked what passes in the place of that,
    /// and of each record.
    ///
    /// # Panics
    /// When there is no port to be had.
    #[must_use]
    pub fn before(
        listener: SocketAddrV4,
        hello_bytes: [usize; 2],
        change: impl Fn(Place, Vec<u8>) -> Passing + Send + Sync + 'static,
    ) -> Self {
        Self::on_the_way(move |_| TcpStream::connect(listener), hello_bytes, change)
    }

    /// Stands before listeners that `dial` finds, given a socket that was to reach one of them.
    ///
    /// # Panics
    /// As [`before`](Self::before).
    #[must_use]
    pub fn on_the_way(
        dial: impl Fn(&TcpStream) -> io::Result<TcpStream> + Send + 'static,
        hello_bytes: [usize; 2],
        change: impl Fn(Place, Vec<u8>) -> Passing + Send + Sync + 'static,
    ) -> Self {
        let heard = Arc::new(Said::default());
        let (all, change) = (Arc::clone(&heard), Arc::new(change));
        let address = intercept(dial, move |socket, ends| {
            let [connector, listener] = ends;
            let [back, forth] = [&listener, &connector].map(|end| end.try_clone());
            let ways = [(connector, back), (listener, forth)];
            for ((direction, bytes), (from, to)) in
                Direction::BOTH.into_iter().zip(hello_bytes).zip(ways)
            {
                let Ok(to) = to else { return };
                let place = Place { socket, direction, record: None };
                let (heard, change) = (Arc::clone(&all), Arc::clone(&change));
                thread::spawn(move || pump(&from, &to, (place, bytes), &heard, &*change));
            }
        });
        Self { address, heard }
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Returns how many records this direction of a socket has said so far.
    #[must_use]
    pub fn records(&self, socket: usize, direction: Direction) -> usize {
        let is_it = |place: &Place| (place.socket, place.direction) == (socket, direction);
        let heard = lock(&self.heard);
        heard.iter().filter(|(place, _)| is_it(place) && place.record.is_some()).count()
    }

    /// Returns all that was said so far, as its ends said it.
    #[must_use]
    pub fn heard(&self) -> Vec<(Place, Vec<u8>)> {
        lock(&self.heard).clone()
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens on loopback for sockets that are to be intercepted, until the process ends. Has `meet`
/// take both ends of each: the one that connected, and a connection that `dial` made for it.
/// Returns its address.
///
/// # Panics
/// When there is no port to be had.
pub fn intercept(
    dial: impl Fn(&TcpStream) -> io::Result<TcpStream> + Send + 'static,
    meet: impl Fn(usize, [TcpStream; 2]) + Send + 'static,
) -> SocketAddrV4 {
    let front = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback");
    let Ok(SocketAddr::V4(address)) = front.local_addr() else { panic!("no address of IPv4") };
    thread::spawn(move || {
        for (number, dialled) in front.incoming().flatten().enumerate() {
            // A connector that cannot be passed on sees its connection end.
            if let Ok(onward) = dial(&dialled) {
                meet(number, [dialled, onward]);
            }
        }
    });
    address
}

/// Passes one direction of a socket on until it ends.
fn pump(
    from: &TcpStream,
    to: &TcpStream,
    (mut place, hello_bytes): (Place, usize),
    heard: &Said,
    change: &Change,
) {
    let mut reader = BufReader::with_capacity(1 << 16, from);
    let mut to_write = to;
    let mut behind_next = Vec::new();
    loop {
        let said = match place.record {
            None => {
                let mut hello = Vec::new();
                let mut front = (&mut reader).take(hello_bytes as u64);
                io::copy(&mut front, &mut hello).map(|_| hello)
            }
            Some(_) => read_next(&mut reader).map(|next| match next {
                Next::Record(whole) | Next::Other(whole) => whole,
            }),
        };
        let Ok(said) = said else { break };
        if said.is_empty() {
            break;
        }
        lock(heard).push((place, said.clone()));
        let (now, late) = change(place, said);
        let passes = [now, std::mem::replace(&mut behind_next, late)].concat();
        if to_write.write_all(&passes).is_err() {
            // The one that speaks learns that nothing passes any more.
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
        place.record = Some(place.record.map_or(0, |number| number + 1));
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tampering;

    fn record(byte: u8, bytes: u8) -> Vec<u8> {
        [&[23, 3, 3, 0, bytes][..], &vec![byte; bytes.into()]].concat()
    }

    #[test]
    fn records_are_told_from_what_is_none_and_from_parts() {
        let mut stream =
            &[record(1, 20), b"GET /".to_vec(), record(2, 3)[..6].to_vec()].concat()[..];
        let mut next = || read_next(&mut stream).unwrap();
        assert_eq!(next(), Next::Record(record(1, 20)));
        assert_eq!([next(), next()], [b"GET", &b" /\x17"[..]].map(|it| Next::Other(it.to_vec())));
        let mut stream = &record(2, 3)[..6];
        assert_eq!(read_next(&mut stream).unwrap(), Next::Record(record(2, 3)[..6].to_vec()));
        assert_eq!(read_next(&mut stream).unwrap(), Next::Other(Vec::new()));
    }

    #[test]
    fn a_record_of_one_socket_is_swapped_with_the_next_and_all_is_heard() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("IPv4") };
        let attacker = Attacker::before(address, [2, 1], |place, said| {
            let is_it = place.socket == 1 && place.record == Some(1);
            if is_it { Tampering::Swap.apply(said) } else { (said, Vec::new()) }
        });
        let said = [b"hi".to_vec(), record(0, 5), record(1, 6), record(2, 7)];
        for socket in 0..2 {
            let mut connector = TcpStream::connect(attacker.address()).unwrap();
            let mut accepted = listener.accept().unwrap().0;
            accepted.write_all(b"y").unwrap();
            connector.read_exact(&mut [0]).unwrap();
            connector.write_all(&said.concat()).unwrap();
            connector.shutdown(Shutdown::Write).unwrap();
            let mut read = Vec::new();
            accepted.read_to_end(&mut read).unwrap();
            let [hello, first, second, third] = said.clone();
            let passes = match socket {
                0 => said.concat(),
                _ => [hello, first, third, second].concat(),
            };
            assert_eq!(read, passes);
        }
        assert_eq!(attacker.records(1, Direction::ToListener), 3);
        let heard = attacker.heard();
        for (number, part) in said.iter().enumerate() {
            let (direction, record) = (Direction::ToListener, number.checked_sub(1));
            let place = Place { socket: 1, direction, record };
            assert!(heard.contains(&(place, part.clone())), "{place:?}");
        }
        let place = Place { socket: 1, direction: Direction::ToConnector, record: None };
        assert!(heard.contains(&(place, b"y".to_vec())));
    }
}
