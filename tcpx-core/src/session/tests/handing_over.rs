//! Sessions that come in for another session of a group.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::device::Device;

use super::{open, soft, take_turns};
use crate::completions::peer_queue::PeerQueue;
use crate::control::identity::new_id;
use crate::engine::handing_over::MOST_HANDED_OVER;
use crate::engine::membership::Membership;
use crate::{Error, PeerState, Session, SessionOptions};

fn options() -> SessionOptions {
    soft().channels(1).accept_all(true)
}

/// How many are on their way.
fn handed_over(front: &Session) -> usize {
    front.shared.engine().expect("no fork").handed_over.load(Ordering::Relaxed)
}

/// A member takes long to be made: those that want it wait, up to a number.
#[test]
fn those_who_wait_for_a_member_are_bounded() {
    let (group, secret) = new_id().expect("random bytes");
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = Arc::clone(&gate);
    let completions = Arc::default();
    let membership = Membership {
        group,
        secret,
        device: Device::Host,
        names: Arc::default(),
        peers: Arc::new(PeerQueue::new(Arc::clone(&completions))),
        completions,
        hand_over: Some(Arc::new(move |device, handshake| {
            drop(waits.lock());
            handshake.refuse(format!("{device} is no more"));
        })),
    };
    let front = Session::with_membership(options(), Some(membership)).expect("soft");
    let info = ConnInfo::decode(&front.listen().expect("listen")).expect("own bytes load");
    let info = ConnInfo { session: Device::Gpu(3).session_of(info.session), ..info };
    let client = open(options());
    let names: Vec<String> = (0..=MOST_HANDED_OVER).map(|number| format!("x{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        client.know(name, info.clone()).expect("it is open");
        client.start_connect(name).expect("it is known");
        // One after the other: an address has a share of those that have not said who they are.
        take_turns(&[&front, &client], "they come in", || {
            handed_over(&front) >= (number + 1).min(MOST_HANDED_OVER)
        });
    }
    let failures = |word: &str| {
        let has_failed = |name: &&String| match client.peer_state(name).expect("it is known") {
            PeerState::Failed(Error::Handshake { reason, .. }) => {
                assert!(reason.contains("gpu3"), "{reason}");
                reason.contains(word)
            }
            PeerState::Failed(error) => panic!("{error}"),
            _ => false,
        };
        names.iter().filter(has_failed).count()
    };
    let progress_until = |word: &str, count: usize| {
        take_turns(&[&front, &client], word, || failures(word) >= count);
    };
    progress_until("too many", 1);
    assert_eq!(failures("no more"), 0, "the others wait");
    drop(closed);
    progress_until("no more", MOST_HANDED_OVER);
    assert_eq!(failures("too many"), 1);
}
