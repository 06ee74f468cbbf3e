//! What one end does with messages of the other that come on the link.

use std::collections::BTreeMap;

use crate::frames::eager_terms::EagerTerms;
use crate::peer::action::{Landing, Outcome};
use crate::plans::plan::Member;
use crate::types::TransferKey;

/// A message of the other end.
pub(super) type Message = (TransferKey, u64);

/// Messages that came, by the keys of their transfers at the other end.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Those that wait for a receive, with their bytes, by number.
    pub(super) kept: BTreeMap<u64, Message>,
    /// A message that is in no receive. If a receive ends now for its size, it was meant for that.
    unwanted: Option<TransferKey>,
    /// Those that are in place, and in which receive.
    pub(super) placed: Vec<(TransferKey, TransferKey)>,
    /// Those that met a receive of another size.
    pub(super) misfits: Vec<(TransferKey, TransferKey)>,
    /// Those that nobody wanted.
    pub(super) thrown_away: Vec<TransferKey>,
}

impl Messages {
    /// A message came with a frame that was handled.
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
            (Landing::Kept(number), Some(message)) => {
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

    /// A message that was kept goes into a receive, or nowhere.
    pub(super) fn take_kept(&mut self, number: u64, into: Option<Member>) -> Result<(), String> {
        let Some(message) = self.kept.remove(&number) else {
            return Err(format!("no message is kept as {number}"));
        };
        self.land(into.map_or(Landing::Nowhere, Landing::Place), Some(message))
    }

    /// A receive has ended.
    pub(super) fn receive_ended(&mut self, receive: TransferKey, outcome: Outcome) {
        if let Outcome::SizeMismatch { .. } = outcome
            && let Some(message) = self.unwanted.take()
        {
            self.misfits.push((message, receive));
        }
        self.none_follows();
    }

    /// No receive ends because of the message that came last.
    pub(super) fn none_follows(&mut self) {
        self.thrown_away.extend(self.unwanted.take());
    }

    /// Whether what is kept has room.
    pub(super) fn check_room(&self, room: u64) -> Result<(), String> {
        let kept: u64 = self.kept.values().map(|(_, bytes)| EagerTerms::cost(*bytes)).sum();
        if kept <= room { Ok(()) } else { Err(format!("{kept} bytes are kept in {room}")) }
    }
}
