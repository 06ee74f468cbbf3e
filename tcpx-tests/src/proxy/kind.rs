//! Kinds of frames, as they are on the wire: the number of the kind, and above it what the body
//! says first, where a kind has several.

/// A record of an authenticated link, which says of no frame what it is.
pub const RECORD: u16 = 0;
/// The listener's opening frame.
pub const CHALLENGE: u16 = 1;
/// The connector's proof.
pub const HELLO: u16 = 2;
/// The listener's proof.
pub const WELCOME: u16 = 3;
/// Connect handles of the comms.
pub const HANDLES: u16 = 5;
/// All comms were accepted.
pub const OPEN: u16 = 6;
/// The first frame of a goodbye.
pub const GOODBYE: u16 = 9;
/// The last frame of an end that gives up.
pub const ABORT: u16 = 11;
/// A message is offered.
pub const OFFER: u16 = 13;
/// A notification; its bytes follow the frame.
pub const NOTE: u16 = OFFER | 1 << 8;
/// A short list is written; its bytes follow the frame.
pub const WRITE_INLINE: u16 = OFFER | 2 << 8;
/// A list is written on the link.
pub const WRITE_ON_LINK: u16 = OFFER | 3 << 8;
/// A list is to be written on the channels.
pub const WRITE: u16 = OFFER | 4 << 8;
/// A receiver is ready: a receive was posted.
pub const ANNOUNCE: u16 = 14;
/// A list may be written.
pub const GRANT: u16 = ANNOUNCE | 1 << 8;
/// A list is to be read.
pub const READ: u16 = ANNOUNCE | 2 << 8;
/// Bytes are dealt to the channels.
pub const CHUNKS: u16 = 15;
/// Bytes on the link; they follow the frame.
pub const PART: u16 = 16;
/// A message has ended: all of it is there, or it was refused.
pub const ANSWER: u16 = 17;
/// No more bytes come.
pub const STOPPED: u16 = ANSWER | 4 << 8;
/// No more bytes are wanted.
pub const CANCEL: u16 = 18;
/// A list of remote memory, or more of it.
pub const LIST: u16 = 19;
/// A list is not needed any more.
pub const FORGET: u16 = 20;

/// Where the body of an end says how.
const HOW: usize = 9;

/// What a frame of this number is.
pub(super) fn of(number: u16, body: &[u8]) -> u16 {
    let first = body.first().copied().unwrap_or_default();
    let says = match number {
        OFFER | ANNOUNCE => first,
        ANSWER if body.get(HOW) == Some(&4) => 4,
        _ => 0,
    };
    number | u16::from(says) << 8
}

/// The number of its kind.
pub fn number(kind: u16) -> u16 {
    kind & 0xff
}

/// How many bytes follow it.
pub(super) fn payload_bytes(kind: u16, body: &[u8]) -> u64 {
    let field = |at: usize| {
        let bytes = body.get(at..).and_then(<[u8]>::first_chunk).copied();
        u64::from(bytes.map_or(0, u32::from_le_bytes))
    };
    let last = || body.len().checked_sub(4).map_or(0, field);
    match kind {
        OFFER | NOTE | PART => last(),
        WRITE_INLINE | WRITE_ON_LINK | WRITE => {
            let note = Some(last()).filter(|note| *note != u64::from(u32::MAX));
            field(13) + note.unwrap_or_default()
        }
        _ => 0,
    }
}
