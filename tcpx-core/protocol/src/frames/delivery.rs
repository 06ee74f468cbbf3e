//! How the bytes of a receive reach their place, as the receiver announces it.

/// How a receive is delivered. The sender needs it to know which receives may share a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The bytes are unpacked from the bounce buffer to any place.
    Unpacked,
    /// The plugin writes the bytes straight into place.
    InPlace,
    /// As [`InPlace`](Self::InPlace). The place begins where that of the receive announced just
    /// before ends, in the same registration.
    InPlaceBehind,
}

impl Delivery {
    /// Returns its number as it travels.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Unpacked => 0,
            Self::InPlace => 1,
            Self::InPlaceBehind => 2,
        }
    }

    /// Returns the delivery with this number.
    pub fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unpacked,
            1 => Self::InPlace,
            2 => Self::InPlaceBehind,
            _ => return None,
        })
    }
}
