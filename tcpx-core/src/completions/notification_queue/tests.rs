//! Tests with senders that keep to their limits, and one that does not.

use std::thread;

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slotmap::SlotMap;
use tcpx_protocol::types::peer_budget::BudgetShare;

use tcpx_protocol::types::NOTE_COST;

use super::*;

const BUFFER: u64 = 128 << 10;
const BUDGET: u64 = 16 << 20;
const LONGEST: usize = 64 << 10;

fn queue() -> NotificationQueue {
    queue_in(BUDGET)
}

/// Makes a queue whose session keeps this many bytes for its peers.
fn queue_in(budget: u64) -> NotificationQueue {
    NotificationQueue::new(Arc::default(), &PeerBudget::new(budget))
}

/// Returns the keys of new peers with these names, which may send.
fn senders(queue: &NotificationQueue, names: &[&str]) -> Vec<PeerKey> {
    let mut peers = SlotMap::<PeerKey, ()>::with_key();
    let keys: Vec<_> = names.iter().map(|_| peers.insert(())).collect();
    for (key, name) in keys.iter().zip(names) {
        queue.add_sender(*key, PeerName::bound(name));
    }
    keys
}

fn take(queue: &NotificationQueue, most: usize) -> Vec<(String, Vec<u8>)> {
    let mut taken = Vec::new();
    assert_eq!(queue.take(&mut taken, most, usize::MAX), taken.len());
    taken.into_iter().map(|Notification { peer, bytes }| (peer, bytes)).collect()
}

fn take_due_reports(queue: &NotificationQueue) -> Vec<(PeerKey, u64)> {
    let mut reported = Vec::new();
    queue.take_due_reports(&mut reported);
    reported
}

fn note(peer: &str, bytes: &[u8]) -> (String, Vec<u8>) {
    (peer.to_owned(), bytes.to_vec())
}

#[test]
fn notifications_are_taken_in_order_whatever_their_sender_and_contents() {
    let queue = queue();
    let peers = senders(&queue, &["left", "right"]);
    for (peer, bytes) in [(1, &b"\0a\0"[..]), (0, b""), (1, b"b")] {
        queue.push(peers[peer], bytes.to_vec()).unwrap();
    }
    assert_eq!(take(&queue, 0), []);
    assert_eq!(take(&queue, 2), [note("right", b"\0a\0"), note("left", b"")]);
    assert_eq!(take(&queue, 2), [note("right", b"b")]);
    assert_eq!(take(&queue, 2), []);
}

#[test]
fn what_has_no_room_stays_and_keeps_its_place() {
    let queue = queue();
    let [peer] = senders(&queue, &["peer"])[..] else { unreachable!("one sender") };
    for bytes in [&b"12"[..], b"345", b"", b"6"] {
        queue.push(peer, bytes.to_vec()).unwrap();
    }
    let take = |most_bytes| {
        let mut taken = Vec::new();
        queue.take(&mut taken, 9, most_bytes);
        taken.into_iter().map(|note| note.bytes).collect::<Vec<_>>()
    };
    assert_eq!(take(1), Vec::<Vec<u8>>::new());
    assert_eq!(take(4), [b"12"], "the short one behind the long one waits too");
    assert_eq!(take(3), [&b"345"[..], b""]);
    assert_eq!(take(1), [b"6"]);
}

#[test]
fn a_peer_that_is_named_later_shows_its_name_and_one_that_has_ended_leaves_its_notes() {
    let queue = queue();
    let mut peers = SlotMap::<PeerKey, ()>::with_key();
    let [named, gone] = [(); 2].map(|()| peers.insert(()));
    let name = PeerName::provisional("", "10.0.0.1:9");
    queue.add_sender(named, name.clone());
    queue.add_sender(gone, PeerName::bound("gone"));
    queue.push(named, b"1".to_vec()).unwrap();
    queue.push(gone, vec![0; LONGEST]).unwrap();
    name.bind("left");
    queue.remove_sender(gone);
    assert_eq!(take(&queue, 9), [note("left", b"1"), note("gone", &[0; LONGEST])]);
    assert!(take_due_reports(&queue).is_empty(), "an ended peer gets no report");
}

