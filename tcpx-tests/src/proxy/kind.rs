//! Kinds of frames, as they are on the wire: the number of the kind, and above it the first
//! byte of the body, where a kind has several.

/// A record of an encrypted link, which hides the kinds of its frames.
pub const RECORD: u16 = 0;
/// The listener's opening frame.
pub const CHALLENGE: u16 = 1;
/// The connector's proof.
pub const HELLO: u16 = 2;
/// The listener's proof.
pub const WELCOME: u16 = 3;
/// The connector's proof of the secret, with which an encrypted link begins.
pub const OPENING: u16 = 5;
/// A part of the exchange of keys.
pub const TLS: u16 = 6;
/// Connect handles of the comms.
pub const HANDLES: u16 = 7;
/// All comms were accepted.
pub const OPEN: u16 = 8;
/// The first frame of a goodbye.
pub const GOODBYE: u16 = 11;
/// The last frame of a goodbye: the sends are closed.
pub const CLOSED: u16 = 12;
/// The last frame of an end that gives up.
pub const ABORT: u16 = 13;
/// A message is offered.
pub const OFFER: u16 = 18;
/// A notification; its bytes follow the frame.
pub const NOTE: u16 = OFFER | 1 << 8;
/// A short list is written; its bytes follow the frame.
pub const WRITE_INLINE: u16 = OFFER | 2 << 8;
/// A list is written on the link.
pub const WRITE_ON_LINK: u16 = OFFER | 3 << 8;
/// A list is to be written on the channels.
pub const WRITE: u16 = OFFER | 4 << 8;
/// A receiver is ready: a receive was posted.
pub const READY: u16 = 19;
/// A list may be written.
pub const CLEAR_TO_SEND: u16 = READY | 1 << 8;
/// A list is to be read.
pub const READ: u16 = READY | 2 << 8;
/// Chunks are scheduled on the channels.
pub const CHUNKS: u16 = 20;
/// A chunk on the link; its bytes follow the frame.
pub const LINK_CHUNK: u16 = 21;
/// A message has ended: all of it is there, or it was refused.
pub const END: u16 = 22;
/// No more bytes come.
pub const STOPPED: u16 = END | 4 << 8;
/// No more bytes are wanted.
pub const CANCEL: u16 = 23;
/// A list of remote memory, or more of it.
pub const LIST: u16 = 24;
/// A list is not needed any more.
pub const FORGET: u16 = 25;

/// Offset in the body of an end of the byte that says how.
const HOW: usize = 9;

/// Returns the kind of a frame with this number.
pub(super) fn of(number: u16, body: &[u8]) -> u16 {
    let first = body.first().copied().unwrap_or_default();
    let variant = match number {
        OFFER | READY => first,
        END if body.get(HOW) == Some(&4) => 4,
        _ => 0,
    };
    number | u16::from(variant) << 8
}

/// Returns the number of a kind on the wire.
pub fn number(kind: u16) -> u16 {
    kind & 0xff
}

/// Returns how many bytes follow a frame.
pub(super) fn payload_bytes(kind: u16, body: &[u8]) -> u64 {
    let field = |at: usize| {
        let bytes = body.get(at..).and_then(<[u8]>::first_chunk).copied();
        u64::from(bytes.map_or(0, u32::from_le_bytes))
    };
    let last = || body.len().checked_sub(4).map_or(0, field);
    match kind {
        OFFER | NOTE | LINK_CHUNK => last(),
        WRITE_INLINE | WRITE_ON_LINK | WRITE => {
            let note = Some(last()).filter(|note| *note != u64::from(u32::MAX));
            field(13) + note.unwrap_or_default()
        }
        _ => 0,
    }
}
