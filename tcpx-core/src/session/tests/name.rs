//! A name belongs to one peer after the other.

use std::thread;

use super::connect;
use crate::Session;
use crate::{PluginChoice, SessionOptions};

fn session() -> Session {
    let options = SessionOptions { plugin: PluginChoice::Soft, ..SessionOptions::default() };
    Session::new(options).expect("the software plugin is always there")
}

fn part(left: &Session, right: &Session) {
    thread::scope(|scope| {
        let parting = scope.spawn(|| left.disconnect("right"));
        right.disconnect("left").expect("right parts in peace");
        parting.join().expect("no panic").expect("left parts in peace");
    });
}

/// Of two threads that disconnect a peer, one may come late: then the name is another peer's.
#[test]
fn who_forgets_a_peer_late_leaves_the_next_one_of_its_name_alone() {
    let (left, right) = (session(), session());
    connect(&left, &right);
    let first = left.shared.engine().expect("no fork").peer("right").expect("it is up").0;
    part(&left, &right);
    connect(&left, &right);
    left.shared.engine().expect("no fork").forget(first);
    let (second, _) =
        left.shared.engine().expect("no fork").peer("right").expect("it is another peer's name");
    assert_ne!(first, second);
    part(&left, &right);
    assert!(left.shared.engine().expect("no fork").peer("right").is_err());
}
