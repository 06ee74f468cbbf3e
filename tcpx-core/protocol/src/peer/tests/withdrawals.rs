//! Many operations without a counterpart, of transfers that have many each: how they end, slice by
//! slice. The peer is a list of frames.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use slotmap::{KeyData, SlotMap};
use tcpx_testkit::Random;

use super::driver::CHUNK_BYTES;
use super::exporting::no_exports;
use super::revocations;
use super::said::{announce, matched};
use super::setting::{AMPLE, DEAL_AT_ONCE, KEEPS_ALL};
use crate::frames::eager_terms::{CreditKind, EagerTerms};
use crate::frames::fields::{ChannelHandle, HANDLE_BYTES};
use crate::frames::frame::{ChunkCounts, Frame};
use crate::frames::hello::Agreement;
use crate::frames::messages::{Ended, MessageId};
use crate::peer::action::{Action, Outcome, Withdrawal};
use crate::peer::message::NewOperation;
use crate::peer::tags::withdrawing::Unmatched;
use crate::peer::{Opening, PeerProtocol};
use crate::types::{Direction, MemoryType, OpKey, RegistrationKey, Span, TransferKey};

const CANCELLED: Outcome = Outcome::Withdrawn(Withdrawal::Cancelled);
const LEFT: Outcome = Outcome::Withdrawn(Withdrawal::Left);
const PEER_LEFT: Outcome = Outcome::Withdrawn(Withdrawal::PeerLeft);

/// One end, up, whose operations have a tag each.
struct Lone {
    protocol: PeerProtocol,
    transfers: SlotMap<TransferKey, ()>,
    next_tag: i64,
    ended: BTreeMap<i64, Outcome>,
    /// Receives whose withdrawal was asked for.
    asked: Vec<u64>,
    has_sent_goodbye: bool,
}

impl Lone {
    fn new(slice: usize) -> Self {
        let agreement = Agreement {
            channels: 1,
            chunk_bytes: CHUNK_BYTES,
            peer_progresses: false,
            eager: EagerTerms::OFF,
            note_bytes: AMPLE.note_bytes,
            keeps_chunks: false,
            is_encrypted: false,
            on_demand: false,
        };
        let handles = vec![ChannelHandle([0; HANDLE_BYTES])];
        let opening = Opening {
            agreement,
            tuning: DEAL_AT_ONCE,
            peer_timeout: None,
            is_named: true,
            connect_timeout: Duration::from_secs(30),
            kept: KEEPS_ALL.terms(),
            slice,
            one_sided: AMPLE,
        };
        let mut lone = Self {
            protocol: PeerProtocol::new(opening, Instant::now()),
            transfers: SlotMap::with_key(),
            next_tag: 0,
            ended: BTreeMap::new(),
            asked: Vec::new(),
            has_sent_goodbye: false,
        };
        lone.protocol.handle_listening(handles.clone());
        lone.protocol.handle_frame(Frame::Handles(handles), &mut no_exports());
        lone.protocol.handle_comms_connected();
        lone.protocol.handle_comms_accepted(ChunkCounts::new());
        lone.protocol.handle_frame(Frame::Open { credit: ChunkCounts::new() }, &mut no_exports());
        lone.protocol
            .handle_frame(Frame::may_send(CreditKind::Receives, 1 << 22), &mut no_exports());
        lone.act();
        lone
    }

    fn transfer(&mut self) -> TransferKey {
        self.transfers.insert(())
    }

    /// Posts messages of no bytes, which their match ends.
    fn post(
        &mut self,
        transfer: TransferKey,
        direction: Direction,
        count: usize,
    ) -> Vec<(i64, OpKey)> {
        let registration = RegistrationKey::from(KeyData::from_ffi(1 << 32 | 1));
        let span = Span { registration, address: 0, memory: MemoryType::Host };
        let posted = (0..count).map(|_| {
            let tag = self.next_tag;
            self.next_tag += 1;
            let operation = NewOperation { transfer, direction, tag, span, bytes: 0 };
            (tag, self.protocol.handle_post(operation))
        });
        let posted = posted.collect();
        self.act();
        posted
    }

    fn input<T>(&mut self, input: impl FnOnce(&mut PeerProtocol) -> T) {
        input(&mut self.protocol);
        self.act();
    }

    /// Begins a round. Returns the number of operations that it withdraws.
    fn round(&mut self) -> usize {
        let before = self.asked.len() + self.ended.len();
        let moved = self.protocol.handle_round();
        self.act();
        let withdrawn = self.asked.len() + self.ended.len() - before;
        assert_eq!(moved, withdrawn > 0);
        withdrawn
    }

