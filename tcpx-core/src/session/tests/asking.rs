//! A program that asks for progress again and again, beside the progress thread of its session.

use std::time::{Duration, Instant};

use tcpx_testkit::{PATIENCE, until};

use super::{connect, open, soft};
use crate::{
    ExportOptions, MemoryId, MemoryRange, MemoryType, Operation, OperationKind, OperationStatus,
    RemoteAccess, RemoteKey, RemoteRange, Session,
};

const BYTES: u64 = 1000;

fn exported(session: &Session) -> (MemoryId, RemoteKey) {
    let memory = session.allocate(BYTES, MemoryType::Host).expect("memory");
    let key = session.export(memory, ExportOptions::new(RemoteAccess::ReadWrite));
    (memory, key.expect("it is registered"))
}

fn prepare(session: &Session, peer: &str, memory: MemoryId, key: &RemoteKey) -> Operation {
    let local = [MemoryRange { memory, offset: 0, bytes: BYTES }];
    let remote = [RemoteRange { key, offset: 0, bytes: BYTES }];
    session.prepare(peer, OperationKind::Write, &local, &remote).expect("it fits")
}

#[test]
fn its_thread_leaves_the_rounds_to_it_and_takes_them_up_again() {
    let [left, right] = [true, false].map(|thread| open(soft().progress_thread(thread)));
    connect(&left, &right);
    let ((mine, my_key), (its, its_key)) = (exported(&left), exported(&right));
    until("the thread begins", || left.shared.is_led());
    // Long enough for some operations also on a machine that has hardly a processor for them.
    left.shared.stand_back.set(Duration::from_millis(300)).expect("it is set once");
    // Nobody else asks the system for the program now: what it posts ends by its own rounds. The
    // same thread makes those of the other end.
    let operation = prepare(&left, "right", mine, &its_key);
    let mut moved_alone = 0;
    let began = Instant::now();
    while moved_alone < 10 {
        assert!(began.elapsed() < PATIENCE, "the thread does not stand back");
        operation.post(None).expect("it is up");
        let mut is_alone = true;
        while matches!(operation.status(), OperationStatus::Active) {
            is_alone &= !left.shared.is_led();
            left.progress();
            left.progress();
            right.progress();
        }
        assert!(matches!(operation.status(), OperationStatus::Done));
        moved_alone += u32::from(is_alone);
    }
    // It asks no more, and is served all the same.
    let back = prepare(&right, "left", its, &my_key);
    back.post(None).expect("it is up");
    back.wait(Some(PATIENCE)).expect("the thread makes the rounds again");
    assert!(left.shared.is_led());
}
