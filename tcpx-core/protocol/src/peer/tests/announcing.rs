//! Ends that keep few of the receives that the other one posts.

use std::collections::VecDeque;
use std::sync::Arc;

use slotmap::SlotMap;

use super::crossings::{SETTING, assert_parted, post};
use super::driver::{CHUNK_BYTES, End};
use super::exporting::no_exports;
use super::pair::{ENDS, Pair};
use super::said::announce;
use super::setting::{AMPLE, FlowSetting, KEEPS_ALL, Setting};
use crate::frames::eager_terms::{CreditKind, EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::peer::PeerProtocol;
use crate::peer::action::{Action, Completion, Ending, Landing, NoteUse, Outcome, Withdrawal};
use crate::peer::flow_control::{FlowTerms, LEAST_POSTED_RECEIVES, POSTED_RECEIVE_COST};
use crate::peer::message::NewOperation;
use crate::peer::one_sided::OneSidedTerms;
use crate::peer::tags::eager_queues::UnexpectedMessage;
use crate::peer::tags::matcher::PostedReceive;
use crate::peer::tags::tag_queues::{QueuePlace, TagQueues};
use crate::peer::violation::Violation;
use crate::types::peer_budget::PeerBudget;
use crate::types::{Direction, MemoryType, RegistrationKey, Span, TransferKey, note_cost};

/// Nothing but what is a peer's own.
const LEAST: FlowSetting = FlowSetting { bytes: 0, least: 4, usual: 4, least_unexpected: 0 };

fn full() -> Setting {
    let one_sided = OneSidedTerms { queued_note_bytes: 1 << 30, ..AMPLE };
    Setting { kept: LEAST, one_sided, ..SETTING }
}

/// Returns the same where messages go ahead.
fn full_and_eager() -> Setting {
    let offer =
        EagerOffer { bytes: 8, buffer_bytes: 1000, device_bytes: u64::MAX, access_bytes: 0 };
    let kept = FlowSetting { least_unexpected: 1000, ..LEAST };
    Setting { eager: EagerTerms::agree(offer, offer, CHUNK_BYTES), kept, ..full() }
}

fn announced(pair: &Pair, end: usize) -> usize {
    pair.ends[end].protocol().map_or(0, |protocol| protocol.posted_receives())
}

fn queued(pair: &Pair, end: usize) -> usize {
    pair.ends[end].protocol().map_or(0, |protocol| protocol.queued_receives())
}

fn end_of(pair: &Pair, end: usize, transfer: TransferKey) -> Option<End> {
    pair.ends[end].posted[transfer].end
}

/// Two ends and what is under way between them, which is of no bytes, so that there may be many.
struct Quick {
    ends: [PeerProtocol; 2],
    under_way: [VecDeque<Frame>; 2],
    done: [usize; 2],
    /// Most receives that an end has ever kept.
    most_kept: usize,
    /// Cost of the notifications that came, and of those that the program took.
    notes: [(u64, u64); 2],
    /// Most of them that an end has ever kept.
    most_noted: u64,
    noted: [usize; 2],
    transfers: SlotMap<TransferKey, ()>,
}

impl Quick {
    fn new(setting: Setting) -> Self {
        let mut pair = Pair::up([setting; 2]);
        let ends = ENDS.map(|end| pair.ends[end].take_protocol().expect("it is up"));
        let (under_way, done, transfers) = (Default::default(), [0; 2], SlotMap::with_key());
        let (notes, noted) = ([(0, 0); 2], [0; 2]);
        Self { ends, under_way, done, most_kept: 0, notes, most_noted: 0, noted, transfers }
    }

    fn post(&mut self, end: usize, direction: Direction, tag: i64) {
        let registration = RegistrationKey::default();
        let span = Span { registration, address: 4096, memory: MemoryType::Host };
        let transfer = self.transfers.insert(());
        self.ends[end].begin_batch_of(1);
        self.ends[end].handle_post(NewOperation { transfer, direction, tag, span, bytes: 0 });
        self.act(end);
    }

    fn notify(&mut self, end: usize, bytes: usize) {
        assert!(self.ends[end].handle_note(vec![0; bytes].into()), "it has room to wait");
        self.act(end);
    }

    /// Takes all notifications for the program.
    fn take_notes(&mut self, end: usize) {
        let (came, taken) = &mut self.notes[end];
        *taken = *came;
        self.ends[end].handle_notes_taken(*taken);
        self.act(end);
    }

    fn hear(&mut self, end: usize, frame: Frame) {
        let landing = self.ends[end].handle_frame(frame, &mut no_exports());
        if let Landing::Note(NoteUse::Publish(bytes)) = landing {
            self.noted[end] += 1;
            let (came, taken) = &mut self.notes[end];
            *came += note_cost(bytes as usize);
            self.most_noted = self.most_noted.max(*came - *taken);
        }
        self.act(end);
    }

    fn act(&mut self, end: usize) {
        self.ends[end].handle_unsent(0);
        while let Some(action) = self.ends[end].poll_action() {
            match action {
                Action::Send(frame)
                | Action::SendMessage { frame, .. }
                | Action::SendWithPayload { frame, .. } => {
                    self.under_way[end].push_back(frame);
                }
                Action::Complete(Completion { outcome: Outcome::Done, .. }, None) => {
                    self.done[end] += 1
                }
                Action::TakeUnexpected { .. } => {}
                action => panic!("{action:?}"),
            }
        }
        self.most_kept = self.most_kept.max(self.ends[end].posted_receives());
    }

    /// Delivers everything that is under way, while the programs look at nothing.
    fn read(&mut self) {
        while let Some(end) = ENDS.into_iter().find(|end| !self.under_way[*end].is_empty()) {
            while let Some(frame) = self.under_way[end].pop_front() {
                self.hear(1 - end, frame);
            }
        }
    }

    fn settle(&mut self) {
        loop {
            // Frames that there was no room for on the link go with the next round.
            ENDS.iter().for_each(|end| self.take_notes(*end));
            if self.under_way.iter().all(VecDeque::is_empty) {
                return;
            }
            self.read();
        }
    }
}

/// Both ends post all of one kind before the other, and read nothing meanwhile, or a little.
/// Between them they notify, and their programs look at nothing before everything is posted.
#[test]
fn two_ends_that_are_both_full_come_to_their_end() {
    const EACH: usize = 10_000;
    let none_ahead = Setting { kept: LEAST, ..full_and_eager() };
    for setting in [full(), full_and_eager(), none_ahead] {
        for order in [[Direction::Send, Direction::Receive], [Direction::Receive, Direction::Send]]
        {
            for reads in [false, true] {
                let mut both = Quick::new(setting);
                for direction in order {
                    for number in 0..EACH {
                        for end in ENDS {
                            both.post(end, direction, number as i64 % 7);
                            both.notify(end, number % 40);
                        }
                        if reads && number % 1000 == 7 {
                            both.read();
                        }
                    }
                }
                both.settle();
                assert_eq!(both.done, [2 * EACH; 2], "{order:?} {reads}");
                assert!(both.most_kept <= 4, "{}", both.most_kept);
                assert_eq!(both.noted, [2 * EACH; 2], "{order:?} {reads}");
                assert!(both.most_noted <= 72 << 10, "{}", both.most_noted);
            }
        }
    }
}

#[test]
fn a_full_end_keeps_no_more_than_it_has_said_and_lets_go_on_what_is_not_a_receive() {
    let mut pair = Pair::up([full(); 2]);
    let receives: Vec<_> =
        (0..100).map(|tag| post(&mut pair, 0, Direction::Receive, tag, 8)).collect();
    pair.settle().unwrap();
    assert_eq!((announced(&pair, 1), queued(&pair, 0)), (4, 96));

    // A receive that was not announced ends at once, an announced one by the other end's word.
    let withdrawn = Some(End::Completed(Outcome::Withdrawn(Withdrawal::Cancelled)));
    pair.ends[0].cancel(receives[50]).unwrap();
    assert_eq!(end_of(&pair, 0, receives[50]), withdrawn);
    pair.ends[0].cancel(receives[1]).unwrap();
    assert_eq!(end_of(&pair, 0, receives[1]), None);
    pair.settle().unwrap();
    assert_eq!(end_of(&pair, 0, receives[1]), withdrawn);
    assert_eq!((announced(&pair, 1), queued(&pair, 0)), (4, 94), "another has its place");

    // A match makes room, and sends of the full end are held up by nothing.
    let sent = post(&mut pair, 1, Direction::Send, 0, 8);
    let received = post(&mut pair, 1, Direction::Receive, 7, 8);
    let answer = post(&mut pair, 0, Direction::Send, 7, 8);
    pair.settle().unwrap();
    let done = Some(End::Completed(Outcome::Done));
    let ends = [(1, sent), (0, receives[0]), (1, received), (0, answer)];
    assert!(ends.iter().all(|(end, transfer)| end_of(&pair, *end, *transfer) == done));
    assert_eq!((announced(&pair, 1), queued(&pair, 0)), (4, 93));

    ENDS.iter().for_each(|end| pair.ends[*end].disconnect().unwrap());
    assert_parted(&mut pair);
}

#[test]
fn what_goes_ahead_meets_a_receive_that_waits_to_be_announced() {
    let mut pair = Pair::up([full_and_eager(); 2]);
    let blocked: Vec<_> =
        (0..4).map(|tag| post(&mut pair, 0, Direction::Receive, tag, 8)).collect();
    let [first, second] = [9, 9].map(|tag| post(&mut pair, 0, Direction::Receive, tag, 8));
    assert_eq!(queued(&pair, 0), 2);
    let sent = post(&mut pair, 1, Direction::Send, 9, 8);
    pair.settle().unwrap();
    let done = Some(End::Completed(Outcome::Done));
    assert_eq!([end_of(&pair, 1, sent), end_of(&pair, 0, first)], [done; 2]);
    assert_eq!((end_of(&pair, 0, second), queued(&pair, 0)), (None, 1));
    assert_eq!(pair.ends[1].protocol().map(|protocol| protocol.unreceived()), Some(0), "it knows");
    // A message of another size fails, as it would if the receive were announced.
    post(&mut pair, 1, Direction::Send, 9, 3);
    pair.settle().unwrap();
    let misfit = Outcome::SizeMismatch { send_bytes: 3, recv_bytes: 8 };
    assert_eq!(end_of(&pair, 0, second), Some(End::Completed(misfit)));
    assert!(blocked.iter().all(|receive| end_of(&pair, 0, *receive).is_none()));
}

#[test]
fn a_backlog_of_one_peer_takes_what_no_other_needs() {
    let mut both =
        Quick::new(Setting { kept: FlowSetting { bytes: 64 << 20, ..KEEPS_ALL }, ..SETTING });
    (0..100_000).for_each(|tag| both.post(0, Direction::Receive, tag));
    both.settle();
    assert_eq!((both.ends[1].posted_receives(), both.ends[0].queued_receives()), (100_000, 0));
}

/// What is charged for whatever is kept is no less than it takes.
#[test]
fn what_is_kept_costs_what_it_takes() {
    let taken = TagQueues::<PostedReceive>::ITEM_BYTES + size_of::<(u64, QueuePlace)>() + 1;
    assert!(POSTED_RECEIVE_COST as usize * 3 / 4 >= taken, "{taken} bytes");
    let allocation = 2 * size_of::<usize>();
    let taken =
        TagQueues::<UnexpectedMessage>::ITEM_BYTES + size_of::<(u64, Vec<u8>)>() + 1 + allocation;
    assert!(EagerTerms::cost(0) as usize >= taken, "{taken} bytes");
}

/// Makes an end whose session has this budget. Its peer does not keep to anything.
fn prey(budget: &Arc<PeerBudget>) -> (PeerProtocol, u64) {
    let mut pair = Pair::new([SETTING; 2]);
    pair.ends[0].keep(FlowTerms::new(budget), pair.now);
    pair.connect().and_then(|()| pair.deliver_all()).expect("nothing is in its way");
    let said = pair.ends[1].protocol().expect("it is up").tags.allowed()[0];
    (pair.ends[0].take_protocol().expect("it is up"), said)
}

/// Announces as many receives as the peer may. Returns their number in the end.
fn send_all_ready(protocol: &mut PeerProtocol, mut allowed: u64) -> u64 {
    let mut said = 0;
    while said < allowed {
        protocol.handle_frame(announce(said, said as i64, 1), &mut no_exports());
        said += 1;
        while let Some(action) = protocol.poll_action() {
            match action {
                Action::Send(Frame::Credit { what: CreditKind::Receives, counts }) => {
                    allowed = counts[0];
                }
                action => panic!("{action:?}"),
            }
        }
    }
    said
}

#[test]
fn peers_share_a_budget_and_each_has_something_of_its_own() {
    let budget = PeerBudget::new(16 << 20);
    let (mut greedy, allowed) = prey(&budget);
    let taken = send_all_ready(&mut greedy, allowed);
    assert!((40_000..90_000).contains(&taken), "{taken} receives of 16 MiB");
    let used = budget.used();
    assert!((8 << 20..=12 << 20).contains(&used), "{used} bytes");
    // A peer that comes late has some of the rest, and its own in any case.
    let late: Vec<_> = (0..30)
        .map(|_| {
            let (mut protocol, allowed) = prey(&budget);
            let announced = send_all_ready(&mut protocol, allowed);
            assert!(announced >= LEAST_POSTED_RECEIVES, "{announced}");
            (protocol, announced)
        })
        .collect();
    assert!(late[0].1 > 2 * LEAST_POSTED_RECEIVES, "{} receives", late[0].1);
    assert!(budget.used() <= 16 << 20);
    // Room that one peer gives up is the others'.
    let before = budget.used();
    drop(greedy);
    assert_eq!(before - budget.used(), used);
    drop(late);
    assert_eq!(budget.used(), 0);
}

#[test]
fn receives_beyond_the_credit_are_a_violation() {
    let (mut protocol, allowed) = prey(&PeerBudget::new(0));
    assert_eq!(send_all_ready(&mut protocol, allowed), LEAST_POSTED_RECEIVES);
    protocol.handle_frame(announce(1 << 40, 0, 1), &mut no_exports());
    let violation = Violation::NoRoom { what: CreditKind::Receives, limit: LEAST_POSTED_RECEIVES };
    let action = protocol.poll_action();
    let ending = Ending::Broken(violation);
    assert!(matches!(&action, Some(Action::End { ending: it, .. }) if *it == ending), "{action:?}");
}

#[test]
fn what_may_be_announced_is_never_taken_back() {
    let (mut protocol, _) = prey(&PeerBudget::new(0));
    let what = CreditKind::Receives;
    for (count, is_broken) in [(5000, false), (5000, false), (4999, true)] {
        protocol.handle_frame(Frame::may_send(what, count), &mut no_exports());
        let action = protocol.poll_action();
        assert_eq!(matches!(action, Some(Action::End { .. })), is_broken, "{action:?}");
    }
}

/// What others gave up is handed out with the next word of the peer.
#[test]
fn a_peer_that_waits_for_memory_of_others_has_it_with_its_next_word() {
    let budget = PeerBudget::new(1 << 20);
    let (mut greedy, allowed) = prey(&budget);
    send_all_ready(&mut greedy, allowed);
    let (mut late, allowed) = prey(&budget);
    let least = send_all_ready(&mut late, allowed);
    drop(greedy);
    late.handle_frame(Frame::Ping, &mut no_exports());
    let said: Vec<_> = std::iter::from_fn(|| late.poll_action()).collect();
    let more = said.iter().find_map(|action| match action {
        Action::Send(Frame::Credit { what: CreditKind::Receives, counts }) => Some(counts[0]),
        _ => None,
    });
    assert!(more.is_some_and(|more| more > least + 100), "{said:?}");
}
