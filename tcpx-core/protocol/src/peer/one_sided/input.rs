//! Handlers of what the peer says of its lists, and of exports that are taken back while requests
//! of the peer use them.

use super::super::conversation::Conversation;
use super::super::message::{Message, State};
use super::super::violation::Violation;
use super::OneSided;
use crate::exports::exported_range::ExportKey;
use crate::exports::refusal::{Refusal, Refused};
use crate::exports::table::Exports;
use crate::frames::frame::Frame;
use crate::frames::list_part::ListPart;
use crate::frames::messages::MessageId;
use crate::types::{Direction, OpKey};

impl OneSided {
    /// Handles a list, or a part of one, that the peer tells.
    pub(in super::super) fn handle_list(
        &mut self,
        cx: &mut Conversation,
        part: &ListPart,
        exports: &Exports,
    ) {
        cx.work.spend((part.keys.len() + part.ranges.len()) as u64);
        if let Err(fault) = self.remote_lists.handle_part(part, exports) {
            cx.broken(Violation::List { list: part.list, fault });
        }
    }

    /// Forgets a list: the peer will ask for nothing of it any more.
    pub(in super::super) fn handle_forget(
        &mut self,
        cx: &mut Conversation,
        list: u32,
        exports: &mut Exports,
    ) {
        if let Err(fault) = self.remote_lists.handle_forget(list, exports) {
            cx.broken(Violation::List { list, fault });
        }
    }

    /// Returns whether a request of the peer uses any of these exports.
    pub(in super::super) fn serves(&self, cx: &Conversation, exports: &[ExportKey]) -> bool {
        self.served.values().any(|op| uses(cx, *op, exports))
    }

    /// Exports are taken back: what uses them is to end. Returns whether anything does.
    pub(in super::super) fn handle_revoked(
        &mut self,
        cx: &mut Conversation,
        exports: &[ExportKey],
    ) -> bool {
        let served = self.served.values().copied();
        let using: Vec<_> = served.filter(|op| uses(cx, *op, exports)).collect();
        for op in using.iter().copied() {
            self.revoke_served(cx, op);
        }
        !using.is_empty()
    }

    fn revoke_served(&mut self, cx: &mut Conversation, op: OpKey) {
        let refused = Refused { why: Refusal::Revoked, range: 0 };
        let Some(message) = cx.operations.get_mut(op) else { return };
        if message.posted.direction == Direction::Send {
            return self.stop_serving_read(cx, op, refused);
        }
        let (name, left, is_on_link) = (message.name, message.left(), message.is_on_link());
        if left == 0 || message.state != State::Moving {
            return;
        }
        message.state = State::Ending { why: Some(refused), is_agreed: is_on_link };
        if is_on_link {
            // All that has come is in place.
            self.unwanted.insert(name, left);
            return self.check_moved(cx, op);
        }
        cx.send(Frame::Cancel { message: MessageId::Write(name), why: Refusal::Revoked });
    }
}

/// Returns whether a request of the peer uses any of these exports.
fn uses(cx: &Conversation, op: OpKey, exports: &[ExportKey]) -> bool {
    let uses = cx.operations.get(op).and_then(Message::serves);
    uses.is_some_and(|uses| uses.iter().any(|key| exports.contains(key)))
}
