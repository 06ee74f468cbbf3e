//! Keys to remote memory, as bytes in a sealed envelope.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0–15 | id of the session that exports |
//! | 16–23 | number of the export |
//! | 24–39 | secret |
//! | 40–47 | the registration's id there, for texts; 0 in a stable key |
//! | 48–55, 56–63 | address of the first byte, in that process; size |
//! | 64 | kind of memory: 1 host, 2 device |
//! | 65 | access: 1 read, 2 write, 3 both |
//!
//! Numbers are little-endian. The envelope's digest finds damage and proves no origin. Number and
//! secret open the memory, in the session that made them and nowhere else; the rest only says what
//! they lead to.
//!
//! A range of remote memory that an operation names, and what can be said of it before the other
//! end is asked.

use tcpx_wire::sealed::{DIGEST_BYTES, Envelope, HEADER_BYTES, SealError};

use super::capability::{ExportId, ExportSecret};
use super::exported_range::is_part;
use crate::error::{RemoteKeyError, RemoteProblem};
use crate::types::MemoryType;
use crate::types::memory::{MemoryId, OperationKind, RemoteAccess};

const ENVELOPE: Envelope = Envelope { magic: *b"TCPXRKEY", version: 1 };
/// Bytes of the body.
pub const BODY_BYTES: usize = 66;

/// Lets a peer reach a range of memory that a session has exported with
/// `Session::export` of `tcpx-core`.
///
/// The key is a plain value, to be given to those peers as [bytes](Self::serialize). A program that
/// has the key, and a connection to the session, may do with the range what its
/// [access](Self::access) says, until the range is taken back. The key cannot be guessed, so its
/// bytes are as confidential as the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteKey {
    /// Id of the session that exports it.
    #[doc(hidden)]
    pub session: [u8; 16],
    /// Names the export there.
    #[doc(hidden)]
    pub export: ExportId,
    /// Opens the export.
    #[doc(hidden)]
    pub secret: ExportSecret,
    /// The registration, as its program knows it.
    #[doc(hidden)]
    pub memory_id: Option<MemoryId>,
    /// Address of the first byte, in the process that exports it.
    #[doc(hidden)]
    pub address: u64,
    /// Bytes of the range.
    #[doc(hidden)]
    pub bytes: u64,
    /// Kind of the memory.
    #[doc(hidden)]
    pub memory: MemoryType,
    /// Operations that the export allows.
    #[doc(hidden)]
    pub access: RemoteAccess,
}

impl RemoteKey {
    /// Bytes of a serialised key.
    pub const SERIALIZED_BYTES: usize = HEADER_BYTES + BODY_BYTES + DIGEST_BYTES;

    /// Writes the key as bytes, which [`deserialize`](Self::deserialize) reads on any machine. They
    /// may contain NUL.
    #[must_use]
    pub fn serialize(&self) -> [u8; Self::SERIALIZED_BYTES] {
        let mut body = [0; BODY_BYTES];
        let fields: [&[u8]; 8] = [
            &self.session,
            &self.export.to_wire().to_le_bytes(),
            &self.secret.to_wire(),
            &self.memory_id.map_or(0, MemoryId::get).to_le_bytes(),
            &self.address.to_le_bytes(),
            &self.bytes.to_le_bytes(),
            // Both kinds have numbers of one byte.
            &[self.memory.ptr_type() as u8],
            &[self.access.to_wire()],
        ];
        for (to, from) in body.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        seal(&body)
    }

    /// Reads bytes that [`serialize`](Self::serialize) made. They may come from anywhere: what was
    /// made up opens nothing.
    ///
    /// # Errors
    /// Each [`RemoteKeyError`].
    pub fn deserialize(bytes: &[u8]) -> Result<Self, RemoteKeyError> {
        let body = ENVELOPE.open(bytes).map_err(|error| of_envelope(error, bytes.len()))?;
        Fields::read(body).ok_or(length(bytes.len()))?.check()
    }

    /// Address of the first byte, in the process that exports it. It opens nothing by itself;
    /// operations name offsets from here.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the size of the range in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the kind of the memory.
    #[must_use]
    pub fn memory(&self) -> MemoryType {
        self.memory
    }

    /// Returns the operations that peers may do with it.
    #[must_use]
    pub fn access(&self) -> RemoteAccess {
        self.access
    }
}

/// The body's fields as they stand there.
struct Fields<'a> {
    session: &'a [u8; 16],
    export: &'a [u8; 8],
    secret: &'a [u8; ExportSecret::BYTES],
    memory_id: &'a [u8; 8],
    address: &'a [u8; 8],
    bytes: &'a [u8; 8],
    kind: u8,
    access: u8,
}

