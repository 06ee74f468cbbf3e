//! How a session ends: what is said to its peers, and what is freed.

use super::Engine;
use crate::error::Error;
use crate::memory::device_memory::DeviceMemory;
use crate::peer::Peer;

impl Engine {
    /// Whether nothing is left to say to any peer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.peers.values().all(Peer::is_gone)
    }

    /// Frees what is left. Freeing a GPU's memory waits until the GPU is idle, so that is waited
    /// for a while only.
    fn free(&mut self) {
        if let DeviceMemory::Emulated = self.commons.session.memory {
            return;
        }
        let registrations = std::mem::take(&mut self.commons.ledger.registrations);
        let unpacker = self.take_unpacker();
        self.commons.workers.close((registrations, unpacker));
        if !self.commons.workers.finish(self.patience_with_workers()) {
            tracing::warn!("the GPU is busy: a session's memory is freed when it has finished");
        }
    }

    /// Begins to say goodbye to everybody; peers that cannot be up at either end are dropped at
    /// once.
    pub(crate) fn start_close(&mut self) {
        (self.is_closed, self.has_news) = (true, true);
        self.listener = None;
        for key in self.peers.keys().collect::<Vec<_>>() {
            self.start_disconnect(key);
        }
    }

    /// Ends everything that is left.
    pub(crate) fn finish_close(&mut self) {
        (self.is_closed, self.has_news) = (true, true);
        self.end_all(&Error::Closed, self.commons.batch.reached());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.is_settled() && !self.is_stuck && !self.has_long_calls() {
            return self.free();
        }
        // Whatever a copy or kernel under way may still touch stays, for as long as the process
        // lives.
        tracing::error!(peers = self.parked.len(), "memory that is still in use is left behind");
        std::mem::forget(std::mem::take(&mut self.parked));
        std::mem::forget(std::mem::take(&mut self.commons.ledger.registrations));
        self.leave_unpackers();
    }
}
