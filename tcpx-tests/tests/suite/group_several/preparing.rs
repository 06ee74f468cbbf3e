//! Refusals of what cannot be one operation.

use tcpx_core::{
    Error, MemoryRange, OperationKind, Post, RegistrationProblem, RemoteProblem, RemoteRange,
};
use tcpx_testkit::PATIENCE;

use super::groups::{BYTES, Range, crosswise, notes, pair, prepare};

#[test]
fn a_range_that_does_not_fit_is_refused_with_its_index() {
    let ([left, right], [ours, theirs]) = pair();
    let memory = (&ours.ids, &theirs.keys);
    let try_prepare =
        |ranges: &[Range]| prepare(&left, "right", OperationKind::Write, memory, ranges);
    let mut outside = crosswise();
    for (place, peer) in [(0, "right/gpu0 from host"), (1, "right/gpu1 from gpu0")] {
        outside[place].there.1 = 1;
        let refused = try_prepare(&outside).expect_err("it reaches past the end");
        let is_named = matches!(&refused, Error::Remote {
            peer: Some(named),
            problem: RemoteProblem::OutOfRange { index, offset: 1, bytes: BYTES, .. },
            ..
        } if named == peer && *index == place);
        assert!(is_named, "{refused}");
        outside[place].there.1 = 0;
    }
    for offset in [u64::MAX, u64::MAX - BYTES + 1] {
        outside[0].here.1 = offset;
        let refused = try_prepare(&outside).expect_err("there is no such memory");
        assert!(matches!(refused, Error::Registration { .. }), "{refused}");
    }
    let empty = crosswise().map(|range| Range { bytes: 0, ..range });
    let refused = try_prepare(&empty).expect_err("nothing is to be moved");
    assert!(matches!(refused, Error::Remote { problem: RemoteProblem::Nothing, .. }), "{refused}");
    let local =
        crosswise().map(|it| MemoryRange { memory: ours.ids[it.here.0], offset: 0, bytes: 8 });
    let remote =
        [0, 1].map(|device| RemoteRange { key: &theirs.keys[device], offset: 0, bytes: 8 });
    let refused = left.prepare("right", OperationKind::Write, &local, &remote);
    let refused = refused.expect_err("one is alone");
    let differs =
        matches!(refused, Error::Remote { problem: RemoteProblem::LengthsDiffer { .. }, .. });
    assert!(differs, "{refused}");
    // Empty ranges of other devices are no parts, but what they name is looked at.
    let mut one = crosswise().map(|range| Range { bytes: 0, ..range });
    one[1].bytes = 5000;
    let write = try_prepare(&one).expect("it fits");
    write.post(Some(b"one")).expect("it is not under way");
    write.wait(Some(PATIENCE)).expect("it succeeds");
    assert_eq!(notes(&right, 1), [b"one"]);
    left.deregister_memory(ours.ids[2]).expect("nothing uses it");
    let refused = try_prepare(&one).expect_err("one is not registered");
    assert!(matches!(refused, Error::UnknownRegistration { id } if id == ours.ids[2]), "{refused}");
    assert!(matches!(try_prepare(&crosswise()), Err(Error::UnknownRegistration { .. })));
    let unknown = prepare(&left, "unknown", OperationKind::Write, memory, &crosswise());
    let unknown = unknown.expect_err("no such peer");
    assert!(
        matches!(&unknown, Error::UnknownPeer { peer, .. } if peer == "unknown/gpu0 from host"),
        "{unknown}"
    );
}

#[test]
fn memory_of_a_gpu_is_neither_sent_nor_received_by_tag() {
    let ([left, right], [ours, theirs]) = pair();
    left.connect("right").expect("it is there");
    let transfer = left.create_transfer("right").expect("it is up");
    let post = Post { memory: ours.ids[2], offset: 0, bytes: BYTES, tag: 0 };
    for refused in [transfer.post_send(post), transfer.post_recv(post)] {
        let refused = refused.expect_err("it is not of the host");
        let problem = RegistrationProblem::GpuByTag { gpu: 1 };
        let is_named = matches!(&refused, Error::Registration { id, problem: named }
            if *id == Some(post.memory) && *named == problem);
        assert!(is_named && refused.to_string().contains("gpu = 1 alone"), "{refused}");
    }
    // Once the memory is gone, and no GPU's memory at all, the id says what it was of.
    left.deregister_memory(post.memory).expect("nothing uses it");
    assert!(transfer.post_send(post).is_err());
    // Memory of the host is sent as ever.
    transfer.post_send(Post { memory: ours.ids[0], ..post }).expect("it is of the host");
    let there = right.create_transfer("left").expect("it is up");
    there.post_recv(Post { memory: theirs.ids[0], ..post }).expect("it is of the host");
    there.wait(Some(PATIENCE)).expect("it succeeds");
    transfer.wait(Some(PATIENCE)).expect("it succeeds");
}
