//! Handles of memory on their way back to the comms that gave them out.

use std::collections::BTreeSet;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::address::Deregistration;
use super::memory::MemoryHandle;
use super::open_comm::OpenComm;
use crate::types::{CommId, PeerKey};

/// Handles that go back to the comms that gave them out.
#[derive(Debug, Default)]
pub(crate) struct ReturnedHandles {
    of_comms: HashMap<CommId, SmallVec<[MemoryHandle; 1]>>,
    owners: BTreeSet<PeerKey>,
    calls: Vec<Deregistration>,
}

impl ReturnedHandles {
    pub(crate) fn push(&mut self, comm: CommId, owner: PeerKey, handle: MemoryHandle) {
        self.of_comms.entry(comm).or_default().push(handle);
        self.owners.insert(owner);
    }

    /// Returns the peers whose comms gave handles out. No other need be asked.
    pub(crate) fn owners(&self) -> Vec<PeerKey> {
        self.owners.iter().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of_comms.is_empty()
    }

    /// Makes calls of the handles that this comm gave out.
    pub(crate) fn take_back(&mut self, id: CommId, comm: &impl OpenComm) {
        let of_comm = self.of_comms.remove(&id).into_iter().flatten();
        self.calls.extend(of_comm.map(|handle| comm.deregistration(handle)));
    }

    /// Returns how many handles of each comm there are.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> Vec<(CommId, usize)> {
        self.of_comms.iter().map(|(comm, handles)| (*comm, handles.len())).collect()
    }

    /// Returns the calls. Handles of comms that are closed are forgotten with them.
    pub(crate) fn into_calls(self) -> Vec<Deregistration> {
        self.calls
    }
}
