//! Messages under way: sends and receives, reads and writes, at whichever end. Pure.
//!
//! ```text
//! waits    SendWaits, Unannounced, Announced, Cancelling; Unasked and Asked of a read or write
//! moves    Moving, or Ending where an end has given it up
//! is done  it is no more; a write waits for its answer: Awaiting, or Answered before it is sent
//! ```
//!
//! The module counts, for every kind of message, what is scheduled and what of that has moved.

use std::sync::Arc;

use super::action::Withdrawal;
use super::one_sided::local_lists::PreparedList;
use super::tags::tag_queues::QueuePlace;
use crate::exports::exported_range::ExportKey;
use crate::exports::refusal::Refused;
use crate::plans::piece_cursor::PieceCursor;
use crate::plans::pieces::Pieces;
use crate::plans::plan::Member;
use crate::types::{Direction, OpKey, RegistrationKey, Span, TransferKey};

/// Operation that a program posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOperation {
    /// The transfer that it is of.
    pub transfer: TransferKey,
    /// Direction in which it moves bytes.
    pub direction: Direction,
    /// Its tag.
    pub tag: i64,
    /// Place of its bytes, or of the first of them if they lie apart.
    pub span: Span,
    /// Its bytes.
    pub bytes: u64,
}

/// Progress of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A send waits for its receive.
    AwaitsReceive,
    /// A receive waits to be announced.
    ReadyQueued,
    /// A receive was announced and waits for its send.
    ReadySent,
    /// Withdrawal of a receive was asked of the peer; a match may still win.
    Cancelling(Withdrawal),
    /// A read or write that the peer has not heard of.
    RequestQueued,
    /// The peer knows of a write, and has not granted it.
    RequestSent,
    /// Its bytes move.
    Moving,
    /// The message was given up, and what was scheduled moves on.
    Ending {
        /// Reason why the target has refused or stopped it; `None`: its initiator wants it no more.
        why: Option<Refused>,
        /// Whether nothing more comes: the sender has stopped, or the receiver of a write has
        /// answered.
        is_agreed: bool,
    },
    /// All bytes of a write are sent: the answer is to come.
    AwaitsAnswer,
    /// All bytes of a write are in place there, and this end does not know yet that they are sent:
    /// their memory is in use until then.
    Answered,
}

/// Neighbours in a list of messages; null at its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) before: OpKey,
    pub(super) behind: OpKey,
}

/// A message under way.
#[derive(Debug)]
pub struct Message {
    /// Operation that was posted, or that the peer has asked for.
    pub posted: NewOperation,
    /// Progress of the message.
    pub state: State,
    /// Cursor up to which its bytes are scheduled.
    pub(super) cursor: PieceCursor,
    /// Bytes that were sent, or have arrived and are in place.
    pub(super) moved: u64,
    /// Messages of a transfer that have no counterpart stand in one list, receives that are being
    /// withdrawn in another.
    pub(super) links: Links,
    /// Its place among those of its tag, while it waits for its counterpart.
    pub(super) place: QueuePlace,
    /// The peer's name for it: the receive that its bytes go to, or the request that is served.
    pub(super) name: u64,
    /// State that a read or write has in addition.
    pub(super) access: Option<Access>,
}

/// Path on which the chunks of a message travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// On the link, where each is sent when it is scheduled, and in place when it has come.
    Link,
    /// On the channels.
    Channels,
}

/// State of a read or write beyond that of every message.
#[derive(Debug)]
pub(super) struct Access {
    /// Place of its bytes at this end.
    pub(super) pieces: Arc<Pieces>,
    /// Whether each pair travels by itself.
    pub(super) cuts_pairs: bool,
    pub(super) lane: Lane,
    pub(super) role: Role,
}

#[derive(Debug)]
pub(super) enum Role {
    /// This end is the initiator.
    Initiator(Request),
    /// This end is the target.
    Target(Serving),
}

/// A request of this end's program.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) list: Arc<PreparedList>,
    pub(super) note: Option<Arc<[u8]>>,
    /// Whether its list counts as used.
    pub(super) uses_list: bool,
    /// Whether it ends as soon as its memory is free, whatever the peer says later.
    pub(super) is_abandoned: bool,
}

