//! Payloads that follow a frame on the link.
//!
//! A chunk on its way, as the parts of messages that it has.
//!
//! The module also does what one end does with messages of the other that come on the link.

use std::collections::BTreeMap;

use super::driver::{Check, Driver, ensure};
use super::requests::Note;
use crate::frames::eager_terms::EagerTerms;
use crate::frames::frame::Frame;
use crate::frames::messages::{Offer, WriteWay};
use crate::peer::action::{Landing, NoteUse, Outcome};
use crate::plans::piece_range::PieceRange;
use crate::plans::plan::Member;
use crate::plans::stripe_queue::StripeQueue;
use crate::types::{OpKey, TransferKey};

/// Payload that follows a frame.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    Message(TransferKey),
    Listed { bytes: Option<(TransferKey, PieceRange)>, note: Option<Note> },
}

/// Payload that has come of the other end behind a frame.
#[derive(Debug)]
pub(super) enum Came {
    Message(Message),
    Listed { bytes: Option<(TransferKey, PieceRange)>, note: Option<Note> },
}

/// Bytes of pieces at the other end that are in pieces here.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) from: (TransferKey, PieceRange),
    pub(super) to: (TransferKey, PieceRange),
}

/// Returns whether anything follows a frame, perhaps of no bytes.
pub(super) fn is_followed(frame: &Frame) -> bool {
    matches!(
        frame,
        Frame::LinkChunk(_)
            | Frame::Offer(
                Offer::Eager { .. }
                    | Offer::Note { .. }
                    | Offer::Write { note: Some(_), .. }
                    | Offer::Write { way: WriteWay::Inline(_), .. }
            )
    )
}

/// Checks that the bytes of a part land where they belonged while they were on their way.
pub(super) fn check_place(place: Option<&PieceRange>, landing: &Landing) -> Check {
    let landed = match landing {
        Landing::Pieces { range, .. } => Some(range),
        _ => None,
    };
    let pieces = |of: Option<&PieceRange>| of.map(|it| it.iter().collect::<Vec<_>>());
    let (place, landed) = (pieces(place), pieces(landed));
    ensure!(place == landed, "{landed:?} instead of {place:?}");
    Ok(())
}

impl Driver {
    /// Lands what came behind a frame. Returns the moved bytes of pieces.
    pub(super) fn land(
        &mut self,
        landing: Landing,
        came: Option<Came>,
        is_alone: bool,
    ) -> Result<Option<Landed>, String> {
        let (bytes, note) = match came {
            None => return self.messages.land(landing, None).map(|()| None),
            Some(Came::Message(message)) => {
                return self.messages.land(landing, Some(message)).map(|()| None);
            }
            Some(Came::Listed { bytes, note }) => (bytes, note),
        };
        match landing {
            Landing::Nowhere => Ok(None),
            Landing::Note(note_use) => {
                self.notes.land(note_use, note, is_alone)?;
                Ok(None)
            }
            Landing::Pieces { transfer, range: to, note: note_use } => {
                let Some(from) = bytes else { return Err(format!("nothing came for {to:?}")) };
                ensure!(from.1.bytes() == to.bytes(), "{from:?} for {to:?}");
                self.check_pieces(transfer, &to)?;
                ensure!(note_use != NoteUse::None || note.is_none(), "a note is lost");
                self.notes.land(note_use, note, is_alone)?;
                Ok(Some(Landed { from, to: (transfer, to) }))
            }
            landing => Err(format!("pieces came for {landing:?}")),
        }
    }

    /// Checks that the memory of some bytes of a list may be used now.
    pub(super) fn check_pieces(&self, transfer: TransferKey, bytes: &PieceRange) -> Check {
        let memory = bytes.list().memory;
        let longest = self.setting.eager.longest_in(memory);
        ensure!(bytes.list().bytes <= longest, "the CPU reaches none of {bytes:?}");
        bytes.iter().try_for_each(|piece| self.check_touched(transfer, piece.address, piece.bytes))
    }

