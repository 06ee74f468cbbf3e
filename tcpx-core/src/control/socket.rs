//! The bytes of a control link: a non-blocking TCP connection with a buffer each way.

use std::collections::TryReserveError;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::acknowledgement;
use super::inbound::Inbound;
use super::link_frame::{FrameError, LinkFrame};
use super::outbound::Outbound;
use crate::error::Departure;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watched};

/// Unsent bytes above which the peer is taken to have stopped reading.
const MAX_UNSENT_BYTES: usize = 256 << 20;
/// Frames of one peer that are handled in one round, so that no peer keeps the others waiting.
const FRAMES_A_ROUND: usize = 2048;
/// Probes of an idle connection before its host counts as gone.
const KEEPALIVE_PROBES: u32 = 5;

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// The connection has ended.
    Gone(Departure),
    /// The other end breaks the protocol.
    Frame(FrameError),
}

/// One control link.
#[derive(Debug)]
pub(crate) struct LinkSocket {
    stream: Watched<TcpStream>,
    inbound: Inbound,
    outbound: Outbound,
    /// There may be bytes to read.
    is_readable: bool,
    /// The kernel takes no more bytes for now.
    is_blocked: bool,
    /// The other end has closed the connection, or it has failed: to be found out by reading.
    is_hung_up: bool,
    /// Frames that may still be handled in this round.
    round_left: usize,
    /// Bytes that were read are left, and may hold whole frames: the last round ended before them,
    /// or they came with the end of the handshake.
    has_backlog: bool,
    /// What the link ended with while there was a backlog.
    ended: Option<LinkError>,
    /// When the last byte came; before the first one, when the connection came.
    pub(crate) heard_at: Instant,
    has_heard: bool,
}

impl LinkSocket {
    /// Takes over a connected stream. The system probes it while it is idle, and ends it when
    /// nothing acknowledges the probes for `host_timeout`. `None`: it does not probe. What is under
    /// way is watched by [`unacknowledged`](Self::unacknowledged).
    pub(crate) fn new(
        stream: TcpStream,
        host_timeout: Option<Duration>,
        now: Instant,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        if let Some(timeout) = host_timeout {
            SockRef::from(&stream).set_tcp_keepalive(&keepalive(timeout))?;
        }
        Ok(Self {
            stream: Watched::new(stream),
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            is_readable: true,
            is_blocked: false,
            is_hung_up: false,
            round_left: 0,
            has_backlog: false,
            ended: None,
            heard_at: now,
            has_heard: false,
        })
    }

