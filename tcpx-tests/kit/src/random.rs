//! Generator of numbers from a seed: the same numbers on every machine.

/// SplitMix64: a counter, scrambled.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for each label. The same seed and label give the same numbers,
    /// whatever others were asked for.
    #[must_use]
    pub fn of(seed: u64, label: [u64; 3]) -> Self {
        Self(label.into_iter().fold(seed, |state, word| Self(state).next() ^ word))
    }

    /// The next number; all 64 bits are equally good.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below `limit`.
    ///
    /// # Panics
    /// When `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A number in `1..=most`; 1 when `most` is 0.
    pub fn up_to(&mut self, most: usize) -> usize {
        1 + self.below(most.max(1))
    }

    /// True once in `times`.
    ///
    /// # Panics
    /// When `times` is 0.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of `from`.
    ///
    /// # Panics
    /// When `from` is empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A copy of `items` in an order of its own.
    pub fn shuffled<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut items = items.to_vec();
        self.shuffle(&mut items);
        items
    }

    /// Brings items into an order of its own.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// SplitMix64's scrambling of a counter.
pub(crate) fn mixed(counter: u64) -> u64 {
    let mut mixed = counter;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let numbers = [random.next(), random.next()];
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    /// Scripts of faults name a seed.
    #[test]
    fn the_seed_and_the_label_decide_in_every_version() {
        let mut random = Random::of(7, [1, 2, 3]);
        assert_eq!([(); 3].map(|()| random.up_to(1000)), [399, 800, 54]);
    }

    #[test]
    fn a_shuffled_list_has_the_same_items() {
        let items: Vec<usize> = (0..100).collect();
        let mut shuffled = Random::new(7).shuffled(&items);
        assert_ne!(shuffled, items);
        shuffled.sort_unstable();
        assert_eq!(shuffled, items);
    }
}