/// A request of the peer.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) list: u32,
    pub(super) uses: Arc<[ExportKey]>,
    /// The note of a write, which is kept by this number until all is in place, and its bytes.
    pub(super) note: Option<(u64, u32)>,
}

impl Access {
    pub(super) fn new(pieces: Arc<Pieces>, role: Role) -> Self {
        Self { pieces, cuts_pairs: false, lane: Lane::Channels, role }
    }
}

impl Message {
    pub(super) fn new(posted: NewOperation, state: State) -> Self {
        let (cursor, links, place) = <_>::default();
        Self { posted, state, cursor, moved: 0, links, place, name: 0, access: None }
    }

    /// Makes the message of a read or write, at either end.
    pub(super) fn of_access(
        (transfer, direction): (TransferKey, Direction),
        state: State,
        access: Access,
    ) -> Self {
        let (span, bytes) = (access.pieces.start(), access.pieces.bytes);
        let posted = NewOperation { transfer, direction, tag: 0, span, bytes };
        Self { access: Some(access), ..Self::new(posted, state) }
    }

    /// Returns whether memory of this end may be written or read for it.
    pub fn uses_memory(&self) -> bool {
        match self.state {
            State::Moving | State::Answered => true,
            State::Ending { .. } => {
                self.posted.direction == Direction::Receive || !self.is_at_rest()
            }
            _ => false,
        }
    }

    /// Returns the exports of this end that it uses for the peer; `None`: it is of this end's
    /// program.
    pub fn serves(&self) -> Option<&Arc<[ExportKey]>> {
        match &self.access.as_ref()?.role {
            Role::Target(serving) => Some(&serving.uses),
            Role::Initiator(_) => None,
        }
    }

    /// Returns the registrations that its bytes lie in.
    pub fn owners(&self) -> &[RegistrationKey] {
        match &self.access {
            Some(access) => access.pieces.owners(),
            None => std::slice::from_ref(&self.posted.span.registration),
        }
    }

    /// Returns whether all that was scheduled has moved.
    pub(super) fn is_at_rest(&self) -> bool {
        self.moved == self.cursor.scheduled
    }

    /// Returns the number of bytes that are not scheduled.
    pub(super) fn left(&self) -> u64 {
        self.posted.bytes - self.cursor.scheduled
    }

    /// Returns whether the receiver of its bytes takes more of them.
    pub(super) fn takes_more(&self) -> bool {
        matches!(self.state, State::Moving | State::Ending { is_agreed: false, .. })
    }

    /// Returns the request that this end's program has made with it, if it is a request.
    pub(super) fn request(&self) -> Option<&Request> {
        match &self.access.as_ref()?.role {
            Role::Initiator(request) => Some(request),
            Role::Target(_) => None,
        }
    }

    /// Returns whether its bytes travel on the link, chunk by chunk.
    pub(super) fn is_on_link(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.lane == Lane::Link)
    }

    /// Returns the cost of having this many bytes of the message under way.
    pub(super) fn cost(&self, bytes: u64) -> u64 {
        self.access.as_ref().map_or(bytes, |access| access.pieces.cost(bytes))
    }

    /// Returns whether the peer may schedule this many bytes next, in chunks of this length, where
    /// `most` is the longest. Of a list, a section that ends in the middle of a pair must have at
    /// least `most` bytes.
    pub(super) fn allows(&self, bytes: u64, chunk_bytes: u32, most: u32) -> bool {
        let Self { cursor, access, .. } = self;
        match access {
            None => {
                let is_whole = bytes == self.left() || bytes.is_multiple_of(chunk_bytes.into());
                let is_some = bytes > 0 || self.posted.bytes == 0;
                is_some && bytes <= self.left() && is_whole
            }
            Some(access) => {
                let is_whole =
                    || bytes >= most.into() || cursor.ends_a_piece(&access.pieces, bytes);
                cursor.allows(&access.pieces, bytes, access.cuts_pairs) && is_whole()
            }
        }
    }

    /// Returns whether it is a receive that a match may still come for.
    pub(super) fn is_waiting_receive(&self) -> bool {
        matches!(self.state, State::ReadySent | State::Cancelling(_))
    }

    /// Returns the message that it is, once it is matched.
    pub(super) fn member(&self, op: OpKey) -> Member {
        let NewOperation { transfer, tag, span, bytes, .. } = self.posted;
        Member { op, transfer, span, bytes, tag }
    }
}
