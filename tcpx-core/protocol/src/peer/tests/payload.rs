//! What follows a frame on the link.

use super::driver::{Check, Driver, ensure};
use super::messages::Message;
use super::requests::Note;
use crate::frames::frame::Frame;
use crate::frames::frame::one_sided::OneSidedFrame;
use crate::peer::action::{Landing, NoteUse};
use crate::plans::stretch::Stretch;
use crate::types::TransferKey;

/// What follows a frame.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    Message(TransferKey),
    Listed { bytes: Option<(TransferKey, Stretch)>, note: Option<Note> },
}

/// What has come of the other end behind a frame.
#[derive(Debug)]
pub(super) enum Came {
    Message(Message),
    Listed { bytes: Option<(TransferKey, Stretch)>, note: Option<Note> },
}

/// Bytes of pieces at the other end that are in pieces here.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) from: (TransferKey, Stretch),
    pub(super) to: (TransferKey, Stretch),
}

/// Whether anything follows a frame, perhaps of no bytes.
pub(super) fn is_followed(frame: &Frame) -> bool {
    matches!(
        frame,
        Frame::Deliver { .. }
            | Frame::Ahead { .. }
            | Frame::OneSided(
                OneSidedFrame::Write { note: Some(_), .. }
                    | OneSidedFrame::WriteNow { .. }
                    | OneSidedFrame::Part(_)
                    | OneSidedFrame::Notify { .. }
            )
    )
}

/// The bytes of a part land where they belonged while they were on their way.
pub(super) fn check_place(place: Option<&Stretch>, landing: &Landing) -> Check {
    let landed = match landing {
        Landing::Pieces { stretch, .. } => Some(stretch),
        _ => None,
    };
    let pieces = |of: Option<&Stretch>| of.map(|it| it.iter().collect::<Vec<_>>());
    let (place, landed) = (pieces(place), pieces(landed));
    ensure!(place == landed, "{landed:?} instead of {place:?}");
    Ok(())
}

impl Driver {
    /// What came behind a frame finds its place. Returns what pieces of what was moved.
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
            Landing::Pieces { transfer, stretch: to, note: note_use } => {
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

    /// The memory of some bytes of a list may be used now.
    pub(super) fn check_pieces(&self, transfer: TransferKey, bytes: &Stretch) -> Check {
        let memory = bytes.list().memory;
        ensure!(self.setting.eager.reaches(memory), "the CPU reaches none of {bytes:?}");
        bytes.iter().try_for_each(|piece| self.check_touched(transfer, piece.address, piece.bytes))
    }

    /// Some memory may be used now, for a transfer of ours or for the peer.
    pub(super) fn check_touched(&self, transfer: TransferKey, address: u64, bytes: u64) -> Check {
        match transfer == TransferKey::default() {
            true => self.exporting.check_touched(address, bytes),
            false => self.requests.check_touched(transfer),
        }
    }
}
