//! Tests of accepts and peers that come in every order.

use proptest::prelude::*;

use super::*;

fn named(name: &str) -> Accept {
    Accept::Named(name.to_owned())
}

/// Returns a newcomer whose name no connection info was loaded under.
fn says(given: &str) -> IncomingPeer<'_> {
    IncomingPeer { given, proves: &|_| None }
}

/// Returns a newcomer where connection info was loaded under "a", for this peer or not.
fn beside_a(given: &str, is_a: bool) -> IncomingPeer<'_> {
    let proves: &dyn Fn(&str) -> Option<bool> = match is_a {
        true => &|name| (name == "a").then_some(true),
        false => &|name| (name == "a").then_some(false),
    };
    IncomingPeer { given, proves }
}

#[test]
fn a_name_that_can_be_proven_is_not_had_by_saying_it() {
    let mut queue = AcceptQueue::default();
    assert_eq!(queue.start_accept(named("a"), Some(&|_| false)), None);
    for (peer, given) in [(1, "a"), (2, ""), (3, "b")] {
        assert_eq!(queue.arrive(peer, &beside_a(given, false)), None, "{given}");
    }
    assert!(queue.is_waiting("a"));
    assert_eq!(queue.arrive(4, &beside_a("x", true)), Some(&named("a")), "whatever it says");
    assert_eq!(queue.take_accepted(&named("a")), Some(4));
    // A peer that came before the accept gets the name likewise.
    assert_eq!(queue.arrive(5, &beside_a("", true)), None);
    assert_eq!(queue.start_accept(named("a"), Some(&|peer| peer == 5)), Some(5));
    assert_eq!(queue.start_accept(named("b"), None), Some(3), "other names are as ever");
    assert_eq!(queue.start_accept(named("c"), None), Some(2));
    assert_eq!(queue.start_accept(Accept::Anyone(0), None), Some(1));
}

#[test]
fn a_proven_name_goes_before_one_that_is_said() {
    let mut queue = AcceptQueue::default();
    for accept in [Accept::Anyone(0), named("b"), named("a")] {
        assert_eq!(queue.start_accept(accept, Some(&|_| false)), None);
    }
    assert_eq!(queue.arrive(1, &beside_a("b", true)), Some(&named("a")));
    assert_eq!(queue.arrive(2, &beside_a("b", true)), Some(&named("b")), "a second connection");
    assert_eq!(queue.arrive(3, &beside_a("a", false)), Some(&Accept::Anyone(0)));
    assert!(queue.has_room_for(&beside_a("a", false)), "it may wait");
}

#[test]
fn who_comes_first_waits_for_the_other() {
    let mut queue = AcceptQueue::default();
    assert_eq!(queue.arrive(1, &says("")), None);
    assert_eq!(queue.arrive(2, &says("b")), None);
    assert_eq!(queue.arrive(3, &says("c")), None);
    assert_eq!(queue.start_accept(named("c"), None), Some(3), "its own name goes before no name");
    assert_eq!(queue.take_accepted(&named("c")), Some(3));
    assert_eq!(queue.take_accepted(&named("c")), None, "once");
    assert_eq!(queue.start_accept(named("x"), None), Some(1), "one without a name fits any");
    assert_eq!(queue.start_accept(named("y"), None), None, "one with another name is not");
    assert!(queue.is_accepting("y"));
    assert_eq!(queue.arrive(4, &says("z")), None);
    assert_eq!(queue.arrive(5, &says("y")), Some(&named("y")));
    assert_eq!(queue.arrive(6, &says("y")), None, "the accept has its peer");
    assert_eq!(queue.take_accepted(&named("y")), Some(5));
}

#[test]
fn unclaimed_peers_keep_out_no_accepted_peer() {
    let mut queue = AcceptQueue::default();
    assert_eq!(queue.start_accept(named("last"), None), None);
    (0..MAX_UNCLAIMED).for_each(|peer| assert_eq!(queue.arrive(peer, &says("other")), None));
    assert!(!queue.has_room_for(&says("other")) && queue.has_room_for(&says("last")));
    assert!(queue.has_room_for(&says("")), "one without a name fits any");
    assert_eq!(queue.arrive(MAX_UNCLAIMED, &says("last")), Some(&named("last")));
    assert!(!queue.has_room_for(&says("last")), "its accept has a peer");
    queue.take_gone(|peer| peer == 0);
    assert!(queue.has_room_for(&says("other")));
}

#[test]
fn an_accept_that_gave_up_takes_no_peer() {
    let mut queue = AcceptQueue::default();
    assert_eq!(queue.start_accept(named("a"), None), None);
    assert_eq!(queue.stop_accept(&named("a")), None);
    assert!(!queue.is_accepting("a"));
    assert_eq!(queue.arrive(1, &says("a")), None);
    assert!(queue.why_none().contains("call themselves a"));
}

