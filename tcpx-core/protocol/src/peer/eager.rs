//! Small messages on the control link: delivered to a receive that was announced, or gone ahead of
//! one that was not.
//!
//! Messages that go ahead pair with receives of their tag, oldest first, and each end sees by
//! itself which ones: a message goes ahead only when its sender knows of no receive of the tag, no
//! older send of the tag waits there, and the receiver was told of every match of the tag. So the
//! receiver gives it to the oldest receive of the tag that it has announced, if there is one: the
//! announcement crosses the message on the link. When the sender sees the announcement it strikes
//! out its oldest message of the tag that went ahead. A message that finds no receive is kept. The
//! receive that is posted for it later is not announced; *taken* tells the sender of it. As nothing
//! of a tag is kept while a receive of the tag waits, both ends come to the same pairs.
//!
//! The receiver [says](super::room) how much may go ahead. What finds no room is announced and
//! matched as longer messages are.

use super::PeerProtocol;
use super::action::{Action, Landing, Outcome, Violation};
use super::coalescer::{FEW, MatchedSend};
use super::eager_books::{Kept, LINK_BYTES};
use super::operation::{Links, NewOperation, OpState, PostedOperation};
use super::stage::Stage;
use super::tag_queues::Place;
use crate::frames::eager_terms::EagerTerms;
use crate::frames::frame::Frame;
use crate::frames::keeping::Keeping;
use crate::plans::plan::Member;
use crate::types::OpKey;

impl PeerProtocol {
    /// So many operations are posted next, as one batch.
    pub fn handle_batch_of(&mut self, count: usize) {
        self.eager.batch = count;
    }

    /// So many bytes wait on the link for the kernel.
    #[inline]
    pub fn handle_unsent(&mut self, bytes: usize) {
        self.eager.link_room = LINK_BYTES.saturating_sub(bytes);
        self.eager.is_link_clear = bytes == 0;
    }

    /// Messages of this end that went ahead and have no receive, as far as it knows.
    pub fn unreceived(&self) -> usize {
        self.eager.unreceived()
    }

    /// Messages of the peer that wait here for their receives.
    pub fn kept(&self) -> usize {
        self.eager.kept.len()
    }

    /// Whether a send that is posted goes ahead.
    pub(super) fn goes_ahead(&self, posted: &NewOperation) -> bool {
        let eager = &self.eager;
        eager.batch <= FEW
            && eager.allows(posted)
            && eager.allowed.has(EagerTerms::cost(posted.bytes))
            && !self.dealing.may_owe_match(posted.tag)
            && self.matcher.has_none(posted.tag)
    }

    /// A send that is posted goes ahead, and is done.
    pub(super) fn go_ahead(&mut self, posted: NewOperation) -> OpKey {
        let NewOperation { tag, bytes, .. } = posted;
        self.messages.sent += 1;
        self.eager.ahead.push(tag, ());
        self.eager.allowed.sent += EagerTerms::cost(bytes);
        let op = self.insert_matched(posted);
        // What is allowed has no more than 32 bits.
        self.send_on_link(op, Frame::Ahead { tag, bytes: bytes as u32 });
        op
    }

    /// Whether a matched send that is a plan by itself travels on the link.
    pub(super) fn is_delivered(&self, matched: &MatchedSend) -> bool {
        let MatchedSend { member, announced } = matched;
        let eager = &self.eager;
        (1..=eager.link_room as u64).contains(&member.bytes)
            && eager.terms.allows(member.bytes)
            && eager.terms.reaches(member.span.memory)
            && eager.terms.peer_reaches(announced.delivery)
    }

    /// A send is delivered to the receive of this name, and done.
    pub(super) fn deliver(&mut self, member: &Member, recv: u64) {
        self.eager.link_room = self.eager.link_room.saturating_sub(member.bytes as usize);
        self.send_on_link(member.op, Frame::Deliver { recv, bytes: member.bytes as u32 });
    }

    fn send_on_link(&mut self, op: OpKey, frame: Frame) {
        let Some(operation) = self.operations.get(op) else { return };
        let member = operation.member(op);
        self.messages.sent_on_link.note(member.bytes);
        self.actions.push_back(Action::SendMessage { frame, member });
        self.complete(op, Outcome::Done);
    }

