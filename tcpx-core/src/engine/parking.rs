//! What is kept of a peer that ended in the middle of an unpack or a gather.
//!
//! A copy that has started cannot be called back. Until its batch has finished, everything that it
//! reads or writes stays as it is. These things are *parked* until then:
//!
//! - the peer's receive comms, with their bounce buffers;
//! - its staging buffers, whose send comms are closed already;
//! - its operations whose memory is read or written.
//!
//! A batch that does not finish makes nobody wait for ever: after a few seconds the operations end
//! all the same. Their registrations then stay in use, and comms and staging buffers stay what they
//! are, until the batch finishes after all or the process ends.

use std::time::{Duration, Instant};

use super::Engine;
use super::parked::{Parked, Verdict};
use crate::error::{Awaited, Error, Phase};

impl Engine {
    /// Ends what is parked and unpacked by now, and what has waited for too long. Returns whether
    /// anything ended.
    pub(super) fn settle_parked(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for index in (0..self.parked.len()).rev() {
            let reached = self.commons.batch.reached();
            let ledger = &mut self.commons.ledger;
            match self.parked[index].look(reached, now) {
                Verdict::Finished => self.parked.swap_remove(index).end(ledger),
                Verdict::Overdue => self.parked[index].give_up_waiting(ledger),
                Verdict::Waits => continue,
            }
            moved = true;
        }
        moved
    }

    /// Whether nothing of a peer that ended is left.
    pub(crate) fn is_settled(&self) -> bool {
        self.parked.is_empty()
    }

    /// Whether nothing parked waits for anything but its unpack.
    pub(crate) fn is_settled_or_given_up(&self) -> bool {
        self.parked.iter().all(Parked::has_given_up)
    }

    /// What is said of the parked when the session closes.
    pub(crate) fn unsettled(&self, waited: Duration) -> Error {
        let names: Vec<&str> = self.parked.iter().map(|parked| parked.name.as_str()).collect();
        let detail = format!(
            "chunks of peers that ended are still being unpacked or gathered: {}; memory registered for receiving from them \
             or sending to them must stay as it is",
            names.join(", ")
        );
        Error::Deadline { phase: Phase::Unpack, peer: None, waited, detail: Awaited::words(detail) }
    }
}
