//! Fate of a peer in a round.

use tcpx_testkit::Random;

/// What becomes of the peer in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerFate {
    Lives,
    /// It is stopped while the hub posts and makes progress, and continued.
    FrozenForAWhile,
    /// It is stopped and never continued: the hub leaves it.
    Frozen,
    Killed,
    /// Both ends say goodbye after the round.
    Leaves,
}

impl PeerFate {
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(60) {
            0..5 => Self::Killed,
            5 => Self::Frozen,
            6..12 => Self::FrozenForAWhile,
            12..17 => Self::Leaves,
            _ => Self::Lives,
        }
    }
}
