//! Runs: small messages that were matched one after the other and travel as one chunk, which costs the plugin one
//! request instead of one each. Pure.
//!
//! The sender decides. A run's sends lie one behind the other in one registration, so that the chunk is one range of
//! memory; its receives are unpacked, wherever they belong, or lie one behind the other as well. A run is closed at the
//! latest at the end of the locked call that opened it: no message waits for a next one.

use crate::link::frame::Names;
use crate::matching::Announced;
use crate::memory::MemoryType;
use crate::registration::Span;

/// Most messages of one run: its match must fit a frame.
pub(crate) const MAX_RUN_MESSAGES: usize = 1024;

/// What a receiver says of where a receive's bytes go: enough for the sender to know which of them may share a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// Unpacked from the bounce buffer to any place.
    Unpacked,
    /// Straight into place.
    Direct,
    /// Straight into place, which begins where the receive announced just before this one ends, in one registration.
    DirectBehind,
}

impl Landing {
    pub(crate) fn to_wire(self) -> u8 {
        match self {
            Self::Unpacked => 0,
            Self::Direct => 1,
            Self::DirectBehind => 2,
        }
    }

    pub(crate) fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unpacked,
            1 => Self::Direct,
            2 => Self::DirectBehind,
            _ => return None,
        })
    }
}

/// The end of the message that was announced or matched last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    span: Span,
    bytes: u64,
}

impl Tail {
    pub(crate) fn new(span: Span, bytes: u64) -> Self {
        Self { span, bytes }
    }

    /// Whether `next` begins where this ends, in one registration.
    pub(crate) fn is_followed_by(&self, next: &Span) -> bool {
        self.span.registration == next.registration
            && self.span.address.checked_add(self.bytes) == Some(next.address)
    }

    /// What to announce of a receive into `next` after this one.
    pub(crate) fn landing(before: Option<&Self>, next: &Span) -> Landing {
        match next.memory {
            MemoryType::Device => Landing::Unpacked,
            MemoryType::Host if before.is_some_and(|tail| tail.is_followed_by(next)) => {
                Landing::DirectBehind
            }
            MemoryType::Host => Landing::Direct,
        }
    }
}

/// The receives of one match, as the receiver puts them together. What the peer says is checked here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receives {
    tail: Tail,
    /// Of all of them.
    pub(crate) bytes: u64,
}

impl Receives {
    pub(crate) fn new(span: Span, bytes: u64) -> Self {
        Self { tail: Tail::new(span, bytes), bytes }
    }

    /// Adds a receive to the chunk. False when it cannot share it.
    pub(crate) fn join(&mut self, span: Span, bytes: u64, chunk_bytes: u32) -> bool {
        let together = self.bytes.saturating_add(bytes);
        let is_unpacked = [self.tail.span.memory, span.memory] == [MemoryType::Device; 2];
        let fits = self.bytes > 0 && bytes > 0 && together <= u64::from(chunk_bytes);
        if !fits || !(is_unpacked || self.tail.is_followed_by(&span)) {
            return false;
        }
        *self = Self { tail: Tail::new(span, bytes), bytes: together };
        true
    }
}

/// A send and the receive that it was matched with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<K> {
    pub(crate) send: K,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
    pub(crate) announced: Announced,
}

/// A run that is complete: one deal of `bytes`, beginning with the send `first`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closed<K> {
    pub(crate) first: K,
    pub(crate) bytes: u64,
    /// The receiver's names, in the order of the bytes.
    pub(crate) names: Names,
}

/// The run that the next match may join.
#[derive(Debug)]
pub(crate) struct OpenRun<K> {
    ends: Option<Ends<K>>,
    names: Names,
}

#[derive(Debug)]
struct Ends<K> {
    first: K,
    last: Member<K>,
    bytes: u64,
}

impl<K> Default for OpenRun<K> {
    fn default() -> Self {
        Self { ends: None, names: Names::new() }
    }
}

impl<K: Copy> OpenRun<K> {
    /// Adds `next` if the run and a chunk of `chunk_bytes` have room for it. Returns the send before it.
    pub(crate) fn join(&mut self, next: &Member<K>, chunk_bytes: u32) -> Option<K> {
        let Ends { last, bytes, .. } = self.ends.as_mut()?;
        let together = bytes.checked_add(next.bytes)?;
        let receives_fit = match next.announced.landing {
            Landing::Unpacked => last.announced.landing == Landing::Unpacked,
            Landing::Direct => false,
            Landing::DirectBehind => {
                last.announced.landing != Landing::Unpacked
                    && next.announced.number == last.announced.number + 1
            }
        };
        let fits = next.bytes > 0
            && last.bytes > 0
            && together <= u64::from(chunk_bytes)
            && self.names.len() < MAX_RUN_MESSAGES
            && receives_fit
            && Tail::new(last.span, last.bytes).is_followed_by(&next.span);
        if !fits {
            return None;
        }
        let before = last.send;
        *last = *next;
        *bytes = together;
        self.names.push(next.announced.recv);
        Some(before)
    }

    /// Begins a run. The one before it was closed.
    pub(crate) fn open(&mut self, first: Member<K>) {
        self.names.clear();
        self.names.push(first.announced.recv);
        self.ends = Some(Ends { first: first.send, last: first, bytes: first.bytes });
    }

    /// Ends the run, if one is open.
    pub(crate) fn close(&mut self) -> Option<Closed<K>> {
        let Ends { first, bytes, .. } = self.ends.take()?;
        Some(Closed { first, bytes, names: std::mem::take(&mut self.names) })
    }
}

#[cfg(test)]
mod tests;
