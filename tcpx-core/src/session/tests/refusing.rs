//! Tests of requests for memory that a session has not exported, or not for this access: refused,
//! and counted.

use tcpx_protocol::exports::capability::ExportSecret;
use tcpx_testkit::{PATIENCE, until};

use super::{connected, soft};
use crate::{
    Error, ExportOptions, LinkBytes, MemoryRange, MemoryType, OneSidedStats, OperationKind,
    RemoteAccess, RemoteKey, RemoteRange, Session,
};

const BYTES: u64 = 300_000;
const LITTLE: u64 = 1000;

struct ReadingSessions {
    left: Session,
    right: Session,
    here: crate::MemoryId,
    there: crate::MemoryId,
}

impl ReadingSessions {
    fn new() -> Self {
        // Little travels on the link, and a lot on the channels.
        let options = soft().link_bytes(LinkBytes::Most(LITTLE));
        let [left, right] = connected(options.progress_thread(true));
        let filled = |session: &Session, byte| {
            let memory = session.allocate(BYTES, MemoryType::Host).expect("memory");
            session.write_memory(memory, 0, &vec![byte; BYTES as usize]).expect("it is ours");
            memory
        };
        let (here, there) = (filled(&left, 1), filled(&right, 2));
        Self { left, right, here, there }
    }

    fn key(&self, access: RemoteAccess) -> RemoteKey {
        self.right.export(self.there, ExportOptions::new(access)).expect("it may be")
    }

    /// Makes a request as a program would that does not respect the terms of its key.
    fn ask(&self, kind: OperationKind, key: &RemoteKey, bytes: u64) -> Result<(), Error> {
        let local = [MemoryRange { memory: self.here, offset: 0, bytes }];
        let remote = [RemoteRange { key, offset: key.bytes() - bytes, bytes }];
        let operation = self.left.prepare("right", kind, &local, &remote)?;
        operation.post(Some(b"note"))?;
        operation.wait(Some(PATIENCE))
    }

    fn stats(&self) -> OneSidedStats {
        let report = self.right.stats();
        assert_eq!(report.total.one_sided, report.peers[0].one_sided);
        report.total.one_sided
    }
}

#[test]
fn a_refused_request_counts_by_its_reason_and_moves_nothing() {
    let ends = ReadingSessions::new();
    let (whole, read_only) = (ends.key(RemoteAccess::ReadWrite), ends.key(RemoteAccess::Read));
    let taken_back = ends.key(RemoteAccess::ReadWrite);
    ends.right.unexport(&taken_back).expect("it is unused");
    let unknown = RemoteKey { secret: ExportSecret::new([7; 16]), ..whole.clone() };
    let past_end = RemoteKey { bytes: BYTES + 1, ..whole.clone() };
    let allowed = RemoteKey { access: RemoteAccess::ReadWrite, ..read_only.clone() };
    let mut expected = OneSidedStats::default();
    // On the link, and on channels.
    for bytes in [LITTLE, BYTES] {
        for kind in [OperationKind::Write, OperationKind::Read] {
            for (key, reason) in [(&unknown, 0), (&past_end, 1), (&allowed, 2), (&taken_back, 3)] {
                if reason == 2 && kind == OperationKind::Read {
                    continue;
                }
                let refused = ends.ask(kind, key, bytes);
                assert!(matches!(refused, Err(Error::Remote { .. })), "{reason}: {refused:?}");
                *[
                    &mut expected.refused_key,
                    &mut expected.refused_range,
                    &mut expected.refused_access,
                    &mut expected.revoked,
                ][reason] += 1;
                assert_eq!(ends.stats(), expected, "{kind:?} of {bytes}, reason {reason}");
            }
        }
    }
    let mut contents = vec![0; BYTES as usize];
    for (session, memory, byte) in [(&ends.left, ends.here, 1), (&ends.right, ends.there, 2)] {
        session.read_memory(memory, 0, &mut contents).expect("nothing uses it");
        assert!(contents.iter().all(|it| *it == byte), "something has moved");
    }
    assert_eq!(ends.right.poll_notifications(&mut Vec::new(), 9).expect("no fork"), 0);
}

#[test]
fn an_operation_works_again_when_its_stable_key_is_exported_again() {
    let ends = ReadingSessions::new();
    let stable = ExportOptions::new(RemoteAccess::ReadWrite).stable(true);
    let export = || ends.right.export(ends.there, stable).expect("it may be");
    let key = export();
    let other = ends.key(RemoteAccess::ReadWrite);
    for (kind, bytes) in
        [(OperationKind::Write, 1000), (OperationKind::Write, BYTES), (OperationKind::Read, BYTES)]
    {
        let half = bytes / 2;
        let local = [0, half].map(|offset| MemoryRange { memory: ends.here, offset, bytes: half });
        let remote = [(&key, 0), (&other, half)].map(|(key, offset)| RemoteRange {
            key,
            offset,
            bytes: half,
        });
        let operation = ends.left.prepare("right", kind, &local, &remote).expect("it fits");
        let run = || {
            operation.post(None).expect("it is not under way");
            operation.wait(Some(PATIENCE))
        };
        for _ in 0..2 {
            run().expect("it is exported");
            run().expect("it is exported");
            ends.right.unexport(&key).expect("nothing uses it");
            for _ in 0..2 {
                let refused = run();
                assert!(matches!(refused, Err(Error::Remote { .. })), "{kind:?}: {refused:?}");
            }
            assert_eq!(export().serialize(), key.serialize());
        }
    }
}

#[test]
fn what_is_served_counts_at_the_target_and_what_is_told_at_the_initiator() {
    let ends = ReadingSessions::new();
    let key = ends.key(RemoteAccess::ReadWrite);
    for bytes in [1000, BYTES] {
        ends.ask(OperationKind::Write, &key, bytes).expect("it goes well");
        ends.ask(OperationKind::Read, &key, bytes).expect("it goes well");
    }
    // The remains of a read at its target may come after its end here.
    ends.right.unexport(&key).expect("nothing uses it");
    let moved = LITTLE + BYTES;
    let mut expected = OneSidedStats::default();
    (expected.writes_served, expected.reads_served) = (2, 2);
    (expected.bytes_written, expected.bytes_read) = (moved, moved);
    expected.notifications_received = 4;
    (expected.link_bytes_sent, expected.link_bytes_received) = (LITTLE, LITTLE);
    let has_come = || ends.stats().notifications_received == 4;
    until("all notifications come", has_come);
    assert_eq!(ends.stats(), expected);
    let report = ends.right.stats();
    assert_eq!((report.notifications_waiting, report.peers[0].notifications_waiting), (4, 4));
    let mut told = OneSidedStats::default();
    (told.notifications_sent, told.ranges_told) = (4, 4);
    (told.link_bytes_sent, told.link_bytes_received) = (LITTLE, LITTLE);
    assert_eq!(ends.left.stats().total.one_sided, told);
    ends.right.poll_notifications(&mut Vec::new(), 3).expect("no fork");
    assert_eq!(ends.right.stats().peers[0].notifications_waiting, 1);
}
