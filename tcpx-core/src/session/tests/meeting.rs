//! Tests of two sessions that connect to each other, where one of the dials leads somewhere else,
//! nowhere, or is answered late.
//!
//! Tests of a name that belongs to one peer after the other.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::frames::handshake_frame::{HandshakeFrame, Introduction};
use tcpx_protocol::frames::hello::{Challenge, Hello, Role};
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_testkit::PATIENCE;

use super::{LOOPBACK, connect, connected, open, part, patient, soft, take_turns};
use crate::control::connector::Connector;
use crate::control::identity::Identity;
use crate::control::socket::LinkSocket;
use crate::engine::meeting::accept_queue::Accept;
use crate::types::PeerKey;
use crate::{Error, Session};

fn local() -> Session {
    open(soft().channels(1).listen(LOOPBACK))
}

fn info(session: &Session) -> ConnInfo {
    ConnInfo::decode(&session.listen().expect("listen")).expect("own bytes load")
}

fn identity(session: &Session) -> Identity {
    session.shared.engine().expect("no fork").resources.session.identity.clone()
}

/// Returns two sessions that know each other as "peer", by the addresses in `towards` where there
/// are some. The first has the smaller id.
fn acquainted(towards: [Option<SocketAddr>; 2]) -> [Session; 2] {
    let mut sessions = [(); 2].map(|()| local());
    sessions.sort_by_key(|session| identity(session).session);
    for (from, to) in [(0, 1), (1, 0)] {
        let mut info = info(&sessions[to]);
        if let Some(address) = towards[to] {
            info.addresses = vec![address];
        }
        let load = sessions[from].load_remote_conn_info("peer", &info.encode());
        load.expect("own bytes load");
    }
    sessions
}

/// Returns an address without a listener, and the socket that keeps it so.
fn closed_port() -> (socket2::Socket, SocketAddr) {
    let taken = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    taken.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = taken.local_addr().unwrap().as_socket().expect("IPv4");
    (taken, address)
}

/// Returns an unrelated listener.
fn stray_listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn link(stream: TcpStream) -> LinkSocket {
    LinkSocket::new(stream, None, Instant::now()).expect("a socket")
}

/// Returns the next frame on a link, while the sessions go on.
fn hear<F: LinkFrame>(link: &mut LinkSocket, sessions: &[&Session]) -> F {
    let mut heard = None;
    take_turns(sessions, "a frame", || {
        link.flush().expect("the other end is there");
        heard = link.receive(Instant::now()).expect("the other end is there");
        heard.is_some()
    });
    heard.expect("it was heard")
}

/// Lets a session's dial reach the stray, and say hello there.
fn greet(stray: &TcpListener, from: &Session, others: &[&Session]) -> (LinkSocket, Introduction) {
    let sessions = [&[from], others].concat();
    from.shared.engine().expect("no fork").start_connect("peer").expect("it begins");
    // A round that takes long leaves the dial to the next round.
    let mut dial = None;
    take_turns(&[from], "it dials", || {
        dial = stray.accept().ok();
        dial.is_some()
    });
    let mut link = link(dial.expect("it dials").0);
    link.queue(&HandshakeFrame::Challenge(Challenge::new([3; 32])));
    let HandshakeFrame::Hello(said) = hear(&mut link, &sessions) else { panic!("a hello") };
    (link, *said)
}

fn state(session: &Session) -> String {
    session
        .shared
        .engine()
        .expect("no fork")
        .peer("peer")
        .expect("it is known")
        .1
        .state()
        .to_owned()
}

/// Ends the connection with the peer as an error of this end does. Returns its key.
fn lose(session: &Session) -> PeerKey {
    let mut engine = session.shared.engine().expect("no fork");
    let (peer, _) = engine.peer("peer").expect("it is up");
    engine.fail_peer(peer, Error::Cancelled);
    peer
}

/// Returns whether each session has one peer, which is up.
fn are_one(sessions: [&Session; 2]) -> bool {
    sessions.iter().all(|session| {
        let peers = session.stats().peers;
        peers.len() == 1 && peers[0].name == "peer" && peers[0].state == "up"
    })
}

