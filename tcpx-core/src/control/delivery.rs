//! What a receiver says of where a receive's bytes go.

/// Enough for the sender to know which receives may share a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Unpacked from the bounce buffer to any place.
    Unpacked,
    /// Straight into place.
    InPlace,
    /// Straight into place, which begins where the receive announced just before this one ends, in one
    /// registration.
    InPlaceBehind,
}

impl Delivery {
    pub(crate) fn to_wire(self) -> u8 {
        match self {
            Self::Unpacked => 0,
            Self::InPlace => 1,
            Self::InPlaceBehind => 2,
        }
    }

    pub(crate) fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unpacked,
            1 => Self::InPlace,
            2 => Self::InPlaceBehind,
            _ => return None,
        })
    }
}
