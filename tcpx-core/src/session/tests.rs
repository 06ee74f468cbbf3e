//! Tests of sessions of one process over the software plugin, where something is late, fails or
//! leaves.

mod answers;
mod attempting;
mod copying;
mod eager;
mod exporting;
mod gathering;
mod handing_in;
mod lingering;
mod link_copies;
mod meeting;
mod notifying;
mod overtaking;
mod reconnecting;
mod refusing;
mod staging;
mod unpack;
mod withdrawing;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_testkit::PATIENCE;

use super::Session;
use crate::engine::UNPACK_TIMEOUT;
use crate::{MemoryId, PluginChoice, SessionOptions};

/// Any port of this host.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Returns the options that most sessions here start from. The sessions are dropped one after the
/// other, while no other end would answer a goodbye, so they do not wait for an answer.
fn soft() -> SessionOptions {
    SessionOptions::default()
        .plugin(PluginChoice::Soft)
        .progress_thread(false)
        .connect_timeout(PATIENCE)
        .close_timeout(Duration::from_millis(1))
        .peer_timeout(Some(PATIENCE))
}

/// Returns the same options for sessions that part in peace.
fn patient() -> SessionOptions {
    soft().close_timeout(PATIENCE)
}

fn open(options: SessionOptions) -> Session {
    Session::new(options).expect("the software plugin is always there")
}

/// Returns two connected sessions, "left" and "right".
fn connected(options: SessionOptions) -> [Session; 2] {
    let [left, right] = [options.clone(), options].map(open);
    connect(&left, &right);
    [left, right]
}

/// Connects `left` to `right`, by these names.
fn connect(left: &Session, right: &Session) {
    let conn_info = right.listen().expect("listen");
    left.load_remote_conn_info("right", &conn_info).expect("own bytes load");
    thread::scope(|scope| {
        let accepted = scope.spawn(|| right.accept("left"));
        left.connect("right").expect("left connects");
        accepted.join().expect("no panic").expect("right accepts");
    });
}

/// Says goodbye at both ends.
fn part(left: &Session, right: &Session) {
    thread::scope(|scope| {
        let parting = scope.spawn(|| left.disconnect("right"));
        right.disconnect("left").expect("right parts in peace");
        parting.join().expect("no panic").expect("left parts in peace");
    });
}

/// Makes progress in turns until `is_over`.
fn take_turns(sessions: &[&Session], what: &str, mut is_over: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + PATIENCE;
    while !is_over() {
        if Instant::now() >= give_up_at {
            let states: Vec<_> = sessions.iter().map(|session| session.stats().peers).collect();
            panic!("not in {PATIENCE:?}: {what}: {states:?}");
        }
        for session in sessions {
            session.progress();
        }
    }
}

/// Makes rounds until the time has passed after which nothing waits for an unpack any more: one a
/// second, because a process that was stopped has not waited.
fn pass_unpack_timeout(session: &Session) {
    let begin = Instant::now();
    for second in 0..=UNPACK_TIMEOUT.as_secs() {
        session.shared.progress_at(begin + Duration::from_secs(second));
    }
}

/// Returns the number of operations of this end or of peers that use a registration.
fn uses(session: &Session, memory: MemoryId) -> usize {
    session.shared.engine().expect("no fork").resources.ledger.uses(memory)
}
