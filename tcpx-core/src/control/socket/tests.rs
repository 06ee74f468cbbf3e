//! Tests of two ends of a link over real sockets.

mod chunks;
mod rounds;

use std::io::Write;
use std::net::TcpListener;

use tcpx_protocol::frames::fields::Delivery;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::frames::handshake_frame::HandshakeFrame;
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_protocol::frames::messages::{Offer, Ready};
use tcpx_protocol::frames::records::LinkKeys;
use tcpx_seal::secret::{SharedSecret, TrafficSecret};
use tcpx_seal::suite::Suite;
use tcpx_testkit::{PATIENCE, eventually, until};

use super::*;

fn pair() -> (LinkSocket, LinkSocket) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let now = Instant::now();
    let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let right = listener.accept().unwrap().0;
    let link = |stream| LinkSocket::new(stream, Some(Duration::from_secs(10)), now).unwrap();
    (link(left), link(right))
}

/// Returns two ends of a link in clear, and two ends of an encrypted link.
fn pairs() -> [(LinkSocket, LinkSocket); 2] {
    let (mut left, mut right) = pair();
    encrypt(&mut left, Role::Connector);
    encrypt(&mut right, Role::Listener);
    [pair(), (left, right)]
}

fn keys() -> LinkKeys {
    let [by_connector, by_listener] = [2, 3].map(|byte| TrafficSecret::new([byte; 32]));
    LinkKeys { suite: Suite::Aes256Gcm, by_connector, by_listener }
}

fn encrypt(link: &mut LinkSocket, role: Role) {
    let (nonce, channels) = ([4; 32], SharedSecret::new([5; 32]));
    let peer = crate::control::tls::PeerCredential::SessionKey([6; 16]);
    link.encrypt(LinkSecrets { keys: keys(), nonce, channels, peer }, role);
}

fn receive<F: LinkFrame>(link: &mut LinkSocket) -> Result<F, LinkError> {
    eventually(|| link.receive(Instant::now()).transpose())
}