#[test]
fn an_accept_of_anyone_takes_who_comes_unless_an_accept_of_its_name_waits() {
    let mut queue = AcceptQueue::default();
    queue.arrive(1, &says("a"));
    queue.arrive(2, &says(""));
    assert_eq!(queue.start_accept(Accept::Anyone(0), None), Some(1), "the first that came");
    assert_eq!(queue.start_accept(Accept::Anyone(1), None), Some(2));
    assert_eq!(queue.start_accept(Accept::Anyone(2), None), None);
    assert_eq!(queue.start_accept(named("b"), None), None);
    assert!(queue.awaits("b") && !queue.awaits("a"));
    assert_eq!(queue.arrive(3, &says("b")), Some(&named("b")));
    assert!(!queue.awaits("b") && queue.is_accepting("b"));
    assert_eq!(queue.arrive(4, &says("b")), Some(&Accept::Anyone(2)));
    assert_eq!(queue.arrive(5, &says("")), None, "no accept waits any more");
    assert_eq!(queue.take_accepted(&Accept::Anyone(2)), Some(4));
    assert_eq!(queue.stop_accept(&Accept::Anyone(0)), Some(1), "who has come is not lost");
    assert_eq!(queue.take_accepted(&Accept::Anyone(0)), None);
}

#[test]
fn a_connect_takes_the_first_that_it_would_reach_and_an_accept_is_told() {
    let mut queue = AcceptQueue::default();
    for (peer, given) in [(1, "a"), (2, "b"), (3, "b")] {
        queue.arrive(peer, &says(given));
    }
    assert_eq!(queue.take_for_connect(|_| false), None);
    assert_eq!(queue.take_for_connect(|peer| peer > 1), Some(2));
    assert!(queue.why_none().contains("1 came from where a connect"));
    assert_eq!(queue.start_accept(named("b"), None), Some(3));
    assert_eq!(queue.start_accept(named("c"), None), None);
}

#[test]
fn a_connect_names_once_who_was_accepted_by_itself() {
    let mut queue = AcceptQueue::default();
    assert_eq!(queue.take_by_itself(), None);
    (1..=5).for_each(|peer| assert_eq!(queue.arrive(peer, &says("a")), None));
    assert_eq!([(); 4].map(|()| queue.take_by_itself()), [1, 2, 3, 4].map(Some));
    assert_eq!(queue.take_for_connect(|_| true), Some(5), "one without a name goes first");
    queue.note_named(1);
    assert!(queue.take_gone(|peer| peer == 2).is_empty(), "it was accepted");
    assert_eq!(queue.take_for_connect(|peer| peer == 4), Some(4));
    assert_eq!(queue.take_for_connect(|_| true), Some(3));
    assert_eq!(queue.take_for_connect(|_| true), None);
}

#[test]
fn of_many_that_were_accepted_by_themselves_and_ended_the_first_are_forgotten() {
    let mut queue = AcceptQueue::default();
    for peer in 0..MAX_ENDED + 3 {
        queue.arrive(peer, &says("a"));
        queue.take_by_itself();
    }
    queue.note_named(0);
    queue.note_named(MAX_ENDED);
    queue.note_forgotten(MAX_ENDED);
    assert!(queue.take_gone(|peer| peer != 1).is_empty());
    assert_eq!([(); 2].map(|()| queue.take_ended()), [Some(2), None]);
    assert!(queue.take_gone(|_| true).is_empty());
    assert_eq!([(); 2].map(|()| queue.take_ended()), [Some(3), None]);
}

#[test]
fn peers_that_left_are_counted_and_forgotten() {
    let mut queue = AcceptQueue::default();
    queue.arrive(1, &says("a"));
    queue.arrive(2, &says("a"));
    assert_eq!(queue.take_gone(|peer| peer == 1), [1]);
    assert!(queue.why_none().ends_with("1 came and left before they were accepted"));
    queue.note_why_missed("its plugin failed [TCPX-506]".to_owned());
    assert!(queue.why_none().ends_with("accepted, the last after: its plugin failed [TCPX-506]"));
    assert_eq!(queue.start_accept(named("a"), None), Some(2));
}

proptest! {
    /// In every order of accepts and peers: no peer is taken twice, no peer is lost, and a name
    /// never takes the peer of another name.
    #[test]
    fn every_peer_is_taken_once_or_waits(steps in proptest::collection::vec((any::<bool>(), 0usize..4), 0..100)) {
        const NAMES: [&str; 4] = ["", "a", "b", "c"];
        let mut queue = AcceptQueue::default();
        let (mut came, mut taken) = (Vec::new(), Vec::new());
        for (is_accept, which) in steps {
            match NAMES[which] {
                "" if is_accept => {}
                name if is_accept => {
                    if !queue.is_accepting(name) {
                        queue.start_accept(named(name), None);
                    }
                }
                given => {
                    queue.arrive(came.len(), &says(given));
                    came.push(given);
                }
            }
            for name in &NAMES[1..] {
                if let Some(peer) = queue.take_accepted(&named(name)) {
                    prop_assert!(came[peer].is_empty() || came[peer] == *name);
                    prop_assert!(!taken.contains(&peer));
                    taken.push(peer);
                }
            }
        }
        prop_assert_eq!(taken.len() + queue.unclaimed.len(), came.len());
        prop_assert_eq!(queue.fulfilled, 0, "a peer that came for an accept was taken");
    }
}
