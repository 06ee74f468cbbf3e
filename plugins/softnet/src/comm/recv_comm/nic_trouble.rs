//! What a receive comm does when device memory or its NIC fail it.

use super::RecvComm;
use crate::failure::Failure;
use crate::log;
use crate::nic_memory::blame;

impl RecvComm {
    /// Ends the comm when device memory or its NIC do, and says so once.
    pub(super) fn find_refusal(&mut self) {
        let Some(nic) = &mut self.nic else { return };
        let Some(error) = nic.refusal(&self.lanes) else { return };
        self.requests.fail_once(self.requests.ring.oldest_unreported(), || {
            match error.diagnosis() {
                Some(diagnosis) => log::warn!("{error} [{}]", diagnosis.code),
                None => log::warn!("{error}"),
            }
            Failure::System
        });
    }

    /// The call that is under way fails; says why, if that is known here.
    pub(super) fn blame_nic(&mut self) {
        let Some(nic) = &mut self.nic else { return };
        if let Some(error) = nic.trouble(&self.lanes) {
            blame(&error);
        }
    }

    /// A request waits; whether the NIC is why.
    pub(super) fn look_at_nic(&mut self) {
        let limit = self.liveness.limit();
        if let Some(nic) = &mut self.nic {
            nic.look(limit);
        }
        self.find_refusal();
    }
}
