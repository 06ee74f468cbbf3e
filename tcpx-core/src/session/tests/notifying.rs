//! Notifications that wait for room at a peer when somebody leaves.

use std::thread;

use super::{connect, connected, open, patient, soft};
use crate::completions::notification_queue::note_cost;
use crate::{Error, Session};

/// Sends until no more may wait. Returns how many were taken.
fn fill(session: &Session) -> u64 {
    let note = vec![7; 10_000];
    for sent in 0.. {
        match session.notify("right", &note) {
            Ok(()) => {}
            Err(Error::NotificationsFull { .. }) => return sent,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("there is no end to numbers")
}

#[test]
fn what_waits_is_sent_before_a_goodbye() {
    let [left, right] = connected(patient().progress_thread(true));
    let sent = fill(&left);
    let mut taken = Vec::new();
    thread::scope(|scope| {
        let left = scope.spawn(|| left.disconnect("right"));
        while (taken.len() as u64) < sent {
            right.poll_notifications(&mut taken, usize::MAX).expect("no fork");
            thread::yield_now();
        }
        right.disconnect("left").expect("both say it");
        left.join().expect("no panic").expect("both say it");
    });
    assert_eq!(left.stats().total.one_sided.notifications_sent, sent);
    assert_eq!(left.stats().total.one_sided.notifications_unsent, 0);
}

/// The program's own limit counts from the first notification, whether or not the peer is there.
#[test]
fn as_much_waits_for_a_peer_that_is_yet_to_be_reached() {
    let far = open(patient());
    for room in [200_000, 1 << 20] {
        let left = open(soft().notification_bytes(room));
        left.load_remote_conn_info("right", &far.listen().expect("listen")).expect("it loads");
        // It makes no progress, so the link is never proven.
        assert_eq!(fill(&left), u64::from(room) / note_cost(10_000));
    }
}

#[test]
fn what_nobody_gets_is_counted() {
    for both_leave in [true, false] {
        let [left, right] = [soft(), patient()].map(|options| open(options.progress_thread(true)));
        connect(&left, &right);
        let sent = fill(&left);
        if both_leave {
            thread::scope(|scope| {
                let right = scope.spawn(|| right.disconnect("left"));
                // Perhaps before the peer has said so.
                let _ = left.disconnect("right");
                let _ = right.join().expect("no panic");
            });
        } else {
            let outcome = left.disconnect("right");
            assert!(matches!(outcome, Err(Error::Deadline { .. })), "{outcome:?}");
        }
        let stats = left.stats().total.one_sided;
        assert!(stats.notifications_unsent > 0, "{stats:?}");
        assert_eq!(stats.notifications_sent + stats.notifications_unsent, sent);
    }
}
