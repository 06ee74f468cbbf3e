//! Cursor with which a list of pieces is scheduled. The sender cuts a *section* off the front and
//! tells the receiver its length. Each end makes plans of the section, of its own pieces, so that
//! the same bytes travel in the same chunks on the same channels. Pure.
//!
//! ```text
//! list      | pair 0 | pair 1        | pair 2 | 3 |       pair 4       | ...
//! sections  |            first             |         second            | ...
//! chunks    |       |       |       |      |       |       |       |   | ...
//! ```
//!
//! A chunk that lies in one segment at this end is sent from there, or received there. One that
//! does not is gathered to be sent, and unpacked to where its pieces lie when it is received.
//! Everything goes forwards: nothing is searched for.
//!
//! The module also decides which segments are worth copying together. Pure.

use super::channel_set::ChannelSet;
use super::pieces::{Piece, Pieces};
use super::plan::{ChunkPlan, Member, Members, chunk_count};
use crate::types::{Direction, MemoryType, OpKey, Span, TransferKey};

/// Most pairs that a section is of, in part or whole: it bounds the plans that one frame makes.
pub const MAX_SECTION_PAIRS: usize = 4096;

/// Rules by which a sender may cut.
#[derive(Clone, Copy, Debug)]
pub struct CutRules {
    /// Most bytes of a section.
    pub section_bytes: u64,
    /// Gathering of the memory that the pieces are in; `None`: nothing can be gathered.
    pub gathering: Option<Gathering>,
    /// Whether the receiver takes no section that is of several pairs.
    pub cut_pairs: bool,
}

/// Section that a sender cuts off the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutSection {
    /// Bytes of the section.
    pub bytes: u64,
    /// Whether it is of several segments, which are copied together.
    pub is_gathered: bool,
}

/// A section as it is scheduled: whose it is at this end, and what both ends know of it.
#[derive(Clone, Copy, Debug)]
pub struct ListedSection {
    /// Number of the operation, given by the end that posted it.
    pub op: OpKey,
    /// The transfer that it is of.
    pub transfer: TransferKey,
    /// Direction in which it moves bytes.
    pub direction: Direction,
    /// Bytes of the section.
    pub bytes: u64,
    /// Bytes of each chunk, but for the last; at least 1.
    pub chunk_bytes: u32,
    /// Channel of the first chunk; the others go round robin from there.
    pub first_channel: u16,
    /// Channels that they go to, at least 1.
    pub channels: ChannelSet,
}

/// Position up to which a list is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceCursor {
    piece: usize,
    /// Bytes of that piece that are scheduled; it has more.
    within: u64,
    /// Bytes of the list that are scheduled.
    pub scheduled: u64,
}

/// Bytes that lie one behind the other, of one piece or of several.
#[derive(Clone, Copy, Debug)]
struct Segment {
    span: Span,
    bytes: u64,
    pairs: usize,
}

impl PieceCursor {
    /// Steps over the segment under the cursor, or the part of it that has no more bytes than these
    /// and is of no more pairs. `None`: everything is scheduled.
    fn take(&mut self, pieces: &Pieces, most_bytes: u64, most_pairs: usize) -> Option<Segment> {
        let first = pieces.get(self.piece)?;
        let span = pieces.span(first, self.within);
        let mut segment = Segment { span, bytes: 0, pairs: 0 };
        while segment.bytes < most_bytes
            && segment.pairs < most_pairs
            && let Some(piece) = pieces.get(self.piece)
            && piece.owner == first.owner
            && piece.address + self.within == span.address + segment.bytes
        {
            let bytes = (piece.bytes - self.within).min(most_bytes - segment.bytes);
            segment.bytes += bytes;
            segment.pairs += 1;
            self.scheduled += bytes;
            self.within += bytes;
            if self.within == piece.bytes {
                self.piece += 1;
                self.within = 0;
            }
        }
        (segment.bytes > 0).then_some(segment)
    }

    /// Returns the next section that the sender schedules. `None`: everything is scheduled.
    pub fn next_section(mut self, pieces: &Pieces, rules: &CutRules) -> Option<CutSection> {
        let most_pairs = if rules.cut_pairs { 1 } else { MAX_SECTION_PAIRS };
        let first = self.take(pieces, rules.section_bytes, most_pairs)?;
        let together = rules.gathering.and_then(|gathering| {
            // One byte more shows that a segment is too long.
            let most_bytes = gathering.segment_bytes.saturating_add(1);
            gathering.together((first.bytes, first.pairs), rules.section_bytes, |(_, pairs)| {
                let next = self.take(pieces, most_bytes, most_pairs - pairs)?;
                Some((next.bytes, next.pairs))
            })
        });
        Some(match together {
            Some((bytes, _)) => CutSection { bytes, is_gathered: true },
            None => CutSection { bytes: first.bytes, is_gathered: false },
        })
    }

    /// Returns whether a peer may schedule a section of `bytes` bytes next.
    pub fn allows(&self, pieces: &Pieces, bytes: u64, cut_pairs: bool) -> bool {
        if bytes == 0 || bytes > pieces.bytes - self.scheduled {
            return false;
        }
        let most_pairs = if cut_pairs { 1 } else { MAX_SECTION_PAIRS };
        let ahead = (self.piece..).map_while(|index| pieces.get(index)).take(most_pairs);
        // The pieces together have no more bytes than a number can hold.
        self.within + bytes <= ahead.map(|piece| piece.bytes).sum()
    }

