//! Actions that the protocol asks of its driver.

use std::sync::Arc;
use std::time::Duration;

use super::lifecycle::arrivals::Loss;
use super::lifecycle::stage::PeerStage;
use super::one_sided::local_lists::PreparedList;
use super::violation::Violation;
use crate::exports::exported_range::ExportKey;
use crate::exports::refusal::{Refusal, Refused};
use crate::frames::fields::ChannelHandle;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::plans::piece_range::PieceRange;
use crate::plans::plan::{ChunkPlan, Member};
use crate::types::{Direction, MemoryType, RegistrationKey, TransferKey};

/// Thing to do. Actions are done in the order in which they come.
#[derive(Debug)]
pub enum Action {
    /// Queue a frame on the control link.
    Send(Frame),
    /// Send a frame on the control link, and the bytes of a message of ours behind it.
    SendMessage {
        /// The frame.
        frame: Frame,
        /// The message.
        member: Member,
    },
    /// Send a frame on the control link. Behind it send the bytes of a list, which belong to a
    /// transfer of ours or to none, and then those of a note.
    SendWithPayload {
        /// The frame.
        frame: Frame,
        /// Bytes.
        bytes: Option<(TransferKey, PieceRange)>,
        /// The note behind it, if there is one.
        note: Option<Arc<[u8]>>,
    },
    /// Take out the note that was [kept](NoteUse::Keep) under this number: the program gets it, or
    /// it is dropped.
    Note {
        /// The number.
        number: u64,
        /// Whether the program gets it.
        is_published: bool,
    },
    /// A request of the peer is over. It does not use these exports any more.
    Served(Arc<[ExportKey]>),
    /// The peer has asked for what it is refused, for the first time.
    Refused(Refusal),
    /// Take out the [unexpected](Landing::Unexpected) message under this number: its bytes go into
    /// this receive, or nowhere.
    TakeUnexpected {
        /// The number.
        number: u64,
        /// The receive that gets it, if there is one.
        into: Option<Member>,
    },
    /// Begin to listen on every channel, for comms both ways, and say when they are there.
    OpenChannels,
    /// Connect send comms to these handles, one for each channel.
    Connect(Vec<ChannelHandle>),
    /// Every comm is there, at both ends: chunks may flow both ways.
    Open,
    /// Send no more chunks than these on each channel, counted from the first one. This action
    /// comes right behind [`Open`](Self::Open), before any chunk, or never.
    Credit(ChunkCounts),
    /// The other end has unpacked this many chunks on each channel, counted from the first one:
    /// they are done. It comes only where chunks
    /// [are kept](crate::frames::hello::Agreement::keeps_chunks).
    Unpacked(ChunkCounts),
    /// Close both comms of a channel, which is lost. Once they are closed, and no unpack of it is
    /// under way, answer with
    /// [`handle_channel_closed`](super::PeerProtocol::handle_channel_closed). What it was dealt
    /// stays, for [`Redeal`](Self::Redeal), and more may come until then.
    CloseChannel {
        /// The channel.
        channel: u16,
        /// The chunks that do not arrive, if that is why.
        why: Option<Loss>,
    },
    /// Move what was dealt to a lost channel, and has not finished, behind what was dealt to
    /// another one, with
    /// [`StripeQueue::move_to`](crate::plans::stripe_queue::StripeQueue::move_to).
    Redeal {
        /// Whether it is sent or received.
        direction: Direction,
        /// The channel that is lost.
        lost: u16,
        /// The other one.
        onto: u16,
    },
    /// See to it that a channel has a staging buffer for gathering from this kind of memory, and
    /// answer with [`handle_staging`](super::PeerProtocol::handle_staging), now or later. The
    /// protocol asks once. Messages to gather there wait for the answer, and so do all messages
    /// behind them.
    PrepareStaging {
        /// The channel.
        channel: u16,
        /// The kind of memory.
        memory: MemoryType,
    },
    /// Post these chunks on the send lanes.
    SendChunks(ChunkPlan),
    /// Post these chunks on the receive lanes.
    ReceiveChunks(ChunkPlan),
    /// An operation has ended, once and for all. A read or write comes with its list.
    Complete(Completion, Option<Arc<PreparedList>>),
    /// Ask the system how long the peer's host has acknowledged nothing, and answer with
    /// [`handle_acknowledgement`](super::PeerProtocol::handle_acknowledgement).
    CheckHost,
    /// Count the chunks that were sent on each channel, none where there are no send comms, and
    /// answer with
    /// [`handle_sent`](super::PeerProtocol::handle_sent).
    CountSent,
    /// Close the send comms, and say so with
    /// [`handle_sends_closed`](super::PeerProtocol::handle_sends_closed).
    CloseSends,
    /// Close the receive comms, and say so with
    /// [`handle_receives_closed`](super::PeerProtocol::handle_receives_closed).
    CloseReceives,
    /// The conversation is over. The driver ends what has not ended, with
    /// [`take_operations`](super::PeerProtocol::take_operations).
    End {
        /// Reason of the end.
        ending: Ending,
        /// Stage in which the peer was.
        during: PeerStage,
    },
}

