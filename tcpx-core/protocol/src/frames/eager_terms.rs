//! Terms of small messages that travel on the control link with their header, and of what an end
//! makes the other one keep. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::fields::Delivery;
use crate::types::{MAX_EAGER_BYTES, MemoryType};

/// Length of a message on the link, to or from memory that the CPU reaches: any.
pub const ANY_LENGTH: u64 = u64::MAX;
/// Cost of keeping a message that went ahead, beside its bytes, in its receiver's buffer. It bounds
/// the number of messages of no bytes.
const COST: u64 = 160;
/// Offer of an end for small messages, as its hello says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EagerOffer {
    /// Longest message on the link; 0: none at all.
    pub bytes: u32,
    /// Room for unexpected messages, and most that this end sends ahead itself; 0: none go ahead.
    pub buffer_bytes: u32,
    /// Longest message, read or write on the link whose bytes are in what this end calls device
    /// memory, and most bytes of reads and writes at a time; 0: none at all. [`ANY_LENGTH`]: the
    /// CPU reaches such memory. Elsewhere something copies the bytes, and nothing goes ahead to
    /// this end: it might find its receive in such memory.
    pub device_bytes: u64,
    /// Longest read or write of a peer's memory on the link, where messages travel there.
    pub access_bytes: u64,
}

/// Agreement of both ends, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerTerms {
    /// Longest message on the link; 0: none at all.
    bytes: u64,
    /// Most that the peer may have in this end's buffer.
    pub buffer: u64,
    /// Most that this end may have in the peer's.
    pub peer_buffer: u64,
    /// Longest message on the link in device memory of this end, and of the peer.
    device_bytes: u64,
    peer_device_bytes: u64,
    /// Longest read or write on the link, and most bytes of several.
    access_bytes: u64,
}

impl EagerTerms {
    /// No message travels on the link.
    pub const OFF: Self = Self {
        bytes: 0,
        buffer: 0,
        peer_buffer: 0,
        device_bytes: 0,
        peer_device_bytes: 0,
        access_bytes: 0,
    };

    /// Returns the terms that `ours` and `theirs` come to, with chunks of this size. No message on
    /// the link is longer than a chunk.
    pub fn agree(ours: EagerOffer, theirs: EagerOffer, chunk_bytes: u32) -> Self {
        let bytes = ours.bytes.min(theirs.bytes).min(chunk_bytes).min(MAX_EAGER_BYTES);
        if bytes == 0 {
            return Self::OFF;
        }
        let smaller = ours.buffer_bytes.min(theirs.buffer_bytes);
        let room =
            |of: EagerOffer| u64::from(if of.device_bytes == ANY_LENGTH { smaller } else { 0 });
        Self {
            bytes: bytes.into(),
            buffer: room(ours),
            peer_buffer: room(theirs),
            device_bytes: ours.device_bytes,
            peer_device_bytes: theirs.device_bytes,
            access_bytes: ours.access_bytes.min(theirs.access_bytes).max(bytes.into()),
        }
    }

    /// Returns the number of bytes of the longest message on the link; 0: there is none.
    pub fn longest(&self) -> u64 {
        self.bytes
    }

    /// Returns whether a message of this many bytes may travel on the link.
    pub fn allows(&self, bytes: u64) -> bool {
        self.bytes > 0 && bytes <= self.bytes
    }

    /// Returns whether a read or write of this many bytes may travel on the link. It may be longer
    /// than a message: its place at the peer is known, and saving the wait for the peer's word
    /// counts for more.
    pub fn allows_access(&self, bytes: u64) -> bool {
        bytes <= self.access_bytes
    }

    /// Returns whether one may that this end receives into memory of this kind.
    pub fn takes_access(&self, bytes: u64, memory: MemoryType) -> bool {
        self.allows_access(bytes) && bytes <= self.longest_in(memory)
    }

    /// Returns the most bytes of reads and writes at a time on the link, between memory of this
    /// kind at both ends. 0: none travels there.
    pub fn access_limit(&self, memory: MemoryType) -> u64 {
        self.access_bytes.min(self.longest_in(memory)).min(self.longest_at_peer(memory))
    }

    /// Returns the most bytes that a message on the link has in memory of this kind here.
    pub fn longest_in(&self, memory: MemoryType) -> u64 {
        if memory == MemoryType::Host { ANY_LENGTH } else { self.device_bytes }
    }

    /// Returns the most bytes that a message on the link has in memory of this kind at the peer.
    pub fn longest_at_peer(&self, memory: MemoryType) -> u64 {
        if memory == MemoryType::Host { ANY_LENGTH } else { self.peer_device_bytes }
    }

    /// Returns the most bytes that a message on the link has in the place of a receive of the peer.
    pub fn longest_of(&self, delivery: Delivery) -> u64 {
        if delivery == Delivery::Unpacked { self.peer_device_bytes } else { ANY_LENGTH }
    }

