//! Listener on every wire of the host that a thread is on, loopback among them: it hears each
//! packet as it arrives, whichever program has sent it. The system must let it, which needs root.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::{process, thread};

use rustix::fd::OwnedFd;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{AddressFamily, Protocol, RawProtocol, RecvFlags, SocketFlags, SocketType};

use crate::patience::PATIENCE;

/// `ETH_P_IP`: packets of IPv4, as they arrive, and without what is before their own header.
const IPV4: u16 = 0x0800;
/// Longest packet that a wire without hardware has.
const MAX_PACKET_BYTES: usize = 1 << 17;
/// Room for packets that have come faster than they are read.
const ROOM_BYTES: usize = 512 << 20;
/// Port that nothing uses, to which the last packet goes.
const LAST_PORT: u16 = 9;

/// Listener that is at work.
#[derive(Debug)]
pub struct Wiretap {
    last_words: [u8; 16],
    heard: Receiver<io::Result<Heard>>,
}

/// Packets that were heard, in their order.
#[derive(Clone, Debug, Default)]
pub struct Heard(Vec<Vec<u8>>);

impl Wiretap {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn begin() -> io::Result<Self> {
        let protocol = RawProtocol::new(u16::to_be(IPV4).into()).map(Protocol::from_raw);
        let (family, kind, flags) =
            (AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(family, kind, flags, protocol)?;
        set_socket_recv_buffer_size_force(&socket, ROOM_BYTES)?;
        static BEGUN: AtomicU32 = AtomicU32::new(0);
        let mut last_words = *b"the end:________";
        last_words[8..12].copy_from_slice(&process::id().to_le_bytes());
        last_words[12..].copy_from_slice(&BEGUN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let (sender, heard) = channel();
        thread::spawn(move || sender.send(hear(&socket, &last_words)));
        Ok(Self { last_words, heard })
    }

    /// Ends, on the host where it began. Returns all that has arrived since.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Panics
    /// When what this says last is not heard.
    pub fn end(self) -> io::Result<Heard> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.send_to(&self.last_words, (Ipv4Addr::LOCALHOST, LAST_PORT))?;
        self.heard.recv_timeout(PATIENCE).expect("packets of this host arrive in their order")
    }
}

fn hear(socket: &OwnedFd, last_words: &[u8]) -> io::Result<Heard> {
    let (mut heard, mut packet) = (Heard::default(), vec![0; MAX_PACKET_BYTES]);
    loop {
        let (bytes, _) = rustix::net::recv(socket, &mut packet[..], RecvFlags::empty())?;
        if packet[..bytes].ends_with(last_words) {
            return Ok(heard);
        }
        heard.0.push(packet[..bytes].to_vec());
    }
}

impl Heard {
    /// Returns the number of bytes of all packets, with their headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Returns whether a packet has this part. One that is cut in two by a packet's end is not
    /// found.
    #[must_use]
    pub fn has(&self, part: &[u8]) -> bool {
        let begins = |rest: &[u8]| rest.first() == part.first() && rest.starts_with(part);
        self.0.iter().any(|packet| packet.windows(part.len()).any(begins))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_crosses_loopback_is_heard_until_the_end() {
        let tap = match Wiretap::begin() {
            Ok(tap) => tap,
            Err(error) => {
                crate::skip("netns", &format!("no packets of others: {error}"));
                return;
            }
        };
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = socket.local_addr().unwrap();
        socket.send_to(b"heard on the wire", own).unwrap();
        let heard = tap.end().unwrap();
        socket.send_to(b"said behind the end", own).unwrap();
        assert!(heard.has(b"heard on the wire") && heard.bytes() > 17);
        assert!(!heard.has(b"said behind the end") && !heard.has(b"heard on the wiry"));
    }
}
