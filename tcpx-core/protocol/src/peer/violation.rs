//! Breaches of the protocol by the peer.

use super::one_sided::remote_lists::ListFault;
use crate::frames::eager_terms::CreditKind;
use crate::frames::messages::MessageId;

/// Breach of the protocol, which a well-behaved peer never commits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Not one handle for each channel.
    #[error("{0} connect handles")]
    Handles(usize),
    /// A frame that has no place in this state.
    #[error("{frame} while the peer is {state}")]
    Unexpected {
        /// The frame.
        frame: String,
        /// The state that the peer was in.
        state: &'static str,
    },
    /// More came than there is room for.
    #[error("more than the {limit} of {what} that it may send so far")]
    NoRoom {
        /// Kind of what is kept.
        what: CreditKind,
        /// Most that there may be.
        limit: u64,
    },
    /// Less may be sent than was said before.
    #[error("{now} of {what} may be sent, {before} before")]
    RoomTakenBack {
        /// Kind of what is kept.
        what: CreditKind,
        /// Limit that was said before.
        before: u64,
        /// Limit that is said now.
        now: u64,
    },
    /// A receive that is announced already.
    #[error("receive {recv:#x} was announced twice")]
    AnnouncedTwice {
        /// The receiver's name for the receive.
        recv: u64,
    },
    /// A channel that there is not.
    #[error("match on channel {0}")]
    MatchChannel(u16),
    /// Chunks of another size than was agreed.
    #[error("match with chunks of {chunk_bytes} bytes, {most} are agreed")]
    ChunkBytes {
        /// Most bytes of a chunk.
        chunk_bytes: u32,
        /// Most that there may be.
        most: u32,
    },
    /// A match of nothing.
    #[error("match without a receive")]
    EmptyMatch,
    /// A match of a receive that was not announced.
    #[error("it speaks of receive {recv:#x}, which does not wait here")]
    UnknownReceive {
        /// The receiver's name for the receive.
        recv: u64,
    },
    /// A section that does not follow the one before it.
    #[error(
        "{bytes} bytes from {offset} on of receive {recv:#x}, of whose {message_bytes} bytes \
         {scheduled} were scheduled"
    )]
    Section {
        /// The receiver's name for the receive.
        recv: u64,
        /// Offset at which the section begins.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Bytes of it that are scheduled.
        scheduled: u64,
        /// Bytes of the message.
        message_bytes: u64,
    },
    /// Counts of another number of channels.
    #[error("chunks sent on {0} channels")]
    SentChannels(usize),
    /// Credit for another number of channels.
    #[error("credit for chunks on {0} channels")]
    CreditChannels(usize),
    /// Less credit than was given before.
    #[error("credit for {now} chunks on channel {channel}, {before} before")]
    CreditTakenBack {
        /// The channel.
        channel: u16,
        /// Credit that was given before.
        before: u64,
        /// Credit that is given now.
        now: u64,
    },
    /// Fewer chunks are unpacked than before.
    #[error("{now} chunks of channel {channel} are unpacked, {before} before")]
    UnpackedTakenBack {
        /// The channel.
        channel: u16,
        /// Number that was said before.
        before: u64,
        /// Number that is said now.
        now: u64,
    },
    /// A message ahead that is longer than was agreed.
    #[error("a message of {bytes} bytes went ahead, which was not agreed on")]
    Ahead {
        /// Bytes.
        bytes: u64,
    },
    /// A message ahead was asked for that did not come.
    #[error("it has taken a message with tag {tag}, and none went ahead")]
    NothingAhead {
        /// Its tag.
        tag: i64,
    },
    /// Several messages in one chunk, where this end takes one.
    #[error("receive {recv:#x} cannot share a chunk with the one before")]
    CannotShare {
        /// The receiver's name for the receive.
        recv: u64,
    },
    /// A list that breaks the rules of lists.
    #[error("list {list}: {fault}")]
    List {
        /// The list that it moves.
        list: u32,
        /// Fault of the list.
        fault: ListFault,
    },
    /// A request that breaks the rules of requests.
    #[error("request {op:#x} of list {list}, which it cannot ask for")]
    Request {
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// The list that it moves.
        list: u32,
    },
    /// A chunk on the link of a message that takes no such one, or no more.
    #[error("{bytes} bytes on the link of {of}, which takes no such chunk")]
    Part {
        /// The message.
        of: MessageId,
        /// Bytes.
        bytes: u32,
    },
    /// A frame for a request that there is not.
    #[error("it speaks of request {op:#x}, which is not so far")]
    UnknownRequest {
        /// Number of the operation, given by the end that posted it.
        op: u64,
    },
    /// More bytes were scheduled to a receive than it has.
    #[error("more than {limit} sections are scheduled, and their chunks do not come")]
    TooManyDealt {
        /// Most that there may be.
        limit: usize,
    },
}