/// Makes rounds in which nothing more should happen.
fn rounds(sessions: &[&Session]) {
    let begin = Instant::now();
    for millis in 0..200 {
        for session in sessions {
            session.shared.progress_at(begin + Duration::from_millis(millis));
        }
    }
}

#[test]
fn the_smaller_id_waits_for_its_own_dial_and_takes_the_others_when_that_fails() {
    let (stray, address) = stray_listener();
    let [small, large] = acquainted([None, Some(address)]);
    let (held, _) = greet(&stray, &small, &[]);
    large.shared.engine().expect("no fork").start_connect("peer").expect("it begins");
    take_turns(&[&small, &large], "hello is said", || state(&large).starts_with("greeted"));
    rounds(&[&small, &large]);
    assert!(state(&large).starts_with("greeted"), "{}", state(&large));
    assert_eq!(small.stats().peers.len(), 1, "the dial of the other end is no peer of its own");
    drop(held);
    take_turns(&[&small, &large], "one connection", || are_one([&small, &large]));
    assert_eq!((small.stats().peers_failed, large.stats().peers_failed), (0, 0));
}

#[test]
fn the_larger_id_gives_way_also_when_its_hello_is_not_answered() {
    let (stray, address) = stray_listener();
    let [small, large] = acquainted([Some(address), None]);
    let (mut given_up, said) = greet(&stray, &large, &[]);
    assert_eq!(said.session(), &identity(&large).session);
    small.shared.engine().expect("no fork").start_connect("peer").expect("it begins");
    take_turns(&[&small, &large], "one connection", || are_one([&small, &large]));
    take_turns(&[&small, &large], "the dial ends", || {
        given_up.receive::<HandshakeFrame>(Instant::now()).is_err()
    });
    // The hello of the session comes late, at the end that it was meant for: it makes no peer.
    drop_late(said, [&small, &large]);
    assert!(are_one([&small, &large]), "{:?}", small.stats().peers);
    assert_eq!((small.stats().peers_failed, large.stats().peers_failed), (0, 0));
}

/// Delivers the hello of a dial that `from` has given up to `to`, which must drop it.
fn drop_late(said: Introduction, [to, from]: [&Session; 2]) {
    let mut late = link(TcpStream::connect(info(to).addresses[0]).unwrap());
    let HandshakeFrame::Challenge(challenge) = hear(&mut late, &[to]) else { panic!() };
    let secret = identity(to).secret;
    let again = said.proven.hello.prove(Role::Connector, &challenge.nonce, &secret);
    let again = Introduction::new(again, &identity(from).secret);
    late.queue(&HandshakeFrame::Hello(Box::new(again)));
    take_turns(&[to], "it is dropped", || {
        late.flush().is_err()
            || match late.receive::<HandshakeFrame>(Instant::now()) {
                Ok(answer) => answer.is_some_and(|answer| panic!("{answer:?}")),
                Err(_) => true,
            }
    });
}

#[test]
fn a_hello_that_was_given_up_is_not_taken_by_the_next_connect() {
    let (stray, address) = stray_listener();
    let [small, large] = acquainted([Some(address), None]);
    let (_given_up, said) = greet(&stray, &large, &[]);
    let connect = || small.shared.engine().expect("no fork").start_connect("peer");
    connect().expect("it begins");
    take_turns(&[&small, &large], "one connection", || are_one([&small, &large]));
    let lost = lose(&small);
    take_turns(&[&large], "the end is known", || state(&large) == "gone");
    assert_ne!(connect().expect("it begins"), lost);
    drop_late(said, [&small, &large]);
    take_turns(&[&small, &large], "one connection", || state(&small) == "up");
}

#[test]
fn a_connect_that_is_given_up_leaves_the_other_end_its_own() {
    let (stray, address) = stray_listener();
    let [small, large] = acquainted([None, Some(address)]);
    let (_held, _) = greet(&stray, &small, &[]);
    large.shared.engine().expect("no fork").start_connect("peer").expect("it begins");
    take_turns(&[&small, &large], "hello is said", || state(&large).starts_with("greeted"));
    small.disconnect("peer").expect("it is dropped at once");
    take_turns(&[&small, &large], "the other end is up", || state(&large) == "up");
    assert!(small.stats().peers[0].name.contains("not accepted"), "{:?}", small.stats().peers);
    // The next connect takes the peer.
    small.connect("peer").expect("it is there");
    assert!(are_one([&small, &large]), "{:?}", small.stats().peers);
}

