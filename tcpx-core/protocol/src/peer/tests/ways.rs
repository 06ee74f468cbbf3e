//! The ways that bytes of a read or write may take, and operations that take each. End 0 asks, end
//! 1 exports two areas, of one registration.

use std::sync::Arc;

use super::driver::CHUNK_BYTES;
use super::link_chunks::slowly;
use super::one_sided_crossings::{LITTLE, SETTING, eager, settle};
use super::pair::{ENDS, Pair};
use super::requests::{Note, Ranges, Request};
use super::setting::Setting;
use crate::exports::capability::ListedRange;
use crate::frames::frame::Frame;
use crate::frames::messages::{Offer, WriteWay};
use crate::peer::one_sided::local_lists::PreparedList;
use crate::peer::schedule::tuning::{Copier, Tuning};
use crate::plans::pieces::{Piece, Pieces};
use crate::types::memory::{OperationKind, RemoteAccess};
use crate::types::{MemoryType, RegistrationKey, TransferKey};

/// Channels of the settings that have several.
const CHANNELS: u16 = 3;
/// Bytes of each area.
const AREA_BYTES: u64 = 6000;
/// Address of the first memory of requests, and distance from the memory of one request to that of
/// the next.
const FIRST: u64 = 1 << 50;
const APART: u64 = 1 << 16;
/// From one piece of a list to the next, at either end.
const PIECES_APART: u64 = 100;

/// Way on which bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With the request or its answer.
    Inline,
    /// On the link, in chunks. The kernel takes one at a time.
    LinkChunks,
    /// In chunks that are sent from where they lie.
    InPlace,
    /// In chunks that are gathered.
    Gathered,
}

impl Way {
    pub(super) const ALL: [Self; 4] =
        [Self::Inline, Self::LinkChunks, Self::InPlace, Self::Gathered];

    pub(super) fn setting(self) -> Setting {
        match self {
            Self::Inline => on_all_channels(eager()),
            Self::LinkChunks => on_all_channels(slowly()),
            Self::InPlace => on_all_channels(SETTING),
            Self::Gathered => Setting { copier: Some(Copier::Cpu), ..on_all_channels(SETTING) },
        }
    }

    /// Returns the lengths of the pieces of an operation.
    pub(super) fn lengths(self) -> Vec<u64> {
        match self {
            Self::Inline => vec![LITTLE - 3, 3],
            Self::LinkChunks => vec![120, 87],
            // Each has several sections.
            Self::InPlace => vec![5 * u64::from(CHUNK_BYTES) + 5, 3 * u64::from(CHUNK_BYTES)],
            Self::Gathered => vec![20; 24],
        }
    }
}

/// Returns the same with several channels, and sections that have a chunk for each.
fn on_all_channels(setting: Setting) -> Setting {
    let section_bytes = u64::from(CHUNK_BYTES) * (1 + u64::from(CHANNELS));
    let tuning = Tuning { section_bytes, ahead_bytes: section_bytes, ..setting.tuning };
    Setting { channels: CHANNELS, tuning, ..setting }
}

/// Makes two ends that are up, and the areas.
pub(super) fn up(setting: Setting) -> Pair {
    let mut pair = Pair::up([setting; 2]);
    (0..2).for_each(|_| export(&mut pair, 1));
    pair
}

/// Exports one more area at an end.
pub(super) fn export(pair: &mut Pair, end: usize) {
    pair.ends[end].exporting.export(AREA_BYTES, MemoryType::Device, RemoteAccess::ReadWrite);
}

/// Prepares an operation of end 0 with pieces of these lengths: the first half in the one area, and
/// the rest in the other one.
pub(super) fn prepare(
    pair: &mut Pair,
    kind: OperationKind,
    lengths: &[u64],
    areas: [usize; 2],
) -> TransferKey {
    prepare_at(pair, 0, kind, lengths, areas)
}

/// Does the same at any end.
pub(super) fn prepare_at(
    pair: &mut Pair,
    end: usize,
    kind: OperationKind,
    lengths: &[u64],
    areas: [usize; 2],
) -> TransferKey {
    let known = areas.map(|number| pair.ends[1 - end].exporting.areas[number].clone());
    let requests = &mut pair.ends[end].requests;
    let base = FIRST + APART * requests.all.len() as u64;
    let (mut at, mut pieces, mut ranges, mut pairs) = (0, Vec::new(), Vec::new(), Vec::new());
    for (index, bytes) in lengths.iter().copied().enumerate() {
        let key = usize::from(index >= lengths.len() / 2);
        let (here, there) = (base + at, known[key].address + at);
        pieces.push(Piece { owner: 0, address: here, bytes });
        ranges.push(ListedRange { key: key as u32, offset: at, bytes });
        pairs.push(Ranges { here, there, bytes });
        at += bytes + PIECES_APART;
    }
    let owners = vec![RegistrationKey::default()];
    let pieces = Pieces::new(MemoryType::Device, owners, pieces).expect("they have bytes");
    let list = Arc::new(PreparedList {
        key: requests.next_key(),
        kind,
        pieces: Arc::new(pieces),
        keys: known.map(|area| area.listed).into(),
        key_bytes: [AREA_BYTES; 2].into(),
        ranges: ranges.into(),
        remote_memory: MemoryType::Device,
    });
    let transfer = requests.next_transfer();
    let (fault, is_dropped, post) = (None, false, None);
    let areas = areas.to_vec();
    requests.all.insert(transfer, Request { list, ranges: pairs, areas, fault, is_dropped, post });
    transfer
}

