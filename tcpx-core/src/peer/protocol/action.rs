//! What the protocol asks of its driver.

use std::sync::Arc;
use std::time::Duration;

use tcpx_sys::NetHandle;

use super::arrivals::Loss;
use super::one_sided::prepared::PreparedList;
use super::one_sided::told::ListFault;
use super::operation::Withdrawal;
use super::stage::PeerStage;
use crate::control::frame::{ChunkCounts, Frame};
use crate::control::keeping::Keeping;
use crate::exports::joint_uses::ExportKey;
use crate::exports::refusal::Refusal;
use crate::transfer::plan::{ChunkPlan, Member};
use crate::transfer::stretch::Stretch;
use crate::types::{Direction, MemoryType, RegistrationKey, TransferKey};

/// One thing to do, in the order in which they come.
#[derive(Debug)]
pub(crate) enum Action {
    /// Queue a frame on the control link.
    Send(Frame),
    /// Send a frame on the control link, and the bytes of a message of ours behind it.
    SendMessage { frame: Frame, member: Member },
    /// Send a frame on the control link, and behind it the bytes of a list, which belong to a
    /// transfer of ours or to nobody's, and then those of a note.
    SendListed { frame: Frame, bytes: Option<(TransferKey, Stretch)>, note: Option<Arc<[u8]>> },
    /// Take out the note that was [kept](NoteUse::Keep) under this number: the program gets it, or
    /// nobody.
    Note { number: u64, is_published: bool },
    /// A request of the peer is over. It does not use these exports any more.
    Served(Arc<[ExportKey]>),
    /// The peer has asked for what it is refused, for the first time.
    Refused(Refusal),
    /// An operation with this list has ended, once and for all.
    CompleteListed { transfer: TransferKey, list: Arc<PreparedList>, outcome: Outcome },
    /// Take out the message that was [kept](Landing::Kept) under this number: its bytes go into
    /// this receive, or nowhere.
    TakeKept { number: u64, into: Option<Member> },
    /// Begin to listen on every channel, for comms both ways, and say when they are there.
    OpenChannels,
    /// Connect send comms to these handles, one for each channel.
    Connect(Vec<NetHandle>),
    /// Every comm is there, at both ends: chunks may flow both ways.
    Open,
    /// Send no more chunks than so many on each channel, counted from the first one. It comes right
    /// behind [`Open`](Self::Open), before any chunk, or never.
    Credit(ChunkCounts),
    /// See to it that a channel has a staging buffer for gathering from this kind of memory, and
    /// answer with [`handle_staging`](super::PeerProtocol::handle_staging), now or later. It is
    /// asked once. What is to be gathered there waits for the answer, and so does all behind it.
    PrepareStaging { channel: u16, memory: MemoryType },
    /// Post these chunks on the send lanes.
    SendChunks(ChunkPlan),
    /// Post these chunks on the receive lanes.
    ReceiveChunks(ChunkPlan),
    /// An operation has ended, once and for all.
    Complete(Completion),
    /// Ask the system how long the peer's host has acknowledged nothing, and answer with
    /// [`handle_acknowledgement`](super::PeerProtocol::handle_acknowledgement).
    AskHost,
    /// Count the chunks that were sent on each channel, and answer with
    /// [`handle_sent`](super::PeerProtocol::handle_sent).
    CountSent,
    /// Close the send comms, and say so with
    /// [`handle_sends_closed`](super::PeerProtocol::handle_sends_closed).
    CloseSends,
    /// Close the receive comms, and say so with
    /// [`handle_receives_closed`](super::PeerProtocol::handle_receives_closed).
    CloseReceives,
    /// It is over. What has not ended is the driver's to end, with
    /// [`take_operations`](super::PeerProtocol::take_operations).
    End { ending: Ending, during: PeerStage },
}

