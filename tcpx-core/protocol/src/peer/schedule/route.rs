//! Route of a message: the path of its bytes. Pure.
//!
//! ```text
//! Inline     behind the frame that offers the message, or that answers a request for it
//! Link       on the control link, chunk by chunk, as the kernel takes them
//! Channels   through the plugin: each chunk in place, or gathered where short pieces lie ahead
//!            (plans::piece_cursor and coalescer cut, by the limits of Tuning)
//! ```
//!
//! The CPU moves what travels on the link, and has to reach the memory at both ends. Only what is
//! short, or of few pieces, is copied for it: a list of many is faster over channels, where it is
//! gathered. What is longer than a few pages saves the wait for a grant there, and
//! takes the room of others: so both ends [agree](EagerTerms) on how much may be there at once.
//! Ends that have channels of hardware agree on little.

use super::tuning::Tuning;
use crate::frames::eager_terms::{ANY_LENGTH, EagerTerms};
use crate::types::MAX_EAGER_BYTES;

/// Most messages of a batch that travel inline. More of them share chunks, which costs less for
/// each.
pub(in super::super) const FEW: usize = 8;
/// Most pieces that are moved inline: a request for them is a few bytes.
const INLINE_PIECES: usize = 1024;
/// Most bytes in memory of a GPU that travel on the link in pieces of any length.
const COPIED_BYTES: u64 = 64 << 10;
/// Least bytes of a piece, on average, where there are more.
const COPIED_PIECE_BYTES: u64 = 16 << 10;

/// Properties of a message that its route depends on.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Message {
    /// A tagged one, and how many were posted or matched together with it.
    Tagged { bytes: u64, together: usize },
    /// A read or write, whose place at the peer is known: pieces at this end, and bytes of the
    /// notification behind it.
    Access { bytes: u64, pieces: usize, note_bytes: u32 },
}

/// Load of the link.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Load {
    /// Bytes that it may take now.
    pub(in super::super) link_room: usize,
    /// Bytes of reads, or of writes, that travel there already.
    pub(in super::super) on_link: u64,
}

/// Path on which the bytes of a message travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Route {
    /// Behind its frame.
    Inline,
    /// On the link.
    Link,
    /// On the channels.
    Channels,
}

