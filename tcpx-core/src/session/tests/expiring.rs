//! Transfers and operations that a program gives only so much time.

use std::time::{Duration, Instant};

use tcpx_testkit::PATIENCE;

use super::{connected, soft, take_turns};
use crate::engine::round::Rest;
use crate::{
    Access, Error, ExportOptions, MemoryId, MemoryRange, MemoryType, Operation, OperationKind,
    OperationStatus, Post, PostOptions, RemoteAccess, RemoteKey, RemoteRange, Session,
};

/// So short that everything is overdue that does not end by itself.
const SHORT: Duration = Duration::from_millis(1);
const BYTES: u64 = 3_000_000;

fn is_expired(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Err(Error::Expired { peer: Some(peer), after: SHORT }) if peer == "right")
}

#[test]
fn a_round_that_takes_too_long_ends_and_the_next_one_has_its_own_time() {
    let sessions @ [left, right] = &connected(soft().channels(1));
    let memory = left.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory");
    let transfer = left.create_transfer("right").expect("it is up");
    let post = Post { memory, offset: 0, bytes: 8, tag: 1 };
    for _ in 0..2 {
        transfer.set_timeout(Some(SHORT)).expect("it is there");
        transfer.post_recv(post).expect("it fits");
        let mut outcome = Ok(false);
        take_turns(&sessions.each_ref(), "it is given up", || {
            outcome = transfer.is_complete();
            !matches!(outcome, Ok(false))
        });
        assert!(is_expired(&outcome.map(drop)));
        transfer.set_timeout(None).expect("it is there");
        transfer.post_recv(post).expect("it fits");
        let send = right.create_transfer("left").expect("it is up");
        let from = right.register_buffer(vec![7; 8], Access::ReadOnly).expect("memory");
        send.post_send(Post { memory: from, offset: 0, bytes: 8, tag: 1 }).expect("it fits");
        take_turns(&sessions.each_ref(), "it is met", || {
            transfer.is_complete().expect("it goes well")
        });
    }
}

#[test]
fn whoever_rests_wakes_up_when_a_round_is_overdue() {
    const LIMIT: Duration = Duration::from_millis(40);
    let sessions @ [left, _] = &connected(soft().channels(1));
    let memory = left.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory");
    let transfer = left.create_transfer("right").expect("it is up");
    transfer.set_timeout(Some(LIMIT)).expect("it is there");
    transfer.post_recv(Post { memory, offset: 0, bytes: 8, tag: 1 }).expect("it fits");
    let overdue_at = Instant::now() + LIMIT;
    take_turns(&sessions.each_ref(), "it rests, or is given up", || {
        let rest = left.shared.engine().expect("no fork").rest(Instant::now());
        let rests = matches!(rest, Rest::Until(at) if at <= overdue_at);
        assert!(rests || !matches!(rest, Rest::Until(_)) || transfer.error().is_some(), "{rest:?}");
        rests || transfer.error().is_some()
    });
}

struct Remote {
    memory: MemoryId,
    there: MemoryId,
    key: RemoteKey,
}

fn remote([left, right]: &[Session; 2]) -> Remote {
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    left.write_memory(memory, 0, &[7; 100]).expect("it is ours");
    let there = right.allocate(BYTES, MemoryType::Host).expect("memory");
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let key = right.export(there, options).expect("it is registered");
    Remote { memory, there, key }
}

fn prepare(left: &Session, remote: &Remote, kind: OperationKind, bytes: u64) -> Operation {
    let local = [MemoryRange { memory: remote.memory, offset: 0, bytes }];
    let there = [RemoteRange { key: &remote.key, offset: 0, bytes }];
    left.prepare("right", kind, &local, &there).expect("it fits")
}

#[test]
fn a_write_whose_target_does_nothing_ends_in_time_and_works_later() {
    let sessions @ [left, right] = &connected(soft().channels(1));
    let remote = remote(sessions);
    for bytes in [100, BYTES] {
        let operation = prepare(left, &remote, OperationKind::Write, bytes);
        for _ in 0..3 {
            operation.post_with(PostOptions::default().timeout(SHORT)).expect("it is idle");
            // Only this end makes progress.
            assert!(is_expired(&operation.wait(Some(PATIENCE))));
        }
        let timeout = PostOptions::default().timeout(10 * PATIENCE).notification(b"done");
        operation.post_with(timeout).expect("it is idle");
        take_turns(&sessions.each_ref(), "it is done", || {
            !matches!(operation.status(), OperationStatus::Active)
        });
        operation.wait(None).expect("it has time");
        let mut contents = [0; 100];
        take_turns(&sessions.each_ref(), "nothing of the others is under way", || {
            right.read_memory(remote.there, 0, &mut contents).is_ok()
        });
        assert_eq!(contents, [7; 100]);
    }
}

#[test]
fn a_read_ends_when_its_target_sends_no_more() {
    let sessions @ [left, _] = &connected(soft().channels(1));
    let remote = remote(sessions);
    let operation = prepare(left, &remote, OperationKind::Read, BYTES);
    operation.post_with(PostOptions::default().timeout(SHORT)).expect("it is idle");
    let late = Instant::now() + 2 * SHORT;
    while Instant::now() < late {
        left.progress();
    }
    assert!(matches!(operation.status(), OperationStatus::Active), "its memory may be written");
    take_turns(&sessions.each_ref(), "it is over", || {
        !matches!(operation.status(), OperationStatus::Active)
    });
    assert!(is_expired(&operation.wait(None)));
    left.deregister_memory(remote.memory).expect("nothing uses it");
}
