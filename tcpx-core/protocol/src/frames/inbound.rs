//! Bytes that have arrived and wait to be decoded, and frames out of them. Pure.

use super::link_frame::{FrameError, LinkFrame};
use super::messages::LinkChunk;
use crate::types::MAX_EAGER_BYTES;

/// Bytes read by one system call, where there is nothing to be kept from the one before. The part
/// of a small message never needs more: what was decoded before it is as long, and gives it room,
/// or shorter, and leaves some.
const READ_BYTES: usize = 2 * (MAX_EAGER_BYTES as usize + 4096);
/// The same at first: the cost of an unauthenticated connection, and a peer on whose link little
/// comes.
const FIRST_READ_BYTES: usize = 1024;
/// Bytes read by one call once a long chunk has begun. They hold the next frame. The limit is
/// small so that most of what follows that frame goes to its place, and not through the storage.
const READ_BYTES_AT_CHUNK: usize = 4096;
/// Bytes of a long chunk, at least. Several shorter ones come with one read, and those for memory
/// of a GPU are copied there together.
const LONG_CHUNK_BYTES: u32 = 32 << 10;
/// Factor by which reads grow after a read that had no room for more.
const GROWTH: usize = 4;

/// Storage for a socket to write to, and the bytes in it that have not been decoded.
///
/// The bytes move to the front when the room behind them gets short and as many have been decoded:
/// each byte that is decoded pays for moving one.
#[derive(Debug)]
pub struct Inbound {
    /// Written to its end, so that none of it is ever undefined. The bytes in `taken..filled` have
    /// arrived and wait.
    storage: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Bytes that are read by one call now.
    read_bytes: usize,
    /// The most that it has been so far, for which there is room where nothing is kept.
    most_read_bytes: usize,
    /// Bytes that were moved to the front so far.
    #[cfg(test)]
    moved: u64,
}

impl Default for Inbound {
    fn default() -> Self {
        Self {
            storage: vec![0; FIRST_READ_BYTES],
            taken: 0,
            filled: 0,
            read_bytes: FIRST_READ_BYTES,
            most_read_bytes: FIRST_READ_BYTES,
            #[cfg(test)]
            moved: 0,
        }
    }
}

impl Inbound {
    /// Returns the bytes that wait to be decoded.
    pub fn waiting(&self) -> &[u8] {
        &self.storage[self.taken..self.filled]
    }

    /// Returns the same bytes, to decrypt them where they are.
    pub fn waiting_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.taken..self.filled]
    }

    /// Takes out the first bytes of what waits: they are decoded.
    pub fn take(&mut self, bytes: usize) {
        self.taken = (self.taken + bytes).min(self.filled);
    }

    /// Returns the last bytes of what was taken, until there is [`room`](Self::room) again.
    pub fn just_taken(&self, bytes: usize) -> &[u8] {
        &self.storage[self.taken.saturating_sub(bytes)..self.taken]
    }

    /// Returns the room for the next bytes: some at least. More than one read waits only when
    /// nothing is decoded; the storage grows then.
    pub fn room(&mut self) -> &mut [u8] {
        let most = self.most_read_bytes;
        let waiting = self.filled - self.taken;
        let is_short = self.storage.len() - self.filled < most / 2;
        let is_large = self.storage.len() > most && waiting <= most / 2;
        if waiting <= self.taken && (is_short || is_large || waiting == 0) {
            self.storage.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, waiting);
            #[cfg(test)]
            {
                self.moved += waiting as u64;
            }
        }
        if is_large {
            self.storage.truncate(self.filled.max(most));
            self.storage.shrink_to_fit();
        }
        if self.storage.len() == self.filled {
            self.storage.resize(2 * self.filled, 0);
        }
        if self.storage.len() < most {
            self.storage.resize(most, 0);
        }
        let end = self.room_end();
        &mut self.storage[self.filled..end]
    }

    fn room_end(&self) -> usize {
        self.storage.len().min(self.filled + self.read_bytes)
    }

    /// Notes that this many bytes were written to the room.
    pub fn fill(&mut self, bytes: usize) {
        let end = self.room_end();
        self.filled = (self.filled + bytes).min(end);
        if self.filled == end {
            self.read_bytes = (GROWTH * self.read_bytes).min(READ_BYTES);
            self.most_read_bytes = self.most_read_bytes.max(self.read_bytes);
        }
    }

    /// Notes that a chunk of this many bytes has begun. The rest of a long one goes to its place,
    /// so reads take little until one has no room for more.
    pub fn begin_chunk(&mut self, bytes: u32) {
        if bytes >= LONG_CHUNK_BYTES {
            self.read_bytes = self.read_bytes.min(READ_BYTES_AT_CHUNK);
        }
    }
}

/// Takes the frame at the front of what has arrived, with the bytes of a message that follow it. A
/// chunk comes in as many frames as it takes to arrive: `chunk` is what is left of the one on its
/// way.
#[inline]
pub fn take_frame<F: LinkFrame>(
    arrived: &mut Inbound,
    chunk: &mut Option<LinkChunk>,
) -> Result<Option<F>, FrameError> {
    if chunk.is_some() {
        return Ok(next_of_chunk(arrived, chunk));
    }
    let waiting = arrived.waiting();
    let Some((frame, head)) = F::decode(waiting)? else {
        return Ok(None);
    };
    let taken = head + frame.payload_bytes();
    if taken <= waiting.len() {
        arrived.take(taken);
        return Ok(Some(frame));
    }
    *chunk = frame.as_chunk();
    if chunk.is_some() {
        arrived.take(head);
    }
    Ok(next_of_chunk(arrived, chunk))
}

