//! Limit on the work that the peer may ask for in a round. Pure.
//!
//! A frame of a few bytes may make this end look at any number of exports and pieces of a list. So
//! these are counted, and not the frames alone: other peers have their turn after a bounded number.
//! What one frame takes beyond that is missing in the rounds that follow.

/// Work of a frame. Each item that the frame makes this end look at costs 1 in addition.
pub(super) const FRAME_WORK: u64 = 8;
/// Work that is done for the peer in a round.
pub(super) const ROUND_WORK: u64 = 2048 * FRAME_WORK;

#[derive(Debug)]
pub(super) struct RoundWork {
    /// Below zero: more was done than there was for a round.
    left: i64,
    /// Whether sections of requests wait for the next round.
    pub(super) holds_sections: bool,
    #[cfg(test)]
    pub(super) spent: u64,
}

impl Default for RoundWork {
    fn default() -> Self {
        let left = ROUND_WORK as i64;
        Self {
            left,
            holds_sections: false,
            #[cfg(test)]
            spent: 0,
        }
    }
}

impl RoundWork {
    /// Begins a round.
    pub(super) fn begin_round(&mut self) {
        self.left = self.left.min(0).saturating_add(ROUND_WORK as i64);
        self.holds_sections = false;
    }

    /// Counts a frame that came.
    #[inline]
    pub(super) fn spend_frame(&mut self) {
        self.spend(FRAME_WORK);
    }

    /// Counts the work of looking at this many exports or pieces.
    pub(super) fn spend(&mut self, work: u64) {
        self.left = self.left.saturating_sub_unsigned(work);
        #[cfg(test)]
        {
            self.spent += work;
        }
    }

    /// Returns whether there was as much as there is for a round.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.left <= 0
    }
}
