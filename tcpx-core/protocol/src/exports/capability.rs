//! Capability that opens an export: its number, and a secret that cannot be guessed, both as the
//! lists of operations name them. Stable keys, which are the same each time that a range is
//! exported.

use std::fmt;
use std::hint::black_box;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroize;

use super::exported_range::ExportedRange;

/// Numbers that are counted do not have this bit.
const STABLE_BIT: u64 = 1 << 63;

/// By which a peer names an export. Counted ones are never used twice, so an old key never opens
/// what was exported later. A stable one is the same each time that its range is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExportId(u64);

impl ExportId {
    /// Makes an id of any number; an id that is not ours finds nothing.
    pub fn from_wire(number: u64) -> Self {
        Self(number)
    }

    /// Returns it as it travels.
    pub fn to_wire(self) -> u64 {
        self.0
    }

    /// Returns the id of the export that `others` counted exports came before.
    pub(super) fn after(others: u64) -> Self {
        // Ids do not reach the bit: 1 in each nanosecond does not in 292 years.
        Self((others + 1) & !STABLE_BIT)
    }

    /// Returns a stable id.
    pub(super) fn stable(number: u64) -> Self {
        Self(number | STABLE_BIT)
    }

    /// Returns whether it is the same each time the range is exported.
    pub fn is_stable(self) -> bool {
        self.0 & STABLE_BIT != 0
    }

    /// Returns whether the id was counted, and is one of the first `used`.
    pub(super) fn was_counted(self, used: u64) -> bool {
        (1..=used & !STABLE_BIT).contains(&self.0)
    }
}

/// 16 bytes that only holders of the key know.
///
/// Comparing two takes the same time wherever they differ, so that no peer learns a secret byte by
/// byte from how long a wrong one took.
#[derive(Clone)]
pub struct ExportSecret([u8; Self::BYTES]);

impl ExportSecret {
    /// Bytes of a secret.
    pub const BYTES: usize = 16;

    /// Makes a secret of these bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns it as it travels.
    pub fn to_wire(&self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl Drop for ExportSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for ExportSecret {
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        // The optimiser does not see that the rest is of no interest after the first difference.
        pairs.fold(0, |differences, (a, b)| black_box(differences | (a ^ b))) == 0
    }
}

impl Eq for ExportSecret {}

impl fmt::Debug for ExportSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExportSecret(…)")
    }
}

/// A key, as a list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// Names the export.
    pub export: ExportId,
    /// Secret that opens it.
    pub secret: ExportSecret,
}

/// A range of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRange {
    /// Index of its key in the list.
    pub key: u32,
    /// From where on in what the key exports.
    pub offset: u64,
    /// Bytes of the range.
    pub bytes: u64,
}

/// Seed of a session's stable keys: random bytes that only this session knows.
#[derive(Clone)]
pub struct StableKeys([u8; Self::BYTES]);

impl StableKeys {
    /// The size of a key that the MAC takes as it is.
    pub const BYTES: usize = 64;

    /// Makes keys of a secret of the session.
    pub fn new(random: [u8; Self::BYTES]) -> Self {
        Self(random)
    }

    /// Returns the id and secret of a range. Where two ranges come to the same id, the later one
    /// makes another `attempt`; they are counted from 0.
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

impl Drop for StableKeys {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for StableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StableKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::memory::{MemoryId, RemoteAccess};
    use crate::types::{MemoryType, RegistrationKey, Span};

    proptest! {
        #[test]
        fn counted_and_stable_ids_never_meet(others in 0u64..1 << 62, number: u64) {
            let (counted, stable) = (ExportId::after(others), ExportId::stable(number));
            prop_assert!(stable.is_stable() && !counted.is_stable());
            prop_assert!(counted.was_counted(others + 1) && !counted.was_counted(others));
            prop_assert!(!stable.was_counted(u64::MAX));
            prop_assert!(!ExportId::from_wire(0).was_counted(others));
            prop_assert_eq!(ExportId::from_wire(stable.to_wire()), stable);
        }
    }

    #[test]
    fn it_stays_out_of_logs() {
        assert_eq!(format!("{:?}", ExportSecret::new([0x41; 16])), "ExportSecret(…)");
    }

    #[test]
    fn every_bit_counts() {
        let secret = ExportSecret::new(std::array::from_fn(|at| at as u8));
        assert_eq!(secret, ExportSecret::new(secret.to_wire()));
        for bit in 0..ExportSecret::BYTES * 8 {
            let mut other = secret.to_wire();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(secret, ExportSecret::new(other), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn it_equals_what_has_the_same_bytes_only(a: [u8; 16], b: [u8; 16]) {
            prop_assert_eq!(ExportSecret::new(a) == ExportSecret::new(b), a == b);
        }
    }

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
