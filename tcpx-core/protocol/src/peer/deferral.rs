//! What the peer has dealt, as far as it is not planned. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::plans::piece_cursor::{ListedSection, PieceCursor};
use crate::plans::pieces::Pieces;
use crate::plans::plan::ChunkPlan;

/// Something that the peer has dealt.
#[derive(Debug)]
pub(super) enum Dealt {
    Plan(ChunkPlan),
    /// A section of a list, which begins at the cursor.
    Section {
        pieces: Arc<Pieces>,
        cursor: PieceCursor,
        section: ListedSection,
    },
}

#[derive(Debug, Default)]
pub(super) struct Deferral {
    /// In the order in which it was dealt.
    pub(super) waiting: VecDeque<Dealt>,
    /// What [it takes](Pieces::cost) to have under way what is planned of lists and has not
    /// arrived.
    pub(super) planned: u64,
}
