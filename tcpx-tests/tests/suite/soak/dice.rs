//! A test's dice.

use super::MAX_BYTES;

/// SplitMix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    /// Small, middle and large ones, empty ones too.
    pub(super) fn bytes(&mut self) -> u64 {
        match self.roll(4) {
            0 => self.roll(9),
            1 => self.roll(10_000),
            2 => self.roll(300_000),
            _ => self.roll(MAX_BYTES + 1),
        }
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.roll(index as u64 + 1) as usize);
        }
    }
}
