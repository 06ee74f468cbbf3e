//! Keys that are the same each time that a range is exported.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::export_id::ExportId;
use super::export_secret::ExportSecret;
use super::exported_range::ExportedRange;

/// What a session's stable keys are made of: random bytes that nobody else knows.
#[derive(Clone)]
pub struct StableKeys([u8; Self::BYTES]);

impl StableKeys {
    /// The size of a key that the MAC takes as it is.
    pub const BYTES: usize = 64;

    /// Makes keys of a secret of the session.
    pub fn new(random: [u8; Self::BYTES]) -> Self {
        Self(random)
    }

    /// The id and secret of a range. Where two ranges come to the same id, the later one makes
    /// another `attempt`; they are counted from 0.
    pub(super) fn of(&self, range: &ExportedRange, attempt: u32) -> (ExportId, ExportSecret) {
        let (address, bytes, memory, access) = range.identity();
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        mac.update(b"tcpx export");
        mac.update(&address.to_le_bytes());
        mac.update(&bytes.to_le_bytes());
        mac.update(&memory.ptr_type().to_le_bytes());
        mac.update(&[access.to_wire()]);
        mac.update(&attempt.to_le_bytes());
        let mixed: [u8; 32] = mac.finalize().into_bytes().into();
        let number = u64::from_le_bytes(std::array::from_fn(|at| mixed[at]));
        let secret = std::array::from_fn(|at| mixed[size_of::<u64>() + at]);
        (ExportId::stable(number), ExportSecret::new(secret))
    }
}

impl fmt::Debug for StableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StableKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::memory_id::MemoryId;
    use crate::types::remote_access::RemoteAccess;
    use crate::types::{MemoryType, RegistrationKey, Span};

    fn range(address: u64, memory: MemoryType) -> ExportedRange {
        let span = Span { registration: RegistrationKey::default(), address, memory };
        let access = RemoteAccess::Read;
        ExportedRange { memory_id: MemoryId::after(0), span, bytes: 64, access }
    }

    #[test]
    fn only_the_same_range_of_the_same_session_has_the_same_key() {
        let keys = StableKeys::new([1; StableKeys::BYTES]);
        let first = range(4096, MemoryType::Host);
        let key = keys.of(&first, 0);
        let registered_again = ExportedRange { memory_id: MemoryId::after(9), ..first };
        assert_eq!(keys.of(&registered_again, 0), key);
        let others = [
            keys.of(&range(8192, MemoryType::Host), 0),
            keys.of(&range(4096, MemoryType::Device), 0),
            keys.of(&ExportedRange { bytes: 65, ..first }, 0),
            keys.of(&ExportedRange { access: RemoteAccess::ReadWrite, ..first }, 0),
            keys.of(&first, 1),
            StableKeys::new([2; StableKeys::BYTES]).of(&first, 0),
        ];
        for (id, secret) in others {
            assert!(id != key.0 && secret != key.1, "{id:?}");
        }
        assert_eq!(format!("{keys:?}"), "StableKeys(…)");
    }
}