    /// Returns whether `bytes` more bytes, which the cursor allows, end where a piece ends.
    pub fn ends_a_piece(&self, pieces: &Pieces, bytes: u64) -> bool {
        let mut left = self.within + bytes;
        let ahead = (self.piece..).map_while(|index| pieces.get(index));
        let last = ahead.map(|piece| piece.bytes).find(|piece| match left.checked_sub(*piece) {
            Some(rest) if rest > 0 => {
                left = rest;
                false
            }
            _ => true,
        });
        last == Some(left)
    }

    /// Returns the pieces ahead of it, the rest of the piece that it is in first.
    pub fn ahead(self, pieces: &Pieces) -> impl Iterator<Item = Piece> {
        let mut within = self.within;
        (self.piece..).map_while(move |index| pieces.get(index)).map(move |piece| {
            let from = std::mem::take(&mut within);
            Piece { address: piece.address + from, bytes: piece.bytes - from, ..*piece }
        })
    }

    /// Returns how many pieces it has reached since it was at this place.
    pub fn pieces_since(&self, before: &Self) -> usize {
        self.piece - before.piece + usize::from(self.within > 0)
    }

    /// Steps over `bytes` bytes, or the first of them that are of `most_pairs` pieces. Returns the
    /// number of their pieces.
    pub fn skip(&mut self, pieces: &Pieces, bytes: u64, most_pieces: usize) -> usize {
        let (end, mut left) = (self.scheduled + bytes, most_pieces);
        while let Some(segment) = self.take(pieces, end - self.scheduled, left) {
            left -= segment.pairs;
        }
        most_pieces - left
    }

    /// Deals a section that the sender has cut, or that the receiver allows: the cursor steps over
    /// it with the plans.
    pub fn schedule<'a>(
        &'a mut self,
        pieces: &'a Pieces,
        section: ListedSection,
    ) -> SectionPlans<'a> {
        SectionPlans { cursor: self, pieces, section }
    }
}

/// The plans of a section, in the order of its bytes.
#[derive(Debug)]
pub struct SectionPlans<'a> {
    cursor: &'a mut PieceCursor,
    pieces: &'a Pieces,
    /// Rest of the section.
    section: ListedSection,
}

impl SectionPlans<'_> {
    /// Returns the next plan: chunks of one segment, or a chunk of several, which go into `spare`,
    /// an empty list.
    pub fn next_plan(&mut self, spare: impl FnOnce() -> Vec<Member>) -> Option<ChunkPlan> {
        let ListedSection { bytes: left, chunk_bytes, first_channel, channels, .. } = self.section;
        let segment = PieceCursor::take(&mut { *self.cursor }, self.pieces, left, usize::MAX)?;
        let whole_chunks = segment.bytes / u64::from(chunk_bytes) * u64::from(chunk_bytes);
        let (members, bytes, gathered) = match whole_chunks {
            _ if segment.bytes == left => (Members::One(self.member(left)?), left, None),
            0 => self.share_chunk(spare()),
            _ => (Members::One(self.member(whole_chunks)?), whole_chunks, None),
        };
        self.section.bytes -= bytes;
        let chunks = chunk_count(bytes, chunk_bytes);
        self.section.first_channel = channels.behind(first_channel, chunks);
        let offset = 0;
        Some(ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, channels, gathered })
    }

    /// Returns the segments of the next chunk, their bytes, and the memory that they are gathered
    /// in.
    fn share_chunk(&mut self, mut members: Vec<Member>) -> (Members, u64, Option<MemoryType>) {
        let most = self.section.bytes.min(u64::from(self.section.chunk_bytes));
        let mut bytes = 0;
        while let Some(member) = self.member(most - bytes) {
            bytes += member.bytes;
            members.push(member);
        }
        let is_sent = self.section.direction == Direction::Send;
        (Members::Many(members), bytes, is_sent.then_some(self.pieces.memory))
    }

    /// Steps over the segment under the cursor, or the part of it that has no more bytes than
    /// these.
    fn member(&mut self, most_bytes: u64) -> Option<Member> {
        let Segment { span, bytes, .. } = self.cursor.take(self.pieces, most_bytes, usize::MAX)?;
        let ListedSection { op, transfer, .. } = self.section;
        Some(Member { op, transfer, span, bytes, tag: 0 })
    }
}

/// Limits on gathering from one kind of memory. A *segment* is bytes that lie one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Longest segment that is copied; a longer one is sent from where it lies.
    pub segment_bytes: u64,
    /// Fewest segments that are worth it.
    pub segments: usize,
}

impl Gathering {
    /// Returns the bytes of the segments that are copied together, and the number of their messages
    /// or pieces. The segments are those from the first one on, as long as each is short and all of
    /// them fit into `room` bytes. `next` receives their sum so far, and returns the same numbers
    /// for the segment behind them. `None`: copying together is not worth it.
    #[inline]
    pub(crate) fn together(
        &self,
        first: (u64, usize),
        room: u64,
        mut next: impl FnMut((u64, usize)) -> Option<(u64, usize)>,
    ) -> Option<(u64, usize)> {
        let (mut bytes, mut of, mut segments) = (first.0, first.1, 1);
        if bytes > self.segment_bytes {
            return None;
        }
        while let Some((more, of_more)) = next((bytes, of))
            && more <= self.segment_bytes.min(room - bytes)
        {
            (bytes, of, segments) = (bytes + more, of + of_more, segments + 1);
        }
        (segments > 1 && segments >= self.segments).then_some((bytes, of))
    }
}

#[cfg(test)]
mod tests;
