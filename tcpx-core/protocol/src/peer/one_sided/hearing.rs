//! What the peer says of exported memory, here or there: who it is for.
//!
//! Exports that are taken back while requests of the peer use them.

use super::super::action::{Landing, NoteUse, Violation};
use super::super::conversation::Conversation;
use super::super::lifecycle::stage::Stage;
use super::OneSided;
use super::serving::WriteWay;
use super::told::Refused;
use super::{Role, Serving};
use crate::exports::exported_range::ExportKey;
use crate::exports::refusal::Refusal;
use crate::exports::table::Exports;
use crate::frames::frame::one_sided::OneSidedFrame;
use crate::types::memory::OperationKind;
use crate::types::{Direction, OpKey};

impl OneSided {
    /// What the peer says of exported memory, here or there. Returns what becomes of the bytes that
    /// follow.
    pub(in super::super) fn handle_one_sided(
        &mut self,
        cx: &mut Conversation,
        frame: OneSidedFrame,
        exports: &mut Exports,
    ) -> Landing {
        match &cx.life.stage {
            Stage::Connecting { .. } => {
                let (frame, state) = (format!("{frame:?}"), cx.life.words());
                cx.broken(Violation::Unexpected { frame, state });
                return Landing::Nowhere;
            }
            Stage::Over => return Landing::Nowhere,
            Stage::Up { .. } | Stage::Closing(_) => {}
        }
        match frame {
            OneSidedFrame::Write { op, list, note, on_link } => {
                let way = if on_link { WriteWay::Link } else { WriteWay::Channels };
                self.handle_write(cx, (op, list), note, way, exports)
            }
            OneSidedFrame::Part(part) => self.handle_part(cx, part),
            OneSidedFrame::WriteNow { op, list, bytes, note } => {
                self.handle_write(cx, (op, list), note, WriteWay::Inline(bytes), exports)
            }
            OneSidedFrame::Notify { bytes } => match self.comes(cx, bytes) {
                true => {
                    self.stats.notifications_received += 1;
                    Landing::Note(NoteUse::Publish(bytes))
                }
                false => Landing::Nowhere,
            },
            frame => {
                self.handle_one_sided_words(cx, frame, exports);
                Landing::Nowhere
            }
        }
    }

    /// A frame came that nothing follows.
    fn handle_one_sided_words(
        &mut self,
        cx: &mut Conversation,
        frame: OneSidedFrame,
        exports: &mut Exports,
    ) {
        let told = &mut self.told;
        let (list, outcome) = match frame {
            OneSidedFrame::List { list, kind, keys, ranges, bytes } => {
                (list, told.handle_list(list, kind, (keys, ranges), bytes))
            }
            OneSidedFrame::ListKeys { list, keys } => {
                cx.work.spend(keys.len() as u64);
                (list, told.handle_keys(list, &keys, exports))
            }
            OneSidedFrame::ListRanges { list, ranges } => {
                cx.work.spend(ranges.len() as u64);
                (list, told.handle_ranges(list, &ranges, exports))
            }
            OneSidedFrame::Forget { list } => (list, told.handle_forget(list, exports)),
            OneSidedFrame::Read { op, list, cut, on_link } => {
                return self.handle_read(cx, op, list, cut, on_link, exports);
            }
            OneSidedFrame::Grant { op, recv, cut } => return self.handle_grant(cx, op, recv, cut),
            OneSidedFrame::Halt { kind: OperationKind::Write, op, why } => {
                return self.handle_write_halted(cx, op, why);
            }
            OneSidedFrame::Halt { kind: OperationKind::Read, op, why } => {
                return self.handle_read_halted(cx, op, why);
            }
            OneSidedFrame::Stopped { kind, op, why, range } => {
                return self.handle_stopped(cx, kind, op, Refused { why, range });
            }
            OneSidedFrame::Answer { op, why, range } => {
                return self.handle_answer(cx, op, why.map(|why| Refused { why, range }));
            }
            OneSidedFrame::Write { .. }
            | OneSidedFrame::WriteNow { .. }
            | OneSidedFrame::Part(_)
            | OneSidedFrame::Notify { .. } => return,
        };
        if let Err(fault) = outcome {
            cx.broken(Violation::List { list, fault });
        }
    }

    /// Whoever sends the bytes of an operation sends no more of them.
    fn handle_stopped(
        &mut self,
        cx: &mut Conversation,
        kind: OperationKind,
        name: u64,
        refused: Refused,
    ) {
        let broken = Violation::UnknownRequest { op: name };
        let op = match kind {
            OperationKind::Read => Some(OpKey::from_wire(name)),
            OperationKind::Write if self.unwanted.remove(&name).is_some() => return,
            // It was passed over, as all requests are after this end's goodbye.
            OperationKind::Write if cx.life.is_leaving_target().is_none() => return,
            OperationKind::Write => self.served.get(&name).copied(),
        };
        let Some(op) = op else { return cx.broken(broken) };
        let Some(listed) = self.listed.get_mut(op) else { return cx.broken(broken) };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let is_received = cx.operations[op].posted.direction == Direction::Receive;
        match (&mut listed.role, kind) {
            _ if !is_received || is_dealt => cx.broken(broken),
            (Role::Asks(_), OperationKind::Read) => self.handle_read_stopped(cx, op, refused),
            (Role::Serves(serving), OperationKind::Write) => {
                if serving.stopped.replace(refused).is_some() {
                    return cx.broken(broken);
                }
                self.listed_moved(cx, op);
            }
            _ => cx.broken(broken),
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
        let (kind, op) = (OperationKind::Write, serving.op);
        cx.say(OneSidedFrame::Halt { kind, op, why: Refusal::Revoked });
    }
}
