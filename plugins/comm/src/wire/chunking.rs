//! Cutting of messages into chunks, and the check that a record may follow its predecessors. Pure.

use super::record::{Record, RecordError};

/// Returns the length of the chunk at `offset` of a message of `total` bytes. It is the chunk size,
/// or the rest of the message.
#[must_use]
pub fn chunk_at(offset: u32, total: u32, chunk_bytes: u32) -> u32 {
    chunk_bytes.min(total - offset)
}

/// Part of a message that a valid record announces: the next chunk, or the whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// Length of the whole message in bytes.
    pub total: u32,
    /// Whether nothing of the message was announced before.
    pub first: bool,
    /// Whether nothing of the message is left to announce.
    pub last: bool,
}

/// Order of records: the message that records currently announce.
#[derive(Debug)]
pub struct RecordOrder {
    chunk_bytes: u32,
    /// Total and announced bytes of a message whose last record has not come.
    current: Option<(u32, u32)>,
}

impl RecordOrder {
    /// Creates the state for chunks of `chunk_bytes`, which the sender announced in its hello.
    #[must_use]
    pub fn new(chunk_bytes: u32) -> Self {
        Self { chunk_bytes, current: None }
    }

    /// Checks the next record against the sender's own rule for cutting messages.
    ///
    /// # Errors
    /// Returns an error for a record that does not follow.
    pub fn check(&mut self, record: Record) -> Result<MessagePart, RecordError> {
        match (record, self.current) {
            (Record::Inline { size }, None) => {
                Ok(MessagePart { total: size, first: true, last: true })
            }
            (Record::Inline { size }, Some(_)) => Err(RecordError::Inline(size)),
            (Record::Chunk { size, offset, total, .. }, current) => {
                let (message, announced) = current.unwrap_or((total, 0));
                if total != message
                    || offset != announced
                    || size != chunk_at(offset, total, self.chunk_bytes)
                {
                    return Err(RecordError::Range { size, offset, total });
                }
                let last = offset + size == total;
                self.current = (!last).then_some((total, offset + size));
                Ok(MessagePart { total, first: offset == 0, last })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(size: u32, offset: u32, total: u32) -> Record {
        Record::Chunk { index: 0, size, offset, total }
    }

    #[test]
    fn chunks_follow_each_other_to_the_end() {
        let mut announced = RecordOrder::new(100);
        let step = |first, last| Ok(MessagePart { total: 250, first, last });
        assert_eq!(announced.check(chunk(100, 0, 250)), step(true, false));
        assert_eq!(announced.check(chunk(100, 100, 250)), step(false, false));
        assert_eq!(announced.check(chunk(50, 200, 250)), step(false, true));
        let inline = announced.check(Record::Inline { size: 7 });
        assert_eq!(inline, Ok(MessagePart { total: 7, first: true, last: true }));
    }

    #[test]
    fn a_record_out_of_line_is_refused() {
        let refused = |records: &[Record]| {
            let mut announced = RecordOrder::new(100);
            let (last, before) = records.split_last().expect("a record");
            assert!(before.iter().all(|&record| announced.check(record).is_ok()));
            announced.check(*last).is_err()
        };
        assert!(refused(&[chunk(99, 0, 250)]), "neither a whole chunk nor the rest");
        assert!(refused(&[chunk(100, 100, 250)]), "does not start at 0");
        assert!(refused(&[chunk(100, 0, 250), chunk(100, 0, 250)]), "twice");
        assert!(refused(&[chunk(100, 0, 250), chunk(100, 100, 251)]), "another total");
        assert!(
            refused(&[chunk(100, 0, 250), Record::Inline { size: 3 }]),
            "a message inside a message"
        );
    }

    proptest! {
        #[test]
        fn chunks_cover_the_message(total in 1u32..3_000_000, chunk_bytes in 1000u32..600_000) {
            let mut offset = 0;
            while offset < total {
                let size = chunk_at(offset, total, chunk_bytes);
                prop_assert!(size > 0 && size <= chunk_bytes);
                prop_assert!(size == chunk_bytes || offset + size == total);
                offset += size;
            }
            prop_assert_eq!(offset, total);
        }
    }
}
