//! What the peer says of its lists, and exports that are taken back while requests of it use them.

use super::super::action::Violation;
use super::super::conversation::Conversation;
use super::OneSided;
use super::{Role, Serving};
use crate::exports::exported_range::ExportKey;
use crate::exports::refusal::{Refusal, Refused};
use crate::exports::table::Exports;
use crate::frames::frame::Frame;
use crate::frames::list_part::ListPart;
use crate::frames::messages::MessageId;
use crate::types::{Direction, OpKey};

impl OneSided {
    /// The peer tells a list, or more of it.
    pub(in super::super) fn handle_list(
        &mut self,
        cx: &mut Conversation,
        part: &ListPart,
        exports: &Exports,
    ) {
        cx.work.spend((part.keys.len() + part.ranges.len()) as u64);
        if let Err(fault) = self.told.handle_part(part, exports) {
            cx.broken(Violation::List { list: part.list, fault });
        }
    }

    /// The peer will ask for nothing of a list any more.
    pub(in super::super) fn handle_forget(
        &mut self,
        cx: &mut Conversation,
        list: u32,
        exports: &mut Exports,
    ) {
        if let Err(fault) = self.told.handle_forget(list, exports) {
            cx.broken(Violation::List { list, fault });
        }
    }

    /// Whether a request of the peer uses any of these exports.
    pub(in super::super) fn serves(&self, exports: &[ExportKey]) -> bool {
        self.listed.values().any(|listed| match &listed.role {
            Role::Serves(serving) => serving.uses.iter().any(|key| exports.contains(key)),
            Role::Asks(_) => false,
        })
    }

    /// Exports are taken back: what uses them is to end. Returns whether anything does.
    pub(in super::super) fn handle_revoked(
        &mut self,
        cx: &mut Conversation,
        exports: &[ExportKey],
    ) -> bool {
        let uses = |serving: &Serving| serving.uses.iter().any(|key| exports.contains(key));
        let mut using = Vec::new();
        for op in self.served.values().copied() {
            let Some(listed) = self.listed.get(op) else { continue };
            if let Role::Serves(serving) = &listed.role
                && uses(serving)
            {
                using.push(op);
            }
        }
        for op in using.iter().copied() {
            self.revoke_served(cx, op);
        }
        !using.is_empty()
    }

    fn revoke_served(&mut self, cx: &mut Conversation, op: OpKey) {
        let refused = Refused { why: Refusal::Revoked, range: 0 };
        if cx.operations[op].posted.direction == Direction::Send {
            return self.stop_serving_read(cx, op, refused);
        }
        let Some(listed) = self.listed.get_mut(op) else { return };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let Role::Serves(serving) = &mut listed.role else { return };
        if is_dealt || serving.stopped.is_some() || serving.is_halting {
            return;
        }
        let is_on_link = listed.is_on_link;
        if is_on_link {
            // All that has come is in place.
            serving.stopped = Some(refused);
            let left = listed.pieces.bytes - listed.cursor.dealt;
            self.unwanted.insert(serving.op, left);
            return self.listed_moved(cx, op);
        }
        serving.is_halting = true;
        let message = MessageId::Write(serving.op);
        cx.send(Frame::Cancel { message, why: Refusal::Revoked });
    }
}