/// Returns the frame of what has come of the chunk on its way.
fn next_of_chunk<F: LinkFrame>(arrived: &mut Inbound, chunk: &mut Option<LinkChunk>) -> Option<F> {
    let whole = (*chunk)?;
    let came = whole.first(arrived.waiting().len());
    if came.bytes == 0 {
        return None;
    }
    arrived.take(came.bytes as usize);
    *chunk = whole.after(came.bytes as usize);
    F::from_chunk(came)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes as much as there is room for, up to `most`, counting up from `next`.
    fn arrive(inbound: &mut Inbound, most: usize, next: &mut u8) -> Vec<u8> {
        let room = inbound.room();
        let bytes = most.min(room.len());
        let period: [u8; 256] = std::array::from_fn(|at| next.wrapping_add(at as u8));
        for part in room[..bytes].chunks_mut(period.len()) {
            part.copy_from_slice(&period[..part.len()]);
        }
        *next = next.wrapping_add(bytes as u8);
        let written = room[..bytes].to_vec();
        inbound.fill(bytes);
        written
    }

    proptest! {
        /// Against the plainest model there is.
        #[test]
        fn bytes_are_decoded_in_their_order(
            steps in proptest::collection::vec((0usize..100_000, 0usize..150_000), 0..60),
        ) {
            let (mut inbound, mut model) = (Inbound::default(), Vec::new());
            let mut next = 0;
            for (arrived, taken) in steps {
                model.extend(arrive(&mut inbound, arrived, &mut next));
                let taken = taken.min(model.len());
                inbound.take(taken);
                let last = taken.min(16);
                prop_assert!(*inbound.just_taken(last) == model[taken - last..taken]);
                model.drain(..taken);
                prop_assert!(*inbound.waiting() == *model);
                prop_assert!(!inbound.room().is_empty());
            }
        }
    }

    #[test]
    fn decoding_pays_for_what_is_moved() {
        let mut inbound = Inbound::default();
        let (mut next, mut arrived) = (0, 0u64);
        // The part of a long frame stays after every read.
        for _ in 0..10_000 {
            arrived += arrive(&mut inbound, 40_000, &mut next).len() as u64;
            let waiting = inbound.waiting().len();
            inbound.take(waiting - waiting.min(15_000));
        }
        assert!(inbound.moved <= arrived, "{} bytes moved for {arrived}", inbound.moved);
        assert!(inbound.storage.len() <= READ_BYTES);
    }

    /// An unauthenticated connection, and a peer on whose link little comes.
    #[test]
    fn little_that_comes_takes_little_room() {
        let (mut inbound, mut next) = (Inbound::default(), 0);
        for _ in 0..10_000 {
            arrive(&mut inbound, 400, &mut next);
            inbound.take(400);
        }
        assert_eq!(inbound.storage.len(), FIRST_READ_BYTES);
    }

    /// However the longest messages are cut by reads.
    #[test]
    fn messages_of_the_longest_kind_need_no_more_storage() {
        let message = MAX_EAGER_BYTES as usize + 20;
        for read in [1000, 10_000, 65_000, 70_001, usize::MAX] {
            let (mut inbound, mut next) = (Inbound::default(), 0);
            for _ in 0..500 {
                arrive(&mut inbound, read, &mut next);
                inbound.take(inbound.waiting().len() / message * message);
                assert!(inbound.storage.len() <= READ_BYTES, "{read} bytes a read");
            }
        }
    }

    /// A chunk of 100 KiB that is read whole is copied once more.
    #[test]
    fn reads_take_little_once_a_long_chunk_has_begun_and_grow_again() {
        let (mut inbound, mut next) = (Inbound::default(), 0);
        let read_all = |inbound: &mut Inbound, next: &mut u8| {
            let read = arrive(inbound, usize::MAX, next).len();
            inbound.take(read);
            read
        };
        while read_all(&mut inbound, &mut next) < READ_BYTES {}
        inbound.begin_chunk(LONG_CHUNK_BYTES - 1);
        assert_eq!(read_all(&mut inbound, &mut next), READ_BYTES);
        for _ in 0..3 {
            inbound.begin_chunk(LONG_CHUNK_BYTES);
            assert_eq!(read_all(&mut inbound, &mut next), READ_BYTES_AT_CHUNK);
            assert_eq!(read_all(&mut inbound, &mut next), GROWTH * READ_BYTES_AT_CHUNK);
        }
        while read_all(&mut inbound, &mut next) < READ_BYTES {}
        assert_eq!(inbound.storage.len(), READ_BYTES, "the room stays");
        inbound = Inbound::default();
        inbound.begin_chunk(LONG_CHUNK_BYTES);
        assert_eq!(inbound.room().len(), FIRST_READ_BYTES);
    }

    /// A slow frame: its bytes come one by one, and are not moved each time.
    #[test]
    fn bytes_that_come_one_by_one_stay_where_they_are() {
        let mut inbound = Inbound::default();
        let mut next = 0;
        for _ in 0..16_000 {
            arrive(&mut inbound, 1, &mut next);
        }
        assert_eq!((inbound.moved, inbound.waiting().len()), (0, 16_000));
    }

    #[test]
    fn storage_that_grew_is_given_back() {
        let mut inbound = Inbound::default();
        let mut next = 0;
        let mut arrived = 0;
        while arrived < 8 << 20 {
            arrived += arrive(&mut inbound, READ_BYTES, &mut next).len();
        }
        assert!(inbound.storage.len() >= 8 << 20, "nothing was decoded");
        inbound.take(arrived - 100);
        let last = inbound.waiting().to_vec();
        inbound.room();
        assert_eq!((inbound.storage.capacity(), inbound.waiting()), (READ_BYTES, &last[..]));
    }
}
