//! Two programs that connect to each other. They get one connection, whichever is first, and no
//! warning is logged.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{MemoryType, Post, Session};
use tcpx_testkit::{PATIENCE, Random, in_own_process, pattern};
use tcpx_tests::sessions::{self, open, soft};

const BYTES: u64 = 100_000;
/// Rounds for which two sessions stay: they part and connect again under the same names.
const ROUNDS_OF_A_PAIR: u64 = 5;

/// Warnings of every test of this file.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<u8>>>);

impl Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic under the lock").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn warnings() -> &'static Warnings {
    static WARNINGS: OnceLock<Warnings> = OnceLock::new();
    WARNINGS.get_or_init(|| {
        let warnings = Warnings::default();
        let writer = warnings.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
            .with_writer(move || writer.clone())
            .init();
        warnings
    })
}

fn assert_no_warning() {
    let bytes = warnings().0.lock().expect("no panic under the lock");
    assert!(bytes.is_empty(), "{}", String::from_utf8_lossy(&bytes));
}

fn session(progress_thread: bool) -> Session {
    let _ = warnings();
    open(soft().channels(1).progress_thread(progress_thread))
}

/// A session that knows the other's connection info under this name.
fn introduce(session: &Session, name: &str, other: &Session) {
    session.load_remote_conn_info(name, &other.listen().expect("listen")).expect("own bytes load");
}

/// Two sessions that know each other, as "left" and "right".
fn acquainted(progress_threads: [bool; 2]) -> [Session; 2] {
    let [left, right] = progress_threads.map(session);
    introduce(&left, "right", &right);
    introduce(&right, "left", &left);
    [left, right]
}

/// Does both at the same time, the second a little later.
fn both(first: impl FnOnce() + Send, second: impl FnOnce() + Send, offset: Duration) {
    thread::scope(|scope| {
        let running = scope.spawn(first);
        let begin = Instant::now();
        while begin.elapsed() < offset {
            std::hint::spin_loop();
        }
        second();
        running.join().expect("the first is done");
    });
}

fn filled(session: &Session, seed: u64) -> Post {
    let memory = session.allocate(BYTES, MemoryType::Device).expect("memory");
    let mut data = vec![0; BYTES as usize];
    pattern::fill(seed, 0, &mut data);
    session.write_memory(memory, 0, &data).expect("write");
    Post { memory, offset: 0, bytes: BYTES, tag: 1 }
}

/// A message each way between two ends, each given with the name that it has for the other.
fn exchange(left: (&Session, &str), right: (&Session, &str), seed: u64) {
    let transfers = [(left, seed), (right, seed + 1)].map(|((session, peer), seed)| {
        let source = filled(session, seed);
        let memory = session.allocate(BYTES, MemoryType::Device).expect("memory");
        let transfer = session.create_transfer(peer).expect("it is up");
        transfer.post_recv(Post { memory, offset: 0, bytes: BYTES, tag: 1 }).expect("a receive");
        transfer.post_send(source).expect("a send");
        (session, transfer, source.memory, memory)
    });
    let wait = |at: usize| transfers[at].1.wait(Some(PATIENCE)).expect("both messages");
    both(|| wait(0), || wait(1), Duration::ZERO);
    for ((session, transfer, source, memory), seed) in transfers.into_iter().zip([seed + 1, seed]) {
        let mut data = vec![0; BYTES as usize];
        session.read_memory(memory, 0, &mut data).expect("read");
        assert_eq!(pattern::first_difference(seed, 0, &data), None);
        drop(transfer);
        for memory in [source, memory] {
            session.deregister_memory(memory).expect("the memory is not in use");
        }
    }
}

/// The names of a session's peers. All must be up.
fn peers(session: &Session) -> Vec<String> {
    let up = |peer: tcpx_core::PeerReport| {
        assert_eq!(peer.state, "up", "{}", peer.name);
        peer.name
    };
    session.stats().peers.into_iter().map(up).collect()
}

fn disconnect_both(left: &Session, right: &Session) {
    sessions::disconnect_both(left, right);
    assert!(left.stats().peers.is_empty() && right.stats().peers.is_empty());
}

/// One peer at each end, up, and messages both ways.
fn assert_one_connection(left: &Session, right: &Session, seed: u64) {
    assert_eq!((peers(left), peers(right)), (vec!["right".to_owned()], vec!["left".to_owned()]));
    exchange((left, "right"), (right, "left"), seed);
    // No other peer has connected since.
    assert_eq!((peers(left), peers(right)), (vec!["right".to_owned()], vec!["left".to_owned()]));
    assert_eq!((left.stats().peers_failed, right.stats().peers_failed), (0, 0));
}

#[test]
fn two_that_connect_at_the_same_time_have_one_connection() {
    in_own_process!();
    connect_at_the_same_time(20);
}

