//! Strangers who come to the control port faster than anybody can be heard.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{Session, SessionOptions};
use tcpx_testkit::{in_own_process, until};
use tcpx_tests::sessions::{lively, open};
use tcpx_tests::{Network, Side};

/// Many more than the listener has places for.
const STRANGERS_KEPT: usize = 300;
const FLOODS: usize = 2;
/// Honest peers come some at a time.
const AT_ONCE: usize = 4;

fn options(name: &str) -> SessionOptions {
    let listen = "127.0.0.1:0".parse().expect("an address");
    lively().name(name).channels(1).accept_all(true).listen(listen)
}

fn session(name: &str) -> Session {
    open(options(name))
}

/// Connects again and again and says nothing; the oldest of many connections ends for each new one.
fn flood(address: SocketAddr, strangers: &AtomicUsize, is_over: &AtomicBool) {
    let mut kept = VecDeque::new();
    while !is_over.load(Ordering::Relaxed) {
        // The system may have no room either.
        if let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            strangers.fetch_add(1, Ordering::Relaxed);
            kept.push_back(stream);
        }
        if kept.len() > STRANGERS_KEPT {
            kept.pop_front();
        }
    }
}

#[test]
fn honest_peers_get_in_during_a_flood() {
    get_in(1);
}

#[test]
#[ignore = "deep: many honest peers"]
fn many_honest_peers_get_in_during_a_flood() {
    get_in(6);
}

