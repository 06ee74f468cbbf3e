//! Records on the control socket. Pure; every field is checked.

use super::protocol::{MAX_INLINE_BYTES, take};

/// Record on the control socket. All records of message i precede those of i + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A chunk: the next `size` bytes on data socket `index` are bytes `offset..` of a message of
    /// `total` bytes.
    Chunk {
        /// Index of the data socket.
        index: u16,
        /// Length of the chunk in bytes.
        size: u32,
        /// Offset of the chunk in its message.
        offset: u32,
        /// Length of the message in bytes.
        total: u32,
    },
    /// A whole message, whose `size` bytes follow this record.
    Inline {
        /// Length of the message in bytes.
        size: u32,
    },
}

/// Reason why the bytes of a record were refused. The control stream cannot be trusted after such
/// an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Kind that is neither a chunk nor a message.
    #[error("record type {0}")]
    Kind(u16),
    /// Index for which there is no data socket.
    #[error("data socket index {0}")]
    Index(u16),
    /// Chunk outside its message, or out of order.
    #[error("chunk of {size} bytes at {offset} in a message of {total}")]
    Range {
        /// Length of the chunk in bytes.
        size: u32,
        /// Offset of the chunk, if it were valid.
        offset: u32,
        /// Length of the message in bytes.
        total: u32,
    },
    /// Message that is too long, or that comes in the middle of another message.
    #[error("inline payload of {0} bytes")]
    Inline(u32),
}

impl Record {
    /// Length of a record in bytes.
    pub const BYTES: usize = 16;

    /// Encodes the record for the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let (kind, index, size, offset, total) = match *self {
            Self::Chunk { index, size, offset, total } => (0u16, index, size, offset, total),
            Self::Inline { size } => (1, 0, size, 0, size),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&index.to_le_bytes());
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        bytes[8..12].copy_from_slice(&offset.to_le_bytes());
        bytes[12..].copy_from_slice(&total.to_le_bytes());
        bytes
    }

    /// Decodes a record and checks all that one record shows. [`super::chunking::RecordOrder`]
    /// checks it against its neighbours.
    ///
    /// # Errors
    /// Returns an error for the first invalid field.
    pub fn decode(bytes: &[u8; Self::BYTES], sockets: u16) -> Result<Self, RecordError> {
        let kind = u16::from_le_bytes(take(bytes, 0));
        let index = u16::from_le_bytes(take(bytes, 2));
        let size = u32::from_le_bytes(take(bytes, 4));
        let offset = u32::from_le_bytes(take(bytes, 8));
        let total = u32::from_le_bytes(take(bytes, 12));
        let range = RecordError::Range { size, offset, total };
        match kind {
            0 if index >= sockets => Err(RecordError::Index(index)),
            0 => {
                let end = offset.checked_add(size).ok_or(range)?;
                if size == 0 || end > total || total > i32::MAX as u32 {
                    return Err(range);
                }
                Ok(Self::Chunk { index, size, offset, total })
            }
            1 if index != 0 => Err(RecordError::Index(index)),
            1 if offset != 0 || size != total => Err(range),
            1 if size > MAX_INLINE_BYTES => Err(RecordError::Inline(size)),
            1 => Ok(Self::Inline { size }),
            kind => Err(RecordError::Kind(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::protocol::MAX_SOCKETS;

    proptest! {
        #[test]
        fn accepted_records_are_in_bounds_and_encode_back(
            bytes in prop::array::uniform16(any::<u8>()), small: bool, sockets in 1..=MAX_SOCKETS,
        ) {
            let mut bytes = bytes;
            if small {
                for at in [0, 1, 3, 6, 7, 10, 11, 14, 15] {
                    bytes[at] = 0;
                }
                bytes[0] = bytes[2] & 1;
                bytes[2] %= 9;
            }
            if let Ok(record) = Record::decode(&bytes, sockets) {
                prop_assert_eq!(record.encode(), bytes);
                match record {
                    Record::Chunk { index, size, offset, total } => {
                        prop_assert!(index < sockets && size > 0);
                        let end = u64::from(offset) + u64::from(size);
                        prop_assert!(end <= u64::from(total));
                    }
                    Record::Inline { size } => prop_assert!(size <= MAX_INLINE_BYTES),
                }
            }
        }
    }
}
