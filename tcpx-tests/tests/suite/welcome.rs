//! A listening session connects its peers before its program asks for them by name.

use std::time::Duration;

use tcpx_core::{Departure, Error, MemoryId, MemoryType, Post, Session, SessionOptions};
use tcpx_testkit::{PATIENCE, pattern, until};
use tcpx_tests::sessions::{open, soft};

const BYTES: u64 = 300_000;

fn options(name: &str) -> SessionOptions {
    soft().name(name).chunk_bytes(65_536)
}

fn server() -> (Session, Vec<u8>) {
    let server = open(options("server").progress_thread(true));
    let conn_info = server.listen().expect("listen");
    (server, conn_info)
}

/// Returns a session that has connected, though the server has not called accept.
fn connected(name: &str, conn_info: &[u8]) -> Session {
    let client = open(options(name));
    client.load_remote_conn_info("server", conn_info).expect("load");
    client
        .connect("server")
        .expect("a session that makes progress welcomes a peer that proves itself");
    client
}

fn filled(session: &Session, seed: u64) -> MemoryId {
    let memory = session.allocate(BYTES, MemoryType::Device).expect("memory");
    let mut data = vec![0; BYTES as usize];
    pattern::fill(seed, 0, &mut data);
    session.write_memory(memory, 0, &data).expect("write");
    memory
}

fn verify(session: &Session, memory: MemoryId, seed: u64) {
    let mut data = vec![0; BYTES as usize];
    session.read_memory(memory, 0, &mut data).expect("read");
    assert_eq!(pattern::first_difference(seed, 0, &data), None);
}

fn post(memory: MemoryId, tag: i64) -> Post {
    Post { memory, offset: 0, bytes: BYTES, tag }
}

#[test]
fn a_post_before_the_accept_matches_after_it() {
    let (server, conn_info) = server();
    let client = connected("client", &conn_info);
    let (up, down) = (filled(&client, 1), client.allocate(BYTES, MemoryType::Device).unwrap());
    let transfer = client.create_transfer("server").expect("it is up");
    transfer.post_send(post(up, 7)).unwrap();
    transfer.post_recv(post(down, 8)).unwrap();
    assert!(matches!(transfer.wait(Some(Duration::from_millis(1))), Err(Error::Deadline { .. })));

    server.accept("client").expect("it is here already");
    let (from_client, to_client) =
        (server.allocate(BYTES, MemoryType::Device).unwrap(), filled(&server, 2));
    let answer = server.create_transfer("client").expect("it is up");
    answer.post_recv(post(from_client, 7)).unwrap();
    answer.post_send(post(to_client, 8)).unwrap();
    transfer.wait(Some(PATIENCE)).expect("sent and received");
    answer.wait(Some(PATIENCE)).expect("sent and received");
    verify(&server, from_client, 1);
    verify(&client, down, 2);
}

/// As many as may wait have come, and more try. The one that an accept waits for comes last.
#[test]
fn an_awaited_peer_gets_in_past_many_that_are_not_accepted() {
    let (server, conn_info) = server();
    // They get no goodbye.
    let in_crowd = |name: &str| open(options(name).close_timeout(Duration::from_millis(1)));
    let load = |session: &Session| session.load_remote_conn_info("server", &conn_info);
    std::thread::scope(|scope| {
        let accept = scope.spawn(|| server.accept("last"));
        let crowd: Vec<_> = (0..64).map(|number| in_crowd(&format!("early-{number}"))).collect();
        for session in &crowd {
            load(session).expect("load");
            session.connect("server").expect("there is room for this one");
        }
        let late = open(options("late").connect_timeout(Duration::from_millis(100)));
        load(&late).expect("load");
        late.connect("server").expect_err("there is no room for one more that is not awaited");
        let _last = connected("last", &conn_info);
        accept.join().expect("no panic").expect("it has come");
    });
}

#[test]
fn an_accept_takes_a_peer_of_that_name_or_without_one() {
    let (server, conn_info) = server();
    let clients = ["red", "", "blue"].map(|name| connected(name, &conn_info));
    server.accept("blue").expect("it waits");
    server.accept("unnamed").expect("the one without a name");
    server.accept("red").expect("it waits");
    let mut names: Vec<String> = server.stats().peers.into_iter().map(|peer| peer.name).collect();
    names.sort();
    assert_eq!(names, ["blue", "red", "unnamed"]);
    // The one without a name is the one that got another's.
    let memory = filled(&clients[1], 3);
    let send = clients[1].create_transfer("server").unwrap();
    send.post_send(post(memory, 1)).unwrap();
    let target = server.allocate(BYTES, MemoryType::Device).unwrap();
    let receive = server.create_transfer("unnamed").unwrap();
    receive.post_recv(post(target, 1)).unwrap();
    send.wait(Some(PATIENCE)).unwrap();
    receive.wait(Some(PATIENCE)).unwrap();
    verify(&server, target, 3);
}

#[test]
fn a_goodbye_before_the_accept_waits_for_it() {
    let (server, conn_info) = server();
    let client = connected("client", &conn_info);
    std::thread::scope(|scope| {
        let parted = scope.spawn(|| client.disconnect("server"));
        server.accept("client").expect("it has not gone");
        server.disconnect("client").expect("a goodbye for a goodbye");
        parted.join().expect("no panic").expect("answered");
    });
}

#[test]
fn a_peer_that_gives_up_before_the_accept_is_skipped() {
    let (server, conn_info) = server();
    let hasty = options("client").close_timeout(Duration::from_millis(1));
    let hasty = Session::new(hasty).unwrap();
    hasty.load_remote_conn_info("server", &conn_info).unwrap();
    hasty.connect("server").unwrap();
    drop(hasty);
    until("none waits for an accept", || server.stats().peers.is_empty());
    let _client = connected("client", &conn_info);
    server.accept("client").expect("the second one");
    assert_eq!(server.stats().peers[0].state, "up");
}

#[test]
fn a_session_that_ends_says_goodbye_to_unaccepted_peers() {
    let (server, conn_info) = server();
    let client = connected("client", &conn_info);
    let memory = filled(&client, 1);
    let send = client.create_transfer("server").unwrap();
    send.post_send(post(memory, 1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let error = send.wait(Some(PATIENCE)).expect_err("no receive is posted");
            assert!(matches!(error, Error::PeerGone { how: Departure::Goodbye, .. }), "{error}");
        });
        drop(server);
    });
}

#[test]
fn the_second_accept_of_one_name_is_refused() {
    let (server, conn_info) = server();
    let client = std::thread::scope(|scope| {
        let accepts = [(); 2].map(|()| scope.spawn(|| server.accept("client")));
        let client = connected("client", &conn_info);
        let outcomes = accepts.map(|accept| accept.join().expect("no panic"));
        let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let refused =
            |outcome: &&Result<(), Error>| matches!(outcome, Err(Error::PeerState { .. }));
        assert_eq!((accepted, outcomes.iter().filter(refused).count()), (1, 1), "{outcomes:?}");
        client
    });
    // The one with a progress thread answers the other's goodbye.
    drop(client);
    drop(server);
}
