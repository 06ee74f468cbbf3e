//! What peers do with exports: what they ask for is checked, and counted while it is under way.

use std::sync::Arc;

use super::exported_range::is_part;
use super::joint_uses::{ExportKey, JointUse};
use super::refusal::Refusal;
use super::table::{Export, Exports};
use crate::types::remote_access::OperationKind;

impl Export {
    /// Where a part of it lies that a peer names, if the peer may do this there.
    pub fn address_of(
        &self,
        offset: u64,
        bytes: u64,
        wanted: OperationKind,
    ) -> Result<u64, Refusal> {
        let range = self.range();
        if !range.access.allows(wanted) {
            return Err(Refusal::Access);
        }
        match is_part(offset, bytes, range.bytes) {
            // It lies in a registration, and no registration reaches past the end of memory.
            true => Ok(range.span.address + offset),
            false => Err(Refusal::OutOfRange),
        }
    }
}

impl Exports {
    /// A request begins to use these, all of them or none. They are in order, each once.
    ///
    /// # Errors
    /// [`Refusal::Revoked`].
    pub fn begin_all(&mut self, keys: &Arc<[ExportKey]>) -> Result<(), Refusal> {
        let now = self.revocations;
        if self.joint.entry(keys).looked_at != now {
            let is_open = |key| self.get(key).is_some_and(|export| !export.is_revoked);
            let is_open = keys.iter().copied().all(is_open);
            self.joint.looked_at(keys.len());
            let joint = self.joint.entry(keys);
            (joint.is_open, joint.looked_at) = (is_open, now);
        }
        let joint = self.joint.entry(keys);
        if !joint.is_open {
            return Err(Refusal::Revoked);
        }
        joint.active += 1;
        if !std::mem::replace(&mut joint.is_counted, true) {
            self.joint.looked_at(keys.len());
            keys.iter().for_each(|key| self.begin(*key));
        }
        Ok(())
    }

    /// A request that has begun uses these no more.
    pub fn end_all(&mut self, keys: &[ExportKey]) {
        let Some(joint) = self.joint.get_mut(keys).filter(|joint| joint.active > 0) else { return };
        joint.active -= 1;
        // What was taken back goes with its last use.
        if joint.active == 0 && (joint.is_forgotten || self.leaving > 0) {
            self.forget_uses(keys);
        }
    }

    /// No further request begins to use exactly these.
    pub fn forget_uses(&mut self, keys: &[ExportKey]) {
        let Some(joint) = self.joint.get_mut(keys) else { return };
        joint.is_forgotten = true;
        if joint.active == 0
            && let Some(joint) = self.joint.remove(keys)
        {
            self.uncount(&joint);
        }
    }

    /// What no request uses does not count as used any more.
    pub fn rest(&mut self) {
        for joint in self.joint.take_resting() {
            self.uncount(&joint);
        }
    }

    fn uncount(&mut self, joint: &JointUse) {
        if joint.is_counted {
            self.joint.looked_at(joint.keys.len());
            joint.keys.iter().for_each(|key| self.end(*key));
        }
    }

    /// How many exports were looked at for requests since this was asked last.
    pub fn take_looked(&mut self) -> u64 {
        self.joint.take_looked()
    }
}
