//! Inputs of the program: what it posts, lends and takes back. Pure.

use std::collections::TryReserveError;
use std::sync::Arc;

use super::PeerProtocol;
use super::message::NewOperation;
use super::one_sided::NewRequest;
use super::tags::posting::PostError;
use crate::exports::exported_range::ExportKey;
use crate::frames::messages::LinkChunk;
use crate::plans::piece_range::PieceRange;
use crate::types::{Direction, OpKey, PreparedKey};

impl PeerProtocol {
    /// Returns whether this many operations may be posted now.
    pub fn check_posts(&self, direction: Direction, count: usize) -> Result<(), PostError> {
        self.tags.check_posts(&self.cx, direction, count)
    }

    /// Prepares for this many operations, which are posted next as one batch.
    pub fn begin_batch_of(&mut self, count: usize) {
        self.tags.begin_batch(count);
    }

    /// Notes whether the posts that come next are some of a batch: nothing is planned until the
    /// batch is whole.
    pub fn handle_batch(&mut self, is_open: bool) {
        self.is_batch_open = is_open;
    }

    /// Makes room for operations that are posted next, `PORTION` at a time.
    /// Posting them allocates nothing then, until what was matched is planned.
    pub fn make_room(&mut self, direction: Direction, count: usize) -> Result<(), TryReserveError> {
        self.tags.make_room(&mut self.cx, direction, count)
    }

    /// Gives room back that nothing needs.
    pub fn give_room_back(&mut self) {
        self.tags.give_room_back(&mut self.cx);
    }

    /// Returns how many of this many sends may find a receive at once.
    pub fn matched_by(&self, count: usize) -> usize {
        self.tags.matched_by(count)
    }

    /// Returns the most bytes of the frames that this many posts queue, those of the plans
    /// included.
    pub fn frame_bytes(&self, direction: Direction, count: usize) -> usize {
        self.tags.frame_bytes(&self.cx, direction, count)
    }

    /// Posts an operation of the program, which [`check_posts`](Self::check_posts) allows. The
    /// operation ends with exactly one `Action::Complete`, or is handed out by
    /// [`take_operations`](Self::take_operations).
    #[inline]
    pub fn handle_post(&mut self, posted: NewOperation) -> OpKey {
        self.tags.handle_post(&mut self.cx, posted)
    }

    /// Posts a read or write of the program, which [`check_posts`](Self::check_posts) allows; its
    /// transfer has no other under way. The operation ends with exactly one `Action::Complete`, or
    /// is handed out by [`take_operations`](Self::take_operations).
    pub fn handle_request(&mut self, request: NewRequest) -> OpKey {
        self.one_sided.handle_request(&mut self.cx, request)
    }

    /// Lets the peer forget the list of an operation that the program has let go of for good.
    pub fn handle_unprepared(&mut self, list: PreparedKey) {
        self.one_sided.drop_list(list);
    }

    /// Sends a notification of the program by itself. Returns whether there is room for it.
    pub fn handle_note(&mut self, note: Arc<[u8]>) -> bool {
        self.one_sided.handle_note(note)
    }

    /// Returns whether any operation sends its bytes in chunks on the link.
    pub fn sends_link_chunks(&self) -> bool {
        !self.cx.schedule.link.is_empty()
    }

    /// Returns the place of the bytes of a chunk that is on its way on the link, as things stand
    /// now. `None`: nowhere.
    pub fn place_of(&self, chunk: LinkChunk) -> Option<PieceRange> {
        self.one_sided.place_of(&self.cx, chunk)
    }

    /// Returns whether a request of the peer uses any of these exports.
    pub fn serves(&self, exports: &[ExportKey]) -> bool {
        self.one_sided.serves(&self.cx, exports)
    }

    /// Exports are taken back: what uses them is to end. Returns whether anything does.
    pub fn handle_revoked(&mut self, exports: &[ExportKey]) -> bool {
        self.one_sided.handle_revoked(&mut self.cx, exports)
    }
}