#[test]
fn frames_pass_while_the_reader_is_slow() {
    for (mut left, mut right) in pairs() {
        let count = 200_000u64;
        let delivery = Delivery::Unpacked;
        let announce = |recv| Frame::Ready(Ready::Receive { recv, tag: -1, bytes: recv, delivery });
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
}

/// Sends messages of all lengths between other frames, to a reader that lets the system's buffers
/// fill up.
#[test]
fn the_bytes_of_messages_follow_their_frames_while_the_reader_is_slow() {
    for (mut left, mut right) in pairs() {
        SockRef::from(&*left.stream).set_send_buffer_size(64 << 10).unwrap();
        SockRef::from(&*right.stream).set_recv_buffer_size(64 << 10).unwrap();
        let message = |number: i64| {
            let bytes = [0, 1, 4096, 65_536][number as usize % 4];
            vec![number as u8; bytes]
        };
        let (mut sent, mut received, mut was_full) = (0, 0, false);
        while received < 400 {
            if sent < 400 {
                let payload = message(sent);
                left.queue(&Frame::Forget { list: sent as u32 });
                let ahead = ahead(sent, payload.len() as u32);
                let (message, note) =
                    payload.split_at(payload.len() / [1, 2, 7][sent as usize % 3]);
                left.send_with_payload(&ahead, [message, note]);
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
                    Frame::Forget { list } => assert_eq!(i64::from(list), received),
                    Frame::Offer(Offer::Eager { tag, bytes }) => {
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
}

/// Makes the frame of an unexpected message, whose bytes follow.
fn ahead(tag: i64, bytes: u32) -> Frame {
    Frame::Offer(Offer::Eager { tag, bytes })
}

#[test]
fn a_message_on_a_quiet_link_leaves_at_once_with_what_is_queued() {
    for (mut left, mut right) in pairs() {
        left.queue(&Frame::Ping);
        left.send_with_payload(&ahead(7, 4), [b"da", b"ta"]);
        assert_eq!((left.unsent_bytes(), left.outbound.unsent()), (0, &[][..]));
        assert_eq!(receive::<Frame>(&mut right), Ok(Frame::Ping));
        assert_eq!(receive::<Frame>(&mut right), Ok(ahead(7, 4)));
        assert_eq!(right.payload(4), b"data");
    }
}

#[test]
fn a_message_on_a_link_that_has_ended_is_told_of_by_the_next_flush() {
    let (mut left, right) = pair();
    drop(right);
    let error = eventually(|| {
        left.send_with_payload(&ahead(7, 4), [b"data", b""]);
        left.flush().err()
    });
    assert_eq!(error, LinkError::Gone(Departure::LinkClosed));
}

/// On a busy link the reader is behind, and there is always more to send.
#[test]
fn a_link_that_is_never_all_sent_takes_no_more_than_what_waits() {
    // All frames together are far more than may wait.
    let numbered = |number: u64| Frame::Abort(format!("{number:0>200}"));
    for (mut left, mut right) in pairs() {
        const MOST: usize = 1 << 20;
        let (mut queued, mut received) = (0u64, 0u64);
        while received < 60_000 {
            while left.unsent_bytes() < MOST {
                left.queue(&numbered(queued));
                queued += 1;
            }
            left.flush().unwrap();
            right.fill(Instant::now()).unwrap();
            while let Some(frame) = right.next_frame::<Frame>().unwrap() {
                assert_eq!(frame, numbered(received));
                received += 1;
            }
            let room = left.outbound.capacity();
            assert!(room <= 8 * MOST, "{room} bytes for {MOST} after {queued} frames");
        }
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
    assert_eq!(receive::<HandshakeFrame>(&mut right), Err(LinkError::Gone(Departure::LinkClosed)));
}

#[test]
fn last_frames_before_the_end_are_still_read() {
    for (mut left, mut right) in pairs() {
        left.queue(&Frame::Goodbye);
        left.flush().unwrap();
        drop(left);
        assert_eq!(receive::<Frame>(&mut right), Ok(Frame::Goodbye));
        assert_eq!(receive::<Frame>(&mut right), Err(LinkError::Gone(Departure::LinkClosed)));
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

/// The listener's last frame of the handshake, and its first in records, come in one read.
#[test]
fn records_begin_right_behind_the_handshake() {
    let (mut left, mut right) = pair();
    right.queue(&HandshakeFrame::Refuse("the last in clear".into()));
    encrypt(&mut right, Role::Listener);
    right.queue(&Frame::Ping);
    right.send_with_payload(&ahead(7, 4), [b"da", b"ta"]);
    right.flush().unwrap();
    drop(right);
    let last = receive(&mut left);
    assert_eq!(last, Ok(HandshakeFrame::Refuse("the last in clear".into())));
    encrypt(&mut left, Role::Connector);
    assert_eq!(receive(&mut left), Ok(Frame::Ping));
    assert_eq!(receive(&mut left), Ok(ahead(7, 4)));
    assert_eq!(left.payload(4), b"data");
    assert_eq!(receive::<Frame>(&mut left), Err(LinkError::Gone(Departure::LinkClosed)));
}

#[test]
fn what_came_before_a_record_that_was_changed_is_handled_and_nothing_else() {
    let (mut left, mut right) = pair();
    encrypt(&mut right, Role::Listener);
    // The other end sends three records, and the second is changed on the way.
    let (mut outgoing, _) = keys().into_records(Role::Connector);
    let mut wire = Vec::new();
    for frame in [Frame::Ping, Frame::Goodbye, Frame::Closed] {
        outgoing.append(&mut wire, |queue| frame.encode(queue));
        outgoing.close(&mut wire).unwrap();
    }
    let record = wire.len() / 3;
    wire[record + 6] ^= 1;
    (&*left.stream).write_all(&wire).unwrap();
    assert_eq!(receive::<Frame>(&mut right), Ok(Frame::Ping));
    for _ in 0..2 {
        let error = receive::<Frame>(&mut right).unwrap_err();
        let LinkError::Gone(Departure::LinkTampered { record: 1, problem }) = error else {
            panic!("{error:?}");
        };
        assert!(problem.contains("does not decrypt"), "{problem}");
    }
    // The other direction still works: the end that finds the change may still say so.
    encrypt(&mut left, Role::Connector);
    right.queue(&Frame::Abort("tampered".into()));
    right.flush().unwrap();
    assert_eq!(receive(&mut left), Ok(Frame::Abort("tampered".into())));
}

/// An end that was promised records takes nothing else.
#[test]
fn a_frame_in_clear_is_no_record() {
    let (mut left, mut right) = pair();
    encrypt(&mut right, Role::Listener);
    let mut frames = Vec::new();
    (0..20_000).for_each(|_| Frame::Ping.encode(&mut frames));
    (&*left.stream).write_all(&frames).unwrap();
    let error = receive::<Frame>(&mut right).unwrap_err();
    let is_tampered = matches!(error, LinkError::Gone(Departure::LinkTampered { record: 0, .. }));
    assert!(is_tampered, "{error:?}");
    assert!(left.fill(Instant::now()).is_ok());
}

/// A listener that refuses the connector's part of the keys says so in clear, maybe in pieces.
#[test]
fn a_refusal_in_clear_is_heard_wherever_it_is_cut() {
    let refusal = HandshakeFrame::Refuse("refused".into());
    let mut wire = Vec::new();
    refusal.encode(&mut wire);
    for cut in 1..wire.len() {
        let (left, mut right) = pair();
        encrypt(&mut right, Role::Connector);
        for (part, is_all) in [(&wire[..cut], false), (&wire[cut..], true)] {
            (&*left.stream).write_all(part).unwrap();
            until("it arrives", || right.fill(Instant::now()) == Ok(true));
            assert_eq!(right.next_frame::<HandshakeFrame>().is_err(), is_all, "cut at {cut}");
        }
        assert_eq!(right.answer_in_clear(), Some(refusal.clone()));
    }
}
