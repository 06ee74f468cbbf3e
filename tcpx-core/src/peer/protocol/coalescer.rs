//! Runs: small messages that were matched one after the other and travel as one chunk, which costs the plugin one
//! request instead of one each. Pure.
//!
//! The sender decides. A run's receives are unpacked, wherever they belong, or lie one behind the other. Its sends lie one
//! behind the other in one registration, so that the chunk is one range of memory, or are *gathered*: copied to a staging
//! buffer, from which the chunk is sent. Sends that lie one behind the other are a *stretch*; a run of a single one is never
//! copied. Whether the stretches of a run are worth a copy is known when it is closed; if they are not, each is a chunk of its
//! own, as if the others were not there. A run is closed at the latest at the end of the locked call that opened it: no
//! message waits for a next one.

use std::collections::VecDeque;

use crate::control::frame::Names;
use crate::peer::protocol::coalescing_limits::RunLimits;
use crate::peer::protocol::matcher::Announced;
use crate::types::{MemoryType, Span};

/// Most messages of one run: its match must fit a frame.
pub(crate) const MAX_RUN_MESSAGES: usize = 1024;

/// What a receiver says of where a receive's bytes go: enough for the sender to know which of them may share a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Unpacked from the bounce buffer to any place.
    Unpacked,
    /// Straight into place.
    Direct,
    /// Straight into place, which begins where the receive announced just before this one ends, in one registration.
    DirectBehind,
}

impl Delivery {
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
pub(crate) struct MessageEnd {
    span: Span,
    bytes: u64,
}

impl MessageEnd {
    pub(crate) fn new(span: Span, bytes: u64) -> Self {
        Self { span, bytes }
    }

    /// Whether `next` begins where this ends, in one registration.
    pub(crate) fn is_followed_by(&self, next: &Span) -> bool {
        self.span.registration == next.registration
            && self.span.address.checked_add(self.bytes) == Some(next.address)
    }

    /// What to announce of a receive into `next` after this one.
    pub(crate) fn landing(before: Option<&Self>, next: &Span) -> Delivery {
        match next.memory {
            MemoryType::Device => Delivery::Unpacked,
            MemoryType::Host if before.is_some_and(|tail| tail.is_followed_by(next)) => {
                Delivery::DirectBehind
            }
            MemoryType::Host => Delivery::Direct,
        }
    }
}

/// The receives of one match, as the receiver puts them together. What the peer says is checked here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receives {
    tail: MessageEnd,
    /// Of all of them.
    pub(crate) bytes: u64,
}

impl Receives {
    pub(crate) fn new(span: Span, bytes: u64) -> Self {
        Self { tail: MessageEnd::new(span, bytes), bytes }
    }

    /// Adds a receive to the chunk. False when it cannot share it.
    pub(crate) fn join(&mut self, span: Span, bytes: u64, chunk_bytes: u32) -> bool {
        let together = self.bytes.saturating_add(bytes);
        let is_unpacked = [self.tail.span.memory, span.memory] == [MemoryType::Device; 2];
        let fits = self.bytes > 0 && bytes > 0 && together <= u64::from(chunk_bytes);
        if !fits || !(is_unpacked || self.tail.is_followed_by(&span)) {
            return false;
        }
        *self = Self { tail: MessageEnd::new(span, bytes), bytes: together };
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

/// Messages that are dealt together: one chunk, or a single message of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part<K> {
    pub(crate) first: K,
    pub(crate) last: K,
    pub(crate) bytes: u64,
    /// The receiver's names, in the order of the bytes.
    pub(crate) names: Names,
    /// The kind of memory that it is gathered from; `None`: it lies in one piece, and is sent from there.
    pub(crate) gathered: Option<MemoryType>,
}

/// How a match fits the open run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It may join.
    Joins,
    /// It may join the last stretch, which is then too long to be copied: the stretches before it are closed first.
    JoinsLast,
    /// It begins a run of its own.
    Apart,
}

/// Sends of the run that lie one behind the other.
#[derive(Debug)]
struct Segment<K> {
    first: K,
    last: K,
    bytes: u64,
    messages: usize,
}

/// The run that the next match may join.
#[derive(Debug)]
pub(crate) struct OpenRun<K> {
    /// Of several, each is short enough to be copied, and all are in one kind of memory.
    stretches: VecDeque<Segment<K>>,
    last: Option<Member<K>>,
    bytes: u64,
    names: Vec<u64>,
}

