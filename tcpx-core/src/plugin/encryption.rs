//! Check that the transport of a session can encrypt what it carries.

use tcpx_diagnosis::table::connection::DATA_NOT_ENCRYPTED;
use tcpx_protocol::types::encryption::Encryption;

use super::Plugin;
use super::carrier::Carrier;
use crate::error::{Error, Result, SettingProblem};
use crate::memory::device_memory::DeviceMemory;

impl Plugin {
    /// Returns whether a session with this setting and this device memory encrypts. One that
    /// prefers to does not where the transport cannot, and the log says so.
    ///
    /// # Errors
    /// The session must encrypt, and the transport cannot.
    pub(crate) fn check_encryption(
        &self,
        wanted: Encryption,
        memory: &DeviceMemory,
    ) -> Result<Encryption> {
        let is_plain = matches!(self.carrier, Carrier::Sockets | Carrier::DeviceMemoryOfGpus);
        let can_encrypt = self.encryption().is_some() && is_plain && !self.uses_nic_memory(memory);
        if can_encrypt || wanted == Encryption::Off {
            return Ok(wanted);
        }
        let transport = self.transport_name(memory);
        if wanted == Encryption::Require {
            let problem = SettingProblem::CannotEncrypt { transport };
            return Err(Error::setting("encryption", wanted.to_string(), problem));
        }
        let id = DATA_NOT_ENCRYPTED.code;
        tracing::warn!(
            transport,
            "encryption = {wanted}, and this transport cannot: nothing is encrypted [{id}]"
        );
        Ok(Encryption::Off)
    }
}
