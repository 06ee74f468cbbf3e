//! What the peer says, as bytes choose it.

use super::memory::Memory;
use tcpx_protocol::exports::capability::ListedRange;
use tcpx_protocol::exports::refusal::Refusal;
use tcpx_protocol::frames::fields::LinkPart;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::frames::frame::one_sided::OneSidedFrame as F;
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_protocol::types::memory::OperationKind;

pub(super) const CHANNELS: u16 = 2;
pub(super) const CHUNK_BYTES: u32 = 64;

/// What a fuzzer gives, from the front. When it is used up, 0 comes.
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

    fn bool(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Few numbers, so that what belongs together is found; and those where sums end.
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

    /// A name that the end has told, or one that it has not.
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

    /// A list that is told well, whatever its keys and ranges are.
    fn whole_list(&mut self, memory: &Memory) -> Vec<F> {
        let (list, kind) = (self.list(), self.kind());
        let keys: Vec<_> = (0..1 + self.next() % 3).map(|_| memory.key(self.next())).collect();
        let count = keys.len() as u8 + self.next() % 20;
        let mut ranges = self.ranges(count);
        for range in &mut ranges {
            range.key %= keys.len() as u32;
            range.bytes = range.bytes.max(1);
        }
        let bytes = ranges.iter().fold(0u64, |sum, range| sum.wrapping_add(range.bytes));
        vec![
            F::List { list, kind, keys: keys.len() as u32, ranges: count.into(), bytes },
            F::ListKeys { list, keys: keys.into() },
            F::ListRanges { list, ranges: ranges.into() },
        ]
    }

    /// What the peer says next. It is only what can be on the wire.
    pub(super) fn frames(&mut self, memory: &Memory, names: &[u64]) -> Vec<Frame> {
        let said = match self.next() % 20 {
            0..=2 => self.whole_list(memory).into_iter().map(Frame::OneSided).collect(),
            3 => vec![self.any_frame()],
            4..=6 => vec![self.section(names)],
            7 => {
                let (recv, bytes) = (self.name(names), self.next().into());
                vec![Frame::Deliver { recv, bytes }]
            }
            8 => vec![match self.next() % 4 {
                0 => Frame::Goodbye,
                1 => Frame::Closed,
                2 => Frame::AskSent,
                _ => Frame::Ping,
            }],
            _ => vec![Frame::OneSided(self.one_sided(memory, names))],
        };
        let can_be = |frame: &Frame| {
            let mut wire = Vec::new();
            frame.encode(&mut wire);
            Frame::decode(&wire).is_ok_and(|read| read.is_some())
        };
        said.into_iter().take_while(can_be).collect()
    }

    /// A frame as bytes have it, if they have one.
    fn any_frame(&mut self) -> Frame {
        match Frame::decode(self.0) {
            Ok(Some((frame, taken))) => {
                self.0 = &self.0[taken..];
                frame
            }
            _ => Frame::Pong,
        }
    }

    fn section(&mut self, names: &[u64]) -> Frame {
        let recv = self.name(names);
        let first_channel = u16::from(self.next()) % (CHANNELS + 1);
        let chunk_bytes = if self.bool() { CHUNK_BYTES } else { self.next().into() };
        let (offset, bytes) = (self.number(), self.number());
        Frame::Section { recv, first_channel, offset, bytes, chunk_bytes }
    }

    fn one_sided(&mut self, memory: &Memory, names: &[u64]) -> F {
        match self.next() % 14 {
            0 => F::List {
                list: self.list(),
                kind: self.kind(),
                keys: self.number() as u32,
                ranges: self.number() as u32,
                bytes: self.number(),
            },
            1 => {
                let list = self.list();
                let keys = (0..=self.next() % 3).map(|_| memory.key(self.next())).collect();
                F::ListKeys { list, keys }
            }
            2 => {
                let (list, count) = (self.list(), 1 + self.next() % 8);
                F::ListRanges { list, ranges: self.ranges(count).into() }
            }
            3 => F::Forget { list: self.list() },
            4 => F::Write {
                op: self.next().into(),
                list: self.list(),
                note: self.note(),
                on_link: self.bool(),
            },
            5 => F::WriteNow {
                op: self.next().into(),
                list: self.list(),
                bytes: self.next().into(),
                note: self.note(),
            },
            6 => F::Read {
                op: self.next().into(),
                list: self.list(),
                cut: self.bool(),
                on_link: self.bool(),
            },
            7 => F::Grant { op: self.name(names), recv: self.number(), cut: self.bool() },
            8 => {
                let op = if self.bool() { self.name(names) } else { self.next().into() };
                F::Halt { kind: self.kind(), op, why: self.why() }
            }
            9 => {
                let kind = self.kind();
                let op = if self.bool() { self.name(names) } else { self.next().into() };
                F::Stopped { kind, op, why: self.why(), range: self.number() as u32 }
            }
            10 => {
                let why = Some(self.why()).filter(|why| *why != Refusal::NoMemory);
                F::Answer { op: self.name(names), why, range: self.number() as u32 }
            }
            12 => {
                let op = if self.bool() { self.name(names) } else { self.next().into() };
                F::Part(LinkPart { kind: self.kind(), op, bytes: self.next().into() })
            }
            _ => F::Notify { bytes: self.next().into() },
        }
    }
}

/// The name by which a frame lets the peer speak of something.
pub(super) fn name_in(frame: &Frame) -> Option<u64> {
    match frame {
        Frame::OneSided(F::Grant { recv, .. }) => Some(*recv),
        Frame::Announce { recv, .. } => Some(*recv),
        _ => None,
    }
}