impl<K> Default for OpenRun<K> {
    fn default() -> Self {
        Self { stretches: VecDeque::new(), last: None, bytes: 0, names: Vec::new() }
    }
}

impl<K: Copy> OpenRun<K> {
    /// How `next` fits behind what was matched before.
    pub(crate) fn fit(&self, next: &Member<K>, limits: &RunLimits) -> Fit {
        let (Some(last), Some(stretch)) = (&self.last, self.stretches.back()) else {
            return Fit::Apart;
        };
        let receives_fit = match next.announced.landing {
            Delivery::Unpacked => last.announced.landing == Delivery::Unpacked,
            Delivery::Direct => false,
            Delivery::DirectBehind => {
                last.announced.landing != Delivery::Unpacked
                    && next.announced.number == last.announced.number + 1
            }
        };
        let is_full = self.names.len() >= MAX_RUN_MESSAGES;
        if !receives_fit || is_full || next.bytes == 0 || last.bytes == 0 {
            return Fit::Apart;
        }
        let chunk_bytes = u64::from(limits.chunk_bytes);
        let has_room = self.bytes.saturating_add(next.bytes) <= chunk_bytes;
        let is_short = |bytes: u64| {
            limits.of(next.span.memory).is_some_and(|limit| bytes <= limit.stretch_bytes)
        };
        if !MessageEnd::new(last.span, last.bytes).is_followed_by(&next.span) {
            let is_alike = last.span.memory == next.span.memory;
            let are_short = is_short(stretch.bytes) && is_short(next.bytes);
            return if has_room && is_alike && are_short { Fit::Joins } else { Fit::Apart };
        }
        let together = stretch.bytes.saturating_add(next.bytes);
        match self.stretches.len() == 1 || is_short(together) {
            true if has_room => Fit::Joins,
            false if together <= chunk_bytes => Fit::JoinsLast,
            _ => Fit::Apart,
        }
    }

    /// Puts `next`, which fits, behind what is there, or begins a run. Returns the send before it.
    pub(crate) fn join(&mut self, next: Member<K>) -> Option<K> {
        let is_neighbour =
            |last: &Member<K>| MessageEnd::new(last.span, last.bytes).is_followed_by(&next.span);
        match self.stretches.back_mut().filter(|_| self.last.as_ref().is_some_and(is_neighbour)) {
            Some(stretch) => {
                stretch.last = next.send;
                stretch.bytes += next.bytes;
                stretch.messages += 1;
            }
            None => {
                let (first, bytes) = (next.send, next.bytes);
                self.stretches.push_back(Segment { first, last: first, bytes, messages: 1 });
            }
        }
        self.bytes += next.bytes;
        self.names.push(next.announced.recv);
        self.last.replace(next).map(|before| before.send)
    }

    /// Takes out what is dealt next of a run that ends, but for its last stretch if it `keeps_last`. The stretches are
    /// gathered if that is worth it and there `is_staging` for their kind of memory; else each goes by itself.
    pub(crate) fn take(
        &mut self,
        keeps_last: bool,
        limits: &RunLimits,
        is_staging: impl FnOnce(MemoryType) -> bool,
    ) -> Option<Part<K>> {
        let memory = self.last.as_ref()?.span.memory;
        let ending = self.stretches.len() - usize::from(keeps_last);
        let is_worth = ending > 1 && limits.of(memory).is_some_and(|it| ending >= it.stretches);
        let is_gathered = is_worth && is_staging(memory);
        let mut stretches =
            self.stretches.drain(..if is_gathered { ending } else { ending.min(1) });
        let mut whole = stretches.next()?;
        for stretch in stretches {
            whole.last = stretch.last;
            whole.bytes += stretch.bytes;
            whole.messages += stretch.messages;
        }
        let Segment { first, last, bytes, messages } = whole;
        self.bytes -= bytes;
        if self.stretches.is_empty() {
            self.last = None;
        }
        let names = Names::from_slice(&self.names[..messages]);
        self.names.drain(..messages);
        Some(Part { first, last, bytes, names, gathered: is_gathered.then_some(memory) })
    }
}

#[cfg(test)]
mod tests;
