//! Table of a session's exports. Pure.
//!
//! An [`ExportKey`] names what a peer has opened. No key is ever used again, even where the id is
//! stable. So an export that was opened before it was taken back never reaches what was exported
//! after that.
//!
//! The table checks the requests of peers for exports, and counts them while they are under way.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use slotmap::SlotMap;
use smallvec::SmallVec;

use super::capability::{ExportId, ExportSecret, StableKeys};
use super::exported_range::{ExportKey, ExportedRange, JointUse, JointUses, is_part};
use super::refusal::Refusal;
use super::remote_key::RemoteKey;
use crate::types::memory::{MemoryId, OperationKind};

/// A range that peers may reach, or that what they began still uses.
#[derive(Debug)]
pub struct Export {
    id: ExportId,
    secret: ExportSecret,
    range: ExportedRange,
    /// Requests of peers that use it.
    active: usize,
    pub(super) is_revoked: bool,
}

/// Exports of a registration, present and past.
#[derive(Debug, Default)]
struct OfMemory {
    keys: HashSet<ExportKey>,
    /// Requests of peers that use them.
    active: usize,
}

/// All exports of a session.
#[derive(Debug)]
pub struct Exports {
    all: SlotMap<ExportKey, Export>,
    /// Exports that are not revoked, by id. A stable id has one for each time that its range is
    /// exported, the latest last.
    by_id: HashMap<ExportId, SmallVec<[ExportKey; 1]>>,
    by_memory: HashMap<MemoryId, OfMemory>,
    /// Memory that the program's own calls copy to or from, without the lock.
    copied: Vec<MemoryId>,
    /// Exports that were revoked while in use, since the last question.
    revoked: Vec<ExportKey>,
    /// Whether one of those has fallen out of use since the last question.
    is_over: bool,
    /// Number of exports that were revoked and are still used.
    pub(super) leaving: usize,
    /// Number of revocations so far.
    pub(super) revocations: u64,
    /// Uses that requests make together.
    pub(super) joint: JointUses,
    /// Counted ids so far.
    ids_used: u64,
    stable_keys: StableKeys,
}

impl Export {
    /// Returns whether the export was revoked and nothing uses it.
    fn is_over(&self) -> bool {
        self.is_revoked && self.active == 0
    }

    /// Returns the range that is exported.
    pub fn range(&self) -> &ExportedRange {
        &self.range
    }

    /// Returns the key that opens it.
    pub fn remote_key(&self, session: [u8; 16]) -> RemoteKey {
        let ExportedRange { memory_id, span, bytes, access } = self.range;
        RemoteKey {
            session,
            export: self.id,
            secret: self.secret.clone(),
            // The next time another registration may have the range, and the key is the same.
            memory_id: (!self.id.is_stable()).then_some(memory_id),
            address: span.address,
            bytes,
            memory: span.memory,
            access,
        }
    }
}

impl Exports {
    /// Makes a table without exports.
    pub fn new(stable_keys: StableKeys) -> Self {
        Self {
            all: SlotMap::with_key(),
            by_id: HashMap::default(),
            by_memory: HashMap::default(),
            copied: Vec::new(),
            revoked: Vec::new(),
            is_over: false,
            leaving: 0,
            revocations: 0,
            joint: JointUses::default(),
            ids_used: 0,
            stable_keys,
        }
    }

    /// Exports a range under an id that was never used.
    pub fn add(&mut self, range: ExportedRange, secret: ExportSecret) -> &Export {
        let id = ExportId::after(self.ids_used);
        self.ids_used += 1;
        self.insert(id, secret, range)
    }

    /// Exports a range by the key that it always has.
    pub fn add_stable(&mut self, range: ExportedRange) -> &Export {
        let mut attempt = 0;
        let (id, secret) = loop {
            let (id, secret) = self.stable_keys.of(&range, attempt);
            if !self.is_of_another(id, &range) {
                break (id, secret);
            }
            attempt += 1;
        };
        self.insert(id, secret, range)
    }

    /// Returns whether an id stands for another range than this one.
    fn is_of_another(&self, id: ExportId, range: &ExportedRange) -> bool {
        let others = self.by_id.get(&id).into_iter().flatten();
        let mut others = others.filter_map(|key| self.all.get(*key));
        others.any(|export| export.range.identity() != range.identity())
    }

    fn insert(&mut self, id: ExportId, secret: ExportSecret, range: ExportedRange) -> &Export {
        let export = Export { id, secret, range, active: 0, is_revoked: false };
        let key = self.all.insert(export);
        self.by_id.entry(id).or_default().push(key);
        self.by_memory.entry(range.memory_id).or_default().keys.insert(key);
        &self.all[key]
    }

    /// Returns an export that was not forgotten.
    pub fn get(&self, key: ExportKey) -> Option<&Export> {
        self.all.get(key)
    }

    /// Returns the export that an id and its secret open.
    ///
    /// # Errors
    /// [`Refusal::Revoked`]; [`Refusal::UnknownKey`], the same for what never was and for a wrong
    /// secret. A stable id that is not exported now does not tell whether it ever was.
    pub fn open(&self, id: ExportId, secret: &ExportSecret) -> Result<ExportKey, Refusal> {
        let found = self.by_id.get(&id).and_then(|keys| keys.last());
        let Some((key, export)) = found.and_then(|key| Some((*key, self.all.get(*key)?))) else {
            let was_there = id.was_counted(self.ids_used);
            return Err(if was_there { Refusal::Revoked } else { Refusal::UnknownKey });
        };
        if export.secret == *secret { Ok(key) } else { Err(Refusal::UnknownKey) }
    }

