//! Check that the transport of a session can encrypt what it carries.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tcpx_diagnosis::table::connection::DATA_NOT_ENCRYPTED;
use tcpx_protocol::types::encryption::Encryption;

use super::Plugin;
use super::carrier::Carrier;
use crate::error::{Error, Result, SettingProblem};
use crate::memory::device_memory::DeviceMemory;

/// Reasons that the log has given already.
static SAID: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Encryption of a session, over a transport that may not be able to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransportEncryption {
    /// Setting that the session keeps.
    pub(crate) setting: Encryption,
    /// Reason why nothing is encrypted although the session prefers it.
    pub(crate) refusal: Option<&'static str>,
}

impl Plugin {
    /// Returns whether a session with this setting and this device memory encrypts. One that
    /// prefers to does not where the transport cannot; the log says so once for each reason.
    ///
    /// # Errors
    /// The session must encrypt, and the transport cannot.
    pub(crate) fn check_encryption(
        &self,
        wanted: Encryption,
        memory: &DeviceMemory,
    ) -> Result<TransportEncryption> {
        let refusal = match wanted {
            Encryption::Off => None,
            _ => self.encryption_obstacle(memory),
        };
        let Some(reason) = refusal else {
            return Ok(TransportEncryption { setting: wanted, refusal });
        };
        let transport = self.transport_name(memory);
        if wanted == Encryption::Require {
            let problem = SettingProblem::CannotEncrypt { transport, reason };
            return Err(Error::setting("encryption", wanted.to_string(), problem));
        }
        if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(reason) {
            let id = DATA_NOT_ENCRYPTED.code;
            tracing::warn!(
                transport,
                reason,
                "encryption = {wanted}, and this transport cannot: nothing is encrypted [{id}]"
            );
        }
        Ok(TransportEncryption { setting: Encryption::Off, refusal })
    }

    /// Returns why this transport cannot encrypt; `None`: it can.
    fn encryption_obstacle(&self, memory: &DeviceMemory) -> Option<&'static str> {
        if self.is_hardware() {
            return Some("a NIC reads and places the bytes of the hardware plugin");
        }
        if self.uses_nic_memory(memory) {
            return Some("a NIC reads and places the bytes of device-memory TCP");
        }
        if matches!(self.carrier, Carrier::IoUring) {
            return Some("io_uring has the kernel place the bytes");
        }
        match self.encryption() {
            None => Some("the plugin has no functions that take a secret"),
            Some(_) => None,
        }
    }
}
