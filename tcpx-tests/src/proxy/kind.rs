//! Types of frames, as they are on the wire.

/// A record of an authenticated link, which says of no frame what it is.
pub const RECORD: u16 = 0;
/// The listener's opening word.
pub const CHALLENGE: u16 = 1;
/// The connector's proof.
pub const HELLO: u16 = 2;
/// The listener's proof.
pub const WELCOME: u16 = 3;
/// Connect handles of the comms.
pub const HANDLES: u16 = 5;
/// All comms were accepted.
pub const READY: u16 = 6;
/// A receive was posted.
pub const ANNOUNCE: u16 = 7;
/// The first word of a goodbye.
pub const GOODBYE: u16 = 14;
/// The last word of an end that gives up.
pub const ABORT: u16 = 16;
/// Bytes are dealt.
pub const SECTION: u16 = 20;
/// A list of remote memory begins.
pub const LIST: u16 = 24;
/// Its keys.
pub const LIST_KEYS: u16 = 25;
/// Its ranges.
pub const LIST_RANGES: u16 = 26;
/// A list is not needed any more.
pub const FORGET: u16 = 27;
/// A list is to be written.
pub const WRITE: u16 = 28;
/// A short list is written; its bytes follow the frame.
pub const WRITE_NOW: u16 = 29;
/// A list is to be read.
pub const READ: u16 = 30;
/// A list may be written.
pub const GRANT: u16 = 31;
/// No more bytes are wanted.
pub const HALT: u16 = 32;
/// No more bytes come.
pub const STOPPED: u16 = 33;
/// What became of a write.
pub const ANSWER: u16 = 34;
/// A notification; its bytes follow the frame.
pub const NOTIFY: u16 = 35;
/// Notifications were taken.
pub const NOTES_TAKEN: u16 = 36;
/// The next bytes of a read or write on the link; they follow the frame.
pub const PART: u16 = 37;