#[test]
fn a_report_is_due_when_enough_was_taken_and_not_before() {
    let queue = queue();
    let peers = senders(&queue, &["left", "right"]);
    let enough = (TELL_AFTER - NOTE_COST) as usize;
    queue.push(peers[0], vec![0; enough - NOTE_COST as usize - 1]).unwrap();
    queue.push(peers[0], Vec::new()).unwrap();
    queue.push(peers[1], vec![0; enough]).unwrap();
    queue.push(peers[1], vec![0; enough]).unwrap();
    queue.push(peers[0], vec![0; 1]).unwrap();
    take(&queue, 2);
    assert!(!queue.has_due_reports() && take_due_reports(&queue).is_empty(), "one byte is missing");
    take(&queue, 2);
    assert!(queue.has_due_reports());
    assert_eq!(take_due_reports(&queue), [(peers[1], 2 * TELL_AFTER)], "each is reported once");
    assert!(!queue.has_due_reports() && take_due_reports(&queue).is_empty());
    take(&queue, 1);
    assert_eq!(take_due_reports(&queue), [(peers[0], TELL_AFTER + NOTE_COST)]);

    // A peer that ends before its credit was sent gets none.
    queue.push(peers[1], vec![0; enough]).unwrap();
    take(&queue, 1);
    queue.remove_sender(peers[1]);
    assert!(take_due_reports(&queue).is_empty());
}

/// A peer that leaves as much as it may comes and goes, over and over, and keeps no other peer out.
/// What others have left, which left little, stays.
#[test]
fn a_peer_that_comes_and_goes_fills_a_bounded_part_of_memory() {
    let queue = queue();
    let mut peers = SlotMap::<PeerKey, ()>::with_key();
    let mut visit = |name: &str, notes: usize, bytes: usize| {
        let peer = peers.insert(());
        queue.add_sender(peer, PeerName::bound(name));
        (0..notes).for_each(|_| queue.push(peer, vec![0; bytes]).unwrap());
        queue.remove_sender(peer)
    };
    assert_eq!(visit("modest", 3, 100), 0);
    let each = BUFFER as usize / LONGEST;
    let mut dropped = 0;
    for _ in 0..2_000 {
        dropped += visit("hostile", each, LONGEST - NOTE_COST as usize);
        assert!(queue.contents().ended_senders.total() <= BUDGET / 4);
    }
    assert_eq!(visit("modest too", 1, 7), 0);
    let taken = take(&queue, usize::MAX);
    assert_eq!(taken.iter().filter(|(name, _)| name.starts_with("modest")).count(), 4);
    assert_eq!(taken.len() + dropped, 4 + 2_000 * each, "each is taken or counted");
    assert!(dropped >= 2_000 * each - (BUDGET / 4) as usize / LONGEST);
    assert_eq!(queue.contents().ended_senders.total(), 0);
}

/// What is left is of the memory of peers that are there, but for a little.
#[test]
fn where_peers_have_used_up_the_budget_little_is_left_behind() {
    let budget = PeerBudget::new(BUDGET);
    let queue = NotificationQueue::new(Arc::default(), &budget);
    let mut there = BudgetShare::new(&budget, 0);
    there.hold(BUDGET - (1 << 20));
    let mut peers = SlotMap::<PeerKey, ()>::with_key();
    let mut dropped = 0;
    for _ in 0..200 {
        let peer = peers.insert(());
        queue.add_sender(peer, PeerName::bound("goes"));
        queue.push(peer, vec![0; LONGEST]).unwrap();
        dropped += queue.remove_sender(peer);
        assert!(budget.used() <= BUDGET, "{}", budget.used());
        assert!(queue.contents().ended_senders.total() <= 2 << 20);
    }
    assert!((150..185).contains(&dropped), "{dropped}");
    // As much as is its own stays when there is none at all.
    there.hold(BUDGET);
    let last = peers.insert(());
    queue.add_sender(last, PeerName::bound("last"));
    queue.remove_sender(last);
    let left = queue.contents().ended_senders.total();
    assert!((1 << 19..=1 << 20).contains(&left), "{left}");
}

