//! Closing comms, which may wait for long.

use super::memory::CommMemory;
use crate::workers::Workers;
use crate::workers::ticket::Ticket;

/// A comm that is closed by dropping it, and then deregisters what it is left with.
pub(crate) trait ClosingComm: Send + 'static {
    /// What the comm still knows. Requests in flight may use it until the comm has closed.
    fn leave(&mut self, memory: CommMemory);

    /// Whether a worker is making a registration on it, so that it must not be closed.
    fn is_registering(&self) -> bool;
}

/// Has comms closed.
pub(crate) fn close_comms<C: ClosingComm>(comms: Vec<C>, workers: &Workers) -> Ticket {
    workers.close_when(comms, |comms| !comms.iter().any(C::is_registering))
}