fn get_in(rounds: usize) {
    let server = session("server");
    let info = server.listen().expect("it listens");
    let address = tcpx_tests::control_addresses(&info)[0];
    let (strangers, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failures = thread::scope(|scope| {
        for _ in 0..FLOODS {
            scope.spawn(|| flood(address, &strangers, &is_over));
        }
        // On a slow machine, the honest peers would be through before there is a flood.
        until(
            "more strangers have come than are kept, so that each new one ends the oldest",
            || strangers.load(Ordering::Relaxed) > FLOODS * STRANGERS_KEPT,
        );
        let mut failures = Vec::new();
        for round in 0..rounds {
            let info = &info;
            let connect = move |number: usize| {
                let peer = session(&format!("peer-{round}-{number}"));
                peer.load_remote_conn_info("server", info)?;
                peer.connect("server")?;
                peer.disconnect("server")
            };
            let peers: Vec<_> =
                (0..AT_ONCE).map(|number| scope.spawn(move || connect(number))).collect();
            let outcomes = peers.into_iter().map(|peer| peer.join().expect("no panic"));
            failures.extend(outcomes.filter_map(Result::err));
        }
        is_over.store(true, Ordering::Relaxed);
        failures
    });
    assert!(failures.is_empty(), "{} of {}: {failures:?}", failures.len(), rounds * AT_ONCE);
}

/// Passes on what comes from one end to the other, half a round trip later.
fn pass_on_late(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (queue, queued) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (came, bytes) in queued {
            thread::sleep((came + delay).saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if queue.send((Instant::now(), bytes[..count].to_vec())).is_err() {
            return;
        }
    }
}

/// Where `address` is reached over a link with this round trip. Its threads end with its
/// connections, or with the process.
fn afar(address: SocketAddr, round_trip: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = listener.local_addr().expect("it has one");
    thread::spawn(move || {
        for here in listener.incoming().flatten() {
            let Ok(there) = TcpStream::connect(address) else { continue };
            for (from, to) in [(&here, &there), (&there, &here)] {
                let (from, to) =
                    (from.try_clone().expect("a file"), to.try_clone().expect("a file"));
                thread::spawn(move || pass_on_late(from, to, round_trip / 2));
            }
        }
    });
    near
}

/// Strangers fill all places, and a thousand more come each second; each says a byte, which an
/// honest peer at a distance has not done by then.
fn newcomers(address: SocketAddr, strangers: &AtomicUsize, is_over: &AtomicBool) {
    let mut kept = VecDeque::new();
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            let _ = stream.write_all(&[7]);
            kept.push_back(stream);
            strangers.fetch_add(1, Ordering::Relaxed);
        }
        if kept.len() > STRANGERS_KEPT {
            kept.pop_front();
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Honest peers at a distance, while strangers come.
fn get_in_from_afar(tries: usize) {
    let server = session("server");
    let info = server.listen().expect("it listens");
    let address = tcpx_tests::control_addresses(&info)[0];
    let port = afar(address, Duration::from_millis(60)).port();
    let info = tcpx_tests::with_address(&info, [127, 0, 0, 1].into(), port);
    let (strangers, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failures: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| newcomers(address, &strangers, &is_over));
        until("all places are taken", || strangers.load(Ordering::Relaxed) > STRANGERS_KEPT);
        let connect = |number: usize| {
            let peer = session(&format!("peer-{number}"));
            peer.load_remote_conn_info("server", &info)?;
            peer.connect("server")?;
            peer.disconnect("server")
        };
        let failures = (0..tries).filter_map(|number| connect(number).err()).collect();
        is_over.store(true, Ordering::Relaxed);
        failures
    });
    assert!(failures.is_empty(), "{} of {tries}: {failures:?}", failures.len());
}

#[test]
fn an_honest_peer_gets_in_from_afar_during_a_flood() {
    get_in_from_afar(2);
}

#[test]
#[ignore = "deep: ten tries"]
fn an_honest_peer_always_gets_in_from_afar() {
    get_in_from_afar(10);
}

/// A session that has this address, and no other.
fn on(address: [u8; 4], name: &str) -> SessionOptions {
    lively().name(name).listen((address, 0).into()).advertise(vec![address.into()])
}

/// The same over a link that delays the packets of TCP itself, with strangers at the session's own
/// host.
#[test]
#[ignore = "deep: network namespaces"]
fn an_honest_peer_of_another_host_gets_in_from_afar() {
    in_own_process!();
    let round_trip = Duration::from_millis(60);
    let Some(network) = Network::afar_or_skip(round_trip) else { return };
    let (address, is_over) = (OnceLock::new(), AtomicBool::new(false));
    let strangers = AtomicUsize::new(0);
    let connects = thread::scope(|scope| {
        scope.spawn(|| {
            network.enter(Side::Right).expect("the namespace is there");
            let server = open(on([10, 231, 0, 2], "server").accept_all(true));
            let info = server.listen().expect("it listens");
            let listens = tcpx_tests::control_addresses(&info)[0];
            address.set((listens, info)).expect("once");
            newcomers(listens, &strangers, &is_over);
        });
        let honest = scope.spawn(|| {
            network.enter(Side::Left).expect("the namespace is there");
            until("all places are taken", || strangers.load(Ordering::Relaxed) > STRANGERS_KEPT);
            let (_, info) = address.get().expect("it listens");
            let connect = |number: usize| {
                let began = Instant::now();
                let peer = open(on([10, 231, 0, 1], &format!("peer-{number}")));
                peer.load_remote_conn_info("server", info)?;
                peer.connect("server")?;
                let took = began.elapsed();
                peer.disconnect("server").map(|()| took)
            };
            let connects: Vec<_> = (0..10).map(connect).collect();
            is_over.store(true, Ordering::Relaxed);
            connects
        });
        honest.join().expect("no panic")
    });
    let took: Vec<_> = connects.iter().flatten().collect();
    assert_eq!(took.len(), 10, "{connects:?}");
    assert!(took.iter().all(|took| **took >= 2 * round_trip), "{took:?}: there was no distance");
    println!("{} strangers came; connects took {took:?}", strangers.load(Ordering::Relaxed));
}

#[test]
fn a_session_listens_only_where_it_says() {
    let mut options = options("server");
    options.listen = "0.0.0.0:0".parse().expect("an address");
    options.advertise = vec!["127.0.0.2".parse().expect("an address")];
    let server = open(options);
    let info = server.listen().expect("it listens");
    let address = tcpx_tests::control_addresses(&info)[0];
    assert_eq!(address.ip().to_string(), "127.0.0.2");
    let elsewhere = TcpStream::connect(("127.0.0.3", address.port()));
    assert!(elsewhere.is_err(), "nobody was told of that address");
    let peer = session("peer");
    peer.load_remote_conn_info("server", &info).expect("it can be read");
    peer.connect("server").expect("it is there");
    peer.disconnect("server").expect("a goodbye");
}

/// The first address takes connections and never speaks, as a stopped or foreign program does.
#[test]
fn a_mute_address_holds_nobody_up() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = mute.local_addr().expect("it has one").port();
    let mut options = options("server");
    options.listen = SocketAddr::new("127.0.0.2".parse().expect("an address"), port);
    // Both lead to the same port, where only the second one is the session.
    options.advertise = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse().expect("an address")).into();
    let server = open(options);
    let info = server.listen().expect("it listens");
    let peer = session("peer");
    peer.load_remote_conn_info("server", &info).expect("it can be read");
    peer.connect("server").expect("the second address leads to it");
    peer.disconnect("server").expect("a goodbye");
}
