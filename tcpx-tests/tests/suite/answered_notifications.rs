//! Operations that move no bytes: done when their notification is there.

use std::time::Duration;

use tcpx_core::{Error, Operation, OperationStatus, PostOptions, Session, SessionOptions};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::{lively, open};

const LONGEST: usize = 65_536;

fn options(name: &str) -> SessionOptions {
    lively().name(name).accept_all(true)
}

/// Two sessions; the first has the connection info of the second.
fn pair(change: impl Fn(SessionOptions) -> SessionOptions) -> [Session; 2] {
    let [left, right] = ["left", "right"].map(|name| open(change(options(name))));
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    [left, right]
}

fn run(operation: &Operation, note: Option<&[u8]>) {
    operation.post(note).expect("it is not under way");
    operation.wait(Some(PATIENCE)).expect("it succeeds");
}

/// Also where no message travels on the link, and with a peer that the first post connects.
#[test]
fn a_post_is_done_when_its_notification_is_there() {
    for eager_bytes in [0, 8192] {
        let [left, right] = pair(|options| options.eager_bytes(eager_bytes));
        let notification = left.prepare_notification("right").expect("it is known");
        assert!(matches!(notification.status(), OperationStatus::Idle));
        let longest = vec![7; LONGEST];
        for note in [&b"a"[..], b"", b"b\0c", &longest] {
            run(&notification, Some(note));
            // No thread waits for the notification any more.
            let mut received = Vec::new();
            assert_eq!(right.poll_notifications(&mut received, 9).expect("no fork"), 1);
            assert_eq!((received[0].peer.as_str(), &received[0].bytes[..]), ("left", note));
        }
        run(&notification, None);
        assert_eq!(right.poll_notifications(&mut Vec::new(), 9).expect("no fork"), 0);
        let stats = right.stats().total.one_sided;
        assert_eq!((stats.notifications_received, stats.writes_served), (4, 0));
        let counts = notification.counts().expect("no fork");
        assert_eq!(
            (counts.operations_posted, counts.operations_done, counts.bytes_done),
            (5, 5, 0)
        );
        let too_long = notification.post(Some(&vec![7; LONGEST + 1])).expect_err("it is too long");
        assert!(matches!(too_long, Error::NotificationTooLong { .. }), "{too_long}");
        right.close().expect("left answers");
        let gone = notification.post(Some(b"d")).and_then(|()| notification.wait(Some(PATIENCE)));
        gone.expect_err("the peer has gone");
    }
}

/// What the peer's program does not take has no room at some time: posts wait then, and end.
#[test]
fn a_post_waits_for_room_at_the_peer() {
    let [left, right] = pair(|options| options.notification_bytes(2 * LONGEST as u32));
    let note = vec![3; LONGEST / 2];
    let prepare = |_| left.prepare_notification("right").expect("it is known");
    let posts: Vec<Operation> = (0..9).map(prepare).collect();
    posts.iter().for_each(|it| it.post(Some(&note)).expect("it waits"));
    for done in &posts[..3] {
        done.wait(Some(PATIENCE)).expect("there is room for it");
    }
    assert!(matches!(posts[8].status(), OperationStatus::Active));
    posts[8].cancel().expect("no fork");
    let cancelled = posts[8].wait(Some(PATIENCE)).expect_err("it was given up");
    assert!(matches!(cancelled, Error::Cancelled), "{cancelled}");
    let mut late = PostOptions::default().timeout(Duration::from_millis(1));
    late.notification = Some(&note);
    posts[8].post_with(late).expect("it ended");
    let expired = posts[8].wait(Some(PATIENCE)).expect_err("there is no room");
    assert!(matches!(expired, Error::Expired { .. }), "{expired}");
    let mut received = Vec::new();
    while received.len() < 8 {
        right.wait_notifications(&mut received, 9, Some(PATIENCE)).expect("one comes");
    }
    posts[..8].iter().for_each(|it| it.wait(Some(PATIENCE)).expect("there is room by now"));
    assert_eq!(
        right.poll_notifications(&mut received, 9).expect("no fork"),
        0,
        "none of what failed"
    );
}

#[test]
fn groups_have_them_under_any_name_of_the_peer() {
    let [left, right] = ["left", "right"].map(|name| {
        Session::new(options(name).all_devices(true)).expect("the software plugin is always there")
    });
    let info = right.listen().expect("listen");
    for name in ["right", "other"] {
        left.load_remote_conn_info(name, &info).expect("own bytes load");
        let notification = left.prepare_notification(name).expect("it is known");
        run(&notification, Some(name.as_bytes()));
        let mut received = Vec::new();
        assert_eq!(right.poll_notifications(&mut received, 9).expect("no fork"), 1);
        assert_eq!(received[0].bytes, name.as_bytes());
    }
    let unknown = left.prepare_notification("unknown").expect_err("no such peer");
    assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
}
