//! Unauthenticated connections that come to the control port faster than the session reads them.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{Session, SessionOptions};
use tcpx_testkit::{in_own_process, scaled, until};
use tcpx_tests::sessions::{lively, open};
use tcpx_tests::{Network, Side, StrayConnections};

/// Many more than the listener has places for.
const MAX_UNAUTHENTICATED: usize = 300;
const FLOODS: usize = 2;
/// Honest peers come some at a time.
const AT_ONCE: usize = 4;
/// Those that come while an honest peer at a distance does.
const CONNECTIONS_A_SECOND: u32 = 800;
/// How far it is away.
const ROUND_TRIP: Duration = Duration::from_millis(60);
/// How long it may take to get in.
const ENOUGH: Duration = Duration::from_secs(10);
/// How many honest peers come from another host, one after the other.
const FROM_AFAR: usize = 8;

fn options(name: &str) -> SessionOptions {
    let listen = "127.0.0.1:0".parse().expect("an address");
    lively().name(name).channels(1).accept_all(true).listen(listen)
}

fn session(name: &str) -> Session {
    open(options(name))
}

/// Connects again and again and sends nothing; the oldest of many connections ends for each new
/// one.
fn flood(address: SocketAddr, connections: &AtomicUsize, is_over: &AtomicBool) {
    let mut kept = VecDeque::new();
    while !is_over.load(Ordering::Relaxed) {
        // The system may have no room either.
        if let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            connections.fetch_add(1, Ordering::Relaxed);
            kept.push_back(stream);
        }
        if kept.len() > MAX_UNAUTHENTICATED {
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
    let (connections, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failures = thread::scope(|scope| {
        for _ in 0..FLOODS {
            scope.spawn(|| flood(address, &connections, &is_over));
        }
        // On a slow machine, the honest peers would be through before there is a flood.
        until(
            "more connections have come than may stay, so that each new one ends the oldest",
            || connections.load(Ordering::Relaxed) > FLOODS * MAX_UNAUTHENTICATED,
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

/// Honest peers at a distance, during a flood of connections.
fn get_in_from_afar(tries: usize) {
    let server = session("server");
    let info = server.listen().expect("it listens");
    let address = tcpx_tests::control_addresses(&info)[0];
    let port = afar(address, ROUND_TRIP).port();
    let info = tcpx_tests::with_address(&info, [127, 0, 0, 1].into(), port);
    let strays = StrayConnections::start(address, Vec::new(), CONNECTIONS_A_SECOND);
    strays.wait_until_all_there();
    let connect = |number: usize| {
        let peer = session(&format!("peer-{number}"));
        peer.load_remote_conn_info("server", &info)?;
        peer.connect("server")?;
        peer.disconnect("server")
    };
    let failures: Vec<_> = (0..tries).filter_map(|number| connect(number).err()).collect();
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

/// Addresses of two hosts.
const HONEST: [u8; 4] = [10, 231, 0, 1];
const SERVER: [u8; 4] = [10, 231, 0, 2];

/// A session that has this address, and no other.
fn on(address: [u8; 4], name: &str) -> SessionOptions {
    lively().name(name).listen((address, 0).into()).advertise(vec![address.into()])
}

/// Source of a flood: how far its addresses are those of honest peers of the first host.
#[derive(Clone, Copy, Debug)]
struct ConnectionFlood {
    host: Side,
    addresses: u8,
    /// Honest peers are behind the first of the addresses, as behind one NAT.
    is_shared: bool,
}

impl ConnectionFlood {
    /// Where they come from.
    fn from(self) -> Vec<Ipv4Addr> {
        let address = |number| match (self.host, number) {
            (Side::Right, _) => SERVER.into(),
            (Side::Left, 1) if self.is_shared => HONEST.into(),
            (Side::Left, _) => [10, 231, 1, number].into(),
        };
        (1..=self.addresses).map(address).collect()
    }
}

/// The same over a link that delays the packets of TCP itself, with a flood from the session's own
/// host, or at the honest peers' one.
#[test]
#[ignore = "deep: network namespaces"]
fn an_honest_peer_of_another_host_gets_in_from_afar() {
    in_own_process!();
    for (host, addresses, is_shared) in [
        (Side::Right, 1, false),
        (Side::Left, 1, true),
        (Side::Left, 8, false),
        (Side::Left, 8, true),
        (Side::Left, 200, false),
        (Side::Left, 200, true),
    ] {
        let Some(network) = Network::afar_or_skip(ROUND_TRIP) else { return };
        network.add_addresses().expect("further addresses");
        get_in_past(&network, ConnectionFlood { host, addresses, is_shared });
    }
}

fn get_in_past(network: &Network, flood_from: ConnectionFlood) {
    let (_server, info) = network.at(Side::Right, || {
        let server = open(on(SERVER, "server").accept_all(true));
        let info = server.listen().expect("it listens");
        (server, info)
    });
    let address = tcpx_tests::control_addresses(&info)[0];
    let strays = network.at(flood_from.host, || {
        StrayConnections::start(address, flood_from.from(), CONNECTIONS_A_SECOND)
    });
    strays.wait_until_all_there();
    let connect = |number: usize| {
        let began = Instant::now();
        let options = on(HONEST, &format!("peer-{number}"));
        let peer = open(options.connect_timeout(scaled(ENOUGH)));
        peer.load_remote_conn_info("server", &info)?;
        peer.connect("server")?;
        let took = began.elapsed();
        peer.disconnect("server").map(|()| took)
    };
    let connects: Vec<_> = network.at(Side::Left, || (0..FROM_AFAR).map(connect).collect());
    let took: Vec<_> = connects.iter().flatten().collect();
    assert_eq!(took.len(), FROM_AFAR, "{flood_from:?}: {connects:?}");
    let is_far = took.iter().all(|took| **took >= 2 * ROUND_TRIP);
    assert!(is_far, "{flood_from:?}: {took:?}: there was no distance");
    let (count, a_second) = (strays.count(), strays.a_second());
    let out = strays.refused();
    println!(
        "{flood_from:?}: {count} came, {a_second:.0} a second, {out} refused; connects took {took:?}"
    );
}

#[test]
fn a_session_listens_only_on_its_address() {
    let mut options = options("server");
    options.listen = "0.0.0.0:0".parse().expect("an address");
    options.advertise = vec!["127.0.0.2".parse().expect("an address")];
    let server = open(options);
    let info = server.listen().expect("it listens");
    let address = tcpx_tests::control_addresses(&info)[0];
    assert_eq!(address.ip().to_string(), "127.0.0.2");
    let elsewhere = TcpStream::connect(("127.0.0.3", address.port()));
    assert!(elsewhere.is_err(), "that address was not announced");
    let peer = session("peer");
    peer.load_remote_conn_info("server", &info).expect("it can be read");
    peer.connect("server").expect("it is there");
    peer.disconnect("server").expect("a goodbye");
}

/// The first address takes connections and never speaks, as a stopped or foreign program does.
#[test]
fn an_address_that_does_not_answer_delays_no_peer() {
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
