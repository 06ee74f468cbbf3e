//! Two sessions of one process that know each other, for tests.

use std::thread;

use super::Session;

/// Connects `left` to `right`, by these names.
pub(super) fn connect(left: &Session, right: &Session) {
    let conn_info = right.listen().expect("listen");
    left.load_remote_conn_info("right", &conn_info).expect("own bytes load");
    thread::scope(|scope| {
        let accepted = scope.spawn(|| right.accept("left"));
        left.connect("right").expect("left connects");
        accepted.join().expect("no panic").expect("right accepts");
    });
}