    /// Has the system say when something happens on it, from now on.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.stream.watch(poller, Events::Read, target);
    }

    /// Something has happened on it.
    pub(crate) fn wake(&mut self, is_hung_up: bool) {
        self.is_readable = true;
        self.is_blocked = false;
        self.is_hung_up |= is_hung_up;
    }

    /// Whether it must be asked again and again, because the system does not say when something
    /// happens.
    pub(crate) fn must_be_polled(&self) -> bool {
        !self.stream.is_watched()
    }

    /// Whether there may be more to read, or to send, at once.
    pub(crate) fn has_more(&self) -> bool {
        let sends = !self.outbound.unsent().is_empty() && !self.is_blocked;
        sends || self.has_backlog || (self.stream.is_watched() && self.is_readable)
    }

    /// Whether any byte has come.
    pub(crate) fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// The address of this end, which belongs to the interface that reaches the peer.
    pub(crate) fn local_ip(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|address| address.ip())
    }

    /// The address of the other end.
    pub(crate) fn peer_address(&self) -> String {
        self.stream
            .peer_addr()
            .map_or_else(|_| "unknown address".to_owned(), |address| address.to_string())
    }

    /// How long the peer's host has acknowledged nothing. `None`: nothing waits for it.
    pub(crate) fn unacknowledged(&self) -> io::Result<Option<Duration>> {
        acknowledgement::overdue(&self.stream)
    }

    /// Sends a frame, and the bytes of a message behind it, with all that is queued. What the
    /// kernel does not take at once is copied to the queue. [`flush`](Self::flush) tells of an
    /// error.
    pub(crate) fn send_with_payload(&mut self, frame: &impl LinkFrame, payload: &[u8]) {
        self.queue(frame);
        let mut sent = 0;
        if self.ended.is_none() && !self.is_blocked {
            match self.write_with(payload) {
                Ok(bytes) => sent = bytes,
                Err(error) => self.ended = Some(error),
            }
        }
        self.outbound.append(|bytes| bytes.extend_from_slice(&payload[sent..]));
    }

    /// Writes what is queued and a payload behind it. Returns how many bytes of the payload went.
    fn write_with(&mut self, payload: &[u8]) -> Result<usize, LinkError> {
        let queued = self.outbound.unsent();
        let before = queued.len();
        let slices = [IoSlice::new(queued), IoSlice::new(payload)];
        let written = match (&*self.stream).write_vectored(&slices) {
            Ok(0) => return Err(LinkError::Gone(Departure::LinkClosed)),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(LinkError::Gone(departure(&error))),
        };
        if written < before + payload.len() {
            // `flush` has the system say when it takes more.
            self.is_blocked = !self.must_be_polled();
        }
        self.outbound.take(written.min(before));
        Ok(written.saturating_sub(before))
    }

    /// Queues a frame; `flush` sends it.
    pub(crate) fn queue(&mut self, frame: &impl LinkFrame) {
        self.outbound.append(|bytes| frame.encode(bytes));
    }

    /// Makes room for frames of so many bytes together, which are queued without an allocation
    /// then.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        self.outbound.reserve(bytes)
    }

    /// Gives room back that nothing needs.
    pub(crate) fn give_room_back(&mut self) {
        self.outbound.give_room_back();
    }

    /// Bytes queued and not yet taken by the kernel.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.outbound.unsent().len()
    }

    /// Sends what the kernel takes. Returns whether any byte moved. A link that has ended says so
    /// once every frame that came before is handled.
    pub(crate) fn flush(&mut self) -> Result<bool, LinkError> {
        if self.ended.is_none() {
            match self.write_out() {
                Ok(moved) => return Ok(moved),
                Err(error) => self.ended = Some(error),
            }
        }
        if self.has_backlog { Ok(false) } else { self.ended.take().map_or(Ok(false), Err) }
    }

    fn write_out(&mut self) -> Result<bool, LinkError> {
        if self.outbound.unsent().is_empty() {
            return Ok(false);
        }
        let mut moved = false;
        while !self.outbound.unsent().is_empty() {
            match (&*self.stream).write(self.outbound.unsent()) {
                Ok(0) => return Err(LinkError::Gone(Departure::LinkClosed)),
                Ok(bytes) => {
                    self.outbound.take(bytes);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkError::Gone(departure(&error))),
            }
        }
        self.is_blocked &= !self.outbound.unsent().is_empty();
        self.stream.wait_for(if self.is_blocked { Events::ReadWrite } else { Events::Read });
        if self.unsent_bytes() > MAX_UNSENT_BYTES {
            return Err(LinkError::Gone(Departure::LinkFailed {
                kind: None,
                error: "it stopped reading its control link".into(),
            }));
        }
        Ok(moved)
    }

    /// Begins a round: reads what has arrived, unless an earlier round has left frames. Returns
    /// whether any byte came, or frames were left: then [`next_of_round`](Self::next_of_round)
    /// hands frames out. The end of the link is told when no whole frame is left.
    pub(crate) fn begin_round(&mut self, now: Instant) -> Result<bool, LinkError> {
        self.round_left = FRAMES_A_ROUND;
        if self.has_backlog {
            return Ok(true);
        }
        if self.is_readable || self.must_be_polled() { self.fill(now) } else { Ok(false) }
    }

    /// The next whole frame that has arrived, until the round has handed out as many as it may.
    #[inline]
    pub(crate) fn next_of_round<F: LinkFrame>(&mut self) -> Result<Option<F>, LinkError> {
        if self.round_left == 0 {
            self.has_backlog = !self.inbound.waiting().is_empty();
            return Ok(None);
        }
        self.round_left -= 1;
        let frame = self.next_frame()?;
        self.has_backlog &= frame.is_some();
        Ok(frame)
    }

    /// Reads what has arrived, without waiting. Returns whether any byte came.
    pub(crate) fn fill(&mut self, now: Instant) -> Result<bool, LinkError> {
        let room = self.inbound.room();
        let room_bytes = room.len();
        match (&*self.stream).read(room) {
            Ok(0) => Err(LinkError::Gone(Departure::LinkClosed)),
            Ok(bytes) => {
                self.inbound.fill(bytes);
                // What comes from now on is told, but the end may have been told already.
                self.is_readable = bytes == room_bytes || self.is_hung_up;
                self.heard_at = now;
                self.has_heard = true;
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                self.is_readable = error.kind() == ErrorKind::Interrupted;
                Ok(false)
            }
            Err(error) => Err(LinkError::Gone(departure(&error))),
        }
    }

    /// Reads, and takes the next whole frame. What came before the end of the link is taken first.
    pub(crate) fn receive<F: LinkFrame>(&mut self, now: Instant) -> Result<Option<F>, LinkError> {
        let outcome = self.fill(now);
        // A handshake is read until nothing is left, its end included.
        self.is_readable |= outcome == Ok(true);
        let frame = self.next_frame()?;
        self.has_backlog = frame.is_some() && !self.inbound.waiting().is_empty();
        if frame.is_some() {
            return Ok(frame);
        }
        outcome.map(|_| None)
    }

    /// The next whole frame that has arrived, with the bytes of a message that follow it.
    #[inline]
    pub(crate) fn next_frame<F: LinkFrame>(&mut self) -> Result<Option<F>, LinkError> {
        let waiting = self.inbound.waiting();
        let Some((frame, head)) = F::decode(waiting).map_err(LinkError::Frame)? else {
            return Ok(None);
        };
        let taken = head + frame.payload_bytes();
        if taken > waiting.len() {
            return Ok(None);
        }
        self.inbound.take(taken);
        Ok(Some(frame))
    }

    /// The bytes that followed the frame that was taken last, until more is read.
    pub(crate) fn payload(&self, bytes: usize) -> &[u8] {
        self.inbound.just_taken(bytes)
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Probes that give a dead host up after `timeout`. The system takes whole seconds, 1 to 32,767.
fn keepalive(timeout: Duration) -> TcpKeepalive {
    let seconds = |time: Duration| Duration::from_secs(time.as_secs().clamp(1, 32_767));
    TcpKeepalive::new()
        .with_time(seconds(timeout / 2))
        .with_interval(seconds(timeout / (2 * KEEPALIVE_PROBES)))
        .with_retries(KEEPALIVE_PROBES)
}

fn departure(error: &io::Error) -> Departure {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Departure::LinkClosed,
        kind => Departure::LinkFailed { kind: Some(kind), error: error.to_string() },
    }
}

