#![allow(unsafe_code)]
//! What comms of both directions can do: know memory, and be closed.

use std::sync::Arc;

use super::address::Deregistration;
use super::memory::{CommMemory, MemoryHandle, RegisteredRange, Registering, Registrar};
use super::raw::RawComm;
use super::readiness::NextCall;
use crate::reactor::poller::{Poller, Target};
use crate::workers::Workers;
use crate::workers::ticket::Ticket;

/// A comm that carries requests. It is closed by dropping it, which may wait for long, and then
/// deregisters what it is left with.
pub(crate) trait OpenComm: Sized + Send + 'static {
    fn raw(&self) -> &RawComm;

    fn raw_mut(&mut self) -> &mut RawComm;

    /// Takes a handle back that this comm gave out: what is to be done for it.
    fn deregistration(&self, handle: MemoryHandle) -> Deregistration {
        Deregistration { address: self.raw().address(), handle }
    }

    /// Has the system say when something happens on its descriptors, if the plugin tells them.
    fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.raw_mut().watch(poller, target);
    }

    /// Something has happened on one of its descriptors.
    fn wake(&mut self) {
        self.raw_mut().readiness.wake();
    }

    /// There is nothing to do on it until something happens, if that is told.
    fn rest(&mut self) {
        self.raw_mut().readiness.rest(NextCall::WhenTold);
    }

    /// When a call of `test` may get it further.
    fn next_call(&self) -> NextCall {
        self.raw().readiness.next()
    }

    /// Whether the system says when something happens on its descriptors.
    fn is_watched(&self) -> bool {
        self.raw().readiness.is_watched()
    }

    /// Leaves it what it still knows. Requests in flight may use it until the comm has closed.
    fn leave(&mut self, memory: CommMemory) {
        self.raw_mut().left = memory;
    }
}

impl<C: OpenComm> Registrar for C {
    unsafe fn register(&self, range: RegisteredRange, workers: &Workers) -> Registering {
        let address = self.raw().address();
        let workers = workers.for_peer(self.raw().place.peer_key);
        // SAFETY: the caller's promise is passed on.
        workers.call(move || unsafe { address.register(range) })
    }
}

/// Has comms closed: as soon as no worker is making a registration on one of them.
pub(crate) fn close_comms<C: OpenComm>(comms: Vec<C>, workers: &Workers) -> Ticket {
    let workers = match comms.first() {
        Some(comm) => workers.for_peer(comm.raw().place.peer_key),
        None => workers.clone(),
    };
    workers.close_when(comms, |comms| !comms.iter().any(|comm| comm.raw().left.is_registering()))
}
