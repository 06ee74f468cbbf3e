//! Changes that an attacker on the way makes to one frame or record.

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    /// One bit in its middle is another one.
    Flip,
    /// Its last byte is missing.
    Cut,
    /// It does not pass.
    Drop,
    /// It passes twice.
    Repeat,
    /// It passes behind the next one.
    Swap,
}

impl Tampering {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Flip, Self::Cut, Self::Drop, Self::Repeat, Self::Swap];

    /// Returns what passes in the place of this, and what passes behind the next one.
    #[must_use]
    pub fn apply(self, mut whole: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Flip => {
                let middle = whole.len() / 2;
                whole[middle] ^= 1;
                (whole, Vec::new())
            }
            Self::Cut => {
                whole.pop();
                (whole, Vec::new())
            }
            Self::Drop => Default::default(),
            Self::Repeat => (whole.repeat(2), Vec::new()),
            Self::Swap => (Vec::new(), whole),
        }
    }
}