    /// An operation that needs not wait for its counterpart.
    pub(super) fn insert_matched(&mut self, posted: NewOperation) -> OpKey {
        let state = OpState::Matched { bytes_left: posted.bytes, bytes_dealt: 0 };
        let (links, place) = (Links::default(), Place::default());
        self.operations.insert(PostedOperation { posted, state, links, place })
    }

    /// A send of the peer was matched with a receive of ours, and its bytes are here.
    pub(super) fn handle_delivery(&mut self, recv: u64, bytes: u64) -> Landing {
        let Some((op, recv_bytes)) = self.own_receive(recv) else {
            self.broken(Violation::UnknownReceive { recv });
            return Landing::Nowhere;
        };
        let is_fit = bytes == recv_bytes && self.eager.allows(&self.operations[op].posted);
        if !is_fit {
            self.broken(Violation::Delivery { recv, bytes });
            return Landing::Nowhere;
        }
        self.receive_message(op, bytes)
    }

    /// A message of the peer went ahead of its receive, as far as the peer knew.
    pub(super) fn handle_ahead(&mut self, tag: i64, bytes: u64) -> Landing {
        let terms = self.eager.terms;
        if !terms.allows(bytes) || terms.buffer == 0 {
            self.broken(Violation::Ahead { bytes });
            return Landing::Nowhere;
        }
        let cost = EagerTerms::cost(bytes);
        if !self.eager.given.comes(cost) {
            self.no_room(Keeping::Ahead);
            return Landing::Nowhere;
        }
        if let Some(op) = self.eager.receives.pop(tag) {
            return self.receive_message(op, bytes);
        }
        if let Some(op) = self.take_unannounced(tag) {
            let landing = self.receive_message(op, bytes);
            self.actions.push_back(Action::Send(Frame::Taken { tag }));
            return landing;
        }
        if let Stage::Closing(shutdown) = &self.stage {
            // No receive will come for it. The peer's goodbye waits until it knows.
            if !shutdown.has_said_goodbye() {
                self.actions.push_back(Action::Send(Frame::Taken { tag }));
            }
            return Landing::Nowhere;
        }
        self.eager.buffer_used += cost;
        let number = self.eager.numbers_used;
        self.eager.numbers_used += 1;
        self.eager.kept.push(tag, Kept { number, bytes });
        Landing::Kept(number)
    }

    /// A receive that is posted takes the oldest message of its tag that is kept, if there is one.
    #[inline]
    pub(super) fn take_kept(&mut self, posted: &NewOperation) -> Option<OpKey> {
        if self.eager.kept.len() == 0 {
            return None;
        }
        let kept = self.eager.kept.pop(posted.tag)?;
        self.eager.buffer_used -= EagerTerms::cost(kept.bytes);
        self.actions.push_back(Action::Send(Frame::Taken { tag: posted.tag }));
        let op = self.insert_matched(*posted);
        let landing = self.operations[op].member(op);
        let into = (kept.bytes == posted.bytes).then_some(landing);
        self.actions.push_back(Action::TakeKept { number: kept.number, into });
        self.receive_message(op, kept.bytes);
        Some(op)
    }

    /// A receive has its message of so many bytes.
    fn receive_message(&mut self, op: OpKey, send_bytes: u64) -> Landing {
        let Some(operation) = self.operations.get(op) else { return Landing::Nowhere };
        let member = operation.member(op);
        let recv_bytes = member.bytes;
        if send_bytes != recv_bytes {
            self.complete(op, Outcome::SizeMismatch { send_bytes, recv_bytes });
            return Landing::Nowhere;
        }
        self.messages.received += 1;
        self.messages.received_on_link.note(recv_bytes);
        self.complete(op, Outcome::Done);
        Landing::Place(member)
    }

    /// This end posts no receive any more: what is kept goes. `is_told`: the peer waits to know.
    pub(super) fn drop_kept(&mut self, is_told: bool) {
        while let Some((tag, Kept { number, .. })) = self.eager.kept.pop_oldest() {
            self.actions.push_back(Action::TakeKept { number, into: None });
            if is_told {
                self.actions.push_back(Action::Send(Frame::Taken { tag }));
            }
        }
        self.eager.buffer_used = 0;
    }
}
