#![allow(unsafe_code)]
//! Common operations of comms of both directions: registered memory, and closing.
//!
//! Also the handles of memory that go back to the comms which gave them out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::memory::{
    CommMemory, Deregistration, MemoryHandle, PendingRegistration, RegisteredRange, Registrar,
};
use super::raw::{NextCall, RawComm};
use crate::error::{Phase, Result};
use crate::reactor::poller::{Poller, Target};
use crate::types::{CommId, PeerKey};
use crate::workers::{Ticket, Workers};

/// Comm that carries requests. Dropping it closes it, which may block for long, and then
/// deregisters the memory that was left to it.
pub(crate) trait OpenComm: Sized + Send + 'static {
    /// Phase of its calls, for errors.
    const PHASE: Phase;

    fn raw(&self) -> &RawComm;

    fn raw_mut(&mut self) -> &mut RawComm;

    /// Returns the call that takes back a handle which this comm gave out.
    fn deregistration(&self, handle: MemoryHandle) -> Deregistration {
        Deregistration { address: self.raw().address(), handle }
    }

    /// Registers the comm's descriptors with the poller, if the plugin has reported them.
    fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.raw_mut().watch(poller, target);
    }

    /// Notes that an event was reported on one of its descriptors.
    fn wake(&mut self) {
        self.raw_mut().readiness.wake();
    }

    /// Notes that there is nothing to do until an event, if events are reported.
    fn await_event(&mut self) {
        self.raw_mut().readiness.no_progress(NextCall::OnEvent);
    }

    /// Returns when a call of `test` may make progress.
    fn next_call(&self) -> NextCall {
        self.raw().readiness.next()
    }

    /// Returns whether the poller reports events of its descriptors.
    fn is_watched(&self) -> bool {
        self.raw().readiness.is_watched()
    }

    /// Tells a plugin that reports health for how long the peer's host may acknowledge nothing.
    /// `None`: without limit.
    fn set_peer_timeout(&mut self, timeout: Option<Duration>) {
        self.raw_mut().set_peer_timeout(timeout);
    }

    /// Checks whether the comm is alive, where nothing else finds out. A request that is tested
    /// again and again finds out, and so does the poller of an idle comm. `has_posted`: a request
    /// is in flight.
    fn check_alive_if_unknown(&mut self, has_posted: bool) -> Result<()> {
        let is_known = match has_posted {
            true => !self.is_watched(),
            false => self.next_call() == NextCall::OnEvent,
        };
        if is_known {
            return Ok(());
        }
        self.raw().check_alive(Self::PHASE)?;
        if !has_posted {
            self.await_event();
        }
        Ok(())
    }

    /// Hands the comm the memory that it still knows. Requests in flight may use it until the comm
    /// has closed.
    fn keep_until_closed(&mut self, memory: CommMemory) {
        self.raw_mut().leftover = memory;
    }
}

impl<C: OpenComm> Registrar for C {
    unsafe fn register(&self, range: RegisteredRange, workers: &Workers) -> PendingRegistration {
        let address = self.raw().address();
        let workers = workers.for_peer(self.raw().label.peer_key);
        // SAFETY: the caller's promise is passed on.
        workers.call(move || unsafe { address.register(range) })
    }
}

/// Closes comms on a worker, as soon as no worker is making a registration on one of them.
pub(crate) fn close_comms<C: OpenComm>(comms: Vec<C>, workers: &Workers) -> Ticket {
    let workers = match comms.first() {
        Some(comm) => workers.for_peer(comm.raw().label.peer_key),
        None => workers.clone(),
    };
    workers
        .close_when(comms, |comms| !comms.iter().any(|comm| comm.raw().leftover.is_registering()))
}

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

    /// Returns the peers whose comms gave handles out. No other peer is concerned.
    pub(crate) fn owners(&self) -> Vec<PeerKey> {
        self.owners.iter().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of_comms.is_empty()
    }

    /// Converts the handles that this comm gave out to calls.
    pub(crate) fn take_back(&mut self, id: CommId, comm: &impl OpenComm) {
        let of_comm = self.of_comms.remove(&id).into_iter().flatten();
        self.calls.extend(of_comm.map(|handle| comm.deregistration(handle)));
    }

    /// Returns the number of handles of each comm.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> Vec<(CommId, usize)> {
        self.of_comms.iter().map(|(comm, handles)| (*comm, handles.len())).collect()
    }

    /// Returns the calls. Handles of comms that are closed are forgotten with their comms.
    pub(crate) fn into_calls(self) -> Vec<Deregistration> {
        self.calls
    }
}
