//! Operations whose peer has ended, and is there again.

use tcpx_testkit::PATIENCE;

use super::{connect, connected, open, part, patient};
use crate::{
    Departure, Error, ExportOptions, MemoryId, MemoryRange, MemoryType, Operation, OperationKind,
    OperationStatus, RemoteAccess, RemoteKey, RemoteProblem, RemoteRange, Session,
};

const BYTES: u64 = 1000;

fn exported(session: &Session) -> (MemoryId, RemoteKey) {
    let memory = session.allocate(BYTES, MemoryType::Host).expect("memory");
    let key = session.export(memory, ExportOptions::new(RemoteAccess::ReadWrite));
    (memory, key.expect("it is registered"))
}

fn prepare(session: &Session, memory: MemoryId, key: &RemoteKey) -> Operation {
    let local = [MemoryRange { memory, offset: 0, bytes: BYTES }];
    let remote = [RemoteRange { key, offset: 0, bytes: BYTES }];
    session.prepare("right", OperationKind::Write, &local, &remote).expect("it fits")
}

fn run(operation: &Operation) -> Result<(), Error> {
    operation.post(None)?;
    operation.wait(Some(PATIENCE))
}

#[test]
fn an_operation_is_posted_again_to_the_same_session() {
    let [left, right] = connected(patient().progress_thread(true));
    let (there, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    for round in 1..=3 {
        left.write_memory(memory, 0, &[round; BYTES as usize]).expect("nothing uses it");
        run(&operation).expect("it is up");
        let mut contents = [0; BYTES as usize];
        right.read_memory(there, 0, &mut contents).expect("nothing uses it");
        assert_eq!(contents, [round; BYTES as usize]);
        assert_eq!(left.stats().peers[0].one_sided.ranges_told, 1, "once on each connection");
        part(&left, &right);
        assert!(matches!(operation.status(), OperationStatus::Done), "as the last post ended");
        connect(&left, &right);
    }
}

#[test]
fn what_its_peer_took_along_stays_its_status_until_it_is_posted_again() {
    let [left, right] = connected(patient().progress_thread(true));
    let (_, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    let (peer, _) = right.shared.engine().expect("no fork").peer("left").expect("it is up");
    {
        let mut engine = right.shared.engine().expect("no fork");
        engine.fail_peer(peer, Error::Cancelled);
    }
    let is_abort =
        |error: &Error| matches!(error, Error::PeerGone { how: Departure::Abort(_), .. });
    let failed = loop {
        // The word of its end may still be on its way.
        if let Err(error) = run(&operation) {
            break error;
        }
    };
    assert!(is_abort(&failed), "{failed:?}");
    assert!(operation.post(None).is_err_and(|error| is_abort(&error)), "it is not up");
    right.disconnect("left").ok();
    left.disconnect("right").ok();
    connect(&left, &right);
    run(&operation).expect("it is up again");
    assert!(matches!(operation.status(), OperationStatus::Done));
}

#[test]
fn another_session_of_the_name_is_not_written_to() {
    let [left, right] = connected(patient().progress_thread(true));
    let (_, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    run(&operation).expect("it is up");
    part(&left, &right);
    let next = open(patient().progress_thread(true));
    connect(&left, &next);
    let refused = operation.post(None);
    let is_told = |problem: &RemoteProblem| *problem == RemoteProblem::AnotherSession;
    assert!(matches!(&refused, Err(Error::Remote { problem, .. }) if is_told(problem)));
    assert!(matches!(operation.status(), OperationStatus::Done), "nothing was posted");
    assert_eq!(next.stats().total.one_sided.writes_served, 0);
}
