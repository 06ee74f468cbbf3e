//! A name belongs to one peer after the other.

use super::{connect, connected, part, patient};

/// Of two threads that disconnect a peer, one may come late: then the name is another peer's.
#[test]
fn who_forgets_a_peer_late_leaves_the_next_one_of_its_name_alone() {
    let [left, right] = connected(patient());
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
