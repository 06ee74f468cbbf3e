//! What the peer says of exported memory, here or there: who it is for.

use super::super::PeerProtocol;
use super::super::action::{Landing, NoteUse, Violation};
use super::super::stage::Stage;
use super::Role;
use super::told::Refused;
use crate::exports::table::Exports;
use crate::frames::frame::one_sided::OneSidedFrame;
use crate::types::remote_access::OperationKind;
use crate::types::{Direction, OpKey};

impl PeerProtocol {
    /// What the peer says of exported memory, here or there. Returns what becomes of the bytes that
    /// follow.
    pub(in super::super) fn handle_one_sided(
        &mut self,
        frame: OneSidedFrame,
        exports: &mut Exports,
    ) -> Landing {
        match &self.stage {
            Stage::Connecting { .. } => {
                let (frame, state) = (format!("{frame:?}"), self.state());
                self.broken(Violation::Unexpected { frame, state });
                return Landing::Nowhere;
            }
            Stage::Over => return Landing::Nowhere,
            Stage::Up { .. } | Stage::Closing(_) => {}
        }
        match frame {
            OneSidedFrame::Write { op, list, note, on_link } => {
                self.handle_write((op, list), note, on_link, exports)
            }
            OneSidedFrame::Part(part) => self.handle_part(part),
            OneSidedFrame::WriteNow { op, list, bytes, note } => {
                self.handle_write_now(op, list, bytes, note, exports)
            }
            OneSidedFrame::Notify { bytes } => match self.comes(bytes) {
                true => {
                    self.one_sided.stats.notifications_received += 1;
                    Landing::Note(NoteUse::Publish(bytes))
                }
                false => Landing::Nowhere,
            },
            frame => {
                self.handle_one_sided_words(frame, exports);
                Landing::Nowhere
            }
        }
    }

    /// A frame came that nothing follows.
    fn handle_one_sided_words(&mut self, frame: OneSidedFrame, exports: &mut Exports) {
        let told = &mut self.one_sided.told;
        let (list, outcome) = match frame {
            OneSidedFrame::List { list, kind, keys, ranges, bytes } => {
                (list, told.handle_list(list, kind, (keys, ranges), bytes))
            }
            OneSidedFrame::ListKeys { list, keys } => {
                self.work.spend(keys.len() as u64);
                (list, told.handle_keys(list, &keys, exports))
            }
            OneSidedFrame::ListRanges { list, ranges } => {
                self.work.spend(ranges.len() as u64);
                (list, told.handle_ranges(list, &ranges, exports))
            }
            OneSidedFrame::Forget { list } => (list, told.handle_forget(list, exports)),
            OneSidedFrame::Read { op, list, cut, on_link } => {
                return self.handle_read(op, list, cut, on_link, exports);
            }
            OneSidedFrame::Grant { op, recv, cut } => return self.handle_grant(op, recv, cut),
            OneSidedFrame::Halt { kind: OperationKind::Write, op, why } => {
                return self.handle_write_halted(op, why);
            }
            OneSidedFrame::Halt { kind: OperationKind::Read, op, why } => {
                return self.handle_read_halted(op, why);
            }
            OneSidedFrame::Stopped { kind, op, why, range } => {
                return self.handle_stopped(kind, op, Refused { why, range });
            }
            OneSidedFrame::Answer { op, why, range } => {
                return self.handle_answer(op, why.map(|why| Refused { why, range }));
            }
            OneSidedFrame::Write { .. }
            | OneSidedFrame::WriteNow { .. }
            | OneSidedFrame::Part(_)
            | OneSidedFrame::Notify { .. } => return,
        };
        if let Err(fault) = outcome {
            self.broken(Violation::List { list, fault });
        }
    }

    /// Whoever sends the bytes of an operation sends no more of them.
    fn handle_stopped(&mut self, kind: OperationKind, name: u64, refused: Refused) {
        let broken = Violation::UnknownRequest { op: name };
        let op = match kind {
            OperationKind::Read => Some(OpKey::from_wire(name)),
            OperationKind::Write if self.one_sided.unwanted.remove(&name).is_some() => return,
            // It was passed over, as all requests are after this end's goodbye.
            OperationKind::Write if self.is_leaving_target().is_none() => return,
            OperationKind::Write => self.one_sided.served.get(&name).copied(),
        };
        let Some(op) = op else { return self.broken(broken) };
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return self.broken(broken) };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let is_received = self.operations[op].posted.direction == Direction::Receive;
        match (&mut listed.role, kind) {
            _ if !is_received || is_dealt => self.broken(broken),
            (Role::Asks(_), OperationKind::Read) => self.handle_read_stopped(op, refused),
            (Role::Serves(serving), OperationKind::Write) => {
                if serving.stopped.replace(refused).is_some() {
                    return self.broken(broken);
                }
                self.listed_moved(op);
            }
            _ => self.broken(broken),
        }
    }
}
