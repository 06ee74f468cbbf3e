//! The bytes of operations with a list, between the two ends.

use super::driver::{Check, End, ensure};
use super::pair::{ENDS, Pair};
use super::payload::{Chunk, Landed};
use super::requests::Request;
use crate::exports::refusal::Refusal;
use crate::peer::action::{Outcome, Withdrawal};
use crate::plans::piece_range::PieceRange;
use crate::plans::pieces::Piece;
use crate::types::TransferKey;
use crate::types::memory::OperationKind;

/// Bytes of a request of one end, and where they lie at both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) initiator: usize,
    pub(super) transfer: TransferKey,
    pub(super) here: u64,
    pub(super) there: u64,
    pub(super) bytes: u64,
}

/// Bytes of a transfer, or of the peer's, that lie somewhere.
type MovedBytes = (TransferKey, u64, u64);

/// Returns the moves of bytes between what two ends put into a chunk and expect in it.
fn moves(
    sender: usize,
    came: &[MovedBytes],
    expected: &[MovedBytes],
) -> Result<Vec<Moved>, String> {
    let total = |places: &[MovedBytes]| places.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
    ensure!(total(came) == total(expected), "{came:?} came for {expected:?}");
    let mut moved = Vec::new();
    let (mut came, mut expected) = (came.iter().copied(), expected.iter().copied());
    let (mut from, mut to) = (came.next(), expected.next());
    while let (Some((of, source, left)), Some((into, target, room))) = (from, to) {
        let bytes = left.min(room);
        let is_write = into == TransferKey::default();
        ensure!(is_write != (of == TransferKey::default()), "both ends, or none, have asked");
        let (initiator, transfer, here, there) = match is_write {
            true => (sender, of, source, target),
            false => (1 - sender, into, target, source),
        };
        moved.push(Moved { initiator, transfer, here, there, bytes });
        from = if left == bytes { came.next() } else { Some((of, source + bytes, left - bytes)) };
        to = if room == bytes {
            expected.next()
        } else {
            Some((into, target + bytes, room - bytes))
        };
    }
    Ok(moved)
}

fn places(chunk: &Chunk) -> Vec<MovedBytes> {
    chunk.iter().map(|piece| (piece.of, piece.address, piece.bytes)).collect()
}

impl Pair {
    /// Returns the bytes of requests that a chunk moves.
    pub(super) fn moves_of_chunk(
        sender: usize,
        came: &Chunk,
        expected: &Chunk,
    ) -> Result<Vec<Moved>, String> {
        moves(sender, &places(came), &places(expected))
    }

    /// Places what came behind a frame.
    pub(super) fn place_landed(&mut self, sender: usize, landed: &Landed) -> Check {
        let places = |(transfer, bytes): &(TransferKey, PieceRange)| {
            let place = |piece: Piece| (*transfer, piece.address, piece.bytes);
            bytes.iter().map(place).collect::<Vec<MovedBytes>>()
        };
        let moved = moves(sender, &places(&landed.from), &places(&landed.to))?;
        self.place(&moved)
    }

    /// Places bytes where they belong.
    pub(super) fn place(&mut self, moved: &[Moved]) -> Check {
        for Moved { initiator, transfer, here, there, bytes } in moved.iter().copied() {
            let Some(request) = self.ends[initiator].requests.all.get_mut(&transfer) else {
                return Err(format!("{transfer:?} was not posted"));
            };
            request.place(here, there, bytes)?;
        }
        Ok(())
    }

    /// Looks at the notes that have come and the requests that have ended.
    pub(super) fn check_requests(&mut self) -> Check {
        for end in ENDS {
            for (note, is_alone) in std::mem::take(&mut self.ends[end].notes.published) {
                let sender = &mut self.ends[1 - end];
                if is_alone {
                    let oldest = sender.notes.sent.pop_front();
                    let is_next =
                        oldest.is_some_and(|oldest| std::sync::Arc::ptr_eq(&oldest, &note));
                    ensure!(is_next, "another note was to come first");
                    continue;
                }
                let is_its = |post: &super::requests::PostedRequest| {
                    post.note.as_ref().is_some_and(|its| std::sync::Arc::ptr_eq(its, &note))
                };
                let mut posts = (sender.requests.all.values_mut())
                    .filter_map(|it| it.post.as_mut().map(|post| (it.list.pieces.bytes, post)));
                let Some((bytes, post)) = posts.find(|(_, post)| is_its(post)) else {
                    return Err("a note comes of no write that is under way".into());
                };
                ensure!(!post.is_note_there, "a note comes twice");
                // What was given up and has ended is not looked at any more.
                let is_whole = || post.in_place.values().sum::<u64>() == bytes;
                ensure!(post.end.is_some() || is_whole(), "a note comes before its bytes");
                post.is_note_there = true;
            }
            for transfer in std::mem::take(&mut self.ends[end].requests.ended) {
                self.check_ended(end, transfer)?;
            }
        }
        Ok(())
    }

