//! Two sessions that encrypt, and what the tests of encryption move between them.

use tcpx_core::{
    Access, Encryption, MemoryId, MemoryRange, OperationKind, Post, RemoteRange, Session,
    SessionOptions,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::{connect, export, lively, notifications, open};

/// In parts on the link, or in several chunks on the channels.
pub(crate) const LONG: usize = 300_000;
/// On the link, with its header.
pub(crate) const SHORT: usize = 1000;

pub(crate) fn options(encryption: Encryption) -> SessionOptions {
    lively().encryption(encryption)
}

pub(crate) fn pair(left: Encryption, right: Encryption) -> [Session; 2] {
    let [left, right] = [left, right].map(|encryption| open(options(encryption)));
    connect(&left, &right);
    [left, right]
}

pub(crate) fn memory(session: &Session, byte: u8, bytes: usize) -> MemoryId {
    session.register_buffer(vec![byte; bytes.max(1)], Access::ReadWrite).expect("memory")
}

pub(crate) fn is_full_of(session: &Session, memory: MemoryId, byte: u8, bytes: usize) -> bool {
    let mut contents = vec![!byte; bytes];
    session.read_memory(memory, 0, &mut contents).expect("nothing uses it");
    contents == vec![byte; bytes]
}

/// Moves a message of `bytes` bytes, each of them `byte`.
pub(crate) fn message(from: (&Session, &str), to: (&Session, &str), bytes: usize, byte: u8) {
    let [sent, received] = [memory(from.0, byte, bytes), memory(to.0, !byte, bytes)];
    let send = from.0.create_transfer(to.1).expect("it is up");
    let receive = to.0.create_transfer(from.1).expect("it is up");
    let post = |memory| Post { memory, offset: 0, bytes: bytes as u64, tag: 7 };
    send.post_send(post(sent)).expect("it is up");
    receive.post_recv(post(received)).expect("it is up");
    send.wait(Some(PATIENCE)).expect("it is sent");
    receive.wait(Some(PATIENCE)).expect("it is received");
    assert!(is_full_of(to.0, received, byte, bytes), "{bytes} bytes");
}

/// Writes to memory of the peer and reads it back.
pub(crate) fn write_and_read(here: (&Session, &str), there: (&Session, &str), bytes: usize) {
    let exported = memory(there.0, 0, bytes);
    let key = export(there.0, exported);
    let [written, read] = [memory(here.0, 3, bytes), memory(here.0, 4, bytes)];
    for (kind, local) in [(OperationKind::Write, written), (OperationKind::Read, read)] {
        let range = MemoryRange { memory: local, offset: 0, bytes: bytes as u64 };
        let remote = RemoteRange { key: &key, offset: 0, bytes: bytes as u64 };
        let operation = here.0.prepare(there.1, kind, &[range], &[remote]).expect("it fits");
        operation.post(Some(b"note")).expect("it is not under way");
        operation.wait(Some(PATIENCE)).expect("it is served");
        assert!(is_full_of(here.0, local, 3, bytes));
        take_note(there.0);
    }
    assert!(is_full_of(there.0, exported, 3, bytes));
}

fn take_note(session: &Session) {
    assert_eq!(notifications(session, 1)[0].bytes, b"note");
}

pub(crate) fn is_encrypted(session: &Session) -> bool {
    session.stats().peers.iter().all(|peer| peer.link_encrypted)
}
