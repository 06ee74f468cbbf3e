//! Strangers who come to the control port faster than anybody can be heard.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tcpx_core::{PluginChoice, Session, SessionOptions};

/// Many more than the listener has places for.
const STRANGERS_KEPT: usize = 300;
const FLOODS: usize = 2;
/// Honest peers, some at a time.
const ROUNDS: usize = 6;
const AT_ONCE: usize = 4;

fn session(name: &str) -> Session {
    let mut options = SessionOptions::default();
    options.plugin = PluginChoice::Soft;
    options.name = name.into();
    options.listen = "127.0.0.1:0".parse().expect("an address");
    options.channels = 1;
    options.progress_thread = true;
    options.accept_all = true;
    options.connect_timeout = Duration::from_secs(60);
    Session::new(options).expect("a session")
}

/// Connects again and again and says nothing; the oldest of many connections ends for each new one.
fn flood(address: SocketAddr, is_over: &AtomicBool) -> usize {
    let mut kept = VecDeque::new();
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        // The system may have no room either.
        if let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            count += 1;
            kept.push_back(stream);
        }
        if kept.len() > STRANGERS_KEPT {
            kept.pop_front();
        }
    }
    count
}

#[test]
fn honest_peers_get_in_during_a_flood() {
    let server = session("server");
    let info = server.listen().expect("it listens");
    let address = tcpx_tests::control_addresses(&info)[0];
    let is_over = AtomicBool::new(false);
    let (failures, strangers) = thread::scope(|scope| {
        let floods: Vec<_> =
            (0..FLOODS).map(|_| scope.spawn(|| flood(address, &is_over))).collect();
        let mut failures = Vec::new();
        for round in 0..ROUNDS {
            let connect = |number: usize| {
                let peer = session(&format!("peer-{round}-{number}"));
                peer.load_remote_conn_info("server", &info)?;
                peer.connect("server")?;
                peer.disconnect("server")
            };
            let peers: Vec<_> =
                (0..AT_ONCE).map(|number| scope.spawn(move || connect(number))).collect();
            let outcomes = peers.into_iter().map(|peer| peer.join().expect("no panic"));
            failures.extend(outcomes.filter_map(Result::err));
        }
        is_over.store(true, Ordering::Relaxed);
        (failures, floods.into_iter().map(|it| it.join().expect("no panic")).sum::<usize>())
    });
    assert!(strangers > STRANGERS_KEPT, "that is no flood: {strangers}");
    assert!(failures.is_empty(), "{} of {}: {failures:?}", failures.len(), ROUNDS * AT_ONCE);
}