/// Of a peer that is still there nothing is dropped.
#[test]
fn what_is_dropped_is_of_peers_that_have_ended() {
    let queue = queue();
    let stays = senders(&queue, &["stays"])[0];
    queue.push(stays, vec![0; LONGEST]).unwrap();
    let mut peers = SlotMap::<PeerKey, ()>::with_key();
    // Keys of another map begin with that of the one that stays.
    peers.insert(());
    while {
        let peer = peers.insert(());
        queue.add_sender(peer, PeerName::bound("goes"));
        queue.push(peer, vec![0; LONGEST]).unwrap();
        queue.remove_sender(peer) == 0
    } {}
    assert_eq!(take(&queue, 1), [note("stays", &vec![0; LONGEST])]);
    assert_eq!(queue.contents().senders[&stays].waiting, 0);
}

#[test]
fn the_event_is_readable_while_something_waits_that_was_not_looked_for() {
    let completions = Arc::<CompletionQueue>::default();
    let queue = NotificationQueue::new(Arc::clone(&completions), &PeerBudget::new(BUDGET));
    let peer = senders(&queue, &["left"])[0];
    let is_readable = || {
        let descriptor = completions.event().open().unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)).unwrap() == 1
    };
    assert!(is_readable(), "at first it always is");
    completions.event().drain();
    queue.push(peer, Vec::new()).unwrap();
    queue.push(peer, Vec::new()).unwrap();
    assert!(is_readable());
    completions.event().drain();
    take(&queue, 1);
    assert!(is_readable(), "another one waits");
    completions.event().drain();
    take(&queue, 1);
    assert!(!is_readable());
}

#[test]
fn threads_that_send_and_take_at_once_lose_nothing_and_keep_the_order() {
    const NOTES: u32 = 20_000;
    let queue = queue();
    let peer = senders(&queue, &["left"])[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut sent, mut reported) = (0, 0);
            for number in 0..NOTES {
                let bytes = number.to_le_bytes().to_vec();
                let cost = note_cost(bytes.len());
                while sent + cost - reported > BUFFER {
                    reported =
                        take_due_reports(&queue).last().map_or(reported, |(_, taken)| *taken);
                    thread::yield_now();
                }
                queue.push(peer, bytes).expect("it keeps to its limit");
                sent += cost;
            }
        });
        let mut taken = Vec::new();
        while taken.len() < NOTES as usize {
            if queue.take(&mut taken, 100, usize::MAX) == 0 {
                thread::yield_now();
            }
        }
        for (number, note) in taken.iter().enumerate() {
            assert_eq!(note.bytes, (number as u32).to_le_bytes());
        }
    });
}

/// A sender's own count.
#[derive(Default)]
struct SenderCount {
    sent: u64,
    reported: u64,
}

impl SenderCount {
    fn has_room(&self, bytes: usize) -> bool {
        self.sent - self.reported + note_cost(bytes) <= BUFFER
    }
}

proptest! {
    #[test]
    fn a_sender_that_counts_is_never_refused_nor_stuck_before_an_empty_queue(
        actions in proptest::collection::vec(
            (0usize..3, 0usize..3, prop_oneof![0usize..100, 0usize..=LONGEST]), 0..200,
        ),
    ) {
        let queue = queue();
        let peers = senders(&queue, &["a", "b", "c"]);
        let mut counted = [(); 3].map(|()| SenderCount::default());
        let mut waiting = 0;
        for (step, which, bytes) in actions {
            match step {
                0 if counted[which].has_room(bytes) => {
                    prop_assert_eq!(queue.push(peers[which], vec![0; bytes]), Ok(()));
                    counted[which].sent += note_cost(bytes);
                    waiting += 1;
                }
                1 => {
                    let taken = take(&queue, bytes % 5).len();
                    prop_assert_eq!(taken, waiting.min(bytes % 5));
                    waiting -= taken;
                }
                _ => {
                    for (peer, taken) in take_due_reports(&queue) {
                        let which = peers.iter().position(|key| *key == peer).unwrap();
                        prop_assert!(taken > counted[which].reported && taken <= counted[which].sent);
                        counted[which].reported = taken;
                    }
                }
            }
        }
        prop_assert_eq!(take(&queue, usize::MAX).len(), waiting);
        for (peer, taken) in take_due_reports(&queue) {
            counted[peers.iter().position(|key| *key == peer).unwrap()].reported = taken;
        }
        for one in &counted {
            prop_assert!(one.has_room(LONGEST), "{} of {}", one.sent - one.reported, BUFFER);
        }
    }
}
