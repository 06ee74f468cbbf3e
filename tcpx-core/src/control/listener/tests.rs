use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::memory::Device;
use tcpx_testkit::{PATIENCE, eventually, until};

use super::*;
use crate::control::connector::Connector;
use crate::control::identity::{ChannelOffer, new_id};
use crate::settings::SessionOptions;

fn identity() -> Identity {
    let options = SessionOptions::default();
    let (key, secret) = new_id(&options).expect("random bytes");
    let id = (Device::Host, key, secret);
    Identity::new(id, &options, "TCPXSoft_v7", 524_288, ChannelOffer::Asked(2))
}

fn info(identity: &Identity, addresses: Vec<SocketAddr>) -> ConnInfo {
    let (session, secret) = (identity.session, identity.secret.clone());
    ConnInfo {
        session,
        secret,
        encryption: identity.encryption,
        credential: identity.credentials.kind(),
        addresses,
    }
}

/// No connection is refused for being late here: each has an hour.
#[test]
fn a_peer_comes_in_past_silent_connections_on_real_sockets() {
    let (ours, theirs) = (identity(), identity());
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    listener.hello_timeout = Duration::from_secs(3_600);
    let address = listener.address().unwrap();
    let mut silent = Vec::new();
    for _ in 0..2 * MAX_HANDSHAKES {
        silent.push(TcpStream::connect(address).unwrap());
        listener.progress(Instant::now(), &ours);
    }
    let info = info(&ours, vec![address]);
    let mut connector = Connector::new(info, 0);
    let proven = eventually(|| {
        let now = Instant::now();
        assert!(connector.poll("ours", now, &theirs).expect("it is let in").is_none());
        listener.progress(now, &ours);
        let first = listener.proven().next().map(|(number, _)| number);
        first.and_then(|number| listener.take(number))
    });
    assert!(proven.is_proven() && listener.unproven.len() <= MAX_HANDSHAKES);
    drop(silent);
}

#[test]
fn silent_connections_are_polled_together_and_not_driven() {
    let ours = identity();
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let address = listener.address().unwrap();
    let now = Instant::now();
    let mut silent = Vec::new();
    while listener.unproven.len() < MAX_HANDSHAKES {
        silent.push(TcpStream::connect(address).unwrap());
        listener.progress(now, &ours);
    }
    let polls = |listener: &ControlListener| -> usize {
        listener.unproven.values().map(|handshake| handshake.polls).sum()
    };
    let polls_before = polls(&listener);
    for _ in 0..1_000 {
        assert!(!listener.progress(now, &ours));
    }
    assert_eq!(polls(&listener), polls_before);
    // Both connections that leave are noticed, and no other handshake is driven.
    silent.truncate(silent.len() - 2);
    until("they have left", || {
        listener.progress(now, &ours);
        listener.unproven.len() <= MAX_HANDSHAKES - 2
    });
    assert_eq!(polls(&listener), listener.unproven.len(), "once each, when they came");
}

/// Returns whether the session's poller reports an event of the listener.
fn is_told(poller: &Poller) -> bool {
    let mut events = Vec::new();
    poller.wait(PATIENCE, &mut events);
    events.iter().any(|event| event.target == Target::Listener)
}

#[test]
fn the_system_says_when_it_is_time_to_look() {
    let (ours, poller) = (identity(), Arc::new(Poller::new().unwrap()));
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    listener.watch(&poller);
    assert_eq!(listener.attention(), Attention::default());
    let stream = TcpStream::connect(listener.address().unwrap()).unwrap();
    assert!(is_told(&poller), "a connection comes");
    while listener.progress(Instant::now(), &ours) {}
    assert!(listener.attention().timeout.is_some(), "it has said no hello yet");
    drop(stream);
    assert!(is_told(&poller), "it has left");
    assert!(listener.progress(Instant::now(), &ours));
    assert_eq!(listener.attention(), Attention::default());
}

#[test]
fn who_says_no_hello_in_time_is_dropped_and_others_stay() {
    let ours = identity();
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let address = listener.address().unwrap();
    let start = Instant::now();
    let mut streams = Vec::new();
    for second in 0..5 {
        streams.push(TcpStream::connect(address).unwrap());
        assert!(listener.progress(start + Duration::from_secs(second), &ours));
    }
    for (second, expected) in
        [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14].into_iter().zip([5, 5, 5, 5, 5, 5, 4, 3, 2, 1, 0])
    {
        listener.progress(start + Duration::from_secs(second), &ours);
        assert_eq!(listener.unproven.len(), expected, "after {second} s");
    }
}