/// Returns the results of two connects at the same time, the smaller id's first.
fn connect_both(sessions: &[Session; 2]) -> [Result<(), Error>; 2] {
    thread::scope(|scope| {
        let [small, large] = sessions.each_ref().map(|it| scope.spawn(|| it.connect("peer")));
        [small, large].map(|connecting| connecting.join().expect("no panic"))
    })
}

#[test]
fn one_direction_that_leads_somewhere_is_enough() {
    let (_taken, closed) = closed_port();
    let (_silent, silent) = stray_listener();
    for towards in
        [[Some(closed), None], [None, Some(closed)], [Some(silent), None], [None, Some(silent)]]
    {
        let sessions = acquainted(towards);
        let outcomes = connect_both(&sessions);
        assert!(outcomes.iter().all(Result::is_ok), "{towards:?}: {outcomes:?}");
        let [small, large] = &sessions;
        assert!(are_one([small, large]), "{:?}, {:?}", small.stats().peers, large.stats().peers);
        assert_eq!((small.stats().peers_failed, large.stats().peers_failed), (0, 0));
    }
}

#[test]
fn an_accept_of_another_name_waits_on_and_is_told_who_came() {
    let another = Accept::Named("another".to_owned());
    for the_first_connects_first in [true, false] {
        let sessions = acquainted([None; 2]);
        let [small, large] = &sessions;
        for session in &sessions {
            session.shared.engine().expect("no fork").start_accept(&another).expect("it begins");
        }
        let mut order = [small, large];
        order.sort_by_key(|session| std::ptr::eq(*session, small) != the_first_connects_first);
        for session in order {
            session.shared.engine().expect("no fork").start_connect("peer").expect("it begins");
        }
        take_turns(&order, "one connection", || are_one(order));
        let told = order.map(|session| {
            let mut engine = session.shared.engine().expect("no fork");
            engine.accept_overdue(&another, PATIENCE).to_string()
        });
        let came = told.iter().filter(|told| told.contains("1 came from where a connect")).count();
        assert_eq!(came, 1, "one end has dialled, the other has adopted: {told:?}");
    }
}

#[test]
fn a_peer_that_no_address_reaches_may_still_come_later() {
    let (_taken, closed) = closed_port();
    let [small, large] = acquainted([None, Some(closed)]);
    small.shared.engine().expect("no fork").start_connect("peer").expect("it begins");
    take_turns(&[&small], "no address", || state(&small).starts_with("reached at none"));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| large.connect("peer"));
        take_turns(&[&small], "it comes", || state(&small) == "up");
        waiting.join().expect("no panic").expect("it reaches the other end");
    });
    assert!(are_one([&small, &large]));
}

#[test]
fn where_no_direction_leads_anywhere_both_are_told_the_addresses() {
    let (_taken, closed) = closed_port();
    let sessions = acquainted([Some(closed); 2]);
    for session in &sessions {
        let lock = || session.shared.engine().expect("no fork");
        let key = lock().start_connect("peer").expect("it begins");
        let begin = Instant::now();
        let mut now = begin;
        while !lock().peer("peer").expect("it is known").1.is_gone() {
            // A deadline in the meantime reports the same.
            if state_of(&lock(), key).starts_with("reached at none") {
                let early = lock().deadline(crate::Phase::Connect, key, PATIENCE, now);
                assert!(matches!(early, Error::Unreachable { .. }), "{early}");
            }
            now += Duration::from_millis(100);
            assert!(now < begin + PATIENCE, "it ends before its deadline");
            session.shared.progress_at(now);
        }
        let why = lock().peer("peer").expect("it is known").1.why_gone().cloned();
        let Some(Error::Unreachable { attempts, .. }) = why else { panic!("{why:?}") };
        assert_eq!(attempts[0].address, closed.to_string());
    }
}

fn state_of(engine: &crate::engine::Engine, key: crate::types::PeerKey) -> &'static str {
    engine.peer("peer").ok().filter(|(it, _)| *it == key).expect("it is known").1.state()
}

