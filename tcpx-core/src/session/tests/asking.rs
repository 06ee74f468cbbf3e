//! A program that asks for progress again and again, beside the progress thread of its session.

use std::time::{Duration, Instant};

use crate::{
    ExportOptions, MemoryId, MemoryRange, MemoryType, Operation, OperationKind, OperationStatus,
    PluginChoice, RemoteAccess, RemoteKey, RemoteRange, Session, SessionOptions,
};

const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: u64 = 1000;

fn session() -> Session {
    let options = SessionOptions::default().plugin(PluginChoice::Soft).progress_thread(true);
    Session::new(options).expect("it is always there")
}

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
    let (left, right) = (session(), session());
    super::connect(&left, &right);
    let ((mine, my_key), (its, its_key)) = (exported(&left), exported(&right));
    let began = Instant::now();
    while !left.shared.is_led() {
        assert!(began.elapsed() < PATIENCE, "the thread does not begin");
        std::thread::yield_now();
    }
    // Nobody else asks the system for the program now: what it posts ends by its own rounds.
    let operation = prepare(&left, "right", mine, &its_key);
    let mut moved_alone = 0;
    while moved_alone < 10 {
        assert!(began.elapsed() < PATIENCE, "the thread does not stand back");
        operation.post(None).expect("it is up");
        let mut is_alone = true;
        while matches!(operation.status(), OperationStatus::Active) {
            is_alone &= !left.shared.is_led();
            left.progress();
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