    /// Takes an export back: no list opens it, and no request begins to use it any more. Uses that
    /// have begun go on.
    pub fn revoke(&mut self, key: ExportKey) {
        self.rest();
        let Some(export) = self.all.get_mut(key) else { return };
        if std::mem::replace(&mut export.is_revoked, true) {
            return;
        }
        if export.active > 0 {
            self.revoked.push(key);
        }
        self.revocations += 1;
        self.leaving += 1;
        let id = export.id;
        if let Some(keys) = self.by_id.get_mut(&id) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.by_id.remove(&id);
            }
        }
        self.forget_if_over(key);
    }

    /// Takes everything back that is exported of a registration.
    pub fn revoke_all_of(&mut self, memory_id: MemoryId) {
        let Some(of_memory) = self.by_memory.get(&memory_id) else { return };
        let keys: Vec<_> = of_memory.keys.iter().copied().collect();
        keys.into_iter().for_each(|key| self.revoke(key));
    }

    /// Begins a copy to or from memory that no request uses.
    pub fn begin_copy(&mut self, memory: MemoryId) {
        self.copied.push(memory);
    }

    /// Ends a copy.
    pub fn end_copy(&mut self, memory: MemoryId) {
        if let Some(at) = self.copied.iter().position(|copied| *copied == memory) {
            self.copied.swap_remove(at);
        }
    }

    /// Returns whether something is being copied that peers might ask for.
    pub fn is_any_copied(&self) -> bool {
        let is_exported = |memory| self.by_memory.get(memory).is_some_and(|it| !it.keys.is_empty());
        self.copied.iter().any(is_exported)
    }

    /// Returns whether nothing uses an export.
    pub fn is_idle(&self, key: ExportKey) -> bool {
        self.all.get(key).is_none_or(|export| export.active == self.joint.resting_on(key))
    }

    /// Requests of peers that use what is, or was, exported of a registration.
    pub fn active_of(&self, memory_id: MemoryId) -> usize {
        let Some(of_memory) = self.by_memory.get(&memory_id) else { return 0 };
        // Most often nothing is.
        match of_memory.active {
            0 => 0,
            _ => self.joint.active_on(|key| of_memory.keys.contains(key)),
        }
    }

    /// Begins the use of an export by a request.
    pub(super) fn begin(&mut self, key: ExportKey) {
        let Some(export) = self.all.get_mut(key) else { return };
        export.active += 1;
        if let Some(of_memory) = self.by_memory.get_mut(&export.range.memory_id) {
            of_memory.active += 1;
        }
    }

    /// Ends the use of an export by a request.
    pub(super) fn end(&mut self, key: ExportKey) {
        let Some(export) = self.all.get_mut(key).filter(|export| export.active > 0) else { return };
        export.active -= 1;
        if let Some(of_memory) = self.by_memory.get_mut(&export.range.memory_id) {
            of_memory.active -= 1;
        }
        self.is_over |= self.all.get(key).is_some_and(|export| export.is_over());
        self.forget_if_over(key);
    }

    /// Returns the exports that were revoked while something used them, since the last question:
    /// their uses must end.
    pub fn take_revoked(&mut self) -> Vec<ExportKey> {
        std::mem::take(&mut self.revoked)
    }

    /// Returns whether nothing uses any more what was revoked, of one or another, since this was
    /// asked last.
    pub fn take_over(&mut self) -> bool {
        std::mem::take(&mut self.is_over)
    }

    fn forget_if_over(&mut self, key: ExportKey) {
        let Some(export) = self.all.get(key) else { return };
        if !export.is_over() {
            return;
        }
        let memory_id = export.range.memory_id;
        self.all.remove(key);
        self.leaving -= 1;
        if let Some(of_memory) = self.by_memory.get_mut(&memory_id) {
            of_memory.keys.remove(&key);
            if of_memory.keys.is_empty() {
                self.by_memory.remove(&memory_id);
            }
        }
    }
}

impl Export {
    /// Returns the place of a part of it that a peer names, if the peer may do this there.
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
            // The range lies in a registration, and no registration reaches past the end of memory.
            true => Ok(range.span.address + offset),
            false => Err(Refusal::OutOfRange),
        }
    }
}

impl Exports {
    /// Begins the use of these by a request, of all of them or none. They are in order, each once.
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

    /// Ends the use of these by a request that has begun.
    pub fn end_all(&mut self, keys: &[ExportKey]) {
        let Some(joint) = self.joint.get_mut(keys).filter(|joint| joint.active > 0) else { return };
        joint.active -= 1;
        // An export that was taken back goes with its last use.
        if joint.active == 0 && (joint.is_forgotten || self.leaving > 0) {
            self.forget_uses(keys);
        }
    }

    /// Forgets these uses: no further request begins to use exactly these.
    pub fn forget_uses(&mut self, keys: &[ExportKey]) {
        let Some(joint) = self.joint.get_mut(keys) else { return };
        joint.is_forgotten = true;
        if joint.active == 0
            && let Some(joint) = self.joint.remove(keys)
        {
            self.uncount(&joint);
        }
    }

    /// Stops counting uses that no request makes any more.
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

    /// Returns how many exports were looked at for requests since this was asked last.
    pub fn take_lookups(&mut self) -> u64 {
        self.joint.take_lookups()
    }
}

#[cfg(test)]
mod tests;
