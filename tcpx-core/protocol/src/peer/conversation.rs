//! Conversation with a peer: the part that all kinds of messages share. It holds the stage, the
//! operations that are posted and not over, the schedule, the room on the link, and the actions to
//! take. Pure.
//!
//! [`Tags`](super::tags::Tags) and [`OneSided`](super::one_sided::OneSided) own what concerns
//! tagged messages, and reads, writes and notifications; their methods take a conversation.

use std::sync::Arc;

use slotmap::SlotMap;

use super::action::{Action, Completion, Ending, Outcome};
use super::deferral::Deferral;
use super::lifecycle::{Actions, Lifecycle};
use super::losses::Losses;
use super::message::{Message, NewOperation, Request, Role};
use super::one_sided::local_lists::PreparedList;
use super::round_work::RoundWork;
use super::schedule::Schedule;
use super::violation::Violation;
use crate::frames::eager_terms::EagerTerms;
use crate::frames::frame::Frame;
use crate::plans::plan::SpareLists;
use crate::stats::MessageStats;
use crate::types::{Direction, OpKey};

/// With this many bytes unsent on the link, messages go the other way.
pub(super) const LINK_BYTES: usize = 256 << 10;
/// Bytes that a frame takes of the link beside its payload, about.
const FRAME_BYTES: usize = 32;

/// Room on the control link.
#[derive(Debug)]
pub(super) struct LinkRoom {
    pub(super) terms: EagerTerms,
    /// Bytes of messages that it may take now.
    pub(super) bytes: usize,
    /// Whether nothing waits there for the kernel.
    pub(super) is_clear: bool,
    /// Bytes of chunks that the kernel takes now, about.
    pub(super) chunk_bytes: u64,
}

impl LinkRoom {
    pub(super) fn new(terms: EagerTerms) -> Self {
        Self { terms, bytes: LINK_BYTES, is_clear: true, chunk_bytes: 0 }
    }

    /// Notes that this many bytes wait on the link for the kernel.
    #[inline]
    pub(super) fn handle_unsent(&mut self, bytes: usize) {
        self.bytes = LINK_BYTES.saturating_sub(bytes);
        self.is_clear = bytes == 0;
    }

    /// Takes room for a frame with this payload.
    pub(super) fn take(&mut self, payload: usize) {
        self.take_bytes(FRAME_BYTES + payload);
    }

    /// Takes room for this many bytes.
    #[inline]
    pub(super) fn take_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// State that all kinds of messages share.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) life: Lifecycle,
    pub(super) operations: SlotMap<OpKey, Message>,
    pub(super) schedule: Schedule,
    pub(super) link: LinkRoom,
    pub(super) deferral: Deferral,
    pub(super) losses: Losses,
    pub(super) spare: SpareLists,
    pub(super) work: RoundWork,
    pub(super) messages: MessageStats,
    pub(super) actions: Actions,
}

impl Conversation {
    /// Ends the conversation: the peer breaks the protocol.
    #[cold]
    pub(super) fn broken(&mut self, violation: Violation) {
        self.end(Ending::Broken(violation));
    }

    /// Ends the conversation.
    pub(super) fn end(&mut self, ending: Ending) {
        self.life.end(ending, &mut self.actions);
    }

    /// Ends the conversation if the peer has broken the protocol.
    #[inline]
    pub(super) fn check<T>(&mut self, outcome: Result<T, Violation>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(violation) => {
                self.broken(violation);
                None
            }
        }
    }

    /// Queues a frame.
    #[inline]
    pub(super) fn send(&mut self, frame: Frame) {
        self.actions.push_back(Action::Send(frame));
    }

    /// Returns whether chunks may be scheduled now. If there are no channels, they are asked for.
    #[inline]
    pub(super) fn has_channels(&mut self) -> bool {
        self.life.has_channels(&mut self.actions)
    }

    /// Completes an operation, which is in no list any more.
    #[inline]
    pub(super) fn completed(
        &mut self,
        posted: &NewOperation,
        outcome: Outcome,
        list: Option<Arc<PreparedList>>,
    ) {
        let NewOperation { transfer, direction, tag, span, .. } = *posted;
        let registration = span.registration;
        let completion = Completion { transfer, registration, direction, tag, outcome };
        self.actions.push_back(Action::Complete(completion, list));
    }

    /// Returns the request of this end's program with this name.
    pub(super) fn own_request(&mut self, op: OpKey) -> Option<&mut Message> {
        self.operations.get_mut(op).filter(|message| message.request().is_some())
    }

    /// Returns the request that was made with it.
    pub(super) fn request(&mut self, op: OpKey) -> Option<&mut Request> {
        match &mut self.operations.get_mut(op)?.access.as_mut()?.role {
            Role::Initiator(request) => Some(request),
            Role::Target(_) => None,
        }
    }

    /// Returns the read of this end's program with this name, if its bytes are still to come.
    pub(super) fn own_read(&mut self, op: OpKey) -> Option<&mut Message> {
        let is_read = |it: &&mut Message| it.posted.direction == Direction::Receive;
        self.own_request(op).filter(is_read).filter(|message| message.takes_more())
    }
}