/// Destination of the bytes that followed a frame.
#[derive(Clone, Debug)]
pub enum Landing {
    /// There are none, or they are unwanted.
    Nowhere,
    /// They belong to this receive, and must be in place before the next action.
    Place(Member),
    /// They are kept, by this number, until [`TakeUnexpected`](Action::TakeUnexpected).
    Unexpected(u64),
    /// The first of them belong here, to a list of a transfer of ours or of none. They must be in
    /// place before the next action; a note is behind them.
    Pieces {
        /// The transfer that it is of.
        transfer: TransferKey,
        /// Part of the list that they fill.
        range: PieceRange,
        /// The note behind it, if there is one.
        note: NoteUse,
    },
    /// They are a note.
    Note(NoteUse),
}

/// Use of a note of this many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteUse {
    /// There is none.
    None,
    /// The program gets it, with what came before it in place.
    Publish(u32),
    /// It is kept, by this number, until [`Action::Note`].
    Keep {
        /// The number.
        number: u64,
        /// Bytes.
        bytes: u32,
    },
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The transfer that it is of.
    pub transfer: TransferKey,
    /// The registration that it used.
    pub registration: RegistrationKey,
    /// Direction in which it moves bytes.
    pub direction: Direction,
    /// Its tag.
    pub tag: i64,
    /// Outcome of the operation.
    pub outcome: Outcome,
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its bytes were sent, or are in place.
    Done,
    /// The operation has no counterpart, and will have none.
    Withdrawn(Withdrawal),
    /// The two ends posted different sizes.
    SizeMismatch {
        /// Bytes of the send.
        send_bytes: u64,
        /// Bytes of the receive.
        recv_bytes: u64,
    },
    /// The peer has refused it, or stopped it, because of one range of its list.
    Refused {
        /// Why.
        why: Refusal,
        /// Index of the range that it is about.
        range: u32,
    },
}

/// Reason why an operation ends without a counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The program has cancelled it.
    Cancelled,
    /// The program has left the peer.
    Left,
    /// The peer has left first.
    PeerLeft,
}

impl Outcome {
    /// Returns the reason why it was refused, if it was.
    pub(super) fn refused(self) -> Option<Refused> {
        match self {
            Self::Refused { why, range } => Some(Refused { why, range }),
            _ => None,
        }
    }
}

impl From<Refused> for Outcome {
    fn from(Refused { why, range }: Refused) -> Self {
        Self::Refused { why, range }
    }
}

impl From<Option<Refused>> for Outcome {
    /// Converts a reason: refused, or withdrawn by the program.
    fn from(why: Option<Refused>) -> Self {
        why.map_or(Self::Withdrawn(Withdrawal::Cancelled), Self::from)
    }
}

/// Reason why a conversation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both ends said goodbye, and every comm is closed.
    Goodbye,
    /// The peer gave up, and why.
    Aborted(String),
    /// The peer makes progress by itself and was asked, and has been silent for so long.
    Silent(Duration),
    /// The peer's host has acknowledged nothing for so long.
    HostGone(Duration),
    /// Chunks that the peer has sent do not arrive, though its link lives.
    ChunksLost(Loss),
    /// This channel is lost, and no other one is left.
    NoChannelLeft(u16),
    /// No program has asked for the peer, and it did not come up within its time.
    NeverUp {
        /// Time for which this end waited.
        waited: Duration,
        /// The state that the peer was in.
        state: &'static str,
    },
    /// The peer said what no well-behaved peer says.
    Broken(Violation),
}