/// Chooses the route of a message. `longest`: the most bytes on the link that its memory at this
/// end allows, and its memory at the peer.
#[inline]
pub(in super::super) fn route(
    (tuning, terms): (&Tuning, &EagerTerms),
    load: Load,
    message: Message,
    longest: [u64; 2],
) -> Route {
    let longest = longest[0].min(longest[1]);
    let link_room = load.link_room as u64;
    match message {
        Message::Tagged { bytes, together } => {
            let is_fit = bytes <= longest.min(link_room) && terms.allows(bytes);
            if is_fit && together <= FEW { Route::Inline } else { Route::Channels }
        }
        // A notification alone waits for no grant.
        Message::Access { bytes: 0, .. } => Route::Inline,
        Message::Access { bytes, pieces, note_bytes } => {
            let together = load.on_link.saturating_add(bytes);
            let is_fit = longest == ANY_LENGTH
                || bytes <= COPIED_BYTES
                || bytes / COPIED_PIECE_BYTES >= pieces as u64;
            let is_allowed = terms.allows(bytes) || terms.allows_access(together);
            if !is_fit || together > longest || !is_allowed {
                return Route::Channels;
            }
            let most = link_room.min(MAX_EAGER_BYTES.into());
            let is_short = bytes <= tuning.link_chunk_bytes
                && bytes + u64::from(note_bytes) <= most
                && pieces <= INLINE_PIECES;
            if is_short { Route::Inline } else { Route::Link }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::eager_terms::EagerOffer;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const CHUNK: u32 = 512 << 10;
    const IDLE: Load = Load { link_room: 256 << 10, on_link: 0 };

    /// Ends that take messages of 16 KiB inline, and accesses of this many bytes on the link.
    fn terms(access_bytes: u64) -> EagerTerms {
        let (bytes, buffer_bytes, device_bytes) = (16 << 10, 1 << 20, ANY_LENGTH);
        let offer = EagerOffer { bytes, buffer_bytes, device_bytes, access_bytes };
        EagerTerms::agree(offer, offer, CHUNK)
    }

    fn tagged(bytes: u64) -> Message {
        Message::Tagged { bytes, together: 1 }
    }

    fn access(bytes: u64) -> Message {
        Message::Access { bytes, pieces: 1, note_bytes: 0 }
    }

    /// Every rule, a row each: terms, load, message, the most bytes that the memory here and at the
    /// peer allows, and the route over a plugin whose bytes processors move.
    #[test]
    fn a_message_travels_as_the_table_says() {
        let (any, few, off) = (terms(u64::MAX), terms(64 * KIB), EagerTerms::OFF);
        let many = Message::Tagged { bytes: 64, together: FEW + 1 };
        let noted = Message::Access { bytes: 40 * KIB, pieces: 1, note_bytes: 32 << 10 };
        let scattered = |pieces| Message::Access { bytes: 4096, pieces, note_bytes: 0 };
        let list = |bytes, pieces| Message::Access { bytes, pieces, note_bytes: 0 };
        let room = |link_room| Load { link_room, ..IDLE };
        let beside = |on_link| Load { on_link, ..IDLE };
        let max = ANY_LENGTH;
        for (row, (terms, load, message, here, there, expected)) in [
            (any, IDLE, tagged(0), max, max, Route::Inline),
            (any, IDLE, tagged(16 * KIB), max, max, Route::Inline),
            (any, IDLE, tagged(16 * KIB + 1), max, max, Route::Channels),
            (any, room(63), tagged(64), max, max, Route::Channels),
            (any, IDLE, many, max, max, Route::Channels),
            (any, IDLE, tagged(64), max, max, Route::Inline),
            (any, IDLE, tagged(64), max, 0, Route::Channels),
            (any, IDLE, tagged(64), 63, max, Route::Channels),
            (off, IDLE, tagged(0), max, max, Route::Channels),
            (off, IDLE, tagged(MIB), max, max, Route::Channels),
            (off, IDLE, access(0), 0, 0, Route::Inline),
            (off, IDLE, access(1), max, max, Route::Channels),
            (any, IDLE, access(60 * KIB), max, max, Route::Inline),
            (any, IDLE, access(60 * KIB + 1), max, max, Route::Link),
            (any, room(63), access(64), max, max, Route::Link),
            (any, IDLE, noted, max, max, Route::Link),
            (any, IDLE, scattered(INLINE_PIECES), max, max, Route::Inline),
            (any, IDLE, scattered(INLINE_PIECES + 1), max, max, Route::Link),
            (any, beside(1 << 40), access(1 << 40), max, max, Route::Link),
            (any, IDLE, access(64), max, 0, Route::Channels),
            (any, IDLE, access(64), 63, max, Route::Channels),
            (any, IDLE, access(64), max, 64, Route::Inline),
            (any, beside(1), access(64), 64, max, Route::Channels),
            (any, IDLE, list(64 * KIB, 5000), 256 * KIB, max, Route::Link),
            (any, IDLE, list(96 * KIB, 6), 256 * KIB, max, Route::Link),
            (any, IDLE, list(96 * KIB, 7), 256 * KIB, max, Route::Channels),
            (any, IDLE, list(96 * KIB, 7), max, 256 * KIB, Route::Channels),
            (any, IDLE, list(96 * KIB, 7), max, max, Route::Link),
            (few, IDLE, access(64 * KIB), max, max, Route::Link),
            (few, IDLE, access(65 * KIB), max, max, Route::Channels),
            (few, beside(5 * KIB), access(60 * KIB), max, max, Route::Channels),
            (few, beside(64 * KIB), access(16 * KIB), max, max, Route::Inline),
        ]
        .into_iter()
        .enumerate()
        {
            let tuning = Tuning::new(CHUNK, 16).pipelined();
            let chosen = route((&tuning, &terms), load, message, [here, there]);
            assert_eq!(chosen, expected, "row {row}: {message:?}");
        }
    }
}