/// What becomes of the bytes that followed a frame.
#[derive(Clone, Debug)]
pub(crate) enum Landing {
    /// There are none, or nobody wants them.
    Nowhere,
    /// They belong to this receive, and must be in place before the next action.
    Place(Member),
    /// They are kept, by this number, until [`TakeKept`](Action::TakeKept).
    Kept(u64),
    /// The first of them belong here, to a list of a transfer of ours or of nobody's, and must be
    /// in place before the next action; a note is behind them.
    Pieces { transfer: TransferKey, stretch: Stretch, note: NoteUse },
    /// They are a note.
    Note(NoteUse),
}

/// What becomes of a note of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoteUse {
    /// There is none.
    None,
    /// The program gets it, with what came before it in place.
    Publish(u32),
    /// It is kept, by this number, until [`Action::Note`].
    Keep { number: u64, bytes: u32 },
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) transfer: TransferKey,
    /// The registration that it used.
    pub(crate) registration: RegistrationKey,
    pub(crate) direction: Direction,
    pub(crate) tag: i64,
    pub(crate) outcome: Outcome,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its bytes were sent, or are in place.
    Done,
    /// It has no counterpart, and will have none.
    Withdrawn(Withdrawal),
    /// The two ends posted different sizes.
    SizeMismatch { send_bytes: u64, recv_bytes: u64 },
    /// The peer has refused it, or stopped it, because of one range of its list.
    Refused { why: Refusal, range: u32 },
}

/// Why it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
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
    /// Nobody has asked for the peer, and it did not come up within its time.
    NeverUp { waited: Duration, state: &'static str },
    /// The peer said what no well-behaved peer says.
    Broken(Violation),
}

/// What no well-behaved peer says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("{0} connect handles")]
    Handles(usize),
    #[error("{frame} while the peer is {state}")]
    Unexpected { frame: String, state: &'static str },
    #[error("more than the {limit} of {what} that it may send so far")]
    NoRoom { what: Keeping, limit: u64 },
    #[error("{now} of {what} may be sent, {before} before")]
    RoomTakenBack { what: Keeping, before: u64, now: u64 },
    #[error("receive {recv:#x} was announced twice")]
    AnnouncedTwice { recv: u64 },
    #[error("match on channel {0}")]
    MatchChannel(u16),
    #[error("match with chunks of {chunk_bytes} bytes, {most} are agreed")]
    ChunkBytes { chunk_bytes: u32, most: u32 },
    #[error("match without a receive")]
    EmptyMatch,
    #[error("it speaks of receive {recv:#x}, which does not wait here")]
    UnknownReceive { recv: u64 },
    #[error(
        "{bytes} bytes from {offset} on of receive {recv:#x}, of whose {message_bytes} bytes \
         {dealt} were dealt"
    )]
    Section { recv: u64, offset: u64, bytes: u64, dealt: u64, message_bytes: u64 },
    #[error("chunks sent on {0} channels, which nobody has asked for")]
    SentUnasked(usize),
    #[error("credit for chunks on {0} channels")]
    CreditChannels(usize),
    #[error("credit for {now} chunks on channel {channel}, {before} before")]
    CreditTakenBack { channel: u16, before: u64, now: u64 },
    #[error("{bytes} bytes on the link for receive {recv:#x}, which takes no such message")]
    Delivery { recv: u64, bytes: u64 },
    #[error("a message of {bytes} bytes went ahead, which was not agreed on")]
    Ahead { bytes: u64 },
    #[error("it has taken a message with tag {tag}, and none went ahead")]
    NothingAhead { tag: i64 },
    #[error("receive {recv:#x} cannot share a chunk with the one before")]
    CannotShare { recv: u64 },
    #[error("list {list}: {fault}")]
    List { list: u32, fault: ListFault },
    #[error("request {op:#x} of list {list}, which it cannot ask for")]
    Request { op: u64, list: u32 },
    #[error("{bytes} bytes of request {op:#x} on the link, which it takes no more of")]
    Part { op: u64, bytes: u32 },
    #[error("it speaks of request {op:#x}, which is not so far")]
    UnknownRequest { op: u64 },
    #[error("more than {limit} sections dealt whose chunks do not come")]
    TooManyDealt { limit: usize },
}
