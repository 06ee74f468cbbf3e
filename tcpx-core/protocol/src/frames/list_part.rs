//! Lists of ranges that one end exports, as the other end tells it of them. Pure.

use smallvec::SmallVec;

use super::fields::{Body, Fields};
use crate::exports::capability::{ExportId, ExportSecret, ListedKey, ListedRange};
use crate::types::memory::OperationKind;

/// Bytes of keys and ranges in one frame about a list, at most.
pub const LIST_BYTES: usize = 16_320;
/// Bytes of a key in a frame.
pub const KEY_BYTES: usize = 24;
/// Bytes of a range in a frame.
pub const RANGE_BYTES: usize = 20;

/// Some of a list of ranges: what all of it comes to, in the first frame about it; then its keys,
/// and then its ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPart {
    /// Number of the list, given by the initiator.
    pub list: u32,
    /// Totals of the list, if the list begins with this part.
    pub head: Option<ListHead>,
    /// The next keys.
    pub keys: SmallVec<[ListedKey; 1]>,
    /// The next ranges.
    pub ranges: SmallVec<[ListedRange; 1]>,
}

/// Totals of a list. A list without any ranges is for writes that merely bring a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListHead {
    /// Kind of operation for which the list is.
    pub kind: OperationKind,
    /// Keys.
    pub keys: u32,
    /// Ranges.
    pub ranges: u32,
    /// Bytes of all ranges together.
    pub bytes: u64,
}

impl ListPart {
    /// Most bytes before the keys.
    pub(super) const FRONT_BYTES: usize = 24;

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Body::default();
        body.u32(self.list).u16(self.keys.len() as u16).u8(self.head.is_some().into());
        if let Some(ListHead { kind, keys, ranges, bytes }) = self.head {
            body.u8((kind == OperationKind::Write).into()).u32(keys).u32(ranges).u64(bytes);
        }
        body.append_to(out);
        for ListedKey { export, secret } in &self.keys {
            out.extend_from_slice(&export.to_wire().to_le_bytes());
            out.extend_from_slice(&secret.to_wire());
        }
        for ListedRange { key, offset, bytes } in &self.ranges {
            Body::default().u32(*key).u64(*offset).u64(*bytes).append_to(out);
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (list, count, has_head) = (fields.u32()?, fields.u16()?, fields.bool()?);
        let head = if has_head { Some(list_head(fields)?) } else { None };
        if fields.left() > LIST_BYTES {
            return None;
        }
        let mut keys = SmallVec::new();
        for _ in 0..count {
            let export = ExportId::from_wire(fields.u64()?);
            keys.push(ListedKey { export, secret: ExportSecret::new(fields.bytes()?) });
        }
        let mut ranges = SmallVec::new();
        while fields.left() > 0 {
            let (key, offset, bytes) = (fields.u32()?, fields.u64()?, fields.u64()?);
            ranges.push(ListedRange { key, offset, bytes });
        }
        let has_output_now = head.is_some() || !keys.is_empty() || !ranges.is_empty();
        has_output_now.then_some(Self { list, head, keys, ranges })
    }
}

fn list_head(fields: &mut Fields<'_>) -> Option<ListHead> {
    let kind = if fields.bool()? { OperationKind::Write } else { OperationKind::Read };
    Some(ListHead { kind, keys: fields.u32()?, ranges: fields.u32()?, bytes: fields.u64()? })
}

#[cfg(test)]
pub(super) mod tests;