impl<'a> Fields<'a> {
    /// Reads a body. `None`: the bytes are more or fewer than a body has.
    fn read(body: &'a [u8]) -> Option<Self> {
        let (session, rest) = body.split_first_chunk()?;
        let (export, rest) = rest.split_first_chunk()?;
        let (secret, rest) = rest.split_first_chunk()?;
        let (memory_id, rest) = rest.split_first_chunk()?;
        let (address, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let &[kind, access] = rest else { return None };
        Some(Self { session, export, secret, memory_id, address, bytes, kind, access })
    }

    /// Returns the key, if there can be such a one.
    fn check(&self) -> Result<RemoteKey, RemoteKeyError> {
        let (address, bytes) = (u64::from_le_bytes(*self.address), u64::from_le_bytes(*self.bytes));
        let memory = MemoryType::from_ptr_type(self.kind.into())
            .ok_or(RemoteKeyError::MemoryKind(self.kind))?;
        let access =
            RemoteAccess::from_wire(self.access).ok_or(RemoteKeyError::Access(self.access))?;
        // As registrations are: so no offset in it wraps.
        let is_past_end = address.checked_add(bytes).is_none_or(|end| end > i64::MAX as u64);
        if address == 0 || bytes == 0 || is_past_end {
            return Err(RemoteKeyError::Range { address, bytes });
        }
        Ok(RemoteKey {
            session: *self.session,
            export: ExportId::from_wire(u64::from_le_bytes(*self.export)),
            secret: ExportSecret::new(*self.secret),
            memory_id: MemoryId::new(u64::from_le_bytes(*self.memory_id)),
            address,
            bytes,
            memory,
            access,
        })
    }
}

/// Returns the bytes of a key with this body, even when there can be no such key.
pub fn seal(body: &[u8; BODY_BYTES]) -> [u8; RemoteKey::SERIALIZED_BYTES] {
    let sealed = ENVELOPE.seal(body);
    std::array::from_fn(|index| sealed[index])
}

/// Returns the reason why an envelope of `have` bytes could not be opened.
fn of_envelope(error: SealError, have: usize) -> RemoteKeyError {
    match error {
        SealError::Magic => RemoteKeyError::Magic,
        // Too short to say what it is.
        SealError::Truncated { .. } if have < HEADER_BYTES => RemoteKeyError::Magic,
        SealError::Version { found, supported } => RemoteKeyError::Version { found, supported },
        SealError::Digest if have == RemoteKey::SERIALIZED_BYTES => RemoteKeyError::Digest,
        _ => length(have),
    }
}

fn length(have: usize) -> RemoteKeyError {
    RemoteKeyError::Length { have, need: RemoteKey::SERIALIZED_BYTES }
}

/// A range of what a key leads to.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRange<'a> {
    /// The key.
    pub key: &'a RemoteKey,
    /// Offset in the exported memory at which it begins, in bytes.
    pub offset: u64,
    /// Number of its bytes.
    pub bytes: u64,
}

