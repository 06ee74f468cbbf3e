//! What two ends say about memory that one of them exports, which is the *target*. The other one,
//! the *initiator*, tells lists of ranges of it, and asks for reads and writes of whole lists.

use smallvec::SmallVec;

use crate::exports::capability::{ExportId, ExportSecret, ListedKey, ListedRange};
use crate::exports::refusal::Refusal;
use crate::frames::fields::{Fields, LinkPart};
use crate::frames::link_frame::FrameKind;
use crate::types::memory::OperationKind;
use crate::types::{MAX_EAGER_BYTES, MAX_NOTIFICATION_BYTES, MAX_PART_BYTES};

/// Most keys that one frame tells.
pub const MAX_KEYS: usize = 680;
/// Most ranges that one frame tells.
pub const MAX_RANGES: usize = 800;
/// In the place of a note's length: there is none.
const NO_NOTE: u32 = u32::MAX;

/// One message about exported memory. Operations have the initiator's names, but where it says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OneSidedFrame {
    /// A list begins, by the initiator's number: so many keys and then so many ranges follow. One
    /// without any is whole at once, and is for writes that merely bring a note.
    List {
        /// Number of the list, given by the initiator.
        list: u32,
        /// Whether it is a read or a write.
        kind: OperationKind,
        /// Keys.
        keys: u32,
        /// Ranges.
        ranges: u32,
        /// Of all ranges together.
        bytes: u64,
    },
    /// The next keys of the list, 1 to [`MAX_KEYS`].
    ListKeys {
        /// Number of the list, given by the initiator.
        list: u32,
        /// Keys.
        keys: SmallVec<[ListedKey; 1]>,
    },
    /// The next ranges of the list, 1 to [`MAX_RANGES`].
    ListRanges {
        /// Number of the list, given by the initiator.
        list: u32,
        /// Ranges.
        ranges: SmallVec<[ListedRange; 1]>,
    },
    /// The list is not needed any more.
    Forget {
        /// Number of the list, given by the initiator.
        list: u32,
    },
    /// The initiator wants to write a list. A note's bytes follow the frame, if there is one.
    Write {
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// Number of the list, given by the initiator.
        list: u32,
        /// Bytes of the note behind it, if there is one.
        note: Option<u32>,
        /// It waits for no grant: parts follow, on the link.
        on_link: bool,
    },
    /// The initiator writes a short list, or an empty one: its bytes follow the frame, and then
    /// those of a note.
    WriteNow {
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// Number of the list, given by the initiator.
        list: u32,
        /// Bytes.
        bytes: u32,
        /// Bytes of the note behind it, if there is one.
        note: Option<u32>,
    },
    /// The initiator wants to read a list.
    Read {
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// Number of the list, given by the initiator.
        list: u32,
        /// Each range is to travel by itself.
        cut: bool,
        /// They may come on the link.
        on_link: bool,
    },
    /// Write now, to this receive of the target's name.
    Grant {
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// The receiver's name for the receive.
        recv: u64,
        /// Each range is to travel by itself.
        cut: bool,
    },
    /// The next bytes of an operation that travels on the link: 1 to
    /// [`MAX_PART_BYTES`], which follow the frame.
    Part(LinkPart),
    /// Whoever receives the bytes of an operation wants no more of them.
    Halt {
        /// Whether it is a read or a write.
        kind: OperationKind,
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// Why.
        why: Refusal,
    },
    /// Whoever sends the bytes of an operation sends no more of them: all sections and parts came
    /// before.
    Stopped {
        /// Whether it is a read or a write.
        kind: OperationKind,
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// Why.
        why: Refusal,
        /// Index of the range that it is about.
        range: u32,
    },
    /// The answer to a write: all of it is in place, or why not.
    Answer {
        /// Number of the operation, given by the end that posted it.
        op: u64,
        /// Why.
        why: Option<Refusal>,
        /// Index of the range that it is about.
        range: u32,
    },
    /// A notification, whose bytes follow the frame.
    Notify {
        /// Bytes.
        bytes: u32,
    },
}

