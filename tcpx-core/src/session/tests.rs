//! Sessions of one process over the software plugin, where something is late, fails or leaves.

mod answers;
mod arrival;
mod asking;
mod attempting;
mod buffer;
mod copying;
mod eager;
mod expiring;
mod exporting;
mod gathering;
mod handing_in;
mod handing_over;
mod late_unpack;
mod listing;
mod meeting;
mod name;
mod notifying;
mod overtaking;
mod parking;
mod peer_events;
mod reconnecting;
mod refusing;
mod staging;
mod unlocked;
mod unpack;
mod withdrawing;

use std::thread;

use super::Session;
use crate::MemoryId;

/// How many operations use a registration, of this end or of peers.
fn uses(session: &Session, memory: MemoryId) -> usize {
    session.shared.engine().expect("no fork").commons.ledger.uses(memory)
}

/// Connects `left` to `right`, by these names.
fn connect(left: &Session, right: &Session) {
    let conn_info = right.listen().expect("listen");
    left.load_remote_conn_info("right", &conn_info).expect("own bytes load");
    thread::scope(|scope| {
        let accepted = scope.spawn(|| right.accept("left"));
        left.connect("right").expect("left connects");
        accepted.join().expect("no panic").expect("right accepts");
    });
}