    /// Checks that a request has ended for a reason that there is, and after what that means.
    fn check_ended(&self, end: usize, transfer: TransferKey) -> Check {
        let request = &self.ends[end].requests.all[&transfer];
        let Some(post) = &request.post else { return Err(format!("{request:?}")) };
        let target = &self.ends[1 - end];
        let is_write = request.list.kind == OperationKind::Write;
        let moved: u64 = post.in_place.values().sum();
        match post.end {
            Some(End::Completed(Outcome::Done)) => {
                ensure!(moved == request.list.pieces.bytes, "done too early: {request:?}");
                ensure!(request.fault.is_none(), "done in spite of its fault: {request:?}");
                let is_note_there = post.note.is_none() || post.is_note_there;
                ensure!(!is_write || is_note_there, "done before its note: {request:?}");
            }
            Some(End::Completed(Outcome::Refused { why, range })) => {
                ensure!(
                    self.may_refuse(end, request, why, range),
                    "refused for {why:?}, range {range}: {request:?}"
                );
                ensure!(why == Refusal::Revoked || moved == 0, "refused and moved: {request:?}");
                ensure!(!post.is_note_there, "refused with its note: {request:?}");
            }
            Some(End::Completed(Outcome::Withdrawn(why))) => {
                let is_told_rightly = match why {
                    Withdrawal::Cancelled => post.was_cancelled,
                    Withdrawal::Left => self.ends[end].is_leaving,
                    Withdrawal::PeerLeft => target.is_leaving,
                };
                ensure!(is_told_rightly, "that is not why it ended: {request:?}");
                ensure!(why == Withdrawal::Cancelled || moved == 0, "{request:?}");
            }
            Some(End::WithThePeer) => {}
            other => return Err(format!("a request ends so: {other:?}")),
        }
        Ok(())
    }

    fn may_refuse(&self, end: usize, request: &Request, why: Refusal, range: u32) -> bool {
        let target = &self.ends[1 - end];
        if let Some(fault) = request.fault
            && fault == (why, range)
        {
            return true;
        }
        match why {
            Refusal::Revoked => {
                request.areas.iter().any(|area| target.exporting.areas[*area].is_revoked)
            }
            Refusal::Leaves => target.is_leaving || self.ends[end].is_leaving,
            Refusal::ReceiveIntoHostMemory => !target.setting.one_sided.receives_host,
            _ => false,
        }
    }

    /// Checks that nothing is under way: both ends count the same, and nothing that was exported is
    /// in use.
    pub(super) fn check_at_rest(&self) -> Check {
        for end in ENDS {
            let (here, there) = (&self.ends[end], &self.ends[1 - end]);
            let (Some(ours), Some(theirs)) = (here.protocol(), there.protocol()) else {
                return Ok(());
            };
            let active: Vec<_> =
                here.requests.all.values().filter(|request| request.is_active()).collect();
            let steps: Vec<_> = ours.cx.operations.values().collect();
            ensure!(active.is_empty(), "end {end}: {steps:?} never end");
            let (ours, theirs) = (ours.one_sided.counts(), theirs.one_sided.counts());
            ensure!(ours.requests == [0; 6] && ours.on_link == [0; 3], "{ours:?} at rest");
            ensure!(ours.lists_told == theirs.lists_known, "{ours:?} here, {theirs:?} there");
            let idle = here.exporting.areas.iter().all(|area| here.exporting.is_idle(area));
            ensure!(idle, "what is exported is in use: {:?}", here.exporting);
            ensure!(here.notes.sent.is_empty(), "notes wait with room for them");
            ensure!(here.notes.kept.is_empty(), "notes are kept of no write");
        }
        Ok(())
    }
}
