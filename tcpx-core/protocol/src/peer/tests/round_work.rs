//! Work in a round for a peer whose requests are a few bytes each.

use std::collections::HashMap;

use super::exporting::Exporting;
use super::one_sided_crossings::SETTING;
use super::pair::Pair;
use super::said::{list, more_of, read};
use super::setting::{AMPLE, DEAL_AT_ONCE, Setting};
use crate::exports::capability::ListedRange;
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::frames::list_part::{KEY_BYTES, LIST_BYTES, ListHead, RANGE_BYTES};
use crate::frames::messages::MessageId;
use crate::peer::PeerProtocol;
use crate::peer::action::Action;
use crate::peer::one_sided::link_chunks::PIECES_PER_LINK_CHUNK;
use crate::peer::round_work::{FRAME_WORK, ROUND_WORK};
use crate::plans::piece_cursor::MAX_SECTION_PAIRS;
use crate::plans::plan::{Member, Members};
use crate::plans::stripe_queue::Finished;
use crate::types::MemoryType;
use crate::types::memory::{OperationKind, RemoteAccess};

/// The most that is done after a round is spent: what the last frame or chunk asks for.
const LAST: u64 = if PIECES_PER_LINK_CHUNK > MAX_SECTION_PAIRS {
    PIECES_PER_LINK_CHUNK
} else {
    MAX_SECTION_PAIRS
} as u64
    + FRAME_WORK;

/// A target, and a peer that knows a list of many exports, one byte of each.
struct Target {
    protocol: PeerProtocol,
    exporting: Exporting,
    bytes: u64,
    reads: u64,
    /// Bytes that are to come of each read.
    left: HashMap<u64, u64>,
    /// Pieces that were moved in this round.
    pieces: u64,
}

impl Target {
    fn new(keys: usize) -> Self {
        let offer = EagerOffer {
            bytes: 8192,
            buffer_bytes: 0,
            device_bytes: u64::MAX,
            access_bytes: u64::MAX,
        };
        let eager = EagerTerms::agree(offer, offer, 1 << 19);
        let mut pair =
            Pair::up([Setting { eager, one_sided: AMPLE, tuning: DEAL_AT_ONCE, ..SETTING }; 2]);
        let protocol = pair.ends[0].take_protocol().expect("it is up");
        let bytes = keys as u64;
        let (exporting, left) = (Exporting::new(), HashMap::new());
        let mut target = Self { protocol, exporting, bytes, reads: 0, left, pieces: 0 };
        let exporting = &mut target.exporting;
        (0..keys).for_each(|_| {
            exporting.export(10, MemoryType::Host, RemoteAccess::ReadWrite);
        });
        target.tell();
        while target.protocol.is_round_spent() {
            target.protocol.handle_round();
        }
        target
    }

    fn hear(&mut self, frame: Frame) {
        self.protocol.handle_frame(frame, &mut self.exporting.exports);
    }

    fn tell(&mut self) {
        let (kind, count, bytes) = (OperationKind::Read, self.bytes as u32, self.bytes);
        let head = ListHead { kind, keys: count, ranges: count, bytes };
        self.hear(list(7, head, &[], &[]));
        let keys: Vec<_> = self.exporting.areas.iter().map(|area| area.listed.clone()).collect();
        for keys in keys.chunks(LIST_BYTES / KEY_BYTES) {
            self.hear(more_of(7, keys, &[]));
        }
        let ranges: Vec<_> =
            (0..count).map(|key| ListedRange { key, offset: 0, bytes: 1 }).collect();
        for ranges in ranges.chunks(LIST_BYTES / RANGE_BYTES) {
            self.hear(more_of(7, &[], ranges));
        }
    }

    /// Asks for all of the list.
    fn read(&mut self, on_link: bool) {
        self.reads += 1;
        let op = 1 << 32 | self.reads;
        self.left.insert(op, self.bytes);
        self.hear(read(op, 7, on_link));
    }

    fn act(&mut self) {
        self.protocol.handle_unsent(0);
        self.protocol.handle_chunk_room(1 << 20);
        while let Some(action) = self.protocol.poll_action() {
            match action {
                Action::SendWithPayload { frame, bytes: Some((_, range)), .. } => {
                    self.pieces += range.iter().count() as u64;
                    let Frame::LinkChunk(chunk) = frame else { continue };
                    let MessageId::Read(op) = chunk.of else { panic!("a chunk of {}", chunk.of) };
                    self.came(op, chunk.bytes.into());
                    self.protocol.handle_chunk_room(1 << 20);
                }
                Action::Send(Frame::Chunks(chunks)) => self.came(chunks.recvs[0], chunks.bytes),
                Action::SendChunks(plan) => {
                    self.pieces += plan.members.as_slice().len() as u64;
                    self.protocol.handle_finished(match plan.members {
                        Members::One(Member { op, transfer, .. }) => Finished::Parts {
                            sent_on: Some(0),
                            op,
                            transfer,
                            chunks: 1,
                            bytes: plan.bytes,
                        },
                        Members::Many(members) => Finished::Together { sent_on: Some(0), members },
                    });
                }
                Action::Served(uses) => self.exporting.exports.end_all(&uses),
                Action::PrepareStaging { channel, memory } => {
                    self.protocol.handle_staging(channel, memory, true);
                }
                Action::End { ending, .. } => panic!("{ending:?}"),
                _ => {}
            }
        }
    }

    fn came(&mut self, op: u64, bytes: u64) {
        let left = self.left.get_mut(&op).expect("it was asked for");
        *left -= bytes;
        if *left == 0 {
            self.left.remove(&op);
        }
    }

    /// Makes a turn of the peer, which asks for as much as it may, up to `most` reads. Returns the
    /// work that was done for it.
    fn turn(&mut self, most: u64, on_link: bool) -> u64 {
        self.protocol.handle_round();
        let before = self.protocol.cx.work.spent;
        self.pieces = 0;
        while !self.protocol.is_round_spent() && self.left.len() < 900 && self.reads < most {
            self.read(on_link);
        }
        self.act();
        let spent = self.protocol.cx.work.spent - before;
        assert!(self.pieces <= spent, "{} pieces count {spent}", self.pieces);
        spent
    }
}

/// Another peer has its turn after a bounded amount of work, however long the lists are that the
/// reads of this one name in a few bytes; and each read comes to its end.
#[test]
fn a_turn_of_a_peer_that_asks_for_long_lists_is_bounded() {
    for (keys, reads) in [(1, 10_000), (1000, 300), (2000, 100), (30_000, 20)] {
        for on_link in [true, false] {
            let mut target = Target::new(keys);
            // The first request of a list looks at its exports, which the peer has told by name.
            assert!(target.turn(1, on_link) <= ROUND_WORK + LAST + 2 * keys as u64);
            let (mut turns, mut all) = (0, 0);
            while target.reads < reads || !target.left.is_empty() {
                let spent = target.turn(reads, on_link);
                assert!(spent <= ROUND_WORK + LAST, "{keys} keys, {on_link}: {spent}");
                turns += 1;
                all += spent;
                assert!(turns < 10_000, "{keys} keys, {on_link}: {} reads left", target.left.len());
            }
            assert!(all >= (reads - 2) * keys as u64, "{keys} keys, {on_link}: {all}");
        }
    }
}
