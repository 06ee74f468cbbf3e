//! Exports that are taken back while requests of the peer use them.

use super::super::PeerProtocol;
use super::told::Refused;
use super::{Role, Serving};
use crate::exports::joint_uses::ExportKey;
use crate::exports::refusal::Refusal;
use crate::frames::frame::one_sided::OneSidedFrame;
use crate::types::remote_access::OperationKind;
use crate::types::{Direction, OpKey};

impl PeerProtocol {
    /// Whether a request of the peer uses any of these exports.
    pub fn serves(&self, exports: &[ExportKey]) -> bool {
        self.one_sided.listed.values().any(|listed| match &listed.role {
            Role::Serves(serving) => serving.uses.iter().any(|key| exports.contains(key)),
            Role::Asks(_) => false,
        })
    }

    /// Exports are taken back: what uses them is to end. Returns whether anything does.
    pub fn handle_revoked(&mut self, exports: &[ExportKey]) -> bool {
        let uses = |serving: &Serving| serving.uses.iter().any(|key| exports.contains(key));
        let mut using = Vec::new();
        for op in self.one_sided.served.values().copied() {
            let Some(listed) = self.one_sided.listed.get(op) else { continue };
            if let Role::Serves(serving) = &listed.role
                && uses(serving)
            {
                using.push(op);
            }
        }
        for op in using.iter().copied() {
            self.revoke_served(op);
        }
        !using.is_empty()
    }

    fn revoke_served(&mut self, op: OpKey) {
        let refused = Refused { why: Refusal::Revoked, range: 0 };
        if self.operations[op].posted.direction == Direction::Send {
            return self.stop_serving_read(op, refused);
        }
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
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
            self.one_sided.unwanted.insert(serving.op, left);
            return self.listed_moved(op);
        }
        serving.is_halting = true;
        let (kind, op) = (OperationKind::Write, serving.op);
        self.say(OneSidedFrame::Halt { kind, op, why: Refusal::Revoked });
    }
}