impl OneSidedFrame {
    pub(super) fn kind(&self) -> FrameKind {
        match self {
            Self::List { .. } => FrameKind::List,
            Self::ListKeys { .. } => FrameKind::ListKeys,
            Self::ListRanges { .. } => FrameKind::ListRanges,
            Self::Forget { .. } => FrameKind::Forget,
            Self::Write { .. } => FrameKind::Write,
            Self::WriteNow { .. } => FrameKind::WriteNow,
            Self::Read { .. } => FrameKind::Read,
            Self::Grant { .. } => FrameKind::Grant,
            Self::Part(_) => FrameKind::Part,
            Self::Halt { .. } => FrameKind::Halt,
            Self::Stopped { .. } => FrameKind::Stopped,
            Self::Answer { .. } => FrameKind::Answer,
            Self::Notify { .. } => FrameKind::Notify,
        }
    }

    pub(super) fn payload_bytes(&self) -> usize {
        match self {
            Self::Write { note, .. } => note.unwrap_or_default() as usize,
            Self::WriteNow { bytes, note, .. } => {
                *bytes as usize + note.unwrap_or_default() as usize
            }
            Self::Notify { bytes } | Self::Part(LinkPart { bytes, .. }) => *bytes as usize,
            _ => 0,
        }
    }

    pub(super) fn encode_body(&self, out: &mut Vec<u8>) {
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        match self {
            Self::List { list, kind, keys, ranges, bytes } => {
                put(&list.to_le_bytes());
                put(&[kind_to_wire(*kind)]);
                put(&keys.to_le_bytes());
                put(&ranges.to_le_bytes());
                put(&bytes.to_le_bytes());
            }
            Self::ListKeys { list, keys } => {
                put(&list.to_le_bytes());
                for ListedKey { export, secret } in keys {
                    put(&export.to_wire().to_le_bytes());
                    put(&secret.to_wire());
                }
            }
            Self::ListRanges { list, ranges } => {
                put(&list.to_le_bytes());
                for ListedRange { key, offset, bytes } in ranges {
                    put(&key.to_le_bytes());
                    put(&offset.to_le_bytes());
                    put(&bytes.to_le_bytes());
                }
            }
            Self::Forget { list } => put(&list.to_le_bytes()),
            Self::Write { op, list, note, on_link } => {
                put(&op.to_le_bytes());
                put(&list.to_le_bytes());
                put(&note.unwrap_or(NO_NOTE).to_le_bytes());
                put(&[u8::from(*on_link)]);
            }
            Self::WriteNow { op, list, bytes, note } => {
                put(&op.to_le_bytes());
                put(&list.to_le_bytes());
                put(&bytes.to_le_bytes());
                put(&note.unwrap_or(NO_NOTE).to_le_bytes());
            }
            Self::Read { op, list, cut, on_link } => {
                put(&op.to_le_bytes());
                put(&list.to_le_bytes());
                put(&[u8::from(*cut), u8::from(*on_link)]);
            }
            Self::Grant { op, recv, cut } => {
                put(&op.to_le_bytes());
                put(&recv.to_le_bytes());
                put(&[u8::from(*cut)]);
            }
            Self::Part(LinkPart { kind, op, bytes }) => {
                put(&[kind_to_wire(*kind)]);
                put(&op.to_le_bytes());
                put(&bytes.to_le_bytes());
            }
            Self::Halt { kind, op, why } => {
                put(&[kind_to_wire(*kind)]);
                put(&op.to_le_bytes());
                put(&[why.to_wire()]);
            }
            Self::Stopped { kind, op: name, why, range } => {
                put(&[kind_to_wire(*kind)]);
                put(&name.to_le_bytes());
                put(&[why.to_wire()]);
                put(&range.to_le_bytes());
            }
            Self::Answer { op: name, why, range } => {
                put(&name.to_le_bytes());
                put(&[why.map_or(0, Refusal::to_wire)]);
                put(&range.to_le_bytes());
            }
            Self::Notify { bytes } => put(&bytes.to_le_bytes()),
        }
    }

