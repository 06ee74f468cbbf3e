//! A session whose process may open 1,024 files, with more peers than a third of that number. A
//! peer whose messages travel on the control link takes one socket.

use std::fs::read_dir;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tcpx_core::{Error, MemoryId, MemoryType, Post, Session, SessionOptions, Transfer};
use tcpx_testkit::{CapturedLog, PATIENCE, again, in_own_process, process, until};
use tcpx_tests::sessions::{contents, lively, memory, notifications, open, pair, soft, some_bytes};

const FILES: u64 = 1024;
const PEERS: usize = 320;
const LITTLE: usize = 4096;
const MUCH: usize = 64 << 20;
/// Variable that has the hub's connection info.
const INFO: &str = "TCPX_TEST_INFO";

/// What a peer's bytes are made of, and the answers to them.
fn seeds(name: &str) -> [u64; 2] {
    let number: u64 = name.trim_start_matches("peer").parse().expect("a number");
    [number, 1_000 + number]
}

fn descriptors() -> usize {
    read_dir("/proc/self/fd").expect("procfs is mounted").count()
}

fn limit_files(current: impl FnOnce(Option<u64>) -> Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    let current = current(limit.maximum);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("no more than before");
}

fn whole(memory: MemoryId, bytes: usize) -> Post {
    Post { memory, offset: 0, bytes: bytes as u64, tag: 1 }
}

fn receive(session: &Session, peer: &str, bytes: usize) -> (Transfer, MemoryId) {
    let into = memory(session, MemoryType::Host, &vec![0; bytes]);
    let transfer = session.create_transfer(peer).expect("it is up");
    transfer.post_recv(whole(into, bytes)).expect("it fits");
    (transfer, into)
}

fn send(session: &Session, peer: &str, content: &[u8]) {
    let from = memory(session, MemoryType::Host, content);
    let transfer = session.create_transfer(peer).expect("it is up");
    transfer.post_send(whole(from, content.len())).expect("it fits");
    transfer.wait(Some(PATIENCE)).expect("it is sent");
}

/// The process of the peers.
fn be_peers() {
    limit_files(|maximum| maximum);
    let info = std::env::var(INFO).expect("the hub has set it");
    let info: Vec<u8> = info.split_whitespace().map(|byte| byte.parse().expect("a byte")).collect();
    let connect = |number: usize| {
        let name = format!("peer{number}");
        let peer = open(soft().name(&name));
        peer.load_remote_conn_info("hub", &info).expect("own bytes load");
        peer.connect("hub").expect("the hub accepts every peer");
        peer.notify("hub", name.as_bytes()).expect("there is room");
        send(&peer, "hub", &some_bytes(seeds(&name)[0], LITTLE));
        (name, peer)
    };
    let peers: Vec<_> = (0..PEERS).map(connect).collect();
    for (name, peer) in &peers {
        let (transfer, answer) = receive(peer, "hub", LITTLE);
        transfer.wait(Some(PATIENCE)).expect("the hub answers");
        assert_eq!(contents(peer, answer, LITTLE), some_bytes(seeds(name)[1], LITTLE));
    }
    let (name, first) = &peers[0];
    send(first, "hub", &some_bytes(seeds(name)[0], MUCH));
    for (_, peer) in &peers {
        let mut notes = Vec::new();
        peer.wait_notifications(&mut notes, 1, Some(PATIENCE))
            .expect("the notification of the hub");
        assert_eq!(notes[0].bytes, b"leave");
        peer.disconnect("hub").expect("the hub answers");
    }
}

fn hub() -> SessionOptions {
    let listen = "127.0.0.1:0".parse().expect("an address");
    lively().name("hub").accept_all(true).listen(listen)
}

#[test]
fn a_process_of_1024_files_has_more_than_300_peers() {
    if process::role().as_deref() == Some("peers") {
        return be_peers();
    }
    in_own_process!();
    limit_files(|_| Some(FILES));
    let hub = open(hub());
    let info: Vec<_> = hub.listen().expect("listen").iter().map(u8::to_string).collect();
    let before = descriptors();
    let mut peers = process::Owned::start(again!("peers").env(INFO, info.join(" ")));
    let mut names: Vec<_> = notifications(&hub, PEERS).into_iter().map(|note| note.peer).collect();
    names.sort_unstable();
    let messages: Vec<_> = names.iter().map(|name| receive(&hub, name, LITTLE)).collect();
    for (name, (transfer, message)) in names.iter().zip(messages) {
        transfer.wait(Some(PATIENCE)).expect("it went ahead");
        assert_eq!(contents(&hub, message, LITTLE), some_bytes(seeds(name)[0], LITTLE), "{name}");
    }
    let taken = descriptors() - before;
    assert!(taken < PEERS + 20, "{taken} descriptors for {PEERS} peers");
    let (much, into) = receive(&hub, "peer0", MUCH);
    names.iter().for_each(|name| send(&hub, name, &some_bytes(seeds(name)[1], LITTLE)));
    much.wait(Some(PATIENCE)).expect("its channels are made for it");
    assert!(contents(&hub, into, MUCH) == some_bytes(0, MUCH), "wrong bytes");
    let stats = hub.stats().peers;
    assert_eq!(stats.iter().filter(|peer| peer.state == "up").count(), PEERS);
    let have_channels: Vec<_> = stats.iter().filter(|peer| !peer.channels.is_empty()).collect();
    assert!(have_channels.len() == 1 && have_channels[0].name == "peer0", "{have_channels:?}");
    names.iter().for_each(|name| hub.notify(name, b"leave").expect("there is room"));
    let left = peers.wait_for(PATIENCE).expect("the peers leave");
    assert!(left.success(), "{left}");
    until("descriptors are back", || descriptors() <= before);
}

/// Channels that cannot be made end the peer as they do when connect makes them, and what the log
/// says of it is no warning.
#[test]
fn a_message_without_descriptors_for_its_channels_fails_with_the_reason() {
    in_own_process!();
    let log = CapturedLog::of_all_threads();
    let [left, right] = pair(lively());
    let (received, _) = receive(&left, "right", MUCH);
    let from = memory(&right, MemoryType::Host, &some_bytes(1, MUCH));
    let sent = right.create_transfer("left").expect("it is up");
    let may_be_open = descriptors() as u64 + 2;
    limit_files(|_| Some(may_be_open));
    sent.post_send(whole(from, MUCH)).expect("it fits");
    let errors = [sent, received].map(|it| it.wait(Some(PATIENCE)).expect_err("no channels"));
    limit_files(|maximum| maximum);
    let is_named = |error: &Error| error.to_string().contains("TCPX-608");
    assert!(errors.iter().any(is_named), "{errors:?}");
    let text = log.text();
    let is_line = |line: &str| line.contains("ERROR") && line.contains("TCPX-608");
    assert!(text.lines().any(is_line), "{text}");
}
