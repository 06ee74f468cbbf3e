//! Frames of a peer about exported memory, as they are on the wire.

use tcpx_core::RemoteKey;
use tcpx_tests::proxy::kind;
use tcpx_wire::frame;

/// In the place of a note's length: there is none.
const NO_NOTE: u32 = u32::MAX;

/// Why a request is refused.
pub(crate) mod why {
    pub(crate) const UNKNOWN_KEY: u8 = 1;
    pub(crate) const REVOKED: u8 = 2;
    pub(crate) const OUT_OF_RANGE: u8 = 3;
    pub(crate) const ACCESS: u8 = 4;
}

/// A key: its number, and its secret.
pub(crate) type WireKey = [u8; 24];

/// What a key is on the wire.
pub(crate) fn wire_key(key: &RemoteKey) -> WireKey {
    // The session of a sealed key comes first: number and secret stand behind it.
    let body = tcpx_wire::sealed::Envelope { magic: *b"TCPXRKEY", version: 1 };
    let key = key.serialize();
    body.open(&key).expect("it is a key")[16..40].try_into().expect("so long")
}

/// A range: the index of its key, where it begins, and its bytes.
pub(crate) type WireRange = (u32, u64, u64);

/// How a request has ended, as an end frame has it.
pub(crate) mod how {
    pub(crate) const REFUSED: u8 = 3;
}

/// In the place of the kind of a message.
const WRITES: u8 = 3;

/// A frame of this kind. The first byte of the body is the variant, where a kind has several.
fn framed(kind: u16, fields: &[&[u8]]) -> Vec<u8> {
    let mut whole = Vec::new();
    frame::append(&mut whole, kind::number(kind), |out| out.extend_from_slice(&fields.concat()));
    whole
}

/// First byte of an offer, or of a frame that a receive is ready.
fn first(kind: u16) -> [u8; 1] {
    [(kind >> 8) as u8]
}

/// Body of an end frame: whether of a write, its name, how, why, and the range that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EndFrame {
    pub(crate) is_write: bool,
    pub(crate) request: u64,
    pub(crate) how: u8,
    pub(crate) why: u8,
    pub(crate) range: u32,
}

impl EndFrame {
    /// Reads the body of one.
    pub(crate) fn of(body: &[u8]) -> Self {
        let field = |at: usize| body.get(at).copied().unwrap_or_default();
        Self {
            is_write: body[0] == WRITES,
            request: u64::from_le_bytes(body[1..9].try_into().expect("a name")),
            how: body[9],
            why: field(10),
            range: u32::from_le_bytes([11, 12, 13, 14].map(field)),
        }
    }
}

/// A list begins. `sizes`: keys and ranges.
pub(crate) fn list_of(number: u32, is_write: bool, sizes: (u32, u32), bytes: u64) -> Vec<u8> {
    let (keys, ranges) = (sizes.0.to_le_bytes(), sizes.1.to_le_bytes());
    // It has no keys, and has its total.
    let begins = [0, 0, 1, u8::from(is_write)];
    framed(kind::LIST, &[&number.to_le_bytes(), &begins, &keys, &ranges, &bytes.to_le_bytes()])
}

pub(crate) fn keys(number: u32, keys: &[WireKey]) -> Vec<u8> {
    let count = (keys.len() as u16).to_le_bytes();
    framed(kind::LIST, &[&number.to_le_bytes(), &count, &[0], &keys.concat()])
}

pub(crate) fn ranges(number: u32, ranges: &[WireRange]) -> Vec<u8> {
    let fields = ranges.iter().flat_map(|(key, offset, bytes)| {
        [&key.to_le_bytes()[..], &offset.to_le_bytes(), &bytes.to_le_bytes()].concat()
    });
    framed(kind::LIST, &[&number.to_le_bytes(), &[0; 3], &fields.collect::<Vec<u8>>()])
}

/// A whole list of one key.
pub(crate) fn list(number: u32, is_write: bool, key: &WireKey, all: &[WireRange]) -> Vec<u8> {
    list_of_keys(number, is_write, &[*key], all)
}

/// A whole list.
pub(crate) fn list_of_keys(
    number: u32,
    is_write: bool,
    opening: &[WireKey],
    all: &[WireRange],
) -> Vec<u8> {
    let bytes = all.iter().map(|(.., bytes)| bytes).sum();
    let mut frames = list_of(number, is_write, (opening.len() as u32, all.len() as u32), bytes);
    frames.extend(opening.chunks(600).flat_map(|some| keys(number, some)));
    frames.extend(all.chunks(800).flat_map(|some| ranges(number, some)));
    frames
}

pub(crate) fn forget(number: u32) -> Vec<u8> {
    framed(kind::FORGET, &[&number.to_le_bytes()])
}

/// A write by the route of its kind.
fn offered(kind: u16, request: u64, list: u32, inline: u32) -> Vec<u8> {
    let [list, inline, note] = [list, inline, NO_NOTE].map(u32::to_le_bytes);
    framed(kind, &[&first(kind), &request.to_le_bytes(), &list, &inline, &note])
}

pub(crate) fn write(request: u64, list: u32) -> Vec<u8> {
    offered(kind::WRITE, request, list, 0)
}

/// The same, whose bytes follow on the link.
pub(crate) fn write_on_link(request: u64, list: u32) -> Vec<u8> {
    offered(kind::WRITE_ON_LINK, request, list, 0)
}

/// The next bytes of a write on the link.
pub(crate) fn link_chunk(request: u64, bytes: &[u8]) -> Vec<u8> {
    let count = (bytes.len() as u32).to_le_bytes();
    let mut frames = framed(kind::LINK_CHUNK, &[&[WRITES], &request.to_le_bytes(), &count]);
    frames.extend_from_slice(bytes);
    frames
}

pub(crate) fn write_now(request: u64, list: u32, bytes: &[u8]) -> Vec<u8> {
    let mut frames = offered(kind::WRITE_INLINE, request, list, bytes.len() as u32);
    frames.extend_from_slice(bytes);
    frames
}

fn asked(request: u64, list: u32, on_link: bool) -> Vec<u8> {
    let (request, list) = (request.to_le_bytes(), list.to_le_bytes());
    framed(kind::READ, &[&first(kind::READ), &request, &list, &[0, u8::from(on_link)]])
}

pub(crate) fn read(request: u64, list: u32) -> Vec<u8> {
    asked(request, list, false)
}

/// The same, whose bytes are to come on the link.
pub(crate) fn read_on_link(request: u64, list: u32) -> Vec<u8> {
    asked(request, list, true)
}

pub(crate) fn chunks(receive: u64, offset: u64, bytes: u64) -> Vec<u8> {
    let (receive, offset) = (receive.to_le_bytes(), offset.to_le_bytes());
    let (channel, chunk) = ([0; 2], super::target::CHUNK_BYTES.to_le_bytes());
    framed(kind::CHUNKS, &[&offset, &bytes.to_le_bytes(), &channel, &chunk, &receive])
}

/// The initiator has cancelled a write.
pub(crate) fn stopped(request: u64) -> Vec<u8> {
    let how = first(kind::STOPPED);
    framed(kind::STOPPED, &[&[WRITES], &request.to_le_bytes(), &how, &[7], &[0; 4]])
}

pub(crate) fn notify(note: &[u8]) -> Vec<u8> {
    let mut frames = framed(kind::NOTE, &[&first(kind::NOTE), &(note.len() as u32).to_le_bytes()]);
    frames.extend_from_slice(note);
    frames
}
