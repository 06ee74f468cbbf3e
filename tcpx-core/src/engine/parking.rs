//! What is kept of a peer that ended.
//!
//! A copy that has started cannot be called back, and a comm uses memory until it is closed, which
//! a worker does (`workers`). Everything that they read or write stays as it is until
//! then. These things are *parked*:
//!
//! - the peer's receive comms, with their bounce buffers, until their chunks are unpacked;
//! - its staging buffers, until their chunks are gathered and the comms closed;
//! - its operations that had a counterpart, so that their memory may be used, until both.
//!
//! What does not finish makes nobody wait for ever: after a few seconds the operations end all the
//! same. Their registrations then stay in use, and comms and staging buffers stay what they are,
//! until it finishes after all or the process ends.
//!
//! The unpacker of a session whose unpacking has failed is kept likewise, until nothing of it is
//! under way (`unpacking`).

use std::time::{Duration, Instant};

use super::Engine;
use super::parked::{Parked, Verdict};
use crate::error::{Awaited, Error, Phase};

impl Engine {
    /// Ends what is parked and done with by now, and what has waited for too long. Returns whether
    /// anything moved.
    pub(super) fn settle_parked(&mut self, now: Instant) -> bool {
        let mut moved = self.settle_unpacker();
        for index in (0..self.parked.len()).rev() {
            let reached = self.commons.batch.reached();
            let ledger = &mut self.commons.ledger;
            match self.parked[index].look(reached, now) {
                Verdict::Copied => self.parked[index].close_lanes(ledger, &self.commons.workers),
                Verdict::Finished => self.parked.swap_remove(index).end(ledger),
                Verdict::Overdue => self.parked[index].give_up_waiting(ledger, reached),
                Verdict::LeftBehind => {
                    let peer = self.parked.swap_remove(index).name;
                    tracing::error!(%peer, "comms of a peer that ended do not close: they are left behind");
                }
                Verdict::Waits => continue,
            }
            moved = true;
        }
        moved
    }

    /// Whether nothing of a peer that ended is left.
    pub(crate) fn is_settled(&self) -> bool {
        self.parked.is_empty() && self.ending.is_none()
    }

    /// Peers that ended and whose memory copies still use, or something else for too long.
    pub(super) fn peers_parked(&self) -> usize {
        let reached = self.commons.batch.reached();
        self.parked.iter().filter(|parked| parked.is_held(reached)).count()
    }

    /// Whether nothing is parked but what waits for copies that nobody waits for any more.
    pub(crate) fn is_settled_or_given_up(&self) -> bool {
        let reached = self.commons.batch.reached();
        self.parked.iter().all(|parked| parked.is_given_up_copying(reached))
    }

    /// What is said of the parked when the session closes.
    pub(crate) fn unsettled(&self, waited: Duration) -> Error {
        let reached = self.commons.batch.reached();
        let of_peer = |parked: &Parked| format!("{}: {}", parked.name, parked.waits_for(reached));
        let peers: Vec<String> = self.parked.iter().map(of_peer).collect();
        let detail = format!(
            "peers that ended still use memory ({}); memory registered for receiving from them or \
             sending to them must stay as it is",
            peers.join(", ")
        );
        Error::Deadline { phase: Phase::Unpack, peer: None, waited, detail: Awaited::words(detail) }
    }
}
