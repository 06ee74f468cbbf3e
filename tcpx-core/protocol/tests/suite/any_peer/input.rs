//! Statements of the peer, as bytes choose them.

use super::memory::Memory;
use tcpx_protocol::exports::capability::ListedRange;
use tcpx_protocol::exports::refusal::{Refusal, Refused};
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_protocol::frames::list_part::{ListHead, ListPart};
use tcpx_protocol::frames::messages::{
    Chunks, Ended, LinkChunk, MessageId, Names, Offer, Ready, WriteWay,
};
use tcpx_protocol::types::memory::OperationKind;

pub(super) const CHANNELS: u16 = 2;
pub(super) const CHUNK_BYTES: u32 = 64;

/// Bytes that a fuzzer gives, from the front. When they are used up, 0 comes.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn next(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    /// Returns a channel, or one more than there are.
    pub(super) fn channel(&mut self) -> u16 {
        u16::from(self.next()) % (CHANNELS + 1)
    }

    fn bool(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Returns one of few numbers, so that what belongs together is found; and those where sums
    /// end.
    fn number(&mut self) -> u64 {
        match self.next() {
            255 => u64::MAX - u64::from(self.next()),
            254 => u64::from(self.next()) << 8 | u64::from(self.next()),
            253 => 1 << (self.next() % 64),
            number => number.into(),
        }
    }

    fn list(&mut self) -> u32 {
        u32::from(self.next() % 6)
    }

    fn kind(&mut self) -> OperationKind {
        if self.bool() { OperationKind::Write } else { OperationKind::Read }
    }

    fn why(&mut self) -> Refusal {
        Refusal::from_wire(1 + self.next() % 9).expect("it is one")
    }

    fn note(&mut self) -> Option<u32> {
        Some(self.next().into()).filter(|note| note % 4 == 0)
    }

    /// Returns a name that the end has told, or one that it has not.
    fn name(&mut self, names: &[u64]) -> u64 {
        match (self.next(), names.len()) {
            (number, 0) => number.into(),
            (number, count) if number < 250 => {
                names[count - 1 - usize::from(number) % count.min(8)]
            }
            _ => self.number(),
        }
    }

    fn ranges(&mut self, count: u8) -> Vec<ListedRange> {
        let range = |bytes: &mut Self| ListedRange {
            key: u32::from(bytes.next() % 4),
            offset: bytes.number(),
            bytes: bytes.number(),
        };
        (0..count).map(|_| range(self)).collect()
    }

    /// Returns a well-told list, whatever its keys and ranges are.
    fn whole_list(&mut self, memory: &Memory) -> Vec<Frame> {
        let (list, kind) = (self.list(), self.kind());
        let keys: Vec<_> = (0..1 + self.next() % 3).map(|_| memory.key(self.next())).collect();
        let count = keys.len() as u8 + self.next() % 20;
        let mut ranges = self.ranges(count);
        for range in &mut ranges {
            range.key %= keys.len() as u32;
            range.bytes = range.bytes.max(1);
        }
        let bytes = ranges.iter().fold(0u64, |sum, range| sum.wrapping_add(range.bytes));
        let head = ListHead { kind, keys: keys.len() as u32, ranges: count.into(), bytes };
        let part = |head, keys: &[_], ranges: &[_]| {
            Frame::List(Box::new(ListPart { list, head, keys: keys.into(), ranges: ranges.into() }))
        };
        // In one frame, or in several.
        match self.bool() {
            true => vec![part(Some(head), &keys, &ranges)],
            false => {
                let (first, rest) = ranges.split_at(ranges.len() / 2);
                vec![part(Some(head), &[], &[]), part(None, &keys, first), part(None, &[], rest)]
            }
        }
    }

    /// Returns the next frames of the peer. They are only what can be on the wire.
    pub(super) fn frames(&mut self, memory: &Memory, names: &[u64]) -> Vec<Frame> {
        let said = match self.next() % 20 {
            0..=2 => self.whole_list(memory),
            3 => vec![self.any_frame()],
            4..=6 => vec![self.section(names)],
            7 => {
                let (of, bytes) = (MessageId::Receive(self.name(names)), self.next().into());
                vec![Frame::LinkChunk(LinkChunk { of, bytes })]
            }
            8 => vec![match self.next() % 3 {
                0 => Frame::Goodbye,
                1 => Frame::Closed,
                _ => Frame::Ping,
            }],
            _ => vec![self.one_sided(memory, names)],
        };
        let can_be = |frame: &Frame| {
            let mut wire = Vec::new();
            frame.encode(&mut wire);
            Frame::decode(&wire).is_ok_and(|read| read.is_some())
        };
        said.into_iter().take_while(can_be).collect()
    }

    /// Returns a frame as bytes have it, if they have one.
    fn any_frame(&mut self) -> Frame {
        match Frame::decode(self.0) {
            Ok(Some((frame, taken))) => {
                self.0 = &self.0[taken..];
                frame
            }
            _ => Frame::Ping,
        }
    }

    fn section(&mut self, names: &[u64]) -> Frame {
        let recv = self.name(names);
        let first_channel = self.channel();
        let chunk_bytes = if self.bool() { CHUNK_BYTES } else { self.next().into() };
        let (offset, bytes) = (self.number(), self.number());
        let recvs = Names::from_slice(&[recv]);
        Frame::Chunks(Chunks { recvs, first_channel, chunk_bytes, offset, bytes })
    }

    fn refused(&mut self) -> Refused {
        Refused { why: self.why(), range: self.number() as u32 }
    }

    /// Returns a read or a write: one that the end has told of, or one of the peer's.
    fn access(&mut self, names: &[u64]) -> MessageId {
        let op = if self.bool() { self.name(names) } else { self.next().into() };
        MessageId::of(self.kind(), op)
    }

    fn list_part(&mut self, memory: &Memory) -> Frame {
        let list = self.list();
        let mut part =
            ListPart { list, head: None, keys: Default::default(), ranges: Default::default() };
        match self.next() % 3 {
            0 => {
                let (kind, bytes) = (self.kind(), self.number());
                let (keys, ranges) = (self.number() as u32, self.number() as u32);
                part.head = Some(ListHead { kind, keys, ranges, bytes });
            }
            1 => part.keys = (0..=self.next() % 3).map(|_| memory.key(self.next())).collect(),
            _ => {
                let count = 1 + self.next() % 8;
                part.ranges = self.ranges(count).into();
            }
        }
        Frame::List(Box::new(part))
    }

    fn one_sided(&mut self, memory: &Memory, names: &[u64]) -> Frame {
        match self.next() % 12 {
            0..=2 => self.list_part(memory),
            3 => Frame::Forget { list: self.list() },
            4 => Frame::Offer(Offer::Write {
                op: self.next().into(),
                list: self.list(),
                note: self.note(),
                way: if self.bool() { WriteWay::Link } else { WriteWay::Channels },
            }),
            5 => Frame::Offer(Offer::Write {
                op: self.next().into(),
                list: self.list(),
                way: WriteWay::Inline(self.next().into()),
                note: self.note(),
            }),
            6 => Frame::Ready(Ready::Read {
                op: self.next().into(),
                list: self.list(),
                cut: self.bool(),
                on_link: self.bool(),
            }),
            7 => Frame::Ready(Ready::Write {
                op: self.name(names),
                recv: self.number(),
                cut: self.bool(),
            }),
            8 => Frame::Cancel { message: self.access(names), why: self.why() },
            9 => {
                let message = self.access(names);
                let how = match self.next() % 4 {
                    0 => Ended::Done,
                    1 => Ended::Refused(self.refused()),
                    _ => Ended::Stopped(self.refused()),
                };
                Frame::End { message, how }
            }
            10 => Frame::LinkChunk(LinkChunk { of: self.access(names), bytes: self.next().into() }),
            _ => Frame::Offer(Offer::Note { bytes: self.next().into() }),
        }
    }
}

/// Returns the name by which a frame lets the peer speak of something.
pub(super) fn name_in(frame: &Frame) -> Option<u64> {
    match frame {
        Frame::Ready(Ready::Write { recv, .. } | Ready::Receive { recv, .. }) => Some(*recv),
        _ => None,
    }
}
