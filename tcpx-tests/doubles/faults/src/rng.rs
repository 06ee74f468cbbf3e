//! Random numbers that the same seed repeats. They are for shapes and faults: nothing secret may
//! come from here.

/// A SplitMix64 stream.
#[derive(Clone, Debug)]
pub(crate) struct SeededRng {
    state: u64,
}

impl SeededRng {
    /// A stream of its own for each label. The same seed and label give the same numbers, whatever
    /// other streams were asked for.
    pub(crate) fn new(seed: u64, label: [u64; 3]) -> Self {
        let mut rng = Self { state: seed };
        for word in label {
            rng.state = rng.next() ^ word;
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `1..=most`; 1 when `most` is 0.
    pub(crate) fn up_to(&mut self, most: usize) -> usize {
        1 + (self.next() % most.max(1) as u64) as usize
    }

    /// True once in `times`, on average.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.up_to(times) == 1
    }

    /// Brings items into random order (Fisher-Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.up_to(last + 1) - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_and_the_label_decide() {
        let draw = |seed, label| {
            let mut rng = SeededRng::new(seed, label);
            std::array::from_fn::<usize, 8, _>(|_| rng.up_to(1000))
        };
        assert_eq!(draw(1, [2, 3, 4]), draw(1, [2, 3, 4]));
        assert_ne!(draw(1, [2, 3, 4]), draw(2, [2, 3, 4]));
        assert_ne!(draw(1, [2, 3, 4]), draw(1, [3, 2, 4]));
    }

    #[test]
    fn numbers_stay_in_range_and_a_shuffle_keeps_all() {
        let mut rng = SeededRng::new(7, [0; 3]);
        let mut seen = [false; 6];
        for _ in 0..200 {
            seen[rng.up_to(6) - 1] = true;
        }
        assert_eq!(seen, [true; 6]);
        let mut items: Vec<_> = (0..50).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
