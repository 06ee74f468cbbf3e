//! Notifications that wait for room at a peer when somebody leaves.

use std::thread;

use super::{connect, connected, open, patient, soft};
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
