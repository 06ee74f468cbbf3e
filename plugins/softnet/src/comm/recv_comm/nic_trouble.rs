//! Failures whose reason is known, as a receive comm handles them: of device memory or its NIC, and
//! of bytes that were changed on the way.

use super::RecvComm;
use crate::failure::Failure;
use crate::last_failure::{FailureReason, set_last_failure};
use crate::log;

impl RecvComm {
    /// Ends the comm when device memory or its NIC has ended, and logs the reason once.
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

    /// Notes the reason why the call under way fails, if it is known here.
    pub(super) fn record_reason(&mut self) {
        if self.lanes.are_tampered() || self.control.is_tampered() {
            return set_last_failure(FailureReason::Tampered);
        }
        let Some(nic) = &mut self.nic else { return };
        if let Some(error) = nic.trouble(&self.lanes) {
            set_last_failure(FailureReason::Nic(error));
        }
    }

    /// Looks whether the NIC is the reason why a request waits.
    pub(super) fn check_nic(&mut self) {
        let limit = self.liveness.limit();
        if let Some(nic) = &mut self.nic {
            nic.check_trouble(limit);
        }
        self.find_refusal();
    }
}