    fn act(&mut self) {
        while let Some(action) = self.protocol.poll_action() {
            match action {
                Action::Complete(completion, _) => {
                    let before = self.ended.insert(completion.tag, completion.outcome);
                    assert_eq!(before, None, "tag {} ends twice", completion.tag);
                }
                Action::Send(Frame::Cancel { message: MessageId::Receive(recv), .. }) => {
                    self.asked.push(recv);
                }
                Action::Send(Frame::Goodbye) => self.has_sent_goodbye = true,
                Action::Send(_)
                | Action::OpenChannels
                | Action::Connect(_)
                | Action::Open
                | Action::CloseSends => {}
                other => panic!("{other:?}"),
            }
        }
        revocations::check(&self.protocol).unwrap();
    }

    /// Has the peer agree to every withdrawal that it was asked for.
    fn agree(&mut self) {
        for recv in std::mem::take(&mut self.asked) {
            self.input(|protocol| {
                protocol.handle_frame(Frame::end_of(recv, Ended::Withdrawn), &mut no_exports())
            });
        }
    }

    /// Has the peer match a receive.
    fn match_receive(&mut self, op: OpKey) {
        let frame = matched(&[op.to_wire()], 0, CHUNK_BYTES);
        self.input(|protocol| protocol.handle_frame(frame, &mut no_exports()));
    }

    /// Has the peer announce a receive for a send.
    fn announce(&mut self, tag: i64) {
        let frame = announce(1_000_000 + tag as u64, tag, 0);
        self.input(|protocol| protocol.handle_frame(frame, &mut no_exports()));
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.ended.values().filter(|ended| **ended == outcome).count()
    }
}

#[test]
fn a_large_transfer_is_withdrawn_in_slices_and_the_others_are_left_alone() {
    let mut lone = Lone::new(4);
    let (large, other) = (lone.transfer(), lone.transfer());
    lone.post(large, Direction::Receive, 6);
    lone.post(large, Direction::Send, 5);
    lone.post(other, Direction::Receive, 3);
    lone.input(|protocol| protocol.handle_cancel(large));
    assert_eq!(lone.asked.len(), 4, "the first slice goes at once");
    // Posted after the cancel, so not meant by it.
    lone.post(large, Direction::Send, 1);
    assert!(lone.protocol.is_withdrawing());
    assert_eq!([lone.round(), lone.round(), lone.round()], [4, 3, 0]);
    assert!(!lone.protocol.is_withdrawing());
    assert_eq!((lone.asked.len(), lone.count(CANCELLED)), (6, 5));
    lone.agree();
    assert_eq!(lone.count(CANCELLED), 11);
    let left = lone.protocol.unmatched(large);
    let oldest = Some((Direction::Send, 14));
    assert_eq!(left, Unmatched { count: 1, oldest });
    assert_eq!(lone.protocol.unmatched(other).count, 3);
}

#[test]
fn a_small_transfer_is_withdrawn_at_once_beside_any_backlog() {
    let mut lone = Lone::new(4);
    let (backlog, small) = (lone.transfer(), lone.transfer());
    lone.post(backlog, Direction::Receive, 1_000);
    lone.post(small, Direction::Send, 2);
    lone.post(backlog, Direction::Receive, 1_000);
    lone.input(|protocol| protocol.handle_cancel(small));
    assert_eq!((lone.count(CANCELLED), lone.asked.len(), lone.round()), (2, 0, 0));
}

#[test]
fn what_is_matched_before_its_slice_is_not_withdrawn() {
    let mut lone = Lone::new(1);
    let transfer = lone.transfer();
    let receives = lone.post(transfer, Direction::Receive, 4);
    lone.input(|protocol| protocol.handle_cancel(transfer));
    let later = lone.post(transfer, Direction::Receive, 2);
    // The newest of those that were cancelled, and then the one before it.
    lone.match_receive(receives[3].1);
    lone.match_receive(receives[2].1);
    assert_eq!([lone.round(), lone.round()], [1, 0]);
    assert_eq!(lone.asked, [receives[0].1.to_wire(), receives[1].1.to_wire()]);
    assert_eq!(lone.count(Outcome::Done), 2);
    // All of the cancelled ones are gone before their slice: nothing is left to withdraw.
    lone.input(|protocol| protocol.handle_cancel(transfer));
    lone.match_receive(later[1].1);
    assert_eq!((lone.asked.len(), lone.round()), (3, 0));
    assert_eq!(lone.count(Outcome::Done), 3);
}

#[test]
fn a_text_is_told_that_everything_is_being_withdrawn() {
    let mut lone = Lone::new(8);
    let transfer = lone.transfer();
    lone.post(transfer, Direction::Receive, 2);
    lone.input(|protocol| protocol.handle_cancel(transfer));
    let withdrawn = Unmatched { count: 2, oldest: None };
    assert_eq!(lone.protocol.unmatched(transfer), withdrawn);
    lone.agree();
    assert_eq!(lone.protocol.unmatched(transfer), Unmatched::default());
}