/// Does what happens next, one frame or one step of one chunk. Returns whether anything did.
pub(super) fn step(pair: &mut Pair) -> bool {
    step_but(pair, None)
}

/// Lane that may be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Frames to this end.
    Link(usize),
    /// Chunks of this channel, both ways.
    Channel(usize),
    /// Copies out of the bounce buffer, of this channel.
    Unpack(usize),
}

impl Lane {
    pub(super) fn all() -> Vec<Self> {
        let channels = 0..usize::from(CHANNELS);
        let of_channel = |channel| [Self::Channel(channel), Self::Unpack(channel)];
        ENDS.map(Self::Link).into_iter().chain(channels.flat_map(of_channel)).collect()
    }
}

/// Does the same, while nothing moves on one lane.
pub(super) fn step_but(pair: &mut Pair, late: Option<Lane>) -> bool {
    let is_late = |lane| late == Some(lane);
    for end in ENDS {
        for channel in 0..pair.ends[end].sent.len() {
            let unpacks = !is_late(Lane::Unpack(channel));
            let arrives = !is_late(Lane::Channel(channel));
            let moved = unpacks && pair.consume_chunk(end, channel).unwrap()
                || arrives && pair.receive_chunk(end, channel).unwrap();
            if moved {
                return true;
            }
        }
        if !is_late(Lane::Link(end)) && pair.deliver(end).unwrap() {
            return true;
        }
    }
    // What is sent last is scheduled no sooner than need be.
    for end in ENDS {
        for channel in 0..pair.ends[end].sent.len() {
            if pair.send_chunk(end, channel).unwrap() {
                return true;
            }
        }
    }
    let under_way = |pair: &Pair| ENDS.map(|end| pair.ends[end].outbox.len());
    let before = under_way(pair);
    for end in ENDS {
        pair.ends[end].round().unwrap();
    }
    pair.check_requests().unwrap();
    under_way(pair) != before
}

/// Ways that bytes are seen to take.
#[derive(Debug, Default)]
pub(super) struct Seen {
    inline: bool,
    chunks: bool,
    in_place: bool,
    gathered: bool,
}

impl Seen {
    /// Looks at what is under way.
    pub(super) fn look(&mut self, pair: &Pair) {
        for end in ENDS {
            for frame in &pair.ends[end].outbox {
                self.inline |=
                    matches!(frame, Frame::Offer(Offer::Write { way: WriteWay::Inline(_), .. }));
                // A short read is answered with the one chunk that it has.
                self.inline |=
                    matches!(frame, Frame::LinkChunk(chunk) if u64::from(chunk.bytes) == LITTLE);
                self.chunks |=
                    matches!(frame, Frame::LinkChunk(chunk) if u64::from(chunk.bytes) > LITTLE);
            }
            for chunk in pair.ends[end].sent.iter().flatten() {
                self.in_place |= chunk.len() == 1;
                self.gathered |= chunk.len() > 1;
            }
        }
    }

    pub(super) fn is(&self, way: Way) -> bool {
        match way {
            Way::Inline => self.inline && !self.chunks && !self.in_place && !self.gathered,
            Way::LinkChunks => self.chunks && !self.in_place && !self.gathered,
            Way::InPlace => self.in_place && !self.gathered && !self.chunks,
            Way::Gathered => self.gathered && !self.chunks,
        }
    }
}

#[test]
fn each_way_is_taken() {
    for way in Way::ALL {
        for kind in [OperationKind::Read, OperationKind::Write] {
            let mut pair = up(way.setting());
            let transfer = prepare(&mut pair, kind, &way.lengths(), [0, 1]);
            let note: Note = vec![1; 2].into();
            assert!(pair.ends[0].post_request(transfer, Some(note)).unwrap());
            let mut seen = Seen::default();
            seen.look(&pair);
            while step(&mut pair) {
                seen.look(&pair);
            }
            assert!(seen.is(way), "{kind} {way:?}: {seen:?}");
            settle(&mut pair);
        }
    }
}
