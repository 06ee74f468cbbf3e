//! Events that a send comm waits for.

use std::io;

use tcpx_sys::CommDescriptor;

use super::SendComm;
use crate::comm::lanes::descriptor;
use crate::comm::needs_call::NeedsCall;

impl SendComm {
    /// Returns the descriptors to watch for edges, while the comm is open.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<CommDescriptor>> {
        let mut all = self.outgoing.lanes.descriptors()?;
        let credit = if self.credit.is_some() { libc::EPOLLIN } else { 0 };
        all.push(descriptor(self.control.stream(), libc::EPOLLOUT | credit));
        Ok(all)
    }

    /// Returns whether another test may make progress although no descriptor becomes ready.
    pub(crate) fn needs_call(&self) -> NeedsCall {
        self.needs_call.when(self.requests.ring.oldest_unreported().is_some())
    }

    /// Returns whether more may happen although no descriptor becomes ready, apart from what
    /// records and lanes do. A harvest has made room.
    pub(super) fn more_to_do(&self, has_harvested: bool) -> NeedsCall {
        let is_staging = self.stager.as_ref().is_some_and(|stager| !stager.is_idle());
        let counts_calls = self.requests.hook.says(|hook| hook.counts_calls());
        // A message without credit waits for the control socket, which was read to its end.
        let waits_for_room = self
            .requests
            .next()
            .is_some_and(|next| self.credit.as_ref().is_none_or(|credit| credit.covers(next)));
        let has_room = has_harvested || self.has_room_for_next();
        let at_once = NeedsCall::AtOnce.when(waits_for_room && has_room);
        at_once.max(NeedsCall::Soon.when(is_staging || counts_calls))
    }

    /// Returns whether there is room for more of the next message. The sockets must have room. For
    /// a staged message so must the pinned pages, or the memory that a NIC sends from; the system
    /// may still read both when the sockets have long had room.
    fn has_room_for_next(&self) -> bool {
        let next = self.requests.next().and_then(|number| self.requests.ring.get(number));
        match &self.stager {
            Some(stager) if next.is_some_and(|next| next.staged) => stager.has_room(),
            _ if self.nic.as_ref().is_some_and(|nic| !nic.has_room()) => false,
            _ => self.outgoing.lanes.has_any_room(),
        }
    }
}