#[test]
fn a_session_that_does_not_listen_fails_at_once_when_no_address_answers() {
    let (_taken, closed) = closed_port();
    let [from, to] = [(); 2].map(|()| local());
    let info = ConnInfo { addresses: vec![closed], ..info(&to) };
    from.load_remote_conn_info("peer", &info.encode()).expect("own bytes load");
    from.shared.engine().expect("no fork").start_connect("peer").expect("it begins");
    take_turns(&[&from], "the error", || state(&from) == "gone");
}

/// A peer that has this session's connection info, and knows the id of another session, is not
/// taken for that session.
#[test]
fn a_pretender_is_a_peer_like_any_other() {
    let (stray, address) = stray_listener();
    for comes_first in [true, false] {
        let [small, large] = acquainted([None, Some(address)]);
        let mut pretender = identity(&local());
        pretender.session = identity(&large).session;
        let mut connector = Connector::new(info(&small), 0);
        let mut come = || {
            let mut reached = None;
            take_turns(&[&small], "the pretender is welcomed", || {
                let outcome = connector.poll("small", Instant::now(), &pretender);
                reached = outcome.expect("it is welcomed");
                reached.is_some()
            });
            reached.expect("it is welcomed").proven.link
        };
        let (_greeted, _link) = if comes_first {
            let link = come();
            (greet(&stray, &small, &[]), link)
        } else {
            let greeted = greet(&stray, &small, &[]);
            (greeted, come())
        };
        let mut names: Vec<_> = small.stats().peers.into_iter().map(|peer| peer.name).collect();
        names.sort();
        assert!(names.len() == 2 && names[0].contains("not accepted"), "{names:?}");
        assert!(state(&small).starts_with("greeted"), "{}", state(&small));
    }
}

/// A hello names the connection of the two sessions that it is for. A hello for another connection
/// than the dial under way makes a peer of its own.
#[test]
fn another_connection_of_the_same_sessions_is_not_the_one_that_is_dialled() {
    let (stray, address) = stray_listener();
    let [small, large] = acquainted([None, Some(address)]);
    let (_greeted, said) = greet(&stray, &small, &[]);
    assert_eq!(said.connection(), 0);
    let mut dial = link(TcpStream::connect(info(&small).addresses[0]).unwrap());
    let HandshakeFrame::Challenge(challenge) = hear(&mut dial, &[&small]) else { panic!() };
    let ours = identity(&large);
    let hello = Hello { connection: 1, ..ours.hello([7; 32], 1) };
    let proven = hello.prove(Role::Connector, &challenge.nonce, &identity(&small).secret);
    dial.queue(&HandshakeFrame::Hello(Box::new(Introduction::new(proven, &ours.secret))));
    let HandshakeFrame::Welcome(welcome) = hear(&mut dial, &[&small]) else { panic!("a welcome") };
    assert_eq!(welcome.hello.instead_of, None);
    assert!(state(&small).starts_with("greeted"), "{}", state(&small));
    // An accept claims the peer by name like any other, and the number of a third is free.
    let second = Accept::Named("second".to_owned());
    small.shared.engine().expect("no fork").start_accept(&second).expect("it has come");
    small.load_remote_conn_info("third", &info(&large).encode()).expect("own bytes load");
    let key = small.shared.engine().expect("no fork").start_connect("third").expect("it begins");
    let engine = small.shared.engine().expect("no fork");
    let (third, peer) = engine.peer("third").expect("it is known");
    assert_eq!((third, peer.connector().map(Connector::connection)), (key, Some(2)));
}

/// Of two threads that disconnect a peer, one may come late: then the name is another peer's.
#[test]
fn forgetting_a_peer_late_leaves_the_next_of_its_name_alone() {
    let [left, right] = connected(patient());
    let first = left.shared.engine().expect("no fork").peer("right").expect("it is up").0;
    part(&left, &right);
    connect(&left, &right);
    left.shared.engine().expect("no fork").forget(first);
    let (second, _) =
        left.shared.engine().expect("no fork").peer("right").expect("it is another peer's name");
    assert_ne!(first, second);
    part(&left, &right);
    assert!(left.shared.engine().expect("no fork").peer("right").is_err());
}
