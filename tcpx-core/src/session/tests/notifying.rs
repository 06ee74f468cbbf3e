//! Notifications that wait for room at a peer when somebody leaves.

use std::thread;

use tcpx_protocol::types::note_cost;

use super::{connect, connected, open, patient, soft, take_turns};
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

/// Each peer has its own, and what it does not take waits at its sender.
#[test]
fn where_a_session_keeps_nothing_beside_for_its_peers_all_goes_on() {
    let [left, right] = connected(soft().kept_for_peers_bytes(0));
    let sent = fill(&left);
    let of_its_own = (72 << 10) / note_cost(10_000);
    let mut taken = Vec::new();
    take_turns(&[&left, &right], "all are taken", || {
        let waiting = right.stats().notifications_waiting as u64;
        assert!(waiting <= of_its_own, "{waiting} wait");
        right.poll_notifications(&mut taken, 1).expect("no fork");
        taken.len() as u64 == sent
    });
    assert_eq!(right.stats().kept_for_peers_bytes, 0);
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