#[test]
fn who_leaves_withdraws_in_slices_and_says_goodbye_behind_the_last() {
    let mut lone = Lone::new(3);
    let transfers = [(); 3].map(|()| lone.transfer());
    for transfer in transfers {
        lone.post(transfer, Direction::Send, 2);
        lone.post(transfer, Direction::Receive, 2);
    }
    let cancelled = lone.transfer();
    lone.post(cancelled, Direction::Receive, 2);
    lone.input(|protocol| protocol.handle_cancel(cancelled));
    lone.input(|protocol| _ = protocol.handle_disconnect());
    let rounds: Vec<usize> = std::iter::from_fn(|| Some(lone.round()).filter(|n| *n > 0)).collect();
    assert_eq!(rounds, [3, 3, 3]);
    assert!(!lone.has_sent_goodbye, "the peer has not agreed");
    lone.agree();
    assert!(lone.has_sent_goodbye);
    assert_eq!((lone.count(LEFT), lone.count(CANCELLED)), (12, 2));
}

#[test]
fn what_a_peers_goodbye_ends_is_bounded_too() {
    let mut lone = Lone::new(3);
    let transfer = lone.transfer();
    lone.post(transfer, Direction::Receive, 5);
    lone.post(transfer, Direction::Send, 5);
    lone.input(|protocol| protocol.handle_frame(Frame::Goodbye, &mut no_exports()));
    assert_eq!((lone.ended.len(), lone.has_sent_goodbye), (3, false));
    // The program leaves as well: what waits ends because the peer left first.
    lone.input(|protocol| _ = protocol.handle_disconnect());
    assert_eq!([lone.round(), lone.round()], [3, 3]);
    assert!(!lone.has_sent_goodbye);
    assert_eq!(lone.round(), 1);
    assert!(lone.has_sent_goodbye);
    assert_eq!(lone.count(PEER_LEFT), 10);
}

#[test]
fn a_goodbye_in_the_middle_of_leaving_ends_the_rest() {
    let mut lone = Lone::new(2);
    let (mine, cancelled) = (lone.transfer(), lone.transfer());
    lone.post(cancelled, Direction::Receive, 4);
    lone.post(mine, Direction::Receive, 5);
    lone.input(|protocol| protocol.handle_cancel(cancelled));
    lone.input(|protocol| _ = protocol.handle_disconnect());
    lone.round();
    lone.input(|protocol| protocol.handle_frame(Frame::Goodbye, &mut no_exports()));
    while lone.round() > 0 {}
    assert!(lone.has_sent_goodbye);
    assert_eq!((lone.count(LEFT), lone.count(CANCELLED)), (5, 4));
}

/// Any order of posts, matches, withdrawals and rounds, in transfers that share a protocol: the
/// lists are right after every step, and everything ends once.
#[test]
fn lists_hold_in_any_order() {
    withdraw_in_any_order(0..100);
}

#[test]
#[ignore = "deep: 400 orders"]
fn lists_hold_in_more_orders() {
    withdraw_in_any_order(0..400);
}

fn withdraw_in_any_order(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut lone = Lone::new(1 + random.below(4));
        let transfers = [(); 4].map(|()| lone.transfer());
        let mut sends = Vec::new();
        let mut receives = Vec::new();
        for _ in 0..120 {
            let transfer = random.pick(&transfers);
            match random.below(10) {
                0..=2 => sends.extend(lone.post(transfer, Direction::Send, 1)),
                3..=5 => receives.extend(lone.post(transfer, Direction::Receive, 1)),
                6 => lone.input(|protocol| protocol.handle_cancel(transfer)),
                7 if !sends.is_empty() => {
                    let (tag, _) = sends.swap_remove(random.below(sends.len()));
                    if !lone.ended.contains_key(&tag) {
                        lone.announce(tag);
                    }
                }
                8 if !receives.is_empty() => {
                    let (tag, op) = receives.swap_remove(random.below(receives.len()));
                    if !lone.ended.contains_key(&tag) {
                        lone.asked.retain(|asked| *asked != op.to_wire());
                        lone.match_receive(op);
                    }
                }
                _ if random.one_in(3) => lone.agree(),
                _ => {
                    lone.round();
                }
            }
        }
        if random.one_in(2) {
            lone.input(|protocol| _ = protocol.handle_disconnect());
        }
        lone.input(|protocol| protocol.handle_frame(Frame::Goodbye, &mut no_exports()));
        while lone.round() > 0 {}
        assert_eq!(lone.ended.len(), lone.next_tag as usize, "seed {seed}");
        assert!(lone.has_sent_goodbye, "seed {seed}");
    }
}