/// A process that was stopped for long has only just looked.
#[test]
fn a_pause_of_the_process_makes_no_hello_late() {
    let ours = identity();
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let _stream = TcpStream::connect(listener.address().unwrap()).unwrap();
    let start = Instant::now();
    assert!(listener.progress(start, &ours));
    let mut left_at = |seconds| {
        listener.progress(start + Duration::from_secs(seconds), &ours);
        listener.unproven.len()
    };
    assert_eq!(left_at(60), 1);
    let left: Vec<_> = (61..=69).map(&mut left_at).collect();
    assert_eq!(left, [1, 1, 1, 1, 1, 1, 1, 1, 0]);
}

/// Makes a dial that has said hello, which the listener has not read.
fn greeted(
    connector: &mut Connector,
    listener: &mut ControlListener,
    [ours, theirs]: [&Identity; 2],
) {
    until("it has said hello", || {
        connector.poll("ours", Instant::now(), theirs).expect("it is let in");
        let is_greeting = connector.unanswered().is_some();
        if !is_greeting {
            listener.progress(Instant::now(), ours);
        }
        is_greeting
    });
    connector.poll("ours", Instant::now(), theirs).expect("its hello is written");
}

#[test]
fn who_has_left_before_its_hello_is_read_is_no_peer() {
    let (ours, theirs) = (identity(), identity());
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let mut connector = Connector::new(info(&ours, vec![listener.address().unwrap()]), 0);
    greeted(&mut connector, &mut listener, [&ours, &theirs]);
    drop(connector);
    let (_, left) = listener.unproven.first_key_value().expect("it is not read");
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    until("its end comes", || {
        poll(&mut [PollFd::new(left, PollFlags::RDHUP)], Some(&now)) == Ok(1)
    });
    assert!(listener.progress(Instant::now(), &ours));
    assert!(listener.unproven.is_empty() && !listener.has_proven());
}

#[test]
fn a_hello_that_is_here_but_unread_keeps_its_place() {
    let (ours, theirs) = (identity(), identity());
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let address = listener.address().unwrap();
    let mut connector = Connector::new(info(&ours, vec![address]), 0);
    greeted(&mut connector, &mut listener, [&ours, &theirs]);
    let (number, _) = listener.unproven.first_key_value().expect("it is not read");
    let number = *number;
    // All arrive at once: this one is the oldest, and the first candidate for eviction.
    let now = Instant::now() + Duration::from_secs(1);
    for _ in 0..2 * MAX_HANDSHAKES {
        listener.make_room(address.ip(), now, &ours);
        let stream = TcpStream::connect(address).unwrap();
        listener.admit(stream, address, now, &ours);
    }
    assert!(listener.proven.contains_key(&number), "it was read before any was evicted");
    assert!(listener.unproven.len() <= MAX_HANDSHAKES);
}

#[test]
fn who_finds_no_room_comes_again_and_gets_in() {
    let (ours, theirs) = (identity(), identity());
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let address = listener.address().unwrap();
    let mut connector = Connector::new(info(&ours, vec![address]), 0);
    let mut sent_away = 0;
    let mut silent = Vec::new();
    until("it gets in", || {
        let now = Instant::now();
        connector.poll("ours", now, &theirs).expect("it is only asked to wait");
        listener.progress(now, &ours);
        // The first few times the flood takes its place before it can say hello.
        if sent_away < 3 && connector.state().contains("connected") {
            sent_away += 1;
            for _ in 0..=MAX_HANDSHAKES {
                silent.push(TcpStream::connect(address).unwrap());
                // Later each time, when the connections before have had time enough.
                listener.progress(now + Duration::from_secs(sent_away), &ours);
            }
        }
        listener.has_proven()
    });
    assert_eq!(sent_away, 3);
}

#[test]
fn a_silent_address_delays_no_other() {
    let (ours, theirs) = (identity(), identity());
    // Accepts connections and never speaks.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let addresses = vec![mute.local_addr().unwrap(), listener.address().unwrap()];
    let mut connector = Connector::new(info(&ours, addresses), 0);
    let mut now = Instant::now();
    until("it gets in", || {
        connector.poll("ours", now, &theirs).expect("one of them is it");
        // The connector is polled as late as it asks for.
        let next = connector.attention().timeout;
        now = next.map_or(now, |next| next.max(now)).max(Instant::now());
        listener.progress(Instant::now(), &ours);
        listener.has_proven()
    });
}
