//! What a peer may say of exported memory, as it is on the wire.

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

fn framed(word: u16, fields: &[&[u8]]) -> Vec<u8> {
    let mut whole = Vec::new();
    frame::append(&mut whole, word, |out| out.extend_from_slice(&fields.concat()));
    whole
}

/// A list begins. `sizes`: keys and ranges.
pub(crate) fn list_of(number: u32, is_write: bool, sizes: (u32, u32), bytes: u64) -> Vec<u8> {
    let (keys, ranges) = (sizes.0.to_le_bytes(), sizes.1.to_le_bytes());
    let kind = [u8::from(is_write)];
    framed(kind::LIST, &[&number.to_le_bytes(), &kind, &keys, &ranges, &bytes.to_le_bytes()])
}

pub(crate) fn keys(number: u32, keys: &[WireKey]) -> Vec<u8> {
    framed(kind::LIST_KEYS, &[&number.to_le_bytes(), &keys.concat()])
}

pub(crate) fn ranges(number: u32, ranges: &[WireRange]) -> Vec<u8> {
    let fields = ranges.iter().flat_map(|(key, offset, bytes)| {
        [&key.to_le_bytes()[..], &offset.to_le_bytes(), &bytes.to_le_bytes()].concat()
    });
    framed(kind::LIST_RANGES, &[&number.to_le_bytes(), &fields.collect::<Vec<u8>>()])
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
    let mut words = list_of(number, is_write, (opening.len() as u32, all.len() as u32), bytes);
    words.extend(opening.chunks(600).flat_map(|some| keys(number, some)));
    words.extend(all.chunks(800).flat_map(|some| ranges(number, some)));
    words
}

pub(crate) fn forget(number: u32) -> Vec<u8> {
    framed(kind::FORGET, &[&number.to_le_bytes()])
}

pub(crate) fn write(request: u64, list: u32) -> Vec<u8> {
    let [list, note] = [list, NO_NOTE].map(u32::to_le_bytes);
    framed(kind::WRITE, &[&request.to_le_bytes(), &list, &note, &[0]])
}

/// The same, whose bytes follow on the link.
pub(crate) fn write_on_link(request: u64, list: u32) -> Vec<u8> {
    let [list, note] = [list, NO_NOTE].map(u32::to_le_bytes);
    framed(kind::WRITE, &[&request.to_le_bytes(), &list, &note, &[1]])
}

/// The next bytes of a write on the link.
pub(crate) fn part(request: u64, bytes: &[u8]) -> Vec<u8> {
    let count = (bytes.len() as u32).to_le_bytes();
    let mut words = framed(kind::PART, &[&[1], &request.to_le_bytes(), &count]);
    words.extend_from_slice(bytes);
    words
}

pub(crate) fn write_now(request: u64, list: u32, bytes: &[u8]) -> Vec<u8> {
    let [list, count, note] = [list, bytes.len() as u32, NO_NOTE].map(u32::to_le_bytes);
    let mut words = framed(kind::WRITE_NOW, &[&request.to_le_bytes(), &list, &count, &note]);
    words.extend_from_slice(bytes);
    words
}

pub(crate) fn read(request: u64, list: u32) -> Vec<u8> {
    framed(kind::READ, &[&request.to_le_bytes(), &list.to_le_bytes(), &[0, 0]])
}

/// The same, whose bytes are to come on the link.
pub(crate) fn read_on_link(request: u64, list: u32) -> Vec<u8> {
    framed(kind::READ, &[&request.to_le_bytes(), &list.to_le_bytes(), &[0, 1]])
}

pub(crate) fn section(receive: u64, offset: u64, bytes: u64) -> Vec<u8> {
    let (receive, offset) = (receive.to_le_bytes(), offset.to_le_bytes());
    let (channel, chunk) = ([0; 2], super::scene::CHUNK_BYTES.to_le_bytes());
    framed(kind::SECTION, &[&receive, &offset, &bytes.to_le_bytes(), &channel, &chunk])
}

/// The initiator has cancelled a write.
pub(crate) fn stopped(request: u64) -> Vec<u8> {
    framed(kind::STOPPED, &[&[1], &request.to_le_bytes(), &[7], &[0; 4]])
}

pub(crate) fn notify(note: &[u8]) -> Vec<u8> {
    let mut words = framed(kind::NOTIFY, &[&(note.len() as u32).to_le_bytes()]);
    words.extend_from_slice(note);
    words
}