    pub(super) fn decode_body(kind: FrameKind, body: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(body);
        let frame = match kind {
            FrameKind::List => Self::List {
                list: fields.u32()?,
                kind: operation_kind(&mut fields)?,
                keys: fields.u32()?,
                ranges: fields.u32()?,
                bytes: fields.u64()?,
            },
            FrameKind::ListKeys => list_keys(&mut fields)?,
            FrameKind::ListRanges => list_ranges(&mut fields)?,
            FrameKind::Forget => Self::Forget { list: fields.u32()? },
            FrameKind::Write => Self::Write {
                op: fields.u64()?,
                list: fields.u32()?,
                note: note(&mut fields)?,
                on_link: fields.bool()?,
            },
            FrameKind::WriteNow => write_now(&mut fields)?,
            FrameKind::Read => {
                let (op, list) = (fields.u64()?, fields.u32()?);
                Self::Read { op, list, cut: fields.bool()?, on_link: fields.bool()? }
            }
            FrameKind::Grant => {
                Self::Grant { op: fields.u64()?, recv: fields.u64()?, cut: fields.bool()? }
            }
            FrameKind::Part => part(&mut fields)?,
            FrameKind::Halt => Self::Halt {
                kind: operation_kind(&mut fields)?,
                op: fields.u64()?,
                why: refusal(&mut fields)??,
            },
            FrameKind::Stopped => Self::Stopped {
                kind: operation_kind(&mut fields)?,
                op: fields.u64()?,
                why: refusal(&mut fields)??,
                range: fields.u32()?,
            },
            FrameKind::Answer => {
                Self::Answer { op: fields.u64()?, why: refusal(&mut fields)?, range: fields.u32()? }
            }
            FrameKind::Notify => Self::Notify { bytes: note_bytes(fields.u32()?)? },
            _ => return None,
        };
        fields.is_at_end().then_some(frame)
    }
}

fn kind_to_wire(kind: OperationKind) -> u8 {
    u8::from(kind == OperationKind::Write)
}

fn operation_kind(fields: &mut Fields<'_>) -> Option<OperationKind> {
    Some(if fields.bool()? { OperationKind::Write } else { OperationKind::Read })
}

fn list_keys(fields: &mut Fields<'_>) -> Option<OneSidedFrame> {
    let (list, mut keys) = (fields.u32()?, SmallVec::new());
    while !fields.is_at_end() {
        let export = ExportId::from_wire(fields.u64()?);
        keys.push(ListedKey { export, secret: ExportSecret::new(fields.bytes()?) });
    }
    (1..=MAX_KEYS).contains(&keys.len()).then_some(OneSidedFrame::ListKeys { list, keys })
}

fn list_ranges(fields: &mut Fields<'_>) -> Option<OneSidedFrame> {
    let (list, mut ranges) = (fields.u32()?, SmallVec::new());
    while !fields.is_at_end() {
        let (key, offset, bytes) = (fields.u32()?, fields.u64()?, fields.u64()?);
        ranges.push(ListedRange { key, offset, bytes });
    }
    (1..=MAX_RANGES).contains(&ranges.len()).then_some(OneSidedFrame::ListRanges { list, ranges })
}

fn write_now(fields: &mut Fields<'_>) -> Option<OneSidedFrame> {
    let (op, list, bytes) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let note = note(fields)?;
    let together = bytes.checked_add(note.unwrap_or_default())?;
    (together <= MAX_EAGER_BYTES).then_some(OneSidedFrame::WriteNow { op, list, bytes, note })
}

fn part(fields: &mut Fields<'_>) -> Option<OneSidedFrame> {
    let (kind, op, bytes) = (operation_kind(fields)?, fields.u64()?, fields.u32()?);
    let is_fit = (1..=MAX_PART_BYTES).contains(&bytes);
    is_fit.then_some(OneSidedFrame::Part(LinkPart { kind, op, bytes }))
}

fn note(fields: &mut Fields<'_>) -> Option<Option<u32>> {
    match fields.u32()? {
        NO_NOTE => Some(None),
        bytes => note_bytes(bytes).map(Some),
    }
}

/// Bytes of a note, if one may have so many.
fn note_bytes(bytes: u32) -> Option<u32> {
    (bytes <= MAX_NOTIFICATION_BYTES).then_some(bytes)
}

/// 0: nothing was refused.
fn refusal(fields: &mut Fields<'_>) -> Option<Option<Refusal>> {
    match fields.u8()? {
        0 => Some(None),
        number => Refusal::from_wire(number).map(Some),
    }
}

#[cfg(test)]
pub(super) mod tests;
