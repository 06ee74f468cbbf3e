#![allow(unsafe_code)]
//! Staging buffers of a lane that sends: one for each kind of memory that it gathers from.

use smallvec::SmallVec;
use tcpx_protocol::types::{MemoryType, RegistrationKey, Span};

use super::staging_pool::{Staging, StagingPool};
use crate::plugin::comm::SendComm;
use crate::plugin::registrations::Registrations;
use crate::types::CommId;

/// Staging buffers of one lane.
#[derive(Debug, Default)]
pub(super) struct LaneStagings {
    host: Option<Staging>,
    device: Option<Staging>,
    /// Those that the comm does not know yet.
    requested: SmallVec<[Staging; 2]>,
}

impl LaneStagings {
    /// Takes a staging buffer, which [`poll`](Self::poll) makes known to the comm. Returns false if
    /// there is none.
    pub(super) fn request(&mut self, staging: Option<Staging>) -> bool {
        let is_there = staging.is_some();
        self.requested.extend(staging);
        is_there
    }

    /// Returns the kind of memory for which the comm has taken a staging buffer, or refused one.
    pub(super) fn poll(
        &mut self,
        pool: &mut StagingPool,
        registrations: &mut Registrations,
        (id, comm): (CommId, &SendComm),
    ) -> Option<(MemoryType, bool)> {
        for index in 0..self.requested.len() {
            let Span { registration, address, memory } = self.requested[index].first_slot();
            // SAFETY: the pool frees the buffer with the session, whose comms have closed then.
            match unsafe { registrations.handle(registration, address, id, comm) } {
                Ok(None) => continue,
                Ok(Some(_)) => {
                    *self.place(memory) = Some(self.requested.remove(index));
                    return Some((memory, true));
                }
                Err(error) => {
                    self.requested.remove(index);
                    pool.warn_once(error);
                    pool.give_back(registration);
                    return Some((memory, false));
                }
            }
        }
        None
    }

    /// Returns the staging buffer for this kind of memory, if the comm knows one.
    pub(super) fn of(&mut self, memory: MemoryType) -> Option<&mut Staging> {
        self.place(memory).as_mut()
    }

    fn place(&mut self, memory: MemoryType) -> &mut Option<Staging> {
        match memory {
            MemoryType::Host => &mut self.host,
            _ => &mut self.device,
        }
    }

    /// Returns the kinds of memory for which a staging buffer was requested that the comm does not
    /// know yet.
    pub(super) fn requested(&self) -> impl Iterator<Item = MemoryType> + '_ {
        self.requested.iter().map(|staging| staging.first_slot().memory)
    }

    /// Returns the registrations of all of them, to be given back to the pool.
    pub(super) fn into_registrations(self) -> impl Iterator<Item = RegistrationKey> + use<> {
        let known = [self.host, self.device].into_iter().flatten();
        known.chain(self.requested).map(|staging| staging.registration)
    }
}
