//! Failures of an operation of several devices.

use std::time::Duration;

use tcpx_core::{Error, OperationKind, OperationStatus, PostOptions, RemoteProblem};
use tcpx_testkit::{PATIENCE, again, until};

use super::groups::{crosswise, notes, pair, prepare};
use super::served::{Served, is_server};

#[test]
fn one_revoked_key_ends_the_whole_operation() {
    let ([left, right], [ours, theirs]) = pair();
    let whole = crosswise();
    let write = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &whole);
    let write = write.expect("it fits");
    write.post(None).expect("it is not under way");
    write.wait(Some(PATIENCE)).expect("it succeeds");
    // Device 1 here writes it: not the first part, and not the last.
    right.unexport(&theirs.keys[2]).expect("nothing uses it");
    theirs.fill_all(&right, 9);
    for _ in 0..20 {
        write.post(Some(b"never")).expect("it is not under way");
        let refused = write.wait(Some(PATIENCE)).expect_err("it opens nothing");
        let is_named = matches!(&refused, Error::Remote {
            peer: Some(peer), problem: RemoteProblem::Revoked, ..
        } if peer == "right/gpu1 from gpu0");
        assert!(is_named, "{refused}");
        assert!(matches!(write.status(), OperationStatus::Failed(_)));
    }
    assert!(theirs.contents(&right, 2).iter().all(|byte| *byte == 9), "it is not exported");
    // The rest goes on, and no notification has come of what failed.
    let rest = [whole[0], whole[2]];
    let rest = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &rest);
    let rest = rest.expect("it fits");
    rest.post(Some(b"rest")).expect("it is not under way");
    rest.wait(Some(PATIENCE)).expect("it succeeds");
    assert_eq!(notes(&right, 1), [b"rest"]);
    assert_eq!(right.poll_notifications(&mut Vec::new(), 1).expect("no fork"), 0);
    drop((write, rest));
    for id in ours.ids {
        left.deregister_memory(id).expect("nothing uses it");
    }
}

#[test]
fn a_peer_that_is_killed_ends_all_of_it() {
    if is_server() {
        return;
    }
    for kind in [OperationKind::Write, OperationKind::Read] {
        let mut served = Served::new(again!("server"));
        let operation = served.prepare(kind);
        served.stop();
        operation.post(Some(b"never")).expect("it waits");
        served.child.kill().expect("it lives");
        let gone = operation.wait(Some(PATIENCE)).expect_err("the peer has gone");
        let is_named = matches!(&gone, Error::PeerGone { peer, .. }
            if peer.starts_with("server") && peer.contains(" from "));
        assert!(is_named, "{gone}");
        let again = operation.post(None).and_then(|()| operation.wait(Some(PATIENCE)));
        again.expect_err("the peer has gone");
        drop(operation);
        for id in served.ours.ids {
            served.client.deregister_memory(id).expect("nothing uses it");
        }
    }
}

/// The peer does nothing, so no part ends by itself.
#[test]
fn it_is_cancelled_and_let_go_of_under_way() {
    if is_server() {
        return;
    }
    let served = Served::new(again!("server"));
    let write = served.prepare(OperationKind::Write);
    write.cancel().expect("nothing is under way");
    for note in [None, Some(&b"never"[..])] {
        served.stop();
        write.post(note).expect("it is not under way");
        assert!(matches!(write.status(), OperationStatus::Active));
        let busy = write.post(note).expect_err("it is under way");
        assert!(matches!(&busy, Error::PeerState { peer, .. } if peer == "server"), "{busy}");
        let short = write.wait(Some(Duration::from_millis(10))).expect_err("no answer");
        assert!(
            matches!(&short, Error::Deadline { peer: Some(peer), .. } if peer.contains(" from ")),
            "{short}"
        );
        write.cancel().expect("no fork");
        served.go_on();
        let cancelled = write.wait(Some(PATIENCE)).expect_err("it was given up");
        assert!(matches!(cancelled, Error::Cancelled), "{cancelled}");
        // It can be posted again.
        write.post(None).expect("it is not under way");
        write.wait(Some(PATIENCE)).expect("it succeeds");
    }
    for (kind, note) in [
        (OperationKind::Write, None),
        (OperationKind::Write, Some(&b"never"[..])),
        (OperationKind::Read, None),
        (OperationKind::Read, Some(&b"never"[..])),
    ] {
        let released = served.prepare(kind);
        released.report_completions(9).expect("no fork");
        served.stop();
        released.post(note).expect("it waits");
        drop(released);
        served.go_on();
    }
    drop(write);
    for id in served.ours.ids {
        served.client.deregister_memory(id).expect("what was released comes to its end");
    }
    assert_eq!(served.client.poll_completions(&mut Vec::new(), 9).expect("no fork"), 0);
}

/// One part cannot be posted: the other, which the peer does not answer, is given up.
#[test]
fn a_sub_operation_that_fails_ends_the_others() {
    if is_server() {
        return;
    }
    let served = Served::new(again!("server"));
    let write = served.prepare(OperationKind::Write);
    served.client.deregister_memory(served.ours.ids[2]).expect("nothing uses it");
    served.stop();
    write.post(Some(b"never")).expect("the first part is posted");
    let failed = write.wait(Some(PATIENCE)).expect_err("a part has no memory");
    let is_it = matches!(failed, Error::UnknownRegistration { id } if id == served.ours.ids[2]);
    assert!(is_it, "{failed}");
    served.client.deregister_memory(served.ours.ids[0]).expect("nothing uses it");
    // The first part, too: nothing is posted, so the call returns the error.
    let refused = write.post(None).expect_err("no part has memory");
    assert!(matches!(refused, Error::UnknownRegistration { id } if id == served.ours.ids[0]));
    let counts = write.counts().expect("no fork");
    assert_eq!((counts.operations_posted, counts.operations_done), (1, 1));
}

#[test]
fn it_ends_when_its_time_is_over() {
    if is_server() {
        return;
    }
    let served = Served::new(again!("server"));
    let write = served.prepare(OperationKind::Write);
    write.report_completions(3).expect("no fork");
    let time = Duration::from_millis(200);
    for note in [None, Some(&b"late"[..])] {
        served.stop();
        let mut options = PostOptions::default().timeout(time);
        options.notification = note;
        write.post_with(options).expect("it is not under way");
        let expired = write.wait(Some(PATIENCE)).expect_err("no answer");
        let is_it = matches!(&expired, Error::Expired { peer: Some(peer), after }
            if *after == time && peer.starts_with("server"));
        assert!(is_it, "{expired}");
        let mut completed = Vec::new();
        until("its end is reported", || {
            served.client.poll_completions(&mut completed, 1).expect("no fork") == 1
        });
        assert!(matches!(completed[0].result, Err(Error::Expired { .. })));
        served.go_on();
        // With time enough it goes well, and the notification waits no longer than the rest.
        write.post_with(PostOptions::default().timeout(Duration::from_secs(60))).expect("it ended");
        write.wait(Some(PATIENCE)).expect("it succeeds");
        until("its end is reported", || {
            served.client.poll_completions(&mut completed, 1).expect("no fork") == 1
        });
    }
    assert_eq!(write.counts().expect("no fork").operations_done, 4);
}