    /// Returns the bytes that a message takes of the buffer of its receiver.
    pub fn cost(bytes: u64) -> u64 {
        COST.saturating_add(bytes)
    }
}

/// Kind of what is kept until its counterpart comes, it is unpacked, or a program takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditKind {
    /// Chunks in bounce buffers, counted one by one on each channel.
    Chunks,
    /// Receives that were announced, counted one by one.
    Receives,
    /// Unexpected messages, in bytes, with [what each costs](super::eager_terms::EagerTerms).
    Unexpected,
    /// Notifications likewise.
    Notes,
}

impl CreditKind {
    const ALL: [Self; 4] = [Self::Chunks, Self::Receives, Self::Unexpected, Self::Notes];

    /// Returns it as it travels.
    pub fn to_wire(self) -> u8 {
        self as u8
    }

    /// Reads what travels.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for CreditKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chunks => "chunks",
            Self::Receives => "announced receives",
            Self::Unexpected => "bytes ahead of receives",
            Self::Notes => "bytes of notifications",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: EagerOffer = EagerOffer {
        bytes: 8192,
        buffer_bytes: 1 << 20,
        device_bytes: ANY_LENGTH,
        access_bytes: 100_000,
    };

    #[test]
    fn the_smaller_numbers_count() {
        let theirs = EagerOffer { bytes: 4096, buffer_bytes: 5, ..OFFER };
        for terms in
            [EagerTerms::agree(OFFER, theirs, 1 << 19), EagerTerms::agree(theirs, OFFER, 1 << 19)]
        {
            assert_eq!([4096, 4097].map(|bytes| terms.allows(bytes)), [true, false]);
            assert_eq!(terms.buffer, 5);
        }
    }

    #[test]
    fn reads_and_writes_may_be_longer_than_messages_where_there_are_messages() {
        for (ours, theirs, longest) in
            [(50_000, 100_000, 50_000), (u64::MAX, 9000, 9000), (0, 1, 8192)]
        {
            let offer = |access_bytes| EagerOffer { access_bytes, ..OFFER };
            let terms = EagerTerms::agree(offer(ours), offer(theirs), 1 << 19);
            let allowed = [longest, longest + 1].map(|bytes| terms.allows_access(bytes));
            assert_eq!(allowed, [true, false], "{ours} and {theirs}");
        }
        let none = EagerOffer { bytes: 0, ..OFFER };
        assert!(!EagerTerms::agree(OFFER, none, 1 << 19).allows_access(1));
    }

    #[test]
    fn nothing_goes_ahead_to_memory_that_the_cpu_does_not_reach() {
        let (host, device) = (MemoryType::Host, MemoryType::Device);
        for device_bytes in [0, 5000] {
            let gpu = EagerOffer { device_bytes, ..OFFER };
            let here = EagerTerms::agree(OFFER, gpu, 1 << 19);
            assert_eq!((here.buffer, here.peer_buffer), (1 << 20, 0));
            assert_eq!([host, device].map(|it| here.longest_in(it)), [ANY_LENGTH; 2]);
            let there = [ANY_LENGTH, device_bytes];
            assert_eq!([host, device].map(|it| here.longest_at_peer(it)), there);
            assert_eq!(
                [Delivery::InPlace, Delivery::Unpacked].map(|it| here.longest_of(it)),
                there
            );
            let at_gpu = EagerTerms::agree(gpu, OFFER, 1 << 19);
            assert_eq!((at_gpu.buffer, at_gpu.peer_buffer), (0, 1 << 20));
            assert_eq!([host, device].map(|it| at_gpu.longest_in(it)), there);
            assert_eq!([host, device].map(|it| at_gpu.access_limit(it)), [100_000, device_bytes]);
            let taken = |bytes| at_gpu.takes_access(bytes, device);
            assert_eq!([device_bytes, device_bytes + 1].map(taken), [true, false]);
            assert!(at_gpu.takes_access(100_000, host) && !at_gpu.takes_access(100_001, host));
        }
    }

    #[test]
    fn an_end_that_takes_none_is_sent_none() {
        let none = EagerOffer { bytes: 0, ..OFFER };
        for terms in
            [EagerTerms::agree(OFFER, none, 1 << 19), EagerTerms::agree(none, OFFER, 1 << 19)]
        {
            assert!(!terms.allows(0));
            assert_eq!((terms.longest(), terms.buffer), (0, 0));
        }
    }

    #[test]
    fn a_message_is_no_longer_than_a_chunk_or_a_frame() {
        let greedy = EagerOffer { bytes: u32::MAX, ..OFFER };
        let longest = |chunk_bytes| EagerTerms::agree(greedy, greedy, chunk_bytes).longest();
        assert_eq!([longest(4096), longest(1 << 22)], [4096, u64::from(MAX_EAGER_BYTES)]);
    }
}