    /// Checks that some memory may be used now, for a transfer of ours or for the peer.
    pub(super) fn check_touched(&self, transfer: TransferKey, address: u64, bytes: u64) -> Check {
        match transfer == TransferKey::default() {
            true => self.exporting.check_touched(address, bytes),
            false => self.requests.check_touched(transfer),
        }
    }
}

/// Bytes of one message, which a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The message, by the key of its transfer.
    pub(super) of: TransferKey,
    pub(super) op: OpKey,
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A chunk on its way.
pub(super) type Chunk = Vec<Piece>;

/// Takes the next chunk of a lane.
pub(super) fn take_chunk(stripes: &mut StripeQueue) -> Option<Chunk> {
    let (stripe, range) = stripes.peek()?;
    let part = |member: &Member, offset: u64, bytes: u64| Piece {
        of: member.transfer,
        op: member.op,
        address: member.span.address + offset,
        offset,
        bytes,
    };
    let chunk = match stripe.members() {
        [one] => vec![part(one, range.offset, u64::from(range.bytes))],
        many => many.iter().map(|member| part(member, 0, member.bytes)).collect(),
    };
    stripes.take();
    Some(chunk)
}

/// A message of the other end.
pub(super) type Message = (TransferKey, u64);

/// Messages that came, by the keys of their transfers at the other end.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Messages that wait for a receive, with their bytes, by number.
    pub(super) kept: BTreeMap<u64, Message>,
    /// A message that is in no receive. If a receive ends now for its size, it was meant for that.
    unwanted: Option<TransferKey>,
    /// Messages that are in place, and their receives.
    pub(super) placed: Vec<(TransferKey, TransferKey)>,
    /// Messages that met a receive of another size.
    pub(super) misfits: Vec<(TransferKey, TransferKey)>,
    /// Messages that were unwanted.
    pub(super) thrown_away: Vec<TransferKey>,
}

impl Messages {
    /// Lands a message that came with a frame that was handled.
    pub(super) fn land(
        &mut self,
        landing: Landing,
        message: Option<Message>,
    ) -> Result<(), String> {
        match (landing, message) {
            (Landing::Nowhere, None) => {}
            (Landing::Nowhere, Some((message, _))) => self.unwanted = Some(message),
            (Landing::Place(member), Some((message, bytes))) => {
                if member.bytes != bytes {
                    return Err(format!("{bytes} bytes go into {member:?}"));
                }
                self.placed.push((message, member.transfer));
            }
            (Landing::Unexpected(number), Some(message)) => {
                if self.kept.insert(number, message).is_some() {
                    return Err(format!("two messages have number {number}"));
                }
            }
            (landing @ (Landing::Pieces { .. } | Landing::Note(_)), Some(_)) => {
                return Err(format!("a message came for {landing:?}"));
            }
            (landing, None) => return Err(format!("nothing came for {landing:?}")),
        }
        Ok(())
    }

    /// Takes a message that was kept into a receive, or nowhere.
    pub(super) fn take_unexpected(
        &mut self,
        number: u64,
        into: Option<Member>,
    ) -> Result<(), String> {
        let Some(message) = self.kept.remove(&number) else {
            return Err(format!("no message is kept as {number}"));
        };
        self.land(into.map_or(Landing::Nowhere, Landing::Place), Some(message))
    }

    /// Notes that a receive has ended.
    pub(super) fn receive_ended(&mut self, receive: TransferKey, outcome: Outcome) {
        if let Outcome::SizeMismatch { .. } = outcome
            && let Some(message) = self.unwanted.take()
        {
            self.misfits.push((message, receive));
        }
        self.none_follows();
    }

    /// Notes that no receive ends because of the message that came last.
    pub(super) fn none_follows(&mut self) {
        self.thrown_away.extend(self.unwanted.take());
    }

    /// Returns whether what is kept has room.
    pub(super) fn check_room(&self, room: u64) -> Result<(), String> {
        let kept: u64 = self.kept.values().map(|(_, bytes)| EagerTerms::cost(*bytes)).sum();
        if kept <= room { Ok(()) } else { Err(format!("{kept} bytes are kept in {room}")) }
    }
}