/// A connection attempt that never blocks.
#[derive(Debug)]
pub(crate) struct Dialing {
    socket: Watched<Socket>,
    pub(crate) address: SocketAddr,
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
        Ok(Self { socket: Watched::new(socket), address, give_up_at })
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

    use super::*;
    use crate::control::delivery::Delivery;
    use crate::control::frame::Frame;
    use crate::control::handshake_frame::HandshakeFrame;

    fn pair() -> (LinkSocket, LinkSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let now = Instant::now();
        let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let right = listener.accept().unwrap().0;
        let link = |stream| LinkSocket::new(stream, Some(Duration::from_secs(10)), now).unwrap();
        (link(left), link(right))
    }

    fn receive<F: LinkFrame>(link: &mut LinkSocket) -> Result<F, LinkError> {
        let give_up_at = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(frame) = link.receive(Instant::now())? {
                return Ok(frame);
            }
            assert!(Instant::now() < give_up_at, "no frame came");
        }
    }

    #[test]
    fn frames_pass_while_the_reader_is_slow() {
        let (mut left, mut right) = pair();
        let count = 200_000u64;
        let announce =
            |recv| Frame::Announce { recv, tag: -1, bytes: recv, delivery: Delivery::Unpacked };
        for recv in 0..count {
            left.queue(&announce(recv));
        }
        let mut expected = 0;
        while expected < count {
            left.flush().unwrap();
            right.fill(Instant::now()).unwrap();
            while let Some(frame) = right.next_frame::<Frame>().unwrap() {
                assert_eq!(frame, announce(expected));
                expected += 1;
            }
        }
        assert_eq!(left.unsent_bytes(), 0);
    }

    /// Messages of all lengths between other frames, with a reader that lets the system's buffers
    /// fill up.
    #[test]
    fn the_bytes_of_messages_follow_their_frames_while_the_reader_is_slow() {
        let (mut left, mut right) = pair();
        SockRef::from(&*left.stream).set_send_buffer_size(64 << 10).unwrap();
        SockRef::from(&*right.stream).set_recv_buffer_size(64 << 10).unwrap();
        let message = |number: i32| {
            let bytes = [0, 1, 4096, 65_536][number as usize % 4];
            vec![number as u8; bytes]
        };
        let (mut sent, mut received, mut was_full) = (0, 0, false);
        while received < 400 {
            if sent < 400 {
                let payload = message(sent);
                left.queue(&Frame::Taken { tag: sent });
                let ahead = Frame::Ahead { tag: sent, bytes: payload.len() as u32 };
                left.send_with_payload(&ahead, &payload);
                was_full |= left.unsent_bytes() > 0;
                sent += 1;
            }
            // Half of the messages are sent before any is read.
            if sent < 200 {
                continue;
            }
            left.flush().unwrap();
            right.fill(Instant::now()).unwrap();
            while let Some(frame) = right.next_frame::<Frame>().unwrap() {
                match frame {
                    Frame::Taken { tag } => assert_eq!(tag, received),
                    Frame::Ahead { tag, bytes } => {
                        assert_eq!(tag, received);
                        assert!(right.payload(bytes as usize) == message(tag), "message {tag}");
                        received += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(was_full, "the kernel took everything");
        assert_eq!(left.unsent_bytes(), 0);
    }

    #[test]
    fn a_message_on_a_quiet_link_leaves_at_once_with_what_is_queued() {
        let (mut left, mut right) = pair();
        left.queue(&Frame::Ping);
        left.send_with_payload(&Frame::Ahead { tag: 7, bytes: 4 }, b"data");
        assert_eq!((left.unsent_bytes(), left.outbound.unsent()), (0, &[][..]));
        assert_eq!(receive::<Frame>(&mut right), Ok(Frame::Ping));
        assert_eq!(receive::<Frame>(&mut right), Ok(Frame::Ahead { tag: 7, bytes: 4 }));
        assert_eq!(right.payload(4), b"data");
    }

    #[test]
    fn a_message_on_a_link_that_has_ended_is_told_of_by_the_next_flush() {
        let (mut left, right) = pair();
        drop(right);
        let give_up_at = Instant::now() + Duration::from_secs(60);
        loop {
            left.send_with_payload(&Frame::Ahead { tag: 7, bytes: 4 }, b"data");
            match left.flush() {
                Ok(_) => assert!(Instant::now() < give_up_at),
                Err(error) => return assert_eq!(error, LinkError::Gone(Departure::LinkClosed)),
            }
        }
    }

    /// A busy link: the reader is behind, and there is always more to send.
    #[test]
    fn a_link_that_is_never_all_sent_takes_no_more_than_what_waits() {
        const MOST: usize = 1 << 20;
        let (mut left, mut right) = pair();
        let (mut queued, mut received) = (0u64, 0u64);
        while received < 1_000_000 {
            while left.unsent_bytes() < MOST {
                left.queue(&Frame::Cancel { recv: queued });
                queued += 1;
            }
            left.flush().unwrap();
            right.fill(Instant::now()).unwrap();
            while let Some(frame) = right.next_frame::<Frame>().unwrap() {
                assert_eq!(frame, Frame::Cancel { recv: received });
                received += 1;
            }
            let room = left.outbound.capacity();
            assert!(room <= 8 * MOST, "{room} bytes for {MOST} after {queued} frames");
        }
    }

    #[test]
    fn end_of_stream_and_garbage_are_different() {
        let (left, mut right) = pair();
        (&*left.stream).write_all(&[0xff; 64]).unwrap();
        assert!(matches!(
            receive::<HandshakeFrame>(&mut right),
            Err(LinkError::Frame(FrameError::Header(_)))
        ));
        let (left, mut right) = pair();
        drop(left);
        assert_eq!(
            receive::<HandshakeFrame>(&mut right),
            Err(LinkError::Gone(Departure::LinkClosed))
        );
    }

    #[test]
    fn last_frames_before_the_end_are_still_read() {
        let (mut left, mut right) = pair();
        left.queue(&Frame::Goodbye);
        left.flush().unwrap();
        drop(left);
        assert_eq!(receive::<Frame>(&mut right), Ok(Frame::Goodbye));
        assert_eq!(receive::<Frame>(&mut right), Err(LinkError::Gone(Departure::LinkClosed)));
    }

    /// Takes the frames of one round.
    fn round(link: &mut LinkSocket) -> Result<usize, LinkError> {
        let outcome = link.begin_round(Instant::now());
        let mut frames = 0;
        while let Some(frame) = link.next_of_round::<Frame>()? {
            assert_eq!(frame, Frame::Ping);
            frames += 1;
        }
        outcome.map(|_| frames)
    }

    #[test]
    fn a_round_is_bounded_and_what_it_leaves_comes_before_the_end_of_the_link() {
        let (mut left, mut right) = pair();
        let give_up_at = Instant::now() + Duration::from_secs(60);
        let in_time = || assert!(Instant::now() < give_up_at);
        // One read takes them all.
        let total = 2 * FRAMES_A_ROUND + 100;
        (0..total).for_each(|_| left.queue(&Frame::Ping));
        let bytes = left.unsent_bytes();
        while left.unsent_bytes() > 0 {
            left.flush().unwrap();
        }
        let mut seen = vec![0; bytes];
        while right.stream.peek(&mut seen).unwrap_or(0) < bytes {
            in_time();
        }
        assert_eq!(round(&mut right), Ok(FRAMES_A_ROUND));
        // The other end closes with a frame unread: the link is reset.
        right.queue(&Frame::Pong);
        right.flush().unwrap();
        while left.stream.peek(&mut [0]).is_err() {
            in_time();
        }
        drop(left);
        while right.ended.is_none() {
            right.queue(&Frame::Pong);
            assert!(right.flush().is_ok(), "frames are left");
            in_time();
        }
        assert_eq!(round(&mut right), Ok(FRAMES_A_ROUND));
        assert_eq!(right.flush(), Ok(false));
        assert_eq!(round(&mut right), Ok(100));
        assert_eq!(right.flush(), Err(LinkError::Gone(Departure::LinkClosed)));
    }

    #[test]
    fn frames_that_came_with_the_end_of_the_handshake_are_in_the_first_round() {
        let (mut left, mut right) = pair();
        left.queue(&HandshakeFrame::Refuse("busy".into()));
        left.queue(&Frame::Ping);
        let bytes = left.unsent_bytes();
        left.flush().unwrap();
        let give_up_at = Instant::now() + Duration::from_secs(60);
        while right.stream.peek(&mut vec![0; bytes]).unwrap_or(0) < bytes {
            assert!(Instant::now() < give_up_at);
        }
        let last = right.receive(Instant::now());
        assert_eq!(last, Ok(Some(HandshakeFrame::Refuse("busy".into()))));
        assert_eq!(right.begin_round(Instant::now()), Ok(true), "no byte comes after them");
        assert_eq!(right.next_of_round(), Ok(Some(Frame::Ping)));
        assert_eq!(right.next_of_round::<Frame>(), Ok(None));
        assert_eq!(right.begin_round(Instant::now()), Ok(false));
    }

    #[test]
    fn a_round_that_leaves_nothing_is_followed_by_one_that_reads() {
        let (mut left, mut right) = pair();
        let give_up_at = Instant::now() + Duration::from_secs(60);
        for _ in 0..2 {
            (0..FRAMES_A_ROUND).for_each(|_| left.queue(&Frame::Ping));
            left.flush().unwrap();
            let mut frames = 0;
            while frames < FRAMES_A_ROUND {
                frames += round(&mut right).unwrap();
                assert!(Instant::now() < give_up_at);
            }
            assert!(!right.has_backlog);
        }
    }

    #[test]
    fn the_system_probes_an_idle_host_for_as_long_as_was_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = |timeout| {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            LinkSocket::new(stream, timeout, Instant::now()).unwrap()
        };
        let watched = link(Some(Duration::from_secs(20)));
        let socket = SockRef::from(&*watched.stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(2));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
        let unwatched = link(None);
        let socket = SockRef::from(&*unwatched.stream);
        assert!(!socket.keepalive().unwrap());
    }

    #[test]
    fn dialing_a_closed_port_is_an_error_and_an_open_one_connects() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let give_up_at = Instant::now() + Duration::from_secs(60);
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