impl RemoteRange<'_> {
    /// Checks it by what the key says of itself. The other end checks by what it knows.
    pub fn check(&self, index: usize, wanted: OperationKind) -> Result<(), RemoteProblem> {
        let Self { key, offset, bytes } = *self;
        if !key.access().allows(wanted) {
            return Err(RemoteProblem::Access { wanted });
        }
        let exported_bytes = key.bytes();
        if !is_part(offset, bytes, exported_bytes) {
            return Err(RemoteProblem::OutOfRange { index, offset, bytes, exported_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::memory::RemoteAccess;

    pub(crate) fn sample() -> RemoteKey {
        RemoteKey {
            session: *b"session of a GPU",
            export: ExportId::from_wire(5),
            secret: ExportSecret::new(*b"nobody knows it!"),
            memory_id: MemoryId::new(3),
            address: 0x7f00_0000_1000,
            bytes: 1 << 30,
            memory: MemoryType::Device,
            access: RemoteAccess::ReadWrite,
        }
    }

    fn body() -> [u8; BODY_BYTES] {
        let bytes = sample().serialize();
        std::array::from_fn(|index| bytes[HEADER_BYTES + index])
    }

    #[test]
    fn the_bytes_are_laid_out_as_documented() {
        let bytes = sample().serialize();
        assert_eq!(bytes.len(), 86);
        assert_eq!(bytes[..12], *b"TCPXRKEY\x01\x00\x42\x00");
        let body = body();
        assert_eq!(body[..16], *b"session of a GPU");
        assert_eq!(body[16..24], 5u64.to_le_bytes());
        assert_eq!(body[24..40], *b"nobody knows it!");
        assert_eq!(body[40..48], 3u64.to_le_bytes());
        assert_eq!(body[48..56], 0x7f00_0000_1000u64.to_le_bytes());
        assert_eq!(body[56..64], (1u64 << 30).to_le_bytes());
        assert_eq!(body[64..], [2, 3]);
    }

    #[test]
    fn each_fault_is_named() {
        use RemoteKeyError as E;
        let bytes = sample().serialize();
        let fault = |bytes: &[u8]| RemoteKey::deserialize(bytes).unwrap_err();
        assert_eq!(fault(b""), E::Magic);
        assert_eq!(fault(b"0x7f0000001000,1073741824,2"), E::Magic);
        assert_eq!(fault(&bytes[..85]), E::Length { have: 85, need: 86 });
        assert_eq!(fault(&[&bytes[..], b"x"].concat()), E::Length { have: 87, need: 86 });
        let shorter = ENVELOPE.seal(&body()[1..]);
        assert_eq!(fault(&shorter), E::Length { have: 85, need: 86 });
        let mut newer = bytes;
        newer[8] = 2;
        assert_eq!(fault(&newer), E::Version { found: 2, supported: 1 });
        let mut damaged = bytes;
        damaged[40] ^= 1;
        assert_eq!(fault(&damaged), E::Digest);
        let changed = |at: usize, value: u8| {
            let mut body = body();
            body[at] = value;
            fault(&seal(&body))
        };
        assert_eq!(changed(64, 0), E::MemoryKind(0));
        assert_eq!(changed(64, 4), E::MemoryKind(4));
        assert_eq!(changed(65, 0), E::Access(0));
        assert_eq!(changed(65, 4), E::Access(4));
    }

    #[test]
    fn a_range_that_no_memory_has_is_refused() {
        for (address, bytes) in [(0, 1), (1, 0), (1, i64::MAX as u64), (2, u64::MAX - 1)] {
            let key = RemoteKey { address, bytes, ..sample() };
            let read = RemoteKey::deserialize(&key.serialize());
            assert_eq!(read, Err(RemoteKeyError::Range { address, bytes }));
        }
        let last = RemoteKey { address: 1, bytes: i64::MAX as u64 - 1, ..sample() };
        assert_eq!(RemoteKey::deserialize(&last.serialize()), Ok(last));
    }

    #[test]
    fn the_secret_stays_out_of_logs() {
        let text = format!("{:?}", sample());
        assert!(text.contains("ExportSecret(…)") && !text.contains("nobody"), "{text}");
    }

    proptest! {
        #[test]
        fn what_was_serialised_is_read(
            session: [u8; 16],
            secret: [u8; 16],
            export: u64,
            memory_id: u64,
            address in 1u64..1 << 62,
            bytes in 1u64..1 << 62,
            is_host: bool,
            access in 1u8..4,
        ) {
            let key = RemoteKey {
                session,
                export: ExportId::from_wire(export),
                secret: ExportSecret::new(secret),
                memory_id: MemoryId::new(memory_id),
                address,
                bytes,
                memory: if is_host { MemoryType::Host } else { MemoryType::Device },
                access: RemoteAccess::from_wire(access).unwrap(),
            };
            prop_assert_eq!(RemoteKey::deserialize(&key.serialize()), Ok(key));
        }

        #[test]
        fn no_single_changed_byte_goes_unseen(
            index in 0..RemoteKey::SERIALIZED_BYTES,
            change in 1u8..,
        ) {
            let mut bytes = sample().serialize();
            bytes[index] ^= change;
            prop_assert!(RemoteKey::deserialize(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(RemoteKey::deserialize(&bytes).is_err());
        }

        #[test]
        fn any_body_is_survived(body in proptest::collection::vec(any::<u8>(), 60..70)) {
            let sealed = ENVELOPE.seal(&body);
            if let Ok(key) = RemoteKey::deserialize(&sealed) {
                prop_assert_eq!(&key.serialize()[..], &sealed[..]);
            }
        }
    }

    #[test]
    fn what_the_key_does_not_allow_is_refused_by_name() {
        use OperationKind::{Read, Write};
        let key = RemoteKey { bytes: 100, access: RemoteAccess::Read, ..sample() };
        let check =
            |offset, bytes, wanted| RemoteRange { key: &key, offset, bytes }.check(7, wanted);
        assert_eq!(check(0, 100, Read), Ok(()));
        assert_eq!(check(99, 1, Read), Ok(()));
        assert_eq!(check(0, 1, Write), Err(RemoteProblem::Access { wanted: Write }));
        for (offset, bytes) in [(0, 101), (100, 1), (1, u64::MAX), (u64::MAX, 1)] {
            let problem =
                RemoteProblem::OutOfRange { index: 7, offset, bytes, exported_bytes: 100 };
            assert_eq!(check(offset, bytes, Read), Err(problem));
        }
    }
}