#[test]
#[ignore = "deep: at very many times"]
fn two_that_connect_at_the_same_time_have_one_connection_whenever() {
    in_own_process!();
    connect_at_the_same_time(200);
}

fn connect_at_the_same_time(rounds: u64) {
    let mut sessions = None;
    let mut random = Random::new(1);
    for round in 0..rounds {
        let pair = round / ROUNDS_OF_A_PAIR;
        if round % ROUNDS_OF_A_PAIR == 0 {
            sessions = Some(acquainted([pair.is_multiple_of(2), pair % 4 < 2]));
        }
        let [left, right] = sessions.as_ref().expect("a pair");
        let offset = Duration::from_micros(random.below(600) as u64);
        let connect =
            |session: &Session, peer| session.connect(peer).unwrap_or_else(|e| panic!("{e}"));
        if random.one_in(2) {
            both(|| connect(left, "right"), || connect(right, "left"), offset);
        } else {
            both(|| connect(right, "left"), || connect(left, "right"), offset);
        }
        assert_one_connection(left, right, round);
        disconnect_both(left, right);
    }
    assert_no_warning();
}

#[test]
fn the_second_connect_takes_the_peer_that_has_connected() {
    in_own_process!();
    for left_is_first in [true, false] {
        let [left, right] = acquainted([true, true]);
        if left_is_first {
            left.connect("right").expect("it makes progress");
            right.connect("left").expect("it has come");
        } else {
            right.connect("left").expect("it makes progress");
            left.connect("right").expect("it has come");
        }
        assert_one_connection(&left, &right, 1);
        disconnect_both(&left, &right);
    }
    assert_no_warning();
}

#[test]
fn a_session_meets_many_that_connect_to_it_while_it_connects_to_them() {
    in_own_process!();
    const OTHERS: usize = 8;
    for progress_thread in [true, false] {
        let hub = session(progress_thread);
        let others: Vec<(String, Session)> =
            (0..OTHERS).map(|n| (format!("other {n}"), session(progress_thread))).collect();
        for (name, other) in &others {
            introduce(&hub, name, other);
            introduce(other, "hub", &hub);
        }
        thread::scope(|scope| {
            for (name, other) in &others {
                scope.spawn(|| hub.connect(name).expect("the hub connects"));
                scope.spawn(|| other.connect("hub").expect("it connects to the hub"));
            }
        });
        let mut expected: Vec<_> = others.iter().map(|(name, _)| name.clone()).collect();
        expected.sort();
        assert_eq!(peers(&hub), expected);
        for (seed, (name, other)) in (0..).step_by(2).zip(&others) {
            assert_eq!(peers(other), ["hub"]);
            exchange((&hub, name), (other, "hub"), seed);
        }
        assert_eq!(hub.stats().peers.len(), OTHERS);
        thread::scope(|scope| {
            for (name, other) in &others {
                scope.spawn(|| hub.disconnect(name).expect("a goodbye"));
                scope.spawn(|| other.disconnect("hub").expect("a goodbye"));
            }
        });
    }
    assert_no_warning();
}

#[test]
fn a_second_connection_of_two_sessions_is_one_of_its_own() {
    in_own_process!();
    // One each way.
    let [left, right] = acquainted([true, true]);
    left.connect("right").expect("connect");
    right.accept("first").expect("it has come");
    right.connect("left").expect("connect");
    left.accept("second").expect("it has come");
    assert_eq!(
        (peers(&left), peers(&right)),
        (names(["right", "second"]), names(["first", "left"]))
    );
    exchange((&left, "right"), (&right, "first"), 1);
    exchange((&left, "second"), (&right, "left"), 3);

    // Both the same way, under two names.
    let [left, right] = acquainted([true, true]);
    introduce(&left, "right again", &right);
    left.connect("right").expect("connect");
    right.accept("first").expect("it has come");
    left.connect("right again").expect("connect");
    right.accept("second").expect("it has come");
    exchange((&left, "right"), (&right, "first"), 1);
    exchange((&left, "right again"), (&right, "second"), 3);

    // And both again, from either end at once: of two that cross, those are one that are the
    // same connection in both ends' count.
    let [left, right] = acquainted([true, true]);
    introduce(&left, "right again", &right);
    introduce(&right, "left again", &left);
    thread::scope(|scope| {
        for name in ["right", "right again"] {
            scope.spawn(|| left.connect(name).expect("left connects"));
        }
        for name in ["left", "left again"] {
            scope.spawn(|| right.connect(name).expect("right connects"));
        }
    });
    assert_eq!(peers(&left), names(["right", "right again"]));
    assert_eq!(peers(&right), names(["left", "left again"]));
    assert_no_warning();
}

fn names(names: [&str; 2]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}
